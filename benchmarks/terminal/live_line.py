"""What the live line costs the process that sends a load: the time of a refresh, and how late an event loop wakes.

Run it as ``python benchmarks/terminal/live_line.py``; it needs a minute and prints a table.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from pytest_specgate.adapters import live_line
from pytest_specgate.adapters.live_line import LiveLine
from pytest_specgate.core.progress import Begun, Forecast, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

_REFRESHES = 20_000
_SLEEP_S = 0.001
_BESIDE_S = 15.0
_FORECAST = (
    Forecast(earlier={"off": 60.0, "k4": 55.0, "k7": 58.0})
    .begun(Begun("k4", "round 3 of 10: k4", after=("k7", "off") * 20, sure=False), now_s=0.0)
    .stepped(Step("point", at=32, requests=128), now_s=0.0)
)


@contextlib.contextmanager
def line(every_s: float) -> Iterator[LiveLine]:
    """Give a live line on a terminal that another process reads."""
    reading, writing = pty.openpty()
    with subprocess.Popen(["/bin/cat"], stdin=reading, stdout=subprocess.DEVNULL) as reader:
        os.close(reading)
        live_line.EVERY_S = every_s  # type: ignore[misc]  # sped up, to see more of it
        try:
            with LiveLine(writing, lambda: _FORECAST.parts(time.monotonic()), rewritten=True) as live:
                yield live
        finally:
            reader.kill()


def refresh_s() -> list[float]:
    """Return the times of many refreshes."""
    times = []
    with line(3600.0) as live:
        for _ in range(_REFRESHES):
            live._shown = ""  # noqa: SLF001  - what is on the screen already would not be written
            began = time.perf_counter()
            live.refresh()
            times.append(time.perf_counter() - began)
    return times


def lags_s(every_s: float | None) -> list[float]:
    """Return how late an event loop woke from each of many short sleeps, beside a line that is refreshed so often."""

    async def sleep() -> list[float]:
        found, end_s = [], time.perf_counter() + _BESIDE_S
        while (began := time.perf_counter()) < end_s:
            await asyncio.sleep(_SLEEP_S)
            found.append(time.perf_counter() - began - _SLEEP_S)
        return found

    with contextlib.nullcontext() if every_s is None else line(every_s):
        return asyncio.run(sleep())


def _row(name: str, values: list[float]) -> str:
    cuts = statistics.quantiles(values, n=1000)
    figures = (statistics.median(values), cuts[989], cuts[998], max(values))
    return f"{name:40}" + "".join(f"{1e6 * value:10.0f}" for value in figures)


def main() -> None:
    """Measure and print."""
    sys.stdout.write(f"{'microseconds':40}{'p50':>10}{'p99':>10}{'p99.9':>10}{'max':>10}\n")
    sys.stdout.write(_row("one refresh", refresh_s()) + "\n")
    for name, every_s in (("no line", None), ("every second", 1.0), ("a hundred times a second", 0.01)):
        sys.stdout.write(_row(f"late wake of an event loop, {name}", lags_s(every_s)) + "\n")


if __name__ == "__main__":
    main()
