"""Whether a baseline says anything of a window: known beforehand as far as it goes, and of what was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_specgate.core.baseline_offer import definition_of, shortened_profile
from pytest_specgate.core.baselines import (
    FOREIGN_HOST,
    NO_BASELINE,
    OTHER_DEFINITION,
    OTHER_ENGINE,
    OTHER_PROFILE,
    KnownBaseline,
)
from pytest_specgate.core.confounds import BUILD
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

_UNSET: Final = "(unset)"
_ANEW: Final = "measure, and start the baseline anew: specgate baseline accept RECORD --replace --reason '...'"
_NEW: Final = "write it with --specgate-baseline=new"


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
    known = KnownBaseline(gate=gate.id, entry_id=threshold.entry_id, path=path)
    if file is None or entry is None:
        return known.model_copy(update={"problem": _missing(host_class, elsewhere if file is None else ())})
    profile, definition = file.profiles[entry.profile_sha256], file.definitions[entry.definition_sha256]
    mine = shortened_profile(declared_fields(gate.pair.profile))
    problem = (
        _foreign(file, host_class)
        or _formula(entry)
        or _other(OTHER_DEFINITION, "arms", definition, definition_of(gate.pair, settings))
        or _other(OTHER_PROFILE, "load", {name: profile.get(name, _UNSET) for name in mine}, mine)
    )
    windows = {name: window for name, window in file.windows.items() if name in entry.window_ids}
    return known.model_copy(
        update={
            "problem": problem, "entry": entry, "windows": windows, "profile": profile, "definition": definition
        }
    )  # fmt: skip


def _missing(host_class: str, elsewhere: Sequence[str]) -> Failure:
    others = f"; there are baselines of {', '.join(elsewhere)}, which say nothing of this machine" if elsewhere else ""
    return Failure(reason=NO_BASELINE, message=f"no baseline for {host_class} yet: {_NEW}{others}")


def _foreign(file: BaselineFile, host_class: str) -> Failure | None:
    if file.host_class == host_class:
        return None
    text = (
        f"this baseline was measured on {file.host_class}, and this machine is {host_class}: the file was moved or "
        f"copied by hand; remove it, and {_NEW.removeprefix('write it ')}"
    )
    return Failure(reason=FOREIGN_HOST, message=text)


def _formula(entry: BaselineEntry) -> Failure | None:
    if entry.metric_definition_version == DEFINITION_VERSION:
        return None
    text = (
        f"figures of this baseline were computed by version {entry.metric_definition_version} of the formulas, and "
        f"today's by version {DEFINITION_VERSION}: {_ANEW}"
    )
    return Failure(reason=OTHER_DEFINITION, message=text)


def _other(reason: str, what: str, stored: Mapping[str, JsonValue], mine: Mapping[str, JsonValue]) -> Failure | None:
    """Return in which fields a baseline and today differ, `None` if in none."""
    lines = list(differing_lines(stored, mine))
    if not lines:
        return None
    text = f"the {what} of this baseline {'are' if what.endswith('s') else 'is'} not that of today: {_ANEW}"
    return Failure(reason=reason, message=text.replace("are not that", "are not those"), detail="\n".join(lines))


def differing_lines(stored: Mapping[str, JsonValue], mine: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield each field that differs, with both values."""
    for name in dict.fromkeys([*stored, *mine]):
        left, right = stored.get(name, _UNSET), mine.get(name, _UNSET)
        if isinstance(left, dict) and isinstance(right, dict):
            yield from (f"{name}.{line}" for line in differing_lines(left, right))
        elif not same(left, right):
            yield f"{name}: {left} in the baseline, {right} today"


def problem_of(
    threshold: BaselineThreshold, found: Offer, known: KnownBaseline, *, engine: Mapping[str, Mapping[str, JsonValue]]
) -> Failure | None:
    """Return why a measured window cannot be judged against its baseline, `None` if it can."""
    problem = _other(OTHER_DEFINITION, "arms", known.definition, found.definition) or _other(
        OTHER_PROFILE, "load", known.profile, found.profile
    )
    return problem or (_other_engine(known, engine) if threshold.engine == "same" else None)


def _other_engine(known: KnownBaseline, engine: Mapping[str, Mapping[str, JsonValue]]) -> Failure | None:
    mine: dict[str, JsonValue] = {
        arm: {name: value for name, value in facts.items() if name in BUILD} for arm, facts in engine.items()
    }
    for window in known.windows.values():
        lines = list(differing_lines(_builds(window), mine))
        if lines:
            text = f"a window of this baseline ran on another engine build, and the claim asks for the same: {_ANEW}"
            return Failure(reason=OTHER_ENGINE, message=text, detail="\n".join(lines))
    return None


def _builds(window: AcceptedWindow) -> dict[str, JsonValue]:
    return {arm: dict(facts) for arm, facts in window.engine.items()}
