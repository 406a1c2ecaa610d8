"""What came before a window: runs that it goes on with, and earlier attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.continuations import Continuation
from pytest_specgate.reporting.history import continued_text, history_lines
from pytest_specgate.reporting.properties import pair_properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.arms import ArmPair
    from tests.reporting.conftest import Window

ATTEMPT_3 = "attempt 3 of this pair of builds: each attempt until green adds about 3 % false PASS at the margin"


def _runs(rounds: Sequence[int]) -> tuple[Continuation, ...]:
    """Return runs that held so many whole rounds each, those of the run before included."""
    return tuple(
        Continuation(created_at="2026-11-29", record=f"{place}/record.json", record_sha256="a" * 64, rounds=count)
        for place, count in enumerate(rounds)
    )


def test_a_first_window_in_one_go_says_nothing(window: type[Window], k4_off: ArmPair) -> None:
    """There is nothing to know of it."""
    assert list(history_lines(window.of(k4_off, speeds={}).record)) == []


@pytest.mark.parametrize(
    ("rounds", "text"),
    [
        ([1], "round 1 from 0/record.json"),
        ([3], "rounds 1 to 3 from 0/record.json"),
        ([1, 2], "round 1 from 0/record.json, round 2 from 1/record.json"),
        ([3, 5], "rounds 1 to 3 from 0/record.json, rounds 4 to 5 from 1/record.json"),
        ([3, 3], "rounds 1 to 3 from 0/record.json, no whole round from 1/record.json"),
    ],
)
def test_rounds_are_named_by_the_run_that_measured_them(
    window: type[Window], k4_off: ArmPair, rounds: Sequence[int], text: str
) -> None:
    """A run holds those of the runs before it, too, and is named for what it added."""
    record = window.of(k4_off, speeds={}).record.model_copy(update={"continued": _runs(rounds)})

    assert continued_text(record) == text
    assert list(history_lines(record)) == [f"run {len(rounds) + 1} of this window: {text}"]


def test_attempts_are_told_from_the_second_on(window: type[Window], k4_off: ArmPair) -> None:
    """In the head of the summary, before any figure, and with what it means."""
    one = window.of(k4_off, speeds={})
    again = type(one)(one.record.model_copy(update={"attempt": 3}), one.pairs)

    assert again.lines()[1] == ATTEMPT_3
    assert not any("attempt" in line for line in one.lines())


def test_properties_tell_both(window: type[Window], k4_off: ArmPair) -> None:
    """The attempt always, and the runs that were continued where there are any."""
    record = window.of(k4_off, speeds={}).record
    later = record.model_copy(update={"attempt": 3, "continued": _runs([2])})
    names = ("specgate_attempt", "specgate_continued")
    found = [{name: dict(pair_properties(k4_off, one)).get(name) for name in names} for one in (record, later)]

    assert found == [
        {"specgate_attempt": 1, "specgate_continued": None},
        {"specgate_attempt": 3, "specgate_continued": "rounds 1 to 2 from 0/record.json"},
    ]
