"""Differences of two scrapes: whose life they are of, what is added up, and what cannot be."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core import counters
from pytest_specgate.core.counters import CounterDelta, CounterPage, Sample
from pytest_specgate.core.errors import ScrapeError
from pytest_specgate.core.speculation import SpeculationDelta

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from tests.core.conftest import Build

NEW, OLD = counters.STEPS
STARTED = counters.GENERATION_TOKENS_CREATED


def _page(series: Mapping[str, Mapping[str, float]]) -> CounterPage:
    """Return a page with the value of each counter on each engine."""
    samples = [
        Sample(name=name, labels={"engine": engine, "model_name": "tiny"}, value=value)
        for name, values in series.items()
        for engine, value in values.items()
    ]
    return CounterPage(samples=tuple(samples))


def _delta(build: type[Build], before: Mapping[str, float], after: Mapping[str, float]) -> CounterDelta:
    """Return the difference of two pages of one engine on which nothing finished."""
    return CounterDelta(build.page(before, finished={"length": 0}), build.page(after, finished={"length": 0}))


@pytest.mark.parametrize("name", [counters.GENERATION_TOKENS, counters.DRAFTS, counters.FINISHED])
def test_case_46_a_restart_is_seen_although_every_counter_rose(name: str) -> None:
    """Case 46: a server that was restarted and has counted past the old values is told by when it began to count."""
    before = _page({counters.GENERATION_TOKENS: {"0": 40}, name: {"0": 40}, STARTED: {"0": 1.7959702434938805e9}})
    after = _page({counters.GENERATION_TOKENS: {"0": 100}, name: {"0": 100}, STARTED: {"0": 1.7959702999938805e9}})

    with pytest.raises(ScrapeError) as raised:
        CounterDelta(before, after).total(name)

    words = "counter reset: engine 0 began to count anew between two scrapes, so no delta can be formed"
    assert str(raised.value) == words


def test_case_46_every_engine_that_was_restarted_is_named() -> None:
    """Case 46: of several engines those that began anew are named, and one alone is enough."""
    tokens = {counters.GENERATION_TOKENS: {"0": 1.0, "1": 1.0, "2": 1.0}}
    before = _page({**tokens, STARTED: {"0": 5.0, "1": 5.0, "2": 5.0}})
    after = _page({**tokens, STARTED: {"0": 5.0, "1": 6.0, "2": 7.0}})

    with pytest.raises(ScrapeError, match="engine 1, 2 began to count anew"):
        CounterDelta(before, after).total(counters.GENERATION_TOKENS)


@pytest.mark.parametrize(("first", "second"), [({}, {}), ({"0": 5.0}, {"0": 5.0}), ({}, {"0": 5.0}), ({"0": 5.0}, {})])
def test_pages_that_do_not_tell_when_they_began_are_of_one_life(
    first: dict[str, float], second: dict[str, float]
) -> None:
    """Servers of several processes have no times of creation: then only a counter that fell tells a restart."""
    before, after = (
        _page({counters.GENERATION_TOKENS: {"0": tokens}, STARTED: started})
        for tokens, started in ((5.0, first), (8.0, second))
    )

    assert CounterDelta(before, after).total(counters.GENERATION_TOKENS) == 3


@pytest.mark.parametrize(
    ("earlier", "later", "words"),
    [
        ({"0": 1.0}, {"0": 1.0, "1": 1.0}, "from 0 to 0, 1"),
        ({"0": 1.0, "1": 1.0}, {"1": 1.0}, "from 0, 1 to 1"),
        ({"0": 1.0}, {"1": 1.0}, "from 0 to 1"),
        ({}, {"0": 1.0}, "from none to 0"),
    ],
)
def test_other_engines_are_another_server(earlier: dict[str, float], later: dict[str, float], words: str) -> None:
    """Engines that came or went between two scrapes leave no delta of any counter."""
    before, after = (
        _page({counters.GENERATION_TOKENS: engines, counters.DRAFTS: {"0": 1.0}}) for engines in (earlier, later)
    )

    with pytest.raises(ScrapeError, match=f"engines changed between two scrapes, {words}"):
        CounterDelta(before, after).total(counters.DRAFTS)


def test_engines_are_named_in_order() -> None:
    """Engines are sorted, and a series without the label is the engine without a name."""
    assert _page({counters.GENERATION_TOKENS: {"1": 1.0, "0": 1.0}}).engines() == ("0", "1")
    bare = CounterPage(samples=(Sample(name=counters.GENERATION_TOKENS, labels={}, value=1.0),))
    assert (bare.engines(), CounterPage(samples=()).engines()) == (("",), ())


def test_one_life_is_checked_counter_by_counter() -> None:
    """Whatever is asked of two pages later, a counter that went back anywhere is found at once."""
    before = _page({counters.GENERATION_TOKENS: {"0": 5.0}, counters.PREEMPTIONS: {"0": 3.0}})
    sound = _page({counters.GENERATION_TOKENS: {"0": 9.0}, counters.PREEMPTIONS: {"0": 3.0}})
    fallen = _page({counters.GENERATION_TOKENS: {"0": 9.0}, counters.PREEMPTIONS: {"0": 2.0}})

    CounterDelta(before, sound).refuse_resets()
    with pytest.raises(ScrapeError, match=f"counter reset: {counters.PREEMPTIONS} fell from 3 to 2"):
        CounterDelta(before, fallen).refuse_resets()


def test_a_gauge_may_fall() -> None:
    """How many requests run is no counter: falling, it tells no restart."""
    before, after = (
        _page({counters.GENERATION_TOKENS: {"0": 5.0}, counters.RUNNING: {"0": running}}) for running in (3.0, 0.0)
    )

    CounterDelta(before, after).refuse_resets()


def test_what_counts_whole_things_rises_by_whole_numbers(build: type[Build]) -> None:
    """Half a draft is no number of drafts: it is refused, not rounded; a time may rise by any amount."""
    before = {counters.GENERATION_TOKENS: 0.0, counters.DRAFTS: 1.0, f"{NEW}_sum": 0.25}
    delta = _delta(build, before, {**before, counters.DRAFTS: 3.5, f"{NEW}_sum": 0.5, f"{NEW}_count": 0})

    with pytest.raises(ScrapeError, match=f"{counters.DRAFTS} rose by 2.5, which is no number of things"):
        delta.count(counters.DRAFTS)
    assert delta.total(counters.DRAFTS) == 2.5
    assert delta.decode_seconds() == 0.25


NONE_DECODED = {counters.GENERATION_TOKENS: 0.0, f"{OLD}_count": 0.0, f"{OLD}_sum": 0.0}
DECODED = {counters.GENERATION_TOKENS: 30.0, f"{OLD}_count": 10.0, f"{OLD}_sum": 4.0}


def test_case_63_the_old_name_of_the_histogram_serves(build: type[Build]) -> None:
    """Case 63: a server that knows the steps by their old name only gives the same figures."""
    delta = _delta(build, NONE_DECODED, DECODED)

    assert (delta.decode_steps(), delta.decode_seconds()) == (10, 4.0)
    assert (delta.tokens_per_step(), delta.step_time_s()) == (3.0, 0.4)


def test_case_63_both_names_are_never_added(build: type[Build]) -> None:
    """Case 63: where a server has both names with equal values, one is used, not 20 steps."""
    both = [
        {**page, f"{NEW}_count": page[f"{OLD}_count"], f"{NEW}_sum": page[f"{OLD}_sum"]}
        for page in (NONE_DECODED, DECODED)
    ]
    delta = _delta(build, *both)

    assert (delta.decode_steps(), delta.decode_seconds()) == (10, 4.0)


@pytest.mark.parametrize(("version", "server"), [("0.99.1", "vLLM 0.99.1"), (None, "this server")])
def test_case_63_neither_name_is_an_error_with_the_version(
    build: type[Build], *, version: str | None, server: str
) -> None:
    """Case 63: without the histogram the metric is missing, named with both names and the server's version."""
    page = build.page({counters.GENERATION_TOKENS: 5.0}, finished={}).model_copy(update={"version": version})

    with pytest.raises(ScrapeError) as raised:
        CounterDelta(page, page).tokens_per_step()

    assert str(raised.value) == (
        f"/metrics of {server} has no series {NEW} or {OLD}: was it started with --disable-log-stats, or does this "
        f"version name it otherwise?"
    )


