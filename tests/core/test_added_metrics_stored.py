"""Metrics that a project adds, in what is stored: records, calibrations, baselines, and gates on their way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.baseline_fit import known_baseline
from pytest_specgate.core.baseline_offer import added_metrics_of
from pytest_specgate.core.baselines import BaselineFile
from pytest_specgate.core.calibration import CalibrationWindow, NoiseBook, figures, window_of
from pytest_specgate.core.comparison_claims import claims_of
from pytest_specgate.core.errors import RecordError, UsageError
from pytest_specgate.core.gate_exports import exported, gate_on
from pytest_specgate.core.judge import judge
from pytest_specgate.core.metric_definitions import AddedValue, MetricDefinition
from pytest_specgate.core.metrics import DEFINITION_VERSION, metric, with_added
from pytest_specgate.core.records import PairRecord, WindowRecord
from pytest_specgate.core.resume import Source, Today, taken_over
from pytest_specgate.core.stored_gates import gates_of, stored_gate
from pytest_specgate.core.thresholds import LimitThreshold
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.core.window_comparison import compare_windows
from pytest_specgate.reporting.baseline_json import baseline_json
from pytest_specgate.reporting.baseline_show import history_lines, show_lines
from pytest_specgate.reporting.record_json import record_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specgate.core.gate import Gate
    from tests.core.conftest import Build

NAME = "queue_time_mean"
QUEUE = MetricDefinition(name=NAME, unit="s", better="lower", formula="time in the queue / requests")
OTHER = QUEUE.model_copy(update={"formula": "time in the queue / batches"})


def window(
    build: type[Build],
    values: Mapping[str, Sequence[float | None]],
    *,
    definition: MetricDefinition = QUEUE,
    day: int = 1,
) -> WindowRecord:
    """Return a window of k=4 against off, with values of the added metric by arm and round."""
    rounds = len(values["off"])
    pair = build.pair(rounds=max(2, rounds))
    plain = build.day(pair, day, [1.0] * rounds, [1.0] * rounds)

    def valued(boot: Any) -> Any:
        value = values[boot.arm][boot.round - 1]
        found = AddedValue(value=value, missing="no request waited" if value is None else None, n=10)
        points = [point.model_copy(update={"added": {definition.name: found}}) for point in boot.points]
        return boot.model_copy(update={"points": tuple(points)})

    return plain.model_copy(
        update={"added_metrics": (definition,), "boots": tuple(valued(boot) for boot in plain.boots)}
    )


def gate(build: type[Build], *, rounds: int = 2, **claim: Any) -> Gate:
    """Return a gate on the added metric."""
    fields: dict[str, Any] = {"floor": 0.02, "margin": 0.05, **claim}
    limit = LimitThreshold(NAME, 1, "at_most", 0.5)
    return build.gate(build.pair(rounds=rounds), build.threshold(NAME, **fields), limit)


def reloaded(record: WindowRecord) -> WindowRecord:
    """Return a record as it is read from its file."""
    return WindowRecord.model_validate_json(record.model_dump_json())


@pytest.mark.parametrize(
    ("candidate", "outcomes"),
    [([0.1, 0.1], [Outcome.PASS, Outcome.PASS]), ([0.8, 0.8], [Outcome.FAIL, Outcome.FAIL])],
)
def test_a_record_is_judged_by_the_values_in_it(
    build: type[Build], candidate: list[float], outcomes: list[Outcome]
) -> None:
    """The verdicts are those of the run, where nobody has the function any more."""
    record = window(build, {"off": [0.2, 0.2], "k4": candidate})
    with with_added([QUEUE]):
        own = gate(build)
        there = judge(own, record)
        kept = reloaded(record.model_copy(update={"gates": (stored_gate(own),)}))
    with with_added(kept.added_metrics):
        (again,) = gates_of(kept)
        here = judge(again, kept)

    assert [verdict.outcome for verdict in there] == outcomes
    assert there == here
    assert "queue time mean at c=1" in here[0].claim


def test_a_gate_on_a_metric_that_nobody_knows_cannot_be_read(build: type[Build]) -> None:
    """A record whose definitions were cut out says which metric is missing."""
    with with_added([QUEUE]):
        stored = stored_gate(gate(build))
    record = window(build, {"off": [0.2], "k4": [0.1]}).model_copy(update={"gates": (stored,), "added_metrics": ()})

    with pytest.raises(RecordError, match="there is no metric 'queue_time_mean'"):
        gates_of(record)


def test_a_missing_value_is_invalid_with_its_reason(build: type[Build]) -> None:
    """A gate on what was not computed is INVALID, and says what the function said."""
    record = window(build, {"off": [0.2, 0.2], "k4": [0.1, None]})
    with with_added([QUEUE]):
        verdicts = judge(gate(build), record)

    assert {(verdict.outcome, verdict.reason) for verdict in verdicts} == {(Outcome.INVALID, "missing-metric")}
    assert all("arm k4 at c=1: no queue_time_mean: no request waited" in verdict.summary for verdict in verdicts)


def test_the_short_form_has_values_and_definitions(build: type[Build]) -> None:
    """A program finds the figures under the name with the unit, and the direction beside them."""
    record = window(build, {"off": [0.2, 0.2], "k4": [0.1, 0.1]})
    with with_added(record.added_metrics):
        found: Any = record_json(record, path="record.json", judged=())

    assert found["arms"][1]["points"]["c1"]["values"]["queue_time_mean_s"] == [0.1, 0.1]
    assert found["added_metrics"][0]["better"] == "lower"


def calibrated(
    values: Sequence[float], *, definition: MetricDefinition | None = QUEUE, day: int = 1
) -> CalibrationWindow:
    """Return an A/A window with values of the added metric, or of one of the table of the same name."""
    return CalibrationWindow(
        measured_at=f"2026-11-{day:02d}T12:00:00+00:00",
        engine={},
        values={"c1": {NAME: tuple(values)}},
        added_metrics=() if definition is None else (definition,),
    )


def test_calibrations_know_the_unit_where_nobody_else_does(build: type[Build]) -> None:
    """The noise of a share is in points, and follows from its values also without the project's conftest.py."""
    share = QUEUE.model_copy(update={"unit": "share"})
    arm, profile = build.arm(), build.profile()
    book = NoiseBook(host_class="cpu-2c").with_window(arm, profile, calibrated([0.4, 0.5, 0.6], definition=share))

    book.verify()
    assert book.arms[0].noise["c1"][NAME].sd == pytest.approx(0.1)
    assert figures([calibrated([0.4, 0.5, 0.6])])["c1"][NAME].sd == pytest.approx(0.203, abs=0.001)


