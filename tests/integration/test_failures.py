"""Servers that die, answer with errors or are interrupted: named, bounded, recorded, and nothing left behind."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Final

import pytest

from pytest_specgate.adapters.storage import load_record
from pytest_specgate.core.records import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.conftest import Case, GateFolder, GateRun

_OFFLINE_ENGINE = """\
    import os, sys

    sys.exit(f"offline mode is enabled: {os.environ['HF_HUB_OFFLINE']}, {os.environ['OWN']}")
    """

_OFFLINE_GATE = """\
    @gate(pair(arm("a", env={"OWN": "of the arm"}), arm("b", seed=1, env={"OWN": "of the arm"})), SPEED)
    def test_gate(): pass
    """

# As vLLM with its default start method: the engine core is a fork that has inherited the listening socket.
_HOLDING_ENGINE = """\
    import os, signal, sys, threading, time

    import psutil

    from pytest_specgate.testing.main import main

    def fork():
        while not any(known.status == "LISTEN" for known in psutil.Process().net_connections()):
            time.sleep(0.01)
        if os.fork() == 0:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            time.sleep(600)
            os._exit(0)

    threading.Thread(target=fork, daemon=True).start()
    raise SystemExit(main())
    """

_HELD_GATE = """\
    LOAD = load(requests={2: 20}, request_timeout_s=600)

    @gate(pair(arm("dies", die_after_requests=7), arm("b", seed=1), profile=LOAD), CLAIM)
    def test_gate(): pass
    """

CLAIMS = ("c1-output_throughput-not_worse", "c2-output_throughput-not_worse")
_PATIENCE_S = 60.0

_LONG_LOAD = """\
    def test_first(): pass


    LONG = load(output_tokens=4, requests={1: 80})


    @gate(pair(arm("quick"), arm("endless", step_s=0.1), profile=LONG), SPEED)
    def test_gate(): pass


    def test_last(): pass
    """


def _cases(run: GateRun, test: str) -> list[Case]:
    return [run.cases[f"{test}[{claim}]"] for claim in CLAIMS]


@pytest.mark.parametrize(
    ("test", "reason", "sentence"),
    [
        ("test_dead", "server-start", "arm dead: its server left while starting, with exit code 3: boom"),
        ("test_dies", "server-died", "arm dies: its server left with exit code 1: FATAL: "),
        ("test_errs", "failed-requests", "arm errs at c=1: 1 of 2 requests failed, the first with: "),
    ],
)
def test_a_broken_server_is_invalid_with_one_reason_for_all(
    test: str, reason: str, sentence: str, faulty: GateRun
) -> None:
    """Every threshold of the pair carries the same reason and sentence, exit code and last words included."""
    for case in _cases(faulty, test):
        assert (case.outcome, case.properties["specgate_reason"]) == ("INVALID", reason)
        assert f"INVALID ({reason}): {sentence}" in str(case.failure)


def test_the_log_tail_is_shown(faulty: GateRun) -> None:
    """The last lines of a dead server's output are in the failure of each of its tests."""
    for case in _cases(faulty, "test_dead"):
        assert "    starting: {" in str(case.failure)
        assert "    boom" in str(case.failure)


def test_the_log_tail_is_not_our_own_asking(faulty: GateRun) -> None:
    """What a server logs of requests that it answered does not push its own words out of the tail."""
    for case in _cases(faulty, "test_errs"):
        assert "Application startup complete." in str(case.failure)
        assert '"GET /' not in str(case.failure)


@pytest.mark.parametrize("arm", ["dead", "dies", "errs"])
def test_the_command_of_a_broken_server_is_shown(arm: str, faulty: GateRun) -> None:
    """The exact command of a server is in failure and record, also when it never got ready."""
    (boot,) = faulty.record.boots_of(arm)

    assert "--served-model-name" in boot.command
    for case in _cases(faulty, f"test_{arm}"):
        assert f"    server of {arm}: {boot.command}\n" in str(case.failure)


