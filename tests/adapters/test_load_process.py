"""Load from several processes: the same records as from one, one clock, one order, and nothing left behind."""

from __future__ import annotations

import array
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.adapters import load_process
from pytest_specgate.adapters.load import Share, ShareResult
from pytest_specgate.adapters.load_process import run_shares
from pytest_specgate.core.errors import LoadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_specgate.core.levels import Level
    from tests.adapters.conftest import Reply, RunPoint, Seen, Stub, Target

COMPLETIONS = "/v1/completions"
PATIENCE_S = 20.0
ANSWER = '{"requests": [], "gaps_s": "", "lags_s": "", "wall_s": 1.0, "cpu_s": 0.5}'


def children() -> list[psutil.Process]:
    """Return the processes that this one has started."""
    return psutil.Process().children(recursive=True)


def share_of(url: str, *, body: bytes = b"{}") -> Share:
    """Return a share of one request."""
    return Share(url, {0: body}, workers=1, timeout_s=PATIENCE_S)


@pytest.mark.parametrize("at", [4, "1000/s"], ids=["closed", "open"])
def test_several_processes_bring_back_what_one_does(stub: Stub, run_point: RunPoint, at: Level) -> None:
    """Order, bodies, answers and counts of the records do not depend on the number of processes; ours are gone."""
    stub.on(COMPLETIONS, stub.good())
    one, three = (run_point(stub.target, count=12, at=at, client_processes=number) for number in (1, 3))
    timeless = {"sent_s", "ttft_s", "first_text_s", "last_token_s", "closed_s"}

    assert (one.client.processes, three.client.processes) == (1, 3)
    for left, right in zip(one.requests, three.requests, strict=True):
        assert left.model_dump(exclude=timeless) == right.model_dump(exclude=timeless)
        assert right.error is None
    assert sorted(stub.numbers()) == sorted([*range(12)] * 2)
    assert three.gaps is not None
    assert three.gaps.count == 12
    assert not children()


def test_processes_work_at_once_with_one_connection_a_worker(stub: Stub, run_point: RunPoint) -> None:
    """Five workers in two processes have five requests in flight, over five connections."""
    everybody = threading.Barrier(5)

    def wait_for_all(_: Seen) -> Reply:
        everybody.wait(PATIENCE_S)
        return stub.good()

    stub.on(COMPLETIONS, *[wait_for_all] * 5, stub.good())
    load = run_point(stub.target, count=10, at=5, client_processes=2)

    assert [record.error for record in load.requests] == [None] * 10
    assert len({seen.peer for seen in stub.posted()}) == stub.connections == 5
    assert max(seen.in_flight for seen in stub.posted()) == 5


def test_the_next_free_worker_sends_the_next_body_whatever_its_process(stub: Stub, run_point: RunPoint) -> None:
    """While one process waits for its only answer, the other sends all the rest, in order."""
    others_done = threading.Event()

    def hold(_: Seen) -> Reply:
        others_done.wait(PATIENCE_S)
        return stub.good()

    def release(_: Seen) -> Reply:
        if len(stub.posted()) == 8:
            others_done.set()
        return stub.good()

    stub.on(COMPLETIONS, hold, release)
    load = run_point(stub.target, count=8, at=2, client_processes=2)
    held, *others = stub.posted()
    rest = [json.loads(seen.body)["number"] for seen in others]

    assert [record.error for record in load.requests] == [None] * 8
    assert rest == sorted(rest)
    assert len({seen.peer for seen in others if seen.peer != held.peer}) == 1


def test_stamps_of_all_processes_are_of_the_machines_clock(stub: Stub, run_point: RunPoint) -> None:
    """By the stub's clock, sends of two processes lie as far apart as their records say, give or take the way there."""
    stub.on(COMPLETIONS, stub.good())
    before_s = time.perf_counter()
    load = run_point(stub.target, count=6, at=2, client_processes=2)
    received = {json.loads(seen.body)["number"]: seen.received_ns / 1e9 for seen in stub.posted()}
    starts = [received[record.index] - record.sent_s for record in load.requests]
    ends = [
        seen.answered_ns / 1e9 - record.sent_s - record.ttft_s
        for seen in stub.posted()
        for record in load.requests
        if record.index == json.loads(seen.body)["number"] and record.ttft_s is not None
    ]

    # Each receipt puts the start of the point before it, each answer puts it after: with two clocks they would cross.
    assert max(ends) <= min(starts)
    assert before_s < min(starts)


