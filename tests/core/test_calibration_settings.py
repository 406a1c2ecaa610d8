"""Calibrations and what servers were started with, and figures that another mathematical library computed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.calibration import CalibrationWindow, NoiseBook
from pytest_specgate.core.errors import RecordError

if TYPE_CHECKING:
    from tests.core.conftest import Build

METRIC = "output_throughput"
NARROW: dict[str, Any] = {"args": ["--max-num-seqs=1"], "env": {}, "command": []}
WIDE: dict[str, Any] = {"args": ["--max-num-seqs=8"], "env": {}, "command": []}


def _window(*values: float) -> CalibrationWindow:
    values_by_point = {"c1": {METRIC: values}}
    return CalibrationWindow(measured_at="2026-11-29T12:00:00+00:00", engine={}, values=values_by_point)


def _book(build: type[Build], settings: dict[str, Any]) -> NoiseBook:
    book = NoiseBook(host_class="h")
    return book.with_window(build.arm(), build.profile(), _window(100.0, 102.0), settings=settings)


def test_a_calibration_does_not_cross_what_servers_are_given(build: type[Build]) -> None:
    """Arguments of the session make another server: what was measured without them says nothing of it."""
    book, arm, profile = _book(build, NARROW), build.arm(), build.profile()

    assert book.of(arm, profile, settings=dict(NARROW)) is not None
    assert book.of(arm, profile, settings=WIDE) is None
    assert book.of(arm, profile) is None
    assert len(book.noises([arm], profile, settings=NARROW)) == 1
    assert book.noises([arm], profile, settings=WIDE) == ()


def test_windows_of_other_settings_are_entries_of_their_own(build: type[Build]) -> None:
    """They are kept side by side, and never pooled, in an order that does not depend on that of the runs."""
    arm, profile = build.arm(), build.profile()
    books = [
        _book(build, first).with_window(arm, profile, _window(100.0, 102.0), settings=second)
        for first, second in ((NARROW, WIDE), (WIDE, NARROW))
    ]

    assert books[0] == books[1]
    assert [len(entry.windows) for entry in books[0].arms] == [1, 1]
    assert len({entry.settings_sha256 for entry in books[0].arms}) == 2


@pytest.mark.parametrize(("field", "factor"), [("sd", 1 + 1e-12), ("sd", 1 - 1e-12), ("df", 1 + 1e-12)])
def test_the_last_digits_depend_on_the_library(build: type[Build], field: str, factor: float) -> None:
    """A logarithm that another machine rounds differently is no edit by hand."""
    book = _book(build, {})
    entry = book.arms[0]
    figure = entry.noise["c1"][METRIC]
    off = figure.model_copy(update={field: getattr(figure, field) * factor})
    rounded = entry.model_copy(update={"noise": {"c1": {METRIC: off}}})

    assert off != figure
    book.model_copy(update={"arms": (rounded,)}).verify()


@pytest.mark.parametrize("factor", [1 + 1e-6, 1 - 1e-6, math.inf])
def test_more_than_the_last_digits_is_an_edit(build: type[Build], factor: float) -> None:
    """What no rounding explains is refused, as is a figure that was left out or made up."""
    book = _book(build, {})
    entry = book.arms[0]
    figure = entry.noise["c1"][METRIC]
    rows = {"c1": {METRIC: figure.model_copy(update={"sd": figure.sd * factor})}}
    if math.isinf(factor):
        rows = {"c1": {METRIC: figure, "ttft_p50": figure}}

    wrong: list[dict[str, Any]] = [rows, {"c1": {}}, {}, {"c2": entry.noise["c1"]}]
    for noise in wrong:
        forged = entry.model_copy(update={"noise": noise})
        with pytest.raises(RecordError, match="the noise of arm off does not follow from its windows"):
            book.model_copy(update={"arms": (forged,)}).verify()
