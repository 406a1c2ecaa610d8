"""Metrics by draft position: one for every position, counted from 1 as k counts, and one row for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate import AddedMetric, UsageError, at_least, not_worse, not_worse_than_baseline
from pytest_specgate.core.errors import RecordError
from pytest_specgate.core.metric_definitions import MetricDefinition
from pytest_specgate.core.metrics import (
    EVERY_POSITION,
    METRICS,
    is_metric,
    measure,
    metric,
    position_metrics,
    with_added,
)
from pytest_specgate.core.speculation import SpeculationDelta

if TYPE_CHECKING:
    from pytest_specgate.core.thresholds import AnyThreshold
    from tests.core.conftest import Build

ONE_BASED = "draft positions are counted from 1, as k is, and each has its own, as acceptance_rate_position_1"


def test_every_position_has_a_metric_of_the_same_kind() -> None:
    """Any position from 1 has a row with its number, and is no row of the table."""
    row = metric("acceptance_rate_position_12")

    assert (row.position, row.unit, row.better, row.counted) == (12, "share", "higher", "drafts")
    assert (row.source, row.needs_speculation, row.stored_key) == ("server counters", True, row.name)
    assert metric("acceptance_rate_position_12") is row
    assert (row.name in METRICS, is_metric(row.name), is_metric(EVERY_POSITION.name)) == (False, True, False)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("acceptance_rate_position_0", f": {ONE_BASED}"),
        ("acceptance_rate_position_", f": {ONE_BASED}"),
        ("acceptance_rate_position_N", f": {ONE_BASED}"),
        ("acceptance_rate_position", f": {ONE_BASED}"),
        ("acceptance_position_0", f": {ONE_BASED}"),
        ("acceptance_rate_positon_12", "; did you mean 'acceptance_rate_position_12'?"),
        ("acceptance_rate_pos_3", "; did you mean 'acceptance_rate_position_3'?"),
        ("acceptance_rate_positon_2", "; did you mean 'acceptance_rate_position_2'?"),
        ("aceptance_rate", "; did you mean 'acceptance_rate'?"),
    ],
)
def test_a_name_that_is_no_position_is_refused_with_the_way_to_write_one(name: str, hint: str) -> None:
    """Position 0, no number and the name of the row are told that positions begin at 1; others the nearest name."""
    with pytest.raises(UsageError) as raised:
        metric(name)

    assert str(raised.value) == f"there is no metric {name!r}{hint}"


def test_it_is_what_was_accepted_there_of_all_drafts(build: type[Build]) -> None:
    """Forty drafts of which 30, 20, 10 and none were accepted up to each position."""
    point = build.point([build.request(i) for i in range(10)], speculation=build.drafted(10, k=4))

    found = [measure(name, point, build.profile()) for name in position_metrics(4)]

    assert [one.value for one in found] == [0.75, 0.5, 0.25, 0.0]
    assert {one.n for one in found} == {40}


@pytest.mark.parametrize(
    ("speculation", "name", "why"),
    [
        (
            (40, 160, 60, (30, 20, 10, 0)),
            "acceptance_rate_position_5",
            "counts 4 draft positions, and this is number 5",
        ),
        ((0, 0, 0, (0, 0)), "acceptance_rate_position_1", "nothing was drafted or decoded between the two scrapes"),
        (None, "acceptance_rate_position_1", "nothing was drafted or decoded between the two scrapes"),
    ],
)
def test_what_was_not_drafted_has_no_rate(
    build: type[Build], speculation: tuple[int, int, int, tuple[int, ...]] | None, name: str, why: str
) -> None:
    """A position that is not counted, and a point without drafts, have no value instead of 0."""
    drafted = None if speculation is None else SpeculationDelta(*speculation)
    point = build.point([build.request(i) for i in range(10)], speculation=drafted)

    found = measure(name, point, build.profile())

    assert found.value is None
    assert why in (found.missing or "")


@pytest.mark.parametrize("claim", ["limit", "change", "absolute", "relative"])
def test_a_position_beyond_the_horizon_is_refused_at_collection(build: type[Build], claim: str) -> None:
    """A claim about a token that the arm never drafts could only be INVALID after all the boots."""
    name = "acceptance_rate_position_5"
    claims: dict[str, AnyThreshold] = {
        "limit": at_least(name, "10%", at=1),
        "change": not_worse(name, at=1, margin="2pp"),
        "absolute": not_worse_than_baseline(name, at=1, margin="2pp", mode="absolute"),
        "relative": not_worse_than_baseline(name, at=1, margin="2pp", mode="relative"),
    }
    gate = build.gate(build.pair(reference=7, candidate=4), claims[claim])

    with pytest.raises(UsageError) as raised:
        gate.check()

    assert str(raised.value).endswith(
        "is about draft position 5, and k4 drafts 4 tokens: positions are counted from 1 to 4"
    )


def test_what_compares_two_arms_needs_the_position_in_both(build: type[Build]) -> None:
    """A limit is about the candidate alone, and a change needs the position of the reference, too."""
    pair = build.pair(reference=4, candidate=7)

    build.gate(pair, at_least("acceptance_rate_position_7", "1%", at=1)).check()

    with pytest.raises(UsageError, match="is about draft position 7, and k4 drafts 4 tokens"):
        build.gate(pair, not_worse("acceptance_rate_position_7", at=1, margin="2pp")).check()


def test_no_project_adds_a_metric_of_such_a_name() -> None:
    """Whoever reads a record would not know which of the two was meant."""
    name = "acceptance_rate_position_3"
    definition = MetricDefinition(name=name, unit="share", better="higher", formula="a test's")

    with pytest.raises(UsageError, match=f"there is a metric '{name}' already"):
        AddedMetric(name, unit="share", better="higher", formula="a test's", compute=lambda _: 1.0)
    with pytest.raises(RecordError, match=f"{name} was added to the table"), with_added([definition]):
        pass
