"""Whether a baseline says anything of a window: known beforehand as far as it goes, and of what was observed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.baseline_offer import METRIC, definition_of, shortened_profile
from pytest_specgate.core.baselines import (
    FOREIGN_HOST,
    NO_BASELINE,
    OTHER_DEFINITION,
    OTHER_ENGINE,
    OTHER_PROFILE,
    KnownBaseline,
)
from pytest_specgate.core.identity import shortened
from pytest_specgate.core.metrics import DEFINITION_VERSION
from pytest_specgate.core.profile import declared_fields, same
from pytest_specgate.core.stored import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.baseline_offer import Offer
    from pytest_specgate.core.baselines import AcceptedWindow, BaselineEntry, BaselineFile
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.thresholds import BaselineThreshold

NOTHING_THERE: Final = "baseline-is-zero"
"""Reason code of a baseline of which no ratio can be formed."""

_UNSET: Final = "(unset)"
ANEW: Final = (
    "measure with --specgate-baseline=all, and start the baseline anew with that record: "
    "specgate baseline accept RECORD --replace --reason '...'"
)
"""What to do about a baseline that says nothing of today any more: the end of the message of such a failure."""

_NEW: Final = "with --specgate-baseline=new"


def known_baseline(  # noqa: PLR0913  - the claim, the file, and where both are
    gate: Gate,
    threshold: BaselineThreshold,
    file: BaselineFile | None,
    *,
    path: str,
    host_class: str,
    elsewhere: Sequence[str] = (),
    settings: Mapping[str, JsonValue],
) -> KnownBaseline:
    """Return what a window knows of the baseline of a claim before it runs.

    Args:
        gate: of the claim.
        threshold: the claim.
        file: of the gate on this class of machine; `None` where there is none.
        path: of it, as a user would type it.
        host_class: of this machine.
        elsewhere: classes of machine that have a baseline of this gate.
        settings: what every server is given.
    """
    entry = file.entries.get(threshold.entry_id) if file is not None else None
    if file is None or entry is None:
        missing = _missing(host_class, elsewhere if file is None else ())
        return KnownBaseline(gate=gate.id, entry_id=threshold.entry_id, path=path, problem=missing)
    known = known_entry(entry, file, path=path)
    mine = shortened_profile(declared_fields(gate.pair.profile))
    problem = (
        _foreign(file, host_class)
        or _formula(entry)
        or _other_arms(known, definition_of(gate.pair, settings, metric=threshold.row))
        or _other_load({name: known.profile.get(name, _UNSET) for name in mine}, mine)
    )
    return known.model_copy(update={"problem": problem})


def known_entry(entry: BaselineEntry, file: BaselineFile, *, path: str) -> KnownBaseline:
    """Return what a file says of one of its entries, fit or not."""
    return KnownBaseline(
        gate=file.gate,
        entry_id=entry.id,
        path=path,
        entry=entry,
        windows={name: window for name, window in file.windows.items() if name in entry.window_ids},
        profile=file.profiles[entry.profile_sha256],
        definition=file.definitions[entry.definition_sha256],
    )


def _missing(host_class: str, elsewhere: Sequence[str]) -> Failure:
    others = f"; there are baselines of {', '.join(elsewhere)}, which say nothing of this machine" if elsewhere else ""
    return Failure(reason=NO_BASELINE, message=f"no baseline for {host_class} yet: write it {_NEW}{others}")


def _foreign(file: BaselineFile, host_class: str) -> Failure | None:
    if file.host_class == host_class:
        return None
    text = (
        f"this baseline was measured on {file.host_class}, and this machine is {host_class}: the file was moved or "
        f"copied by hand; remove it, and write one of this machine {_NEW}"
    )
    return Failure(reason=FOREIGN_HOST, message=text)


def _formula(entry: BaselineEntry) -> Failure | None:
    if entry.metric_definition_version == DEFINITION_VERSION:
        return None
    text = (
        f"figures of this baseline were computed by version {entry.metric_definition_version} of the formulas, and "
        f"today's by version {DEFINITION_VERSION}: {ANEW}"
    )
    return Failure(reason=OTHER_DEFINITION, message=text)


def _other_arms(known: KnownBaseline, mine: Mapping[str, JsonValue]) -> Failure | None:
    """Return in what the arms of a baseline differ from today's, `None` if in nothing."""
    lines = list(differing_lines(known.definition, mine))
    if lines and all(line.startswith(METRIC) for line in lines):
        text = f"the project defines the metric of this baseline otherwise today: {ANEW}"
    else:
        text = f"the arms of this baseline are not those of today: {ANEW}"
    return Failure(reason=OTHER_DEFINITION, message=text, detail="\n".join(lines)) if lines else None


