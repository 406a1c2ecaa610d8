"""Tokens per step against the truth: decodes are simulated token by token, and only their counters are looked at.

The simulation shares nothing with the package but the names of the counters. It knows what every single step gave, so
what the estimators say can be compared with it to the last digit.
"""

from __future__ import annotations

import dataclasses
import random
from fractions import Fraction
from typing import TYPE_CHECKING

from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_specgate.core import counters
from pytest_specgate.core.counters import CounterDelta, CounterPage, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclasses.dataclass
class Server:
    """One engine that decodes sequences step by step.

    Attributes:
        k: draft horizon; 0 is speculation off.
        drafting: chance that a step has a draft.
        full: chance that a draft has k tokens; else it is shorter.
        acceptance: chance that a draft token is accepted once those before it were.
        seed: of everything random.
    """

    k: int
    drafting: float = 1.0
    full: float = 1.0
    acceptance: float = 0.6
    seed: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.counted = {"tokens": 0, "first": 0, "finished": 0, "steps": 0, "drafts": 0, "proposed": 0, "accepted": 0}
        self.by_position = [0] * self.k
        self.given: list[int] = []
        self.cut: list[int] = []

    def prefill(self) -> int:
        """Give a sequence its first token; return how many it has."""
        self.counted["first"] += 1
        self.counted["tokens"] += 1
        return 1

    def step(self, done: int, length: int) -> int:
        """Advance one sequence by one verify step; return how many tokens it has then."""
        accepted = self._verify()
        given = min(accepted + 1, length - done)
        self.given.append(given)
        self.cut.append(accepted + 1 - given)
        self.counted["steps"] += 1
        self.counted["tokens"] += given
        return done + given

    def _verify(self) -> int:
        """Draft, and return how much of the draft the target accepts."""
        if not self.k or self.random.random() >= self.drafting:
            return 0
        proposed = self.k if self.random.random() < self.full else self.random.randint(1, self.k)
        accepted = 0
        while accepted < proposed and self.random.random() < self.acceptance:
            self.by_position[accepted] += 1
            accepted += 1
        self.counted["drafts"] += 1
        self.counted["proposed"] += proposed
        self.counted["accepted"] += accepted
        return accepted

    def run(self, lengths: Sequence[int], *, steps: int | None = None) -> dict[int, int]:
        """Decode sequences of given lengths, round-robin, for so many steps; return the tokens of those unfinished."""
        return self.go_on(lengths, {number: self.prefill() for number in range(len(lengths))}, steps=steps)

    def go_on(self, lengths: Sequence[int], running: dict[int, int], *, steps: int | None = None) -> dict[int, int]:
        """Decode sequences that run already."""
        left = sum(lengths) if steps is None else steps
        while True:
            for number in [number for number, done in running.items() if done >= lengths[number]]:
                del running[number]
                self.counted["finished"] += 1
            if not running or left < len(running):
                return running
            left -= len(running)
            for number, done in running.items():
                running[number] = self.step(done, lengths[number])

    def page(self) -> CounterPage:
        """Return what its metrics page would say now."""
        names = {
            counters.GENERATION_TOKENS: "tokens",
            counters.FIRST_TOKENS: "first",
            f"{counters.STEPS[0]}_count": "steps",
        }
        if self.k:
            names |= {
                counters.DRAFTS: "drafts",
                counters.DRAFT_TOKENS: "proposed",
                counters.ACCEPTED_TOKENS: "accepted",
            }
        samples = [_sample(name, self.counted[key]) for name, key in names.items()]
        samples.append(_sample(counters.FINISHED, self.counted["finished"], finished_reason="length"))
        for position, count in enumerate(self.by_position):
            samples.append(_sample(counters.ACCEPTED_PER_POSITION, count, position=str(position)))
        return CounterPage(samples=tuple(samples))


def _sample(name: str, value: float, **labels: str) -> Sample:
    return Sample(name=name, labels={"engine": "0", "model_name": "tiny", **labels}, value=value)