def test_tickets_are_drawn_in_order_and_once_each() -> None:
    """Three readers draw 40,000 tickets, more than a pipe holds: each draws rising ones, together all of them."""
    drawn: list[list[int]] = [[], [], []]
    with load_process._tickets(range(40_000)) as tickets:
        readers = [threading.Thread(target=lambda own=own: own.extend(load_process._drawn(tickets))) for own in drawn]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()

    assert all(own == sorted(own) for own in drawn)
    assert sorted(ticket for own in drawn for ticket in own) == list(range(40_000))


@pytest.mark.parametrize("count", [0, 10, 17_000, 40_000])
def test_tickets_that_nobody_draws_hold_nobody_up(count: int) -> None:
    """A pipe that is given up with tickets in it, and more that did not fit, ends its writer without an error."""
    threads = threading.active_count()
    with load_process._tickets(range(count)) as tickets:
        first = os.read(tickets, 4) if count else b""
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(tickets)

    assert first == (b"\0\0\0\0" if count else b"")
    assert threading.active_count() == threads


def test_a_process_that_is_killed_is_an_error_that_leaves_nothing(stub: Stub, run_point: RunPoint) -> None:
    """When a process of the client dies, the point fails with its exit code, and the other one is ended."""

    def kill_one(_: Seen) -> Reply:
        children()[0].kill()
        return stub.stream(stub.token("a"), end="silence")

    stub.on(COMPLETIONS, kill_one, stub.stream(end="silence"))
    with pytest.raises(LoadError, match="exit code -9"):
        run_point(stub.target, count=2, at=2, client_processes=2, timeout_s=1)

    assert not children()


@pytest.fixture
def instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that has a shell script run instead of every process of load."""

    def run(script: str) -> None:
        program = tmp_path / "instead"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
        monkeypatch.setattr(load_process, "_STOP_LIMIT_S", 0.2)

    return run


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 3", 3),
        ("read job; exit 4", 4),
        ("read job; echo no; exec sleep 600", -9),
        ("read job; echo ready; exit 7", 7),
        ("read job; echo ready; read start; exit 8", 8),
        ("read job; echo ready; read start; printf '{'; exit 9", 9),
    ],
    ids=["at-once", "before-ready", "odd-word", "before-start", "in-the-point", "half-an-answer"],
)
@pytest.mark.parametrize("body", [b"{}", b"x" * 1_000_000], ids=["small", "big"])
def test_a_process_that_leaves_early_is_an_error(
    instead: Callable[[str], None], script: str, code: int, body: bytes
) -> None:
    """Whenever a process of load leaves before its answer, the error has its exit code, and none is left."""
    instead(script)
    with pytest.raises(LoadError, match=f"exit code {code}:"):
        run_shares([share_of("http://127.0.0.1:9", body=body)] * 2, order=range(1))

    assert not children()


def test_a_process_that_does_not_leave_is_ended(instead: Callable[[str], None]) -> None:
    """A process that stays after its answer is ended; the answer counts."""
    instead(f"read job; echo ready; read start; echo '{ANSWER}'; exec sleep 600")
    (result,) = run_shares([share_of("http://127.0.0.1:9")], order=range(1))

    assert (result.wall_s, result.cpu_s, list(result.requests)) == (1.0, 0.5, [])
    assert not children()


@pytest.mark.parametrize("processes", [1, 2])
def test_processes_without_a_common_clock_are_refused(
    stub: Stub, run_point: RunPoint, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    """Where Python's counter is not the machine's clock, several processes send nothing; for one, any clock will do."""
    other = time.get_clock_info("perf_counter")
    other.implementation = "QueryPerformanceCounter()"
    monkeypatch.setattr(time, "get_clock_info", lambda _: other)
    stub.on(COMPLETIONS, stub.good())
    refused = pytest.raises(LoadError, match=r"QueryPerformanceCounter\(\) is none: set client_processes=1")
    with refused if processes > 1 else contextlib.nullcontext():
        run_point(stub.target, count=2, at=2, client_processes=processes)

    assert len(stub.posted()) == (0 if processes > 1 else 2)


@pytest.mark.parametrize("name", ["pytest_specgate/__init__.py", "httpx.py", "json.py", "array.py"])
def test_processes_run_the_package_of_their_parent(
    stub: Stub, run_point: RunPoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Files in the working directory that have the names of modules do not get in between."""
    other = tmp_path / name
    other.parent.mkdir(exist_ok=True)
    other.write_text("raise SystemExit('the wrong module')\n")
    monkeypatch.chdir(tmp_path)
    stub.on(COMPLETIONS, stub.good())
    load = run_point(stub.target, count=2, at=2, client_processes=2)

    assert [record.error for record in load.requests] == [None, None]