def test_an_error_event_is_quoted(faulty: GateRun) -> None:
    """What the server said inside its stream is in the message."""
    assert "EngineCore encountered an issue" in str(_cases(faulty, "test_errs")[0].failure)


def test_one_broken_arm_leaves_the_others_usable(faulty: GateRun) -> None:
    """The pair of the two healthy arms is measured in both rounds and passes."""
    assert [case.outcome for case in _cases(faulty, "test_other")] == ["PASS", "PASS"]
    assert "request profile: " in faulty.table("other against good")
    assert faulty.counts == {"failed": 6, "passed": 2}


def test_a_broken_arm_is_started_once(faulty: GateRun) -> None:
    """The failure is stored: no second attempt, neither for the next test nor in the next round."""
    boots = [boot.arm for boot in faulty.record.boots]

    assert boots == ["good", "dead", "dies", "errs", "other", "other", "good"]
    assert [log.name.removesuffix(".log").partition("-")[2].partition("-")[2] for log in faulty.logs] == boots


def test_points_after_a_failure_are_not_run(faulty: GateRun) -> None:
    """A point with a failed request is the last one of its boot."""
    (boot,) = faulty.record.boots_of("errs")
    (point,) = boot.points

    assert point.concurrency == 1
    assert [request.error is None for request in point.requests] == [True, False]


def test_points_before_a_death_are_kept(faulty: GateRun) -> None:
    """What a server measured before it died stays in the record."""
    (boot,) = faulty.record.boots_of("dies")

    assert boot.points[0].concurrency == 1
    assert boot.points[0].failed == ()
    assert boot.failure is not None
    assert "die_after_requests" in boot.failure.detail


@pytest.mark.parametrize(
    ("arm", "reason"), [("dead", "server-start"), ("dies", "server-died"), ("errs", "failed-requests")]
)
def test_a_pair_without_two_measured_arms_has_no_figures(arm: str, reason: str, faulty: GateRun) -> None:
    """The summary says what happened to the boot instead of a table."""
    _, line, *rest = faulty.table(f"{arm} against good").splitlines()

    assert line.startswith(f"no figures ({reason}): arm {arm}")
    assert rest == []


def test_a_window_with_failures_is_finished_and_recorded(faulty: GateRun) -> None:
    """Its record loads like any other, with the failures and all verdicts in it."""
    record = faulty.record

    assert (record.schema_version, record.finished, len(record.verdicts)) == (SCHEMA_VERSION, True, 8)
    assert [boot.arm for boot in record.boots if boot.failure is not None] == ["dead", "dies", "errs"]


def test_nothing_survives_failures(faulty: GateRun) -> None:
    """Every server of the run is gone when pytest is."""
    assert faulty.survivors == ()


def test_the_environment_reaches_the_server(gate_folder: GateFolder) -> None:
    """Case 73: a variable of the session and one of the arm are the server's; what it says of them is shown first."""
    gate_folder.write("engine.py", _OFFLINE_ENGINE)
    gate_folder.write("test_offline.py", _OFFLINE_GATE)
    run = gate_folder.run(engine="python engine.py", variables={"HF_HUB_OFFLINE": "1", "OWN": "of the session"})
    failure = str(run.cases[f"test_gate[{CLAIMS[0]}]"].failure)

    assert "with exit code 1: offline mode is enabled: 1, of the arm" in failure.partition("\n")[0]


def test_case_71_a_death_is_noticed_though_its_connections_stay_open(gate_folder: GateFolder) -> None:
    """Case 71: a fork holds the socket, so that nobody is refused; the load ends at once, and the log is shown."""
    claim = 'not_worse("output_throughput", at=2, margin="90%", noise=FLOOR)'
    gate_folder.write("engine.py", _HOLDING_ENGINE)
    gate_folder.write("test_held.py", _HELD_GATE.replace("CLAIM", claim))
    run = gate_folder.run(engine="python engine.py")
    case = run.cases[f"test_gate[{CLAIMS[1]}]"]

    assert (case.outcome, case.properties["specgate_reason"]) == ("INVALID", "server-died")
    assert "arm dies: its server left with exit code 1: FATAL: " in str(case.failure)
    assert re.search(r"; 1\d of 20 requests at c=2 failed", str(case.failure))
    assert run.survivors == ()