def test_the_share_of_prompt_tokens_that_was_cached(build: type[Build]) -> None:
    """Hits / tokens looked up; nothing looked up is no hit; what is not counted is not known."""
    none = {counters.GENERATION_TOKENS: 0.0, counters.PREFIX_QUERIES: 64.0, counters.PREFIX_HITS: 8.0}
    some = {**none, counters.PREFIX_QUERIES: 64.0 + 16384, counters.PREFIX_HITS: 8.0 + 14336}

    assert _delta(build, none, some).prefix_hit_rate() == 0.875
    assert _delta(build, none, none).prefix_hit_rate() == 0.0
    assert _delta(build, {counters.GENERATION_TOKENS: 0.0}, {counters.GENERATION_TOKENS: 0.0}).prefix_hit_rate() is None


def _decode(build: type[Build], *, tokens: int, first: int, steps: int | None, **drafted: int) -> CounterDelta:
    """Return the counters of a decode, with one draft position if there are drafts."""
    after: dict[str, float] = {counters.GENERATION_TOKENS: tokens, counters.FIRST_TOKENS: first}
    if steps is not None:
        after[f"{NEW}_count"] = steps
    if drafted:
        accepted = drafted["accepted"]
        after |= {counters.DRAFTS: drafted["drafts"], counters.DRAFT_TOKENS: drafted["drafts"]}
        after[counters.ACCEPTED_TOKENS] = accepted
        before = build.page(dict.fromkeys(after, 0.0), positions=[0], finished={})
        return CounterDelta(before, build.page(after, positions=[accepted], finished={}))
    return CounterDelta(build.page(dict.fromkeys(after, 0.0), finished={}), build.page(after, finished={}))


