"""What stands beside curves and limits: words of the noise, ratios, flags, and chunks that are no tokens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.arms import ArmPair
from pytest_specgate.core.judge import first_point_problem, judge
from pytest_specgate.core.records import ArmNoise, ChunkGaps
from pytest_specgate.core.thresholds import CurveThreshold, LimitThreshold, NoiseFloor
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import BootRecord, WindowRecord
    from pytest_specgate.core.verdict import Verdict
    from tests.core.conftest import Build

FLOOR = NoiseFloor(0.01, "A/A windows of a test")
SPEEDS: dict[Level, float] = {1: 2.0, 8: 0.8}
GAPS = ChunkGaps(count=500, sum_s=20.0, p50_s=0.030, p90_s=0.060, p95_s=0.070, p99_s=0.090, max_s=0.200)


def _noise(arm: str, at: Level, measured_at: str) -> ArmNoise:
    return ArmNoise(
        arm=arm,
        at=at,
        metric="output_throughput",
        sd=0.005,
        df=10.0,
        boots=6,
        builds=1,
        arm_sha256=arm,
        measured_at=f"{measured_at}T09:00:00Z",
    )


def _curve(
    build: type[Build], threshold: CurveThreshold, *, rounds: int = 2, n_max: int = 6, noise: Sequence[ArmNoise] = ()
) -> Verdict:
    pair = build.pair(rounds=n_max)
    record = build.window(pair, [1.0] * rounds, [SPEEDS] * rounds).model_copy(update={"noise": tuple(noise)})
    [verdict] = judge(build.gate(pair, threshold), record)
    return verdict


def test_a_curve_of_which_nothing_is_known_says_so(build: type[Build]) -> None:
    """In two rounds of unknown noise a curve can never be decided, and the sentence says why."""
    verdict = _curve(build, CurveThreshold(1), n_max=2)

    assert verdict.summary == (
        "INCONCLUSIVE: output throughput better up to c=1, and worse at every level beyond: "
        "nothing is known of the noise"
    )


def test_a_curve_says_where_its_noise_comes_from(build: type[Build]) -> None:
    """A declared floor is quoted once for all levels, calibrations each with their day; else the rounds are all."""
    declared = _curve(build, CurveThreshold(1, floor=FLOOR))
    days = {1: "2026-11-02", 8: "2026-11-03"}
    measured = [_noise(arm, at, day) for at, day in days.items() for arm in ("off", "k4")]
    calibrated = _curve(build, CurveThreshold(1), noise=measured)
    own = _curve(build, CurveThreshold(1), rounds=4)

    assert declared.noise == "floor 1 % (A/A windows of a test)"
    assert calibrated.noise == "; ".join(
        f"calibrated: off by 6 boots of {day}, k4 by 6 boots of {day}" for day in days.values()
    )
    assert own.noise == "own (no calibration)"


def test_a_curve_keeps_the_ratios_of_each_level(build: type[Build]) -> None:
    """Every level has the signed log ratio of each of its rounds, positive where the candidate is better."""
    rates = _curve(build, CurveThreshold(1, floor=FLOOR))
    times = _curve(build, CurveThreshold(1, metric="ttft_p50", floor=FLOOR))

    expected = {at: [math.log(speed)] * 2 for at, speed in SPEEDS.items()}
    for verdict in (rates, times):
        assert {point.at: list(point.ratios) for point in verdict.curve} == {
            at: pytest.approx(ratios) for at, ratios in expected.items()
        }


def test_flags_beside_a_curve(build: type[Build]) -> None:
    """A load of random tokens, arms in between in the rounds that were judged, and attached servers are told."""
    pair = build.pair(prompts="random")
    record = build.window(pair, [1.0] * 3, [SPEEDS] * 3)
    boots = [
        boot.model_copy(
            update={
                "position": 2 if boot.position == 1 and boot.round != 2 else boot.position,
                "unproved": ("its arguments", "its build") if boot.arm == "k4" else (),
            }
        )
        for boot in record.boots
    ]

    [verdict] = judge(
        build.gate(pair, CurveThreshold(1, floor=FLOOR)), record.model_copy(update={"boots": tuple(boots)})
    )

    assert verdict.rounds == 2
    assert verdict.flags == (
        "random tokens: acceptance means nothing",
        "another arm ran between the two of this pair in rounds 1, so a drift weighs more",
        "k4 was attached, so this is not proved: its arguments; its build",
    )


def _in_events(boot: BootRecord, events: int) -> BootRecord:
    """Return the boot with answers that came in so many token events each."""
    points = tuple(
        point.model_copy(
            update={
                "requests": tuple(one.model_copy(update={"token_events": events}) for one in point.requests),
                "gaps": GAPS,
            }
        )
        for point in boot.points
    )
    return boot.model_copy(update={"points": points})


def _chunked(build: type[Build], events: tuple[int, int]) -> tuple[ArmPair, WindowRecord]:
    """Return a pair of equal arms and its window, in which the answers of each came in so many events."""
    again = build.arm(4).vary("again")
    pair = ArmPair(reference=build.arm(4), candidate=again, varies=(), profile=build.profile())
    record = build.window(pair, [1.0] * 2, [1.0] * 2)
    counts = dict(zip((arm.name for arm in pair.arms), events, strict=True))
    boots = tuple(_in_events(boot, counts[boot.arm]) for boot in record.boots)
    return pair, record.model_copy(update={"boots": boots})


@pytest.mark.parametrize(("events", "comparable"), [((5, 5), True), ((5, 11), False)])
def test_only_a_comparison_of_gaps_asks_for_equal_chunks(
    build: type[Build], events: tuple[int, int], *, comparable: bool
) -> None:
    """A curve of gaps needs chunks of one size in both arms; a limit on the candidate's and the points do not."""
    pair, record = _chunked(build, events)
    curve = CurveThreshold(1, metric="inter_chunk_p50", floor=FLOOR)
    limit = LimitThreshold("inter_chunk_p50", 1, "at_most", 0.05)

    compared, bounded = judge(build.gate(pair, curve, limit), record)

    assert (compared.reason != "chunks-differ") == comparable
    assert (compared.outcome == Outcome.INVALID) == (not comparable)
    assert bounded.outcome == Outcome.PASS
    assert first_point_problem(pair, record) is None


