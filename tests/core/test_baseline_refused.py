"""What is no baseline, and what is not compared with one: parts of windows, unknown builds, rounds that count twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.baseline_update import plan_update
from pytest_specgate.core.continuations import Continuation
from pytest_specgate.core.errors import InvalidError, UsageError
from pytest_specgate.core.judge import judge
from pytest_specgate.core.thresholds import NoiseFloor
from pytest_specgate.core.verdict import Outcome
from tests.core.test_baseline_update import day, gate_of

if TYPE_CHECKING:
    from tests.core.conftest import Build

FLOOR = NoiseFloor(0.01, "nights of a test")
NIGHTS = (1.0, 1.01, 0.99)


def test_the_same_build_is_not_claimed_of_builds_that_nobody_knows(build: type[Build]) -> None:
    """Two installs of which nothing is told are not the same one: INVALID, and never a pass."""
    crossing, gate = (gate_of(build, build.claim(engine=engine)) for engine in ("any", "same"))
    file = build.accepted(crossing, *(day(build, 2 + i, speed, speed) for i, speed in enumerate(NIGHTS)))

    [verdict] = judge(gate, build.against(gate, day(build, 28), file))

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "other-engine")
    assert "nothing tells which this window ran on" in verdict.summary


def test_a_window_that_was_cut_short_is_not_compared_with_whole_ones(build: type[Build]) -> None:
    """A time budget that ended a window leaves its claims open, and such a window becomes no baseline."""
    gate = gate_of(build, build.claim(cross_window=FLOOR))
    whole = gate_of(build, build.claim(cross_window=FLOOR), rounds=4)
    file = build.accepted(gate, day(build, 2))
    part = day(build, 28).model_copy(update={"stopped": "the time budget was used up after 2 of 4 rounds"})

    [verdict] = judge(whole, build.against(whole, part, file))

    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "stopped")
    assert "the time budget was used up" in verdict.summary
    with pytest.raises(InvalidError, match="measure it whole"):
        plan_update(whole, part, file, how=build.accepting())


def test_a_change_between_arms_is_not_claimed_of_one_arm(build: type[Build]) -> None:
    """A baseline edited down to one arm is refused in words, not by a division by nothing."""
    gate = gate_of(build, build.claim(cross_window=FLOOR))
    file = build.accepted(gate, day(build, 2))
    [entry] = file.entries.values()
    bare = entry.anchor.model_copy(update={"reference": ()})
    edited = file.model_copy(
        update={"entries": {entry.id: entry.model_copy(update={"anchor": bare, "windows": (bare,)})}}
    )

    [verdict] = judge(gate, build.against(gate, day(build, 28), edited))

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "other-definition")
    assert "figures of one arm only" in verdict.summary


def test_a_window_that_goes_on_with_an_accepted_one_is_not_accepted_again(build: type[Build]) -> None:
    """Rounds that are in the baseline would count twice, and windows would look closer than they lie."""
    gate = gate_of(build, build.claim(cross_window=FLOOR))
    file = build.accepted(gate, day(build, 2))
    run = Continuation(created_at="2026-11-02", record="a/record.json", record_sha256="0" * 64, rounds=1)
    again = day(build, 3).model_copy(update={"continued": (run,)})

    with pytest.raises(UsageError, match=r"its first 1 rounds are in the baseline already, as a/record\.json"):
        plan_update(gate, again, file, how=build.accepting())


def test_every_claim_about_an_entry_has_a_say_in_it(build: type[Build]) -> None:
    """An update of one claim does not pass by another one on the same entry, which finds that the machine moved."""
    gate = gate_of(build, build.claim(cross_window=FLOOR), build.claim(mode="absolute", cross_window=FLOOR))
    file = build.accepted(gate, day(build, 2))

    with pytest.raises(InvalidError, match="moved"):
        plan_update(gate, day(build, 3, 0.5, 0.5, pace=0.5), file, how=build.accepting(), thresholds=gate.baselines[:1])
