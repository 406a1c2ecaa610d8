"""What advice on draft horizons says of itself: how sure it is, what its servers are, and what went wrong."""

from __future__ import annotations

import dataclasses
from typing import Any, NoReturn

import pytest

from pytest_specgate.core.differences import Difference, DifferenceReport
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.knee import Knee
from pytest_specgate.reporting import window_knee as window_knee_module
from pytest_specgate.reporting.knee import knee_lines
from pytest_specgate.reporting.knee_json import knee_report
from pytest_specgate.reporting.knee_markdown import knee_table
from pytest_specgate.reporting.knee_words import BUILDS, short_lines
from pytest_specgate.reporting.markup import prose
from pytest_specgate.reporting.page import html_page
from pytest_specgate.reporting.session_json import session_json
from pytest_specgate.reporting.window_knee import measured_window, window_knee
from tests.reporting.page_reading import read
from tests.reporting.page_runs import reported, session, three_arms


@pytest.fixture(scope="module", name="knee")
def knee_of_three_arms() -> Knee:
    """Return what a window of off, k=4 and k=7 tells."""
    found = window_knee(three_arms().record, "record.json")
    assert isinstance(found, Knee)
    return found


def test_advice_says_how_sure_all_of_it_is(knee: Knee) -> None:
    """Its comparisons together, and whether any horizon was ruled out at all."""
    lines = "\n".join(knee_lines(knee))
    stored = knee_report(knee).advice

    assert lines.count("intervals: 95 % for all 3 comparisons together") == 3
    assert "intervals: 95 % for all 3 comparisons together" in knee_table(three_arms().record, "r")
    assert [one.tells for one in stored] == ["no horizon is ruled out" not in line for line in lines.splitlines()
                                             if line.startswith(tuple(one.objective for one in stored))]  # fmt: skip


def test_what_is_wrong_with_a_window_stands_first(knee: Knee) -> None:
    """That it ended early; under its title what is not proved, and under its duels in what its servers differ."""
    found = knee.advice["ngram"][0]
    advice = {"ngram": (dataclasses.replace(found, differences=((0, 4, "a.b"), (4, 7, "c"), (0, 7, "a.b"))),)}
    source = dataclasses.replace(knee.sources[0], unfinished="it was stopped", unproved=("k4 was attached",))
    odd = dataclasses.replace(knee, sources=(source,), advice=advice, builds=True)
    lines, stored = "\n".join(knee_lines(odd)).splitlines(), knee_report(odd)

    assert lines[0] == "record.json: it was stopped"
    assert "k4 was attached" in lines
    assert "the servers of off and of k=4, k=7 also differ in a.b: k against k is the cleaner comparison" in lines
    assert "the servers of k=4 and of k=7 also differ in c" in lines
    assert lines[-1] == BUILDS
    assert (stored.sources[0].unfinished, stored.sources[0].unproved) == ("it was stopped", ("k4 was attached",))
    assert [(one.first, one.second, one.ids) for one in stored.advice[0].differences][:2] == [
        (0, 4, "a.b"),
        (4, 7, "c"),
    ]
    assert "k4 was attached" not in list(short_lines(odd)), "it stands with the pairs of the same report"


def test_a_section_that_fails_takes_no_verdict_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what went wrong, and everything else of the report is there."""

    def failing(*_: object, **__: object) -> NoReturn:
        raise UsageError("horizons up to k=65: write 1 to 64")

    monkeypatch.setattr(window_knee_module, "measured_window", failing)
    window, words = three_arms(), "which k: nothing is told, for this went wrong: horizons up to k=65: write 1 to 64"
    lines = window.lines()

    assert words in lines
    assert "k4 against off (args.speculative_config varies)" in lines
    assert knee_table(window.record, "r") == f"{prose(words)}\n\n"
    assert window_knee(window.record, "r") == words
    whole: dict[str, Any] = session_json(session(reported(window)))
    (told,) = whole["windows"]
    assert ("knee" in told, told["knee_problem"]) == (False, words)
    assert words in read(html_page(session(reported(window)))).having("window")[0].text


def test_servers_that_differ_in_more_are_read_from_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every declared pair with off first, without what the pair allows; the builds of a window have one name."""
    record = three_arms().record
    report = DifferenceReport((Difference("a.b", "engine-induced", 1, 2),))
    monkeypatch.setattr(window_knee_module, "differences_of", lambda *_: report)
    found = measured_window(record, "r")

    assert found.differences == {("off", "k4"): "a.b", ("k4", "k7"): "a.b"}
    assert found.build == measured_window(record, "other").build
