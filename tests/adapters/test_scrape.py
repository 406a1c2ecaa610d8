"""Metrics pages as text: what is read from them, and what is said about those that cannot be read.

The exposition texts under ``data/`` were rendered by vLLM 0.32.0; families that nothing here reads are left out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specgate.adapters.scrape import parse_page
from pytest_specgate.core import counters
from pytest_specgate.core.counters import CounterDelta, CounterPage
from pytest_specgate.core.errors import ScrapeError

DATA = Path(__file__).parent / "data"
LABELS = 'engine="0",model_name="m"'


def text_of(name: str) -> str:
    """Return the text of a page under ``data/``."""
    return (DATA / f"{name}.txt").read_text(encoding="utf-8")


def page_of(name: str) -> CounterPage:
    """Return a page under ``data/`` as the adapter reads it."""
    return parse_page(text_of(name))


def line(name: str, value: str) -> str:
    """Return a page of one series."""
    return f"{name}{{{LABELS}}} {value}\n"


def generated(tokens: int, *, running: int = 0) -> str:
    """Return a page that knows how much was generated and how much is under way."""
    return line(counters.GENERATION_TOKENS, f"{tokens}.0") + line(counters.RUNNING, f"{running}.0")


def test_cases_42_43_51_57_a_page_gives_exactly_its_counters() -> None:
    """Times of creation, longer names, histograms called total and short drafts leave the counts as they are."""
    page = page_of("speculation_k4")

    assert page.total(counters.DRAFTS) == 6
    assert page.total(counters.DRAFT_TOKENS) == 22
    assert page.total(counters.ACCEPTED_TOKENS) == 12
    assert [page.total(counters.ACCEPTED_PER_POSITION, position=k) for k in page.speculation] == [5, 4, 2, 1]
    assert page.total(counters.GENERATION_TOKENS) == 18
    counted = [sample.value for sample in page.samples if sample.name != counters.GENERATION_TOKENS_CREATED]
    assert max(counted) < 1e6


def test_only_series_that_are_wanted_are_kept() -> None:
    """A page keeps no buckets, of times of creation the one that tells a restart, no series of the process."""
    names = {sample.name for sample in page_of("speculation_k4").samples}

    assert names == counters.WANTED - {f"{counters.STEPS[1]}_{part}" for part in ("count", "sum")}


def test_case_44_every_engine_is_kept() -> None:
    """Case 44: with two engines there are two series of each counter, and totals sum them, by position too."""
    page = page_of("data_parallel_2")

    assert page.total(counters.DRAFTS) == 12
    assert page.total(counters.ACCEPTED_TOKENS) == 24
    assert page.by_label(counters.ACCEPTED_PER_POSITION, "position") == {"0": 10, "1": 8, "2": 4, "3": 2}


def test_pages_of_several_api_servers_read_alike() -> None:
    """Multiprocess pages have another order and no times of creation; their counters are the same."""
    one, many = page_of("speculation_k4"), page_of("multiprocess")

    for name in (*counters.SPECULATION, counters.GENERATION_TOKENS, counters.RUNNING):
        assert many.total(name) == one.total(name)


def test_speculation_that_is_off_has_no_series_at_all() -> None:
    """An off arm's page is readable, and has no draft positions: absent, not zero."""
    page = page_of("speculation_off")

    assert page.speculation == ()
    assert not any(page.has(name) for name in counters.SPECULATION)


def test_a_real_servers_pages_give_its_figures() -> None:
    """Two captured pages around a point of 8 requests with 64 tokens give the counts that were published with them."""
    delta = CounterDelta(page_of("server_before"), page_of("server_after"))
    speculation = delta.speculation()

    assert delta.total(counters.GENERATION_TOKENS) == 8 * 64
    assert delta.finished() == {"length": 8}
    assert speculation is not None
    assert (speculation.drafts, round(speculation.draft_length or 0, 2)) == (137, 4.0)
    assert [round(rate, 3) for rate in speculation.per_position_rates] == [0.547, 0.343, 0.314, 0.263]


def test_case_53_the_model_of_a_page_is_known() -> None:
    """Case 53: a page of somebody else's server says so in its labels."""
    text = text_of("speculation_k4").replace('model_name="Qwen/Qwen3-0.6B"', 'model_name="other"')

    assert parse_page(text).models() == {"other"}
    assert page_of("speculation_k4").models() == {"Qwen/Qwen3-0.6B"}


