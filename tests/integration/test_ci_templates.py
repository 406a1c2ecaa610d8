"""The CI files of the documentation: valid, without an option that is not there, and run where that can be done."""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jsonschema
import pytest
import yaml

from pytest_specgate.cli import _parser
from pytest_specgate.option_table import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.integration.conftest import GateFolder

CI: Final = Path(__file__).parents[2] / "docs" / "ci"
WORKFLOWS: Final = tuple(sorted(path.name for path in (CI / "github-actions").glob("*.yml")))
SCHEMAS: Final = {
    **{f"github-actions/{name}": "github-workflows" for name in WORKFLOWS},
    "gitlab/gitlab-ci.yml": "gitlab-ci",
    "buildkite/pipeline.yml": "buildkite",
}
MARKER: Final = "<!-- specgate -->"
FLAGS: Final = {option.flag for option in OPTIONS}

_GATES: Final = """\
    PAIR = pair(arm("off"), arm("new", seed=1), profile=load(requests={1: 10}), rounds=1)


    @gate(PAIR, not_worse("output_throughput", at=1, margin="70%", noise=FLOOR))
    def test_speed():
        pass


    @gate(PAIR, not_worse_than_baseline("output_throughput", at=1, margin="90%", cross_window=FLOOR))
    def test_trend():
        pass
    """

# Notes what a command of GitHub is asked, and answers from variables as the filter, its last word, makes of them.
_GH: Final = """\
#!/bin/sh
printf '%s\\n' "$*" >> "$GH_ASKED"
case "$1 $2" in
  "pr list") answer=$GH_PULLS ;;
  "api "*) answer=$GH_RUN ;;
esac
for word; do filter=$word; done
if [ -n "$answer" ]; then printf '%s' "$answer" | jq -r "$filter"; fi
"""

# Another job measures here at the same time, and its window is not of this run.
_FOREIGN: Final = "20990101T000000.000Z-ffffffffffff"

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq to answer as gh does")


@dataclasses.dataclass(frozen=True)
class Script:
    """A shell script of a job.

    Attributes:
        file: where it stands, below ``docs/ci``.
        name: of its job, and of its step.
        text: as the shell gets it.
        shell: that runs it.
    """

    file: str
    name: str
    text: str
    shell: str = "bash"

    @property
    def commands(self) -> Iterator[list[str]]:
        """Commands of ours, as words; what the shell would put in for variables stays as it is written."""
        for line in self.text.replace("\\\n", " ").splitlines():
            if line.strip().startswith(("pytest ", "specgate ")):
                words = shlex.split(line, comments=True)
                ends = [place for place, word in enumerate(words) if word in {"||", "&&", "|"}]
                yield words[: ends[0]] if ends else words


@cache
def loaded(file: str) -> dict[Any, Any]:
    """Return a file; `on` is a word of YAML 1.1 that means true."""
    found: dict[Any, Any] = yaml.safe_load((CI / file).read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in found.items()}


def scripts() -> Iterator[Script]:
    """Yield the shell scripts of all files."""
    for name in WORKFLOWS:
        file = f"github-actions/{name}"
        for job, content in loaded(file)["jobs"].items():
            for step in content["steps"]:
                if "run" in step:
                    yield Script(file, f"{job}: {step['name']}", step["run"])
    for job, content in loaded("gitlab/gitlab-ci.yml").items():
        for part in ("before_script", "script", "after_script"):
            if isinstance(content, dict) and part in content:
                yield Script("gitlab/gitlab-ci.yml", f"{job}: {part}", "\n".join(content[part]), shell="sh")
    for step in loaded("buildkite/pipeline.yml")["steps"]:
        if "command" in step:
            yield Script("buildkite/pipeline.yml", step["label"], step["command"].replace("$$", "$"))


SCRIPTS: Final = {f"{script.file} {script.name}": script for script in scripts()}


def script(file: str, name: str) -> str:
    """Return the text of a script."""
    return SCRIPTS[f"{file} {name}"].text


