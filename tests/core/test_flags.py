"""What stands beside a verdict and changes nothing: boot modes, company between two boots, gains that look too good."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.arms import ArmPair, boot_order
from pytest_specgate.core.flags import MODE_SDS, RANDOM_TOKENS, flags
from pytest_specgate.core.judge import judge
from pytest_specgate.core.known import Known
from pytest_specgate.core.noise import UNKNOWN_NOISE, Noise
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.rounds import Rounds, Side
from pytest_specgate.core.statistics import Look
from pytest_specgate.core.thresholds import NoiseFloor, Threshold
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.core.conftest import Build

FLOOR = NoiseFloor(0.01, "A/A windows of a test")
THROUGHPUT = Threshold("output_throughput", 1, "not_worse", 0.05)
SHARE = Threshold("acceptance_rate", 1, "not_worse", 0.05, points=True)
QUIET = Look("PASS", "", 0.0, sd=0.001, source="pooled")


def _rounds(reference: Sequence[float], candidate: Sequence[float], *, distances: Sequence[int] = ()) -> Rounds:
    """Return rounds of these values."""
    left, right = (Side(values=list(values), samples=[10] * len(values)) for values in (reference, candidate))
    first = [i % 2 == 1 for i in range(len(reference))]
    return Rounds(left, right, candidate_first=first, distances=list(distances) or [1] * len(reference))


def _told(  # noqa: PLR0913  - everything that a flag may look at
    build: type[Build],
    rounds: Rounds,
    *,
    threshold: Threshold = THROUGHPUT,
    look: Look = QUIET,
    noise: Noise = UNKNOWN_NOISE,
    pair: ArmPair | None = None,
) -> list[str]:
    known = Known(noise, "calibrated", calibrated=True)
    return list(flags(threshold, pair or build.pair(), look=look, rounds=rounds, known=known))


def test_quiet_rounds_have_no_flags(build: type[Build]) -> None:
    """Neighbours that scatter by little give nothing to say."""
    assert _told(build, _rounds([100, 101, 100, 99], [100, 100, 101, 100])) == []


@pytest.mark.parametrize(("slow", "flagged"), [(0.971, False), (0.970, True)])
def test_boot_modes_begin_at_three_percent(build: type[Build], slow: float, *, flagged: bool) -> None:
    """However quiet a machine is, boots within 3 % of each other are of one mode."""
    told = _told(build, _rounds([100.0] * 4, [100.0, 100.0 * slow, 100.0, 100.0]))

    assert (told != []) == flagged
    if flagged:
        assert told == [
            "two boot modes of k4: boots of rounds 2 lie apart from those of rounds 1, 3, 4; none is left out"
        ]


@pytest.mark.parametrize(("gap", "flagged"), [(0.0799, False), (0.0801, True)])
@pytest.mark.parametrize("known", [True, False])
def test_boot_modes_of_a_noisy_machine(build: type[Build], gap: float, *, flagged: bool, known: bool) -> None:
    """Where a round scatters by 2 % a gap has to be four times that: of what is known, else of what was seen."""
    rounds = _rounds([100.0] * 2, [100.0, 100.0 * math.exp(gap)])
    noise, sd = (Noise(0.02, 10.0), 0.5) if known else (UNKNOWN_NOISE, 0.02)

    told = _told(build, rounds, noise=noise, look=Look("PASS", "", 0.0, sd=sd, source="pooled"))

    assert MODE_SDS == 4
    assert (told != []) == flagged


@pytest.mark.parametrize(
    ("values", "lower", "higher"),
    [
        ([80, 100, 100, 101], "1", "2, 3, 4"),
        ([100, 80, 99, 81, 100, 80], "2, 4, 6", "1, 3, 5"),
        ([100, 120], "1", "2"),
        # Two gaps: the larger one parts the modes.
        ([100, 90, 60], "3", "1, 2"),
        ([100, 66, 60], "2, 3", "1"),
    ],
)
def test_rounds_of_both_modes_are_listed(build: type[Build], values: list[float], lower: str, *, higher: str) -> None:
    """Each boot is in one of the two lists, parted at the largest gap."""
    told = _told(build, _rounds([100.0] * len(values), values))

    assert told == [
        f"two boot modes of k4: boots of rounds {lower} lie apart from those of rounds {higher}; none is left out"
    ]


def test_each_arm_has_modes_of_its_own(build: type[Build]) -> None:
    """Arms are looked at one by one: 100 against 50 is a difference of arms, and no mode of either."""
    both = _told(build, _rounds([100, 80], [50, 40]))
    neither = _told(build, _rounds([100, 100], [50, 50]))

    assert [text.partition(":")[0] for text in both] == ["two boot modes of off", "two boot modes of k4"]
    assert neither == []


def test_a_share_in_points_has_modes_in_points(build: type[Build]) -> None:
    """Gaps of a share are plain differences, held against four of its standard deviations and not against 3 %."""
    look = Look("PASS", "", 0.0, sd=0.005, source="pooled")

    close, apart = (
        _told(build, _rounds([0.40, 0.40], [0.40, 0.40 + gap]), threshold=SHARE, look=look) for gap in (0.019, 0.021)
    )

    assert close == []
    assert [text.partition(":")[0] for text in apart] == ["two boot modes of k4"]


def test_slow_boots_stay_in_the_verdict(build: type[Build]) -> None:
    """A slow boot is flagged, and judged with all others: it is in the mean, and the calibration is dropped for it."""
    pair = build.pair()
    noise = tuple(
        ArmNoise(
            arm=arm,
            at=1,
            metric="output_throughput",
            sd=0.002,
            df=5.0,
            boots=6,
            builds=1,
            arm_sha256=arm,
            measured_at="2026-11-02",
        )
        for arm in ("off", "k4")
    )
    record = build.window(pair, [1.0] * 4, [0.8, 1.001, 0.998, 1.0]).model_copy(update={"noise": noise})

    [verdict] = judge(build.gate(pair, Threshold("output_throughput", 1, "not_worse", 0.02)), record)

    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "futile")
    assert verdict.change == pytest.approx((0.8 * 1.001 * 0.998) ** 0.25 - 1)
    assert verdict.noise.startswith("own (calibration rejected)")
    assert "two boot modes of k4: boots of rounds 1 lie apart from those of rounds 2, 3, 4; none is left out" in (
        verdict.flags
    )


@pytest.mark.parametrize(
    ("distances", "rounds"), [([1, 1, 1, 1], None), ([2, 2, 2, 2], "1, 2, 3, 4"), ([1, 3, 1, 2], "2, 4")]
)
def test_arms_that_are_no_neighbours(build: type[Build], distances: list[int], rounds: str | None) -> None:
    """Rounds in which another arm ran between the two of a pair are named."""
    told = _told(build, _rounds([100] * 4, [100] * 4, distances=distances))

    assert told == (
        []
        if rounds is None
        else [f"another arm ran between the two of this pair in rounds {rounds}, so a drift weighs more"]
    )


def test_the_outer_arms_of_three_are_no_neighbours(build: type[Build]) -> None:
    """Off, k4, k7: k4 is beside both others, and k7 is not beside off."""
    off, k4, k7 = build.arm(), build.arm(4), build.arm(7)
    pairs = [
        ArmPair(reference=off, candidate=one, varies="args.speculative_config", profile=build.profile(), rounds=2)
        for one in (k4, k7)
    ]
    titles = {"off": [pair.title for pair in pairs], "k4": [pairs[0].title], "k7": [pairs[1].title]}
    boots = [
        build.boot(arm, build.profile(), number=number).model_copy(
            update={"position": place, "pairs": tuple(titles[arm.name])}
        )
        for number in (1, 2)
        for place, arm in enumerate(boot_order((off, k4, k7), number))
    ]
    record = build.window(pairs[0], [1.0], [1.0]).model_copy(update={"boots": tuple(boots), "arms": (off, k4, k7)})
    claim = Threshold("output_throughput", 1, "not_worse", 0.05, FLOOR)

    near, far = (judge(build.gate(pair, claim), record)[0].flags for pair in pairs)

    assert near == ()
    assert far == ("another arm ran between the two of this pair in rounds 1, 2, so a drift weighs more",)


@pytest.mark.parametrize(("calibrated", "what", "cure"), [
    (True, "calibration", "calibrate anew"), (False, "declared floor", "declare a larger floor"),
])  # fmt: skip
def test_rounds_that_contradict_what_was_known(build: type[Build], *, calibrated: bool, what: str, cure: str) -> None:
    """Both standard deviations are named, and what to do about it."""
    look = Look("PASS", "", 0.0, sd=0.021, source="own (calibration rejected), order effect +0.99 % per boot removed")
    known = Known(Noise(0.004, 5.0), "a source", calibrated=calibrated)

    told = list(flags(THROUGHPUT, build.pair(), look=look, rounds=_rounds([100], [100]), known=known))

    text = (
        f"rounds scatter more (sd 2.1 %) than the {what} allows (0.4 %), so the interval rests on them alone: look for "
        f"other load on the machine, measure more rounds, or {cure}"
    )
    assert told == [text]


@pytest.mark.parametrize("source", ["pooled", "own > calibrated", "own (no calibration)", "calibrated"])
def test_other_sources_of_noise_are_no_flag(build: type[Build], source: str) -> None:
    """Only a calibration that the rounds contradict is worth a sentence."""
    look = Look("PASS", "", 0.0, sd=0.02, source=source)

    assert _told(build, _rounds([100] * 2, [100] * 2), look=look, noise=Noise(0.01, 5.0)) == []


def test_flags_of_the_look_are_kept(build: type[Build]) -> None:
    """What the rule itself has to say comes first."""
    look = Look(
        "PASS", "", 0.0, sd=0.02, source="pooled", flags=("order effect too large to remove: +2.98 % per boot",)
    )

    assert _told(build, _rounds([100], [100]), look=look) == list(look.flags)


@pytest.mark.parametrize(
    ("kind", "gain", "flagged"),
    [("not_worse", 1.101, True), ("not_worse", 1.099, False), ("better", 1.5, False), ("equivalent", 1.5, False)],
)
def test_case_91_gains_that_nobody_claimed(build: type[Build], kind: str, gain: float, *, flagged: bool) -> None:
    """Case 91: more than 10 % better on a claim of 'not worse' is no plain pass; a gain that was asked for is."""
    threshold = Threshold("output_throughput", 1, kind, 0.05)  # type: ignore[arg-type]  # a parameter of the test
    look = Look("PASS", "", math.log(gain), sd=0.02, source="pooled")

    told = _told(build, _rounds([100], [100]), threshold=threshold, look=look)

    assert told == (
        ["more than 10 % better on a claim of 'not worse': check that both arms did the same work"] if flagged else []
    )


def test_points_are_no_gain_in_percent(build: type[Build]) -> None:
    """An acceptance rate that is 11 points higher is no sign of work that was left out."""
    look = Look("PASS", "", 0.11, sd=0.02, source="pooled")

    assert _told(build, _rounds([0.4], [0.51]), threshold=SHARE, look=look) == []


def test_random_tokens_are_told(build: type[Build]) -> None:
    """Acceptance of random tokens means nothing, and every interval of such a load says so first."""
    told = _told(build, _rounds([100, 80], [100, 100]), pair=build.pair(prompts="random"))

    assert told[0] == RANDOM_TOKENS
    assert len(told) == 2


def test_nothing_is_known_of_one_round(build: type[Build]) -> None:
    """Between two looks there is no standard deviation, and no mode can be told."""
    look = Look("CONTINUE", "next look at 4 rounds", 0.0)

    assert _told(build, _rounds([100] * 3, [100, 50, 100]), look=look) == []


@pytest.mark.parametrize("outcome", [Outcome.PASS, Outcome.FAIL])
def test_flags_change_no_outcome(build: type[Build], outcome: Outcome) -> None:
    """A verdict with a flag has the outcome that its interval has."""
    pair = build.pair()
    speed = 2.0 if outcome == Outcome.PASS else 0.5
    threshold = Threshold("output_throughput", 1, "not_worse", 0.05, FLOOR)

    [verdict] = judge(build.gate(pair, threshold), build.window(pair, [1.0, 1.04], [speed, speed * 1.04]))

    assert verdict.outcome == outcome
    assert len([flag for flag in verdict.flags if flag.startswith("two boot modes")]) == 2
