"""Real vLLM left behind by a run that was killed together with its supervising process: the next run ends it.

Needs the `cpu` extra and ``specgate prepare-model``. A server that listens is asked to leave by the kernel when its
supervising process dies, and does. So the one here is stopped before: it hears nothing, as one that hangs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.real_vllm

_BOOT_LIMIT_S: Final = 300.0
_RUN_LIMIT_S: Final = 600.0
_PATIENCE_S: Final = 60.0
_MARK: Final = "SPECGATE_TEST_MARK"

# The bystander is what a user's own test may have started: a child of the killed run, in its session, that blocks
# every signal it can, so that the kernel keeps what it was sent.
_SERVE: Final = """
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from pytest_specgate import EMBEDDED_MODEL, Arm

SERVED = Arm(
    "served",
    model=EMBEDDED_MODEL,
    args={"max_model_len": 512, "enforce_eager": True},
    env={"VLLM_CPU_KVCACHE_SPACE": "1"},
)
DEAF = "import signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()); time.sleep(900)"


def test_serves(vllm_server):
    bystander = subprocess.Popen([sys.executable, "-S", "-c", DEAF]) if "HOLDS" in os.environ else None
    server = vllm_server(SERVED)
    told = {"tree": sorted(server.process_ids()), "bystander": bystander and bystander.pid}
    Path("told.part").write_text(json.dumps(told))
    Path("told.part").rename("told.json")
    while bystander and bystander.poll() is None:
        time.sleep(0.1)
"""

# Both events come from the interpreter itself, whichever library signals or starts.
_RECORDS: Final = """
import os
import sys


def record(event, arguments):
    if event == "os.kill" and arguments[1] != 0:
        line = f"signal {arguments[1]} to {arguments[0]}"
    elif event == "subprocess.Popen" and any("supervisor.py" in os.fsdecode(word) for word in arguments[1]):
        line = "start"
    else:
        return
    with open("events.txt", "a") as file:
        print(line, file=file)


sys.addaudithook(record)
"""


@dataclasses.dataclass(frozen=True)
class LeftBehind:
    """What a killed run left.

    Attributes:
        folder: where it ran.
        environment: of the run, and of the next one.
        server: process id of the API server.
        tree: ids of all processes of the server, its own included.
        bystander: id of a process that the killed run had started besides.
    """

    folder: Path
    environment: dict[str, str]
    server: int
    tree: frozenset[int]
    bystander: int

    @property
    def notes(self) -> list[Path]:
        """Files that say which servers run."""
        return list((self.folder / "state" / "servers").iterdir())


@dataclasses.dataclass(frozen=True)
class NextRun:
    """The run after it.

    Attributes:
        exit_code: of pytest.
        output: everything that was printed.
        events: what its process signalled and when it started its server, in order.
        tree: ids of the processes of its own server.
        tree_before: those of the killed run's server that still lived at the start of this run.
        bystander_signals: bits of the signals that the bystander had been sent by the end of this run.
    """

    exit_code: int
    output: str
    events: list[str]
    tree: frozenset[int]
    tree_before: frozenset[int]
    bystander_signals: int


def lives(pid: int) -> bool:
    """Whether a process runs: one that waits for its parent to ask does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def until(reached: Callable[[], bool], what: str, *, limit_s: float = _PATIENCE_S) -> None:
    """Wait for a condition, so long at most."""
    deadline_s = time.monotonic() + limit_s
    while not reached():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


