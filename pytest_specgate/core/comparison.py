"""Two windows, one against the other: what changed, and what may be said of it.

Two windows have no spread of their own. How far two windows of the same code lie apart has to be declared before one of
them can pass or fail; without it a comparison is indicative. Nothing is compared before both are known to be of one
load: a comparison that must not be read has no rows.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from pytest_specgate.core.declared import FreeJson
from pytest_specgate.core.levels import Level
from pytest_specgate.core.profile import same
from pytest_specgate.core.redaction import redacted
from pytest_specgate.core.stored import Failure, Stored
from pytest_specgate.core.validity import CHUNK_SHARE
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.baselines import BaselineValues
    from pytest_specgate.core.comparison_claims import Claims

Mode: TypeAlias = Literal["relative", "absolute"]

INDICATIVE: Final = "indicative: two windows"
SAME_TWICE: Final = (
    "both are one and the same window: no difference was to be expected, and this shows nothing of a change"
)
MISMATCH: Final = "profile-mismatch"
MISSING: Final = "missing-metric"
CHUNKS_DIFFER: Final = "chunks-differ"
OTHER_DEFINITION: Final = "other-definition"
NOTHING: Final = "nothing-judged"

_UNSET: Final = "(unset)"


class FieldDifference(Stored):
    """A field that tells two windows apart, with both values."""

    field: str
    reference: FreeJson
    candidate: FreeJson


def differences(
    reference: Mapping[str, JsonValue], candidate: Mapping[str, JsonValue], *, within: str = ""
) -> Iterator[FieldDifference]:
    """Yield each field that differs; numbers are equal by value, and a field that is not there differs from null."""
    for name in dict.fromkeys([*reference, *candidate]):
        left, right = reference.get(name, _UNSET), candidate.get(name, _UNSET)
        if isinstance(left, dict) and isinstance(right, dict):
            yield from differences(left, right, within=f"{within}{name}.")
        elif not same(left, right):
            shown = [redacted(value, name=f"{within}{name}") for value in (left, right)]
            yield FieldDifference(field=f"{within}{name}", reference=shown[0], candidate=shown[1])


def counted(reference: Mapping[str, JsonValue], candidate: Mapping[str, JsonValue]) -> str:
    """Return how many fields are identical: ``51 of 51 fields identical``."""
    names = reference.keys() | candidate.keys()
    alike = sum(same(reference.get(name, _UNSET), candidate.get(name, _UNSET)) for name in names)
    return f"{alike} of {len(names)} fields identical"


class Guard(NamedTuple):
    """An arm that the level of another one is held against: if it moved as well, the machine did."""

    arm: str
    reference: BaselineValues
    candidate: BaselineValues


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One figure of both windows, or why there is none.

    Attributes:
        subject: pair or arm; empty where there is one only.
        mode: whether the change between two arms is compared, or the level of one.
        metric: key in the metric table; empty for a problem of the whole subject, or of it at a load level.
        at: load level; `None` where a window has only one.
        reference: figures of the reference window; `None` where a problem stands in their place.
        candidate: of the candidate window.
        problem: why it must not be read.
        apart: why the two are shown, and not compared.
        claimed: whether claims are about it: not about the other mode, or a mere onlooker.
        guards: the same figure of the arms that a level is held against; of a pair, that of its reference arm.
        rebuilt: whether the engine of these arms is another build in the candidate window.
    """

    subject: str
    mode: Mode
    metric: str
    at: Level | None = None
    reference: BaselineValues | None = None
    candidate: BaselineValues | None = None
    problem: Failure | None = None
    apart: Failure | None = None
    claimed: bool = True
    guards: tuple[Guard, ...] = ()
    rebuilt: bool = False

    @property
    def windows(self) -> tuple[BaselineValues, BaselineValues]:
        """Figures of both windows, where no problem stands in their place."""
        assert self.reference is not None, "a cell without a problem has figures"
        assert self.candidate is not None, "likewise"
        return self.reference, self.candidate

    def margin(self, claims: Claims) -> float | None:
        """Return the margin of the claim about it; `None` where nothing is claimed."""
        return claims.margin_of(self.metric) if self.claimed and claims.floor is not None else None


