"""Cards of verdicts: every kind of claim is drawn against what it allows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.api import at_least, better, equivalent, faster_only_up_to, not_worse, outputs_agree
from pytest_specgate.core.verdict import BaselineVerdict, FactorVerdict, Outcome
from pytest_specgate.reporting.page_verdicts import card, claim_of, details, rounds_of, steps_of, title_of
from pytest_specgate.reporting.session_report import ReportedVerdict
from tests.reporting.page_runs import FLOOR, gated, reported, three_arms

if TYPE_CHECKING:
    from pytest_specgate.core.thresholds import AnyThreshold
    from pytest_specgate.core.verdict import Verdict


def verdict(threshold: AnyThreshold, *, place: int = 0, rounds: int = 3) -> Verdict:
    """Return the verdict of one claim about k4 against off, or k7 against k4."""
    return reported(gated(three_arms(rounds), threshold, place=place)).verdicts[0].verdict


@pytest.mark.parametrize(
    ("threshold", "ends", "mark"),
    [
        (not_worse("output_throughput", at=32, margin="6%", noise=FLOOR), (-0.06, None), "margin"),
        (not_worse("ttft_p50", at=32, margin="6%", noise=FLOOR), (None, 0.06), "margin"),
        (better("decode_rate_p50", at=1, by="50%", noise=FLOOR), (0.5, None), "asked for"),
        (better("ttft_p50", at=1, by="20%", noise=FLOOR), (None, -0.2), "asked for"),
        (equivalent("ttft_p50", at=32, within="8%", noise=FLOOR), (-0.08, 0.08), "margin"),
        (at_least("output_throughput", at=8, limit="90 tokens/s"), (90.0, None), "limit"),
        (outputs_agree(at=8, at_least="90%"), (0.9, None), "at least"),
        (faster_only_up_to(8, noise=FLOOR), (None, None), "margin"),
    ],
)
def test_a_claim_ends_where_it_was_declared(
    threshold: AnyThreshold, ends: tuple[float | None, float | None], mark: str
) -> None:
    """What a claim allows lies on the side on which the metric is better, and its end has its own name."""
    found = claim_of(verdict(threshold))

    assert found is not None
    assert (found.least, found.most) == (ends[0] and pytest.approx(ends[0]), ends[1] and pytest.approx(ends[1]))
    assert found.mark == mark


def test_rounds_are_raw_changes() -> None:
    """Signed log ratios become changes of the metric, for times as for rates."""
    faster = verdict(not_worse("output_throughput", at=1, margin="6%", noise=FLOOR))
    shorter = verdict(not_worse("ttft_p50", at=1, margin="6%", noise=FLOOR))

    assert rounds_of(faster) == pytest.approx([math.expm1(ratio) for ratio in faster.ratios])
    assert rounds_of(shorter) == pytest.approx([math.expm1(-ratio) for ratio in shorter.ratios])
    assert min(rounds_of(faster)) > 0 > max(rounds_of(shorter))


def test_points_are_differences() -> None:
    """Changes of a share are in points, and so are the texts of its picture."""
    found = verdict(not_worse("acceptance_rate", at=8, margin="4pp", noise=None), place=1)
    shown = claim_of(found)

    assert shown is not None
    assert found.points
    assert shown.text(0.02) == "+2 points"
    assert shown.least == pytest.approx(-0.04)
    assert rounds_of(found) == found.ratios


def test_an_invalid_verdict_draws_nothing() -> None:
    """There is no claim, no details, and no figure on its card."""
    window = gated(three_arms(2), not_worse("output_throughput", at=8, margin="6%", noise=FLOOR)).with_death("k4", 1)
    found = reported(window)
    shown = card(found.verdicts[0], found, name="t1")

    assert shown.verdict.outcome == Outcome.INVALID
    assert claim_of(shown.verdict) is None
    assert details(shown.verdict, name="t1") is None
    assert (shown.figure, shown.aside, shown.strip) == ("", (), "")


def with_baseline(**fields: float) -> Verdict:
    """Return a verdict about a baseline."""
    given = verdict(not_worse("output_throughput", at=8, margin="8%", noise=FLOOR))
    known = BaselineVerdict(
        mode="relative", today=1.2, level=1.25, windows=(1.3, 1.2), since_latest=0.0, since_anchor=-0.08,
        anchor_at="2026-01-01", latest_at="2026-02-01", path="baselines/x.json",
    )  # fmt: skip
    changes = {"kind": "not_worse_than_baseline", "baseline": known, "change": -0.04, "limit": -0.08, **fields}
    return given.model_copy(update=changes)


def test_a_baseline_is_drawn_with_its_windows() -> None:
    """The dots are the accepted windows, as they lie around the level that today is compared with."""
    found = with_baseline(change_low=-0.07, change_high=0.01)
    shown = claim_of(found)

    assert shown is not None
    assert shown.rows[0].dots == pytest.approx([0.04, -0.04])
    assert title_of(found) == "output throughput at c=8, against its baseline"
    assert card(ReportedVerdict(found, "x"), None, name="t").aside == (
        "interval -7.0 .. +1.0 %",
        "x 1.250 \N{RIGHTWARDS ARROW} x 1.200 (baseline of 2 windows)",
    )


def test_factors_add_up_to_the_whole() -> None:
    """The last step is the whole change: the sum of the logarithms of all factors and of what is left."""
    given = verdict(not_worse("output_throughput", at=8, margin="8%", noise=FLOOR))
    factors = tuple(
        FactorVerdict(name=name, reference=1.0, candidate=1 + change, change=change, change_low=None, change_high=None,
                      moved=moved)
        for name, change, moved in (("tokens per step", 1.46, True), ("steps per second", -0.4, True))
    )  # fmt: skip
    steps = steps_of(given.model_copy(update={"factors": factors, "residual": 0.0001}))

    assert [(step.name, step.text, step.shown) for step in steps] == [
        ("tokens per step", "+146.0 %", True),
        ("steps per second", "-40.0 %", True),
        ("residual", "0.0 %", False),
        ("output throughput", "+47.6 %", True),
    ]
    assert steps[-1].change == pytest.approx(sum(step.change for step in steps[:-1]))
    assert steps_of(given.model_copy(update={"factors": ()})) == ()


def test_of_a_time_the_factors_make_its_inverse() -> None:
    """Tokens and steps per second make speed, so the whole of a TPOT is that of 1 / TPOT."""
    given = verdict(not_worse("tpot_p50", at=8, margin="8%", noise=FLOOR))

    assert steps_of(given)[-1].name == "1 / TPOT p50"


def test_a_curve_has_a_row_a_level() -> None:
    """Each level stands with its interval, in rising order."""
    found = claim_of(verdict(faster_only_up_to(8, noise=FLOOR)))

    assert found is not None
    assert [row.label for row in found.rows] == ["c=1", "c=8", "c=32"]
    assert all(row.low is not None and row.estimate is not None for row in found.rows)
    assert found.ends == ()
