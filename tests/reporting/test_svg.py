"""What plots are drawn with: scales keep their order, ticks are round and lie within, texts stay texts."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_specgate.reporting import svg
from pytest_specgate.reporting.svg import MARKERS, Scale
from tests.reporting.svg_reading import centre, parsed

AMOUNTS = st.floats(1e-6, 1e9)
VALUES = st.floats(-1e9, 1e9)
HOSTILE = '</text><script>"\x1b[31m\u202e'


@pytest.mark.parametrize(
    ("scale", "value", "place"),
    [
        (Scale((0, 10), (100, 200)), 5, 150),
        (Scale((0, 10), (200, 100)), 2.5, 175),
        (Scale((-1, 1), (0, 10)), 0, 5),
        (Scale((1, 100), (0, 10), log=True), 10, 5),
        (Scale((1, 8), (0, 30), log=True), 2, 10),
    ],
)
def test_values_have_their_places(scale: Scale, value: float, place: float) -> None:
    """Equal differences, or equal ratios, are equally far apart, also on an axis that is turned around."""
    assert scale(value) == pytest.approx(place)
    assert scale.value(place) == pytest.approx(value)


@given(st.tuples(AMOUNTS, AMOUNTS), AMOUNTS, st.booleans())
def test_a_place_is_that_of_its_value_alone(ends: tuple[float, float], value: float, log: bool) -> None:
    """The value at the place of a value is that value, within the domain and beyond it."""
    low, high = sorted(ends)
    assume(high > low * 1.001)
    scale = Scale((low, high), (40, 340), log=log)

    assert scale.value(scale(value)) == pytest.approx(value, rel=1e-6, abs=1e-6 * high)


def test_what_lies_beyond_is_held_at_the_end() -> None:
    """A value outside the domain becomes the end that it lies beyond, one inside stays."""
    scale = Scale((2, 4), (0, 1))

    assert list(map(scale.within, (1, 3, 9))) == [2, 3, 4]


@given(VALUES, VALUES, st.integers(4, 9))
def test_linear_ticks_are_round_and_within(one: float, other: float, most: int) -> None:
    """They lie within both ends, are equally far apart, not too many, and hold 0 where it is inside."""
    low, high = sorted((one, other))
    assume(high - low > 1e-6 * max(1, abs(low), abs(high)))
    ticks = svg.linear_ticks(low, high, most=most)
    slack = 1e-6 * (high - low)

    assert 1 <= len(ticks) <= most
    assert all(low - slack <= tick <= high + slack for tick in ticks)
    steps = [later - earlier for earlier, later in itertools.pairwise(ticks)]
    assert steps == pytest.approx([steps[0]] * len(steps), rel=1e-3) if steps else True
    assert low > 0 or high < 0 or 0.0 in ticks


@given(AMOUNTS, st.floats(1.001, 1e6), st.integers(2, 9))
def test_logarithmic_ticks_are_powers_of_ten_and_round_parts_of_them(low: float, ratio: float, most: int) -> None:
    """They lie within both ends, are not too many, and have one digit."""
    ticks = svg.log_ticks(low, low * ratio, most=most)

    assert len(ticks) <= most
    assert all(low * 0.999 <= tick <= low * ratio * 1.001 for tick in ticks)
    assert {f"{tick:.0e}"[0] for tick in ticks} <= set("1235")


@pytest.mark.parametrize("ends", [(1.0, 1000.0), (90.0, 1700.0), (7.4, 114.5), (0.05, 0.7)])
def test_a_decade_has_two_logarithmic_ticks_at_least(ends: tuple[float, float]) -> None:
    """An axis over a factor of ten or more can be read."""
    assert len(svg.log_ticks(*ends)) >= 2


@given(VALUES, VALUES)
def test_an_axis_ends_with_ticks(one: float, other: float) -> None:
    """The domain of an axis holds the values, and its ends are ticks."""
    low, high = sorted((one, other))
    assume(high == low or high - low > 1e-6 * max(1, abs(low), abs(high)))
    first, last = svg.rounded_out(low, high)
    slack = 1e-6 * (last - first)

    assert first - slack <= low <= high <= last + slack
    assert first < last


@pytest.mark.parametrize(
    ("ticks", "sign", "texts"),
    [
        ((0.0, 50.0, 100.0), False, ("0", "50", "100")),
        ((0.0, 0.5, 1.0), False, ("0", "0.5", "1.0")),
        ((-20.0, 0.0, 20.0), True, ("-20", "0", "+20")),
        ((0.1 + 0.2,), False, ("0.3",)),
        ((1e-12,), False, ("0.000000000",)),
        ((), False, ()),
    ],
)
def test_ticks_have_the_decimals_that_they_need(ticks: tuple[float, ...], sign: bool, texts: tuple[str, ...]) -> None:
    """All ticks of an axis have as many decimals as one of them needs, and 0 is plain."""
    assert svg.tick_texts(ticks, sign=sign) == texts


@given(st.lists(st.tuples(st.floats(0, 400), st.sampled_from(["1", "32", "1024", "16/s"])), min_size=1, max_size=12))
def test_labels_do_not_touch(labels: list[tuple[float, str]]) -> None:
    """Of labels that would touch some are left out, and never the last one."""
    labels.sort()
    kept = list(svg.spread(labels))

    assert kept[-1] == labels[-1]
    assert set(kept) <= set(labels)
    for (left, first), (right, second) in itertools.pairwise(kept):
        assert right - left >= (svg.text_width(first) + svg.text_width(second)) / 2


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1"), (1.005, "1"), (12.346, "12.35"), (-0.001, "0"), (-2.5, "-2.5"), (100.0, "100")]
)
def test_places_have_two_decimals_at_most(value: float, text: str) -> None:
    """A hundredth of a unit is finer than any screen, and 0 has no sign."""
    assert svg.coordinate(value) == text


def test_paths_join_points() -> None:
    """A path moves to its first point, draws to the others, and may return."""
    assert svg.path([(0, 1), (2, 3.5)]) == "M0 1L2 3.5"
    assert svg.path([(0, 1), (2, 3), (4, 5)], closed=True) == "M0 1L2 3L4 5Z"
    assert svg.path([]) == ""


def test_elements_hold_texts_as_texts() -> None:
    """What stands in a text or an attribute starts no element, and steers no display."""
    found = svg.text_of(svg.node("text", HOSTILE, node_id=HOSTILE, x=1.0, y=None, class_="tick"))

    assert found.count("<") == 2
    assert "\x1b" not in found
    assert "\u202e" not in found
    assert parsed(found).text == '</text><script>"\\x1b[31m\\u202e'
    assert parsed(found).attrib == {"node-id": '</text><script>"\\x1b[31m\\u202e', "x": "1", "class": "tick"}


def test_a_picture_tells_what_it_shows() -> None:
    """It is an image for those who do not see it, named by its title and told by its description."""
    shown = svg.node("circle", r=1)
    found = parsed(svg.picture(shown, None, name="a", width=10, height=5, title="the title", description="all of it"))

    assert (found.get("role"), found.get("viewBox"), found.get("class")) == ("img", "0 0 10 5", "plot")
    names = {one.get("id"): one.text for one in found if one.get("id")}
    assert [names[one] for one in found.get("aria-labelledby", "").split()] == ["the title", "all of it"]
    assert [one.tag for one in found] == ["title", "desc", "circle"]


@pytest.mark.parametrize("shape", MARKERS)
def test_markers_lie_around_their_place(shape: str) -> None:
    """The middle of each shape is the place that was asked for, and all are about equally large."""
    mark = svg.node("path", d=svg.marker(shape, 40, 30, radius=4))
    corners = [abs(value) for value in map(float, mark.get("d", "").replace("M", " ").replace("L", " ").split()[:1])]

    assert centre(mark) == pytest.approx((40, 30), abs=0.02)
    assert math.isfinite(corners[0])