def test_values_of_two_definitions_are_not_pooled() -> None:
    """What was computed by an older formula says nothing of the noise of today's."""
    old, new = calibrated([0.1, 0.9], definition=OTHER), calibrated([0.4, 0.5, 0.6], day=2)

    assert figures([old, new]) == figures([new])
    assert figures([old, calibrated([0.4, 0.5, 0.6], definition=OTHER, day=2)])["c1"][NAME].boots == 5


@pytest.mark.parametrize(("definition", "count"), [(QUEUE, 1), (OTHER, 0), (None, 0)])
def test_a_calibration_applies_to_its_own_definition_only(
    build: type[Build], definition: MetricDefinition | None, count: int
) -> None:
    """Noise of another formula, or of a metric that is added no more, is not taken for today's."""
    arm, profile = build.arm(), build.profile()
    book = NoiseBook(host_class="cpu-2c").with_window(arm, profile, calibrated([0.4, 0.5, 0.6]))
    with with_added([] if definition is None else [definition]):
        found = book.noises([arm], profile)

    assert len(found) == count


def test_an_a_a_window_calibrates_it(build: type[Build]) -> None:
    """It is calibrated like all others, and its definition goes with it."""
    record = window(build, {"off": [0.2, 0.3], "k4": [0.1, 0.1]})
    with with_added(record.added_metrics):
        found = window_of(build.arm(), record)

    assert found.values["c1"][NAME] == (0.2, 0.3)
    assert found.added_metrics == (QUEUE,)


def accepted(build: type[Build]) -> tuple[Gate, BaselineFile]:
    """Return a gate that claims something of the baseline of the added metric, and that baseline."""
    with with_added([QUEUE]):
        own = build.gate(build.pair(rounds=2), build.claim(NAME))
        windows = [window(build, {"off": [0.2, 0.2], "k4": [0.1, 0.1]}, day=day) for day in (1, 2, 3)]
        return own, build.accepted(own, *windows)


def test_a_baseline_says_what_its_figures_are(build: type[Build]) -> None:
    """It is shown where nobody knows the metric: label, unit and direction stand in it."""
    _, file = accepted(build)
    kept = BaselineFile.model_validate_json(file.model_dump_json())
    shown, drawn = ("\n".join(lines(kept, path="x.json")) for lines in (show_lines, history_lines))
    stored: Any = baseline_json(kept, path="x.json")

    assert "c1-queue_time_mean: queue time mean at c=1, candidate / reference; less is better" in shown
    assert "100.0 ms" in shown
    assert "queue time mean at c=1" in drawn
    assert stored["entries"][0]["windows"][0]["candidate_queue_time_mean_s"] == pytest.approx(0.1)


def test_a_baseline_of_another_formula_says_nothing(build: type[Build]) -> None:
    """The claim is INVALID, and names in what the definitions differ."""
    own, file = accepted(build)
    with with_added([OTHER]):
        known = known_baseline(own, own.baselines[0], file, path="x.json", host_class=file.host_class, settings={})

    assert known.problem is not None
    assert known.problem.reason == "other-definition"
    assert "the project defines the metric of this baseline otherwise today" in known.problem.message
    assert known.problem.detail.startswith('metric.formula: "time in the queue / requests" in the baseline')