@given(
    bodies=st.dictionaries(st.integers(0, 2**32 - 1), st.binary(), max_size=4),
    due_s=st.dictionaries(st.integers(0, 2**32 - 1), st.floats(0, 1e6), max_size=4),
    timeout_s=st.floats(1e-3, 1e6),
)
def test_a_share_arrives_as_it_was_sent(bodies: dict[int, bytes], due_s: dict[int, float], timeout_s: float) -> None:
    """Bodies of any bytes and times of any digits survive the way to another process."""
    share = Share("http://127.0.0.1:9", bodies, workers=3, timeout_s=timeout_s, due_s=due_s)

    assert load_process._share(json.loads(json.dumps(load_process._job(share)))) == share


@given(gaps_s=st.lists(st.floats()), lags_s=st.lists(st.floats(0, 1e3)), wall_s=st.floats(0, 1e6))
def test_an_answer_arrives_as_it_was_sent(gaps_s: list[float], lags_s: list[float], wall_s: float) -> None:
    """Gaps and heartbeats come back bit for bit."""
    sent = ShareResult((), array.array("d", gaps_s), array.array("d", lags_s), wall_s=wall_s, cpu_s=wall_s / 3)
    text = load_process._Answer.of(sent).model_dump_json()
    back = load_process._Answer.model_validate_json(text).result()

    assert back.gaps_s.tobytes() == sent.gaps_s.tobytes()
    assert (back.lags_s, back.wall_s, back.cpu_s) == (sent.lags_s, sent.wall_s, sent.cpu_s)


PARENT = """
import sys
from pytest_specgate.adapters.client import HttpLoadDriver
from pytest_specgate.core.profile import RequestProfile

class Target:
    url = sys.argv[1]
    attached = True

print("started", flush=True)
profile = RequestProfile(input_tokens=8, output_tokens=2, requests={2: 4}, client_processes=2)
HttpLoadDriver().run_point(Target(), [b"{}"] * 4, at=2, profile=profile)
"""


@pytest.fixture
def parent(stub: Stub) -> Iterator[tuple[subprocess.Popen[bytes], list[psutil.Process]]]:
    """A process in a session of its own that sends load from two processes, both of which wait for an answer."""
    both = threading.Barrier(3)

    def silent(_: Seen) -> Reply:
        both.wait(PATIENCE_S)
        return stub.stream(end="silence")

    stub.on(COMPLETIONS, silent)
    command = [sys.executable, "-c", PARENT, stub.target.url]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            both.wait(PATIENCE_S)
            yield process, psutil.Process(process.pid).children(recursive=True)
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize("everybody", [False, True], ids=["parent", "group"])
def test_no_process_outlives_its_parent(
    stub: Stub,
    parent: tuple[subprocess.Popen[bytes], list[psutil.Process]],
    number: signal.Signals,
    *,
    everybody: bool,
) -> None:
    """After Ctrl-C, and also after SIGKILL, which runs no clean-up, no process of load is left."""
    process, offspring = parent
    (os.killpg if everybody else os.kill)(process.pid, number)
    _, alive = psutil.wait_procs(offspring, timeout=PATIENCE_S)
    _, errors = process.communicate(timeout=PATIENCE_S)

    assert len(offspring) == 2
    assert not alive
    assert process.returncode == -number
    assert errors.count(b"Traceback") == (1 if number == signal.SIGINT else 0)
    assert [seen.left for seen in stub.posted()] == [True, True]


def test_a_process_that_gets_no_start_leaves_with_its_parent(nobody: Target) -> None:
    """A process whose parent goes away before the point starts does not wait for it."""
    with (
        load_process._tickets(()) as tickets,
        load_process._stop_line() as (stopping, _),
        load_process._child(tickets, stopping) as child,
    ):
        load_process._say(child, load_process._job(share_of(nobody.url)))
        assert child.stdout is not None
        ready = child.stdout.readline()

    assert ready == b"ready\n"
    assert child.returncode == 1
