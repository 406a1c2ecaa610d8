"""A measured window as tests read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.measured import MeasuredWindow
from pytest_specgate.core.metrics import Measured

if TYPE_CHECKING:
    from tests.core.conftest import Build


def _window(build: type[Build]) -> MeasuredWindow:
    return MeasuredWindow(build.window(build.pair(), [1.0, 2.0], [4.0, 5.0]), "record.json")


def test_values_come_round_by_round(build: type[Build]) -> None:
    """A metric of an arm has one value a round, in seconds."""
    values = _window(build).values("ttft_p50", arm="k4", at=8)

    assert [measured.value for measured in values] == [pytest.approx(0.025), pytest.approx(0.02)]


def test_an_unmeasured_point_has_no_value(build: type[Build]) -> None:
    """A boot without the point says so, in the place of its round."""
    window = _window(build)
    record = build.edited(window.record, arm="off", edit=lambda boot: boot.model_copy(update={"points": ()}))

    first, second = MeasuredWindow(record, window.path).values("ttft_p50", arm="off", at=1)

    assert first == Measured(None, "not measured")
    assert second.value == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("metric", "arm", "at", "problem"),
    [
        ("ttft_p50", "k5", 1, "the window has no arm 'k5'; did you mean 'k4'?"),
        ("ttft_p50", "k4", 2, "at=2 is no point of the profile, which measures c=1, 8"),
        ("ttft_50", "k4", 1, "there is no metric 'ttft_50'; did you mean 'ttft_p50'?"),
    ],
)
def test_a_wrong_question_names_the_mistake(
    build: type[Build], *, metric: str, arm: str, at: int, problem: str
) -> None:
    """An arm, point or metric that the window does not have is a usage error."""
    with pytest.raises(UsageError) as raised:
        _window(build).values(metric, arm=arm, at=at)

    assert str(raised.value) == problem
