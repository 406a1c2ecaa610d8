"""A measured window as tests read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.measured import MeasuredWindow
from pytest_specgate.core.metrics import Measured
from pytest_specgate.core.stored import Failure

if TYPE_CHECKING:
    from pytest_specgate.core.records import PointRecord
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

    assert first == Measured(None, "arm off, round 1: c=1, c=8 was not measured")
    assert second.value == pytest.approx(0.05)


def test_a_failed_boot_has_no_values(build: type[Build]) -> None:
    """A boot that failed has no value at any point, not even at those it finished: the reason stands in its round."""
    window = _window(build)
    failure = Failure(reason="server-died", message="it died")
    record = build.edited(window.record, arm="k4", edit=lambda boot: boot.model_copy(update={"failure": failure}))

    for at in (1, 8):
        first, second = MeasuredWindow(record, window.path).values("ttft_p50", arm="k4", at=at)

        assert first == Measured(None, "it died")
        assert second.value is not None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"error": "HTTP 500: no"}, "arm k4 at c=1: 1 of 10 requests failed, the first with: HTTP 500: no"),
        ({"output_tokens": 5}, "arm k4 at c=1: request 0 ended after 5 of 11 output tokens"),
        (
            {"output_tokens": None},
            "arm k4 at c=1: the server sent no usage for 1 requests, so their tokens are unknown",
        ),
    ],
)
def test_a_point_that_cannot_be_judged_has_no_value(
    build: type[Build], *, changes: dict[str, Any], problem: str
) -> None:
    """A point whose requests are not all sound has the reason instead of a figure; its neighbours keep theirs."""
    window = _window(build)

    def spoil(point: PointRecord) -> PointRecord:
        first, *others = point.requests
        return point.model_copy(update={"requests": (first.model_copy(update=changes), *others)})

    spoilt = MeasuredWindow(build.edited_point(window.record, arm="k4", edit=spoil), window.path)
    first, second = spoilt.values("output_throughput", arm="k4", at=1)
    beside = [measured for arm, at in (("k4", 8), ("off", 1)) for measured in spoilt.values("ttft_p50", arm=arm, at=at)]

    assert first == Measured(None, problem)
    assert all(measured.value is not None for measured in (second, *beside))


def test_a_point_is_judged_by_the_declaration_of_its_arm(build: type[Build]) -> None:
    """Counters without speculation are sound for the arm without it, and not for the arm that declares it."""
    window = _window(build)
    plain = build.point([build.request(index) for index in range(10)])
    record = build.edited_point(window.record, arm="k4", edit=lambda _: plain)
    record = build.edited_point(record, arm="off", edit=lambda _: plain)

    spoilt = MeasuredWindow(record, window.path)
    declared, off = (spoilt.values("ttft_p50", arm=arm, at=1)[0] for arm in ("k4", "off"))

    assert declared == Measured(None, "arm k4 at c=1: the server has no speculation counters")
    assert off.value == pytest.approx(0.1)


def test_a_metric_without_enough_requests_has_no_value(build: type[Build]) -> None:
    """A sound point that cannot support a percentile says what it would need."""
    first, _ = _window(build).values("ttft_p99", arm="k4", at=1)

    assert first == Measured(None, "10 requests have a value, and 500 are needed")


def test_an_arm_that_never_ran_has_no_values(build: type[Build]) -> None:
    """An arm of the window without a boot has no rounds."""
    window = MeasuredWindow(build.window(build.pair(), [1.0], []), "record.json")

    assert window.values("ttft_p50", arm="k4", at=1) == ()


@pytest.mark.parametrize(
    ("metric", "arm", "at", "problem"),
    [
        ("ttft_p50", "k5", 1, "the window has no arm 'k5'; did you mean 'k4'?"),
        ("ttft_p50", "k4", 2, "at=2 is no point of the profile, which measures c=1, c=8"),
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
