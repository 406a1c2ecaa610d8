"""Load levels in reports, and how each point pressed and how the client bore it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.counters import CounterPage
from pytest_specgate.reporting.properties import properties
from pytest_specgate.reporting.tables import ArmBoots, load_table, speculation_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import PointRecord, WindowRecord
    from tests.reporting.conftest import Window


def readable(pair: ArmPair, record: WindowRecord) -> list[ArmBoots]:
    """Return all boots of a pair, by arm."""
    return [ArmBoots(arm, boots) for arm, boots in zip(pair.arms, record.boots_for(pair), strict=True)]


def rows(pair: ArmPair, record: WindowRecord) -> list[list[str]]:
    """Return the words of the load table's rows."""
    return [line.split() for line in load_table(readable(pair, record), record).splitlines()[2:]]


def with_client(**changes: float) -> Callable[[PointRecord], PointRecord]:
    """Return an edit of how the client fared."""
    return lambda point: point.model_copy(update={"client": point.client.model_copy(update=changes)})


def risen(name: str, rise: float) -> Callable[[PointRecord], PointRecord]:
    """Return an edit that raises a counter of the later page."""

    def edit(point: PointRecord) -> PointRecord:
        samples = [
            one.model_copy(update={"value": one.value + rise * (one.name == name)}) for one in point.after.samples
        ]
        return point.model_copy(update={"after": CounterPage(samples=tuple(samples))})

    return edit


def without(name: str) -> Callable[[PointRecord], PointRecord]:
    """Return an edit that takes a counter off both pages."""

    def edit(point: PointRecord) -> PointRecord:
        pages = {
            side: CounterPage(samples=tuple(one for one in page.samples if not one.name.startswith(name)))
            for side, page in (("before", point.before), ("after", point.after))
        }
        return point.model_copy(update=pages)

    return edit


def test_every_point_says_how_it_pressed(window: type[Window], k4_off: ArmPair) -> None:
    """Requests in flight, tokens a chunk, preemptions, cache hits, the client's CPU and lateness, by arm and load."""
    record = window.of(k4_off, speeds={}).record

    assert rows(k4_off, record) == [
        ["off", "c=1", "10.00", "1.000", "0", "0.0", "%", "5", "%", "2.0"],
        ["c=8", "16.00", "1.000", "0", "0.0", "%", "5", "%", "2.0"],
        ["k4", "c=1", "10.00", "1.000", "0", "0.0", "%", "5", "%", "2.0"],
        ["c=8", "16.00", "1.000", "0", "0.0", "%", "5", "%", "2.0"],
    ]


def test_the_load_table_stands_below_speculation(window: type[Window], k4_off: ArmPair) -> None:
    """The summary says what its figures are: means over boots."""
    lines = window.of(k4_off, speeds={}).lines()
    start = lines.index("load and client, mean over boots")

    assert lines.index("speculation, from counter deltas of each point, all rounds pooled") < start
    assert lines[start + 1].split() == [
        "arm", "load", "in", "flight", "tokens/chunk", "preempted", "prefix", "hits", "client", "CPU", "client", "lag",
        "p99", "[ms]",
    ]  # fmt: skip


def test_boots_are_added_up_and_the_worst_lateness_shown(window: type[Window], k4_off: ArmPair) -> None:
    """CPU is time over time of all boots, preemptions are summed, and of lateness and cache hits the worst counts."""
    one = window.of(k4_off, speeds={}).with_point(
        "k4", 1, at=1, edit=with_client(cpu_s=2.5, wall_s=10.0, lag_p95_s=0.015, lag_p99_s=0.015)
    )
    one = one.with_point("k4", 1, at=1, edit=risen(counters.PREEMPTIONS, 3))
    one = one.with_point("k4", 2, at=1, edit=risen(counters.PREEMPTIONS, 2))
    one = one.with_point("k4", 2, at=1, edit=risen(counters.PREFIX_HITS, 1.0))

    assert rows(k4_off, one.record)[2] == ["k4", "c=1", "10.00", "1.000", "5", "0.6", "%", "15", "%", "15.0"]


def test_tokens_a_chunk_are_those_of_the_client(window: type[Window], k4_off: ArmPair) -> None:
    """Eleven tokens in five events are 2.2 a chunk."""
    one = window.of(k4_off, speeds={})
    for number in (1, 2):
        one = one.with_requests("k4", number, at=8, token_events=5)

    assert [row[-7:][0] for row in rows(k4_off, one.record)] == ["1.000", "1.000", "1.000", "2.200"]


def test_what_a_server_does_not_count_is_a_dash(window: type[Window], k4_off: ArmPair) -> None:
    """A server without the counter has no such figure: not 0 preemptions."""
    one = window.of(k4_off, speeds={})
    for number in (1, 2):
        one = one.with_point("off", number, at=1, edit=without(counters.PREEMPTIONS))
    words = rows(k4_off, one.record)[0]

    assert words[:4] == ["off", "c=1", "10.00", "1.000"]
    assert words[4] == "-"


