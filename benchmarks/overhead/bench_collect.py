"""What the installed plugin adds to ``pytest --collect-only`` of a project that has no gates.

Runs with it and without it (``-p no:specgate``) take turns, in an order that reverses every time, so that whatever else
the machine does hits both alike. Run it as ``python benchmarks/overhead/bench_collect.py``; it needs a minute or two.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TARGET_MS: Final = 30.0
_PAIRS: Final = 40
_FILE: Final = "def test_plain() -> None:\n    pass\n"
_HIDDEN_VARIABLES: Final = ("PYTEST_", "SPECGATE_", "PYTHONDONTWRITEBYTECODE")
_WITHOUT: Final = ("-p", "no:specgate")


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """One run of pytest.

    Attributes:
        wall_s: from its start to its end, in seconds.
        cpu_s: what it used, in seconds.
    """

    wall_s: float
    cpu_s: float


def collect(folder: Path, *arguments: str) -> Run:
    """List the tests of a folder in a process of its own, and return what that took."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_HIDDEN_VARIABLES)}
    # As installed packages are: compiled once.
    kept["PYTHONPYCACHEPREFIX"] = str(folder.parent / "compiled")
    began_s = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env=kept, stdout=subprocess.DEVNULL)  # noqa: S603  - ourselves
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began_s
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"pytest ended with exit status {process.returncode}: {' '.join(command)}")
    return Run(wall_s, usage.ru_utime + usage.ru_stime)


def take_turns(folder: Path, pairs: int) -> list[tuple[Run, Run]]:
    """Return pairs of runs, with the plugin and without it; the first of each, which fills caches, is left out."""
    found = []
    for number in range(pairs + 1):
        order: list[tuple[str, ...]] = [(), _WITHOUT]
        if number % 2:
            order.reverse()
        runs = {arguments: collect(folder, *arguments) for arguments in order}
        found.append((runs[()], runs[_WITHOUT]))
    return found[1:]


def line(name: str, found: Sequence[tuple[Run, Run]], value_of: Callable[[Run], float]) -> str:
    """Return the figures of one kind of time as a row of a table.

    The difference of the fastest runs of each kind is what a quiet machine would show, had it been one.
    """
    there = statistics.median(1000 * value_of(run) for run, _ in found)
    gone = statistics.median(1000 * value_of(run) for _, run in found)
    added = sorted(1000 * (value_of(run) - value_of(other)) for run, other in found)
    quarter = len(added) // 4
    fastest = 1000 * (min(value_of(run) for run, _ in found) - min(value_of(run) for _, run in found))
    return (
        f"{name:6}{there:10.1f}{gone:10.1f}{statistics.median(added):10.1f}{fastest:10.1f}"
        f"    {added[quarter]:.1f} to {added[-1 - quarter]:.1f}"
    )


def main() -> None:
    """Measure, and print what was found beside the target."""
    parser = argparse.ArgumentParser(description="what the installed plugin adds to pytest --collect-only")
    parser.add_argument("--pairs", type=int, default=_PAIRS, help=f"runs of each kind (default: {_PAIRS})")
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve() / "project"
        folder.mkdir()
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        (folder / "test_plain.py").write_text(_FILE, encoding="utf-8")
        found = take_turns(folder, pairs)
    say = sys.stdout.write
    say(f"pytest --collect-only of one plain test, medians of {pairs} pairs of runs, in ms\n")
    say(f"{'':6}{'with':>10}{'without':>10}{'added':>10}{'fastest':>10}    middle half of what was added\n")
    say(line("wall", found, lambda run: run.wall_s) + "\n")
    say(line("CPU", found, lambda run: run.cpu_s) + "\n")
    added = statistics.median(1000 * (run.wall_s - other.wall_s) for run, other in found)
    say(f"target: {TARGET_MS:g} ms or less of wall time; {'met' if added <= TARGET_MS else 'MISSED'}\n")


if __name__ == "__main__":
    main()
