"""Which rounds of a record were measured to their end: the last one may have died between two of its boots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.records import PairRecord
from pytest_specgate.core.resume import whole_rounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord
    from tests.core.conftest import Build


def _open(build: type[Build], pair: ArmPair) -> Gate:
    """Return a gate that wants all of six rounds."""
    return build.gate(pair, build.threshold(floor=0.12))


def _two_pairs(build: type[Build], *, last: Sequence[str]) -> tuple[list[ArmPair], WindowRecord]:
    """Return two pairs of four arms, and a record of two rounds and some boots of a third."""
    first, second = build.pair(), build.pair(reference=7, candidate=8)
    boots = [
        *(boot for pair in (first, second) for boot in build.window(pair, [1.0, 1.0], [1.0, 1.0]).boots),
        *(
            boot
            for pair in (first, second)
            for boot in build.window(pair, [1.0] * 3, [1.0] * 3).boots
            if boot.round == 3 and boot.arm in last
        ),
    ]
    record = build.window(first, [], []).model_copy(
        update={"boots": tuple(boots), "pairs": (PairRecord.of(first), PairRecord.of(second))}
    )
    return [first, second], record


@pytest.mark.parametrize(
    ("last", "rounds"),
    [
        ((), 2),
        (("off",), 2),
        (("off", "k4"), 2),
        (("off", "k4", "k7"), 2),
        (("off", "k4", "k7", "k8"), 3),
    ],
)
def test_a_round_is_whole_when_every_open_pair_has_both_boots(
    build: type[Build], last: Sequence[str], rounds: int
) -> None:
    """A pair whose turn had not come belongs to the round as much as one that was begun."""
    pairs, record = _two_pairs(build, last=last)

    assert whole_rounds(pairs, [_open(build, pair) for pair in pairs], record) == rounds


def test_a_round_is_whole_without_a_pair_that_was_decided_before(build: type[Build]) -> None:
    """Whether a pair was still open follows from what was measured until then, as it did in the run."""
    pairs, record = _two_pairs(build, last=["off", "k4"])
    decided = build.gate(pairs[1], build.threshold(floor=0.001, margin=0.2))

    assert whole_rounds(pairs, [_open(build, pairs[0]), decided], record) == 3
