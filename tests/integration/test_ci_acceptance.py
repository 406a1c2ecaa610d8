"""The CI files that make baselines of records: whose records, and whose pull request; run here against stand-ins."""

from __future__ import annotations

import io
import json
import os
import subprocess
import zipfile
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.integration.test_ci_comments import GitLab, needs_tools, serving
from tests.integration.test_ci_templates import Job, loaded, needs_jq, put_gh, script

if TYPE_CHECKING:
    from pathlib import Path

_RUN: Final = {
    "path": ".github/workflows/gate.yml", "head_repository": {"full_name": "us/serving"}, "head_branch": "main",
    "event": "schedule", "status": "completed", "conclusion": "failure",
}  # fmt: skip

# Writes what a baseline would be, and what it was asked.
_SPECGATE: Final = """\
#!/bin/sh
mkdir -p baselines
printf '%s\\n' "$*" > baselines/asked.json
"""


def checked(folder: Path, number: str, run: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run the first step of accept.yml for a run of which GitHub tells this."""
    put_gh(folder)
    variables = {
        **os.environ, "PATH": os.pathsep.join([str(folder), os.environ["PATH"]]), "GH_ASKED": str(folder / "asked.txt"),
        "GITHUB_REPOSITORY": "us/serving", "MAIN": "main", "RUN": number, "GH_RUN": json.dumps(run),
    }  # fmt: skip
    return Job(folder, variables).run(script("github-actions/accept.yml", "accept: Check the run"))


@needs_jq
@pytest.mark.parametrize(
    "told",
    [{}, {"event": "workflow_dispatch"}, {"path": ".github/workflows/gate.yml@main"}, {"conclusion": "success"}],
)
def test_a_run_of_main_is_accepted(told: dict[str, str], tmp_path: Path) -> None:
    """The gate of the default branch, by schedule or by hand, green or red."""
    found = checked(tmp_path, "7", {**_RUN, **told})

    assert (found.returncode, found.stdout) == (0, ""), found.stderr
    assert (tmp_path / "asked.txt").read_text(encoding="utf-8").startswith("api repos/us/serving/actions/runs/7 --jq ")


@needs_jq
@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"event": "pull_request"}, "gate.yml of us/serving, branch main, pull_request, completed"),
        ({"event": "pull_request", "head_repository": {"full_name": "them/serving"}}, "gate.yml of them/serving"),
        ({"head_repository": {"full_name": "them/serving"}}, "gate.yml of them/serving"),
        ({"head_branch": "fast"}, "branch fast"),
        ({"path": ".github/workflows/other.yml"}, "other.yml of us/serving"),
        ({"status": "in_progress"}, "schedule, in_progress"),
    ],
)
def test_other_runs_are_refused(told: dict[str, Any], words: str, tmp_path: Path) -> None:
    """Records of a pull request, of a branch, or of another workflow could have been written by anyone."""
    found = checked(tmp_path, "7", {**_RUN, **told})

    assert found.returncode == 1
    assert found.stdout.startswith("run 7 is .github/workflows/")
    assert words in found.stdout


@pytest.mark.parametrize("number", ["", "7/../8", "main"])
def test_a_run_is_named_by_its_number(number: str, tmp_path: Path) -> None:
    """What is no number is not asked about."""
    found = checked(tmp_path, number, _RUN)

    assert (found.returncode, found.stdout) == (1, "a run is named by its number, the last part of its address\n")
    assert not (tmp_path / "asked.txt").exists()


def test_the_run_is_checked_before_anything_of_it_is_taken() -> None:
    """The check is the first step."""
    first, *_ = loaded("github-actions/accept.yml")["jobs"]["accept"]["steps"]

    assert first["name"] == "Check the run"


def _artifacts() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("windows/w/record.json", "not_worse_than_baseline")
        archive.writestr("windows/other/record.json", "{}")
    return written.getvalue()


def accepted(folder: Path, number: str, **told: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the job `accept` of GitLab for a job of which GitLab tells this, and return what it asked, too.

    Args:
        folder: of the checkout.
        number: of the job.
        told: what differs from a gate of main by schedule.
    """
    job = {"name": told.get("name", "gate"), "ref": told.get("ref", "main"), "pipeline": {"id": 5}}
    answers = {
        "/projects/11/jobs/9": job,
        "/projects/11/pipelines/5": {"source": told.get("source", "schedule")},
        "/projects/11/jobs/9/artifacts": _artifacts(),
    }
    (folder / "bin").mkdir()
    (folder / "bin" / "specgate").write_text(_SPECGATE, encoding="utf-8")
    (folder / "bin" / "specgate").chmod(0o755)
    make = "git init -q --bare origin.git; git -C origin.git config receive.advertisePushOptions true; git init -q ."
    subprocess.run(["sh", "-ec", make], cwd=folder, check=True)
    install, text = loaded("gitlab/gitlab-ci.yml")["accept"]["script"]
    assert install.startswith("python -m pip install")
    with serving(GitLab([], answers)) as gitlab:
        variables = {
            **os.environ, "PATH": os.pathsep.join([str(folder / "bin"), os.environ["PATH"]]),
            "CI_API_V4_URL": f"http://127.0.0.1:{gitlab.server_port}", "CI_PROJECT_ID": "11", "GATE_JOB_ID": number,
            "CI_DEFAULT_BRANCH": "main", "CI_SERVER_HOST": "gitlab.test", "CI_PROJECT_PATH": "us/serving",
            "SPECGATE_PUSH_TOKEN": "a-token", "REASON": "it's new", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{folder}/origin.git.insteadOf",
            "GIT_CONFIG_VALUE_0": "https://specgate:a-token@gitlab.test/us/serving.git",
        }  # fmt: skip
        done = subprocess.run(
            ["sh", "-ec", text], cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=60
        )
        assert {token for _, _, token, _ in gitlab.asked} <= {"Bearer a-token"}
        return done, [path for _, path, _, _ in gitlab.asked]


@needs_tools
def test_a_job_of_main_is_accepted_on_gitlab(tmp_path: Path) -> None:
    """The windows that claim something of a baseline are accepted, and pushed to a branch of their own."""
    done, _ = accepted(tmp_path, "9")
    shown = ["git", "-C", "origin.git", "show", "specgate/accept-9:baselines/asked.json"]
    asked = subprocess.run(shown, cwd=tmp_path, capture_output=True, text=True, check=False).stdout

    assert done.returncode == 0, done.stdout + done.stderr
    assert asked == "baseline accept gate/windows/w/ --reason it's new\n"


@needs_tools
@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"source": "merge_request_event"}, "gate of main, merge_request_event"),
        ({"ref": "refs/merge-requests/3/head", "source": "merge_request_event"}, "gate of refs/merge-requests/3/head"),
        ({"ref": "fast"}, "gate of fast, schedule"),
        ({"name": "other"}, "other of main, schedule"),
    ],
)
def test_other_jobs_are_refused_on_gitlab(told: dict[str, str], words: str, tmp_path: Path) -> None:
    """A job that is no nightly gate of the default branch is refused before its artifacts are taken."""
    done, asked = accepted(tmp_path, "9", **told)

    assert done.returncode == 1
    assert done.stdout.startswith(f"job 9 is {words}")
    assert asked == ["/projects/11/jobs/9", "/projects/11/pipelines/5"]