@pytest.mark.parametrize("file", SCHEMAS)
def test_files_are_valid(file: str) -> None:
    """Each file is YAML that fits the published schema of its system."""
    folder = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((folder / f"{SCHEMAS[file]}.json").read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)

    assert [error.message for error in validator.iter_errors(loaded(file))] == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_are_shell(name: str) -> None:
    """Each script can be read by its shell, and shellcheck, where it is installed, has nothing to say."""
    text, shell = SCRIPTS[name].text, SCRIPTS[name].shell
    read = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert read.stderr == ""
    if shutil.which("shellcheck"):
        command = ["shellcheck", f"--shell={shell}", "-"]
        assert subprocess.run(command, input=text, capture_output=True, text=True, check=False).stdout == ""


@pytest.mark.parametrize("name", [name for name, found in SCRIPTS.items() if [*found.commands]])
def test_no_option_that_is_not_there(name: str) -> None:
    """Options of pytest are in the table of options or junit's, commands of `specgate` are read by its own parser."""
    for program, *words in SCRIPTS[name].commands:
        if program == "specgate":
            assert _parser().parse_args([word for word in words if not word.startswith("${")]).run is not None
        else:
            assert {word.partition("=")[0] for word in words if word.startswith("-")} <= FLAGS | {"--junitxml"}


def test_every_system_runs_the_same_gate() -> None:
    """The command of a gate is one, wherever it runs, and the page shows it; results lie where a system lets them."""
    page = (CI / "index.md").read_text(encoding="utf-8")
    shown = Script("index.md", "", page.partition("```\npytest")[2].partition("```")[0])
    found = [words for one in SCRIPTS.values() for words in one.commands if "--specgate-require-gates=1" in words]
    alike = [[word for word in words if "results" not in word] for words in found]

    assert len(found) == 3
    assert alike[0] == alike[1] == alike[2]
    assert [word for word in shlex.split(shown.text.replace("\\\n", " ")) if "results" not in word] == alike[0][1:]


@pytest.mark.parametrize("page", sorted(path.name for path in CI.glob("*.md")))
def test_pages_name_what_is_there(page: str) -> None:
    """Pages name options of the plugin that exist, and link to files that do."""
    text = (CI / page).read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]

    assert set(re.findall(r"--specgate-[a-z-]*[a-z]", text)) <= FLAGS
    assert [link for link in links if link and not (CI / link).exists()] == []


def test_jobs_of_github_that_measure_cannot_write() -> None:
    """Code of a change runs where nothing but reading is allowed; comments run nothing of it."""
    for name in WORKFLOWS:
        whole = loaded(f"github-actions/{name}")
        assert "pull_request_target" not in whole["on"]
        for job in whole["jobs"].values():
            rights = job.get("permissions", whole["permissions"])
            own = job["runs-on"] == ["self-hosted", "linux", "gpu"]
            assert not own or rights == {"contents": "read"}
            assert not own or "secrets." not in json.dumps(job)
    (comment,) = loaded("github-actions/comment.yml")["jobs"].values()
    assert [step.get("uses", "").partition("@")[0] for step in comment["steps"]] == [
        "actions/download-artifact",
        "actions/github-script",
    ]


def test_jobs_of_gitlab_that_measure_know_no_token() -> None:
    """Tokens are variables of an environment, and no job on the machine with the GPU has one."""
    jobs = {
        name: job for name, job in loaded("gitlab/gitlab-ci.yml").items() if isinstance(job, dict) and "rules" in job
    }
    measure = {name for name, job in jobs.items() if job.get("extends") == ".on-the-gpu"}
    tokens = {name for name, job in jobs.items() if re.search("SPECGATE_[A-Z]+_TOKEN", json.dumps(job))}

    assert measure == {"gate", "calibrate"}
    assert {name for name, job in jobs.items() if "environment" in job} == tokens == jobs.keys() - measure
    assert [name for name in tokens if "tags" in jobs[name]] == []
    assert [
        name for name in jobs.keys() - {"gate", "note"} if "== $CI_DEFAULT_BRANCH" not in str(jobs[name]["rules"])
    ] == []


def test_steps_of_buildkite_that_measure_write_nothing_but_artifacts() -> None:
    """What writes to the page or to baselines runs elsewhere, and baselines are of the default branch."""
    steps = loaded("buildkite/pipeline.yml")["steps"]
    measure = [step for step in steps if step.get("agents") == {"queue": "gpu"}]
    accept = [step for step in steps if "accept" in step["label" if "label" in step else "key"]]

    assert [step["key"] if "key" in step else step["label"] for step in measure] == [
        "gate",
        ":straight_ruler: calibrate",
    ]
    assert [step for step in measure if "buildkite-agent" in step["command"]] == []
    assert len(accept) == 2
    for step in accept:
        assert "build.branch == pipeline.default_branch && build.pull_request.id == null" in step["if"]