SERVERS = st.builds(
    Server,
    k=st.integers(0, 8),
    drafting=st.floats(0, 1),
    full=st.floats(0, 1),
    acceptance=st.floats(0, 1),
    seed=st.integers(0, 10_000),
)
LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=12)


def _truth(given: Sequence[int]) -> float | None:
    """Return the mean of what steps gave, exactly, as the nearest float."""
    return float(Fraction(sum(given), len(given))) if given else None


@given(SERVERS, LENGTHS)
def test_the_estimator_is_the_truth(server: Server, lengths: list[int]) -> None:
    """Whatever the drafter does, tokens per step is the mean of what every decode step gave, to the last digit."""
    before = server.page()
    server.run(lengths)
    delta = CounterDelta(before, server.page())

    assert delta.tokens_per_step() == _truth(server.given)
    assert delta.decode_steps() == len(server.given)
    assert delta.decode_tokens() == sum(length - 1 for length in lengths)


@given(SERVERS, LENGTHS)
def test_drafted_share_and_cut_tokens_are_the_truth(server: Server, lengths: list[int]) -> None:
    """The share of steps that had a draft and the accepted tokens that an answer's end cut off are those simulated."""
    before = server.page()
    server.run(lengths)
    delta = CounterDelta(before, server.page())

    steps, drafts = len(server.given), server.counted["drafts"]
    assert delta.drafted_share() == (float(Fraction(drafts, steps)) if server.k and steps else None)
    assert delta.cut_tokens() == (sum(server.cut) if server.k else None)
    assert 0 <= sum(server.cut) <= server.k * len(lengths)


@given(SERVERS, LENGTHS)
def test_tokens_per_step_has_three_parts(server: Server, lengths: list[int]) -> None:
    """1 + drafted share * (acceptance length - 1) - cut / steps, in exact arithmetic."""
    before = server.page()
    server.run(lengths)
    delta = CounterDelta(before, server.page())
    speculation, steps = delta.speculation(), delta.decode_steps()
    assume(speculation is not None and speculation.drafts > 0)
    assert speculation is not None

    share = Fraction(speculation.drafts, steps)
    gain = Fraction(speculation.accepted_tokens, speculation.drafts)
    assert Fraction(delta.decode_tokens(), steps) == 1 + share * gain - Fraction(delta.cut_tokens() or 0, steps)


@given(SERVERS, LENGTHS)
def test_simulated_counters_break_no_identity(server: Server, lengths: list[int]) -> None:
    """Counters of a decode that went as it should are never called impossible."""
    before = server.page()
    server.run(lengths)
    delta = CounterDelta(before, server.page())

    assert delta.broken_identities() == delta.broken_identities(k=server.k) == ()


@given(SERVERS, LENGTHS, LENGTHS)
def test_warm_up_traffic_is_left_out(server: Server, earlier: list[int], lengths: list[int]) -> None:
    """What was decoded before the first scrape changes nothing."""
    server.run(earlier)
    before, steps = server.page(), len(server.given)
    server.run(lengths)
    delta = CounterDelta(before, server.page())

    assert delta.tokens_per_step() == _truth(server.given[steps:])
    assert delta.first_tokens() == len(lengths)


@given(SERVERS, LENGTHS, st.integers(0, 200), LENGTHS)
def test_requests_across_a_scrape_leave_it_exact(
    server: Server, lengths: list[int], steps: int, later: list[int]
) -> None:
    """Requests that ran at the first scrape and finished by the second brought their first tokens before it."""
    running = server.run(lengths, steps=steps)
    unfinished, before, seen = len(running), server.page(), len(server.given)
    server.go_on(lengths, running)
    server.run(later)
    delta = CounterDelta(before, server.page())

    assert delta.first_tokens() == len(later)
    assert sum(delta.finished().values()) == len(later) + unfinished
    assert delta.tokens_per_step() == _truth(server.given[seen:])
    assert delta.broken_identities() == ()


