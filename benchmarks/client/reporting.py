"""Settings of the client benchmarks, and the report that they leave: tables on the terminal, figures as JSON."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import platform
import subprocess
from typing import TYPE_CHECKING, Any

import psutil
from tabulate import tabulate

from benchmarks.client.processes import Client
from pytest_specgate.adapters.host import LocalHost

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterable, Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What the command line asks for.

    Attributes:
        repeats: how often every client does every point.
        points: concurrencies.
        engine_python: interpreter that may have vLLM.
        other_cpus: CPUs that other programs may keep busy during a point that counts.
    """

    repeats: int
    points: tuple[int, ...]
    engine_python: str
    other_cpus: float

    def clients(self) -> list[Client]:
        """Return the clients that can run here, the plugin's own first."""
        found = [
            Client("specgate", "benchmarks.client.drive_specgate"),
            Client("stamps only", "benchmarks.client.drive_floor"),
        ]
        if importlib.util.find_spec("aiohttp"):
            found.append(Client("bare aiohttp", "benchmarks.client.drive_aiohttp"))
        if _has_vllm(self.engine_python):
            found.append(Client("vllm bench serve", "benchmarks.client.drive_vllm", python=self.engine_python))
        return found


@dataclasses.dataclass(slots=True)
class _Section:
    """One table and what goes with it."""

    rows: list[Mapping[str, object]] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def text(self, name: str) -> str:
        table = tabulate(self.rows, headers="keys", tablefmt="github", missingval="-", floatfmt=".2f")
        return "\n".join([f"### {name}", "", table, "", *(f"- {note}" for note in self.notes), ""])


@dataclasses.dataclass(slots=True)
class Report:
    """Collects what the benchmarks found, for the end of the session.

    Attributes:
        folder: where figures are written.
    """

    folder: pathlib.Path
    _sections: dict[str, _Section] = dataclasses.field(default_factory=dict)

    def add(
        self, name: str, rows: Iterable[Mapping[str, object]], *, figures: object = None, notes: Iterable[str] = ()
    ) -> None:
        """Add rows to a table, and write the table, or the figures behind it, to its file."""
        section = self._sections.setdefault(name, _Section())
        section.rows += rows
        section.notes += notes
        self.folder.mkdir(parents=True, exist_ok=True)
        found = {"machine": machine(), "notes": section.notes, "figures": figures or section.rows}
        (self.folder / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")

    def text(self) -> str:
        """Return all tables as Markdown."""
        return "\n".join(section.text(name) for name, section in self._sections.items())


def machine() -> dict[str, Any]:
    """Return the facts without which the figures mean little."""
    facts = LocalHost().facts()
    return {**facts, "python": platform.python_version(), "load_average": os.getloadavg()}


def busy_cpu_s() -> float:
    """Return the CPU seconds that the whole machine has been busy."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _has_vllm(python: str) -> bool:
    question = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
    return not subprocess.run([python, "-c", question], check=False, capture_output=True).returncode  # noqa: S603  - the user named it
