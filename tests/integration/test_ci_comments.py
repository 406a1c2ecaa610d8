"""The comments of the CI files: one a change, changed in place, found by its marker; run here against stand-ins."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from pytest_specgate.reporting.markdown import COMMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

CI: Final = Path(__file__).parents[2] / "docs" / "ci"
MARKER: Final = "<!-- specgate -->"

_RUN_JS: Final = """
const [script, event, comments] = process.argv.slice(2).map((text, at) => at ? JSON.parse(text) : text);
const done = [];
const note = (name) => async (given) => { done.push([name, given]); };
const github = {
  paginate: async (what, given) => comments,
  rest: {
    pulls: { list: async (given) => { done.push(["list", given]); return { data: event.pulls }; } },
    issues: { listComments: null, createComment: note("create"), updateComment: note("update") },
  },
};
const context = { repo: { owner: "us", repo: "serving" }, payload: { workflow_run: event.run } };
const core = { info: (text) => { done.push(["info", text]); } };
const AsyncFunction = (async () => {}).constructor;
new AsyncFunction("github", "context", "core", "require", script)(github, context, core, require)
  .then(() => console.log(JSON.stringify(done)));
"""


def loaded(file: str) -> Any:
    """Return a file of the documentation."""
    return yaml.safe_load((CI / file).read_text(encoding="utf-8"))


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node to run the script of a comment")
needs_tools = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("jq")), reason="there is no curl and jq to run the script of a note"
)


def commented(folder: Path, pulls: list[Any], comments: list[Any], *, report: str | None) -> list[Any]:
    """Run the script of comment.yml, and return what it asked of GitHub."""
    if report is not None:
        (folder / "specgate.md").write_text(report, encoding="utf-8")
    (folder / "run.cjs").write_text(_RUN_JS, encoding="utf-8")
    text = loaded("github-actions/comment.yml")["jobs"]["comment"]["steps"][1]["with"]["script"]
    run = {
        "id": 5, "html_url": "u", "head_sha": "a" * 40, "head_branch": "b", "conclusion": "failure",
        "head_repository": {"owner": {"login": "o"}}, "display_title": "specgate #4",
    }  # fmt: skip
    event = {"run": run, "pulls": pulls}
    command = ["node", str(folder / "run.cjs"), text, json.dumps(event), json.dumps(comments)]
    variables = {**os.environ, "REPORT": str(folder / "specgate.md")}
    shown = subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout
    done: list[Any] = json.loads(shown)
    return done


THIS: Final = {"number": 3, "head": {"sha": "a" * 40}}
OTHER: Final = {"number": 9, "head": {"sha": "b" * 40}}


@needs_node
@pytest.mark.parametrize(
    ("login", "body", "act"),
    [
        ("github-actions[bot]", f"{MARKER}\nold", {"comment_id": 7}),
        ("github-actions[bot]", "of another workflow", {"issue_number": 3}),
        ("somebody", f"{MARKER}\nquoted", {"issue_number": 3}),
    ],
)
def test_a_comment_on_github_is_changed_in_place(login: str, body: str, act: dict[str, int], tmp_path: Path) -> None:
    """What is ours is changed, and nothing else; GitHub says which request it is, and nobody is called by name."""
    comments = [{"id": 7, "user": {"login": login}, "body": body}]
    listed, (name, given) = commented(tmp_path, [OTHER, THIS], comments, report=f"{MARKER}\nhello @everybody")

    assert listed == ["list", {"owner": "us", "repo": "serving", "state": "open", "head": "o:b"}]
    assert name == ("update" if "comment_id" in act else "create")
    assert {key: given[key] for key in act} == act
    assert given["body"] == f"{MARKER}\nhello @\u200beverybody\n\n[Run 5](u) of commit {'a' * 12}"


@needs_node
def test_a_commit_that_is_no_request_any_more_gets_no_comment(tmp_path: Path) -> None:
    """A request that was pushed to meanwhile has another run: nothing is written."""
    done = commented(tmp_path, [OTHER], [], report=f"{MARKER}\n")

    assert [name for name, _ in done] == ["list", "info"]


@needs_node
@pytest.mark.parametrize("report", [None, "no marker"])
def test_a_run_without_a_report_says_so(report: str | None, tmp_path: Path) -> None:
    """A run that left no report, or something else in its place, gets a comment that can be replaced later."""
    _, (name, given) = commented(tmp_path, [THIS], [], report=report)

    assert name == "create"
    assert given["body"].startswith(f"{MARKER}\n\nThe gate left no report (failure).")


@needs_node
@pytest.mark.parametrize(("numbers", "act"), [((3, 4), 4), ((4, 5), 4), ((3, 5), None)])
def test_two_requests_of_one_branch_are_told_apart(numbers: tuple[int, ...], act: int | None, tmp_path: Path) -> None:
    """Both end with the same commit: the name of the run tells which it measured, and without it nothing is written."""
    pulls = [{**THIS, "number": number} for number in numbers]
    _, (name, given) = commented(tmp_path, pulls, [], report=f"{MARKER}\n")

    assert (name, given["issue_number"] if act else None) == ("create" if act else "info", act)


def test_runs_are_named_as_comments_look_for_them() -> None:
    """The gate names its run after its request, and the comments of one request wait for each other."""
    comment = loaded("github-actions/comment.yml")

    assert "format('specgate #{0}', github.event.pull_request.number)" in loaded("github-actions/gate.yml")["run-name"]
    assert "`specgate #${one.number}`" in comment["jobs"]["comment"]["steps"][1]["with"]["script"]
    assert "workflow_run.display_title" in comment["concurrency"]["group"]
    assert comment["concurrency"]["cancel-in-progress"] is False


@needs_node
@pytest.mark.parametrize(("over", "kept", "link"), [(-400, True, True), (0, True, False), (1, False, True)])
def test_a_report_is_never_cut(over: int, kept: bool, link: bool, tmp_path: Path) -> None:
    """A report as long as the plugin may make it is shown whole; a longer one is named, and nothing of it is shown."""
    report = f"{MARKER}\n```text\n".ljust(COMMENT_BYTES + over - 4, "x") + "\n```"
    _, (_, given) = commented(tmp_path, [THIS], [], report=report)

    assert len(given["body"]) <= COMMENT_BYTES
    assert given["body"].startswith(report if kept else f"{MARKER}\n\nThe report is too long for a comment: ")
    assert ("[Run 5](u)" in given["body"]) is link


class GitLab(ThreadingHTTPServer):
    """The part of GitLab's API that the jobs use.

    Args:
        notes: that a merge request has.
        answers: to other paths.
    """

    def __init__(self, notes: list[Any], answers: dict[str, Any] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.notes = notes
        self.answers = {"/user": {"id": 42}, **(answers or {})}
        self.asked: list[tuple[str, str, str | None, Any]] = []


class _Answers(BaseHTTPRequestHandler):
    server: GitLab

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        token = self.headers.get("PRIVATE-TOKEN", self.headers.get("Authorization"))
        self.server.asked.append((self.command, self.path, token, body))
        first = 100 * (int(self.path.partition("&page=")[2] or 1) - 1)
        found = self.server.answers.get(self.path, self.server.notes[first : first + 100])
        text = found if isinstance(found, bytes) else json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = _answer  # noqa: N815  - names of the base class

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def serving(server: GitLab) -> Iterator[GitLab]:
    """Let a stand-in answer until the block ends."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def noted(folder: Path, notes: list[Any], report: str | None) -> list[tuple[str, str, str | None, Any]]:
    """Run the script of the job `note`, and return what it asked of GitLab."""
    if report is not None:
        (folder / "report").mkdir()
        (folder / "report" / "specgate.md").write_text(report, encoding="utf-8")
    (text,) = loaded("gitlab/gitlab-ci.yml")["note"]["script"]
    with serving(GitLab(notes)) as gitlab:
        variables = {
            **os.environ, "CI_API_V4_URL": f"http://127.0.0.1:{gitlab.server_port}", "CI_PIPELINE_URL": "here",
            "CI_MERGE_REQUEST_PROJECT_ID": "11", "CI_MERGE_REQUEST_IID": "3", "SPECGATE_NOTE_TOKEN": "a-token",
            "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
        }  # fmt: skip
        subprocess.run(["sh", "-ec", text], cwd=folder, env=variables, check=True)
        return gitlab.asked