def test_points_that_cannot_be_judged_have_no_row(window: type[Window], k4_off: ArmPair) -> None:
    """Case 139: a figure of a point that is invalid is shown nowhere, also not as a load."""
    one = window.of(k4_off, speeds={})
    for name in ("off", "k4"):
        for number in (1, 2):
            one = one.with_requests(name, number, at=8, error="lost")
    none = one
    for name in ("off", "k4"):
        for number in (1, 2):
            none = none.with_requests(name, number, at=1, error="lost")

    assert [row[:2] for row in rows(k4_off, one.record)] == [["off", "c=1"], ["k4", "c=1"]]
    assert load_table(readable(k4_off, none.record), none.record) == ""
    assert "load and client, mean over boots" not in none.lines()


def test_case_63_steps_that_are_not_counted_are_a_dash(window: type[Window], k4_off: ArmPair) -> None:
    """Case 63: a server whose version names its steps otherwise has no step time; acceptance is shown all the same."""
    one = window.of(k4_off, speeds={})
    for number in (1, 2):
        one = one.with_point("k4", number, at=1, edit=without(counters.STEPS[0]))
    table = speculation_table(readable(k4_off, one.record), one.record).splitlines()[2:]

    assert table[0].split() == [
        "k4",
        "c=1",
        "-",
        "-",
        "-",
        "2.500",
        "0.3750",
        "4.000",
        "0.750",
        "0.500",
        "0.250",
        "0.000",
    ]


def test_an_arrival_rate_is_a_load_like_others(window: type[Window], open_loop: ArmPair) -> None:
    """The rate with its unit stands where a concurrency would: in head, table, claim and lines below."""
    one = window.of(open_loop, speeds={"k4": 1.2}).gated("ttft_p50", at="4/s")
    lines = one.lines()

    assert lines[1].endswith("10 requests at c=1, 12 requests at 4/s")
    assert one.row("output throughput", at="4/s").startswith("4/s output throughput [tokens/s] ")
    assert "PASS (not worse than +5 %)" in one.row("TTFT p50", at="4/s")
    assert one.verdict().claim == "TTFT p50 at 4/s not worse by more than 5 %"
    assert [row[:2] for row in rows(open_loop, one.record)][-1] == ["4/s", "12.00"]


@pytest.mark.parametrize(
    ("at", "load", "own"), [("4/s", "4/s", ("specgate_rate_per_s", 4.0)), (1, "c=1", ("specgate_concurrency", 1))]
)
def test_a_load_has_properties_of_its_kind(
    window: type[Window], open_loop: ArmPair, *, at: int | str, load: str, own: tuple[str, float]
) -> None:
    """A label for every load, and a number under a name that says whether it is workers or requests a second."""
    found = dict(properties(window.of(open_loop, speeds={}).gated("ttft_p50", at=at).verdict()))

    assert found["specgate_load"] == load
    assert found[own[0]] == own[1]
    assert len({"specgate_concurrency", "specgate_rate_per_s", "specgate_temperature"} & found.keys()) == 1
    assert found["specgate_samples"] == (12 if at == "4/s" else 10)


def test_a_level_with_a_temperature_is_a_load_like_others(window: type[Window], k4_off: ArmPair) -> None:
    """It has rows of its own in every table, and its temperature is a number beside its workers."""
    requests: dict[Level, int] = {8: 16, "8 T=0.8": 12}
    mixed = dataclasses.replace(k4_off, profile=dataclasses.replace(k4_off.profile, requests=requests))
    one = window.of(mixed, speeds={}).gated("tpot_p50", at="8 T=0.8")
    found = dict(properties(one.verdict()))
    places = ("specgate_load", "specgate_concurrency", "specgate_temperature", "specgate_samples")

    assert [found[name] for name in places] == ["c=8 T=0.8", 8, 0.8, 12]
    assert one.lines()[1].endswith("16 requests at c=8, 12 requests at c=8 T=0.8")
    assert one.verdict().claim == "TPOT p50 at c=8 T=0.8 not worse by more than 5 %"
    assert [line.strip().split("  ")[0] for line in one.lines() if line.strip().startswith("c=8")][:2] == [
        "c=8",
        "c=8 T=0.8",
    ]


def test_an_open_loop_is_not_said_to_be_bunched(window: type[Window], open_loop: ArmPair) -> None:
    """Its sends follow their own schedule."""
    assert not any("sends in bunches" in line for line in window.of(open_loop, speeds={}).lines())


def test_a_load_of_which_one_point_is_invalid_has_no_row_and_no_rhythm(window: type[Window], k4_off: ArmPair) -> None:
    """What the other boots measured at it is shown nowhere, and the rows that are left name their arm."""
    alone, many = (window.of(k4_off, speeds={}).with_requests("k4", 1, at=at, error="lost") for at in (1, 8))
    (rhythm,) = [line for line in many.lines() if line.startswith("sends in bunches")]

    assert [row[0] for row in rows(k4_off, alone.record)] == ["off", "c=8", "k4"]
    assert "(c=8 off 100 %)" in rhythm
