"""The comments of the CI files: one a change, changed in place, found by its marker; run here against stand-ins."""

from __future__ import annotations

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
        "head_repository": {"owner": {"login": "o"}},
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


class GitLab(ThreadingHTTPServer):
    """The part of GitLab's API that keeps notes of a merge request.

    Args:
        notes: that are there.
    """

    def __init__(self, notes: list[Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.notes = notes
        self.asked: list[tuple[str, str, str | None, Any]] = []


class _Answers(BaseHTTPRequestHandler):
    server: GitLab

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.asked.append((self.command, self.path, self.headers.get("PRIVATE-TOKEN"), body))
        text = json.dumps({"id": 42} if self.path == "/user" else self.server.notes).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = _answer  # noqa: N815  - names of the base class

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def gitlab(request: pytest.FixtureRequest) -> Iterator[GitLab]:
    """A stand-in for GitLab with some notes."""
    with GitLab(request.param) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@needs_tools
@pytest.mark.parametrize(
    ("gitlab", "method", "place"),
    [
        ([{"id": 1, "author": {"id": 7}, "body": f"{MARKER}\nquoted"}], "POST", ""),
        ([{"id": 2, "author": {"id": 42}, "body": f"{MARKER}\nold"}], "PUT", "/2"),
    ],
    indirect=["gitlab"],
)
def test_a_note_on_gitlab_is_changed_in_place(gitlab: GitLab, method: str, place: str, tmp_path: Path) -> None:
    """The note of the token's own user is changed, and nothing else; the token goes in a header."""
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "specgate.md").write_text(f'{MARKER}\nit\'s "red"\n', encoding="utf-8")
    notes = "/projects/11/merge_requests/3/notes"
    variables = {
        **os.environ, "CI_API_V4_URL": f"http://127.0.0.1:{gitlab.server_port}", "CI_PIPELINE_URL": "here",
        "CI_MERGE_REQUEST_PROJECT_ID": "11", "CI_MERGE_REQUEST_IID": "3", "SPECGATE_NOTE_TOKEN": "a-token",
        "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
    }  # fmt: skip
    (text,) = loaded("gitlab/gitlab-ci.yml")["note"]["script"]
    subprocess.run(["sh", "-ec", text], cwd=tmp_path, env=variables, check=True)
    body = {"body": f'{MARKER}\nit\'s "red"\n\n\n[Pipeline](here)'}

    assert gitlab.asked == [
        ("GET", "/user", "a-token", None),
        ("GET", f"{notes}?sort=asc&per_page=100", "a-token", None),
        (method, f"{notes}{place}", "a-token", body),
    ]


@needs_tools
def test_a_note_without_a_token_is_no_failure(tmp_path: Path) -> None:
    """Where nobody made a token, the job says where the report is, and is green."""
    (text,) = loaded("gitlab/gitlab-ci.yml")["note"]["script"]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SPECGATE_")}
    done = subprocess.run(["sh", "-euc", text], cwd=tmp_path, env=variables, capture_output=True, text=True, check=True)

    assert done.stdout.startswith("there is no SPECGATE_NOTE_TOKEN")