def _other_load(stored: Mapping[str, JsonValue], mine: Mapping[str, JsonValue]) -> Failure | None:
    """Return in which fields the load of a baseline differs from today's, `None` if in none."""
    detail = "\n".join(differing_lines(stored, mine))
    text = f"the load of this baseline is not that of today: {ANEW}"
    return Failure(reason=OTHER_PROFILE, message=text, detail=detail) if detail else None


def differing_lines(stored: Mapping[str, JsonValue], mine: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield each field that differs, with both values."""
    for name in dict.fromkeys([*stored, *mine]):
        left, right = stored.get(name, _UNSET), mine.get(name, _UNSET)
        if isinstance(left, dict) and isinstance(right, dict):
            yield from (f"{name}.{line}" for line in differing_lines(left, right))
        elif not same(left, right):
            before, now = shortened(_words(left), _words(right))
            yield f"{name}: {before} in the baseline, {now} today"


def _words(value: JsonValue) -> str:
    """Return a value as JSON has it: a text that looks like a number is told from one."""
    return _UNSET if value == _UNSET else json.dumps(value, ensure_ascii=False)


def problem_of(
    threshold: BaselineThreshold, found: Offer, known: KnownBaseline, *, engine: Mapping[str, Mapping[str, JsonValue]]
) -> Failure | None:
    """Return why a measured window cannot be judged against its baseline, `None` if it can.

    Args:
        threshold: the claim.
        found: what the window has measured.
        known: the baseline; it has an entry.
        engine: builds that the window ran on, of ``reference`` and ``candidate``.
    """
    assert known.entry is not None, "only what was accepted is compared with"
    problem = _formula(known.entry) or _other_arms(known, found.definition) or _other_load(known.profile, found.profile)
    if problem is None and threshold.engine == "same":
        problem = _other_engine(known.entry, known.windows, engine)
    return problem or _one_sided(threshold, known.entry) or _nothing(threshold, known.entry)


def _one_sided(threshold: BaselineThreshold, entry: BaselineEntry) -> Failure | None:
    """Return that a change between arms is claimed of a baseline that has one arm only."""
    if threshold.mode == "absolute" or all(values.reference for values in (entry.anchor, *entry.windows)):
        return None
    text = f"this baseline has figures of one arm only, and the claim is about the change between two: {ANEW}"
    return Failure(reason=OTHER_DEFINITION, message=text)


def _other_engine(
    entry: BaselineEntry, windows: Mapping[str, AcceptedWindow], engine: Mapping[str, Mapping[str, JsonValue]]
) -> Failure | None:
    """Return that a window which today is compared with ran on another build; the anchor may."""
    mine: dict[str, JsonValue] = {side: dict(facts) for side, facts in engine.items()}
    for values in entry.windows:
        stored: dict[str, JsonValue] = {side: dict(facts) for side, facts in windows[values.window].engine.items()}
        lines = list(differing_lines(stored, mine))
        if lines:
            text = f"a window of this baseline ran on another engine build, and the claim asks for the same: {ANEW}"
            return Failure(reason=OTHER_ENGINE, message=text, detail="\n".join(lines))
    if not all(mine.values()):
        text = "the claim asks for the same engine build, and nothing tells which this window ran on: leave engine= out"
        return Failure(reason=OTHER_ENGINE, message=text)
    return None


def _nothing(threshold: BaselineThreshold, entry: BaselineEntry) -> Failure | None:
    """Return that a baseline has a figure of 0, of which no ratio can be formed; `None` where none is needed."""
    figures = [figure for values in (entry.anchor, *entry.windows) for figure in (*values.reference, *values.candidate)]
    if threshold.points or all(figures):
        return None
    text = f"{threshold.metric} is 0 in a window of this baseline, and nothing can be compared with that: {ANEW}"
    return Failure(reason=NOTHING_THERE, message=text)
