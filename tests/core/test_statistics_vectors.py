"""The decision rule against the published test vectors: quantiles, critical values, verdicts, real boots."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from pytest_specgate.core import rule, statistics
from pytest_specgate.core.noise import LOG, UNKNOWN_NOISE, Noise, declared_noise
from pytest_specgate.core.plan import Plan, looks
from pytest_specgate.core.statistics import look

T_DF = (1, 2, 3, 4, 5, 9, 10, 11, 13, 15)
T_POINTS = {
    0.05: "6.31375 2.91999 2.35336 2.13185 2.01505 1.83311 1.81246 1.79588 1.77093 1.75305",
    0.025: "12.70620 4.30265 3.18245 2.77645 2.57058 2.26216 2.22814 2.20099 2.16037 2.13145",
    0.05 / 3: "19.08114 5.33933 3.74049 3.18632 2.91171 2.50959 2.46598 2.43129 2.37959 2.34292",
    0.0125: "25.45170 6.20535 4.17653 3.49541 3.16338 2.68501 2.63377 2.59309 2.53264 2.48988",
    0.05 / 12: "76.39001 10.88587 6.23154 4.85101 4.21931 3.36420 3.27684 3.20812 3.10702 3.03628",
}
T_ROWS = [
    pytest.param(tail, df, point, id=f"tail {tail:.6f}, df {df}")
    for tail, points in T_POINTS.items()
    for df, point in zip(T_DF, points.split(), strict=True)
]

F_DF = (3, 5, 10, 20)
F_POINTS = {
    1: "5.53832 4.06042 3.28502 2.97465",
    3: "5.39077 3.61948 2.72767 2.38009",
    5: "5.30916 3.45298 2.52164 2.15823",
    7: "5.26619 3.36790 2.41397 2.03970",
}
F_ROWS = [
    pytest.param(own, calibrated, float(point), id=f"own df {own}, calibrated df {calibrated}")
    for own, points in F_POINTS.items()
    for calibrated, point in zip(F_DF, points.split(), strict=True)
]

VERDICTS = """
-1, -1.2 | 1 | 0.2 | 10 | 6 | 1 | -1.1000 | -1.4359 | -0.7641 | 0.1954 | 11 | pooled | CONTINUE | next look
-0.2, 0.1 | 1 | 0.2 | 10 | 6 | 1 | -0.0500 | -0.4147 | 0.3147 | 0.2121 | 11 | own > calibrated | PASS | lower bound within the margin
-0.2, 0.1 | 0.4 | 0.2 | 10 | 6 | 1 | -0.0500 | -0.4147 | 0.3147 | 0.2121 | 11 | own > calibrated | CONTINUE | next look
-3, -3.4 | 1 | 0.2 | 10 | 6 | 1 | -3.2000 | -3.6863 | -2.7137 | 0.2828 | 11 | own > calibrated | FAIL | upper bound beyond the margin
-3, -3.4 | 1 | 0.2 | 10 | 6 | 8 | -3.2000 | -3.6863 | -2.4799 | 0.2828 | 11 | own > calibrated | FAIL | upper bound beyond the margin
-22, 0.1 | 1 | 0.2 | 10 | 6 | 1 | -10.9500 | -221.7966 | 199.8966 | 15.6271 | 1 | own (calibration rejected) | CONTINUE | next look
-0.4, 0.3, -0.6, 0.1 | 1 | - | 0 | 6 | 1 | -0.1500 | -0.8188 | 0.5188 | 0.4203 | 3 | own (no calibration) | PASS | lower bound within the margin
-1, -1.1 | 1 | - | 0 | 6 | 1 | -1.0500 | - | - | - | 0 | none | CONTINUE | next look at 4 rounds
-1, -1.1 | 1 | - | 0 | 2 | 1 | -1.0500 | - | - | - | 0 | none | INCONCLUSIVE | noise unknown: no calibration and n_max < 3
-0.45, -0.52, -0.3, -0.6 | 0.4 | 0.2 | 5 | 6 | 1 | -0.4675 | -0.6937 | -0.2413 | 0.1763 | 8 | pooled | INCONCLUSIVE | futile: chance of a decision by n_max 0.015
0, 0 | 0.1 | 0 | 10 | 6 | 1 | 0.0000 | -0.0860 | 0.0860 | 0.0500 | 11 | pooled | PASS | lower bound within the margin
-2 | 1 | 0.2 | 5 | 1 | 1 | -2.0000 | -2.4030 | -1.5970 | 0.2000 | 5 | calibrated | FAIL | upper bound beyond the margin
0.98, -1.02, 1, -0.97 | 1 | - | 0 | 6 | 1 | -0.0025 | -0.1101 | 0.1051 | 0.0500 | 2 | own (no calibration), order effect +0.99 % per boot removed | PASS | lower bound within the margin
0.98, -1.02, 1, -0.97 | 1 | 0.2 | 10 | 6 | 1 | -0.0025 | -0.2223 | 0.2173 | 0.1829 | 12 | pooled, order effect +0.99 % per boot removed | PASS | lower bound within the margin
2.98, -3.02, 3, -2.97 | 1 | 0.2 | 10 | 6 | 1 | -0.0025 | -6.4652 | 6.4602 | 3.4555 | 3 | own (calibration rejected) | INCONCLUSIVE | futile: chance of a decision by n_max 0.001
-22.3, 0.1, -0.2, 0 | 2 | 0.2 | 10 | 6 | 1 | -5.6000 | -26.4234 | 15.2234 | 11.1340 | 3 | own (calibration rejected) | INCONCLUSIVE | futile: chance of a decision by n_max 0.001
"""  # noqa: E501  - a row of the published table is one line

REAL_BOOTS = """
c1 throughput | higher | 29.5, 31.3, 34.3, 34.4 | 29.6 | 35.2 | PASS, PASS, PASS, PASS
c8 throughput | higher | 6.9, 7.6, 5.7, 11.1 | 5.1 | 10.5 | PASS, PASS, PASS, PASS
c32 throughput | higher | -12.5, -15.9, -7.3, -14.4 | -17.0 | -8.1 | FAIL, FAIL, FAIL, OPEN
c1 ttft_p50 | lower | -3.4, -4.5, -6.8, 3.2 | -7.9 | 2.2 | OPEN, OPEN, OPEN, PASS
c32 decode p50 | higher | -3.7, -10.6, -0.2, -13.4 | -14.1 | 0.1 | OPEN, OPEN, OPEN, OPEN
"""


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of the published verdict table: rounds, margin and bounds in percent of log units."""

    ratios: tuple[float, ...]
    delta: float
    noise: Noise
    plan: Plan
    expected: tuple[str, ...]

    @classmethod
    def parse(cls, line: str) -> Row:
        """Read a row; ``-`` is "none"."""
        x, delta, sigma, df, rounds, family, *expected = (cell.strip() for cell in line.split("|"))
        noise = UNKNOWN_NOISE if sigma == "-" else Noise(float(sigma) / 100, float(df))
        plan = Plan(looks(int(rounds), noise), int(family))
        return cls(tuple(float(one) / 100 for one in x.split(",")), float(delta) / 100, noise, plan, tuple(expected))


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.4f}"


