"""Limits: values of the candidate, compared as numbers in every boot."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.judge import judge, needs_more_rounds
from pytest_specgate.core.speculation import SpeculationDelta
from pytest_specgate.core.thresholds import LimitThreshold
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.core.verdict_parts import OPEN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import PointRecord, WindowRecord
    from pytest_specgate.core.verdict import Verdict
    from tests.core.conftest import Build

    Bound = Literal["at_least", "at_most"]

# At speed 1: TTFT 100 ms, 110 tokens in 1.1 s at c=1.
FAST_ENOUGH = LimitThreshold("ttft_p50", 1, "at_most", 0.105)


def _limit(metric: str, kind: Bound, value: float, *, at: Level = 1) -> LimitThreshold:
    return LimitThreshold(metric, at, kind, value)


def _judged(
    build: type[Build], threshold: LimitThreshold, speeds: Sequence[float], *, final: bool = True, **profile: Any
) -> Verdict:
    """Judge a gate of one limit on a candidate of these speeds, whose reference is slow."""
    pair = build.pair(**profile)
    [verdict] = judge(build.gate(pair, threshold), build.window(pair, [0.5] * len(speeds), speeds), final=final)
    return verdict


@pytest.mark.parametrize(
    ("metric", "kind", "value", "outcome"),
    [
        ("ttft_p50", "at_most", 0.105, Outcome.PASS),
        ("ttft_p50", "at_most", 0.095, Outcome.FAIL),
        ("decode_rate_p50", "at_least", 9.5, Outcome.PASS),
        ("decode_rate_p50", "at_least", 10.5, Outcome.FAIL),
        ("acceptance_rate", "at_least", 0.37, Outcome.PASS),
        ("acceptance_rate", "at_least", 0.38, Outcome.FAIL),
        ("tokens_per_step", "at_least", 2.4, Outcome.PASS),
        ("tokens_per_step", "at_least", 2.6, Outcome.FAIL),
    ],
)
def test_each_kind_of_metric_green_and_red(
    build: type[Build], metric: str, kind: Bound, *, value: float, outcome: Outcome
) -> None:
    """A value on the good side of its limit passes, one on the bad side fails, whatever the reference does."""
    verdict = _judged(build, _limit(metric, kind, value), [1.0, 1.0])

    assert (verdict.outcome, verdict.kind, verdict.limit) == (outcome, kind, value)
    assert verdict.reason == ("within-limit" if outcome == Outcome.PASS else "beyond-limit")


@pytest.mark.parametrize(
    ("speeds", "values", "told"),
    [
        ([1.0, 1.0, 0.8], (0.1, 0.1, 0.125), "125 ms in its worst boot, at most 105 ms: 1 of 3 boots beyond it"),
        ([0.8, 1.0, 0.5], (0.125, 0.1, 0.2), "200 ms in its worst boot, at most 105 ms: 2 of 3 boots beyond it"),
        ([0.8], (0.125,), "125 ms in its worst boot, at most 105 ms: 1 of 1 boot beyond it"),
    ],
)
def test_one_boot_beyond_a_limit_fails_it(
    build: type[Build], speeds: list[float], values: tuple[float, ...], *, told: str
) -> None:
    """Boots are not averaged: one of three beyond the limit fails, and the worst of all is shown beside every value."""
    verdict = _judged(build, FAST_ENOUGH, speeds)

    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, "beyond-limit")
    assert verdict.values == pytest.approx(values)
    assert verdict.candidate == pytest.approx(max(values))
    assert verdict.summary == f"FAIL: TTFT p50 at c=1 of k4 {told}"


def test_the_worst_boot_of_a_rate_is_the_slowest(build: type[Build]) -> None:
    """Of a limit from below the least value counts."""
    verdict = _judged(build, _limit("decode_rate_p50", "at_least", 8.0), [1.0, 0.9, 1.2])

    assert (verdict.outcome, verdict.rounds, verdict.samples) == (Outcome.PASS, 3, 10)
    assert verdict.candidate == pytest.approx(9.0)
    assert verdict.summary == (
        "PASS: decode rate p50 at c=1 of k4 9 tokens/s in its worst boot, at least 8 tokens/s: kept in 3 boots"
    )


def test_a_limit_has_no_change_and_no_interval(build: type[Build]) -> None:
    """What is compared as a number has neither a reference, nor a change, nor anything of noise."""
    verdict = _judged(build, FAST_ENOUGH, [1.0, 1.0])

    assert verdict.reference is None
    assert verdict.ratios == ()
    assert (verdict.change, verdict.change_low, verdict.change_high) == (None, None, None)
    assert (verdict.sd, verdict.df, verdict.looks, verdict.noise) == (None, None, 0, "")
    assert (verdict.needs_rounds, verdict.smallest_margin, verdict.detectable) == (None, None, None)


@pytest.mark.parametrize(("rise", "limit", "outcome"), [
    (3.0, 0.0, Outcome.FAIL), (0.0, 0.0, Outcome.PASS), (1.0, 2.0, Outcome.PASS), (3.0, 2.0, Outcome.FAIL),
])  # fmt: skip
def test_case_93_counts_that_are_zero(build: type[Build], rise: float, *, limit: float, outcome: Outcome) -> None:
    """Case 93: 0 -> 3 fails a limit of 0, 0 -> 0 keeps it, 0 -> 1 keeps one of 2; nothing is divided by zero."""
    pair = build.pair()
    record = build.edited_point(
        build.window(pair, [1.0], [1.0]), arm="k4", edit=lambda point: build.risen(point, counters.PREEMPTIONS, rise)
    )

    [verdict] = judge(build.gate(pair, _limit("preemptions", "at_most", limit)), record)

    assert (verdict.outcome, verdict.values) == (outcome, (rise,))
    assert "%" not in verdict.summary
    assert "nan" not in verdict.summary.lower()


@pytest.mark.parametrize("name", ["acceptance_length", "acceptance_rate", "acceptance_rate_position_1"])
def test_too_few_drafts_keep_no_limit(build: type[Build], name: str) -> None:
    """Nineteen drafts that were all accepted are INVALID, and their message says how many are needed and what to do."""
    pair = build.pair()
    few = SpeculationDelta(19, 76, 76, (19, 19, 19, 19))
    edit = functools.partial(_drafting, build, few)
    record = build.edited_point(build.window(pair, [1.0], [1.0]), arm="k4", edit=edit)

    [verdict] = judge(build.gate(pair, _limit(name, "at_least", 0.1)), record)

    assert (verdict.outcome, verdict.reason, verdict.values) == (Outcome.INVALID, "missing-metric", ())
    assert verdict.summary == (
        f"arm k4 at c=1: no {name}: there are 19 drafts, and 20 are needed: send more requests, or ask for more output "
        f"tokens"
    )


def _drafting(build: type[Build], counts: SpeculationDelta, point: PointRecord) -> PointRecord:
    """Return a point of the same requests, of which this was drafted."""
    return build.point(point.requests, at=point.at, speculation=counts)


def test_what_falls_short_of_a_limit_is_not_called_beyond_it(build: type[Build]) -> None:
    """A value below the least one that is asked for is short of it."""
    verdict = _judged(build, _limit("acceptance_rate", "at_least", 0.4), [1.0, 1.0])

    assert verdict.summary == (
        "FAIL: acceptance rate at c=1 of k4 37.5 % in its worst boot, at least 40 %: 2 of 2 boots short of it"
    )


def test_case_94_a_rate_of_zero_is_beyond_any_lower_limit(build: type[Build]) -> None:
    """Case 94: a goodput that fell to nothing is a value, and it fails."""
    verdict = _judged(build, _limit("goodput", "at_least", 1.0), [0.9, 0.9], goodput_limits={"ttft": "100ms"})

    assert (verdict.outcome, verdict.candidate) == (Outcome.FAIL, 0.0)
    assert "0 requests/s in its worst boot, at least 1 requests/s: 2 of 2 boots short of it" in verdict.summary


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_case_89_what_is_no_number_keeps_no_limit(build: type[Build], value: float) -> None:
    """Case 89: NaN is not below a limit, nor above it: the threshold is INVALID."""
    pair = build.pair()

    def spoil(point: PointRecord) -> PointRecord:
        requests = tuple(request.model_copy(update={"ttft_s": value}) for request in point.requests)
        return point.model_copy(update={"requests": requests})

    record = build.edited_point(build.window(pair, [1.0], [1.0]), arm="k4", edit=spoil)

    [verdict] = judge(build.gate(pair, FAST_ENOUGH), record)

    assert verdict.outcome == Outcome.INVALID
    assert (verdict.candidate, verdict.values) == (None, ())


def test_case_90_a_missing_metric_is_invalid(build: type[Build]) -> None:
    """Case 90: a limit on what a boot did not measure is INVALID, and names arm, load, metric and cause."""
    verdict = _judged(build, _limit("inter_chunk_p50", "at_most", 10.0), [1.0])

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "missing-metric")
    assert verdict.summary.startswith("arm k4 at c=1: no inter_chunk_p50: ")
    assert (verdict.values, verdict.samples) == ((), None)


def _unobserved(record: WindowRecord) -> WindowRecord:
    """Return the window with equal profiles in all boots, so that only its points can tell what is wrong."""
    boots = tuple(boot.model_copy(update={"profile": record.boots[0].profile}) for boot in record.boots)
    return record.model_copy(update={"boots": boots})


def test_case_102_failures_keep_no_limit(build: type[Build]) -> None:
    """Case 102: an arm whose failed requests left faster ones is INVALID by its failures, not within its limit."""
    pair = build.pair()
    fast = [*(build.request(index, speed=9.0) for index in range(1, 10)), build.failed(0)]
    record = build.edited_point(
        build.window(pair, [1.0], [1.0]),
        arm="k4",
        edit=lambda point: build.point(sorted(fast, key=lambda request: request.index), at=point.at),
    )

    [verdict] = judge(build.gate(pair, FAST_ENOUGH), _unobserved(record))

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "failed-requests")
    assert (verdict.candidate, verdict.values) == (None, ())


def test_case_103_an_invalid_neighbour_softens_no_limit(build: type[Build]) -> None:
    """Case 103: a limit that is exceeded fails beside a point that cannot be judged, and both are listed."""
    pair = build.pair()

    def fail(point: PointRecord) -> PointRecord:
        return build.point([build.failed(0), *point.requests[1:]], at=8, speculation=build.drafted(15, k=4))

    record = build.edited_point(build.window(pair, [1.0], [0.5]), arm="k4", at=8, edit=fail)
    gate = build.gate(pair, build.threshold("output_throughput", 8), FAST_ENOUGH)

    verdicts = judge(gate, _unobserved(record))

    assert [(verdict.outcome, verdict.reason) for verdict in verdicts] == [
        (Outcome.INVALID, "failed-requests"), (Outcome.FAIL, "beyond-limit"),
    ]  # fmt: skip


def test_a_limit_asks_for_no_round_of_its_own(build: type[Build]) -> None:
    """A limit that was kept in the first round is judged there: alone, it ends its gate."""
    pair = build.pair()
    record = build.window(pair, [1.0], [1.0])

    kept = judge(build.gate(pair, FAST_ENOUGH), record, final=False)
    beside = judge(build.gate(pair, FAST_ENOUGH, build.threshold()), record, final=False)

    assert [verdict.outcome for verdict in kept] == [Outcome.PASS]
    assert not needs_more_rounds(kept)
    assert [(verdict.outcome, verdict.reason) for verdict in beside][1] == (Outcome.INCONCLUSIVE, OPEN)
    assert needs_more_rounds(beside)


def test_a_limit_that_is_exceeded_stops_its_gate(build: type[Build]) -> None:
    """One boot beyond a limit ends the gate, and a threshold that was still open says what stopped it."""
    pair = build.pair()
    gate, record = build.gate(pair, build.threshold(), FAST_ENOUGH), build.window(pair, [1.0], [0.9])

    assert not needs_more_rounds(judge(gate, record, final=False))

    open_still, exceeded = judge(gate, record)
    assert (open_still.reason, exceeded.outcome) == ("stopped", Outcome.FAIL)
    assert "stopped at round 1 of 6" in open_still.summary
    assert open_still.summary.endswith(": c1-ttft_p50-at_most is FAIL")


def test_rounds_after_the_last_look_count_for_a_limit(build: type[Build]) -> None:
    """Every boot counts: one of a round that no look of the gate sees is beyond the limit like any other."""
    verdict = _judged(build, FAST_ENOUGH, [1.0, 1.0, 0.8])

    assert (verdict.outcome, verdict.rounds) == (Outcome.FAIL, 3)


def test_a_limit_is_outside_the_family(build: type[Build]) -> None:
    """Limits share no error rate: two of them beside one interval leave its family at 1."""
    pair = build.pair()
    gate = build.gate(pair, FAST_ENOUGH, build.threshold(), _limit("tpot_p50", "at_most", 1.0))

    verdicts = judge(gate, build.window(pair, [1.0] * 2, [1.0] * 2))

    assert {verdict.family for verdict in verdicts} == {1}


def test_an_attached_server_is_told(build: type[Build]) -> None:
    """What was not proved of an attached server stands beside its limit."""
    pair = build.pair()
    record = build.edited(
        build.window(pair, [1.0], [1.0]),
        arm="k4",
        edit=lambda boot: boot.model_copy(update={"unproved": ("its arguments",)}),
    )

    [verdict] = judge(build.gate(pair, FAST_ENOUGH), record)

    assert verdict.flags == ("k4 was attached, so this is not proved: its arguments",)


def test_a_boot_without_its_partner_counts_for_a_limit(build: type[Build]) -> None:
    """A limit is about every boot of the candidate, also one whose reference never came: what it breaks is broken."""
    pair = build.pair()
    record = build.window(pair, [1.0, 1.0], [1.0, 0.1])
    alone = tuple(boot for boot in record.boots if (boot.arm, boot.round) != ("off", 2))
    gate = build.gate(pair, LimitThreshold("ttft_p50", 8, "at_most", 0.5))

    [verdict] = judge(gate, record.model_copy(update={"boots": alone}))

    assert (verdict.outcome, verdict.rounds) == (Outcome.FAIL, 2)
