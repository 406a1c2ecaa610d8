"""How long a window may still take: by what its boots took, by an earlier window, or not at all."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.progress import Begun, Forecast, Left, Step, exact_text, rough_text

EARLIER = {"off": 60.0, "k4": 90.0}
ROUND_1 = Begun("off", "round 1 of 2: off", "starting its server", after=("k4", "k4", "off"), in_round=1)
ARMS = st.sampled_from(["off", "k4", "k7"])
SECONDS = st.floats(allow_nan=True, allow_infinity=True)
TIMES = st.floats(min_value=0, max_value=1e6)


def _after_a_boot(took_s: float, *, failed: bool = False, earlier: dict[str, float] | None = None) -> Forecast:
    """Return the forecast when the first boot, of off, has ended after so many seconds."""
    known = EARLIER if earlier is None else earlier
    return Forecast(earlier=known).begun(ROUND_1, now_s=100.0).ended(now_s=100.0 + took_s, failed=failed)


def test_an_earlier_window_tells_first() -> None:
    """Before a boot has ended, all boots take what they took then: two of each arm, and ten seconds are over."""
    forecast = Forecast(earlier=EARLIER).begun(ROUND_1, now_s=100.0)

    assert forecast.left(110.0) == Left(50.0 + 90.0 + 90.0 + 60.0, at_most=False)


def test_boots_of_this_window_replace_the_earlier_ones() -> None:
    """Of an arm that was booted now, its own time counts, the mean of several; others keep what they took then."""
    second = Begun("off", "round 2 of 2: off", after=("k4",))

    forecast = _after_a_boot(20.0).begun(second, now_s=200.0).ended(now_s=240.0, failed=False)

    assert forecast.expected_s("off") == 30.0
    assert forecast.left(240.0) == Left(90.0, at_most=False)


def test_a_failed_boot_tells_nothing_of_others() -> None:
    """A server that died after a second does not make the next boot of its arm short."""
    assert _after_a_boot(1.0, failed=True).expected_s("off") == 60.0


def test_what_is_not_known_is_not_made_up() -> None:
    """One arm without any time leaves the whole window without one, and so does a window that has not begun."""
    only_off = Forecast(earlier={"off": 60.0}).begun(ROUND_1, now_s=0.0)

    assert only_off.left(0.0) is None
    assert "left" not in only_off.text(30.0)
    assert Forecast(earlier=EARLIER).left(0.0) is None
    assert Forecast(earlier=EARLIER).text(0.0) == ""


@pytest.mark.parametrize("strange", [math.nan, math.inf, -1.0, 1e300])
def test_a_clock_that_went_wrong_tells_nothing(strange: float) -> None:
    """A time that cannot be one counts as not known."""
    assert Forecast(earlier={**EARLIER, "k4": strange}).begun(ROUND_1, now_s=0.0).left(0.0) is None


def test_a_boot_that_takes_longer_than_expected_is_not_negative() -> None:
    """Its own rest is nothing then, and what comes after it stays."""
    assert Forecast(earlier=EARLIER).begun(ROUND_1, now_s=0.0).left(1000.0) == Left(240.0, at_most=False)


def test_what_may_be_decided_early_is_at_most() -> None:
    """Boots that a verdict may make needless are counted, and said to be the most."""
    begun = Begun("off", "round 1 of 2: off", after=("k4", "k4", "off"), in_round=1, sure=False)
    forecast = Forecast(earlier=EARLIER).begun(begun, now_s=0.0)

    assert forecast.left(0.0) == Left(300.0, at_most=True)
    assert forecast.text(0.0).endswith(", at most 5 min left")


@pytest.mark.parametrize(
    ("until_s", "left"),
    [
        (10_000.0, Left(300.0, at_most=False)),
        (200.0, Left(200.0, at_most=True)),
        (100.0, Left(150.0, at_most=True)),
        (-50.0, Left(150.0, at_most=True)),
    ],
)
def test_a_time_budget_ends_a_window_after_its_round(until_s: float, left: Left) -> None:
    """No round is begun beyond the budget, and the one that has begun is ended: off and k4, 150 seconds."""
    begun = Begun("off", "round 1 of 2: off", after=("k4", "k4", "off"), in_round=1, until_s=until_s)

    assert Forecast(earlier=EARLIER).begun(begun, now_s=0.0).left(0.0) == left


def test_between_two_boots_only_those_to_come_count() -> None:
    """When a boot has ended, nothing of it is left."""
    assert _after_a_boot(60.0).left(500.0) == Left(240.0, at_most=False)


def test_the_line_says_where_since_when_and_how_long() -> None:
    """Place, step with its requests, time of the step, and the rest of the window."""
    forecast = Forecast(earlier=EARLIER).begun(ROUND_1, now_s=0.0)
    at_point = forecast.stepped(Step("point", at=32, requests=128), now_s=20.0)

    assert forecast.text(0.5) == "round 1 of 2: off: starting its server, about 5 min left"
    assert at_point.text(90.0) == "round 1 of 2: off: c=32, 128 requests, 1 min 10 s so far, about 4 min left"
    assert at_point.parts(90.0)[0] == "round 1 of 2: off: c=32, 128 requests"


def test_several_windows_are_told_apart() -> None:
    """Where a session has more than one window, it is said which runs, and that the time is of it alone."""
    begun = Begun("off", "round 1 of 1: off", "starting its server", window="window 2 of 3")

    line = Forecast(earlier=EARLIER).begun(begun, now_s=0.0).text(0.0)

    assert line == "window 2 of 3, round 1 of 1: off: starting its server, about 60 s of this window left"
    assert begun.line == "window 2 of 3, round 1 of 1: off: starting its server"


def test_boots_are_numbered_to_their_most() -> None:
    """The number of all boots is that of this one and of those after it."""
    assert Begun("off", "", number=3, after=("k4", "off")).boots == 5


@pytest.mark.parametrize(
    ("step", "text", "line"),
    [
        (Step("prompts", words="making prompts from prose"), "making prompts from prose", "making prompts from prose"),
        (Step("warm-up", requests=4), "warm-up, 4 requests", ""),
        (Step("warm-up", requests=1), "warm-up, 1 request", ""),
        (Step("point", at=8, requests=32), "c=8, 32 requests", "k4: c=8, 32 requests"),
        (Step("point", at="4/s", requests=400), "4/s, 400 requests", "k4: 4/s, 400 requests"),
        (Step("stopping", words="stopping its server"), "stopping its server", ""),
    ],
)
def test_steps_in_words(step: Step, text: str, line: str) -> None:
    """Each step has its words, and those that are not over at once have a line of a log."""
    assert (step.text, step.line("k4")) == (text, line)


@pytest.mark.parametrize(
    ("seconds", "exact", "rough"),
    [
        (0.0, "0 s", "0 s"),
        (0.4, "0 s", "10 s"),
        (42.0, "42 s", "50 s"),
        (70.0, "1 min 10 s", "70 s"),
        (90.0, "1 min 30 s", "90 s"),
        (200.0, "3 min 20 s", "4 min"),
        (3599.0, "59 min 59 s", "60 min"),
        (7199.0, "1 h 59 min", "2 h"),
        (7260.0, "2 h 1 min", "2 h 10 min"),
    ],
)
def test_times_in_words(seconds: float, exact: str, rough: str) -> None:
    """What has passed is told to the second, and what is left is rounded up."""
    assert (exact_text(seconds), rough_text(seconds)) == (exact, rough)


@given(
    earlier=st.dictionaries(ARMS, SECONDS),
    took=st.dictionaries(ARMS, st.lists(TIMES, max_size=3).map(tuple)),
    boot=st.builds(
        Begun,
        ARMS,
        st.just("round 1 of 9"),
        after=st.lists(ARMS, max_size=9).map(tuple),
        in_round=st.integers(0, 3),
        sure=st.booleans(),
        until_s=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    ),
    began_s=TIMES,
    now_s=TIMES,
)
def test_what_is_left_is_a_time(
    earlier: dict[str, float], took: dict[str, tuple[float, ...]], boot: Begun, began_s: float, now_s: float
) -> None:
    """Whatever is known, the rest is not known, or a finite number of seconds that is not negative."""
    left = Forecast(earlier=earlier, took=took).begun(boot, now_s=began_s).left(now_s)

    assert left is None or 0 <= left.seconds < math.inf


@given(
    times=st.fixed_dictionaries(dict.fromkeys(("off", "k4", "k7"), st.floats(0, 1e5))),
    after=st.lists(ARMS, max_size=9),
    more=st.lists(ARMS, max_size=5),
    until_s=st.none() | TIMES,
    now_s=TIMES,
)
def test_more_boots_take_no_less(
    times: dict[str, float], after: list[str], more: list[str], until_s: float | None, now_s: float
) -> None:
    """A window with further boots to come is not expected to end sooner."""
    few, many = (
        Forecast(earlier=times).begun(Begun("off", "", after=tuple(arms), until_s=until_s), now_s=0.0).left(now_s)
        for arms in (after, [*after, *more])
    )

    assert few is not None
    assert many is not None
    assert many.seconds >= few.seconds - 1e-6


@given(times=st.fixed_dictionaries({"off": TIMES, "k4": TIMES}), now_s=TIMES, later_s=TIMES)
def test_waiting_makes_the_rest_no_longer(times: dict[str, float], now_s: float, later_s: float) -> None:
    """While one boot runs, the rest only falls."""
    forecast = Forecast(earlier=times).begun(ROUND_1, now_s=0.0)
    first, second = (forecast.left(moment) for moment in sorted((now_s, later_s)))

    assert first is not None
    assert second is not None
    assert second.seconds <= first.seconds