NOTES: Final = "/projects/11/merge_requests/3/notes"
FOREIGN: Final = {"id": 1, "author": {"id": 7}, "body": f"{MARKER}\nquoted"}
OWN: Final = {"id": 2, "author": {"id": 42}, "body": f"{MARKER}\nold"}


@needs_tools
@pytest.mark.parametrize(
    ("notes", "pages", "method", "place"),
    [
        ([FOREIGN], 1, "POST", ""),
        ([OWN], 1, "PUT", "/2"),
        ([*[FOREIGN] * 100, OWN], 2, "PUT", "/2"),
        ([FOREIGN] * 200, 3, "POST", ""),
    ],
)
def test_a_note_on_gitlab_is_changed_in_place(
    notes: list[Any], pages: int, method: str, place: str, tmp_path: Path
) -> None:
    """The note of the token's own user is changed, on whatever page it is; the token goes in a header."""
    asked = noted(tmp_path, notes, f'{MARKER}\nit\'s "red"\n')
    looked = [("GET", f"{NOTES}?sort=asc&per_page=100&page={page + 1}", "a-token", None) for page in range(pages)]
    body = {"body": f'{MARKER}\nit\'s "red"\n\n\n[Pipeline](here)'}

    assert asked == [("GET", "/user", "a-token", None), *looked, (method, f"{NOTES}{place}", "a-token", body)]


@needs_tools
def test_a_note_on_gitlab_commands_nothing(tmp_path: Path) -> None:
    """A report that code of a change has written calls nobody, and no line of it is a quick action."""
    report = f"{MARKER}\n@all see a/b//c\n/label ~approved\n  /merge\n\r/approve\n//close"
    *_, (_, _, _, given) = noted(tmp_path, [], report)

    assert given["body"].partition("\n\n[Pipeline]")[0] == (
        f"{MARKER}\n@\u200ball see a/b//c\n\u200b/label ~approved\n  \u200b/merge\n\r\u200b/approve\n\u200b//close"
    )


@needs_tools
@pytest.mark.parametrize("report", [None, "no marker"])
def test_a_gate_on_gitlab_without_a_report_says_so(report: str | None, tmp_path: Path) -> None:
    """What is no report is not shown, since no later note would be found by it."""
    *_, (method, _, _, given) = noted(tmp_path, [], report)

    assert method == "POST"
    assert given["body"] == f"{MARKER}\n\nThe gate left no report.\n\n\n[Pipeline](here)"


@needs_tools
def test_a_note_without_a_token_is_no_failure(tmp_path: Path) -> None:
    """Where nobody made a token, the job says where the report is, and is green."""
    (text,) = loaded("gitlab/gitlab-ci.yml")["note"]["script"]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SPECGATE_")}
    done = subprocess.run(["sh", "-euc", text], cwd=tmp_path, env=variables, capture_output=True, text=True, check=True)

    assert done.stdout.startswith("there is no SPECGATE_NOTE_TOKEN")
