"""Load from several processes, for more streams than one event loop carries.

**Clocks.** Stamps of all processes are merged without any correction, because they are of one clock: on Linux
`time.perf_counter_ns` reads ``CLOCK_MONOTONIC``, which the kernel keeps for the whole machine, whatever process asks.
`require_shared_clock` refuses to go on where Python says otherwise. The parent names a start a little ahead; every
process counts its times from that same instant.

**Order.** In a closed loop the next free worker sends the next prompt, whichever process it lives in. The places in the
sending order are tickets in one pipe that all processes read from: four bytes each, which a read takes whole.
"""

from __future__ import annotations

import array
import asyncio
import base64
import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from time import perf_counter_ns
from typing import IO, TYPE_CHECKING, Any, Final

from pytest_specgate.adapters.load import Sender, Share, ShareResult
from pytest_specgate.core.errors import LoadError
from pytest_specgate.core.records import RequestRecord
from pytest_specgate.core.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

_TICKET: Final = struct.Struct("=I")
_AHEAD_NS: Final = 50_000_000
_READY: Final = b"ready\n"
_STOP_LIMIT_S: Final = 5.0
_CODE: Final = """
import sys, json
sys.path[:] = json.loads(sys.argv[1])
from pytest_specgate.adapters.load_process import main
main()
"""
"""What a process of load runs: it finds modules where its parent finds them, whatever lies in the working directory."""


class _Answer(Stored):
    """What a process prints: its `ShareResult` as JSON; arrays of doubles as base64, since there can be millions."""

    requests: tuple[RequestRecord, ...]
    gaps_s: str
    lags_s: str
    wall_s: float
    cpu_s: float

    @classmethod
    def of(cls, result: ShareResult) -> _Answer:
        return cls(
            requests=tuple(result.requests),
            gaps_s=base64.b64encode(result.gaps_s.tobytes()).decode(),
            lags_s=base64.b64encode(result.lags_s.tobytes()).decode(),
            wall_s=result.wall_s,
            cpu_s=result.cpu_s,
        )

    def result(self) -> ShareResult:
        return ShareResult(self.requests, _doubles(self.gaps_s), _doubles(self.lags_s), self.wall_s, self.cpu_s)


def _doubles(text: str) -> array.array[float]:
    return array.array("d", base64.b64decode(text))


def run_shares(
    shares: Sequence[Share],
    *,
    order: Sequence[int],
    watched: Callable[[Callable[[], object]], AbstractContextManager[object]] = contextlib.nullcontext,
) -> list[ShareResult]:
    """Send a point from several processes and return what each brings back.

    Args:
        shares: one a process.
        order: places in the sending order that closed-loop workers draw; empty in an open loop.
        watched: gives a block in which somebody may call, from any thread, the function that it is given: all
            processes then give up what is open, and send nothing more.

    Raises:
        LoadError: a process failed, or the processes share no clock.
    """
    require_shared_clock()
    with contextlib.ExitStack() as stack:
        tickets = stack.enter_context(_tickets(order))
        stopping, stop = stack.enter_context(_stop_line())
        children = [stack.enter_context(_child(tickets, stopping)) for _ in shares]
        stack.enter_context(watched(stop))
        for child, share in zip(children, shares, strict=True):
            _say(child, _job(share))
        for child in children:
            if _stdout(child).readline() != _READY:
                raise _failed(child)
        started_ns = perf_counter_ns() + _AHEAD_NS
        for child in children:
            _say(child, started_ns)
        return [_result(child) for child in children]


def require_shared_clock() -> None:
    """Check that stamps of two processes may be compared.

    Raises:
        LoadError: Python's performance counter is not the machine's monotonic clock here.
    """
    implementation = time.get_clock_info("perf_counter").implementation
    if implementation != "clock_gettime(CLOCK_MONOTONIC)":
        raise LoadError(
            f"several client processes need one clock, and {implementation} is none: set client_processes=1"
        )