def test_what_writes_to_main_is_of_main() -> None:
    """Calibrations and baselines start from the default branch, whatever branch somebody chose for the workflow."""
    for name in ("accept.yml", "calibrate.yml"):
        for job in loaded(f"github-actions/{name}")["jobs"].values():
            (checkout,) = (step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@"))
            assert checkout["with"]["ref"] == "${{ github.event.repository.default_branch }}"


def test_workflows_name_the_shell_that_is_tried_here() -> None:
    """GitHub gives `-o pipefail` only where the shell is named, and the scripts are tried with it."""
    for file in {one.file for one in SCRIPTS.values() if one.file.startswith("github-actions/")}:
        assert loaded(file)["defaults"] == {"run": {"shell": "bash"}}


@dataclasses.dataclass(frozen=True)
class Job:
    """A checkout in which the scripts of jobs run.

    Attributes:
        folder: of the checkout.
        environment: of each script.
    """

    folder: Path
    environment: Mapping[str, str]

    def run(self, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script as GitHub does where a workflow names bash as its shell."""
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", text]
        environment = {**self.environment, **variables}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=120
        )


def put_gh(folder: Path) -> None:
    """Put a stand-in for the command `gh` into a folder."""
    (folder / "gh").write_text(_GH, encoding="utf-8")
    (folder / "gh").chmod(0o755)


@pytest.fixture(scope="module")
def job(new_gate_folder: Callable[[], GateFolder]) -> Job:
    """A project with gates, cloned from a repository, on a machine with the fake engine."""
    gates = new_gate_folder()
    folder, home = gates.folder, gates.folder / "home"
    for place in ("benchmarks", "baselines", "home", "bin"):
        (folder / place).mkdir()
    gates.write("test_gate.py", _GATES).rename(folder / "benchmarks" / "test_gate.py")
    put_gh(folder / "bin")
    (folder / ".gitignore").write_text("/*\n!/baselines\n", encoding="utf-8")
    git = "git init -q --bare home/origin.git; git init -q .; git remote add origin home/origin.git"
    subprocess.run(["bash", "-ec", git], cwd=folder, check=True)
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = {
        "PATH": path, "HOME": str(home), "RUNNER_TEMP": str(home), "GITHUB_REPOSITORY": "us/serving",
        "GITHUB_ACTOR": "somebody", "GH_ASKED": str(home / "asked.txt"), "GIT_CONFIG_NOSYSTEM": "1",
        "GITHUB_STEP_SUMMARY": str(home / "summary.md"), "SPECGATE_MISSING_BASELINE": "skip",
        "SPECGATE_ENGINE_COMMAND": "python -m pytest_specgate.testing.fake_vllm", "SPECGATE_CALIBRATE_BOOTS": "2",
    }  # fmt: skip
    return Job(folder, gates.environment(variables))


@pytest.fixture(scope="module")
def gated(job: Job) -> subprocess.CompletedProcess[str]:
    """The steps of the gate, once; a gate of another pull request has measured meanwhile."""
    found = job.run(script("github-actions/gate.yml", "gate: Gate"))
    foreign = job.folder / "home" / "specgate" / "us" / "serving" / _FOREIGN
    foreign.mkdir()
    (foreign / "record.json").write_text("not_worse_than_baseline", encoding="utf-8")
    job.run(script("github-actions/gate.yml", "gate: Gather the records of this run")).check_returncode()
    return found


def test_the_gate_leaves_every_file(job: Job, gated: subprocess.CompletedProcess[str]) -> None:
    """The command runs as it is written, and leaves reports, the summary of the job, and the records of this run."""
    report = (job.folder / "report" / "specgate.md").read_text(encoding="utf-8")

    assert gated.returncode == 0, gated.stdout + gated.stderr
    assert report.splitlines()[0] == MARKER
    assert (job.folder / "home" / "summary.md").read_text(encoding="utf-8").startswith(MARKER)
    assert json.loads((job.folder / "report" / "specgate.json").read_text(encoding="utf-8"))["exit_status"] == 0
    assert {path.name for path in (job.folder / "report").iterdir()} >= {"junit.xml", "specgate.html"}
    assert len([*(job.folder / "windows").glob("*/record.json")]) == 1
    assert not (job.folder / "windows" / _FOREIGN).exists()


def gathering() -> dict[str, str]:
    """Return the shell of each system that gathers records."""
    name = ":vertical_traffic_light: gate"
    return {
        "github": script("github-actions/gate.yml", "gate: Gather the records of this run"),
        "gitlab": script("gitlab/gitlab-ci.yml", "gate: after_script"),
        "buildkite": f"status=0\n{script('buildkite/pipeline.yml', name).partition('|| status=$?')[2]}",
    }


@pytest.mark.parametrize("system", gathering())
def test_only_windows_of_this_run_are_kept(system: str, tmp_path: Path) -> None:
    """What other jobs write to the common folder of results is not taken for this run's; what was not told of stays."""
    results = tmp_path / "home" / "specgate" / "us" / "serving"
    for name in ("mine", "foreign"):
        (results / name).mkdir(parents=True)
        (results / name / "record.json").write_text(name, encoding="utf-8")
    (tmp_path / "report").mkdir()
    variables = {
        "GITHUB_REPOSITORY": "us/serving",
        "CI_PROJECT_PATH": "us/serving",
        "BUILDKITE_PIPELINE_SLUG": "us/serving",
    }
    job = Job(tmp_path, {**os.environ, "HOME": str(tmp_path / "home"), **variables})
    job.run(gathering()[system]).check_returncode()
    before = [*(tmp_path / "windows").iterdir()]
    told = {"windows": [{"record": str(results / "mine" / "record.json")}]}
    (tmp_path / "report" / "specgate.json").write_text(json.dumps(told), encoding="utf-8")
    job.run(gathering()[system]).check_returncode()

    assert before == []
    assert [path.name for path in (tmp_path / "windows").iterdir()] == ["mine"]
    assert (tmp_path / "windows" / "mine" / "record.json").read_text(encoding="utf-8") == "mine"
    assert {path.name for path in results.iterdir()} == {"mine", "foreign"}


def test_a_person_accepts_what_was_measured(job: Job, gated: subprocess.CompletedProcess[str]) -> None:
    """The records become baselines on a branch of their own, and a pull request with the reason is opened."""
    windows = str(job.folder / "windows")
    accepted = job.run(
        script("github-actions/accept.yml", "accept: Accept"), REASON="it's new", WINDOWS=windows, ANYWAY=""
    )
    proposed = job.run(
        script("github-actions/accept.yml", "accept: Propose"),
        BRANCH="specgate/accept-7", TITLE="specgate: baselines of run 7", REASON="it's new", RUN="here",
    )  # fmt: skip
    files = job.run("git -C home/origin.git ls-tree -r --name-only specgate/accept-7").stdout

    assert (accepted.returncode, proposed.returncode) == (0, 0), accepted.stderr + proposed.stderr
    assert re.fullmatch(r"baselines/[^/]+/\S+\.json\n", files)
    asked = (job.folder / "home" / "asked.txt").read_text(encoding="utf-8")
    assert "pr create --head specgate/accept-7 --title specgate: baselines of run 7 --body it's new (windows" in asked


def test_a_calibration_is_proposed(job: Job, gated: subprocess.CompletedProcess[str]) -> None:
    """What a calibration wrote reaches a branch, and a second one that is the same proposes nothing."""
    calibrated = job.run(script("github-actions/calibrate.yml", "calibrate: Calibrate"))
    found = job.folder / "home" / "noise"
    shutil.copytree(job.folder / "baselines", found)
    propose, given = script("github-actions/calibrate.yml", "propose: Propose"), {"BODY": "x", "TITLE": "t"}
    first = job.run(propose, FOUND=str(found), BRANCH="specgate/noise", **given)
    again = job.run(propose, FOUND=str(found), BRANCH="specgate/noise", **given)

    assert (calibrated.returncode, first.returncode, again.returncode) == (0, 0, 0), calibrated.stdout + first.stderr
    assert "/noise.json\n" in job.run("git -C home/origin.git ls-tree -r --name-only specgate/noise").stdout
    assert again.stdout == "nothing new\n"
