"""The page about the published windows: its table and its figures come out of the product's own rule."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from scipy import special

from pytest_specgate.core import planning, rule, statistics
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.noise import LOG, UNKNOWN_NOISE, Noise, declared_noise
from pytest_specgate.core.plan import Claim, Plan, looks

PAGE: Final = Path(__file__).parents[2] / "docs" / "published-windows.md"
HEAD: Final = (
    "pair",
    "figure",
    "published",
    "x, log %",
    "floor",
    "margin",
    "default, after this round",
    "`rounds = 1`",
    "bounds, log %",
    "one round decides",
)
FIGURES: Final = Path(__file__).parents[1] / "data" / "published" / "windows.json"
PRINTED: Final[dict[str, dict[str, Any]]] = {
    row["id"]: row for row in json.loads(FIGURES.read_text(encoding="utf-8"))["comparisons"]
}
FLAT: Final = math.log1p(float(PRINTED["k4-off-throughput-c32"]["percent"]) / 100)
"""The difference at c=32 that was read as flat; only its rounded percentage was published."""


@dataclasses.dataclass(frozen=True)
class Window:
    """One published comparison, read against one margin.

    Attributes:
        pair: candidate against reference.
        metric: key in the metric table.
        at: concurrency.
        values: of reference and candidate as printed, or the printed change in percent.
        floor: declared, in percent; `None` where none was measured.
        margin: in percent.
    """

    pair: str
    metric: str
    at: int
    values: tuple[str, ...]
    floor: float | None
    margin: float

    @property
    def published(self) -> str:
        """The figures as printed."""
        return " -> ".join(self.values) if len(self.values) == 2 else f"{self.values[0]} %"

    @property
    def x(self) -> float:
        """The signed log ratio: positive where the candidate is better."""
        if len(self.values) == 1:
            return math.log1p(float(self.values[0]) / 100)
        before, after = map(float, self.values)
        return math.log(after / before) * (1 if metric(self.metric).higher_is_better else -1)

    @property
    def delta(self) -> float:
        """The margin in log units."""
        return statistics.log_margin(self.margin / 100, higher_is_better=metric(self.metric).higher_is_better)

    @property
    def noise(self) -> Noise:
        """What was known of the noise."""
        return UNKNOWN_NOISE if self.floor is None else declared_noise(self.floor / 100)

    def look(self, n_max: int, *, family: int = 1) -> statistics.Look | None:
        """Judge the round, or return `None` where a gate of so many rounds is refused."""
        plan = Plan(looks(n_max, self.noise), family)
        return statistics.look([self.x], delta=self.delta, noise=self.noise, plan=plan) if plan.looks else None


DECODE: Final = "decode_rate_p50"


def _window(name: str, *, floor: float | None = None, margin: float = 0) -> Window:
    """Return a printed comparison, read against a margin."""
    row = PRINTED[name]
    pair = " / ".join(f"k={k}" if k else "off" for k in (row["candidate_k"], row["reference_k"]))
    values = (row["reference"], row["candidate"]) if row["reference"] else (row["percent"],)
    return Window(pair, row["metric"], row["concurrency"], values, floor, margin)


WINDOWS: Final = (
    *(_window("k7-off-throughput-c32", floor=0.4, margin=margin) for margin in (0, 0.4, 2, 5, 10)),
    _window("k4-k7-throughput-c32", floor=0.4),
    _window("k4-k7-throughput-c32"),
    _window("k4-k7-throughput-c8", floor=0.4),
    _window("k4-off-throughput-c8", floor=0.4),
    _window("k3-k4-throughput-c32", floor=0.4),
    *(_window("k4-off-throughput-c32", floor=0.4, margin=margin) for margin in (0, 0.4, 2)),
    _window("k4-k7-throughput-c1"),
    _window("k7-off-decode-c1"),
    _window("k4-off-decode-c1"),
    _window("k4-off-decode-c1", floor=1.3),
    _window("k4-k7-decode-c1"),
    _window("k3-k4-decode-c1"),
    _window("k7-off-ttft-c32"),
    _window("k4-k7-ttft-c8"),
    _window("k4-k7-ttft-c32"),
    _window("k4-off-ttft-c8"),
    _window("k4-off-ttft-c32"),
    _window("k3-k4-ttft-c32"),
)


@pytest.fixture(scope="module")
def page() -> str:
    """The page as it stands."""
    return PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def prose(page: str) -> str:
    """The page without line ends within sentences."""
    return " ".join(page.split())


def table() -> list[str]:
    """Return the lines of the table."""
    return [f"| {' | '.join(cells)} |" for cells in (HEAD, ("---",) * len(HEAD), *map(_cells, WINDOWS))]


def _cells(window: Window) -> tuple[str, ...]:
    at_once, later = window.look(1), window.look(6)
    assert later is not None
    bounds = "-"
    if at_once is not None and at_once.lower is not None and at_once.upper is not None:
        bounds = f"{100 * at_once.lower:.2f} .. {100 * at_once.upper:.2f}"
    side = "PASS" if window.x + window.delta >= 0 else "FAIL"
    largest = 100 * planning.break_even_floor(window.x, delta=window.delta)
    return (
        window.pair,
        f"{metric(window.metric).label}, c={window.at}",
        window.published,
        f"{100 * window.x:+.2f}",
        "none" if window.floor is None else f"{window.floor:g} %",
        f"{window.margin:g} %",
        f"{later.decision.replace('CONTINUE', 'INCONCLUSIVE')}, {later.reason}",
        "refused" if at_once is None else at_once.decision,
        bounds,
        f"{side} up to {float(f'{largest:.3g}'):g} %",
    )


def test_the_table_is_what_the_rule_says(page: str) -> None:
    """Words, bounds and largest floors of the page equal those that the product computes from the published figures."""
    above = page.split("\n## ", maxsplit=1)[0]
    printed = [line for line in above.splitlines() if line.startswith("|")]

    assert printed == table()


def test_the_changes_are_the_published_ones(prose: str) -> None:
    """The raw changes that the text names follow from the figures in the table."""
    named = [("301.28", "272.77"), ("55.15", "119.84"), ("35456.73", "29434.98")]
    found = [next(window for window in WINDOWS if window.values == values) for values in named]
    changes = [
        statistics.raw_change(window.x, higher_is_better=metric(window.metric).higher_is_better) for window in found
    ]
    words = [f"{100 * change:+.2f} %" for change in changes]

    assert words == ["-9.46 %", "+117.30 %", "-16.98 %"]
    assert all(change in prose for change in words)


def test_the_loss_read_as_flat_lies_outside_the_floor(prose: str) -> None:
    """Distances and error rates that the page gives for the loss at c=32 follow from the declared floor."""
    noise = declared_noise(0.004)
    margin = statistics.log_margin(0.004, higher_is_better=True)
    from_nothing, from_margin = abs(FLAT) / noise.sigma, abs(FLAT + margin) / noise.sigma

    assert f"{from_nothing:.1f} standard deviations from no change" in prose
    assert f"in {100 * 2 * float(special.ndtr(-from_nothing)):.3f} % of the rounds" in prose
    assert f"{from_margin:.1f} from the margin" in prose
    assert f"{float(special.ndtr(-from_margin)):.3f} if the floor is taken as exact" in prose
    assert f"{float(special.stdtr(noise.df, -from_margin)):.3f} with the five degrees of freedom" in prose


@pytest.mark.parametrize(("family", "word"), [(1, "FAIL"), (2, "INCONCLUSIVE"), (8, "INCONCLUSIVE")])
def test_the_loss_at_the_floor_fails_alone_only(family: int, word: str) -> None:
    """One round fails a margin of the floor when it is the only threshold, and decides nothing among others."""
    window = next(window for window in WINDOWS if window.values == ("-0.83",) and window.margin == 0.4)
    found = window.look(1, family=family)

    assert found is not None
    assert found.decision == word


def test_flat_is_a_claim_that_fails(prose: str) -> None:
    """That both arms are equal within the floor, either way, is refuted by the published round."""
    noise = declared_noise(0.004)
    found = statistics.look(
        [FLAT],
        delta=statistics.log_margin(0.004, higher_is_better=True),
        gain=math.log1p(0.004),
        noise=noise,
        plan=Plan(looks(1, noise)),
    )

    assert found.decision == "FAIL"
    assert "equal within 0.4 % either way is a FAIL" in prose


@pytest.mark.parametrize(
    ("truth", "code", "share", "words"),
    [
        (-0.0083, (rule.FAIL,), 99.6, "FAIL in 99.6 % of the cases, after 2.6 rounds on average"),
        (-0.004, (rule.INCONCLUSIVE, rule.FUTILE), 88.0, "INCONCLUSIVE in 88 %"),
    ],
)
def test_what_further_rounds_would_say(
    prose: str, truth: float, code: tuple[int, ...], *, share: float, words: str
) -> None:
    """Continued after the published round, the gate ends as the page says, for either truth."""
    decision, rounds = continued(truth)

    assert 100 * float(np.isin(decision, code).mean()) == pytest.approx(share, abs=1.0)
    assert words in prose
    if rule.FAIL in code:
        assert float(rounds.mean()) == pytest.approx(2.6, abs=0.05)


def continued(truth: float, *, runs: int = 20_000) -> tuple[rule.Codes, rule.Floats]:
    """Simulate gates whose first round is the published one, and whose noise is as declared."""
    noise = declared_noise(0.004)
    plan, claim = Plan(looks(6, noise)), Claim(statistics.log_margin(0.004, higher_is_better=True))
    x = math.log1p(truth) + noise.sigma * np.random.default_rng(1).standard_normal((runs, plan.rounds))
    x[:, 0] = FLAT
    decision, rounds, still = np.full(runs, rule.CONTINUE, dtype=np.int8), np.zeros(runs), np.arange(runs)
    for n in plan.looks:
        order, sigma = np.arange(n) % 2 == 1, np.full(len(still), noise.sigma)
        found = rule.bounds(x[still, :n], order, sigma=sigma, nu=noise.df, scale=LOG, claim=claim, plan=plan)
        decision[still], rounds[still] = found.decision, n
        still = still[found.decision == rule.CONTINUE]
    return decision, rounds


def test_eight_requests_are_too_few(prose: str) -> None:
    """A median of eight requests is refused, since the product asks for more."""
    needed = metric(DECODE).minimum_requests

    assert needed > 8
    assert f"from {needed} requests on" in prose


def test_one_difference_between_windows_is_worth_one_degree_of_freedom(prose: str) -> None:
    """The spread of one configuration in two windows, taken as an estimate, bounds little."""
    apart = math.log(float(PRINTED["k4-off-decode-c1"]["candidate"]) / float(PRINTED["k3-k4-decode-c1"]["reference"]))
    half = math.expm1(float(special.stdtrit(1, 0.975)) * apart)

    assert f"{100 * math.expm1(apart):.1f} %" == "1.3 %"
    assert f"{100 * half:.0f} % either way" in prose


def test_a_second_round_like_the_first_decides_the_large_loss(prose: str) -> None:
    """Two rounds like the published one FAIL under the default plan for every margin up to the one on the page."""
    noise, x = declared_noise(0.004), WINDOWS[0].x
    plan = Plan(looks(6, noise))
    found = statistics.look([x, x], delta=0.0, noise=noise, plan=plan)
    assert found.upper is not None
    largest = -math.expm1(found.upper)

    assert found.decision == "FAIL"
    assert f"every margin up to {math.floor(1000 * largest) / 10:.1f} %" in prose


def test_floors_that_the_text_names_are_break_even_floors(prose: str) -> None:
    """Each floor that the text says a verdict would survive is the largest one of a row of the table."""
    named = re.findall(r"any declared floor up to ([0-9.]+) %", prose)
    largest = {float(f"{100 * planning.break_even_floor(window.x, delta=window.delta):.3g}") for window in WINDOWS}

    assert named
    assert {float(one) for one in named} <= largest