def test_counters_that_agree_with_each_other(build: type[Build]) -> None:
    """Decoded tokens, steps and drafts that fit break no identity, also where an answer's end cut tokens off."""
    assert _decode(build, tokens=110, first=10, steps=100).broken_identities() == ()
    assert _decode(build, tokens=110, first=10, steps=60, drafts=60, accepted=40).broken_identities() == ()
    assert _decode(build, tokens=107, first=10, steps=60, drafts=60, accepted=40).broken_identities() == ()
    assert _decode(build, tokens=110, first=10, steps=None).broken_identities() == ()


def test_more_first_tokens_than_tokens_cannot_be(build: type[Build]) -> None:
    """Every request that got its first token got a token."""
    delta = _decode(build, tokens=9, first=10, steps=0)

    assert delta.broken_identities() == ("9 tokens generated by 10 requests that got a first token",)


def test_more_drafts_than_steps_cannot_be(build: type[Build]) -> None:
    """A draft is verified in a step, and a step verifies one."""
    delta = _decode(build, tokens=110, first=10, steps=60, drafts=61, accepted=40)

    assert delta.broken_identities() == ("61 drafts verified in 60 decode steps",)


@pytest.mark.parametrize(
    ("drafted", "accepted", "steps"), [({"drafts": 60, "accepted": 39}, 39, 60), ({}, 0, 99)], ids=["drafts", "none"]
)
def test_more_tokens_than_steps_and_accepted_tokens_give_cannot_be(
    build: type[Build], *, drafted: dict[str, int], accepted: int, steps: int
) -> None:
    """A step gives one token beside those that were accepted."""
    delta = _decode(build, tokens=110, first=10, steps=steps, **drafted)

    assert delta.broken_identities() == (
        f"100 tokens decoded where {steps} steps with {accepted} accepted tokens give fewer",
    )


