"""Counter pages and their differences, on text that vLLM's own metrics code rendered and on a real server's pages."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from pytest_specgate.core import counters
from pytest_specgate.core.counters import CounterDelta, CounterPage, Sample
from pytest_specgate.core.errors import ScrapeError
from pytest_specgate.core.speculation import SpeculationDelta

if TYPE_CHECKING:
    from tests.core.conftest import Build, Captured

K7 = SpeculationDelta(60944, 426608, 126490, (44225, 29747, 19984, 13513, 9086, 6095, 3840))
K4 = SpeculationDelta(3478, 13912, 5738, (2507, 1607, 1033, 591))


def _zeroed(page: CounterPage) -> CounterPage:
    """Return the page of the same server before its first request: it began to count when it did."""
    started = (sample for sample in page.samples if sample.name.endswith("_created"))
    zeros = (one.model_copy(update={"value": 0.0}) for one in page.samples if not one.name.endswith("_created"))
    return CounterPage(samples=(*started, *zeros))


def _from_start(page: CounterPage) -> CounterDelta:
    return CounterDelta(_zeroed(page), page)


def _speculation(page: CounterPage) -> SpeculationDelta:
    speculation = _from_start(page).speculation()

    assert speculation is not None
    return speculation


def test_case_42_created_gauges_are_no_counters(captured: type[Captured]) -> None:
    """Case 42: times of creation, about 1.8e9, appear in no count."""
    speculation = _speculation(captured.page("sample_b"))

    assert speculation == SpeculationDelta(6, 22, 12, (5, 4, 2, 1))
    assert speculation.acceptance_rate == pytest.approx(0.5455, abs=5e-5)
    assert speculation.acceptance_length == 3.0


def test_case_43_names_are_looked_up_exactly(captured: type[Captured]) -> None:
    """Case 43: a counter whose name begins with another's is not added to it."""
    page = captured.page("sample_b")

    assert page.total(counters.ACCEPTED_TOKENS) == 12
    assert page.total(counters.ACCEPTED_PER_POSITION) == 12


def test_case_43_a_longer_name_is_another_counter() -> None:
    """Case 43: a series whose name only begins like the counter's, such as its time of creation, is not added."""
    names = {counters.GENERATION_TOKENS: 18.0, f"{counters.GENERATION_TOKENS}_created": 1.8e9}
    page = CounterPage(samples=tuple(Sample(name=name, labels={}, value=value) for name, value in names.items()))

    assert page.total(counters.GENERATION_TOKENS) == 18


def test_case_44_engines_are_summed_also_by_position(captured: type[Captured]) -> None:
    """Case 44: with two data-parallel engines every count, by position too, is the sum of both."""
    speculation = _speculation(captured.page("sample_d"))

    assert speculation == SpeculationDelta(12, 44, 24, (10, 8, 4, 2))
    assert speculation.acceptance_length == 1 + sum(speculation.per_position_rates) == 3.0


def test_case_46_a_counter_that_went_back_is_a_reset(build: type[Build]) -> None:
    """Case 46: a counter that fell from 100 to 40 is a reset, neither -60 nor 40 nor 60."""
    before, after = (build.page({counters.DRAFTS: value}, finished={}) for value in (100.0, 40.0))

    with pytest.raises(ScrapeError) as raised:
        CounterDelta(before, after).total(counters.DRAFTS)

    words = f"counter reset: {counters.DRAFTS} fell from 100 to 40 between two scrapes, so no delta can be formed"
    assert str(raised.value) == words


def _engines(*drafts: float) -> CounterPage:
    """Return a page with the draft counter of several engines."""
    labels = ({"engine": str(n), "model_name": "tiny"} for n in range(len(drafts)))
    samples = (Sample(name=counters.DRAFTS, labels=of, value=value) for of, value in zip(labels, drafts, strict=True))
    return CounterPage(samples=tuple(samples))


@pytest.mark.parametrize(
    ("after", "words"), [((40.0, 100.0), "fell from 100 to 40"), ((200.0, 9.0), "fell from 10 to 9")]
)
def test_case_46_a_reset_of_one_engine_is_seen_beside_another_that_rose(after: tuple[float, float], words: str) -> None:
    """Case 46: the rise of one engine does not hide that another went back."""
    with pytest.raises(ScrapeError, match=f"counter reset: {counters.DRAFTS} {words} between two scrapes"):
        CounterDelta(_engines(100, 10), _engines(*after)).total(counters.DRAFTS)


def test_case_46_a_series_that_vanished_is_a_reset() -> None:
    """Case 46: an engine that counted and is gone from the later page has been restarted."""
    with pytest.raises(ScrapeError, match=f"counter reset: {counters.DRAFTS} vanished between two scrapes"):
        CounterDelta(_engines(100, 10), _engines(200)).total(counters.DRAFTS)


