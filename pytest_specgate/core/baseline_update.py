"""Updating a baseline: what a window would change in a file, and what has to be said before it may."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pytest_specgate.core.baseline_fit import ANEW, known_entry, problem_of
from pytest_specgate.core.baseline_offer import accepted_window, builds_of, offer, window_id
from pytest_specgate.core.baseline_values import level_of, mean
from pytest_specgate.core.baselines import OTHER_ENGINE, BaselineEntry, BaselineFile
from pytest_specgate.core.confounds import attached_of
from pytest_specgate.core.errors import InvalidError, UsageError
from pytest_specgate.core.judge import cut_short, judge, pair_problem
from pytest_specgate.core.rule import SLACK
from pytest_specgate.core.verdict import Outcome, change_words
from pytest_specgate.core.verdict_baseline import ZERO, judge_baseline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.baseline_offer import Offer
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.stored import Failure
    from pytest_specgate.core.thresholds import BaselineThreshold
    from pytest_specgate.core.verdict import Verdict

Mode: TypeAlias = Literal["new", "append", "replace"]
"""What happens to an entry that is there: it stays as it is, gets another window, or starts anew."""

Kind: TypeAlias = Literal["created", "appended", "replaced", "kept"]

_REPLACE: Final = "start it anew with specgate baseline accept RECORD --replace --reason '...'"
_LEAST_REASON: Final = 3


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
        claims: about it.
        verdicts: of the window against the entry as it was, one for each claim about it; empty where there was none.
        regression: why this has to be accepted as a regression, in one sentence; empty where it has not.
    """

    entry_id: str
    kind: Kind
    before: BaselineEntry | None
    after: BaselineEntry
    claims: tuple[BaselineThreshold, ...]
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
        UsageError: the gate claims nothing of a baseline, no reason is given, the file is of another gate or class of
            machine, or an entry is of another load or other arms.
    """
    touched = {threshold.entry_id for threshold in (gate.baselines if thresholds is None else thresholds)}
    # All claims about an entry have a say in it, selected or not.
    concerned = [threshold for threshold in gate.baselines if threshold.entry_id in touched]
    if not concerned:
        raise UsageError(f"{gate.id} claims nothing of a baseline: add not_worse_than_baseline(...) to it")
    if len(how.reason.strip()) < _LEAST_REASON:
        raise UsageError("whoever reads the baseline wants to know why it changed: say it, as --reason 'vLLM 0.33'")
    refuse_invalid(gate, record)
    _refuse_foreign(gate, record, file)
    _refuse_continued(record, file)
    known = file or BaselineFile(host_class=record.host_class, gate=gate.id)
    changes: list[EntryChange] = []
    for entry_id in dict.fromkeys(threshold.entry_id for threshold in concerned):
        claims = [threshold for threshold in concerned if threshold.entry_id == entry_id]
        change, known = _changed(gate, record, known, claims=claims, how=how)
        changes.append(change)
    others = [verdict for verdict in judge(gate, record) if verdict.baseline is None]
    failed = tuple(verdict.threshold for verdict in others if verdict.outcome == Outcome.FAIL)
    update = Update(gate.id, file, known, tuple(changes), failed)
    return _marked(update, window_id(record)) if update.regressions else update


def refuse_invalid(gate: Gate, record: WindowRecord) -> None:
    """Refuse a window that must not be judged.

    Raises:
        InvalidError: it did not run to its end, is invalid, or has an arm whose machine nobody knows.
    """
    if not record.finished:
        raise InvalidError("the window did not run to its end: measure it whole", reason="unfinished")
    if cut_short(gate, record):
        raise InvalidError(f"{record.stopped}: measure it whole, without a budget", reason="stopped")
    problem = pair_problem(gate.pair, record)
    if problem is not None:
        raise InvalidError(problem.message, reason=problem.reason)
    attached = [arm.name for arm in gate.pair.arms if attached_of(arm.name, record)]
    if attached:
        raise InvalidError(
            f"the server of {attached[0]} was attached, and nobody knows its machine: it makes no baseline",
            reason="attached",
        )


def _refuse_continued(record: WindowRecord, file: BaselineFile | None) -> None:
    """Refuse a window that goes on with one that is in the baseline: its first rounds would count twice."""
    accepted = {window.record_sha256 for window in file.windows.values()} if file is not None else set()
    again = next((run for run in record.continued if run.record_sha256 in accepted), None)
    if again is not None:
        raise UsageError(
            f"its first {again.rounds} rounds are in the baseline already, as {again.record}: measure anew"
        )


def _refuse_foreign(gate: Gate, record: WindowRecord, file: BaselineFile | None) -> None:
    """Refuse a window of an unknown machine, and a file of another one or of another gate."""
    if not record.host_class:
        raise InvalidError(
            "the record does not say on which class of machine it was measured, so it makes no baseline: measure again",
            reason="unknown-host",
        )
    if file is not None and (file.gate, file.host_class) != (gate.id, record.host_class):
        raise UsageError(
            f"the baseline is that of {file.gate} on {file.host_class}, and the window that of {gate.id} on "
            f"{record.host_class}: accept it into its own"
        )


def _changed(
    gate: Gate, record: WindowRecord, file: BaselineFile, *, claims: Sequence[BaselineThreshold], how: Acceptance
) -> tuple[EntryChange, BaselineFile]:
    """Return what becomes of one entry, and of the file."""
    before = file.entries.get(claims[0].entry_id)
    if before is not None and how.mode == "new":
        return EntryChange(before.id, "kept", before, before, tuple(claims)), file
    found = offer(gate.pair, claims[0], record)
    _refuse_zero(found, claims)
    verdicts, problem = _held_against(gate, record, file, before=before, claims=claims, found=found)
    after, kind = _entry(before, found, problem=problem, verdicts=verdicts, how=how)
    window = accepted_window(
        record,
        gate.pair,
        record_sha256=how.record_sha256,
        accepted_at=how.accepted_at,
        reason=how.reason,
        regression=False,
    )
    changed = file.with_entry(
        after,
        windows={found.values.window: window} if found.values.window not in file.windows else {},
        definition=found.definition,
        profile=found.profile,
    )
    worse = () if before is None or not _comparable(problem) else _worse(before, found, claims)
    return EntryChange(after.id, kind, before, after, tuple(claims), verdicts, "; ".join(worse)), changed


def _refuse_zero(found: Offer, claims: Sequence[BaselineThreshold]) -> None:
    """Refuse figures of which no later ratio can be formed."""
    if all((*found.values.reference, *found.values.candidate)) or all(claim.points for claim in claims):
        return
    name = found.threshold.entry_id
    raise InvalidError(f"{name} is 0 in this window, and nothing can be compared with that later", reason=ZERO)


def _held_against(  # noqa: PLR0913  - a window, what is there, and what is claimed of both
    gate: Gate,
    record: WindowRecord,
    file: BaselineFile,
    *,
    before: BaselineEntry | None,
    claims: Sequence[BaselineThreshold],
    found: Offer,
) -> tuple[tuple[Verdict, ...], Failure | None]:
    """Return the verdicts of a window against an entry, and the first reason why the two cannot be compared."""
    if before is None:
        return (), None
    known = known_entry(before, file, path="")
    engine = builds_of(gate.pair, record)
    problems = (problem_of(claim, found, known, engine=engine) for claim in claims)
    problem = next((problem for problem in problems if problem is not None), None)
    alone = record.model_copy(update={"baselines": (known,)})
    return tuple(judge_baseline(gate, claim, alone, final=True) for claim in claims), problem


def _entry(
    before: BaselineEntry | None,
    found: Offer,
    *,
    problem: Failure | None,
    verdicts: Sequence[Verdict],
    how: Acceptance,
) -> tuple[BaselineEntry, Kind]:
    """Return an entry with a window more, or a new one.

    Raises:
        UsageError: the window is in it, or the entry is of another load or other arms.
        InvalidError: the window must not be judged against it.
    """
    if before is not None and how.mode == "append":
        _refuse_append(before, found, problem=problem, verdicts=verdicts)
        windows = sorted([*before.windows, found.values], key=lambda values: values.window)
        return before.model_copy(update={"windows": tuple(windows)}), "appended"
    kept = before is not None and _comparable(problem) and not how.new_anchor
    made = BaselineEntry(
        metric=found.threshold.metric,
        at=found.threshold.at,
        metric_definition_version=found.metric_definition_version,
        definition_sha256=found.definition_sha256,
        profile_sha256=found.profile_sha256,
        anchor=before.anchor if before is not None and kept else found.values,
        windows=(found.values,),
    )
    return made, "created" if before is None else "replaced"


def _refuse_append(
    before: BaselineEntry, found: Offer, *, problem: Failure | None, verdicts: Sequence[Verdict]
) -> None:
    """Refuse a window that does not belong to those of an entry."""
    if found.values.window in {values.window for values in before.windows}:
        raise UsageError(f"{before.id}: this window is in the baseline already; measure another one")
    if problem is not None:
        fields = f" ({', '.join(problem.detail.splitlines())})" if problem.detail else ""
        raise UsageError(f"{before.id}: {problem.message.removesuffix(f': {ANEW}')}{fields}: {_REPLACE}")
    invalid = next((verdict for verdict in verdicts if verdict.outcome == Outcome.INVALID), None)
    if invalid is not None:
        raise InvalidError(f"{before.id}: {invalid.summary}", reason=invalid.reason)


def _comparable(problem: Failure | None) -> bool:
    """Whether figures of an entry and of a window are of the same load, arms and formulas; engine builds may differ."""
    return problem is None or problem.reason == OTHER_ENGINE


def _worse(before: BaselineEntry, found: Offer, claims: Sequence[BaselineThreshold]) -> tuple[str, ...]:
    """Say in what a window is worse than what is there, beyond a margin.

    It is the estimate that counts, and not its bound: a baseline of few windows has no bound, and must not take in a
    loss unseen for that.
    """
    return tuple(dict.fromkeys(text for claim in claims for text in _losses(before, found, claim)))


def _losses(before: BaselineEntry, found: Offer, claim: BaselineThreshold) -> Iterator[str]:
    today, first = level_of(claim, found.values), level_of(claim, before.anchor)
    usual = mean([level_of(claim, values) for values in before.windows])
    for level, since in ((usual, "the baseline"), (first, "the first accepted window")):
        if today - level < -claim.delta - SLACK:
            words = change_words(claim.raw(today - level), metric_name=claim.metric, points=claim.points)
            yield f"{claim.entry_id} ({claim.mode}) {words} since {since}, beyond its margin"


def _marked(update: Update, window: str) -> Update:
    """Return an update whose window is marked as an accepted regression."""
    marked = update.after.windows[window].model_copy(update={"regression": True})
    after = update.after.model_copy(update={"windows": {**update.after.windows, window: marked}})
    return dataclasses.replace(update, after=after)
