"""Every kind of threshold through pytest, once green and once red; and which part of a speed moved, by the truth."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.verdict import Verdict
from pytest_specgate.testing import FakeTruth

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.core.verdict import FactorVerdict
    from tests.integration.conftest import GateFolder, GateRun

pytestmark = pytest.mark.alone

_KINDS = """\
    LOAD = load(requests={1: 2, 8: 8})
    NARROW = noise_floor("20%", source="a made-up figure")
    SHARES = noise_floor("2pp", source="a made-up figure")
    OFF, SLOW = arm("off", step_s=0.01), arm("slow", step_s=0.03)
    TWIN = arm("twin", step_s=0.01, seed=1, altered_answers=1.0)
    # A draft token costs 2 ms: 18 ms a step at c=1, and 74 ms at c=8, for some three tokens.
    DEAR = arm("dear", k=4, step_s=0.01, step_s_per_draft_token=0.002)
    FREE, LESS = arm("free", k=4, step_s=0.01), arm("less", k=4, step_s=0.01, acceptance=[0.3])
    BOTH = ("args.fake", "args.speculative_config")

    def of(reference, candidate, varies="args.fake"):
        return pair(reference, candidate, varies=varies, profile=LOAD)

    EVEN, DOWN, UP, ACCEPTS = of(OFF, TWIN), of(OFF, SLOW), of(SLOW, OFF), of(FREE, LESS)
    FLIPS, WINS = of(OFF, DEAR, BOTH), of(OFF, FREE, "args.speculative_config")

    def rate(by): return better("output_throughput", at=1, by=by, noise=NARROW)
    def within(at): return equivalent("output_throughput", at=at, within="60%", noise=NARROW)
    def tpot(**more): return not_worse("tpot_pooled", at=1, margin="5%", noise=NARROW, **more)
    def share(margin): return not_worse("acceptance_rate", at=8, margin=margin, noise=SHARES)


    @gate(EVEN, within(1), within(8))
    def test_green_even(): pass

    @gate(DOWN, tpot(allowance="5s"), outputs_agree(at=1, at_least="100%"),
          at_most("tpot_pooled", at=1, limit="5s"), at_least("output_throughput", at=1, limit="1 tokens/s"),
          at_most("preemptions", at=8, limit="0"))
    def test_green_down(): pass

    @gate(UP, rate("50%"), not_worse("output_throughput", at=8, margin="5%", noise=NARROW))
    def test_green_up(): pass

    @gate(FLIPS, faster_only_up_to(1, noise=NARROW))
    def test_green_flips(): pass

    @gate(ACCEPTS, share("60pp"), at_least("acceptance_rate", at=8, limit="1%"))
    def test_green_accepts(): pass


    @gate(EVEN, outputs_agree(at=1, at_least="100%"), rate("400%"))
    def test_red_even(): pass

    @gate(DOWN, tpot(), within(8))
    def test_red_down(): pass

    # Apart: a limit that is exceeded in the first round ends its gate there.
    @gate(DOWN, at_most("tpot_pooled", at=8, limit="20ms"), at_least("output_throughput", at=1, limit="50 tokens/s"))
    def test_red_limits(): pass

    @gate(UP, within(8))
    def test_red_up(): pass

    @gate(WINS, faster_only_up_to(1, noise=NARROW))
    def test_red_wins(): pass

    @gate(ACCEPTS, share("10pp"))
    def test_red_accepts(): pass

    @gate(ACCEPTS, at_least("acceptance_rate", at=8, limit="60%"))
    def test_red_share(): pass
    """

GREEN = (
    "even[c1-output_throughput-equivalent]", "even[c8-output_throughput-equivalent]",
    "down[c1-tpot_pooled-not_worse]", "down[c1-outputs_agree]", "down[c1-tpot_pooled-at_most]",
    "down[c1-output_throughput-at_least]", "down[c8-preemptions-at_most]",
    "up[c1-output_throughput-better]", "up[c8-output_throughput-not_worse]",
    "flips[c1-output_throughput-faster_only_up_to]",
    "accepts[c8-acceptance_rate-not_worse]", "accepts[c8-acceptance_rate-at_least]",
)  # fmt: skip
RED = {
    "even[c1-outputs_agree]": "answers at c=1 equal (0 %)",
    "even[c1-output_throughput-better]": "asked for +400 %: the whole interval falls short of what was asked for",
    "down[c1-tpot_pooled-not_worse]": "margin +5 %: the whole interval lies beyond the margin",
    "down[c8-output_throughput-equivalent]": "within ±60 %: the whole interval lies outside",
    "limits[c8-tpot_pooled-at_most]": "at most 20 ms: 2 of 2 boots beyond it",
    "limits[c1-output_throughput-at_least]": "at least 50 tokens/s: 2 of 2 boots short of it",
    "up[c8-output_throughput-equivalent]": "within ±60 %: the whole interval lies outside",
    "wins[c1-output_throughput-faster_only_up_to]": "better up to c=8, claimed output throughput better up to c=1",
    "accepts[c8-acceptance_rate-not_worse]": "margin -10 points: the whole interval lies beyond the margin",
    "share[c8-acceptance_rate-at_least]": "at least 60 %: 2 of 2 boots short of it",
}


def _run(gates: GateFolder, colour: str) -> GateRun:
    gates.write("test_kinds.py", _KINDS)
    return gates.run("-k", colour)


@pytest.fixture(scope="module")
def green(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """What holds, of every kind."""
    return _run(new_gate_folder(), "green")


@pytest.fixture(scope="module")
def red(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """What does not hold, of every kind."""
    return _run(new_gate_folder(), "red")


def test_case_138_every_kind_can_be_green(green: GateRun) -> None:
    """Case 138: claims that hold are PASS, each of its kind, and pytest ends with exit status 0."""
    assert {name: case.outcome for name, case in green.cases.items()} == dict.fromkeys(
        (f"test_green_{name}" for name in GREEN), "PASS"
    )
    assert (green.exit_code, green.counts["passed"]) == (0, len(GREEN))
    assert f"\n{len(GREEN)} of {len(GREEN)} thresholds judged: {len(GREEN)} PASS\n" in green.summary


def test_case_138_every_kind_can_be_red(red: GateRun) -> None:
    """Case 138: claims that do not hold are FAIL, each of its kind, and pytest ends with exit status 1."""
    assert {name: case.outcome for name, case in red.cases.items()} == dict.fromkeys(
        (f"test_red_{name}" for name in RED), "FAIL"
    )
    assert (red.exit_code, red.counts["failed"]) == (1, len(RED))


@pytest.mark.parametrize("name", RED)
def test_a_failure_says_why(red: GateRun, name: str) -> None:
    """The first line of a failure is its sentence: what was claimed, and what was found instead."""
    failure = red.cases[f"test_red_{name}"].failure

    assert failure is not None
    assert RED[name] in failure.splitlines()[0]


def test_an_allowance_turns_a_loss_green(green: GateRun, red: GateRun) -> None:
    """The same slow arm with the same margin passes with an allowance of 5 s, and fails without one."""
    name = "down[c1-tpot_pooled-not_worse]"

    assert green.cases[f"test_green_{name}"].properties["specgate_claim"].endswith("not worse by more than 5 % or 5 s")
    assert red.cases[f"test_red_{name}"].properties["specgate_claim"].endswith("not worse by more than 5 %")


def test_junit_tells_of_every_level_of_a_curve(green: GateRun) -> None:
    """A curve has one property a level, and neither a change nor a reference of its own."""
    properties = green.cases["test_green_flips[c1-output_throughput-faster_only_up_to]"].properties

    assert (properties["specgate_c1"], properties["specgate_c8"]) == ("better", "worse")
    assert "specgate_change" not in properties


def test_case_101_a_curve_in_the_report(red: GateRun) -> None:
    """Case 101: a curve that is refuted shows every level with its change and its interval."""
    failure = red.cases["test_red_wins[c1-output_throughput-faster_only_up_to]"].failure or ""

    for at in (1, 8):
        line = next(line.strip() for line in failure.splitlines() if line.strip().startswith(f"c={at}: "))
        assert line.startswith(f"c={at}: better +")
        assert line.endswith(": shown better")


def test_limits_show_their_boots(red: GateRun) -> None:
    """A limit lists the candidate's value in every boot, in the unit of the gate file."""
    failure = red.cases["test_red_limits[c8-tpot_pooled-at_most]"].failure or ""
    line = next(line for line in failure.splitlines() if "by boot of slow: " in line)

    assert line.count(" ms") == 2