def test_a_series_that_appeared_counts_from_zero() -> None:
    """A label value that occurs first between two scrapes rose from nothing, and one that stood at 0 may go."""
    assert CounterDelta(_engines(100), _engines(101, 7)).total(counters.DRAFTS) == 8
    assert CounterDelta(_engines(100, 0), _engines(101)).total(counters.DRAFTS) == 1


def test_case_46_a_reset_of_one_label_is_seen_behind_another(build: type[Build]) -> None:
    """Case 46: whichever labels are asked for, a counter that went back anywhere gives no delta."""
    before, after = build.page({}, finished={"length": 5, "abort": 3}), build.page({}, finished={"length": 9})

    with pytest.raises(ScrapeError, match="vanished"):
        CounterDelta(before, after).total(counters.FINISHED, finished_reason="length")


def test_case_48_without_drafts_nothing_is_defined() -> None:
    """Case 48: with 0 drafts acceptance is undefined: neither 0 nor 1 nor NaN."""
    idle = SpeculationDelta(0, 0, 0, (0, 0, 0, 0))

    assert (idle.acceptance_rate, idle.acceptance_length, idle.draft_length) == (None, None, None)
    assert idle.per_position_rates == ()
    assert idle.broken_identities() == ()


@pytest.mark.parametrize("name", sorted(counters.WANTED - counters.SPECULATION))
def test_case_50_a_page_without_series_is_not_a_page_of_zeros(name: str) -> None:
    """Case 50: a missing series is an error with its likely cause, not 0."""
    page = CounterPage(samples=(Sample(name="python_gc_objects_collected_total", labels={"generation": "0"}, value=1),))

    with pytest.raises(ScrapeError, match=f"no series {name}: was it started with --disable-log-stats"):
        page.total(name)


def test_case_51_a_histogram_called_total_is_no_counter(captured: type[Captured]) -> None:
    """Case 51: generation tokens are those of their counter; buckets of a histogram named alike are not summed."""
    page = captured.page("sample_b")

    assert page.total(counters.GENERATION_TOKENS) == 18
    assert not page.has("vllm:iteration_tokens_total")


@pytest.mark.parametrize(
    ("speculation", "broken"),
    [
        pytest.param(
            SpeculationDelta(100, 400, 250, (90, 70, 50, 20)),
            "accepted tokens by position sum to 230, not to 250",
            id="sum of the positions",
        ),
        pytest.param(
            SpeculationDelta(100, 400, 250, (60, 70, 70, 50)),
            "accepted tokens rise with the position: [60, 70, 70, 50]",
            id="rising",
        ),
        pytest.param(
            SpeculationDelta(120, 400, 450, (120, 120, 110, 100)),
            "450 tokens accepted of 400 drafted",
            id="more accepted than drafted",
        ),
        pytest.param(
            SpeculationDelta(100, 400, 210, (90, 70, 50)),
            "400 draft tokens in 100 drafts of at most 3",
            id="fewer positions than drafted",
        ),
    ],
)
def test_case_55_each_broken_identity_is_named(speculation: SpeculationDelta, broken: str) -> None:
    """Case 55: counters that contradict each other are named with their figures, and nothing else is."""
    assert speculation.broken_identities() == (broken,)


@pytest.mark.parametrize("speculation", [K7, K4], ids=["k7", "k4"])
def test_case_55_sound_counters_break_no_identity(speculation: SpeculationDelta) -> None:
    """Case 55: counters of a published run pass all identities."""
    assert speculation.broken_identities() == ()


def test_case_55_all_broken_identities_are_listed() -> None:
    """Case 55: several broken identities are all named."""
    assert len(SpeculationDelta(1, 9, 10, (1, 2)).broken_identities()) == 5


def test_case_57_short_drafts_are_told_from_falling_acceptance(captured: type[Captured]) -> None:
    """Case 57: per-position rates are shares of all drafts, and the draft length tells short drafts."""
    speculation = _speculation(captured.page("sample_b"))

    assert speculation.per_position_rates[2] == pytest.approx(2 / 6)
    assert speculation.draft_length == pytest.approx(3.67, abs=5e-3)


def test_case_62_finished_requests_by_reason(build: type[Build]) -> None:
    """Case 62: the success counter tells aborted requests apart, and reasons that did not occur are left out."""
    before = build.page({}, finished={"stop": 0, "length": 5})
    after = build.page({}, finished={"stop": 0, "length": 12, "abort": 3})

    assert CounterDelta(before, after).finished() == {"length": 7, "abort": 3}


