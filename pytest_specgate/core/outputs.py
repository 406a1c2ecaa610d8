"""Do the arms say the same? Under greedy sampling, a change that only makes serving faster leaves the answers alone.

Answers are compared request by request: same place, same point. Within a round this compares the arms; between the
rounds of one arm it compares the arm with itself, which is the floor: batches of other sizes add floating-point numbers
in another order, and an arm that does not repeat its own answers cannot be asked to repeat another's. Equal answers are
no proof of quality, and different ones no proof of a loss: neither is an accuracy check.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.core.levels import level_label

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import BootRecord, PointRecord, RequestRecord, WindowRecord


@dataclasses.dataclass(frozen=True, slots=True)
class Divergence:
    """Where two answers to one prompt part.

    Attributes:
        at: load level of the point.
        round: of the later boot of the two.
        index: of the request.
        character: number of the first character that differs, from 1; `None` where that is not known.
        kept: whether the texts of both answers were kept; their hashes always are.
    """

    at: Level
    round: int
    index: int
    character: int | None
    kept: bool = True

    @property
    def words(self) -> str:
        """Where it is, ``first difference at character 212 of request 17 at c=8, round 1``, or why that is unknown."""
        place = f"request {self.index} at {level_label(self.at)}, round {self.round}"
        if not self.kept:
            return f"where they differ is not known, as their texts were not kept (the first is {place})"
        return f"first difference {'in' if self.character is None else f'at character {self.character} of'} {place}"


@dataclasses.dataclass(frozen=True, slots=True)
class Agreement:
    """How many answers were compared, and how many of them are equal.

    Attributes:
        equal: number of equal answers.
        compared: number of pairs of answers.
        first: the first pair that differs, in the order of rounds, points and requests; `None` when all are equal.
    """

    equal: int
    compared: int
    first: Divergence | None = None

    @property
    def share(self) -> float:
        """Equal / compared.

        Raises:
            ZeroDivisionError: nothing was compared.
        """
        return self.equal / self.compared

    @property
    def words(self) -> str:
        """Both numbers: ``88 of 90``."""
        return f"{self.equal} of {self.compared}"


@dataclasses.dataclass(frozen=True, slots=True)
class PointOutputs:
    """What is known of the answers of a pair at one load level.

    Attributes:
        rounds: reference against candidate, round by round.
        reference: the reference with itself: the worst of its later rounds against its first.
        candidate: likewise of the candidate.
    """

    rounds: tuple[Agreement, ...]
    reference: Agreement
    candidate: Agreement

    @property
    def worst(self) -> Agreement:
        """The round in which the arms agree least."""
        return _worst(self.rounds)

    def repeatable(self, share: float) -> bool:
        """Whether both arms repeat their own answers to a share; arms that ran once are not known to fail it."""
        return all(one.share >= share for one in (self.reference, self.candidate) if one.compared)

    def itself(self, pair: ArmPair) -> str:
        """How far each arm repeats its own answers: ``off with itself 14 of 16 (87.5 %), k4 with itself ...``."""
        found = zip(pair.arms, (self.reference, self.candidate), strict=True)
        return ", ".join(f"{arm.name} with itself {one.words} ({100 * one.share:.4g} %)" for arm, one in found)

    def doubts(self, pair: ArmPair, share: float) -> Iterator[str]:
        """Say whether the arms could keep what is asked of them."""
        name = pair.reference.name
        if not self.reference.compared:
            yield f"{name} ran once, so whether it repeats its own answers is not known"
        elif not self.repeatable(share):
            yield f"the arms repeat their own answers less than is asked for: {self.itself(pair)}"


@dataclasses.dataclass(frozen=True, slots=True)
class PairOutputs:
    """What is known of the answers of a pair, over some points.

    Attributes:
        arms: reference against candidate, within each round.
        reference: the reference's later rounds against its first.
        candidate: likewise of the candidate.
    """

    arms: Agreement
    reference: Agreement
    candidate: Agreement


def incomparable(profile: RequestProfile, points: Collection[Level] | None = None) -> str | None:
    """Say why answers to one prompt need not be equal, `None` where sampling leaves only one.

    Args:
        profile: the load.
        points: load levels that are looked at; `None` for all.
    """
    asked = profile.points if points is None else points
    drawn = [at for at in asked if not profile.greedy_at(at)]
    if not drawn:
        return None
    temperatures = sorted({profile.temperature_at(at) for at in drawn})
    warm = f"temperature{'s' if len(temperatures) > 1 else ''} {' and '.join(f'{one:g}' for one in temperatures)}"
    where = f" at {', '.join(map(level_label, drawn))}" if any(map(profile.greedy_at, profile.points)) else ""
    return f"outputs{where} cannot be compared: at {warm} every answer is drawn by chance"


def of_pair(pair: ArmPair, record: WindowRecord, *, points: Collection[Level]) -> PairOutputs:
    """Compare the answers of all rounds of a pair, at some points."""
    rounds = record.rounds_of(pair)
    sides = ([reference for reference, _ in rounds], [candidate for _, candidate in rounds])
    reference, candidate = (_agreement(_with_itself(side, points)) for side in sides)
    return PairOutputs(_agreement(found for both in rounds for found in _of_boots(*both, points)), reference, candidate)


def by_round(pair: ArmPair, record: WindowRecord, *, at: Level) -> PointOutputs:
    """Compare the answers of a pair at one load level, round by round."""
    rounds = record.rounds_of(pair)
    return PointOutputs(
        rounds=tuple(_agreement(_of_boots(*both, (at,))) for both in rounds),
        reference=_worst_with_itself([reference for reference, _ in rounds], at),
        candidate=_worst_with_itself([candidate for _, candidate in rounds], at),
    )


def _worst_with_itself(boots: Sequence[BootRecord], at: Level) -> Agreement:
    """Compare the later boots of an arm with its first, and return the worst: a pooled share would hide it."""
    later = [_agreement(_of_boots(boots[0], boot, (at,))) for boot in boots[1:]]
    return _worst(later) if later else Agreement(equal=0, compared=0)


def _worst(agreements: Iterable[Agreement]) -> Agreement:
    return min(agreements, key=lambda one: one.share)


def _with_itself(boots: Sequence[BootRecord], points: Collection[Level]) -> Iterator[Divergence | None]:
    for later in boots[1:]:
        yield from _of_boots(boots[0], later, points)


def _of_boots(one: BootRecord, other: BootRecord, points: Collection[Level]) -> Iterator[Divergence | None]:
    for at in points:
        left, right = one.point(at), other.point(at)
        if left is not None and right is not None:
            yield from _of_points(left, right, number=other.round)


def _of_points(one: PointRecord, other: PointRecord, *, number: int) -> Iterator[Divergence | None]:
    """Yield where each pair of complete answers parts, `None` for equal ones."""
    answers = {request.index: request for request in other.completed}
    for request in one.completed:
        beside = answers.get(request.index)
        if beside is not None:
            equal = request.text_sha256 == beside.text_sha256
            yield None if equal else _divergence(request, beside, at=one.at, number=number)


def _divergence(one: RequestRecord, other: RequestRecord, *, at: Level, number: int) -> Divergence:
    kept = one.text is not None and other.text is not None
    return Divergence(at, number, one.index, _parting(one, other), kept=kept)


def _parting(one: RequestRecord, other: RequestRecord) -> int | None:
    """Return the number of the first character, from 1, in which two answers differ, as far as they were kept."""
    if one.text is None or other.text is None or one.text == other.text:
        return None
    pairs = enumerate(zip(one.text, other.text, strict=False))
    return 1 + next((place for place, (left, right) in pairs if left != right), min(len(one.text), len(other.text)))


def _agreement(found: Iterable[Divergence | None]) -> Agreement:
    everything = list(found)
    partings = [parting for parting in everything if parting is not None]
    return Agreement(len(everything) - len(partings), len(everything), partings[0] if partings else None)