@needs_tools
def test_a_job_is_named_by_its_number_on_gitlab(tmp_path: Path) -> None:
    """What is no number is not asked about."""
    done, asked = accepted(tmp_path, "9/../8")

    assert (done.returncode, asked) == (1, [])
    assert done.stdout == "GATE_JOB_ID is the number of a job, the last part of its address\n"


@needs_jq
@pytest.mark.parametrize("file", ["accept.yml: accept", "calibrate.yml: propose"])
@pytest.mark.parametrize(
    ("pulls", "act"),
    [
        ([{"number": 5, "isCrossRepository": True}, {"number": 6, "isCrossRepository": False}], "pr edit 6 --title t"),
        ([{"number": 5, "isCrossRepository": True}], "pr create --head specgate/x --title t"),
        ([], "pr create --head specgate/x --title t"),
    ],
)
def test_an_open_request_of_ours_is_changed(file: str, pulls: list[Any], act: str, tmp_path: Path) -> None:
    """A request that is open for the branch is changed, and never one of a fork whose branch has that name."""
    name, _, job = file.partition(": ")
    put_gh(tmp_path)
    variables = {
        "PATH": os.pathsep.join([str(tmp_path), os.environ["PATH"]]), "GH_ASKED": str(tmp_path / "asked.txt"),
        "BRANCH": "specgate/x", "TITLE": "t", "BODY": "b", "REASON": "r", "RUN": "u", "GITHUB_ACTOR": "a",
    }  # fmt: skip
    text = script(f"github-actions/{name}", f"{job}: Propose")
    propose = text[text.index("# Forks may have a branch") :]
    found = Job(tmp_path, {**os.environ, **variables}).run(f"body=b\n{propose}", GH_PULLS=json.dumps(pulls))
    asked = (tmp_path / "asked.txt").read_text(encoding="utf-8").splitlines()

    assert (found.returncode, found.stderr) == (0, "")
    assert asked[0].startswith("pr list --head specgate/x --state open --json number,isCrossRepository")
    assert asked[-1].startswith(act)
