"""What a gate file claims of a horizon, and what the advice beside it has shown: one rule for both."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.advice import OBJECTIVES
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.floors import NoiseFloor
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.knee import knee_of
from pytest_specgate.core.pinning import met_off
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.statistics import raw_change
from pytest_specgate.names import GATE_MARK
from pytest_specgate.reporting.snippet import gate_snippet
from pytest_specgate.reporting.window_knee import measured_window
from tests.reporting.conftest import Window, pair, request
from tests.reporting.page_runs import PATH, three_arms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specgate.core.advice import Advice
    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.records import WindowRecord


def _scattered(*pairs: ArmPair, gains: Mapping[str, tuple[float, float]]) -> WindowRecord:
    """Return a window of two rounds, in each of which arms are faster than off by known log ratios."""
    window = Window.of(*pairs, speeds={}, rounds=2)
    boots = []
    for boot in window.record.boots:
        speed = math.exp(gains.get(boot.arm, (0.0, 0.0))[boot.round - 1])
        points = (
            point.model_copy(update={"requests": tuple(request(one.index, speed=speed) for one in point.requests)})
            for point in boot.points
        )
        boots.append(boot.model_copy(update={"points": tuple(points)}))
    return window.record.model_copy(update={"boots": tuple(boots)})


def _advice_on(record: WindowRecord, floors: Mapping[str, NoiseFloor] | None = None) -> list[Advice]:
    """Return what a report of the record advises."""
    (found,) = knee_of([measured_window(record, PATH, floors=floors)]).advice.values()
    return [one.advice for one in found]


def test_a_file_says_better_where_the_advice_does() -> None:
    """All comparisons of the advice share one level: 95 % for one pair alone would show what the advice does not."""
    gains = {"k4": (0.49, 0.54), "k7": (0.40, 0.61)}
    alone = _scattered(pair(), gains=gains)
    three = _scattered(pair(), pair(4, 7), gains=gains)
    texts = [gate_snippet(one, told, k=4, path=PATH) for one, told in (
        (alone, _advice_on(alone)), (three, _advice_on(three)), (three, ()),
    )]  # fmt: skip

    assert '"""k=4 was measured better than off in decode rate p50, output throughput and TTFT p50."""' in texts[0]
    for text in texts[1:]:
        assert '"""k=4 was measured better than off in nothing by more than the noise."""' in text
        assert "# measured: better +67.4 %, no change shown; nothing tells its noise, so the margin is a guess" in text
        assert "    better(" not in text


def _barely_calibrated() -> tuple[ArmNoise, ...]:
    """Return calibrations of two boots of each arm: 2 degrees of freedom for a pair, too few for a look at 2 rounds."""
    return tuple(
        ArmNoise(
            arm=arm, at=at, metric=name, sd=0.02, df=1.0, boots=2, builds=1, arm_sha256=arm,
            measured_at="2026-11-02T09:00:00+00:00",
        )
        for arm in ("off", "k4") for at in (1, 8) for name in OBJECTIVES.values()
    )  # fmt: skip


def _gate_of(text: str) -> Gate:
    """Return the gate that a file declares."""
    names: dict[str, Any] = {"__name__": "test_pinned"}
    exec(compile(text, "test_pinned.py", "exec"), names)
    (mark,) = (one for one in names["test_k4_against_off"].pytestmark if one.name == GATE_MARK)
    return Gate("pinned", mark.args[0], mark.args[1:])


@pytest.mark.parametrize(("gain", "kind"), [(0.0, "not_worse"), (0.5, "better")])
def test_noise_that_is_barely_known_makes_a_gate_that_can_be_decided(gain: float, kind: str) -> None:
    """After two rounds nobody would look, so the gate has more, and margins that these can decide."""
    noises = _barely_calibrated()
    record = _scattered(pair(), gains={"k4": (gain, gain)}).model_copy(update={"noise": noises})
    gate = _gate_of(gate_snippet(record, _advice_on(record), k=4, path=PATH))

    gate.check()
    gate.check_decidable(noises)
    assert {one.kind for one in gate.intervals} == {kind}
    assert [*gate.too_fine(noises)] == []
    assert gate.pair.rounds == 4


def test_rounds_that_decide_nothing_have_the_guessed_margin() -> None:
    """No margin of 0, which no gate file may have, where the rounds of a gate are too few for their noise."""
    record = _scattered(pair(), gains={}).model_copy(update={"noise": _barely_calibrated()})
    claims = dataclasses.replace(met_off(record, k=4, path=PATH), rounds=2).claims()

    assert {one.fraction for one in claims} == {0.1}


@pytest.mark.parametrize("apart", [0.001, 0.02, 0.03, 0.1, 0.5])
def test_no_file_contradicts_its_advice(apart: float) -> None:
    """Whatever the scatter: a horizon is called better, and held to a gain, only where the advice decided that."""
    gains = {"k4": (0.5 - apart, 0.5 + apart), "k7": (-0.3 - 2 * apart, -0.3 + apart)}
    record = _scattered(pair(), pair(4, 7), gains=gains)
    told = _advice_on(record)
    decided = {
        duel.metric: duel.is_decided for one in told for duel in one.duels if {duel.first, duel.second} == {0, 4}
    }
    claims = met_off(record, k=4, path=PATH, told=told).claims()

    assert {one.metric: one.won for one in claims} == decided
    assert all(decided[one.metric] for one in claims if one.kind == "better")
    assert len(claims) == 3


def test_no_more_is_claimed_than_was_shown() -> None:
    """Half of a mean may be more than its interval holds: then the claim ends where the interval does."""
    floors = dict.fromkeys(OBJECTIVES.values(), NoiseFloor(0.01, "six quiet windows"))
    record = _scattered(pair(), gains={"k4": (0.33, 0.37)})
    told = _advice_on(record, floors)
    claims = met_off(record, k=4, path=PATH, told=told, floors=floors).claims()

    for claim, advice in zip(claims, told, strict=True):
        (duel,) = advice.duels
        assert duel.gain is not None
        mean, shown = (
            abs(raw_change(log, higher_is_better=claim.metric != "ttft_p50")) for log in (duel.gain.mean, duel.gain.low)
        )
        assert claim.kind == "better"
        assert shown - 0.01 < claim.fraction <= shown < mean / 2


def test_who_is_ruled_out_elsewhere_is_pinned_with_that_said() -> None:
    """What pays for one user may cost throughput: the head of the file names who beats the horizon, and where."""
    record = three_arms().record
    text = gate_snippet(record, _advice_on(record), k=7, path=PATH)

    assert "\n# the pinned k=7 is ruled out for batch throughput at c=32 by off and k=4" in text
    assert "is ruled out" not in gate_snippet(record, _advice_on(record)[:1], k=7, path=PATH)


def test_a_large_loss_that_was_not_shown_is_claimed_by_nobody() -> None:
    """Rounds that scatter show nothing, and yet a margin around such a loss would stop none."""
    record = _scattered(pair(), gains={"k4": (-0.3, -0.1)})

    with pytest.raises(UsageError, match=r"decode rate p50 at c=1 worse -18.1 %, no change shown, but too large"):
        gate_snippet(record, _advice_on(record), k=4, path=PATH)
