"""Updating a baseline: what a window would change in a file, and what has to be said before it may."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pytest_specgate.core.baseline_fit import known_baseline
from pytest_specgate.core.baseline_offer import accepted_window, offer
from pytest_specgate.core.baselines import BaselineEntry, BaselineFile
from pytest_specgate.core.confounds import attached_of
from pytest_specgate.core.errors import InvalidError, UsageError
from pytest_specgate.core.judge import judge, pair_problem
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.core.verdict_baseline import judge_baseline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.baseline_offer import Offer
    from pytest_specgate.core.baselines import KnownBaseline
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.thresholds import BaselineThreshold
    from pytest_specgate.core.verdict import Verdict

Mode: TypeAlias = Literal["new", "append", "replace"]
"""What happens to an entry that is there: it stays as it is, gets another window, or starts anew."""

Kind: TypeAlias = Literal["created", "appended", "replaced", "kept"]

_REPLACE: Final = "start it anew with specgate baseline accept RECORD --replace --reason '...'"


@dataclasses.dataclass(frozen=True, slots=True)
class Acceptance:
    """Who accepts what, and why.

    Attributes:
        mode: what happens to entries that are there.
        reason: why, in words.
        accepted_at: wall-clock time, ISO 8601 with zone.
        record_sha256: of the file of the record.
        new_anchor: whether `replace` also forgets the first window.
    """

    mode: Mode
    reason: str
    accepted_at: str
    record_sha256: str
    new_anchor: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class EntryChange:
    """What becomes of one entry.

    Attributes:
        entry_id: of the entry.
        kind: what happens to it.
        before: it; `None` where there is none yet.
        after: likewise, afterwards.
        verdicts: of the window against the entry as it was, one for each claim about it; empty where there was none.
        regression: why this has to be accepted as a regression, in one sentence; empty where it has not.
    """

    entry_id: str
    kind: Kind
    before: BaselineEntry | None
    after: BaselineEntry
    verdicts: tuple[Verdict, ...] = ()
    regression: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Update:
    """What a window changes in the baseline of one gate.

    Attributes:
        gate: id of the gate.
        before: the file; `None` where there is none yet.
        after: the file afterwards.
        changes: by entry.
        failed: thresholds of the gate that compare the arms of today, and FAIL.
    """

    gate: str
    before: BaselineFile | None
    after: BaselineFile
    changes: tuple[EntryChange, ...]
    failed: tuple[str, ...] = ()

    @property
    def writes(self) -> bool:
        """Whether anything changes."""
        return any(change.kind != "kept" for change in self.changes)

    @property
    def regressions(self) -> tuple[str, ...]:
        """Why this has to be accepted as a regression, one sentence each; empty where it has not."""
        if not self.writes:
            return ()
        failed = (f"{threshold} is FAIL" for threshold in self.failed)
        return (*failed, *(change.regression for change in self.changes if change.regression))


def plan_update(
    gate: Gate,
    record: WindowRecord,
    file: BaselineFile | None,
    *,
    how: Acceptance,
    thresholds: Sequence[BaselineThreshold] | None = None,
) -> Update:
    """Return what a window would change in the baseline of a gate; nothing is written.

    Args:
        gate: of the window.
        record: of the window.
        file: what is there; `None` where nothing is.
        how: who accepts, and why.
        thresholds: claims whose entries are concerned; `None` for all of the gate.

    Raises:
        InvalidError: the window must not be judged, so it is no baseline either.
        UsageError: the gate claims nothing of a baseline, or an entry is of another load or other arms.
    """
    concerned = gate.baselines if thresholds is None else tuple(thresholds)
    if not concerned:
        raise UsageError(f"{gate.id} claims nothing of a baseline: add not_worse_than_baseline(...) to it")
    refuse_invalid(gate, record)
    known = file or BaselineFile(host_class=record.host_class, gate=gate.id)
    changes: list[EntryChange] = []
    for entry_id in dict.fromkeys(threshold.entry_id for threshold in concerned):
        claims = [threshold for threshold in concerned if threshold.entry_id == entry_id]
        change, known = _changed(gate, record, known, claims=claims, how=how)
        changes.append(change)
    others = [verdict for verdict in judge(gate, record) if verdict.baseline is None]
    failed = tuple(verdict.threshold for verdict in others if verdict.outcome == Outcome.FAIL)
    update = Update(gate.id, file, known, tuple(changes), failed)
    return _marked(update) if update.regressions else update


def refuse_invalid(gate: Gate, record: WindowRecord) -> None:
    """Refuse a window that must not be judged.

    Raises:
        InvalidError: it did not run to its end, is invalid, or has an arm whose machine nobody knows.
    """
    if not record.finished:
        raise InvalidError("the window did not run to its end: measure it whole", reason="unfinished")
    problem = pair_problem(gate.pair, record)
    if problem is not None:
        raise InvalidError(problem.message, reason=problem.reason)
    attached = [arm.name for arm in gate.pair.arms if attached_of(arm.name, record)]
    if attached:
        raise InvalidError(
            f"the server of {attached[0]} was attached, and nobody knows its machine: it makes no baseline",
            reason="attached",
        )


def _changed(
    gate: Gate, record: WindowRecord, file: BaselineFile, *, claims: Sequence[BaselineThreshold], how: Acceptance
) -> tuple[EntryChange, BaselineFile]:
    """Return what becomes of one entry, and of the file."""
    before = file.entries.get(claims[0].entry_id)
    if before is not None and how.mode == "new":
        return EntryChange(before.id, "kept", before, before), file
    found = offer(gate.pair, claims[0], record)
    looked_up = [
        known_baseline(
            gate, claim, file, path="", host_class=record.host_class or file.host_class, settings=record.settings
        )
        for claim in claims
    ]
    verdicts = tuple(
        judge_baseline(gate, claim, record.model_copy(update={"baselines": (known,)}), final=True)
        for claim, known in zip(claims, looked_up, strict=True)
        if known.entry is not None
    )
    after, kind = _entry(before, found, looked_up[0], verdicts=verdicts, how=how)
    window = accepted_window(
        record, record_sha256=how.record_sha256, accepted_at=how.accepted_at, reason=how.reason, regression=False
    )
    changed = file.with_entry(
        after,
        windows={found.values.window: window} if found.values.window not in file.windows else {},
        definition=found.definition,
        profile=found.profile,
    )
    worse = next((text for claim, one in zip(claims, verdicts, strict=False) if (text := _worse(claim, one))), "")
    return EntryChange(after.id, kind, before, after, verdicts, worse), changed


def _entry(
    before: BaselineEntry | None,
    found: Offer,
    known: KnownBaseline,
    *,
    verdicts: Sequence[Verdict],
    how: Acceptance,
) -> tuple[BaselineEntry, Kind]:
    """Return an entry with a window more, or a new one.

    Raises:
        UsageError: the window is in it, or the entry is of another load or other arms.
    """
    comparable = before is not None and _comparable(before, found)
    if before is not None and how.mode == "append":
        if found.values.window in {values.window for values in before.windows}:
            raise UsageError(f"{before.id}: this window is in the baseline already; measure another one")
        invalid = next((verdict for verdict in verdicts if verdict.outcome == Outcome.INVALID), None)
        if known.problem is not None or not comparable:
            why = known.problem.message if known.problem else invalid.summary if invalid else "it is of another load"
            raise UsageError(f"{before.id}: {why.partition(': measure, and')[0]}: {_REPLACE}")
        if invalid is not None:
            raise InvalidError(f"{before.id}: {invalid.summary}", reason=invalid.reason)
        windows = sorted([*before.windows, found.values], key=lambda values: values.window)
        return before.model_copy(update={"windows": tuple(windows)}), "appended"
    anchor = before.anchor if before is not None and comparable and not how.new_anchor else found.values
    made = BaselineEntry(
        metric=found.threshold.metric,
        at=found.threshold.at,
        metric_definition_version=found.metric_definition_version,
        definition_sha256=found.definition_sha256,
        profile_sha256=found.profile_sha256,
        anchor=anchor,
        windows=(found.values,),
    )
    return made, "created" if before is None else "replaced"


def _comparable(entry: BaselineEntry, found: Offer) -> bool:
    """Whether the figures of an entry and of a window are of the same load, arms and formulas."""
    mine = (found.metric_definition_version, found.definition_sha256, found.profile_sha256)
    return (entry.metric_definition_version, entry.definition_sha256, entry.profile_sha256) == mine


def _worse(threshold: BaselineThreshold, verdict: Verdict) -> str:
    """Say that a window is worse than what is there; empty where it is not, by the estimate and not by its bound.

    A baseline of few windows has no bound, and must not take in a loss beyond the margin unseen for that.
    """
    if verdict.baseline is None or verdict.change is None:
        return ""
    sign = 1 if threshold.row.higher_is_better else -1
    limit = sign * threshold.declared_limit
    for change, since in ((verdict.change, "the baseline"), (verdict.baseline.since_anchor, "the first window")):
        if sign * change < limit:
            return f"{threshold.entry_id} is worse than {since} by more than its margin ({100 * change:+.1f} %)"
    return ""


def _marked(update: Update) -> Update:
    """Return an update whose window is marked as an accepted regression."""
    mine = {values.window for change in update.changes for values in change.after.windows[-1:]}
    new = mine - set(update.before.windows if update.before else ())
    windows = {
        name: window.model_copy(update={"regression": True}) if name in new else window
        for name, window in update.after.windows.items()
    }
    return dataclasses.replace(update, after=update.after.model_copy(update={"windows": windows}))


def unclaimed(file: BaselineFile, gate: Gate | None) -> frozenset[str]:
    """Return the entries of a file that its gate does not claim; all of them where there is no such gate."""
    claimed = {threshold.entry_id for threshold in gate.baselines} if gate is not None else set()
    return frozenset(file.entries) - claimed