@contextlib.contextmanager
def _tickets(order: Sequence[int]) -> Iterator[int]:
    """Give the reading end of a pipe that holds the tickets, then its end."""
    reading, writing = os.pipe()

    def write() -> None:
        with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb") as pipe:
            pipe.write(b"".join(map(_TICKET.pack, order)))

    # More tickets than a pipe holds would block the writer until workers have drawn some.
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield reading
    finally:
        os.close(reading)
        writer.join()


def _drawn(tickets: int) -> Iterator[int]:
    while ticket := os.read(tickets, _TICKET.size):
        yield _TICKET.unpack(ticket)[0]


@contextlib.contextmanager
def _stop_line() -> Iterator[tuple[int, Callable[[], object]]]:
    """Give the reading end of a pipe that ends when all processes are to stop, and the function that ends it."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb", buffering=0) as pipe:
        try:
            yield reading, pipe.close
        finally:
            os.close(reading)


@contextlib.contextmanager
def _child(tickets: int, stopping: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process of load, and make sure that it is gone afterwards."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", _CODE, json.dumps([*map(str, sys.path)]), str(tickets), str(stopping)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(tickets, stopping),
    )
    try:
        yield child
    finally:
        for stream in (child.stdin, child.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close() if stream else None
        try:
            child.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _job(share: Share) -> dict[str, Any]:
    return {
        "url": share.url,
        "bodies": {index: body.decode("utf-8", "surrogateescape") for index, body in share.bodies.items()},
        "workers": share.workers,
        "timeout_s": share.timeout_s,
        "due_s": dict(share.due_s),
        "keep_text": share.keep_text,
        "keep_times": share.keep_times,
        "path": share.path,
    }


def _share(job: dict[str, Any]) -> Share:
    return Share(
        url=job["url"],
        bodies={int(index): text.encode("utf-8", "surrogateescape") for index, text in job["bodies"].items()},
        workers=job["workers"],
        timeout_s=job["timeout_s"],
        due_s={int(index): due for index, due in job["due_s"].items()},
        keep_text=job["keep_text"],
        keep_times=job["keep_times"],
        path=job["path"],
    )


def _say(child: subprocess.Popen[bytes], value: object) -> None:
    assert child.stdin is not None, "started with a pipe"
    try:
        child.stdin.write(json.dumps(value).encode() + b"\n")
        child.stdin.flush()
    except BrokenPipeError:
        raise _failed(child) from None


def _result(child: subprocess.Popen[bytes]) -> ShareResult:
    line = _stdout(child).readline()
    if not line.endswith(b"\n"):
        raise _failed(child)
    return _Answer.model_validate_json(line).result()


def _stdout(child: subprocess.Popen[bytes]) -> IO[bytes]:
    assert child.stdout is not None, "started with a pipe"
    return child.stdout


def _failed(child: subprocess.Popen[bytes]) -> LoadError:
    child.kill()
    return LoadError(f"a process of the load client left with exit code {child.wait()}: its message is above")


def main() -> None:
    """Run one share: the job and the start come on stdin, the answer goes to stdout.

    An interrupt of the user is the parent's affair; when the parent is gone, stdin ends, and so does this process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    share = _share(json.loads(sys.stdin.buffer.readline()))
    result = asyncio.run(_run(share, _drawn(int(sys.argv[2])), stopping=int(sys.argv[3])))
    sys.stdout.buffer.write(_Answer.of(result).model_dump_json().encode() + b"\n")
    sys.stdout.buffer.flush()


async def _run(share: Share, tickets: Iterator[int], *, stopping: int) -> ShareResult:
    sender, loop = Sender(share, tickets), asyncio.get_running_loop()

    def stop() -> None:
        loop.remove_reader(stopping)
        sender.stop()

    loop.add_reader(stopping, stop)
    async with sender:
        sys.stdout.buffer.write(_READY)
        sys.stdout.buffer.flush()
        started_ns = json.loads(sys.stdin.buffer.readline())
        loop.add_reader(sys.stdin.fileno(), os._exit, 1)
        try:
            return await sender.run(started_ns=started_ns)
        finally:
            loop.remove_reader(sys.stdin.fileno())