@dataclasses.dataclass(frozen=True)
class _Interrupted:
    """A run that was sent a signal."""

    gates: GateFolder
    exit_code: int
    survivors: tuple[str, ...]

    @property
    def output(self) -> str:
        return (self.gates.folder / "output.txt").read_text(encoding="utf-8")

    @property
    def record_path(self) -> Path:
        (path,) = self.gates.folder.glob("specgate-results/*/record.json")
        return path


def _announced(gates: GateFolder) -> bool:
    """Whether the slow arm's point has been announced: its load is about to begin."""
    return "specgate: endless: c=1, 80 requests" in (gates.folder / "output.txt").read_text(encoding="utf-8")


def _loaded(gates: GateFolder) -> bool:
    """Whether the slow server answers its third completion: after readiness and warm-up the first measured one."""
    logs = gates.folder.glob("*/*/*-endless.log")
    return any(log.read_text(encoding="utf-8").count('"POST /v1/completions') >= 3 for log in logs)


_MOMENTS: Final = {
    "interrupted_before_load": (signal.SIGINT, _announced),
    "interrupted_under_load": (signal.SIGINT, _loaded),
    "terminated_under_load": (signal.SIGTERM, _loaded),
}


@pytest.fixture(scope="module", params=_MOMENTS)
def interrupted(request: pytest.FixtureRequest, new_gate_folder: Callable[[], GateFolder]) -> _Interrupted:
    """A run that was sent a signal when its slow arm was about to be put under load, or was under load."""
    number, reached = _MOMENTS[request.param]
    gates = new_gate_folder()
    gates.write("test_long.py", _LONG_LOAD)
    with (gates.folder / "output.txt").open("wb") as stream:
        process = subprocess.Popen(
            gates.command(), cwd=gates.folder, env=gates.environment(), stdout=stream, stderr=subprocess.STDOUT
        )
        try:
            _wait_until(reached, process, gates)
            process.send_signal(number)
            exit_code = process.wait(_PATIENCE_S)
        finally:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()
    return _Interrupted(gates, exit_code, gates.end_servers())


def _wait_until(reached: Callable[[GateFolder], bool], process: subprocess.Popen[bytes], gates: GateFolder) -> None:
    give_up_s = time.monotonic() + _PATIENCE_S
    while not reached(gates):
        waiting = process.poll() is None and time.monotonic() < give_up_s
        assert waiting, (gates.folder / "output.txt").read_text(encoding="utf-8")
        time.sleep(0.005)


def test_an_interrupt_ends_the_run_and_its_servers(interrupted: _Interrupted) -> None:
    """One SIGINT, or the SIGTERM of a cancelled CI job, is exit status 2, and no server is left."""
    assert (interrupted.exit_code, interrupted.survivors) == (2, ())


def test_an_interrupted_window_is_recorded_as_unfinished(interrupted: _Interrupted) -> None:
    """The record holds what was measured before, and says that the window did not end."""
    record = load_record(interrupted.record_path)

    assert (record.finished, record.verdicts) == (False, ())
    assert [boot.arm for boot in record.boots] == ["quick"]


def test_an_interrupt_says_where_the_record_is(interrupted: _Interrupted) -> None:
    """The path of what was measured so far is printed, and nothing counts as judged."""
    path = interrupted.record_path.relative_to(interrupted.record_path.parents[2])
    line = f"specgate: interrupted; what was measured so far is in {path}"

    assert line in interrupted.output.splitlines()
    assert "0 of 1 threshold judged" in interrupted.output.splitlines()


def test_an_interrupted_run_reports_finished_tests_only(interrupted: _Interrupted) -> None:
    """The junit report exists, with the test that ended before and without the one that never began."""
    report = (interrupted.gates.folder / "junit.xml").read_text(encoding="utf-8")

    assert 'name="test_first"' in report
    assert 'name="test_last"' not in report
