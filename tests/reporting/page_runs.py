"""Runs of every kind that a page must be able to show, made of windows whose figures are known."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.api import at_most, better, equivalent, faster_only_up_to, not_worse, outputs_agree
from pytest_specgate.core.arms import Arm, ArmPair
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.judge import judge
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.records import StartUpRecord
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.thresholds import NoiseFloor
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.reporting.messages import failure_text
from pytest_specgate.reporting.session_report import (
    Broken,
    ReportedVerdict,
    ReportedWindow,
    SessionReport,
    Unjudged,
    Unmeasured,
)
from tests.reporting.conftest import TOKENS, Window, arm, pair, request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import BootRecord, WindowRecord
    from pytest_specgate.core.thresholds import AnyThreshold
    from pytest_specgate.core.verdict import Verdict

HOSTILE: Final = (
    "</script></svg><img src=x onerror=alert(1)> \"quoted\" 'single' & \x1b[31mred\x07 \u202eevil\u200f {{ 7*7 }}"
)
"""What somebody may write where a page shows a text, with everything that has a meaning to a browser or a terminal."""

PATH: Final = "specgate-results/one/record.json"
FLOOR: Final = NoiseFloor(0.02, "eight A/A windows")


def load(requests: Mapping[Level, int]) -> RequestProfile:
    """Return a profile with some load levels."""
    return RequestProfile(input_tokens=16, output_tokens=TOKENS, requests=dict(requests))


def paced(window: Window, speeds: Mapping[str, Mapping[Level, float]], *, jitter: float = 0.0) -> Window:
    """Return a window whose arms ran at a speed of their own at each load level; rounds differ by a jitter."""

    def edit(boot: BootRecord) -> BootRecord:
        turn = 1 + jitter * math.sin(2.4 * boot.round + boot.position)
        points = []
        for point in boot.points:
            speed = turn * speeds.get(boot.arm, {}).get(point.at, 1.0)
            requests = tuple(request(one.index, speed=speed) for one in point.requests)
            points.append(point.model_copy(update={"requests": requests}))
        begun = 60 * (len(window.record.arms) * (boot.round - 1) + boot.position)
        times = {
            f"{name}_at": f"2026-11-29T12:{second // 60:02}:{second % 60:02}+00:00"
            for name, second in (("started", begun), ("ended", begun + 55))
        }
        return boot.model_copy(update={"points": tuple(points), **times})

    record = window.record.model_copy(update={"boots": tuple(map(edit, window.record.boots))})
    return dataclasses.replace(window, record=record)


def gated(window: Window, *thresholds: AnyThreshold, place: int = 0, name: str = "") -> Window:
    """Return a window with one more gate on one of its pairs."""
    gate = Gate(name or f"benchmarks/test_gate.py::test_{len(window.gates)}", window.pairs[place], thresholds)
    return dataclasses.replace(window, gates=(*window.gates, gate))


def reported(
    window: Window,
    *,
    path: str = PATH,
    edit: Callable[[Verdict], Verdict] = lambda one: one,
) -> ReportedWindow:
    """Return a window as a session reports it."""
    verdicts = []
    for gate in window.gates:
        for verdict in map(edit, judge(gate, window.record)):
            node = f"{gate.id}[{verdict.threshold}]"
            text = "" if verdict.accepted else failure_text(
                verdict, gate=gate, record=window.record, record_path=path, again=f"pytest '{node}' --specgate-rounds=4"
            )  # fmt: skip
            verdicts.append(ReportedVerdict(verdict, node, text=text))
    return ReportedWindow(window.record, path, window.pairs, window.gates, tuple(verdicts))


def session(*windows: ReportedWindow, **others: Any) -> SessionReport:
    """Return a run of some windows, all of whose thresholds were collected, and one for each that was not judged."""
    count = sum(len(gate.thresholds) for window in windows for gate in window.gates)
    count += len(others.get("unjudged", ())) + len(others.get("unmeasured", ()))
    return SessionReport(windows, thresholds=count, **others)


LEVELS: Final[dict[Level, int]] = {1: 10, 8: 16, 32: 64}


def three_arms(rounds: int = 3) -> Window:
    """Return a window in which speculation pays for one user and costs throughput under load, the more with k=7."""
    profile = load(LEVELS)
    window = Window.of(
        pair(rounds=rounds, profile=profile), pair(4, 7, rounds=rounds, profile=profile), speeds={}, rounds=rounds
    )
    speeds: dict[str, dict[Level, float]] = {
        "off": {1: 1.0, 8: 0.7, 32: 0.4},
        "k4": {1: 1.9, 8: 0.8, 32: 0.395},
        "k7": {1: 2.0, 8: 0.7, 32: 0.3},
    }
    return paced(window, speeds, jitter=0.004)


def passing() -> SessionReport:
    """Return a run that passed, with a claim of each kind."""
    window = gated(
        three_arms(),
        better("decode_rate_p50", at=1, by="50%", noise=FLOOR),
        not_worse("output_throughput", at=32, margin="6%", noise=FLOOR),
        equivalent("ttft_p50", at=32, within="8%", noise=FLOOR),
        at_most("ttft_p50", at=8, limit="200ms"),
        outputs_agree(at=8, at_least="90%"),
    )
    return session(reported(window))


def failing() -> SessionReport:
    """Return a run with verdicts of every outcome, one of them expected."""
    window = gated(
        three_arms(),
        not_worse("output_throughput", at=8, margin="4%", noise=FLOOR),
        faster_only_up_to(8, noise=FLOOR),
    )
    window = gated(
        window,
        not_worse("output_throughput", at=8, margin="4%", noise=FLOOR),
        not_worse("ttft_p50", at=32, margin="4%", noise=FLOOR),
        better("output_throughput", at=1, by="5%", noise=FLOOR),
        at_most("ttft_p50", at=32, limit="200ms"),
        place=1,
    )

    def edit(verdict: Verdict) -> Verdict:
        if verdict.metric == "ttft_p50" and verdict.kind == "not_worse":
            verdict.expect(Outcome.FAIL)
        return verdict

    left = Unjudged(
        window.gates[0],
        window.gates[0].thresholds[0],
        "benchmarks/test_gate.py::test_2",
        "the window did not run to its end",
    )
    return session(
        reported(window, edit=edit),
        unmeasured=(Unmeasured(("new against old",), ("test_b.py::test_x",), "its lock is held by somebody else"),),
        unjudged=(left,),
        broken=(Broken("benchmarks/test_gate.py::test_3", "AssertionError: assert 1 == 2"),),
        shortage="1 of at least 2 gates was judged",
        exit_status=1,
    )


def crowded() -> SessionReport:
    """Return a run of eight arms with long names and eight load levels, two of them arrival rates."""
    requests: dict[Level, int] = {1: 10, 2: 10, 4: 10, 8: 16, 16: 32, 64: 64, "4/s": 12, "16/s": 20}
    profile = load(requests)
    off = Arm("speculation-off-with-a-rather-long-name", model="folder", args={"max_model_len": 64})
    pairs = []
    for k in range(3, 10):
        name = "candidate-with-a-name-of-forty-characters"[:38] + f"-{k}"
        candidate = off.vary(name, args={"speculative_config": {"method": "ngram", "num_speculative_tokens": k}})
        pairs.append(
            ArmPair(reference=off, candidate=candidate, varies="args.speculative_config", profile=profile, rounds=2)
        )
    window = Window.of(*pairs, speeds={}, rounds=2)
    speeds = {
        one.candidate.name: {at: 1 + place * (0.12 - 0.03 * step) for step, at in enumerate(requests)}
        for place, one in enumerate(pairs)
    }
    window = paced(window, speeds, jitter=0.01)
    for place in range(len(pairs)):
        window = gated(
            window,
            not_worse("output_throughput", at=64, margin="9%", noise=FLOOR),
            not_worse("ttft_p50", at="16/s", margin="50%", noise=FLOOR),
            place=place,
        )
    return session(reported(window))


def smallest() -> SessionReport:
    """Return a run of two arms without speculation, at one load level, in one round whose noise nobody knows."""
    profile = load({8: 16})
    old = Arm("old", model="folder", args={"max_model_len": 64})
    one = ArmPair(
        reference=old,
        candidate=old.vary("new", args={"max_model_len": 128}),
        varies="args.max_model_len",
        profile=profile,
        rounds=1,
    )
    window = paced(Window.of(one, speeds={}, rounds=1), {"new": {8: 1.03}})
    return session(reported(gated(window, not_worse("output_throughput", at=8, margin="4%"))))


def invalid() -> SessionReport:
    """Return a run in which nothing may be judged: a request profile that differs, and a server that died."""
    window = gated(three_arms(2), not_worse("output_throughput", at=8, margin="4%", noise=FLOOR))
    window = gated(window, not_worse("output_throughput", at=8, margin="4%", noise=FLOOR), place=1)
    return session(reported(window.with_field("off", 2, temperature=0.7, seed=None).with_death("k7", 2, measured=1)))


def part_invalid() -> SessionReport:
    """Return a run with one point whose requests failed: the others are shown, and this one is nowhere."""
    window = gated(
        three_arms(2),
        not_worse("output_throughput", at=8, margin="4%", noise=FLOOR),
        not_worse("output_throughput", at=32, margin="6%", noise=FLOOR),
    )
    window = window.with_requests("k4", 2, at=8, error="HTTP 500", status=500)
    return session(reported(window))


def hostile() -> SessionReport:
    """Return a run whose users and servers wrote what they liked."""
    floor = NoiseFloor(0.02, HOSTILE)
    window = gated(
        three_arms(2),
        not_worse("output_throughput", at=8, margin="40%", noise=floor),
        name=f"tests/test_{HOSTILE}.py::test_x",
    )
    window = gated(window, not_worse("output_throughput", at=8, margin="4%", noise=floor), place=1)
    startup = StartUpRecord(config={"model_config.quirk": HOSTILE}, lines={f"WARNING [x.py] {HOSTILE}": 1})
    other = StartUpRecord(config={"model_config.quirk": "plain"}, lines={})
    boots = [
        one.model_copy(update={"command": f"serve {HOSTILE}", "startup": startup if one.arm == "off" else other})
        for one in window.record.boots
    ]
    log = (
        f"{HOSTILE}\nrecord: {PATH} (judge it again, anywhere: specgate judge x)\nrun again: pytest --evil\n{'x' * 400}"
    )
    failure = Failure(reason="server-died", message=f"arm k7: {HOSTILE}", detail=log)
    boots = [one.model_copy(update={"failure": failure, "points": ()}) if one.arm == "k7" else one for one in boots]
    host = {"cpus": 2, "cpu_model": HOSTILE}
    engine = {name: {"command": f"engine {HOSTILE}"} for name in ("off", "k4", "k7")}
    record: WindowRecord = window.record.model_copy(
        update={"boots": tuple(boots), "host": host, "engine": engine, "commit": HOSTILE}
    )
    window = dataclasses.replace(window, record=record)
    return session(
        reported(window),
        unmeasured=(Unmeasured((HOSTILE,), (HOSTILE,), HOSTILE),),
        broken=(Broken(HOSTILE, HOSTILE),),
        shortage=HOSTILE,
    )


def nothing() -> SessionReport:
    """Return a run without any gate."""
    return SessionReport(())


RUNS: Final[dict[str, Callable[[], SessionReport]]] = {
    one.__name__: one for one in (passing, failing, crowded, smallest, invalid, part_invalid, hostile, nothing)
}
"""All of them, by name."""

__all__ = ["HOSTILE", "RUNS", "arm"]
