"""What window records tell of draft horizons: identity first, then only what may be judged."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.arms import Arm, ArmPair, LonePair, arms_of, boot_order
from pytest_specgate.core.floors import NoiseFloor
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.horizon_records import window_horizons
from pytest_specgate.core.noise import Noise, declared_noise
from pytest_specgate.core.records import ArmNoise, PairRecord, StartUpRecord, WindowRecord
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.stored_gates import stored_gate
from pytest_specgate.core.sweeps import ArmSweep, stored_sweep
from pytest_specgate.core.thresholds import LimitThreshold

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_specgate.core.horizon_records import DrafterHorizons
    from pytest_specgate.core.records import BootRecord, PointRecord
    from tests.core.conftest import Build


def window(build: type[Build], arms: Sequence[Arm], *, rounds: int = 2, **fields: object) -> WindowRecord:
    """Return a window of neighbouring arms, or of one alone, at speeds that rise with k."""
    profile = build.profile(**fields)
    pairs: Sequence[ArmPair] = [
        ArmPair(reference=one, candidate=other, varies="args.speculative_config", profile=profile, rounds=rounds)
        for one, other in itertools.pairwise(arms)
    ] or [LonePair.of(arms[0], profile=profile, rounds=rounds)]
    boots = [
        build.boot(arm, profile, speed=1 + (arm.draft_horizon or 0) / 4, number=number).model_copy(
            update={"position": position, "pairs": tuple(one.title for one in pairs if arm in one.arms)}
        )
        for number in range(1, rounds + 1)
        for position, arm in enumerate(boot_order(arms_of(pairs), number))
    ]
    return WindowRecord(
        created_at="2026-11-29T12:00:00+00:00",
        finished=True,
        arms=arms_of(pairs),
        pairs=tuple(map(PairRecord.of, pairs)),
        profile=profile,
        host={"cpu": "a test's"},
        engine={},
        boots=tuple(boots),
    )


@pytest.fixture(name="three")
def three_arms(build: type[Build]) -> WindowRecord:
    """Return a window of off, k=2 and k=4."""
    return window(build, [build.arm(), build.arm(2), build.arm(4)])


def only(record: WindowRecord) -> DrafterHorizons:
    """Return the one drafter of a window of which nothing was left out."""
    found = window_horizons(record, "record.json")
    (drafter,) = found.drafters
    assert found.left_out == ()
    return drafter


def changed(record: WindowRecord, name: str, edit: Callable[[BootRecord], BootRecord]) -> WindowRecord:
    """Return the window with every boot of an arm changed."""
    boots = tuple(edit(one) if one.arm == name else one for one in record.boots)
    return record.model_copy(update={"boots": boots})


def with_points(record: WindowRecord, name: str, edit: Callable[[PointRecord], PointRecord]) -> WindowRecord:
    """Return the window with every point of an arm changed."""
    return changed(record, name, lambda one: one.model_copy(update={"points": tuple(map(edit, one.points))}))


def reasons(record: WindowRecord) -> list[str]:
    """Return why something of a window was left out."""
    return [one.reason for one in window_horizons(record, "record.json").left_out]


def test_arms_of_one_drafter_are_its_horizons(three: WindowRecord) -> None:
    """Each with its curve, its step times by boot, and what it is compared by, at every level."""
    found = only(three)
    (first, second) = found.measured

    assert (found.window, found.drafter, dict(found.arms)) == ("record.json", "ngram", {0: "off", 2: "k2", 4: "k4"})
    assert found.identity.startswith("request profile: ")
    assert found.identity.endswith("fields identical")
    assert (first, second) == (1, 8)
    assert [one.k for one in found.measured[1]] == [0, 2, 4]
    assert found.measured[1][0].curve is None
    assert [len(one.step_times_s) for one in found.measured[1]] == [2, 2, 2]
    assert found.measured[1][1].tokens_per_step == pytest.approx(2.0)
    rates = {(one.k, one.at): one.values["decode_rate_p50"] for one in found.figures}
    assert rates[4, 1] == pytest.approx((20.0, 20.0))
    assert [one.places for one in found.figures if one.k == 4] == [(2, 0), (2, 0)]
    assert found.noise == {}


def test_an_argument_that_follows_speculation_parts_no_arms(build: type[Build]) -> None:
    """Arms that tell of single requests are horizons of the same drafter as off, which cannot be asked to."""
    told = [
        build.arm(k).vary(f"k{k}t", args={"per_request_spec_decode_metrics": "summary"}) for k in (2, 4)
    ]  # fmt: skip
    found = window_horizons(window(build, [build.arm(), *told]), "record.json")

    assert [dict(one.arms) for one in found.drafters] == [{0: "off", 2: "k2t", 4: "k4t"}]


def test_each_drafter_has_horizons_of_its_own(build: type[Build]) -> None:
    """Another method, and another model of it, is another drafter; off belongs to all of them."""
    off = build.arm()
    config = {"method": "draft_model", "model": "small", "num_speculative_tokens": 2}
    found = window_horizons(
        window(build, [off, build.arm(2), off.vary("small", args={"speculative_config": config})]), "record.json"
    )

    assert [(one.drafter, dict(one.arms)) for one in found.drafters] == [
        ("ngram", {0: "off", 2: "k2"}), ("draft_model small", {0: "off", 2: "small"}),
    ]  # fmt: skip


def test_a_single_arm_tells_its_curve(build: type[Build]) -> None:
    """There is nothing to compare it with, and nothing wrong with that; of one boot identity says so."""
    found = only(window(build, [build.arm(4)]))
    alone = only(window(build, [build.arm(4)], rounds=1))

    assert (dict(found.arms), found.identity.endswith("identical")) == ({4: "k4"}, True)
    assert alone.identity == "request profile: of one boot, which is compared with none"


def test_without_speculation_there_is_nothing_to_tell(build: type[Build]) -> None:
    """No drafters, and the reason; the same where a window ended before an arm that speculates was booted."""
    none = window_horizons(window(build, [build.arm()]), "record.json")
    early = window(build, [build.arm(), build.arm(4)]).model_copy(update={"finished": False, "stopped": "time is up"})
    alone = early.model_copy(update={"boots": early.boots_of("off")})
    found = window_horizons(alone, "record.json")
    why = "no arm that speculates was booted, so nothing is told of draft horizons"

    assert (none.drafters, none.left_out) == ((), (Failure(reason="not-measured", message=why),))
    assert (none.finished, none.stopped, none.is_invalid) == (True, "", False)
    assert (found.drafters, found.left_out) == (none.drafters, none.left_out)
    assert (found.finished, found.stopped) == (False, "time is up")


def test_the_ends_of_the_load_are_those_of_the_profile(build: type[Build]) -> None:
    """Of one temperature, the coldest."""
    found = window_horizons(window(build, [build.arm(2)], requests={1: 10, 8: 16, "32 T=0.8": 32}), "record.json")

    assert found.ends == (1, 8)
    assert [one.ends for one in found.drafters] == [(1, 8)]


def test_identity_comes_first(three: WindowRecord) -> None:
    """Where boots got other requests nothing is told, and the fields are named."""
    other = changed(three, "k4", lambda one: one.model_copy(update={"profile": {**one.profile, "temperature": 0.7}}))
    found = window_horizons(other, "record.json")

    assert found.drafters == ()
    assert [one.reason for one in found.left_out] == ["profile-mismatch"]
    assert "temperature" in found.left_out[0].message


def test_an_arm_that_failed_is_left_out_alone(three: WindowRecord) -> None:
    """The others met all the same."""
    died = Failure(reason="server-died", message="arm k4: its server left")
    found = window_horizons(
        changed(three, "k4", lambda one: one.model_copy(update={"failure": died, "points": ()})), "record.json"
    )

    assert [dict(one.arms) for one in found.drafters] == [{0: "off", 2: "k2"}]
    assert found.left_out == (died,)


def test_a_window_that_nothing_served_or_whose_machine_changed_is_read_not_at_all(three: WindowRecord) -> None:
    """The one reason stands for the whole of it: that of the first boot, where none served."""
    died = Failure(reason="server-died", message="it left")
    dead = three.model_copy(
        update={"boots": tuple(one.model_copy(update={"failure": died, "points": ()}) for one in three.boots)}
    )
    drifted = changed(
        three, "k4", lambda one: one.model_copy(update={"host_before": {"cpus": 2}, "host_after": {"cpus": 2}})
    )
    drifted = changed(
        drifted, "off", lambda one: one.model_copy(update={"host_before": {"cpus": 4}, "host_after": {"cpus": 4}})
    )

    found = window_horizons(dead, "record.json")
    (reason,) = found.left_out
    assert found.is_invalid
    assert reason == Failure(reason="server-died", message="the window holds no boot that served: it left")
    assert reasons(three.model_copy(update={"boots": ()})) == ["not-measured"]
    assert reasons(drifted) == ["host-drift"]


def test_points_that_cannot_be_judged_are_left_out(three: WindowRecord) -> None:
    """A level at which a request of one arm failed has no figures of it, and a level without any drafter has none."""

    def edit(point: PointRecord) -> PointRecord:
        failed = tuple(one.model_copy(update={"error": "HTTP 500", "status": 500}) for one in point.requests)
        return point.model_copy(update={"requests": failed}) if point.at == 8 else point

    one = window_horizons(with_points(three, "k4", edit), "record.json")
    both = window_horizons(with_points(with_points(three, "k4", edit), "k2", edit), "record.json")

    assert [measured.k for measured in one.drafters[0].measured[8]] == [0, 2]
    assert {figures.k for figures in one.drafters[0].figures if figures.at == 8} == {0, 2}
    assert [failure.reason for failure in one.left_out] == ["failed-requests"]
    assert sorted(both.drafters[0].measured) == [1]
    assert [failure.reason for failure in both.left_out] == ["failed-requests", "failed-requests"]


def test_arms_whose_points_may_not_be_compared_are_not(build: type[Build]) -> None:
    """Each may be judged by itself, and the prefix cache helped one of them: none of the level is told."""

    def edit(point: PointRecord) -> PointRecord:
        hits = build.risen(point, counters.PREFIX_HITS, 2.0 * len(point.requests))
        return hits if point.at == 8 else point

    warm = window(build, [build.arm(), build.arm(2), build.arm(4)], prefix_cache="warm")
    found = window_horizons(with_points(warm, "k4", edit), "record.json")

    assert [sorted(one.measured) for one in found.drafters] == [[1]]
    assert {figures.at for figures in found.drafters[0].figures} == {1}
    assert [failure.reason for failure in found.left_out] == ["prefix-cache"]


def test_what_a_verdict_calls_invalid_is_not_told(three: WindowRecord) -> None:
    """A metric at its level; of a metric of steps and drafts all curves there. A baseline says nothing of today."""
    pair = "k2 against off"
    verdicts = [
        {"outcome": "INVALID", "kind": "not_worse", "pair": pair, "metric": "output_throughput", "at": 8},
        {"outcome": "INVALID", "kind": "at_least", "pair": pair, "metric": "acceptance_rate", "at": 1},
        {"outcome": "INVALID", "kind": "not_worse_than_baseline", "pair": pair, "metric": "ttft_p50", "at": 8},
        {"outcome": "INVALID", "kind": "not_worse", "pair": "k9 against off", "metric": "ttft_p50", "at": 8},
        {"outcome": "PASS", "kind": "not_worse", "pair": pair, "metric": "ttft_p50", "at": 8},
    ]
    found = only(three.model_copy(update={"verdicts": tuple(verdicts)}))

    assert sorted(found.measured) == [8]
    assert {name for one in found.figures for name in one.values if one.at == 8} == {"decode_rate_p50", "ttft_p50"}


def test_servers_that_differ_in_more_are_not_compared(three: WindowRecord) -> None:
    """In a strict window nobody has allowed what else differs: the pair is INVALID, and its drafter is not told of."""

    def started(quirk: str) -> Callable[[BootRecord], BootRecord]:
        startup = StartUpRecord(config={"model_config.quirk": quirk}, lines={})
        return lambda one: one.model_copy(update={"startup": startup})

    other = changed(changed(changed(three, "off", started("a")), "k2", started("b")), "k4", started("b"))

    assert reasons(other) == []
    assert reasons(other.model_copy(update={"strict": True})) == ["engine-differences"]


def test_a_curve_needs_counters(three: WindowRecord, build: type[Build]) -> None:
    """Where they do not count steps, or make no curve, the arm is left out with the reason."""

    def without_steps(point: PointRecord) -> PointRecord:
        pages = {
            side: page.model_copy(
                update={"samples": tuple(one for one in page.samples if "inter_token" not in one.name)}
            )
            for side, page in (("before", point.before), ("after", point.after))
        }
        return point.model_copy(update=pages)

    found = window_horizons(with_points(three, "k4", without_steps), "record.json")

    assert [one.k for one in found.drafters[0].measured[1]] == [0, 2]
    assert {failure.reason for failure in found.left_out} == {"missing-counter"}
    assert {figures.k for figures in found.drafters[0].figures} == {0, 2, 4}


def test_a_curve_that_cannot_be_made_is_told(three: WindowRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong with its counts, the others are shown."""
    from pytest_specgate.core import horizon_records
    from pytest_specgate.core.errors import UsageError

    def refuse(_: object) -> None:
        raise UsageError("nothing was drafted")

    monkeypatch.setattr(horizon_records, "curve_of", refuse)
    found = window_horizons(three, "record.json")

    assert dict(found.drafters[0].measured) == {}
    assert [one.message for one in found.left_out] == [
        f"arm {name} at c={at}: nothing was drafted" for at in (1, 8) for name in ("k2", "k4")
    ]


