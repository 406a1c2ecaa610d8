"""Engine-induced differences beside a verdict and beside the figures."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.core.records import StartUpRecord
from pytest_specgate.reporting.differences import differences_in_short, pair_differences

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from tests.reporting.conftest import Window

ASYNC = "scheduler_config.async_scheduling"
NEWS = "WARNING [v.py] News"


def started(one: Window, *, changed: int, lines: dict[str, int] | None = None) -> Window:
    """Return the window with starts of both arms, of which the candidate's has some other settings and lines."""
    names = [ASYNC, *(f"x{place}" for place in range(1, changed))][:changed]
    starts = {
        "off": StartUpRecord(config={"same": 0, **dict.fromkeys(names, 1)}, lines={"ready": 1}),
        "k4": StartUpRecord(config={"same": 0, **dict.fromkeys(names, 2)}, lines={"ready": 1, **(lines or {})}),
    }
    boots = [boot.model_copy(update={"startup": starts[boot.arm]}) for boot in one.record.boots]
    return dataclasses.replace(one, record=one.record.model_copy(update={"boots": tuple(boots)}))


def test_what_is_not_known_is_not_called_none(window: type[Window], k4_off: ArmPair) -> None:
    """Nothing was kept of the starts, or one arm has no log."""
    one = window.of(k4_off, speeds={})

    assert differences_in_short(k4_off, one.record) == "not known, since nothing was kept of the starts of both arms"


def test_no_difference_is_none(window: type[Window], k4_off: ArmPair) -> None:
    """Both were read, and nothing was found."""
    assert differences_in_short(k4_off, started(window.of(k4_off, speeds={}), changed=0).record) == "none"


def test_differences_are_counted_and_named(window: type[Window], k4_off: ArmPair) -> None:
    """The most telling first, those beyond the fifth as a number, and how many are allowed."""
    one = started(window.of(k4_off, speeds={}), changed=7, lines={NEWS: 1})
    allowing = dataclasses.replace(k4_off, allow_engine_differences={ASYNC: "known", "x1": "known"})

    assert differences_in_short(k4_off, one.record) == f"8 ({ASYNC}, x1, x2, x3, x4 and 3 more)"
    assert differences_in_short(allowing, one.record).startswith("8, 2 of them allowed (")


def test_all_of_it_stands_beside_the_figures(window: type[Window], k4_off: ArmPair) -> None:
    """Group by group, with what is allowed and does not occur."""
    one = started(window.of(k4_off, speeds={}), changed=1)
    allowing = dataclasses.replace(k4_off, allow_engine_differences={"gone": "was there once"})
    lines = list(pair_differences(allowing, one.record))

    assert lines[:4] == [
        "",
        "differences of the servers of k4 against off, by resolved configuration and start-up log",
        f"engine-induced (1)  {ASYNC}: 1 -> 2 (one arm schedules while the device computes, the other does not)",
        "allowed, but not found: gone",
    ]
    assert lines[4] == "declared for off, and not told by its server: max_model_len"


def test_what_a_server_tells_otherwise_is_shown_with_both_values(window: type[Window], k4_off: ArmPair) -> None:
    """It may be the same thing in the server's words; a reader can tell."""
    asked = k4_off.reference.vary("off", args={"attention_backend": "FLASH_ATTN"})
    other = k4_off.candidate.vary("k4", args={"attention_backend": "FLASH_ATTN"})
    start = StartUpRecord(config={"attention_config.backend": None}, lines={"ready": 1})
    one = window.of(k4_off, speeds={})
    boots = [boot.model_copy(update={"startup": start}) for boot in one.record.boots]
    record = one.record.model_copy(update={"boots": tuple(boots)})
    lines = list(pair_differences(dataclasses.replace(k4_off, reference=asked, candidate=other), record))
    contrast = "declared attention_backend=FLASH_ATTN, the server says attention_config.backend=none"

    assert f"off: {contrast}" in lines
    assert f"k4: {contrast}" in lines


def test_half_of_it_is_not_called_all(window: type[Window], k4_off: ArmPair) -> None:
    """Where the log of an arm is missing, what was found in the configurations is told as a part."""
    one = started(window.of(k4_off, speeds={}), changed=1)
    empty = StartUpRecord(config=dict.fromkeys(("same", ASYNC), 2), lines={"ready": 0})
    for number in (1, 2):
        one = one.edited("k4", number, edit=lambda boot: boot.model_copy(update={"startup": empty}))
    short = differences_in_short(k4_off, one.record)

    assert short == f"2 ({ASYNC}, same); the rest is not known: there is no start-up log of both arms"
