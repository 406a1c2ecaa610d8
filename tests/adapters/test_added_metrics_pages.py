"""Series that only an added metric reads: kept where they can be read, and told where they cannot."""

from __future__ import annotations

import pytest

from pytest_specgate.adapters.scrape import parse_page
from pytest_specgate.core import counters
from pytest_specgate.core.counters import CounterDelta
from pytest_specgate.core.errors import ScrapeError

QUEUE = "vllm:request_queue_time_seconds"
SUM, COUNT = f"{QUEUE}_sum", f"{QUEUE}_count"
LABELS = 'engine="0",model_name="m"'
HEAD = f"{counters.GENERATION_TOKENS}{{{LABELS}}} 7.0\n"


def page_text(total: str, count: str) -> str:
    """Return a page with the times in the queue, as vLLM 0.32.0 prints them."""
    bucket = f'{QUEUE}_bucket{{engine="0",le="0.3",model_name="m"}} 76.0'
    return (
        f"{HEAD}# HELP {QUEUE} Histogram of time spent in WAITING phase for request.\n# TYPE {QUEUE} histogram\n"
        f"{bucket}\n{COUNT}{{{LABELS}}} {count}\n{SUM}{{{LABELS}}} {total}\n"
    )


def test_named_series_are_kept_beside_the_others() -> None:
    """Exactly those that are named, so that their rise can be asked for."""
    texts = page_text("0.0009473129985053674", "28.0"), page_text("38.68736828700412", "92.0")
    before, after = (parse_page(text, series=(SUM, COUNT)) for text in texts)
    delta = CounterDelta(before, after)

    assert {sample.name for sample in after.samples} == {counters.GENERATION_TOKENS, SUM, COUNT}
    assert delta.total(SUM) / delta.count(COUNT) == pytest.approx(0.6044, abs=1e-4)


def test_nothing_is_kept_that_nobody_named() -> None:
    """A record does not grow by what no metric reads."""
    page = parse_page(page_text("1.0", "2.0"))

    assert [sample.name for sample in page.samples] == [counters.GENERATION_TOKENS]


def test_a_series_that_is_kept_anyway_is_kept_once() -> None:
    """Naming it again doubles nothing."""
    page = parse_page(page_text("1.0", "2.0"), series=(counters.GENERATION_TOKENS,))

    assert page.total(counters.GENERATION_TOKENS) == 7


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (page_text("NaN", "2.0"), f"/metrics says {SUM} is nan"),
        (page_text("+Inf", "2.0"), f"/metrics says {SUM} is inf"),
        (page_text("many", "2.0"), "/metrics cannot be read: "),
        (page_text("1.0", "2.0") + f"{SUM}{{{LABELS}}} 1.0\n", "/metrics has a series twice"),
        (HEAD, f"/metrics of vLLM 0.32.0 has no series {SUM}"),
    ],
    ids=["nan", "infinite", "no_number", "twice", "missing"],
)
def test_one_that_cannot_be_read_breaks_nothing_but_its_metric(text: str, sentence: str) -> None:
    """The page is read all the same, and whoever asks for the series hears why it is not there."""
    page = parse_page(text, version="0.32.0", series=(SUM,))

    assert page.total(counters.GENERATION_TOKENS) == 7
    with pytest.raises(ScrapeError) as caught:
        page.total(SUM)
    assert sentence in str(caught.value)


def test_a_reset_is_seen_in_it_too() -> None:
    """A counter that fell gives no rise."""
    before, after = (parse_page(page_text(total, "2.0"), series=(SUM,)) for total in ("3.0", "1.0"))

    with pytest.raises(ScrapeError, match="counter reset"):
        CounterDelta(before, after).total(SUM)
