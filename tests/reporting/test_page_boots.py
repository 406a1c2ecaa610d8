"""The pictures of boots: when each ran, and whether the figures drift from boot to boot."""

from __future__ import annotations

import pytest

from pytest_specgate.reporting.page_boots import Bar, Deviation, cut, drift, timeline
from tests.reporting.svg_reading import centre, having, parsed, tip, values_along_x, values_along_y

BARS = (
    Bar(1, "off", 0, 0.0, 46.9, 113.0),
    Bar(2, "k4", 1, 114.0, 161.0, 228.0),
    Bar(3, "k7", 2, 228.0, None, 290.0, problem="server-died"),
)


def test_boots_lie_over_their_time() -> None:
    """Each boot is one bar: light from its start until it answered, full until its server was gone."""
    found = parsed(timeline(BARS, name="t", title="boots"))
    second = values_along_x(found)
    ends = {}
    for kind in ("starting", "serving"):
        for bar, rect in zip(BARS, having(found, kind), strict=True):
            left = float(rect.get("x", "nan"))
            ends[bar.number, kind] = (second(left), second(left + float(rect.get("width", "nan"))))

    assert ends[1, "starting"] == pytest.approx((0, 46.9), abs=1)
    assert ends[1, "serving"] == pytest.approx((46.9, 113), abs=1)
    assert ends[2, "starting"] == pytest.approx((114, 161), abs=1)
    assert ends[3, "starting"] == pytest.approx((228, 290), abs=1)
    assert ends[3, "serving"] == pytest.approx((290, 290), abs=1)


def test_a_boot_that_cannot_be_judged_is_crossed() -> None:
    """It has a mark of its own besides its colour, and says why."""
    found = parsed(timeline(BARS, name="t", title="boots"))
    told = [tip(group) for group in found.iter("g")]

    assert len(having(found, "cross")) == 1
    assert told[2] == "boot 3, k7: from 228 s to 290 s, never ready; server-died"


def test_long_windows_count_minutes() -> None:
    """From five minutes on, the axis is in minutes."""
    found = parsed(timeline((Bar(1, "off", 0, 0.0, 60.0, 600.0),), name="t", title="boots"))
    (serving,) = having(found, "serving")
    left, width = (float(serving.get(name, "nan")) for name in ("x", "width"))

    assert [one.text for one in having(found, "axis")] == ["since the first start [min]"]
    assert values_along_x(found)(left + width) == pytest.approx(10, abs=0.05)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("k4", "k4"), ("a" * 14, "a" * 14), ("candidate-of-a-long-name-7", "candid\N{HORIZONTAL ELLIPSIS}-name-7")],
)
def test_long_names_keep_their_ends(name: str, shown: str) -> None:
    """Names of arms differ at their ends, so what is left out is in the middle."""
    assert cut(name) == shown
    assert len(shown) <= 14


FOUND = (
    Deviation(1, "off", 0, 0.143, (0.107, 0.18)),
    Deviation(2, "k4", 1, -0.026, (0.013, -0.065)),
    Deviation(3, "k4", 1, 0.026, (-0.012, 0.07)),
    Deviation(4, "off", 0, -0.125, (-0.096, -0.153)),
)


def test_boots_lie_as_far_from_the_mean_of_their_arm_as_they_were() -> None:
    """Marker and dots have the places of their boots and the heights of their deviations."""
    found = parsed(drift(FOUND, boots=4, name="d", title="drift"))
    value, along = values_along_y(found), values_along_x(found)
    marks = [centre(one) for one in having(found, "mark")]

    assert [along(x) for x, _ in marks] == pytest.approx([1, 2, 3, 4], abs=1e-2)
    assert [value(y) / 100 for _, y in marks] == pytest.approx([one.mean for one in FOUND], abs=2e-3)
    levels = [value(centre(one)[1]) / 100 for one in having(found, "dot")]
    assert levels == pytest.approx([level for one in FOUND for level in one.levels], abs=2e-3)


def test_a_deviation_of_nothing_has_no_minus() -> None:
    """What is rounded to 0 is no loss, in the description and in the tooltip."""
    found = parsed(drift((Deviation(1, "off", 0, -0.0004, (-0.0004,)),), boots=1, name="d", title="drift"))

    assert found.findtext("desc") == "boot 1, off: +0.0 %."
    assert tip(having(found, "mark")[0]) == "boot 1, off: +0.0 % from the mean of its arm"


def test_boots_of_an_arm_are_joined() -> None:
    """A line an arm makes a drift visible."""
    found = parsed(drift(FOUND, boots=4, name="d", title="drift"))

    assert [group.get("class") for group in found.iter("g") if having(group, "line")] == ["arm-1", "arm-2"]
