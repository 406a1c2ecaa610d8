"""Metrics that a project adds: how they are declared, computed, stored, and found among those of the table."""

from __future__ import annotations

import contextvars
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_specgate.core.added_metrics import AddedMetric, MetricFunctions, together
from pytest_specgate.core.errors import RecordError, ScrapeError, UsageError
from pytest_specgate.core.metric_definitions import AddedValue, MetricDefinition
from pytest_specgate.core.metrics import METRICS, added_definitions, measure, metric, rows, with_added
from pytest_specgate.core.thresholds import LimitThreshold, Threshold

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.core.records import PointRecord
    from tests.core.conftest import Build


def added(name: str = "queue_time_mean", **changes: Any) -> AddedMetric:
    """Return a metric as a project adds it."""
    fields: dict[str, Any] = {
        "unit": "s",
        "better": "lower",
        "formula": "time in the queue / requests",
        "compute": lambda _: 0.25,
    }
    return AddedMetric(**{"name": name, **fields, **changes})


def definition(name: str = "queue_time_mean", **changes: Any) -> MetricDefinition:
    """Return what is stored of one."""
    return added(name, **changes).definition


def value_of(
    build: type[Build], compute: Callable[[PointRecord], Any], *, requests: int = 3, **fields: Any
) -> AddedValue:
    """Return what comes of a function at a point of so many requests."""
    point = build.point([build.request(index) for index in range(requests)])
    return MetricFunctions((added(compute=compute, **fields),)).values(point)["queue_time_mean"]


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "taken": ({"name": "ttft_p50"}, "there is a metric 'ttft_p50' already: choose another name"),
    "outputs": ({"name": "outputs_agree"}, "there is a metric 'outputs_agree' already"),
    "capitals": ({"name": "QueueTime"}, "'QueueTime' is no name of a metric: use small letters, digits and _"),
    "path": ({"name": "a/b"}, "'a/b' is no name of a metric"),
    "unit": ({"unit": "ms"}, "AddedMetric.unit: input should be 's', 'tokens/s'"),
    "direction": ({"better": "neither"}, "AddedMetric.better: input should be 'higher' or 'lower', got 'neither'"),
    "formula": ({"formula": ""}, "AddedMetric.formula: string should have at least 1 character"),
    "bidi": ({"label": "a\u202eb"}, "U+202E is a character that nobody sees: leave it out"),
    "unseen": ({"formula": "a\u200bb"}, "U+200B is a character that nobody sees: leave it out"),
    "escape": ({"label": "a\x1b[2Jb"}, "AddedMetric.label: string should match pattern"),
    "function": ({"compute": 0.25}, "AddedMetric.compute: input should be callable, got 0.25"),
    "series": ({"series": ("vllm:x{a}",)}, "'vllm:x{a}' is no name of a series: write it as /metrics has it"),
    "one_series": ({"series": "vllm:x_sum"}, "AddedMetric.series: input should be a valid tuple, got 'vllm:x_sum'"),
    "requests": ({"minimum_requests": 0}, "AddedMetric.minimum_requests: input should be greater than or equal to 1"),
    "misspelt": ({"units": "s"}, "AddedMetric has no field 'units'; did you mean 'unit'?"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_declaration_is_one_sentence(name: str) -> None:
    """What is wrong is named where it is written, and what is meant is guessed."""
    changes, sentence = MISTAKES[name]
    with pytest.raises(UsageError) as caught:
        added(**changes)

    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_metric_needs_a_direction() -> None:
    """Nothing is gated whose better side nobody has named."""
    with pytest.raises(UsageError, match="AddedMetric needs 'better'"):
        AddedMetric(name="x", unit="s", formula="x", compute=lambda _: 1.0)  # type: ignore[call-arg]


def test_metrics_are_put_together_by_name() -> None:
    """Those of one plugin stand beside those of another."""
    found = together({"one": added("one")}, [added("two")])

    assert list(found) == ["one", "two"]


@pytest.mark.parametrize(
    ("further", "sentence"),
    [
        (["queue_time"], "a metric is added as AddedMetric(...), got str"),
        ([added("one")], "metric one is added twice: one name, one metric"),
        ([added("ttft_p50_s", unit="share")], "metric ttft_p50_s would be stored as ttft_p50_s, as ttft_p50 is"),
        ([added("one_s", unit="share")], "metric one_s would be stored as one_s, as one is: rename it"),
        (
            [added("two", label="TTFT  p50")],
            "metric two would be shown as 'TTFT  p50', as ttft_p50 is: give it another",
        ),
        ([added("two", label="One")], "metric two would be shown as 'One', as one is: give it another label"),
    ],
)
def test_what_cannot_stand_beside_the_others_is_refused(further: list[Any], sentence: str) -> None:
    """No two metrics share a name, or a key in stored files."""
    with pytest.raises(UsageError) as caught:
        together({"one": added("one")}, further)

    assert sentence in str(caught.value)


@pytest.mark.parametrize("number", [0, 3, 0.25, np.float32(0.25), np.int64(2), Fraction(1, 4)])
def test_a_number_is_the_value(build: type[Build], number: Any) -> None:
    """Any number of 0 or more is taken as a float, of as many requests as are complete."""
    found = value_of(build, lambda _: number)

    assert (found.value, found.missing, found.n) == (float(number), None, 3)
    assert type(found.value) is float


def _raising(error: BaseException) -> Callable[[Any], float]:
    def compute(_: Any) -> float:
        raise error

    return compute


class _Skipped(BaseException):
    """As pytest's own outcomes are: no `Exception`."""


@pytest.mark.parametrize(
    ("compute", "reason"),
    [
        (lambda _: None, "its function returned None"),
        (lambda _: True, "its function returned a bool, and a number is wanted"),
        (lambda _: "0.25", "its function returned a str, and a number is wanted"),
        (lambda _: float("nan"), "its function returned nan, which no metric can be"),
        (lambda _: float("inf"), "its function returned inf, which no metric can be"),
        (lambda _: np.float64("-inf"), "its function returned -inf, which no metric can be"),
        (lambda _: 1e308, "its function returned 1e+308, and more than 1e+15 is no measurement"),
        (_raising(ValueError("\udc80")), "its function failed: ValueError: \\udc80"),
        (lambda _: -0.1, "its function returned -0.1, which no metric can be"),
        (lambda _: 10**400, "its function failed: OverflowError: int too large to convert to float"),
        (lambda _: 1 / 0, "its function failed: ZeroDivisionError: division by zero"),
        (_raising(ScrapeError("/metrics has no series vllm:x_sum")), "/metrics has no series vllm:x_sum"),
        (_raising(ValueError("two\nlines")), "its function failed: ValueError: two lines"),
        (_raising(ValueError("api_key=words-of-a-secret")), "its function failed: ValueError: api_key=[redacted]"),
        (_raising(_Skipped("not today")), "its function failed: _Skipped: not today"),
    ],
)
def test_what_is_no_number_leaves_the_metric_without_a_value(
    build: type[Build], compute: Callable[[Any], Any], reason: str
) -> None:
    """Absent is `None` with its reason, never 0, whatever the function did; secrets are cut out of the reason."""
    assert value_of(build, compute) == AddedValue(value=None, missing=reason, n=0)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_an_interrupted_function_interrupts_the_run(build: type[Build], error: BaseException) -> None:
    """Ctrl-C in a user's function is no missing value."""
    with pytest.raises(type(error)):
        value_of(build, _raising(error))


def test_a_long_reason_is_cut(build: type[Build]) -> None:
    """A function that raises a whole page fills no record with it."""
    found = value_of(build, _raising(ValueError("x" * 9999)))

    assert found.missing is not None
    assert len(found.missing) == 300


def test_too_few_requests_give_no_value(build: type[Build]) -> None:
    """A percentile of three requests is none, and its function is not asked."""
    found = value_of(build, _raising(AssertionError("it was asked")), requests=3, minimum_requests=10)

    assert found == AddedValue(value=None, missing="3 requests completed, and 10 are needed")


@given(returned=st.floats() | st.integers() | st.none() | st.text(max_size=3) | st.booleans())
def test_no_return_value_breaks_anything(build: type[Build], returned: Any) -> None:
    """Whatever comes back, there is a finite value of 0 or more, or a reason, and never both."""
    found = value_of(build, lambda _: returned)

    assert (found.value is None) != (found.missing is None)
    assert found.value is None or 0 <= found.value < float("inf")


def test_a_metric_is_known_while_its_block_lasts() -> None:
    """It is found among those of the table, with its unit and direction, and gone afterwards."""
    with with_added([definition(label="queue time")]):
        row = metric("queue_time_mean")
        known, defined = list(rows()), added_definitions()

    assert (row.label, row.unit, row.better, row.stored_key) == ("queue time", "s", "lower", "queue_time_mean_s")
    assert known == [*METRICS, "queue_time_mean"]
    assert defined == (row.definition,)
    assert (list(rows()), added_definitions()) == (list(METRICS), ())
    with pytest.raises(UsageError, match="there is no metric 'queue_time_mean'"):
        metric("queue_time_mean")


def test_a_misspelt_name_finds_the_added_one() -> None:
    """The nearest name may be one that was added."""
    with (
        with_added([definition()]),
        pytest.raises(UsageError, match="no metric 'queue_time_meen'; did you mean 'queue_time_mean'"),
    ):
        metric("queue_time_meen")


def test_an_inner_block_knows_only_its_own() -> None:
    """A record that is read within a session is judged by its own metrics; then those of the session are back."""
    with with_added([definition("outer")]):
        with with_added([definition("inner")]):
            inside = [one.name for one in added_definitions()]
        outside = [one.name for one in added_definitions()]

    assert (inside, outside) == (["inner"], ["outer"])


def test_another_context_knows_nothing_of_it() -> None:
    """What is added is no state that all share."""
    apart = contextvars.copy_context()
    with with_added([definition()]):
        found = apart.run(added_definitions)

    assert found == ()


def test_a_name_of_the_table_is_refused_in_a_record() -> None:
    """A later version may have a metric of that name, which is another one."""
    taken = definition().model_copy(update={"name": "ttft_p50"})

    with (
        pytest.raises(RecordError, match="ttft_p50 was added to the table by the project that measured it"),
        with_added([taken]),
    ):
        pytest.fail("it was taken")


def test_a_definition_that_stands_twice_is_refused() -> None:
    """Nobody knows which of the two is meant."""
    with (
        pytest.raises(RecordError, match="metric queue_time_mean is defined twice"),
        with_added([definition(), definition()]),
    ):
        pytest.fail("they were taken")


def test_its_value_is_read_from_the_point(build: type[Build]) -> None:
    """What was stored is the value; a point that lacks it says so."""
    plain = build.point([build.request()])
    kept = plain.model_copy(update={"added": {"queue_time_mean": AddedValue(value=0.25, n=7)}})
    lost = plain.model_copy(update={"added": {"queue_time_mean": AddedValue(value=None, missing="no request waited")}})
    with with_added([definition()]):
        found = [measure("queue_time_mean", point, build.profile()) for point in (kept, lost, plain)]

    assert [(one.value, one.n, one.missing) for one in found] == [
        (0.25, 7, None),
        (None, 0, "no request waited"),
        (None, 0, "it was not computed when this was measured"),
    ]


def test_thresholds_take_it_like_any_other() -> None:
    """Margins, limits and directions are checked by its definition."""
    with with_added(
        [definition(), definition("share_kept", unit="share", better="higher"), definition("n", unit="events")]
    ):
        claim = Threshold("queue_time_mean", 1, "not_worse", 0.05)
        limit = LimitThreshold("queue_time_mean", 1, "at_most", 0.2)
        with pytest.raises(UsageError, match="at_least bounds queue_time_mean on its good side"):
            LimitThreshold("queue_time_mean", 1, "at_least", 0.2)
        with pytest.raises(UsageError, match="n is a count, which has no ratio"):
            Threshold("n", 1, "not_worse", 0.05)
        points = Threshold("share_kept", 1, "not_worse", 0.02, None, 0.0, points=True)

    assert (claim.id, limit.id) == ("c1-queue_time_mean-not_worse", "c1-queue_time_mean-at_most")
    assert points.points


@pytest.mark.parametrize(
    "changes",
    [{"name": "A"}, {"unit": "ms"}, {"better": "neither"}, {"formula": ""}, {"series": ("a b",)}, {"label": "\x07"}],
)
def test_a_stored_definition_is_checked(changes: dict[str, Any]) -> None:
    """A record may come from anywhere."""
    with pytest.raises(ValidationError):
        MetricDefinition.model_validate({**definition().model_dump(), **changes})


def test_two_definitions_are_compared_by_what_makes_a_value() -> None:
    """A label, and the requests below which there is no value, change no value."""
    plain, shown = definition(), definition(label="queue time", minimum_requests=10)

    assert plain.compared == shown.compared
    for changes in ({"formula": "other"}, {"unit": "requests"}, {"better": "higher"}, {"series": ("vllm:x_sum",)}):
        assert definition(**changes).compared != plain.compared
