"""Verdicts about a baseline: every word and reason, and the sentences that go with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.baseline_closed import closed_beforehand
from pytest_specgate.core.baselines import BASELINES_OFF, KnownBaseline
from pytest_specgate.core.judge import judge, needs_more_rounds
from pytest_specgate.core.metrics import DEFINITION_VERSION
from pytest_specgate.core.records import PointRecord, StartUpRecord, WindowRecord
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.stored_gates import gates_of, stored_gate
from pytest_specgate.core.thresholds import NoiseFloor
from pytest_specgate.core.verdict import Outcome, Verdict
from pytest_specgate.core.verdict_baseline import LATER
from pytest_specgate.core.verdict_parts import OPEN
from tests.core.conftest import HOST_CLASS
from tests.core.test_baseline_update import day, gate_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.baseline_threshold import BaselineThreshold
    from tests.core.conftest import Build

FLOOR = NoiseFloor(0.01, "nights of a test")
NIGHTS = (1.0, 1.004, 0.996)
"""How fast the candidate was in three nights: a spread of 0.4 %."""


def strictly(window: WindowRecord) -> WindowRecord:
    """Return a window that is judged strictly, and whose servers differ in nothing."""
    first = StartUpRecord(config={"model_config.max_model_len": 64}, lines={"ready": 1})
    same = StartUpRecord(config={}, lines={})
    boots = [boot.model_copy(update={"startup": same if i else first}) for i, boot in enumerate(window.boots)]
    return window.model_copy(update={"strict": True, "boots": tuple(boots)})


def judged(
    build: type[Build],
    *today: float,
    claim: BaselineThreshold | None = None,
    nights: Sequence[float] = NIGHTS,
    pace: float = 1.0,
    strict: bool = False,
    **pair: Any,
) -> Verdict:
    """Return the verdict of a window whose candidate ran at some speeds, against nights of two rounds each."""
    gate = gate_of(build, *([claim] if claim else []), **pair)
    file = build.accepted(gate, *(day(build, 2 + i, speed, speed, **pair) for i, speed in enumerate(nights)))
    window = day(build, 28, *today, pace=pace, **pair)
    [verdict] = judge(gate, build.against(gate, strictly(window) if strict else window, file))
    return verdict


@pytest.mark.parametrize(
    ("speed", "outcome", "reason"),
    [
        (1.0, Outcome.PASS, "within-margin"),
        (0.9, Outcome.FAIL, "beyond-margin"),
        (0.95, Outcome.INCONCLUSIVE, "interval-contains-margin"),
    ],
)
@pytest.mark.parametrize("metric", ["output_throughput", "ttft_p50"])
@pytest.mark.parametrize("mode", ["relative", "absolute"])
def test_three_windows_decide(  # noqa: PLR0913  - modes and metrics crossed with words
    build: type[Build], *, mode: Any, metric: str, speed: float, outcome: Outcome, reason: str
) -> None:
    """Three accepted windows judge the next one, of rates and of times, by the change and by the level."""
    verdict = judged(build, speed, speed, claim=build.claim(metric, mode=mode))

    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    assert (verdict.df, verdict.looks, verdict.rounds, verdict.samples) == (2.0, 1, 2, 10)
    assert verdict.noise == "across windows: 3 windows"


@pytest.mark.parametrize(
    ("metric", "told", "interval"),
    [
        (
            "output_throughput",
            "output throughput at c=1 of k4 against off worse -10.0 %",
            "-11.2 to -8.8 %, margin -5 %",
        ),
        (
            "ttft_p50",
            "TTFT p50 at c=1 of k4 against off worse +11.1 %",
            "+9.6 to +12.6 %, margin +5 %",
        ),
    ],
)
def test_case_142_the_sign_is_of_the_change_and_the_word_of_its_direction(
    build: type[Build], *, metric: str, told: str, interval: str
) -> None:
    """Case 142: a rate falls and a time rises when it gets worse; interval and margin have the signs of the change."""
    verdict = judged(build, 0.9, 0.9, claim=build.claim(metric))

    assert verdict.summary == (
        f"FAIL: {told} since its baseline of 3 accepted windows, interval {interval}: the whole interval lies beyond "
        f"the margin"
    )
    assert verdict.change_low is not None
    assert verdict.change_high is not None
    assert verdict.change is not None
    assert verdict.change_low < verdict.change < verdict.change_high


def test_a_level_is_told_as_such(build: type[Build]) -> None:
    """In absolute mode it is the candidate that is told, in the metric's unit, not the change between the arms."""
    verdict = judged(build, 1.0, 1.0, claim=build.claim("ttft_p50", mode="absolute"), nights=(1.0, 1.0, 1.0))

    assert verdict.summary.startswith("PASS: TTFT p50 at c=1 of k4 (absolute) equal 0.0 % since its baseline of 3 ")
    assert verdict.baseline is not None
    assert verdict.baseline.today == pytest.approx(0.1)
    assert verdict.baseline.windows == pytest.approx((0.1, 0.1, 0.1))
    assert verdict.candidate == pytest.approx(0.1)