@pytest.mark.parametrize(
    "text",
    [
        line(counters.DRAFTS, "1.234567e+06 1395066363000"),
        line(counters.DRAFTS, "1.234567e+06").replace(" ", "\t"),
        f"{counters.DRAFTS} 1234567\n",
        f"  {counters.DRAFTS}{{ {LABELS}, }}   1234567  \n",
    ],
    ids=["timestamp", "tabs", "no-labels", "blanks"],
)
def test_case_61_every_legal_form_of_a_line_is_read(text: str) -> None:
    """Case 61: timestamps, exponents, tabs and missing labels change nothing."""
    assert parse_page(text).total(counters.DRAFTS) == 1234567


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_case_61_what_is_no_number_is_refused_by_name(value: str) -> None:
    """Case 61: NaN or an infinity in a wanted series is an error that names it; elsewhere it does not matter."""
    with pytest.raises(ScrapeError, match="vllm:spec_decode_num_drafts_total is "):
        parse_page(line(counters.DRAFTS, value))

    assert parse_page(generated(3) + line("vllm:request_queue_time_seconds_sum", value)).total(counters.RUNNING) == 0


def test_case_61_an_unreadable_line_of_a_wanted_family_is_an_error() -> None:
    """Case 61: a wanted counter that cannot be read is not left out."""
    with pytest.raises(ScrapeError, match="/metrics cannot be read"):
        parse_page(generated(3) + line(counters.DRAFTS, "many"))


@pytest.mark.parametrize(
    "other",
    [
        "some_other_total many",
        "vllm:request_queue_time_seconds_sum{",
        f"{counters.GENERATION_TOKENS}s many",
        f"not {counters.GENERATION_TOKENS} 7.0",
        "# TYPE vllm:generation_tokens_total nonsense",
        "}{",
    ],
)
def test_case_61_an_unreadable_line_of_another_family_is_skipped(other: str) -> None:
    """Case 61: a line that nobody reads, also one whose name only begins like a wanted one, breaks nothing."""
    page = parse_page(f"{other}\n{generated(5)}{other}\n")

    assert page == parse_page(generated(5))


@pytest.mark.parametrize("second", ["5.0", "6.0"])
def test_a_series_that_is_twice_there_is_refused(second: str) -> None:
    """Which of two values holds nobody can tell: they are neither added up nor is one of them picked."""
    labels = 'model_name="m",engine="0"'
    twice = f"{line(counters.GENERATION_TOKENS, '5.0')}{counters.GENERATION_TOKENS}{{{labels}}} {second}\n"

    with pytest.raises(ScrapeError, match="/metrics has a series twice"):
        parse_page(twice)
    assert parse_page(twice.replace('m",engine="0', 'm",engine="1')).total(counters.GENERATION_TOKENS) > 5


def test_a_page_of_unknown_series_lacks_the_wanted_ones_by_name() -> None:
    """An engine whose counters are called otherwise is readable, but no total is made up."""
    page = parse_page(line("vllm:tokens_generated_total", "7"))

    assert page.samples == ()
    with pytest.raises(ScrapeError, match=f"no series {counters.GENERATION_TOKENS}"):
        page.total(counters.GENERATION_TOKENS)


def test_case_63_a_family_under_two_names_is_counted_once() -> None:
    """Case 63: the deprecated name of the same histogram is not added to the current one; alone, it serves."""
    new, old = counters.STEPS
    texts = [text_of(name) for name in ("server_before", "server_after")]
    alone = [text.replace(new, old) for text in texts]
    both = [
        text + "".join(line for line in other.splitlines(keepends=True) if old in line)
        for text, other in zip(texts, alone, strict=True)
    ]

    for pages in texts, alone, both:
        delta = CounterDelta(*map(parse_page, pages))

        assert (delta.decode_steps(), delta.tokens_per_step()) == (316, (512 - 8) / 316)
    assert all(parse_page(text).has(f"{name}_count") for text in both for name in (new, old))


def test_case_63_a_family_under_neither_name_is_named() -> None:
    """Case 63: without the histogram there is no figure, but an error that names both of its names and the version."""
    texts = [
        text_of(name).replace(counters.STEPS[0], "vllm:renamed_seconds") for name in ("server_before", "server_after")
    ]
    pages = [parse_page(text).model_copy(update={"version": "0.99.1"}) for text in texts]

    with pytest.raises(ScrapeError) as raised:
        CounterDelta(*pages).decode_steps()

    assert str(raised.value).startswith(f"/metrics of vLLM 0.99.1 has no series {' or '.join(counters.STEPS)}: ")


@pytest.mark.parametrize(
    "text", ["", 'python_gc_objects_collected_total{generation="0"} 1.0\n', "<html>not this</html>\n", "# vllm:x\n"]
)
def test_case_50_a_page_without_the_engines_series_is_an_error(text: str) -> None:
    """Case 50: an empty page, or one of another program, does not read as "speculation off"."""
    with pytest.raises(ScrapeError, match=r"^/metrics has no vllm: series.*--disable-log-stats"):
        parse_page(text)
