"""Sweeps of draft horizons: what may be declared, what is stored, and who need not be booted."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.advice import OBJECTIVES
from pytest_specgate.core.arms import Arm, arms_of
from pytest_specgate.core.comparison_claims import Claims
from pytest_specgate.core.errors import RecordError, UsageError
from pytest_specgate.core.floors import NoiseFloor
from pytest_specgate.core.horizon_records import window_horizons
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.records import PairRecord, WindowRecord
from pytest_specgate.core.sweep_decision import ruled_out, ruled_out_of
from pytest_specgate.core.sweeps import ArmSweep, arm_sweep, stored_sweep, sweeps_of
from pytest_specgate.core.window_comparison import compare_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.core.conftest import Build

OFF = Arm("off", model="folder", args={"max_model_len": 64})
LOAD = RequestProfile(input_tokens=16, output_tokens=11, requests={1: 10, 8: 16})
FLOORS = {
    name: NoiseFloor(floor, "A/A windows of a test")
    for name, floor in (("decode_rate_p50", 0.05), ("output_throughput", 0.08), ("ttft_p50", 0.1))
}
KS = (3, 4, 5, 6, 7)


def _spec(k: int) -> Arm:
    return OFF.vary(f"k{k}", args={"speculative_config": {"method": "ngram", "num_speculative_tokens": k}})


def _sweep(ks: Sequence[int] = KS, **changes: Any) -> ArmSweep:
    return arm_sweep(OFF, _spec, ks=ks, **{"profile": LOAD, "noise": FLOORS, **changes})


def _record(build: type[Build], sweep: ArmSweep, rounds: Sequence[Mapping[str, float]]) -> WindowRecord:
    """Return a window of a sweep whose boots ran at known speeds, round by round.

    With k of 3 and more a step gives 2.5 tokens; at speed v it takes 0.1 / v s without speculation, else 0.25 / v s.
    """
    arms = {arm.name: arm for arm in arms_of(sweep.pairs)}
    titles = {name: tuple(pair.title for pair in sweep.pairs if arm in pair.arms) for name, arm in arms.items()}
    boots = [
        build.boot(arms[name], sweep.profile, speed=speed, number=number).model_copy(
            update={"position": place, "pairs": titles[name]}
        )
        for number, speeds in enumerate(rounds, start=1)
        for place, (name, speed) in enumerate(speeds.items())
    ]
    return WindowRecord(
        created_at="2026-11-29T12:00:00+00:00",
        finished=False,
        arms=tuple(arms.values()),
        pairs=tuple(map(PairRecord.of, sweep.pairs)),
        profile=sweep.profile,
        host={"cpu": "a test's"},
        engine={name: {"vllm": "0.32.0"} for name in arms},
        boots=tuple(boots),
        sweeps=(stored_sweep(sweep),),
    )


def test_a_sweep_is_each_horizon_against_off_the_longest_first() -> None:
    """So that its scouts are the first two arms of a window."""
    sweep = _sweep((1, 7, 2))

    assert [pair.title for pair in sweep.pairs] == ["k7 against off", "k1 against off", "k2 against off"]
    assert [arm.name for arm in sweep.scouts] == ["off", "k7"] == [arm.name for arm in arms_of(sweep.pairs)][:2]
    assert {pair.paths for pair in sweep.pairs} == {("args.speculative_config",)}
    assert {pair.rounds for pair in sweep.with_rounds(4).pairs} == {4}
    assert sweep.with_rounds(None) is sweep


def test_arms_that_tell_of_single_requests_are_no_second_change() -> None:
    """Only a speculative server takes that argument."""
    told = arm_sweep(
        OFF,
        lambda k: _spec(k).vary(f"k{k}", args={"per_request_spec_decode_metrics": "summary"}),
        ks=(1, 2),
        profile=LOAD,
    )

    assert {pair.paths for pair in told.pairs} == {("args.speculative_config",)}


def test_its_ends_are_the_coldest_levels() -> None:
    """The lowest tells of one user, and the highest of a full server; one load at two temperatures is one load."""
    load = dataclasses.replace(LOAD, requests={1: 10, "1 T=0.8": 10, 8: 16, "8 T=0.8": 16})
    hot = dataclasses.replace(LOAD, temperature=0.8, requests={1: 10, "1 T=0": 10, 8: 16, "8 T=0": 16})

    assert _sweep(profile=load).ends == (1, 8)
    assert _sweep(profile=hot).ends == ("1 T=0", "8 T=0")
    assert _sweep().compared == (("decode_rate_p50", 1), ("output_throughput", 8), ("ttft_p50", 8))


def test_a_rate_is_no_end_beside_a_concurrency() -> None:
    """Under rates alone throughput is what arrives, and compares nobody."""
    both = dataclasses.replace(LOAD, requests={1: 10, 8: 16, "4/s": 16})
    rates = dataclasses.replace(LOAD, requests={"1/s": 16, "4/s": 16})

    assert _sweep(profile=both).ends == (1, 8)
    assert _sweep(profile=rates).compared == (("decode_rate_p50", "1/s"), ("ttft_p50", "4/s"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ks": ()}, "arm_sweep() takes whole numbers above 0 as ks=(1, 2, 4, 7), got ()"),
        ({"ks": 4}, "arm_sweep() takes whole numbers above 0 as ks=(1, 2, 4, 7), got 4"),
        ({"ks": (0, 2)}, "arm_sweep() takes whole numbers above 0 as ks=(1, 2, 4, 7), got (0, 2)"),
        ({"ks": (True,)}, "arm_sweep() takes whole numbers above 0 as ks=(1, 2, 4, 7), got (True,)"),
        ({"ks": (2, 2)}, "arm_sweep() has k=2 twice in ks=(2, 2)"),
        ({"ks": (2, 65)}, "ArmSweep: arm k65 has k=65: write 1 to 64"),
        ({"most": 1}, "ArmSweep.most: input should be greater than or equal to 2, got 1"),
        ({"rounds": 5}, "ArmPair: rounds=5: 1, 2, 3 or an even number keeps the boot order balanced"),
        (
            {"noise": FLOORS["ttft_p50"]},
            (
                "arm_sweep() takes noise by name, as "
                'noise={"decode_rate_p50": noise_floor("8%", source="...")}, got '
                f"{FLOORS['ttft_p50']!r}"
            ),
        ),
        (
            {"allow_engine_differences": ["a.b"]},
            (
                "arm_sweep() takes allow_engine_differences by name, as "
                'allow_engine_differences={"cache_config.block_size": "why it is harmless"}, got [\'a.b\']'
            ),
        ),
        ({"round": 2}, "arm_sweep() has no keyword 'round'; did you mean 'rounds'?"),
        (
            {"noise": {"ttft_p5": FLOORS["ttft_p50"]}},
            (
                "ArmSweep: noise names 'ttft_p5', which is not among what horizons are compared by, which are "
                "decode_rate_p50, output_throughput, ttft_p50; did you mean 'ttft_p50'?"
            ),
        ),
        (
            {"noise": {"ttft_p50": NoiseFloor(None, "calibrated")}},
            (
                "ArmSweep: noise['ttft_p50'] is a percentage with its source, as noise_floor('8%', source='...'); "
                "leave it out where calibrations are to tell it"
            ),
        ),
        (
            {"profile": dataclasses.replace(LOAD, requests={1: 9, 8: 16})},
            "ArmSweep: decode_rate_p50 at c=1 needs 10 requests, and the profile sends 9",
        ),
    ],
)
def test_what_a_sweep_cannot_be(changes: dict[str, Any], sentence: str) -> None:
    """One sentence, before anything is booted."""
    with pytest.raises(UsageError) as caught:
        arm_sweep(OFF, _spec, **{"ks": (1, 2), "profile": LOAD, **changes})

    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("off", "vary", "sentence"),
    [
        (OFF, 7, "arm_sweep() takes a function that returns the arm of a k second, got 7"),
        (OFF, lambda _: 3, "arm_sweep(): vary(1) returned 3, which is no Arm"),
        (OFF, lambda _: OFF, "arm_sweep(): vary(1) returned arm off, which declares k=None"),
        (OFF, lambda _: _spec(2), "arm_sweep(): vary(1) returned arm k2, which declares k=2"),
        (_spec(3), _spec, "ArmSweep: off=k3 speculates: its speculative_config must be left out"),
        (
            OFF,
            lambda k: _spec(k).vary(f"k{k}", env={"A": "1"}),
            "ArmSweep: arm k1 also differs from off in env.A: a sweep compares speculation alone",
        ),
        (
            OFF,
            lambda k: OFF.vary(f"k{k}", args={"speculative_config": {"method": f"m{k}", "num_speculative_tokens": k}}),
            (
                "ArmSweep: arms k1 and k2 also differ in args.speculative_config.method: those of a sweep differ in "
                "num_speculative_tokens alone"
            ),
        ),
        (
            OFF,
            lambda k: _spec(k).vary("same"),
            (
                "two arms of one window are called 'same' but differ in args.speculative_config.num_speculative_tokens"
                "; rename one"
            ),
        ),
    ],
)
def test_what_its_arms_cannot_be(off: Arm, vary: Callable[[int], Arm], sentence: str) -> None:
    """They differ in k alone, and from off in nothing but speculation."""
    with pytest.raises(UsageError) as caught:
        arm_sweep(off, vary, ks=(1, 2), profile=LOAD)

    assert str(caught.value) == sentence


def test_arms_declared_by_hand_have_each_their_own_k() -> None:
    """What `arm_sweep` refuses by its ks, the declaration refuses by its arms."""
    with pytest.raises(UsageError, match="arms k2 and again have the same k=2"):
        ArmSweep(off=OFF, arms=(_spec(2), _spec(2).vary("again")), profile=LOAD)
    with pytest.raises(UsageError, match="arm x declares no num_speculative_tokens"):
        ArmSweep(off=OFF, arms=(OFF.vary("x", args={"speculative_config": {"method": "ngram"}}),), profile=LOAD)


def test_a_record_gives_its_sweeps_back(build: type[Build]) -> None:
    """With floors and horizons, so that a report knows them later; one that is broken is named."""
    sweep = _sweep((4, 7), rounds=4, allow_engine_differences={"x.y": "known"})
    record = _record(build, sweep, [{"off": 1.0, "k7": 1.0}])
    broken = record.model_copy(update={"sweeps": ({"off": "of", "arms": {}},)})

    assert sweeps_of(record) == (sweep,)
    with pytest.raises(RecordError, match="a sweep of the record cannot be read: it has no 'of'"):
        sweeps_of(broken)


def test_floors_of_a_sweep_are_the_noise_of_its_horizons(build: type[Build]) -> None:
    """Whoever looks at the record later compares by them."""
    [found] = window_horizons(_record(build, _sweep(), [{"off": 1.0, "k7": 1.0}]), "a record").drafters

    assert found.noise == {name: floor.noise for name, floor in FLOORS.items()}


def test_old_records_have_no_sweeps(build: type[Build]) -> None:
    """And rule nothing out."""
    record = build.window(build.pair(), [1.0], [1.0])
    old = record.model_dump_json(exclude={"sweeps", "ruled_out"})
    loaded = WindowRecord.model_validate_json(old)

    assert (loaded.sweeps, loaded.ruled_out, sweeps_of(loaded)) == ((), {}, ())


def test_who_cannot_win_at_both_ends_is_ruled_out(build: type[Build]) -> None:
    """A step of k=7 takes the 0.1 s of off for 2.5 tokens: one of k=1 gives 1.75, and takes no less than that."""
    sweep = _sweep((1, 2, 7))
    out = ruled_out(sweep, _record(build, sweep, [{"off": 1.0, "k7": 2.5}]))

    assert list(out) == ["k1"]
    assert out["k1"] == (
        "k=1 can give at most 19.78 tokens/s a stream at c=1, where k=7 has 25, and 20.05 tokens/s a stream at c=8, "
        "where k=7 has 25 (upper end of the 95 % interval of its tokens per step, in a step that is assumed to take no "
        "less than one of off, and the noise floor of 5 % and 8 % in its favour)"
    )


def test_a_slow_scout_rules_nobody_out(build: type[Build]) -> None:
    """However steep the line to the longest horizon is: steps may be as short as those of off up to any k."""
    sweep = _sweep((1, 2, 7))

    assert ruled_out(sweep, _record(build, sweep, [{"off": 1.0, "k7": 0.1}]), kept={"k7"}) == {}


def test_only_the_most_promising_are_booted(build: type[Build]) -> None:
    """The best at the lowest load and the best at the highest one, in turn; the rest with what it would lose."""
    out = ruled_out(_sweep(most=2), _record(build, _sweep(), [{"off": 1.0, "k7": 1.0}]))

    words = (
        "k={0} is predicted {1} % slower than k=3 at c=1, and {1} % slower than k=3 at c=8 (from the acceptance of the "
        "longest horizon, with step times on the line between off and that one), and no more than 2 besides the scouts "
        "are booted"
    )

    assert out == {"k5": words.format(5, 20.7), "k6": words.format(6, 28.1)}


def test_an_arm_that_is_wanted_takes_no_place_of_others(build: type[Build]) -> None:
    """It is booted in any case, so that the two most promising of the others are, too."""
    record = _record(build, _sweep(), [{"off": 1.0, "k7": 1.0}])

    assert set(ruled_out(_sweep(most=2), record, kept={"k3"})) == {"k6"}


def test_without_a_known_noise_no_prediction_is_slow_enough(build: type[Build]) -> None:
    """Nothing tells by how much a prediction may be too low."""
    sweep = _sweep((1, 7), noise={})

    assert ruled_out(sweep, _record(build, sweep, [{"off": 1.0, "k7": 25.0}])) == {}


def test_a_load_of_one_level_is_told_once(build: type[Build]) -> None:
    """Both ends are one."""
    sweep = _sweep((1, 7), profile=dataclasses.replace(LOAD, requests={8: 16}))
    out = ruled_out(sweep, _record(build, sweep, [{"off": 1.0, "k7": 25.0}]))

    assert out["k1"].count("c=8") == 1


@pytest.mark.parametrize("booted", [["off"], ["k7"], ["off", "k3"]])
def test_without_both_scouts_nothing_is_ruled_out(build: type[Build], booted: list[str]) -> None:
    """Off and the longest horizon: one alone tells no line."""
    assert ruled_out(_sweep(), _record(build, _sweep(), [dict.fromkeys(booted, 1.0)])) == {}


def test_a_scout_without_figures_at_an_end_rules_nothing_out(build: type[Build]) -> None:
    """What cannot be judged there cannot be compared with."""
    record = _record(build, _sweep(), [{"off": 1.0, "k7": 0.1}])
    failed = build.edited_point(
        record, arm="k7", at=8, edit=lambda point: build.point([build.failed()], at=8).model_copy(
            update={"before": point.before, "after": point.after}
        )
    )  # fmt: skip

    assert ruled_out(_sweep(), failed) == {}


def test_only_who_is_beaten_in_everything_is_ruled_out(build: type[Build]) -> None:
    """By whoever it is; off is never ruled out, and who leads in one thing stays."""
    slow_start = {1: 2.0, 8: 0.9}
    speeds = {"off": 1.0, "k7": 0.5, "k3": slow_start, "k4": 0.7, "k5": 1.01, "k6": 0.6}
    record = _record(build, _sweep(), [speeds])  # type: ignore[list-item]  # a speed by load level is one, too
    out = ruled_out(_sweep(), record)

    assert set(out) == {"k7", "k4", "k6"}
    assert out["k4"] == (
        "k=4 is beaten at c=1 by k=3 (decode rate p50 better +185.7 %, +145.2 .. +232.9 %, 1 round); at c=8 by k=5 "
        "(output throughput better +44.3 %, +13.4 .. +83.6 %, 1 round); at c=8 by k=5 (TTFT p50 better -30.7 %, "
        "-48.6 .. -6.6 %, 1 round)"
    )


def test_several_sweeps_rule_an_arm_out_together(build: type[Build]) -> None:
    """What one of them still wants is booted; what was ruled out before stays so."""
    first, second = _sweep(), _sweep((3, 5, 7))
    record = _record(build, first, [{"off": 1.0, "k7": 0.5}])
    earlier = record.model_copy(update={"ruled_out": {"k6": "said before"}})

    assert list(ruled_out_of([first, second], record)) == ["k6", "k7"]
    assert ruled_out_of([first, second], earlier)["k6"] == "said before"
    assert "k5" not in ruled_out_of([first, _sweep((3, 5))], record)


def test_horizons_are_compared_by_what_advice_looks_at() -> None:
    """Floors may be declared for these metrics, and for no others."""
    assert {name for name, _ in _sweep().compared} == set(OBJECTIVES.values()) == FLOORS.keys()


def test_windows_are_compared_by_what_was_booted(build: type[Build]) -> None:
    """What neither was to boot is not missed; what the candidate window alone left out is."""
    sweep = _sweep((4, 7), rounds=1)
    whole = _record(build, sweep, [{"off": 1.0, "k7": 1.0, "k4": 1.0}]).model_copy(update={"finished": True})
    short = _record(build, sweep, [{"off": 1.0, "k7": 1.0}]).model_copy(
        update={"finished": True, "ruled_out": {"k4": "slow"}}
    )

    def refused(reference: WindowRecord, candidate: WindowRecord) -> list[tuple[str, str]]:
        found = compare_windows(reference, candidate, Claims(), twice=True)
        return [(row.subject, row.reason) for row in found.rows if not row.valid]

    assert refused(short, short) == refused(short, whole) == []
    assert refused(whole, short) == [("k4 against off", "not-measured"), ("k4", "not-measured")]