def test_a_relative_baseline_is_told_as_ratios(build: type[Build]) -> None:
    """In relative mode candidate over reference is told, also of times."""
    verdict = judged(build, 2.0, 2.0, claim=build.claim("ttft_p50"), nights=(2.0, 2.0, 2.0))

    assert verdict.baseline is not None
    assert verdict.baseline.level == pytest.approx(0.5)
    assert verdict.baseline.today == pytest.approx(0.5)


@pytest.mark.parametrize("pace", [0.5, 1.0, 2.0])
def test_the_level_of_the_machine_cancels(build: type[Build], pace: float) -> None:
    """In relative mode a machine of half or twice the speed changes nothing, and is told not to be its usual self."""
    verdict = judged(build, pace, pace, pace=pace)

    assert verdict.outcome == Outcome.PASS
    assert verdict.change == pytest.approx(0.0, abs=1e-5)
    unusual = [flag for flag in verdict.flags if "not its usual self" in flag]
    assert bool(unusual) == (pace != 1.0)


def test_an_unusual_reference_is_named_with_its_change(build: type[Build]) -> None:
    """The flag says how far the reference moved, and in which direction."""
    verdict = judged(build, 0.9, 0.9, pace=0.9)

    assert verdict.flags == ("off, the reference, is not its usual self: worse -10.0 % since the baseline",)


@pytest.mark.parametrize(("pace", "words"), [(0.9, "worse -10.0 %"), (1.1, "better +10.0 %")])
@pytest.mark.parametrize("speed", [0.9, 1.0, 1.1])
def test_a_machine_that_moved_tells_nothing_of_a_level(
    build: type[Build], *, pace: float, words: str, speed: float
) -> None:
    """In absolute mode a reference beyond the margin, either way, makes a window INVALID whatever the other arm did."""
    verdict = judged(build, speed, speed, pace=pace, claim=build.claim(mode="absolute"))

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "machine-moved")
    assert f"the machine moved: off, the reference, is {words} since its own baseline" in verdict.summary
    assert verdict.summary.endswith("use mode='relative', or start the baseline anew if the machine stays so")
    assert (verdict.change, verdict.candidate, verdict.baseline) == (None, None, None)


def test_a_machine_that_moved_within_the_margin_is_judged(build: type[Build]) -> None:
    """A reference that moved by less than the margin is what the margin is for."""
    verdict = judged(build, 0.98, 0.98, pace=0.98, claim=build.claim(mode="absolute"))

    assert verdict.outcome == Outcome.PASS


def test_a_reference_that_has_no_such_metric_is_no_guard(build: type[Build]) -> None:
    """Acceptance of a candidate against an arm without speculation is judged by its level alone."""
    claim = build.claim("acceptance_length", mode="absolute", margin=0.02)

    verdict = judged(build, 1.0, 1.0, claim=claim, nights=(1.0, 1.0, 1.0), pace=0.5)

    assert (verdict.outcome, verdict.reference, verdict.ratios) == (Outcome.PASS, None, ())
    assert verdict.candidate == pytest.approx(2.5)


def test_one_round_of_a_candidate_alone_has_no_noise(build: type[Build]) -> None:
    """Without a reference, too, one round against windows of two needs to know how far rounds scatter."""
    claim = build.claim("acceptance_length", mode="absolute")

    assert judged(build, 1.0, claim=claim).reason == "noise-unknown"
    assert judged(build, 1.0, 1.0, claim=claim).outcome == Outcome.PASS


def test_case_106_without_a_baseline_nothing_passes(build: type[Build]) -> None:
    """Case 106: no baseline is INCONCLUSIVE with a reason of its own, and claims between the arms are judged."""
    gate = build.gate(build.pair(), build.threshold(), build.claim())
    window = build.against(gate, day(build, 28, 1.0, 1.0), None)

    own, missing = judge(gate, window)

    assert own.outcome == Outcome.PASS
    assert (missing.outcome, missing.reason) == (Outcome.INCONCLUSIVE, "no-baseline")
    assert missing.summary == (
        "INCONCLUSIVE: output throughput at c=1 not worse than its baseline by more than 5 % (relative: the change "
        f"between the arms): no baseline for {HOST_CLASS} yet: write it with --specgate-baseline=new"
    )
    assert (missing.change, missing.baseline) == (None, None)


