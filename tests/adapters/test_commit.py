"""Which commit is measured: a note in a record, and never a reason to fail."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.commit import VARIABLES, commit_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


def _environment(folder: Path, **variables: str) -> dict[str, str]:
    """Return an environment in which git knows nobody's configuration, and looks for no repository above a folder."""
    own = {"HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    return {"PATH": os.environ["PATH"], **own, **variables}


def _git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=one", "-c", "user.email=one@example.org"]
    command = ["git", "-C", str(folder), *who, *words]
    done = subprocess.run(command, env=_environment(folder), capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit of one file."""
    folder = tmp_path / "project"
    folder.mkdir()
    _git(folder, "init", "--quiet")
    (folder / "code.py").write_text("a = 1\n", encoding="utf-8")
    _git(folder, "add", "code.py")
    _git(folder, "commit", "--quiet", "--message", "one")
    return folder


@needs_git
def test_git_tells_the_commit(repository: Path) -> None:
    """The whole hash, from a folder inside the repository too."""
    inside = repository / "benchmarks"
    inside.mkdir()
    head = _git(repository, "rev-parse", "HEAD")

    assert commit_of(repository, _environment(repository)) == head
    assert commit_of(inside, _environment(repository)) == head
    assert len(head) == 40


@needs_git
def test_a_change_of_a_tracked_file_is_marked(repository: Path) -> None:
    """What was measured then is not what the commit holds; a new file, as a record is, changes nothing."""
    head = _git(repository, "rev-parse", "HEAD")
    (repository / "record.json").write_text("{}", encoding="utf-8")
    with_record = commit_of(repository, _environment(repository))
    (repository / "code.py").write_text("a = 2\n", encoding="utf-8")

    assert with_record == head
    assert commit_of(repository, _environment(repository)) == f"{head}-dirty"


@needs_git
def test_a_repository_without_a_commit_has_none(tmp_path: Path) -> None:
    """There is no HEAD yet."""
    _git(tmp_path, "init", "--quiet")

    assert commit_of(tmp_path, _environment(tmp_path)) == ""


def test_a_folder_that_is_no_repository_has_no_commit(tmp_path: Path) -> None:
    """Nor has one that does not exist."""
    assert commit_of(tmp_path, _environment(tmp_path)) == ""
    assert commit_of(tmp_path / "never", _environment(tmp_path)) == ""


def test_without_git_there_is_no_commit(tmp_path: Path) -> None:
    """A machine without git measures as well."""
    assert commit_of(tmp_path, _environment(tmp_path, PATH=str(tmp_path))) == ""


def _stub(folder: Path, script: str) -> dict[str, str]:
    """Return an environment in which git is a script."""
    git = folder / "git"
    git.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    git.chmod(0o755)
    return _environment(folder, PATH=f"{folder}:{os.environ['PATH']}")


def test_a_slow_git_is_not_waited_for(tmp_path: Path) -> None:
    """A repository on a dead network drive costs the limit, and no more."""
    assert commit_of(tmp_path, _stub(tmp_path, "exec sleep 60"), limit_s=0.2) == ""


def test_a_commit_whose_changes_are_unknown_is_none(tmp_path: Path) -> None:
    """To call it clean would be a claim that nobody has checked."""
    script = 'case "$*" in *rev-parse*) echo c0ffee;; *) exit 1;; esac'

    assert commit_of(tmp_path, _stub(tmp_path, script)) == ""


@pytest.mark.parametrize("name", VARIABLES)
def test_the_environment_comes_first(tmp_path: Path, name: str) -> None:
    """A CI job knows its commit, also where it has no repository."""
    environment = _stub(tmp_path, "echo of-git")

    assert commit_of(tmp_path, {**environment, name: " c0ffee\n"}) == "c0ffee"


@pytest.mark.parametrize(
    ("variables", "commit"),
    [
        ({"SPECGATE_COMMIT": "own", "GITHUB_SHA": "ci"}, "own"),
        ({"SPECGATE_COMMIT": "", "GITHUB_SHA": "ci"}, "ci"),
        ({"GITHUB_SHA": "ci", "CI_COMMIT_SHA": "lab"}, "ci"),
        ({"SPECGATE_COMMIT": "two words", "GIT_COMMIT": "last"}, "last"),
        ({"SPECGATE_COMMIT": "x" * 101}, ""),
        ({"SPECGATE_COMMIT": "x" * 100}, "x" * 100),
        ({"SPECGATE_COMMIT": "esc\x1b[31m"}, ""),
    ],
)
def test_the_first_variable_with_a_name_counts(tmp_path: Path, variables: Mapping[str, str], commit: str) -> None:
    """What is empty, or no name of a commit, is passed over."""
    assert commit_of(tmp_path, {**_environment(tmp_path), **variables}) == commit