class Row(Stored):
    """What became of one figure: all changes are raw, and fractions; levels are in the metric's unit.

    Attributes:
        subject: pair or arm; empty where there is one only.
        mode: ``relative`` (levels are candidate arm over reference arm) or ``absolute``.
        at: load level; `None` where a window has only one.
        metric: key in the metric table; empty for a problem of the whole subject.
        valid: whether it may be read.
        reason: code: why it may not, or how the outcome came about.
        message: likewise, in words.
        outcome: the word; `None` where nothing is claimed.
        reference: level of the reference window.
        candidate: level of the candidate window.
        change: from the one to the other.
        change_low: lower end of its interval, where a floor is declared.
        change_high: upper end.
        margin: the change at the margin.
    """

    subject: str
    mode: Mode
    at: Level | None
    metric: str
    valid: bool
    reason: str = ""
    message: str = ""
    outcome: Outcome | None = None
    reference: float | None = None
    candidate: float | None = None
    change: float | None = None
    change_low: float | None = None
    change_high: float | None = None
    margin: float | None = None


class Comparison(Stored):
    """Two windows, one against the other.

    Attributes:
        valid: whether any figure may be read; where not there are no rows.
        outcome: the worst word over all rows: FAIL, INVALID, INCONCLUSIVE, PASS.
        reason: code of the reason; empty where the outcomes of rows tell.
        message: likewise, in words.
        mode: what is judged: the change between arms, or levels.
        identity: how many fields of both loads are identical, in words.
        differences: those that are not.
        unproved: what the windows cannot prove.
        notes: what a reader should know besides.
        caveats: those notes without which the word of the whole would mislead.
        floor: declared floor across windows with its source; empty where none is.
        rows: the figures.
    """

    valid: bool
    outcome: Outcome
    reason: str = ""
    message: str = ""
    mode: Mode = "absolute"
    identity: str
    differences: tuple[FieldDifference, ...] = ()
    unproved: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    floor: str = ""
    rows: tuple[Row, ...] = ()


def refused(
    failure: Failure, *, identity: str = "", unproved: Sequence[str] = (), found: Sequence[FieldDifference] = ()
) -> Comparison:
    """Return a comparison that must not be read.

    Args:
        failure: why.
        identity: how many fields are identical, in words.
        unproved: what the windows cannot prove.
        found: fields that differ.
    """
    return Comparison(
        valid=False,
        outcome=Outcome.INVALID,
        reason=failure.reason,
        message=failure.message,
        identity=identity,
        differences=tuple(found),
        unproved=tuple(unproved),
    )


def redefinition(name: str) -> Failure:
    """Return that two windows mean two metrics by one name."""
    text = f"the windows define {name} otherwise, so its values are of two metrics: measure both by one definition"
    return Failure(reason=OTHER_DEFINITION, message=text)


def missing(reasons: Sequence[str | None]) -> Failure:
    """Return that a figure is not in both windows.

    Args:
        reasons: why not, of the reference and of the candidate window; `None` where it is there.
    """
    alike = len(set(reasons)) == 1
    texts = [f"in both windows {reasons[0]}"] if alike else [
        f"in the {window} window {reason}"
        for window, reason in zip(("reference", "candidate"), reasons, strict=True)
        if reason is not None
    ]  # fmt: skip
    return Failure(reason=MISSING, message="; ".join(texts))


def chunk_problem(tokens: Sequence[float | None], *, hint: str = "") -> Failure | None:
    """Return why gaps between chunks are not compared, `None` where chunks hold equally many tokens.

    Args:
        tokens: per chunk, of everything that is compared; `None` where it is not known.
        hint: how it could be known.
    """
    known = [value for value in tokens if value is not None]
    if len(known) < len(tokens):
        text = f"how many tokens a chunk holds is not known{hint}, so gaps between chunks are not compared: use tpot_*"
    elif max(known) > min(known) * (1 + CHUNK_SHARE):
        text = f"a chunk holds {min(known):.3g} to {max(known):.3g} tokens, so gaps are not per token: use tpot_*"
    else:
        return None
    return Failure(reason=CHUNKS_DIFFER, message=text)