def test_a_record_that_looked_up_no_baseline_is_not_judged(build: type[Build]) -> None:
    """A record of a run that knew of no baseline says so, and what to do."""
    [verdict] = judge(gate_of(build), day(build, 28))

    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "no-baseline")
    assert verdict.summary.endswith(
        "no baseline was looked up when this window ran, so its record has nothing to compare with: run the gate again"
    )


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("no-baseline", Outcome.INCONCLUSIVE),
        (BASELINES_OFF, Outcome.INCONCLUSIVE),
        ("foreign-host", Outcome.INVALID),
        ("other-definition", Outcome.INVALID),
        ("other-profile", Outcome.INVALID),
    ],
)
def test_a_baseline_that_cannot_be_used_has_its_reason(build: type[Build], reason: str, outcome: Outcome) -> None:
    """What is known beforehand is the verdict, whatever was measured: never a pass, with its own reason and detail."""
    gate = gate_of(build)
    problem = Failure(reason=reason, message="that is so", detail="a: 1 in the baseline, 2 today")
    known = KnownBaseline(gate=gate.id, entry_id="c1-output_throughput", problem=problem)

    [verdict] = judge(gate, day(build, 28, 0.5, 0.5).model_copy(update={"baselines": (known,)}))

    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    assert "that is so" in verdict.summary
    assert verdict == closed_beforehand(gate, gate.baselines[0], known)
    assert (verdict.detail == problem.detail) == (outcome == Outcome.INVALID)


@pytest.mark.parametrize(
    ("today", "reason", "line"),
    [
        ({"seed": 7}, "other-profile", "seed: 0 in the baseline, 7 today"),
        ({"candidate": 7}, "other-definition", "num_speculative_tokens: 4 in the baseline, 7 today"),
    ],
)
def test_another_load_and_other_arms_are_quoted(
    build: type[Build], *, today: dict[str, Any], reason: str, line: str
) -> None:
    """A window of something else is INVALID, with the field and both its values, also where it was found afterwards."""
    file = build.accepted(gate_of(build), *(day(build, 2 + i, speed) for i, speed in enumerate(NIGHTS)))
    gate = gate_of(build, **today)
    window = build.against(gate, day(build, 28, **today), file)
    late = window.model_copy(
        update={"baselines": tuple(known.model_copy(update={"problem": None}) for known in window.baselines)}
    )

    for record in (window, late):
        [verdict] = judge(gate, record)
        assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, reason)
        assert any(line in told for told in verdict.detail.splitlines())
        assert verdict.change is None


def test_figures_of_other_formulas_are_not_compared_offline(build: type[Build]) -> None:
    """A record judged by a later package, whose formulas changed, is not compared with figures of the old ones."""
    gate = gate_of(build)
    file = build.accepted(gate, *(day(build, 2 + i) for i in range(3)))
    [known] = build.against(gate, day(build, 28), file).baselines
    assert known.entry is not None
    old = known.entry.model_copy(update={"metric_definition_version": DEFINITION_VERSION - 1})

    record = day(build, 28).model_copy(update={"baselines": (known.model_copy(update={"entry": old}),)})
    [verdict] = judge(gate, record)

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "other-definition")


@pytest.mark.parametrize(("engine", "outcome"), [("any", Outcome.PASS), ("same", Outcome.INVALID)])
def test_engine_builds_are_crossed_unless_asked(build: type[Build], engine: Any, outcome: Outcome) -> None:
    """Baselines are there to be compared across engine builds; `engine="same"` makes another one INVALID."""
    gate = gate_of(build, build.claim(engine=engine))
    # Windows of unknown builds, which a claim that crosses builds has accepted.
    crossing = gate_of(build, build.claim())
    file = build.accepted(crossing, *(day(build, 2 + i, speed, speed) for i, speed in enumerate(NIGHTS)))
    newer = day(build, 28).model_copy(update={"engine": {"off": {"version": "9"}, "k4": {"version": "9"}}})

    [verdict] = judge(gate, build.against(gate, newer, file))

    assert verdict.outcome == outcome
    assert engine == "any" or verdict.reason == "other-engine"
    assert engine == "any" or 'reference.version: (unset) in the baseline, "9" today' in verdict.detail