def _with_a_failure(build: type[Build], boot: BootRecord) -> BootRecord:
    """Return the boot with one failed request at its first load."""
    first, *others = boot.points
    failed = build.failed(0)
    spoilt = first.model_copy(update={"requests": (failed, *first.requests[1:])})
    return boot.model_copy(update={"points": (spoilt, *others)})


@pytest.mark.parametrize(
    ("arm", "number", "lone"), [("off", 1, False), ("k4", 1, False), ("k4", 2, False), ("k4", 2, True)]
)
def test_failed_requests_of_any_boot_leave_a_limit_unjudged(
    build: type[Build], arm: str, number: int, *, lone: bool
) -> None:
    """A limit is INVALID where a request failed, in either arm, and in a candidate whose partner never came, too."""
    pair = build.pair()
    record = build.window(pair, [1.0] * (1 if lone else 2), [1.0] * 2)
    limit = LimitThreshold("ttft_p50", 1, "at_most", 1.0)
    spoilt = build.edited(record, arm=arm, number=number, edit=lambda boot: _with_a_failure(build, boot))

    [sound], [verdict] = (judge(build.gate(pair, limit), one) for one in (record, spoilt))

    assert (sound.outcome, sound.rounds) == (Outcome.PASS, 2)
    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "failed-requests")
    assert (verdict.gate, verdict.threshold) == ("test_gate.py::test_gate", limit.id)
    assert verdict.summary.startswith(f"arm {arm} at c=1")
