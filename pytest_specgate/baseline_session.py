"""What items that claim something of a baseline do: they are judged, written, or closed before anything is measured."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.baseline_closed import closed_beforehand
from pytest_specgate.core.baselines import BASELINES_OFF, NO_BASELINE
from pytest_specgate.core.errors import SpecgateError, UsageError
from pytest_specgate.core.thresholds import BaselineThreshold
from pytest_specgate.reporting.baselines import update_lines, written_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_specgate.core.baseline_update import Update
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.measured import MeasuredWindow
    from pytest_specgate.core.thresholds import AnyThreshold
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.options import GateOptions
    from pytest_specgate.session_window import Window, Wiring


@dataclasses.dataclass(frozen=True, slots=True)
class _Settled:
    """What became of an update.

    Attributes:
        update: what it would change; `None` where the window must not be judged.
        written: what was written, in words; empty where nothing was.
        refused: why nothing was written, in words.
    """

    update: Update | None
    written: str = ""
    refused: str = ""


class BaselineClaims:
    """The claims about baselines that were collected, and what became of them."""

    def __init__(self, options: GateOptions, wiring: Wiring, *, say: Callable[[str], None]) -> None:
        self._options = options
        self._wiring = wiring
        self._say = say
        self._collected: dict[str, dict[str, BaselineThreshold]] = {}
        self._settled: dict[str, _Settled] = {}

    @property
    def writes(self) -> bool:
        """Whether this session writes baselines: what it writes it does not judge by them."""
        return self._options.baseline in {"new", "all"}

    @property
    def _expected(self) -> tuple[str, ...]:
        """Reasons that are no news: what this session is about to write is missing still."""
        return (BASELINES_OFF, NO_BASELINE) if self.writes else (BASELINES_OFF,)

    def take(self, gate: Gate, threshold: AnyThreshold | None) -> None:
        """Take note of a collected item: an update touches the entries of these, and no others."""
        if isinstance(threshold, BaselineThreshold):
            self._collected.setdefault(gate.id, {})[threshold.id] = threshold

    def foresee(self, window: Window) -> None:
        """Read the baselines of a window before anything is started, and say what cannot be judged.

        Raises:
            RecordError: one cannot be read.
        """
        window.baselines = self._wiring.baselines(window.gates.values())
        for gate in window.gates.values():
            for threshold in self._collected.get(gate.id, {}).values():
                known = window.baseline(gate, threshold)
                if known is not None and known.problem is not None and known.problem.reason not in self._expected:
                    self._say(f"{gate.id}: {threshold.id}: {known.problem.message}")

    def closed(self, window: Window, gate: Gate, threshold: AnyThreshold) -> Verdict | None:
        """Return the verdict of a claim that nothing measured can change; `None` where measuring tells more."""
        if self.writes or not isinstance(threshold, BaselineThreshold):
            return None
        return closed_beforehand(gate, threshold, window.baseline(gate, threshold))

    def settle(self, gate: Gate, threshold: AnyThreshold | None, measure: Callable[[], MeasuredWindow]) -> None:
        """Write the baseline of a gate, once, and skip the item that claims something of it; others go on.

        Args:
            gate: of the item.
            threshold: of the item.
            measure: returns what was measured.

        Raises:
            pytest.skip.Exception: the entry was written: a run that writes a baseline does not judge by it.
            pytest.fail.Exception: it was not, and why.
        """
        if not self.writes or not isinstance(threshold, BaselineThreshold):
            return
        found = self._settled.get(gate.id)
        if found is None:
            found = self._settled[gate.id] = self._settle(gate, measure())
        if found.update is not None and self._kept(found.update, threshold):
            return
        if found.refused:
            raise pytest.fail.Exception(found.refused, pytrace=False)
        raise pytest.skip.Exception(f"written, not judged: {found.written}")

    @staticmethod
    def _kept(update: Update, threshold: BaselineThreshold) -> bool:
        return any(change.entry_id == threshold.entry_id and change.kind == "kept" for change in update.changes)

    def _settle(self, gate: Gate, measured: MeasuredWindow) -> _Settled:
        thresholds = tuple(self._collected[gate.id].values())
        try:
            update = self._wiring.baseline_update(gate, thresholds, measured)
        except SpecgateError as error:
            return _Settled(None, refused=f"no baseline was written: {error}\n    record: {measured.path}")
        if not update.writes:
            return _Settled(update)
        for text in update_lines(update):
            for line in text.splitlines():
                self._say(line)
        if update.regressions and not self._options.accept_regression:
            reasons = "\n".join(f"    {sentence}" for sentence in update.regressions)
            return _Settled(
                update,
                refused=(
                    f"no baseline was written, since this window is a regression:\n{reasons}\n    if it is meant: "
                    f"specgate baseline accept {measured.path} --accept-regression --reason '...'"
                ),
            )
        try:
            path = self._wiring.save_baseline(update)
        except (SpecgateError, OSError) as error:
            later = f"specgate baseline accept {measured.path} --reason '...'"
            return _Settled(update, refused=f"no baseline was written: {error}\n    when that is mended: {later}")
        text = written_text(update, path=path)
        self._say(f"baseline written: {text}")
        return _Settled(update, written=text)

    def look_for_unclaimed(self, gates: Iterable[Gate], *, gone: Callable[[str], bool], strict: bool) -> None:
        """Say which baselines no gate claims; under strict they fail.

        Raises:
            UsageError: there are some, and strict wants none.
            RecordError: a baseline cannot be read.
        """
        found = [f"unused baseline {one.sentence}" for one in self._wiring.unclaimed_baselines(gates, gone=gone)]
        remedy = "remove with --specgate-baseline=prune"
        if found and strict:
            raise UsageError(f"{'; '.join(found)} ({remedy})")
        for sentence in found:
            self._say(f"{sentence} ({remedy})")

    def prune(self, gates: Iterable[Gate], *, gone: Callable[[str], bool]) -> None:
        """Remove what no gate claims, and say what.

        Raises:
            RecordError: a baseline cannot be read, or was changed meanwhile.
        """
        found = list(self._wiring.unclaimed_baselines(gates, gone=gone))
        for one in found:
            self._wiring.prune_baseline(one)
            self._say(f"removed {one.sentence}")
        if not found:
            self._say("nothing to remove: no baseline is known to be claimed by no gate")