def signals_of(pid: int) -> int:
    """Return the bits of all signals that a process was sent and has blocked."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    shared, own = (int(found, 16) for found in re.findall(r"^(?:ShdPnd|SigPnd):\s*(\w+)$", status, re.MULTILINE))
    return shared | own


def told(folder: Path) -> tuple[frozenset[int], int | None]:
    """Return what the test in a folder told: processes of its server, and its bystander."""
    found = json.loads((folder / "told.json").read_text(encoding="utf-8"))
    return frozenset(found["tree"]), found["bystander"]


def command() -> list[str]:
    """Return the command that runs the test in the working directory."""
    return [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "--color=no", "test_serve.py"]


def family(mark: str) -> set[psutil.Process]:
    """Return the processes that carry a mark in their environment, and all that they started.

    What names itself, as engine cores do, writes over its environment: it is found by its parents only.
    """
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(_MARK) == mark:
                found |= {process, *process.children(recursive=True)}
    return found


def kill_run(run: subprocess.Popen[bytes], folder: Path) -> tuple[int, int]:
    """Stop the server of a run, kill the run and its supervising process; return the ids of server and bystander."""
    tree, bystander = told(folder)
    assert bystander is not None
    processes = [psutil.Process(pid) for pid in tree]
    (server,) = (process for process in processes if process.ppid() not in tree)
    supervisor = psutil.Process(server.ppid())
    assert supervisor.ppid() == run.pid
    server.suspend()
    until(lambda: server.status() == psutil.STATUS_STOPPED, "the server was never stopped")
    supervisor.kill()
    run.kill()
    run.wait(_PATIENCE_S)
    until(lambda: not lives(supervisor.pid), "the supervising process lives on")
    return server.pid, bystander


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeftBehind]:
    """A run killed while its server was up; whatever is left of it at the end is ended."""
    folder, mark = tmp_path_factory.mktemp("reaping"), f"reaping-{os.getpid()}"
    started: set[psutil.Process] = set()
    (folder / "test_serve.py").write_text(_SERVE, encoding="utf-8")
    # The notes of this user's other runs are no subject here, and may name servers that are in use.
    environment = {**os.environ, "SPECGATE_STATE_DIR": str(folder / "state"), _MARK: mark}
    try:
        with (folder / "output.txt").open("wb") as stream:
            holding = {**environment, "HOLDS": "1"}
            run = subprocess.Popen(command(), cwd=folder, env=holding, stdout=stream, stderr=subprocess.STDOUT)
        with run:
            try:
                ready = folder / "told.json"
                until(lambda: ready.exists() or run.poll() is not None, "no server", limit_s=_BOOT_LIMIT_S)
                assert run.poll() is None, (folder / "output.txt").read_text(encoding="utf-8")
                started = family(mark)
                server, bystander = kill_run(run, folder)
            finally:
                run.kill()
        yield LeftBehind(folder, environment, server=server, tree=told(folder)[0], bystander=bystander)
    finally:
        for process in started | family(mark):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.fixture(scope="module")
def next_run(left_behind: LeftBehind) -> NextRun:
    """The same test once more, to its end; what its process does is recorded."""
    folder = left_behind.folder
    (folder / "conftest.py").write_text(_RECORDS, encoding="utf-8")
    (folder / "told.json").unlink()
    before = frozenset(filter(lives, left_behind.tree))
    done = subprocess.run(
        command(),
        cwd=folder,
        env=left_behind.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_RUN_LIMIT_S,
        check=False,
    )
    sys.stdout.write(done.stdout)
    return NextRun(
        done.returncode,
        done.stdout,
        events=(folder / "events.txt").read_text(encoding="utf-8").splitlines(),
        tree=told(folder)[0],
        tree_before=before,
        bystander_signals=signals_of(left_behind.bystander),
    )


def test_the_whole_engine_was_left_behind(left_behind: LeftBehind, next_run: NextRun) -> None:
    """Pytest and supervising process are gone, and API server, engine core and their helpers live on."""
    assert next_run.tree_before == left_behind.tree
    assert len(left_behind.tree) >= 3


def test_the_next_run_says_what_it_ended(left_behind: LeftBehind, next_run: NextRun) -> None:
    """One line names every process that was left, and none besides, before the test's own server is there."""
    said = r"^specgate: ended process ([\d, ]+) of a server that an earlier run left behind "
    found = re.findall(said, next_run.output, re.MULTILINE)

    assert [{int(pid) for pid in line.split(", ")} for line in found] == [set(left_behind.tree)]
    assert "--model" in next_run.output
    assert "could not be ended" not in next_run.output


def test_only_what_was_left_is_signalled_and_before_the_next_start(left_behind: LeftBehind, next_run: NextRun) -> None:
    """Asked first, then killed where it does not listen, all before the one start; nothing else gets a signal."""
    *signals, last = next_run.events
    targets = {int(line.rpartition(" ")[2]) for line in signals}

    assert last == "start"
    assert left_behind.server in targets
    assert targets <= left_behind.tree
    assert [line for line in signals if line.endswith(f" to {left_behind.server}")] == [
        f"signal {number:d} to {left_behind.server}" for number in (signal.SIGTERM, signal.SIGKILL)
    ]


def test_a_bystander_of_the_killed_run_is_left_alone(left_behind: LeftBehind, next_run: NextRun) -> None:
    """What the killed run had started besides its server lives, and was sent no signal by anybody."""
    assert lives(left_behind.bystander)
    assert next_run.bystander_signals == 0


def test_the_next_run_ends_clean(left_behind: LeftBehind, next_run: NextRun) -> None:
    """It waits for no lock of the dead, passes on a server of its own, and leaves neither process nor note."""
    assert next_run.exit_code == 0
    assert "in use by" not in next_run.output
    assert next_run.tree
    assert next_run.tree.isdisjoint(left_behind.tree)
    assert [pid for pid in next_run.tree | left_behind.tree if lives(pid)] == []
    assert left_behind.notes == []
