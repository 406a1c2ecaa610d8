"""Several engines behind one address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.testing import FakeSettings
from pytest_specgate.testing.arguments import ServerArguments, parse_arguments
from pytest_specgate.testing.engine import EngineSequence, sequence_random
from pytest_specgate.testing.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable


def make_fleet(engines: int = 1, **settings: object) -> Fleet:
    """Make engines with counters that are created at 100, 101, ... seconds."""
    times = iter(range(100, 200))
    fake = FakeSettings.model_validate(settings)
    return Fleet(ServerArguments(data_parallel_size=engines, fake=fake), unix_time=lambda: next(times))


def submit(fleet: Fleet, place: int, *, output_tokens: int = 2) -> None:
    """Give an engine a request."""
    fleet.engines[place].submit(
        EngineSequence(
            prompt_tokens=3,
            output_tokens=output_tokens,
            finish_reason="length",
            random=sequence_random(FakeSettings(), "x"),
            arrived_s=0.0,
        )
    )


def step(fleet: Fleet, place: int) -> None:
    """Let an engine take a step."""
    fleet.engines[place].begin_step()
    fleet.engines[place].end_step(1.0)
    fleet.after_step()


def test_equal_engines_take_turns() -> None:
    """Requests go round while all engines have equally many."""
    fleet = make_fleet(3)
    chosen = []
    for _ in range(6):
        chosen.append(fleet.choose())
        submit(fleet, chosen[-1])

    assert chosen == [0, 1, 2, 0, 1, 2]


def test_idle_engines_take_turns() -> None:
    """One request after another, each over before the next: no engine is preferred."""
    fleet = make_fleet(3)

    assert [fleet.choose() for _ in range(4)] == [0, 1, 2, 0]


def test_the_least_loaded_engine_gets_the_next_request() -> None:
    """Waiting and running requests count alike."""
    fleet = make_fleet(2)
    for _ in range(3):
        submit(fleet, 0)
    submit(fleet, 1)
    step(fleet, 1)

    assert [fleet.choose(), fleet.choose()] == [1, 1]


def test_each_engine_counts_for_itself(counters: Callable[[str], dict[str, float]]) -> None:
    """The page has one series for each engine, under its label."""
    fleet = make_fleet(2)
    submit(fleet, 1, output_tokens=5)
    for _ in range(5):
        step(fleet, 1)
    read = counters(fleet.page(1.0))

    assert (read["generation_tokens_total:0"], read["generation_tokens_total:1"]) == (0, 5)


def test_case_46_counters_of_all_engines_start_anew_once(counters: Callable[[str], dict[str, float]]) -> None:
    """Case 46: after the set number of finished requests, counted over all engines, and with a new creation time."""
    fleet = make_fleet(2, reset_after_requests=2)
    pages = [counters(fleet.page(1.0))]
    for place in (0, 1, 0):
        submit(fleet, place)
        step(fleet, place)
        step(fleet, place)
        pages.append(counters(fleet.page(1.0)))

    assert [page["generation_tokens_total"] for page in pages] == [0, 2, 0, 2]
    assert [page["generation_tokens_created:0"] for page in pages] == [100, 100, 101, 101]


def test_flags_make_the_fleet() -> None:
    """Number of engines, size of blocks and caching come from vLLM's flags, which override the setting."""
    given = parse_arguments(["--data-parallel-size", "2", "--block-size=32", "--enable-prefix-caching"])
    short = parse_arguments(["-dp", "3", "--fake", '{"prefix_caching": true}'])
    off = parse_arguments(["--no-enable-prefix-caching", "--fake", '{"prefix_caching": true}'])

    assert (given.data_parallel_size, given.block_size, given.prefix_caching) == (2, 32, True)
    assert (short.data_parallel_size, short.block_size, short.prefix_caching) == (3, 16, True)
    assert not off.prefix_caching
    assert not ServerArguments().prefix_caching