_FACTORS = """\
    import pathlib

    LOAD = load(requests={1: 2}, output_tokens=16)

    def spec(name, **fake):
        folder = str(pathlib.Path.cwd() / "truth" / name)
        return arm(name, k=4, truth_folder=folder, **{"step_s": 0.06, "acceptance": [0.8], **fake})

    BASE, SLOWER, HALVED = spec("base"), spec("slower", step_s=0.0636), spec("halved", acceptance=[0.4])
    CLAIM = not_worse("tpot_pooled", at=1, margin="1%")

    @gate(pair(BASE, SLOWER, profile=LOAD, rounds=3), CLAIM)
    def test_slower(): pass

    @gate(pair(BASE, HALVED, profile=LOAD, rounds=3), CLAIM)
    def test_halved(): pass
    """


@pytest.fixture(scope="module")
def factored(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Three arms that speculate: a usual one, one with steps 6 % longer, one with half of the acceptance."""
    gates = new_gate_folder()
    gates.write("test_factors.py", _FACTORS)
    return gates.run()


def _factors(run: GateRun, test: str) -> tuple[FactorVerdict, FactorVerdict, float]:
    """Return tokens per step, steps per second, and the residual of a test's verdict."""
    [stored] = [one for one in run.record.verdicts if str(one["gate"]).endswith(test)]
    verdict = Verdict.model_validate_json(json.dumps(stored))
    tokens, steps = verdict.factors
    assert verdict.residual is not None
    return tokens, steps, verdict.residual


def _truth(run: GateRun, arm: str) -> tuple[float, float]:
    """Return tokens per step and steps per second of the measured requests, as the servers of an arm know them."""
    measured = {
        request.body_sha256 for boot in run.record.boots_of(arm) for point in boot.points for request in point.requests
    }
    logs: list[float] = []
    for path in (run.folder / "truth" / arm).iterdir():
        truth = FakeTruth.model_validate_json(path.read_text(encoding="utf-8"))
        mine = [request for request in truth.requests if request.body_sha256 in measured]
        steps = sum(one.decode_steps for one in mine)
        seconds = math.fsum(one.event_times_s[-1] - one.event_times_s[0] for one in mine)
        logs += [math.log(sum(one.output_tokens - 1 for one in mine) / steps), math.log(steps / seconds)]
    tokens, speeds = logs[::2], logs[1::2]
    return math.exp(math.fsum(tokens) / len(tokens)), math.exp(math.fsum(speeds) / len(speeds))


@pytest.mark.parametrize("name", ["slower", "halved"])
def test_factors_are_those_that_the_servers_know(factored: GateRun, name: str) -> None:
    """Tokens per step exactly, and steps per second by the times at which the server wrote its events."""
    tokens, steps, residual = _factors(factored, f"test_{name}")
    reference, candidate = (_truth(factored, arm) for arm in ("base", name))

    assert (tokens.reference, tokens.candidate) == pytest.approx((reference[0], candidate[0]), rel=1e-6)
    assert (steps.reference, steps.candidate) == pytest.approx((reference[1], candidate[1]), rel=0.02)
    assert residual == pytest.approx(0.0, abs=0.03)


def test_steps_that_are_longer_are_told_as_that(factored: GateRun) -> None:
    """Steps 6 % longer with the same acceptance: tokens per step as they were, a step time that is longer."""
    tokens, steps, _ = _factors(factored, "test_slower")
    failure = factored.cases["test_slower[c1-tpot_pooled-not_worse]"].failure or ""

    assert not tokens.moved
    assert tokens.change == pytest.approx(0.0, abs=1e-9)
    # The machine is shared with other tests: a step of 60 ms may take some more.
    assert 1 / (1 + steps.change) - 1 == pytest.approx(0.06, abs=0.05)
    assert "speed: tokens per step no change shown (" in failure
    assert ", step time " in failure


def test_acceptance_that_fell_is_told_as_that(factored: GateRun) -> None:
    """Half of the acceptance with the same steps: tokens per step moved, the step time stays."""
    tokens, steps, _ = _factors(factored, "test_halved")
    case = factored.cases["test_halved[c1-tpot_pooled-not_worse]"]

    assert tokens.moved
    assert tokens.change < -0.3
    assert steps.change == pytest.approx(0.0, abs=0.05)
    assert case.outcome == "FAIL"
    assert f"speed: tokens per step {100 * tokens.change:+.1f} % (" in (case.failure or "")


def test_arms_that_are_no_neighbours_say_so(factored: GateRun) -> None:
    """Of three arms the outer two are a pair with another arm between them, in every round; the inner one is not."""
    apart = "another arm ran between the two of this pair in rounds 1, 2, 3, so a drift weighs more"
    near, far = (factored.cases[f"test_{name}[c1-tpot_pooled-not_worse]"] for name in ("slower", "halved"))

    assert [boot.arm for boot in factored.record.boots[:6]] == [
        "base", "slower", "halved", "halved", "slower", "base",
    ]  # fmt: skip
    assert f"note: {apart}" in (far.failure or "")
    assert "another arm ran between" not in (near.failure or "")