@pytest.mark.parametrize(("tail", "df", "point"), T_ROWS)
def test_t_quantile(tail: float, df: int, *, point: str) -> None:
    """Student's t quantiles equal the published ones in all printed digits."""
    assert f"{float(rule.quantile(tail, df)):.5f}" == point


@pytest.mark.parametrize(("own_df", "calibrated_df", "point"), F_ROWS)
def test_f_test_rejects_from_its_critical_value_on(own_df: int, calibrated_df: int, *, point: float) -> None:
    """The calibration is dropped above the published F value and kept below it."""
    noise = Noise(0.01, calibrated_df)

    squares = np.array([point - 1e-5, point + 1e-5]) * noise.sigma**2 * own_df
    found = rule.choose(squares, own_df, sigma=np.full(2, noise.sigma), nu=noise.df, least_sd=LOG.least_sd)

    assert list(found.df) == [own_df + calibrated_df, own_df]
    assert [rule.SOURCES[code] for code in found.source] == ["own > calibrated", "own (calibration rejected)"]


@pytest.mark.parametrize("line", VERDICTS.strip().splitlines())
def test_verdict_row(line: str) -> None:
    """A row of the published verdict table comes out in all printed digits and words."""
    row = Row.parse(line)

    seen = look(row.ratios, delta=row.delta, noise=row.noise, plan=row.plan)

    figures = [_percent(value) for value in (seen.mean, seen.lower, seen.upper, seen.sd)]
    assert (*figures, f"{seen.df:g}", seen.source, seen.decision, seen.reason) == row.expected


@pytest.mark.parametrize("row", REAL_BOOTS.strip().splitlines())
def test_four_rounds_of_real_boots(row: str) -> None:
    """Four uncalibrated rounds of a real server are decided as published, for margins of 0, 2, 5 and 10 %."""
    _, better, x, lower, upper, decisions = (cell.strip() for cell in row.split("|"))
    expected = decisions.replace("OPEN", "INCONCLUSIVE").split(", ")
    ratios = [float(one) / 100 for one in x.split(",")]
    margins = [statistics.log_margin(of, higher_is_better=better == "higher") for of in (0, 0.02, 0.05, 0.10)]

    seen = [look(ratios, delta=delta, noise=UNKNOWN_NOISE, plan=Plan((4,))) for delta in margins]

    assert [one.decision for one in seen] == expected
    assert seen[0].lower == pytest.approx(float(lower) / 100, abs=1e-3)
    assert seen[0].upper == pytest.approx(float(upper) / 100, abs=1e-3)


@pytest.mark.parametrize(
    ("margin", "family", "decision"),
    [(0.0, 1, "FAIL"), (0.004, 1, "FAIL"), (0.004, 2, "INCONCLUSIVE"), (0.02, 1, "PASS")],
)
def test_one_round_of_the_published_case(margin: float, family: int, *, decision: str) -> None:
    """One round of -0.83 % under a declared floor of 0.4 % is decided as published; more thresholds ask for more."""
    noise = declared_noise(0.004)
    delta = statistics.log_margin(margin, higher_is_better=True)

    seen = look([-0.0083], delta=delta, noise=noise, plan=Plan(looks(1, noise), family))

    assert seen.decision == decision
    assert seen.lower == pytest.approx(-0.0124, abs=5e-5)


def test_case_97_three_rounds_within_noise() -> None:
    """Case 97: three A/A rounds that scatter by 9 % leave a margin of 3 % undecided, with the published bounds."""
    reference, candidate = (10.0, 10.6, 9.7), (10.9, 10.1, 10.5)
    ratios = [-math.log(c / r) for r, c in zip(reference, candidate, strict=True)]
    delta = statistics.log_margin(0.03, higher_is_better=False)

    seen = look(ratios, delta=delta, noise=UNKNOWN_NOISE, plan=Plan(looks(3, UNKNOWN_NOISE)))

    assert (seen.decision, seen.reason) == ("INCONCLUSIVE", "the interval contains the margin")
    assert seen.lower is not None
    assert seen.upper is not None
    assert (f"{100 * seen.lower:.1f}", f"{100 * seen.upper:.1f}") == ("-16.7", "8.9")
