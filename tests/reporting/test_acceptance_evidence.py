"""Texts of failures on acceptance: how sure the figure is, what short drafts mean, and what another run would bring."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.arms import LonePair
from pytest_specgate.core.judge import judge
from pytest_specgate.core.request_speculation import RequestSpeculation
from pytest_specgate.core.speculation import SpeculationDelta, pool
from pytest_specgate.core.stored_gates import stored_gate
from pytest_specgate.core.thresholds import BaselineThreshold, LimitThreshold, NoiseFloor
from pytest_specgate.core.verdict import Outcome, Verdict
from pytest_specgate.reporting.messages import failure_text
from tests.core.conftest import Build

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord

LAST = "acceptance_rate_position_4"

# Four drafts of one answer; in the last two one of them lacks its fourth token.
FULL = RequestSpeculation(draft_tokens=16, accepted_histogram=(1, 2, 0, 0, 1), drafted_histogram=(0, 0, 0, 0, 4))
SHORT = RequestSpeculation(draft_tokens=15, accepted_histogram=(1, 2, 0, 0, 1), drafted_histogram=(0, 0, 0, 1, 3))
REFUSED = RequestSpeculation(draft_tokens=15, accepted_histogram=(1, 2, 1, 0, 0), drafted_histogram=(0, 0, 0, 1, 3))
HALF = (*[SHORT] * 5, *[REFUSED] * 5)
"""Five of the 30 drafts that proposed a fourth token had it accepted, which is 16.7 %, and of all 40 drafts 12.5 %."""

COUNTED = pool([one.delta() for one in HALF])
MISSING = "k4 at c=1: 20 of 320 draft tokens missing"


def _gate(threshold: LimitThreshold | BaselineThreshold) -> Gate:
    return Build.gate(LonePair.of(Build.arm(4), profile=Build.profile(requests={1: 10}), rounds=2), threshold)


def _claim() -> BaselineThreshold:
    floor = NoiseFloor(0.01, "nights of a test", points=True)
    return Build.claim(LAST, margin=0.05, mode="absolute", points=True, cross_window=floor)


def _window(
    gate: Gate, told: Sequence[RequestSpeculation | None], *, counted: SpeculationDelta | None = None, day: int = 1
) -> WindowRecord:
    """Return a window of two boots whose ten requests tell this of their drafts."""
    known = [one.delta() for one in told if one is not None]
    requests = [Build.request(index, speculation=one) for index, one in enumerate(told)]
    point = Build.point(requests, speculation=counted or pool(known))
    record = Build.day(gate.pair, day, [1.0] * 2, [1.0] * 2)
    # The builder boots both arms of a pair, and here these are one.
    boots = {boot.round: boot for boot in record.boots}
    found = [boot.model_copy(update={"points": (point,), "pairs": (gate.pair.title,)}) for boot in boots.values()]
    return record.model_copy(update={"boots": tuple(found), "gates": (stored_gate(gate),)})


def _failed(gate: Gate, record: WindowRecord) -> tuple[Verdict, list[str]]:
    """Return a verdict and the lines of its failure, without their indent."""
    [verdict] = judge(gate, record)
    text = failure_text(verdict, gate=gate, record=record, record_path="r.json", again="pytest")
    return verdict, [line.strip() for line in text.splitlines()]


@pytest.mark.parametrize(
    ("metric", "limit", "told"),
    [
        (LAST, 0.2, "position 4: 16.7 %"),
        ("acceptance_rate_position_1", 0.8, "position 1: 75.0 %"),
        ("acceptance_rate", 0.9, "each position: 75.0 %, 25.0 %, 12.5 %, 16.7 %"),
        ("acceptance_length", 4.0, "each position: 75.0 %, 25.0 %, 12.5 %, 16.7 %"),
        ("tokens_per_step", 4.0, "each position: 75.0 %, 25.0 %, 12.5 %, 16.7 %"),
    ],
)
def test_what_was_refused_is_told_exactly_where_the_engine_tells_it(metric: str, limit: float, told: str) -> None:
    """No text wonders whether drafts were short or refused where each request said how long its drafts were."""
    gate = _gate(LimitThreshold(metric, 1, "at_least", limit))

    verdict, lines = _failed(gate, _window(gate, HALF))

    assert verdict.outcome == Outcome.FAIL
    assert f"{MISSING}; accepted of the drafts that proposed {told}" in lines
    assert not any("may be shorter drafts" in line for line in lines)


def test_what_only_counters_tell_has_bounds() -> None:
    """Missing tokens bound how many drafts can be short of a position, and the text leaves both open."""
    gate = _gate(LimitThreshold(LAST, 1, "at_least", 0.2))

    _, lines = _failed(gate, _window(gate, [None] * 10, counted=COUNTED))
    [line] = [line for line in lines if "missing" in line]

    assert "a lower rate at late positions may be shorter drafts, and not refusal" in line
    assert line.endswith("; accepted of the drafts that proposed position 4: 13.7 .. 16.7 %")


def test_a_position_that_no_draft_proposed_has_no_share() -> None:
    """All drafts end before it: nothing was refused there."""
    three = RequestSpeculation(draft_tokens=12, accepted_histogram=(1, 2, 0, 1, 0), drafted_histogram=(0, 0, 0, 4, 0))
    gate = _gate(LimitThreshold(LAST, 1, "at_least", 0.2))

    _, lines = _failed(gate, _window(gate, [three] * 10))

    assert any(line.endswith("accepted of the drafts that proposed position 4: none proposed it") for line in lines)


def test_a_claim_about_a_baseline_tells_short_drafts_from_refusal() -> None:
    """The baseline is of whole drafts: the text of the loss has figure, interval, drafts and what was proposed."""
    gate = _gate(_claim())
    file = Build.accepted(gate, _window(gate, [FULL] * 10))

    verdict, lines = _failed(gate, Build.against(gate, _window(gate, HALF, day=2), file))
    [figure] = [line for line in lines if line.startswith("acceptance at position 4 in all boots: 12.5 % [")]

    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, "beyond-margin")
    assert figure.endswith("] (80 drafts, draft length 3.75 of 4)")
    assert "intervals: 95 %, over 10 prompts" in lines
    assert f"{MISSING}; accepted of the drafts that proposed position 4: 16.7 %" in lines


def test_a_claim_of_two_arms_names_the_one_that_is_told() -> None:
    """Where two arms drafted, the figure of all boots is that of the candidate."""
    pair = Build.pair(reference=7, candidate=4, rounds=2)
    gate = Build.gate(pair, LimitThreshold("acceptance_rate", 1, "at_least", 0.9))

    _, lines = _failed(gate, Build.window(pair, [1.0] * 2, [1.0] * 2))

    assert any(line.startswith("acceptance rate of k4 in all boots: 37.5 % [") for line in lines)


def test_shares_of_a_baseline_are_in_percent() -> None:
    """Level and series are written as the margin and the limit are."""
    gate = _gate(_claim())
    file = Build.accepted(gate, _window(gate, [FULL] * 10))

    _, lines = _failed(gate, Build.against(gate, _window(gate, HALF, day=2), file))

    assert "candidate: 12.50 % today, 25.00 % in its baseline (by window, oldest first: 25.00 %)" in lines


@pytest.mark.parametrize("threshold", [LimitThreshold(LAST, 1, "at_least", 0.2), _claim()])
def test_an_attempt_at_an_arm_alone_speaks_of_no_pair(threshold: LimitThreshold | BaselineThreshold) -> None:
    """There is neither a pair of builds, nor a margin of two arms."""
    gate = _gate(threshold)
    record = _window(gate, HALF).model_copy(update={"attempt": 4})

    _, lines = _failed(gate, record)

    assert "attempt 4 of this build: each attempt until green adds to the chance that a limit is kept by luck" in lines


def test_an_attempt_at_a_limit_of_a_pair_speaks_of_no_margin() -> None:
    """A limit is a number, and every boot is compared with it."""
    pair = Build.pair(rounds=2)
    gate = Build.gate(pair, LimitThreshold("ttft_p50", 1, "at_most", 0.001))
    record = Build.window(pair, [1.0] * 2, [1.0] * 2).model_copy(update={"attempt": 2})

    _, lines = _failed(gate, record)

    told = "each attempt until green adds to the chance that a limit is kept by luck"
    assert f"attempt 2 of this pair of builds: {told}" in lines


def test_a_drafter_that_never_drafted_is_not_run_again_as_it_is() -> None:
    """The text says what to look at, once, and that the same run would not mend it."""
    gate = _gate(LimitThreshold(LAST, 1, "at_least", 0.2))
    idle = dataclasses.replace(COUNTED, drafts=0, draft_tokens=0, accepted_tokens=0, accepted_per_position=(0,) * 4)

    verdict, lines = _failed(gate, _window(gate, [None] * 10, counted=idle))

    assert verdict.reason == "speculation-inactive"
    assert lines[-1] == "the same run once more changes nothing; mend that first, and then: pytest"
    assert sum("0 drafts" in line for line in lines) == 1
    assert not any(line.startswith("run again") for line in lines)


def test_a_boot_whose_partner_never_came_is_in_the_figure_that_stands_below_its_failure() -> None:
    """A limit fails by that boot alone, and the figure of all boots has it."""
    pair = Build.pair(candidate=4, rounds=2, requests={1: 10})
    gate = Build.gate(pair, LimitThreshold("acceptance_length", 1, "at_least", 2.0))
    counted = {1: SpeculationDelta(25, 100, 50, (25, 15, 5, 5)), 2: SpeculationDelta(25, 100, 5, (5, 0, 0, 0))}
    boots = []
    for boot in Build.day(pair, 1, [1.0] * 2, [1.0] * 2).boots:
        if boot.arm == "k4":
            point = Build.point([Build.request(index) for index in range(10)], speculation=counted[boot.round])
            boots.append(boot.model_copy(update={"points": (point,)}))
        elif boot.round == 1:
            boots.append(boot)
    record = Build.day(pair, 1, [1.0] * 2, [1.0] * 2).model_copy(update={"boots": tuple(boots)})
    [verdict] = judge(gate, record)
    text = failure_text(verdict, gate=gate, record=record, record_path="r.json", again="pytest")

    assert (verdict.outcome, verdict.values) == (Outcome.FAIL, (3.0, 1.2))
    assert "acceptance length of k4 in all boots: 2.100 [" in text
    assert "(50 drafts, draft length 4.00 of 4)" in text