@given(SERVERS, LENGTHS, st.integers(0, 200), st.integers(0, 200))
def test_requests_that_still_run_at_the_second_scrape_leave_it_exact(
    server: Server, lengths: list[int], steps: int, more: int
) -> None:
    """Requests that are under way at both scrapes count with the steps in between, and with nothing else."""
    running = server.run(lengths, steps=steps)
    before, seen = server.page(), len(server.given)
    server.go_on(lengths, running, steps=more)
    delta = CounterDelta(before, server.page())

    assert delta.first_tokens() == 0
    assert delta.tokens_per_step() == _truth(server.given[seen:])


def test_finished_requests_in_place_of_first_tokens_would_be_wrong() -> None:
    """Eight requests across the first scrape: counted as first tokens, each would take one token away."""
    server = Server(k=4)
    lengths = [60] * 8
    running = server.run(lengths, steps=40)
    before, seen = server.page(), len(server.given)
    server.go_on(lengths, running)
    after = server.page()
    told = CounterDelta(before, after)
    untold = CounterDelta(*(_without(page, counters.FIRST_TOKENS) for page in (before, after)))

    truth = _truth(server.given[seen:])
    assert told.tokens_per_step() == truth
    assert untold.first_tokens() == 8
    assert untold.tokens_per_step() == (sum(server.given[seen:]) - 8) / len(server.given[seen:])


def test_an_old_server_counts_finished_requests() -> None:
    """Without its own counter of first tokens, finished requests stand for them: right where none was cut in two."""
    server = Server(k=4, drafting=0.5)
    before = server.page()
    server.run([40, 7, 1, 25])
    delta = CounterDelta(*(_without(page, counters.FIRST_TOKENS) for page in (before, server.page())))

    assert delta.first_tokens() == 4
    assert delta.tokens_per_step() == _truth(server.given)


def _without(page: CounterPage, name: str) -> CounterPage:
    return CounterPage(samples=tuple(sample for sample in page.samples if sample.name != name))


def test_acceptance_length_overstates_what_a_lazy_drafter_gives() -> None:
    """A drafter that proposes nothing in 60 % of the steps seems to give 2.8 tokens a step, and gives 1.7."""
    server = Server(k=4, drafting=0.4, acceptance=0.7)
    before = server.page()
    server.run([200] * 50)
    delta = CounterDelta(before, server.page())
    speculation = delta.speculation()

    assert speculation is not None
    assert 2.7 < (speculation.acceptance_length or 0) < 2.9
    assert 1.6 < (delta.tokens_per_step() or 0) < 1.8
    assert delta.tokens_per_step() == _truth(server.given)


def test_acceptance_length_overstates_even_where_every_step_drafts() -> None:
    """With answers of seven tokens and perfect acceptance at k=4, every second step loses four of its five tokens."""
    server = Server(k=4, acceptance=1.0)
    before = server.page()
    server.run([7] * 10)
    delta = CounterDelta(before, server.page())
    speculation = delta.speculation()

    assert speculation is not None
    assert (speculation.acceptance_length, delta.tokens_per_step()) == (5.0, 3.0)
    assert (delta.drafted_share(), delta.cut_tokens()) == (1.0, 40)


@given(SERVERS, LENGTHS)
def test_acceptance_length_is_never_below_tokens_per_step(server: Server, lengths: list[int]) -> None:
    """Steps without a draft and answers that end only take away from what a drafted step could give."""
    before = server.page()
    server.run(lengths)
    delta = CounterDelta(before, server.page())
    speculation = delta.speculation()
    assume(speculation is not None and speculation.drafts > 0)
    assert speculation is not None

    assert (speculation.acceptance_length or 0) >= (delta.tokens_per_step() or 0) * (1 - 1e-12)


def test_answers_of_one_token_have_no_step() -> None:
    """A point whose answers all end with their first token decoded nothing, which is not a step of 0 tokens."""
    server = Server(k=4)
    before = server.page()
    server.run([1] * 8)
    delta = CounterDelta(before, server.page())

    assert (delta.decode_steps(), delta.tokens_per_step(), delta.step_time_s(), delta.drafted_share()) == (0,) + (
        None,
    ) * 3