def test_a_broken_definition_in_a_baseline_is_told() -> None:
    """A file that was edited by hand is refused in one sentence."""
    with pytest.raises(RecordError, match="the definition of an added metric cannot be read: unit: "):
        added_metrics_of({"metric": {**QUEUE.compared, "unit": "ms"}})


def test_two_windows_are_compared_by_it(build: type[Build]) -> None:
    """A margin may name it, and its change is shown with its direction."""
    one, two = (
        window(build, {"off": [0.2, 0.2], "k4": values}, day=day) for day, values in ((1, [0.1] * 2), (2, [0.2] * 2))
    )
    with with_added(one.added_metrics):
        claims = claims_of(cross_window="3%", source="a test", margins=[f"{NAME}=5%"])
        found = compare_windows(one, two, claims)
    (row,) = [row for row in found.rows if (row.metric, row.mode, row.at) == (NAME, "relative", 1)]

    assert row.outcome is Outcome.FAIL
    assert row.change == pytest.approx(1.0)


def test_windows_that_define_it_otherwise_are_not_compared_by_it(build: type[Build]) -> None:
    """Values of two formulas stand beside each other in no table."""
    values = {"off": [0.2, 0.2], "k4": [0.1, 0.1]}
    one, two = window(build, values), window(build, values, definition=OTHER, day=2)
    with with_added(one.added_metrics):
        found = compare_windows(one, two, claims_of(cross_window="3%", source="a test", margins=[f"{NAME}=5%"]))
    rows = [row for row in found.rows if row.metric == NAME and row.at == 1 and row.mode == "relative"]

    assert [(row.outcome, row.reason) for row in rows] == [(Outcome.INVALID, "other-definition")]


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        ((), "it names queue_time_mean, which its project adds, and which was not computed for the record"),
        ((OTHER,), 'formula of metric queue_time_mean is "time in the queue / requests" in the gate, and "time in the'),
        (
            (QUEUE.model_copy(update={"unit": "events"}),),
            'unit of metric queue_time_mean is "s" in the gate, and "events"',
        ),
    ],
)
def test_another_gate_file_must_mean_the_same_metric(
    build: type[Build], known: tuple[MetricDefinition, ...], sentence: str
) -> None:
    """A gate is not judged by values of another metric of the same name."""
    with with_added([QUEUE]):
        asked = json.loads(json.dumps(exported(gate(build))))
    record = window(build, {"off": [0.2, 0.2], "k4": [0.1, 0.1]}).model_copy(update={"added_metrics": known})

    with with_added(known), pytest.raises(UsageError) as caught:
        gate_on(record, asked)
    assert sentence in str(caught.value)


def test_another_gate_file_of_the_same_metric_is_judged(build: type[Build]) -> None:
    """Its claims are read with the definitions of the record."""
    with with_added([QUEUE]):
        asked = json.loads(json.dumps(exported(gate(build, margin=0.5))))
    record = window(build, {"off": [0.2, 0.2], "k4": [0.1, 0.1]})
    with with_added(record.added_metrics):
        verdicts = judge(gate_on(record, asked), record)

    assert {verdict.outcome for verdict in verdicts} == {Outcome.PASS}


def test_a_gate_of_the_table_exports_no_definition(build: type[Build]) -> None:
    """Only what its thresholds name goes with it."""
    with with_added([QUEUE]):
        found = exported(build.gate(build.pair(), build.threshold()))
        row = metric(NAME)

    assert found["added_metrics"] == []
    assert row.definition == QUEUE


@pytest.mark.parametrize(
    ("today", "sentence"),
    [
        ((QUEUE,), None),
        ((), "added_metrics.queue_time_mean: "),
        (
            (OTHER,),
            "added_metrics.queue_time_mean.formula: time in the queue / requests there, and time in the queue / b",
        ),
    ],
)
def test_a_window_goes_on_with_the_same_metrics_only(
    build: type[Build], today: tuple[MetricDefinition, ...], sentence: str | None
) -> None:
    """Rounds of two definitions make no window."""
    whole = window(build, {"off": [0.2, 0.2], "k4": [0.1, 0.1]})
    pair = build.pair(rounds=6)
    told = {"client_version": "client 2", "metric_definition_version": DEFINITION_VERSION}
    boots = tuple(boot.model_copy(update={"profile": {**boot.profile, **told}}) for boot in whole.boots)
    record = whole.model_copy(update={"finished": False, "boots": boots, "pairs": (PairRecord.of(pair),)})
    asked = Today(
        (pair,), (), strict=False, settings={}, host_class=record.host_class, host=record.host, engine=record.engine,
        commit="", client_version="client 2",
    )  # fmt: skip
    with with_added(today):
        if sentence is None:
            assert taken_over([asked], record, Source("record.json", "a" * 64))[1].rounds == 2
            return
        with pytest.raises(UsageError) as caught:
            taken_over([asked], record, Source("record.json", "a" * 64))

    assert sentence in str(caught.value)