def test_tokens_per_step_of_a_real_server(captured: type[Captured]) -> None:
    """Between two real scrapes tokens per step is (generation tokens - requests) / decode steps."""
    delta = CounterDelta(captured.page("ngram_k4_after_warmup"), captured.page("ngram_k4_after_c1"))

    assert delta.finished() == {"length": 8}
    assert delta.total(counters.GENERATION_TOKENS) == 8 * 64
    assert delta.total(f"{counters.STEPS[0]}_count") == 316
    assert delta.tokens_per_step() == pytest.approx((512 - 8) / 316)


def test_decode_time_of_a_real_server(captured: type[Captured]) -> None:
    """Between two real scrapes the time of decode steps is the rise of their summed time, in seconds."""
    delta = CounterDelta(captured.page("ngram_k4_after_warmup"), captured.page("ngram_k4_after_c1"))

    assert delta.decode_seconds() == pytest.approx(17.171509325999523 - 2.2431416169997647)


def test_speculation_of_a_real_server(captured: type[Captured]) -> None:
    """Between two real scrapes warm-up drafts are left out, and drafted steps are fewer than all steps."""
    delta = CounterDelta(captured.page("ngram_k4_after_warmup"), captured.page("ngram_k4_after_c1"))

    speculation = delta.speculation()

    assert speculation == SpeculationDelta(137, 548, 201, (75, 47, 43, 36))
    assert speculation.broken_identities() == ()
    assert f"{speculation.acceptance_length:.2f}" == "2.47"


def test_decode_time_needs_its_counter(build: type[Build]) -> None:
    """A page without the summed step time is an error, not a time of 0."""
    page = build.page({f"{counters.STEPS[0]}_count": 5}, finished={})

    with pytest.raises(ScrapeError, match=f"no series {counters.STEPS[0]}_sum"):
        CounterDelta(page, page).decode_seconds()


def test_nothing_decoded_has_no_step(captured: type[Captured]) -> None:
    """Two scrapes without traffic between them source nothing."""
    page = captured.page("ngram_k4_after_c1")
    delta = CounterDelta(page, page)

    assert (delta.tokens_per_step(), delta.decode_seconds(), delta.finished()) == (None, 0.0, {})


def test_a_server_without_speculation_has_no_speculation_delta(build: type[Build]) -> None:
    """No speculation series means speculation off, which is not the same as 0 drafts."""
    page = build.page({counters.GENERATION_TOKENS: 5}, finished={})

    assert CounterDelta(page, page).speculation() is None
    assert page.speculation == ()


def test_positions_are_ordered_as_numbers() -> None:
    """Position 10 comes after position 9."""
    samples = [
        Sample(name=counters.ACCEPTED_PER_POSITION, labels={"position": str(position)}, value=0)
        for position in (10, 2, 9)
    ]

    assert CounterPage(samples=tuple(samples)).speculation == ("2", "9", "10")


@pytest.mark.parametrize("labels", [{"position": "first"}, {"position": "-1"}, {}])
def test_positions_that_are_no_numbers_are_unreadable(labels: dict[str, str]) -> None:
    """A draft position that is no number is an error of the page, not a fault of this package."""
    page = CounterPage(samples=(Sample(name=counters.ACCEPTED_PER_POSITION, labels=labels, value=0),))

    with pytest.raises(ScrapeError, match="/metrics has draft positions that are no numbers: "):
        _ = page.speculation


@pytest.mark.parametrize("value", [True, "12", None, float("nan"), float("inf")])
def test_case_115_a_series_has_a_number(value: object) -> None:
    """Case 115: a series whose value is no finite number is refused, not converted."""
    with pytest.raises(ValidationError, match="value"):
        Sample.model_validate({"name": counters.DRAFTS, "labels": {}, "value": value})


def test_case_115_labels_are_texts() -> None:
    """Case 115: a page with a label of another type is refused with its place."""
    series = {"name": counters.DRAFTS, "labels": {"engine": 0}, "value": 1.0}

    with pytest.raises(ValidationError, match=r"samples\.0\.labels\.engine"):
        CounterPage.model_validate({"samples": (series,)})


def test_models_of_a_page(captured: type[Captured]) -> None:
    """A page names every model that it counts for; series without a model name none."""
    page = captured.page("sample_b")
    unlabelled = CounterPage(samples=(Sample(name="vllm:x", labels={}, value=1), *page.samples))

    assert unlabelled.models() == {"Qwen/Qwen3-0.6B"}


def test_totals_by_label_sum_over_the_others(captured: type[Captured]) -> None:
    """Totals by one label add up its engines; series without the label are kept apart."""
    page = captured.page("sample_d")

    assert page.by_label(counters.ACCEPTED_PER_POSITION, "position") == {"0": 10, "1": 8, "2": 4, "3": 2}
    assert page.by_label(counters.DRAFTS, "position") == {"": 12}


def test_deltas_are_values() -> None:
    """A delta cannot be changed after the fact."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        K4.drafts = 5  # type: ignore[misc]  # the point of the test
