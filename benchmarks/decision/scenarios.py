"""The rule beside others under noise that is not normal: what each gets wrong, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.decision import rivals
from benchmarks.decision.markdown import grid
from benchmarks.decision.noises import SCENARIOS, SLOW_CANDIDATE, Boots, Scenario
from benchmarks.decision.simulation import SIGMA, Known, decide, rates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeAlias

    from benchmarks.decision.simulation import Draws, Floats, Rates

    Rule: TypeAlias = Callable[[float, float], Rates]
    """Rates at a true effect and a margin."""

ROUNDS: Final = 6
BOOTSTRAPPED: Final = 6_000
"""Most samples of the bootstrap, which is dear."""

EFFECTS: Final = (0, -1, -2, -3)
COLUMNS: Final = (
    "rule",
    "no change: FAIL",
    "at -1d: PASS",
    "at -2d: PASS",
    "at -2d: FAIL",
    "at -3d: FAIL",
    "no change: INCONCLUSIVE",
    "no change: rounds",
)


def rules(boots: Boots) -> Mapping[str, Rule]:
    """Return the rules that are compared, by name, the shipped one last."""
    x = boots.candidate - boots.reference
    few = Boots(
        boots.reference[:BOOTSTRAPPED],
        boots.candidate[:BOOTSTRAPPED],
        Known(boots.known.sigma[:BOOTSTRAPPED], boots.known.nu),
    )
    nothing = Known(np.zeros(len(x)), 0)

    def shipped(known: Known) -> Rule:
        plan = known.plan(ROUNDS)
        return lambda effect, delta: rates(decide(x + effect, known=known, delta=delta, plan=plan))

    def interval(bounds: tuple[Floats, Floats], rounds: int) -> Rule:
        return lambda effect, delta: rivals.by_interval(bounds, effect=effect, delta=delta, rounds=rounds)

    return {
        "one round against the limit": lambda effect, delta: rivals.naive(x + effect, delta),
        "best of three": lambda effect, delta: rivals.best_of_three(x + effect, delta),
        "Welch, unpaired, 3 rounds": interval(rivals.welch(boots, rounds=3), 3),
        "Welch, unpaired, 6 rounds": interval(rivals.welch(boots, rounds=6), 6),
        "bootstrap of medians, 5 rounds": interval(rivals.bootstrap_of_medians(few), rivals.BOOTSTRAP_ROUNDS),
        "**this rule, uncalibrated**": shipped(nothing),
        "**this rule, nu_c = 10**": shipped(boots.known),
    }


def markdown(draws: Draws) -> Iterator[str]:
    """Simulate one scenario after the other, and yield its table."""
    yield (
        f"### Other noise, other rules\n\nIn percent, and mean rounds. Boots scatter so that a round has a standard "
        f"deviation of {100 * SIGMA:g} %, besides what is said. The calibration consists of ten differences of two "
        f"boots each, under the same noise unless said. {draws.samples} samples a cell, "
        f"{min(BOOTSTRAPPED, draws.samples)} of the bootstrap.\n"
    )
    for scenario in SCENARIOS:
        yield _table(f"{scenario.name}; d = {100 * scenario.margin:g} %", COLUMNS, _rows(draws, scenario))
    yield _slow_candidate(draws)


def _rows(draws: Draws, scenario: Scenario) -> Iterator[tuple[str, ...]]:
    boots = _boots(draws, scenario)
    for name, judged in rules(boots).items():
        none, once, twice, thrice = (judged(effect * scenario.margin, scenario.margin) for effect in EFFECTS)
        shares = (none.failed, once.passed, twice.passed, twice.failed, thrice.failed, none.undecided)
        yield name, *(f"{100 * share:.2f}" for share in shares), f"{none.rounds:.2f}"


def _slow_candidate(draws: Draws) -> str:
    """A mode that only the candidate has is a true loss of 3.3 %, and rare in a few boots."""
    boots = _boots(draws, SLOW_CANDIDATE)
    rows = []
    for margin in (0.01, 0.05):
        for name, judged in rules(boots).items():
            found = judged(0.0, margin)
            shares = (found.passed, found.failed, found.undecided)
            texts = [f"{100 * share:.1f}" for share in shares]
            rows.append((f"{100 * margin:g} %", name, *texts, f"{found.rounds:.2f}"))
    return _table(
        "15 % of the boots of the candidate only slower by 20 %, calibration without",
        ("d", "rule", "PASS", "FAIL", "INCONCLUSIVE", "rounds"),
        iter(rows),
    )


def _boots(draws: Draws, scenario: Scenario) -> Boots:
    return scenario.boots(draws.generator(scenario.name), runs=draws.samples, rounds=ROUNDS)


def _table(name: str, columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    return f"#### Noise: {name}\n\n{grid(columns, rows)}"