def test_speculation_without_a_horizon_is_left_out(three: WindowRecord) -> None:
    """Its k is not known, so it is none of the horizons; an arm that never ran is not missed."""
    config = {"speculative_config": {"method": "ngram"}}
    nameless = Arm("nameless", model="folder", args={"max_model_len": 64, **config})
    never = Arm("k9", model="folder", args={"max_model_len": 64, "speculative_config": {"num_speculative_tokens": 9}})
    found = window_horizons(three.model_copy(update={"arms": (*three.arms, nameless, never)}), "record.json")

    assert [failure.reason for failure in found.left_out] == ["arm-not-as-declared"]
    assert [sorted(one.arms) for one in found.drafters] == [[0, 2, 4]]


def test_metrics_that_cannot_be_had_compare_nothing(build: type[Build]) -> None:
    """Four requests support no median, and too few drafts no acceptance: each of what is not told is said once."""
    few = window(build, [build.arm(), build.arm(2)], requests={1: 4, 8: 16})
    found = window_horizons(few, "record.json")

    assert [sorted(one.values) for one in found.drafters[0].figures if one.at == 1] == [["output_throughput"]] * 2
    assert [(one.reason, one.message.partition(": ")[0]) for one in found.left_out] == [
        ("missing-metric", "no decode_rate_p50 of off at c=1, k2 at c=1"),
        ("missing-metric", "no ttft_p50 of off at c=1, k2 at c=1"),
        ("missing-metric", "arm k2 at c=1"),
    ]
    assert found.left_out[-1].message.partition("c=1: ")[2] == (
        "no acceptance is told: there are 16 drafts, and 20 are needed in each boot: send more requests, or ask for "
        "more output tokens"
    )


