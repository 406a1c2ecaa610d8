"""Turn a GGUF file into a plain bfloat16 model folder; runs in the engine's environment, by file path.

::

    python dequantise.py GGUF_FILE OUTPUT_FOLDER
    python dequantise.py --missing          prints "missing: NAME NAME" (nothing after the colon when all are there)

That environment holds the engine and perhaps nothing of this project, so the script imports only the standard library
and, while it converts, the packages of `REQUIRED`. It asks no hub; its caller switches the hub clients off
(`HF_HUB_OFFLINE`, `TRANSFORMERS_OFFLINE`) and the progress bars too (`TQDM_DISABLE`).
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

REQUIRED = ("torch", "transformers", "gguf", "accelerate")


def missing_packages() -> list[str]:
    """Name the packages of `REQUIRED` that this interpreter cannot find, without importing any."""
    return [name for name in REQUIRED if importlib.util.find_spec(name) is None]


def dequantise(gguf_file: Path, output_folder: Path) -> None:
    """Write weights, configuration and tokenizer of a GGUF file as an unquantised bfloat16 folder.

    Args:
        gguf_file: the file to read; nothing else in its folder is looked at.
        output_folder: the folder to write; it is made when it does not exist.
    """
    import transformers  # noqa: PLC0415  - `--missing` must answer where it is not installed

    transformers.utils.logging.set_verbosity_error()
    source, name = str(gguf_file.parent), gguf_file.name
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, gguf_file=name)
    model = _load(source, name)
    model.save_pretrained(str(output_folder))
    tokenizer.save_pretrained(str(output_folder))


def _load(source: str, name: str) -> Any:
    """Load a GGUF file as a model of plain bfloat16 layers that can be saved."""
    import torch  # noqa: PLC0415  - as above
    import transformers  # noqa: PLC0415  - as above

    from_file = transformers.AutoModelForCausalLM.from_pretrained
    if not hasattr(transformers, "GgufConfig"):
        # Releases without GgufConfig dequantise by themselves and forget that the file was quantised.
        return from_file(source, gguf_file=name, dtype=torch.bfloat16)
    quantised = transformers.GgufConfig(dequantize=True)
    loaded = from_file(source, gguf_file=name, dtype=torch.bfloat16, quantization_config=quantised)
    if hasattr(loaded.config, "quantization_config"):
        del loaded.config.quantization_config
    # Releases with it refuse to save what came through a quantizer, dequantised or not: move the weights into a model
    # that never met one.
    plain = type(loaded)._from_config(loaded.config, dtype=torch.bfloat16)  # noqa: SLF001  - the public way reloads
    plain.load_state_dict(loaded.state_dict())
    return plain


def _leave_own_folder_off_the_path() -> None:
    """Take this script's folder from the import path.

    Python puts it first, where this project's `server.py` or `client.py` would hide a module of that name from the
    engine's packages.
    """
    own = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != own]


def main(arguments: list[str]) -> int:
    """Run one of the two forms shown above.

    Args:
        arguments: the command line without the script's name.

    Returns:
        The exit status: 0, or 2 for a wrong command line. A failed conversion leaves by its exception.
    """
    _leave_own_folder_off_the_path()
    if arguments == ["--missing"]:
        sys.stdout.write(" ".join(["missing:", *missing_packages()]) + "\n")
        return 0
    if len(arguments) != 2:
        sys.stderr.write("usage: dequantise.py GGUF_FILE OUTPUT_FOLDER | --missing\n")
        return 2
    dequantise(Path(arguments[0]), Path(arguments[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
