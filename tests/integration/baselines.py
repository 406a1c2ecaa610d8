"""A project with records of windows whose figures are known, for tests of `specgate baseline`."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.adapters.baseline_files import BaselineFolder, load_baseline
from pytest_specgate.adapters.storage import FileStore
from pytest_specgate.cli import main
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.stored_gates import stored_gate
from tests.core.conftest import HOST_CLASS, Build

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.baselines import BaselineFile
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.thresholds import AnyThreshold

ID: Final = "benchmarks/test_speed.py::test_k4"
FAST: Final = "c1-output_throughput"
SOON: Final = "c8-ttft_p50"


@dataclasses.dataclass(frozen=True)
class Told:
    """What a command said: its exit status, and both streams."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, parsed."""
        return json.loads(self.out)


class Project:
    """A folder with records and baselines, and commands that are run in it.

    Args:
        folder: an empty one, in which this process is.
        capsys: sees what commands say.
    """

    pair = Build.pair(rounds=2)
    claims = (Build.claim(), Build.claim("ttft_p50", 8, mode="absolute"))

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.baselines = BaselineFolder(Path("baselines"))
        self._capsys = capsys

    @classmethod
    def gate(cls, *thresholds: AnyThreshold, name: str = ID, pair: ArmPair | None = None) -> Gate:
        """Return a gate, by default one that claims something of two entries."""
        return Gate(id=name, pair=pair or cls.pair, thresholds=thresholds or cls.claims)

    def window(self, day: int, speed: float, *gates: Gate, rounds: int = 2, **changes: Any) -> WindowRecord:
        """Return a window of a day whose candidate ran at some speed."""
        asked = gates or (self.gate(),)
        made = Build.day(asked[0].pair, day, [1.0] * rounds, [speed] * rounds)
        engine = {arm.name: {"distribution": "vllm", "version": "0.32.0"} for arm in asked[0].pair.arms}
        fixed = {"gates": tuple(map(stored_gate, asked)), "engine": engine, "commit": "0123456789abcdef"}
        return made.model_copy(update={**fixed, **changes})

    def record(self, day: int, speed: float, *gates: Gate, **changes: Any) -> str:
        """Write the record of a window, and return the path of its folder."""
        return self.write(self.window(day, speed, *gates, **changes), f"day-{day}")

    @staticmethod
    def write(record: WindowRecord, name: str) -> str:
        """Write a record, and return the path of its folder."""
        FileStore(Path("results") / name).save(record)
        return f"results/{name}"

    def run(self, *words: str) -> Told:
        """Run `specgate baseline`."""
        status = main(["baseline", *words])
        out, err = self._capsys.readouterr()
        return Told(status, out, err)

    def accept(self, record: str, *words: str, reason: str = "a test") -> Told:
        """Run `specgate baseline accept`."""
        return self.run("accept", record, "--reason", reason, *words)

    def accepted(self, *speeds: float, gates: Sequence[Gate] = ()) -> None:
        """Accept windows of the first days, whatever they are."""
        for day, speed in enumerate(speeds, 1):
            told = self.accept(self.record(day, speed, *gates), "--accept-regression", reason=f"day {day}")
            assert told.status == 0, told.err

    def path(self, name: str = ID, *, host_class: str = HOST_CLASS) -> Path:
        """Return where the baseline of a gate lies, or would lie."""
        return self.baselines.path(name, host_class=host_class)

    def file(self, name: str = ID) -> BaselineFile:
        """Return the baseline of a gate."""
        return load_baseline(self.path(name))

    def bytes(self) -> dict[str, bytes]:
        """Return every file under the baselines, by its path."""
        found = (Path(folder) / name for folder, _, names in os.walk("baselines") for name in names)
        return {str(path): path.read_bytes() for path in found}