def test_the_largest_floor_counts(three: WindowRecord, build: type[Build]) -> None:
    """Of a metric the largest one that a gate declares, or else the noisiest calibration; given ones replace them."""
    pair = build.pair(reference=None, candidate=2, rounds=2)
    stored = next(one for one in three.pairs if one.candidate == "k2")
    thresholds = (
        build.threshold(floor=0.02),
        build.threshold(floor=0.05, at=8),
        build.threshold(floor=0.03, kind="better", at=8, margin=0.2),
        build.threshold("ttft_p50", floor=None),
        LimitThreshold(metric="ttft_p50", at=1, kind="at_most", value=5.0),
    )
    gate = Gate("test_gate.py::test_gate", pair, thresholds)
    noise = tuple(
        ArmNoise(arm="off", at=1, metric=name, sd=sd, df=df, boots=4, builds=1, arm_sha256="0" * 64, measured_at="")
        for name, sd, df in (("ttft_p50", 0.02, 6.0), ("ttft_p50", 0.03, 4.0), ("output_throughput", 0.5, 3.0))
    )
    record = three.model_copy(update={"gates": (stored_gate(gate),), "noise": noise})
    given = {"ttft_p50": NoiseFloor(0.1, "a test")}

    assert stored.rounds == pair.rounds
    assert only(record).noise == {"ttft_p50": Noise(0.03, 4.0), "output_throughput": declared_noise(0.05)}
    sweep = ArmSweep(
        off=build.arm(), arms=(build.arm(2), build.arm(4)), profile=three.profile, rounds=2,
        noise={"output_throughput": NoiseFloor(0.07, "a test")},
    )  # fmt: skip
    swept = record.model_copy(update={"sweeps": (stored_sweep(sweep),)})
    assert only(swept).noise["output_throughput"] == declared_noise(0.07)
    (told,) = window_horizons(record, "record.json", floors=given).drafters
    assert told.noise["ttft_p50"] == declared_noise(0.1)


def test_what_was_decoded_goes_with_the_samples_of_a_curve(three: WindowRecord) -> None:
    """Two boots are two samples, and each has decoded all tokens but the first of each answer."""
    found = only(three).measured[1][1]

    assert found.curve is not None
    assert (found.curve.basis, found.decoded) == ("boots", (100, 100))
    assert found.tokens_per_step == pytest.approx(2.0)
