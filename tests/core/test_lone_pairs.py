"""An arm alone as it is scheduled, judged, stored, resumed, accepted as a baseline and compared."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core import metrics
from pytest_specgate.core.arms import LonePair
from pytest_specgate.core.baseline_offer import builds_of, definition_of
from pytest_specgate.core.comparison_claims import Claims
from pytest_specgate.core.confounds import differences_of, unlisted_differences
from pytest_specgate.core.errors import InvalidError, UsageError
from pytest_specgate.core.gate_exports import exported, gate_on
from pytest_specgate.core.judge import cut_short, identity_of, judge, pair_problem
from pytest_specgate.core.known import calibrated_noise
from pytest_specgate.core.records import ArmNoise, WindowRecord
from pytest_specgate.core.resume import Source, Today, taken_over
from pytest_specgate.core.schedule import judged_rounds, later_boots, most_rounds, sure_rounds
from pytest_specgate.core.stopping import open_pairs
from pytest_specgate.core.stored_gates import gates_of, pairs_of, stored_gate, title_of
from pytest_specgate.core.thresholds import LimitThreshold, NoiseFloor
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.core.window_comparison import compare_windows
from tests.core.conftest import HOST_CLASS

if TYPE_CHECKING:
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.thresholds import AnyThreshold
    from tests.core.conftest import Build

KEPT = LimitThreshold("acceptance_length", 1, "at_least", 2.5)
BROKEN = LimitThreshold("acceptance_length", 8, "at_least", 2.6)
FLOOR = NoiseFloor(0.02, "windows of a test")
STOPPED = "the time budget was used up after 1 of 3 rounds"


def _gate(build: type[Build], *thresholds: AnyThreshold, rounds: int = 3) -> Gate:
    pair = LonePair.of(build.arm(4), profile=build.profile(), rounds=rounds)
    return build.gate(pair, *(thresholds or (KEPT,)))


def _window(build: type[Build], gate: Gate, *, boots: int = 3, **changes: Any) -> WindowRecord:
    speeds = [1.0] * boots
    record = build.window(gate.pair, speeds, speeds)
    # The builder boots both arms of a pair, and here these are one.
    once = {boot.round: boot for boot in record.boots}
    known = {"boots": tuple(once.values()), "gates": (stored_gate(gate),), "host_class": HOST_CLASS}
    return record.model_copy(update={**known, **changes})


def test_all_boots_run_though_limits_ask_for_one(build: type[Build]) -> None:
    """Of a pair a limit is judged by one round; of an arm alone every boot is part of the sample."""
    gate = _gate(build)
    counts = [count(gate.pair, [gate], ()) for count in (most_rounds, sure_rounds, judged_rounds)]
    later = later_boots([gate.pair], [gate], (), pairs=[gate.pair], done=1)

    assert counts == [3, 3, 3]
    assert (later.arms, later.sure) == (("k4", "k4"), True)


@pytest.mark.parametrize(("thresholds", "more"), [((KEPT,), True), ((KEPT, BROKEN), False)])
def test_it_is_booted_on_until_a_limit_is_broken(
    build: type[Build], *, thresholds: tuple[AnyThreshold, ...], more: bool
) -> None:
    """A broken limit, as a boot that must not be judged, ends it: more boots would only cost time."""
    gate = _gate(build, *thresholds)
    record = _window(build, gate, boots=1)

    assert bool(open_pairs([gate.pair], [gate], record, rounds_done=1)) is more
    assert not open_pairs([gate.pair], [gate], _window(build, gate), rounds_done=3)


def test_a_limit_is_judged_by_every_boot(build: type[Build]) -> None:
    """Its values are those of the one arm, boot by boot, and each stands once."""
    gate = _gate(build, KEPT, BROKEN)

    kept, broken = judge(gate, _window(build, gate))

    assert (kept.outcome, kept.values, kept.rounds, kept.pair) == (Outcome.PASS, (2.5,) * 3, 3, "k4")
    assert (broken.outcome, broken.reason) == (Outcome.FAIL, "beyond-limit")


def test_a_probe_that_was_cut_short_does_not_pass(build: type[Build]) -> None:
    """Fewer boots than were declared leave a kept limit undecided, and a broken one broken."""
    gate = _gate(build, KEPT, BROKEN)
    record = _window(build, _gate(build), boots=1, stopped=STOPPED)

    [verdict] = judge(_gate(build), record)

    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "stopped")
    assert verdict.summary.endswith(f"stopped at round 1 of 3: {STOPPED}")
    assert [one.outcome for one in judge(gate, record)] == [Outcome.INCONCLUSIVE, Outcome.FAIL]
    assert not cut_short(_gate(build), _window(build, gate, stopped=STOPPED))


def test_a_limit_is_not_kept_in_boots_that_a_broken_one_cost(build: type[Build]) -> None:
    """A sibling that fails ends the probe: a limit kept so far is left open, with the boot and the sibling named."""
    gate = _gate(build, KEPT, BROKEN)

    kept, broken = judge(gate, _window(build, gate, boots=1))

    assert (kept.outcome, kept.reason) == (Outcome.INCONCLUSIVE, "stopped")
    assert kept.summary.endswith(f"stopped at round 1 of 3: {broken.threshold} is FAIL")
    assert broken.outcome == Outcome.FAIL


def test_one_boot_has_nothing_to_be_identical_with(build: type[Build]) -> None:
    """A probe of one boot is judged; from the second on the loads of all boots are compared."""
    gate = _gate(build, rounds=1)
    one, three = _window(build, gate, boots=1), _window(build, _gate(build))
    edited = build.edited(
        three, arm="k4", number=2,
        edit=lambda boot: boot.model_copy(update={"profile": {**boot.profile, "order_seed": 7}}),
    )  # fmt: skip

    assert pair_problem(gate.pair, one) is None
    assert identity_of(gate.pair, one).sentence == "request profile: of one boot, which is compared with none"
    assert identity_of(_gate(build).pair, three).identical
    problem = pair_problem(_gate(build).pair, edited)
    assert problem is not None
    assert problem.reason == "profile-mismatch"


def test_without_a_boot_it_was_not_measured(build: type[Build]) -> None:
    """The sentence speaks of the arm, and of no second one."""
    gate = _gate(build)

    problem = pair_problem(gate.pair, _window(build, gate, boots=0))

    assert problem is not None
    assert problem.message == "the window ended before k4 ran"


def test_strict_finds_no_difference_from_another_arm(build: type[Build]) -> None:
    """There is none, so nothing can be unlisted, also where no start of a server was kept."""
    gate = _gate(build)
    record = _window(build, gate, strict=True)

    assert differences_of(gate.pair, record) is None
    assert unlisted_differences(gate.pair, record) is None
    assert judge(gate, record)[0].outcome == Outcome.PASS


def test_nothing_drafted_is_invalid(build: type[Build]) -> None:
    """Case 48: counters that stand still source no acceptance."""
    gate = _gate(build)
    silent = build.point([build.request(i) for i in range(10)], speculation=build.drafted(0, k=4))
    record = build.edited_point(_window(build, gate), arm="k4", edit=lambda _: silent)

    [verdict] = judge(gate, record)

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "speculation-inactive")
    assert (verdict.values, verdict.candidate) == ((), None)


def test_a_record_gives_back_gate_and_pair(build: type[Build]) -> None:
    """Through JSON and back it is the same arm alone, with the same claims."""
    gate = _gate(build, KEPT, build.claim("acceptance_length", mode="absolute", cross_window=FLOOR))
    record = WindowRecord.model_validate_json(_window(build, gate).model_dump_json())

    assert gates_of(record) == (gate,)
    assert pairs_of(record) == (gate.pair,)
    assert title_of(record.pairs[0]) == "k4"


def test_a_gate_file_judges_a_record_by_other_limits(build: type[Build]) -> None:
    """What pytest collects finds its arm alone in the record; on a record of pairs it says what is missing."""
    gate = _gate(build, BROKEN, rounds=5)
    found = exported(gate)

    assert gate_on(_window(build, _gate(build)), found) == gate
    with pytest.raises(UsageError, match="it is on k4 alone, and the pairs of the record are: k4 against off"):
        gate_on(build.window(build.pair(), [1.0], [1.0]), found)


def test_a_record_without_its_arm_says_so(build: type[Build]) -> None:
    """A stored gate on an arm alone that the record has not is named as such."""
    record = build.window(build.pair(), [1.0], [1.0]).model_copy(update={"gates": (stored_gate(_gate(build)),)})

    with pytest.raises(Exception, match="is on k4 alone, which the record has not"):
        gates_of(record)


def test_a_baseline_of_it_has_figures_of_one_arm(build: type[Build]) -> None:
    """Nothing stands there of a reference: neither figures nor a definition nor a build."""
    gate = _gate(build, build.claim("acceptance_rate_position_2", mode="absolute", points=True))
    window = _window(build, gate)

    entry = build.accepted(gate, window).entries["c1-acceptance_rate_position_2"]

    assert (entry.latest.reference, entry.latest.candidate) == ((), (0.5, 0.5, 0.5))
    assert set(definition_of(gate.pair, {})) == {"candidate", "varies", "settings"}
    assert set(builds_of(gate.pair, window)) == {"candidate"}


def test_its_claim_about_a_baseline_is_judged_without_a_reference(build: type[Build]) -> None:
    """Equal acceptance passes under a declared floor: there is no machine of a reference that could have moved."""
    gate = _gate(build, build.claim("acceptance_length", mode="absolute", cross_window=FLOOR))
    first = _window(build, gate, created_at="2026-11-01T12:00:00.000+00:00")
    today = build.against(gate, _window(build, gate), build.accepted(gate, first))

    [verdict] = judge(gate, today)

    assert (verdict.outcome, verdict.reference, verdict.change) == (Outcome.PASS, None, 0.0)


def test_a_probe_that_was_cut_short_is_no_baseline(build: type[Build]) -> None:
    """A part of a window is not compared with whole ones later."""
    gate = _gate(build, KEPT, build.claim("acceptance_length", mode="absolute", cross_window=FLOOR))

    with pytest.raises(InvalidError, match="measure it whole, without a budget"):
        build.accepted(gate, _window(build, gate, boots=1, stopped=STOPPED))


def test_a_calibration_of_the_arm_counts_once(build: type[Build]) -> None:
    """How two boots of one arm differ is known from its A/A windows, and not from those of a second arm."""
    pair = _gate(build).pair
    noise = ArmNoise(
        arm="k4", at=1, metric="acceptance_length", sd=0.01, df=5, boots=6, builds=1, arm_sha256="a" * 64,
        measured_at="2026-11-28T12:00:00+00:00",
    )  # fmt: skip

    found = calibrated_noise("acceptance_length", pair, [noise], at=1)

    assert (found.noise.sigma, found.noise.df, found.words) == (0.01, 5, "calibrated: k4 by 6 boots of 2026-11-28")
    assert calibrated_noise("acceptance_length", pair, [], at=1).noise.df == 0


def test_a_window_of_it_that_died_goes_on(build: type[Build]) -> None:
    """The boots that there are stay, and the message of one that cannot go on names the arm once."""
    gate = _gate(build)
    record = _window(build, gate, boots=2, finished=False, stopped=STOPPED)
    today = Today(
        pairs=(gate.pair,), gates=(gate,), strict=False, settings={}, host_class=HOST_CLASS, host=record.host,
        engine=record.engine, commit="", client_version="",
    )  # fmt: skip
    known = {"client_version": "", "metric_definition_version": metrics.DEFINITION_VERSION}
    boots = [boot.model_copy(update={"profile": {**boot.profile, **known}}) for boot in record.boots]
    record = record.model_copy(update={"boots": tuple(boots)})
    fewer = dataclasses.replace(today, pairs=(gate.pair.with_rounds(2),))

    _, taken = taken_over([today], record, Source("r.json", "a" * 64))

    assert (taken.rounds, taken.of, len(taken.boots)) == (2, 3, 2)
    with pytest.raises(UsageError, match=r"pairs\.k4\.rounds: 3 there, and 2 today"):
        taken_over([fewer], record, Source("r.json", "a" * 64))


def test_two_windows_of_it_are_compared_by_their_levels(build: type[Build]) -> None:
    """There is no change between arms to compare, so that no mode has to be named."""
    record = _window(build, _gate(build))

    found = compare_windows(record, record, Claims())

    assert {row.mode for row in found.rows} == {"absolute"}


def test_a_reference_that_never_drafts_a_position_is_no_part_of_an_offer(build: type[Build]) -> None:
    """An absolute claim about position 5 of k7 stands beside a reference of k=4, which has no such figure."""
    pair = build.pair(reference=4, candidate=7, rounds=2)
    names = ("acceptance_rate_position_2", "acceptance_rate_position_5")
    gate = build.gate(pair, *(build.claim(name, mode="absolute", points=True) for name in names))

    entries = build.accepted(gate, build.day(pair, 1, [1.0] * 2, [1.0] * 2)).entries

    assert entries["c1-acceptance_rate_position_2"].latest.reference == (0.5, 0.5)
    assert entries["c1-acceptance_rate_position_5"].latest.reference == ()