def test_more_cut_off_than_ends_of_answers_can_cut_off_cannot_be(build: type[Build]) -> None:
    """An answer's end cuts off at most k accepted tokens: ten answers at k=1 account for ten, not for forty."""
    finished = {"length": 10}
    values = {
        counters.GENERATION_TOKENS: 70.0,
        counters.FIRST_TOKENS: 10.0,
        f"{NEW}_count": 60.0,
        counters.DRAFTS: 60.0,
        counters.DRAFT_TOKENS: 60.0,
        counters.ACCEPTED_TOKENS: 40.0,
    }
    before = build.page(dict.fromkeys(values, 0.0), positions=[0], finished=dict.fromkeys(finished, 0))
    delta = CounterDelta(before, build.page(values, positions=[40], finished=finished))

    assert delta.cut_tokens() == 40
    assert delta.broken_identities(k=1) != ()


def test_no_position_is_accepted_more_often_than_it_was_drafted() -> None:
    """A rate by position is a share of drafts: above 1 it is none, even where the sums agree."""
    doubled = SpeculationDelta(100, 400, 300, (150, 80, 50, 20))

    assert max(doubled.per_position_rates) > 1
    assert doubled.broken_identities(k=4) != ()


COUNTS = st.integers(0, 10**9)
VALUES = st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=6)
"""What each engine counted before, and how much it rose."""


@given(VALUES, st.randoms(use_true_random=False))
def test_deltas_add_engines_up_in_whatever_order_they_come(values: list[tuple[int, int]], shuffled: Random) -> None:
    """The rise of a counter is the sum of the rises of its engines, however each page orders its series."""
    before = {str(engine): float(value) for engine, (value, _) in enumerate(values)}
    after = {str(engine): float(value + rise) for engine, (value, rise) in enumerate(values)}
    pages = []
    for engines in (before, after):
        page = _page({counters.GENERATION_TOKENS: engines, counters.DRAFTS: engines})
        samples = list(page.samples)
        shuffled.shuffle(samples)
        pages.append(CounterPage(samples=tuple(samples)))

    delta = CounterDelta(pages[0], pages[1])

    assert delta.count(counters.DRAFTS) == delta.count(counters.GENERATION_TOKENS) == sum(rise for _, rise in values)


@given(
    drafts=st.integers(1, 10**6),
    k=st.integers(1, 8),
    shares=st.lists(st.floats(0, 1), min_size=8, max_size=8),
    short=st.floats(0, 1),
)
def test_sound_speculation_breaks_no_identity(drafts: int, k: int, shares: list[float], short: float) -> None:
    """Accepted counts that fall from position to position and drafts of at most k tokens are always believed."""
    positions: list[int] = []
    for share in shares[:k]:
        positions.append(int(share * (positions[-1] if positions else drafts)))
    drafted = max(sum(positions), int(short * k * drafts))
    delta = SpeculationDelta(drafts, drafted, sum(positions), tuple(positions))

    assert delta.broken_identities() == delta.broken_identities(k=k) == ()
    assert delta.broken_identities(k=k + 1) == (f"{k} draft positions are counted, not {k + 1}",)
    assert delta.acceptance_length == pytest.approx(1 + sum(delta.per_position_rates))


@given(st.integers(1, 8), st.integers(1, 1000))
def test_one_token_too_many_at_any_position_is_seen(k: int, drafts: int) -> None:
    """Whichever position counts one token more than it can, the counters are not believed."""
    full = SpeculationDelta(drafts, k * drafts, k * drafts, (drafts,) * k)

    for place in range(k):
        positions = tuple(drafts + (place == at) for at in range(k))
        odd = dataclasses.replace(full, accepted_per_position=positions)

        assert odd.broken_identities(k=k)
