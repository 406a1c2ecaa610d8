"""The pictures of a claim: one glance must tell the truth, so everything lies where its value lies."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_specgate.core.units import amount_text, measured_text
from pytest_specgate.reporting.page_strips import Claim, Row, Step, by_round, strip, waterfall
from pytest_specgate.reporting.page_verdicts import change_text
from tests.reporting.svg_reading import centre, having, parsed, points, tip, values_along_x, values_along_y

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

ROW = Row(estimate=-0.038, low=-0.144, high=0.135, dots=(-0.03, -0.046))


def claim(*rows: Row, least: float | None = -0.5, most: float | None = None, higher: bool = True) -> Claim:
    """Return a claim about a change."""
    return Claim(rows or (ROW,), least, most, 0.0, higher_is_better=higher, text=change_text)


def drawn(what: Claim) -> Element:
    """Return the strip of a claim."""
    return parsed(strip(what, name="s", title="a claim"))


def spans(elements: Sequence[Element]) -> list[tuple[float, float]]:
    """Return from where to where each of some rectangles reaches."""
    found = [(float(one.get("x", "nan")), float(one.get("width", "nan"))) for one in elements]
    return [(left, left + width) for left, width in found]


def test_everything_lies_at_its_value() -> None:
    """Estimate, both ends of the interval, the rounds, the margin and the zero line are where the ticks say."""
    found = drawn(claim())
    value = values_along_x(found)
    bar, first, last = (points(one.get("d", "")) for one in having(found, "interval"))

    def at(name: str) -> list[float]:
        return [value(centre(one)[0]) / 100 for one in having(found, name)]

    assert at("estimate") == pytest.approx([-0.038], abs=2e-3)
    assert [value(x) / 100 for x, _ in bar] == pytest.approx([-0.144, 0.135], abs=2e-3)
    assert [value(end[0][0]) / 100 for end in (first, last)] == pytest.approx([-0.144, 0.135], abs=2e-3)
    assert at("round") == pytest.approx([-0.03, -0.046], abs=2e-3)
    assert at("margin") == pytest.approx([-0.5], abs=2e-3)
    assert at("zero") == pytest.approx([0], abs=2e-3)
    assert [tip(one) for one in having(found, "round")] == ["1: -3 %", "2: -4.6 %"]


@pytest.mark.parametrize(
    ("what", "ends"),
    [
        (claim(), [(None, -0.5)]),
        (claim(least=None, most=0.5, higher=False), [(0.5, None)]),
        (claim(least=-0.2, most=0.2), [(None, -0.2), (0.2, None)]),
        (claim(Row(estimate=0.4, low=0.3, high=0.5), least=0.05), [(None, 0.05)]),
        (claim(least=None), []),
    ],
)
def test_what_a_claim_does_not_allow_is_hatched(what: Claim, ends: list[tuple[float | None, float | None]]) -> None:
    """The hatched part reaches from the end of the claim to the edge of the picture, on the side of the loss."""
    found = drawn(what)
    value = values_along_x(found)
    edges = [pytest.approx(end, abs=3e-3) for end in what.domain()]
    told = [sorted((value(left) / 100, value(right) / 100)) for left, right in spans(having(found, "beyond"))]

    wanted = [[edges[0] if low is None else low, edges[1] if high is None else high] for low, high in ends]
    assert [
        [pytest.approx(one, abs=3e-3) if isinstance(one, float) else one for one in both] for both in wanted
    ] == told


@pytest.mark.parametrize("higher", [True, False])
def test_better_is_to_the_right(higher: bool) -> None:
    """A gain lies to the right of no change whatever the direction of the metric is, and the picture says so."""
    gain = 0.2 if higher else -0.2
    found = drawn(claim(Row(estimate=gain), least=None, higher=higher))
    (mark,), (zero,) = having(found, "estimate"), having(found, "zero")
    texts = [one.text for one in having(found, "axis")]

    assert centre(mark)[0] > centre(zero)[0]
    assert texts == ["\N{LEFTWARDS ARROW} worse", "better \N{RIGHTWARDS ARROW}"]


def test_an_interval_that_does_not_fit_ends_in_an_arrow() -> None:
    """An end far beyond everything else is an arrow at the edge; the other end is where it lies."""
    found = drawn(claim(Row(estimate=-0.18, low=-0.722, high=20.391, dots=(-0.31, -0.03)), least=-0.4))
    value = values_along_x(found)
    bar, low, high = (points(one.get("d", "")) for one in having(found, "interval"))

    assert [len(low), len(high)] == [2, 3]
    assert value(low[0][0]) / 100 == pytest.approx(-0.722, abs=5e-3)
    assert value(bar[1][0]) / 100 < 1
    assert high[1][0] > high[0][0]


def test_without_an_interval_there_is_none() -> None:
    """Where nothing is known of the noise, only the estimate and its rounds are drawn."""
    found = drawn(claim(Row(estimate=-0.03, dots=(-0.03,))))

    assert having(found, "interval") == []
    assert having(found, "estimate")


def test_limits_have_their_unit_and_no_zero() -> None:
    """Boots lie against a limit in the unit of the metric; of times the larger ones are to the left."""
    values = (0.1252, 0.1190, 0.31)
    what = Claim(
        (Row(dots=values),), None, 0.2, None,
        higher_is_better=False, text=functools.partial(measured_text, "s"), mark="limit",
        tick=functools.partial(amount_text, "s"),
    )  # fmt: skip
    found = drawn(what)
    value = values_along_x(found)
    dots = [centre(one)[0] for one in having(found, "round")]

    assert [value(place) / 1000 for place in dots] == pytest.approx(values, abs=2e-3)
    assert dots[2] == min(dots)
    assert having(found, "zero") == []
    assert [one.text for one in having(found, "end")] == ["limit 200 ms"]


def test_levels_stand_below_each_other() -> None:
    """A curve has a row a level, with its label, and no margin."""
    rows = [Row(0.9, 0.8, 1.0, (0.9,), "c=1"), Row(-0.1, -0.2, 0.0, (-0.1,), "c=32")]
    found = drawn(claim(*rows, least=None))
    heights = [centre(one)[1] for one in having(found, "estimate")]

    assert heights == sorted(heights)
    assert len(set(heights)) == 2
    assert [one.text for one in having(found, "tick")][-1] == "c=32"
    assert having(found, "margin") == []


@given(
    rounds=st.lists(st.floats(-0.9, 5), min_size=1, max_size=8),
    half=st.floats(0, 2),
    margin=st.floats(-0.9, 0.9),
    higher=st.booleans(),
)
@example(rounds=[5e-324], half=0.0, margin=0.0, higher=False).via("the smallest number there is")
@example(rounds=[5e-324], half=1.0, margin=0.0, higher=False).via("the same with a wide interval")
def test_all_marks_lie_within_the_picture(rounds: list[float], half: float, margin: float, higher: bool) -> None:
    """Whatever was found, nothing is drawn outside of the picture."""
    mean = sum(rounds) / len(rounds)
    what = claim(Row(mean, mean - half, mean + half, tuple(rounds)), least=margin, higher=higher)
    for picture in (strip(what, name="s", title="t"), by_round(what, name="r", title="t")):
        found = parsed(picture)
        _, _, width, height = map(float, found.get("viewBox", "").split())
        marks = [centre(one) for name in ("estimate", "round") for one in having(found, name)]
        corners = [corner for one in having(found, "interval") for corner in points(one.get("d", ""))]

        assert all(0 <= x <= width and 0 <= y <= height for x, y in [*marks, *corners])


def test_rounds_lie_at_their_values_in_their_order() -> None:
    """Each round is a dot at its place; the mean is a line, the interval a band, the margin where it lies."""
    found = parsed(by_round(claim(least=-0.2), name="r", title="t"))
    value, along = values_along_y(found), values_along_x(found)
    dots = [centre(one) for one in having(found, "round")]
    (band,), (mean,), (margin,) = having(found, "band"), having(found, "mean"), having(found, "margin")
    top = float(band.get("y", "nan"))

    assert [value(y) / 100 for _, y in dots] == pytest.approx([-0.03, -0.046], abs=2e-3)
    assert [along(x) for x, _ in dots] == pytest.approx([1, 2], abs=1e-2)
    assert value(centre(mean)[1]) / 100 == pytest.approx(-0.038, abs=2e-3)
    assert [value(top) / 100, value(top + float(band.get("height", "nan"))) / 100] == pytest.approx(
        [0.135, -0.144], abs=3e-3
    )
    assert value(centre(margin)[1]) / 100 == pytest.approx(-0.2, abs=2e-3)


def test_of_times_better_is_up() -> None:
    """A shorter time is better, so it lies higher, with its own sign."""
    found = parsed(
        by_round(claim(Row(-0.1, dots=(-0.2, 0.0)), least=None, most=0.1, higher=False), name="r", title="t")
    )
    first, second = (centre(one)[1] for one in having(found, "round"))

    assert first < second
    assert having(found, "band") == []


STEPS = (
    Step("tokens per step", 0.9, "+146.0 %"),
    Step("steps per second", -0.5, "-39.3 %"),
    Step("residual", 0.0, "0.0 %", shown=False),
    Step("output throughput", 0.4, "+49.2 %", total=True),
)


def test_factors_begin_where_the_one_before_ended() -> None:
    """Their logarithms add up: the whole change ends where the last factor ends."""
    found = parsed(waterfall(STEPS, name="w", title="t"))
    (zero,) = having(found, "zero")
    start = centre(zero)[0]
    bars = list(found.iter("rect"))
    (a, b), (c, d), _, (e, f) = spans(bars)
    unit = (b - a) / 0.9

    assert a == pytest.approx(start, abs=0.02)
    assert d == pytest.approx(b, abs=0.02)
    assert (d - c) / unit == pytest.approx(0.5, abs=1e-3)
    assert (e, (f - e) / unit) == pytest.approx((start, 0.4), abs=0.02)
    assert [one.get("class") for one in bars] == ["faster", "slower", "slower unshown", "total"]


def test_factors_are_told() -> None:
    """The description holds each factor with its change."""
    found = parsed(waterfall(STEPS, name="w", title="t"))

    assert found.findtext("desc") == (
        "tokens per step +146.0 %, steps per second -39.3 %, residual 0.0 %, output throughput +49.2 %."
    )


def test_the_figures_of_a_claim_are_told() -> None:
    """The description holds estimate, interval, rounds and margin."""
    assert drawn(claim()).findtext("desc") == (
        "estimate -3.8 %, interval -14.4 % to +13.5 %, one by one -3 %, -4.6 %. Margin -50 %."
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.392, "+39.2 %"), (-0.4, "-40 %"), (0.0, "0 %"), (-0.00004, "0 %"), (0.0004, "+0.04 %"), (12.345, "+1234.5 %")],
)
def test_changes_are_told_with_their_sign(value: float, text: str) -> None:
    """A change has no more digits than it needs, and no sign where it is none."""
    assert change_text(value) == text