def test_case_103_a_missing_figure_passes_nothing(build: type[Build]) -> None:
    """Case 103: a failed request makes the claim about its level INVALID, and the other claim is judged beside it."""
    gate = gate_of(build, build.claim(cross_window=FLOOR), build.claim(at=8, cross_window=FLOOR))
    file = build.accepted(gate, day(build, 2))

    def fail(point: PointRecord) -> PointRecord:
        return build.point([*point.requests[:-1], build.failed(9)], at=point.at)

    window = build.edited_point(day(build, 28), arm="off", edit=fail)
    broken, sound = judge(gate, build.against(gate, window, file))

    assert (broken.outcome, broken.reason) == (Outcome.INVALID, "failed-requests")
    assert sound.outcome == Outcome.PASS


def _open(build: type[Build], gate: Any, window: WindowRecord) -> tuple[list[str], bool]:
    verdicts = judge(gate, window, final=False)
    return [verdict.reason for verdict in verdicts], needs_more_rounds(verdicts)


def test_a_claim_about_a_baseline_alone_asks_for_all_rounds(build: type[Build]) -> None:
    """Where nothing else decides when a gate has seen enough, the rounds that were planned are measured."""
    gate = gate_of(build, rounds=3)
    file = build.accepted(gate, day(build, 2))

    for known in (file, None):
        told = [_open(build, gate, build.against(gate, day(build, 28, *[1.0] * count), known)) for count in (1, 2, 3)]
        assert told == [([OPEN], True), ([OPEN], True), ([LATER], False)]
    other = gate_of(build, rounds=3, seed=7)
    assert _open(build, other, build.against(other, day(build, 28, 1.0, seed=7), file)) == ([OPEN], True)


def test_a_claim_about_a_baseline_asks_for_nothing_beside_an_interval(build: type[Build]) -> None:
    """Intervals decide when their gate has seen enough; claims across windows take what is there then."""
    gate = build.gate(build.pair(), build.threshold(), build.claim())
    file = build.accepted(gate, day(build, 2))

    for known in (file, None):
        assert _open(build, gate, build.against(gate, day(build, 28, 1.0), known)) == ([OPEN, LATER], True)
        assert _open(build, gate, build.against(gate, day(build, 28, 1.0, 1.0), known))[1] is False


def test_baselines_that_are_off_ask_for_nothing(build: type[Build]) -> None:
    """A session that leaves baselines alone measures no round for them."""
    gate = gate_of(build)
    problem = Failure(reason=BASELINES_OFF, message="off")
    known = KnownBaseline(gate=gate.id, entry_id="c1-output_throughput", problem=problem)

    assert _open(build, gate, day(build, 28, 1.0).model_copy(update={"baselines": (known,)})) == ([LATER], False)


def test_what_cannot_be_judged_stops_at_once(build: type[Build]) -> None:
    """A point that is INVALID stays so, and no further round is measured for it."""
    gate = gate_of(build)

    def fail(point: PointRecord) -> PointRecord:
        return build.point([*point.requests[:-1], build.failed(9)], at=point.at)

    window = build.edited_point(day(build, 28, 1.0), arm="k4", edit=fail)

    assert _open(build, gate, build.against(gate, window, None)) == (["failed-requests"], False)


def test_a_record_is_judged_as_it_was_bit_for_bit(build: type[Build]) -> None:
    """A record with its gates and baselines, once through JSON, gives the same verdicts to the last digit."""
    claims = [
        build.claim(),
        build.claim(mode="absolute"),
        build.claim("ttft_p50", 8, margin=0.013, engine="same"),
        build.claim("acceptance_length", mode="absolute"),
        build.claim("tpot_p50"),
    ]
    gate = build.gate(build.pair(), build.threshold(), *claims)
    built = {"engine": {arm.name: {"version": "1"} for arm in gate.pair.arms}}
    days = (day(build, 2 + i, speed, speed / 3) for i, speed in enumerate((1.0, 1.1, 0.9)))
    file = build.accepted(gate, *(one.model_copy(update=built) for one in days))
    window = build.against(gate, day(build, 28, 1 / 3, 1.0).model_copy(update=built), file).model_copy(
        update={"gates": (stored_gate(gate),)}
    )
    verdicts = judge(gate, window)

    read = WindowRecord.model_validate_json(json.dumps(json.loads(window.model_dump_json()), sort_keys=True))
    [again] = gates_of(read)

    assert [one.model_dump_json() for one in judge(again, read)] == [one.model_dump_json() for one in verdicts]
    assert [Verdict.model_validate_json(one.model_dump_json()) for one in verdicts] == list(verdicts)
    assert not any(verdict.reason == "no-baseline" for verdict in verdicts)
