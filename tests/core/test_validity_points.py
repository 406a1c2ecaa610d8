"""Points that cannot be believed: values that cannot be, counts that disagree, warm caches, saturated clients."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.counters import CounterPage
from pytest_specgate.core.validity import BUSY_SHARE, LAG_S, LAG_SHARE, PREFIX_HIT_SHARE, across_arms, point_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.records import PointRecord, RequestRecord
    from tests.core.conftest import Build


def _requests(build: type[Build], count: int = 10, **changes: Any) -> list[RequestRecord]:
    return [build.request(index, **changes) for index in range(count)]


def _problem(
    build: type[Build], point: PointRecord, *, k: int | None = None, **profile: object
) -> tuple[str, str] | None:
    """Return reason and message of what is wrong with a point, if anything is."""
    seen = point_problem(build.arm(k), point, build.profile(**profile))
    return seen if seen is None else (seen.reason, seen.message.removeprefix(f"arm {build.arm(k).name} at c=1: "))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ttft_s": 0.0}, "its first token event came at 0 s, its sending at 0 s"),
        ({"ttft_s": -0.1}, "its first token event came at -0.1 s, its sending at 0 s"),
        (
            {"ttft_s": 0.5, "last_token_s": 0.45},
            "its last token event came at 0.45 s, its first token event at 0.5 s",
        ),
        (
            {"closed_s": 1.0},
            "the end of its stream came at 1 s, its last token event at 1.1 s",
        ),
        ({"first_text_s": 0.05}, "its first text came at 0.05 s, its first token event at 0.1 s"),
        ({"output_tokens": 0}, "it has 0 output tokens"),
        ({"output_tokens": -3}, "it has -3 output tokens"),
    ],
)
def test_case_30_values_that_cannot_be(build: type[Build], *, changes: dict[str, Any], words: str) -> None:
    """Case 30: an event before the one it follows, at its sending or before it, or an answer of no tokens: INVALID."""
    point = build.point([*_requests(build, 9), build.request(9, **changes)])

    assert _problem(build, point) == ("impossible-value", f"request 9 has impossible values: {words}")


@pytest.mark.parametrize(
    "changes",
    [
        {"ttft_s": 1.1},
        {"closed_s": 1.1},
        {"closed_s": None},
        {"first_text_s": None},
        {"first_text_s": 0.1},
        {"ttft_s": None, "first_text_s": None, "last_token_s": None, "closed_s": None},
    ],
)
def test_values_that_may_be(build: type[Build], changes: dict[str, Any]) -> None:
    """Events of one read have one time, a stream may close with its last token, what is unknown contradicts nothing."""
    first_text = {} if "ttft_s" not in changes else {"first_text_s": changes["ttft_s"]}

    assert _problem(build, build.point([*_requests(build, 9), build.request(9, **{**first_text, **changes})])) is None


def test_an_answer_of_one_token_may_be(build: type[Build]) -> None:
    """Where the end token counts an answer may end at once: its only token is its first and its last."""
    single = build.request(9, output_tokens=1, last_token_s=0.1)

    assert _problem(build, build.point([*_requests(build, 9), single]), ignore_eos=False) is None


def test_a_failed_request_may_have_strange_times(build: type[Build]) -> None:
    """Only complete answers are asked for possible values: a failed one is invalid for its failure."""
    failed = build.failed(9).model_copy(update={"ttft_s": -1.0})

    seen = _problem(build, build.point([*_requests(build, 9), failed]))

    assert seen is not None
    assert seen[0] == "failed-requests"


def test_case_58_counts_that_never_agree(build: type[Build]) -> None:
    """Case 58: 990 tokens at the server and 1000 at the client: INVALID, with both numbers."""
    requests = _requests(build, output_tokens=100)
    point = build.risen(build.point(requests), counters.GENERATION_TOKENS, -10)

    words = "the server generated 990 tokens, our requests received 1000"
    assert _problem(build, point, output_tokens=100) == ("counter-mismatch", words)


@pytest.mark.parametrize(("rise", "reason"), [(1, "foreign-traffic"), (-1, "counter-mismatch")])
def test_requests_of_server_and_client_must_agree(build: type[Build], *, rise: float, reason: str) -> None:
    """A request more at the server is somebody else's, one less a broken count, even where the tokens agree."""
    point = build.risen(build.point(_requests(build)), counters.FINISHED, rise, finished_reason="length")

    assert _problem(build, point) == (reason, f"the server finished {10 + rise:.0f} requests, we sent 10")


@pytest.mark.parametrize(("rise", "reason"), [(16, "foreign-traffic"), (-16, "counter-mismatch")])
def test_prompt_tokens_of_server_and_client_must_agree(build: type[Build], *, rise: float, reason: str) -> None:
    """Prompt tokens that nobody of us sent are somebody else's traffic."""
    point = build.risen(build.point(_requests(build)), counters.PROMPT_TOKENS, rise)

    assert _problem(build, point) == (
        reason,
        f"the server took in {160 + rise:.0f} prompt tokens, our requests had 160",
    )


def test_prompt_tokens_that_nobody_told_are_not_compared(build: type[Build]) -> None:
    """A server without the counter leaves nothing to compare; an answer without the count is not as declared."""
    untold = build.point([*_requests(build, 9), build.request(9, prompt_tokens=None)])
    point = build.point(_requests(build))
    pages = {
        side: CounterPage(samples=tuple(one for one in page.samples if one.name != counters.PROMPT_TOKENS))
        for side, page in (("before", point.before), ("after", point.after))
    }

    assert _problem(build, build.risen(untold, counters.PROMPT_TOKENS, 16)) == (
        "no-usage",
        "the server counts None prompt tokens in request 9, declared are 16",
    )
    assert _problem(build, point.model_copy(update=pages)) is None


def test_case_62_ten_successes_of_which_the_server_aborted_three(build: type[Build]) -> None:
    """Case 62: client 10 successes, server stop 0, length 7, abort 3: INVALID, with all the reasons shown."""
    point = build.point(_requests(build))
    point = build.risen(point, counters.FINISHED, -3, finished_reason="length")
    point = build.risen(point, counters.FINISHED, 3, finished_reason="abort")

    words = "the server ended requests that the client saw complete: 3 by abort (all: {'length': 7, 'abort': 3})"
    assert _problem(build, point) == ("aborted-requests", words)


def test_case_48_five_hundred_tokens_and_no_draft(build: type[Build]) -> None:
    """Case 48: an arm with k = 4 whose counters stay at 0 while 500 tokens are generated: speculation did not run."""
    idle = dataclasses.replace(build.drafted(10, k=4), drafts=0, draft_tokens=0, accepted_tokens=0)
    idle = dataclasses.replace(idle, accepted_per_position=(0, 0, 0, 0))
    point = build.point(_requests(build, output_tokens=50), speculation=idle)

    assert point.counters.count(counters.GENERATION_TOKENS) == 500
    reason, message = _problem(build, point, k=4, output_tokens=50) or ("", "")
    assert reason == "speculation-inactive"
    assert message.startswith("speculation did not run: 0 drafts: ngram drafts what followed the same tokens before")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "accepted tokens by position sum to 230, not to 250"),
        ({"accepted_per_position": (60, 70, 70, 50)}, "accepted tokens rise with the position: [60, 70, 70, 50]"),
        ({"accepted_tokens": 450, "accepted_per_position": (120, 115, 110, 105)}, "450 tokens accepted of 400 drafted"),
        ({"accepted_tokens": 210, "accepted_per_position": (90, 70, 50)}, "3 draft positions are counted, not 4"),
    ],
)
def test_case_55_counters_that_contradict_each_other(
    build: type[Build], *, changes: dict[str, Any], words: str
) -> None:
    """Case 55: drafts 100, draft tokens 400, accepted 250 with a broken identity: INVALID, and it is named."""
    sound = dataclasses.replace(
        build.drafted(25, k=4),
        drafts=100,
        draft_tokens=400,
        accepted_tokens=250,
        accepted_per_position=(90, 70, 50, 20),
    )
    point = build.point(_requests(build, output_tokens=101), speculation=dataclasses.replace(sound, **changes))

    seen = _problem(build, point, k=4, output_tokens=101)

    assert seen is not None
    assert seen[0] == "counter-identity"
    assert words in seen[1]


def test_steps_that_contradict_their_tokens(build: type[Build]) -> None:
    """An arm without speculation that gave more tokens than it had steps is not believed either."""
    point = build.risen(build.point(_requests(build)), f"{counters.STEPS[0]}_count", -1)

    words = "impossible counters: 100 tokens decoded where 99 steps with 0 accepted tokens give fewer"
    assert _problem(build, point) == ("counter-identity", words)


def _cached(build: type[Build], hits: float, *, k: int | None = None) -> PointRecord:
    """Return a point of 16384 prompt tokens of which some came from the prefix cache."""
    requests = _requests(build, 16, prompt_tokens=1024)
    point = build.point(requests, speculation=None if k is None else build.drafted(16, k=k))
    return build.risen(point, counters.PREFIX_HITS, hits)


LOAD: dict[str, Any] = {"requests": {1: 16}, "input_tokens": 1024}


def test_case_80_a_warm_prefix_cache_must_be_declared(build: type[Build]) -> None:
    """Case 80: 14336 of 16384 prompt tokens from the cache are INVALID for a cold profile, and shown as 87.5 %."""
    point = _cached(build, 14336)

    assert _problem(build, point, **LOAD) == (
        "prefix-cache",
        (
            "87.5 % of the prompt tokens came from the prefix cache, and the profile declares none: switch it off, or "
            "declare prefix_cache='warm'"
        ),
    )
    assert _problem(build, point, **LOAD, prefix_cache="warm") is None


@pytest.mark.parametrize(("hits", "sound"), [(0, True), (163, True), (164, False)])
def test_case_80_a_hundredth_is_taken_for_none(build: type[Build], *, hits: float, sound: bool) -> None:
    """Case 80: up to 1 % of the prompt tokens may repeat by chance."""
    assert (_problem(build, _cached(build, hits), **LOAD) is None) == sound


def test_case_80_exactly_a_hundredth_is_none(build: type[Build]) -> None:
    """Case 80: 16 of 1600 prompt tokens are tolerated, 17 are not."""
    point = build.point(_requests(build, 16, prompt_tokens=100))
    load = {**LOAD, "input_tokens": 100}
    seen = [_problem(build, build.risen(point, counters.PREFIX_HITS, hits), **load) for hits in (16, 17)]

    assert [problem is None for problem in seen] == [True, False]


def _pair(build: type[Build]) -> ArmPair:
    return build.pair(requests={1: 16}, prefix_cache="warm")


@pytest.mark.parametrize(
    ("hits", "words"), [((0, 14336), "0.0 % in off and 87.5 % in k4"), ((14336, 0), "87.5 % in off")]
)
def test_case_80_a_cache_that_is_warm_in_one_arm(build: type[Build], *, hits: Sequence[float], words: str) -> None:
    """Case 80: 0 against 14336 of 16384 is INVALID whatever the profile declares; both shares are named."""
    pair = _pair(build)
    both = _cached(build, hits[0]), _cached(build, hits[1], k=4)

    seen = across_arms(pair, both, pair.profile)

    assert seen is not None
    assert seen.reason == "prefix-cache"
    assert seen.message.startswith("at c=1 prompt tokens came from the prefix cache to different shares: ")
    assert words in seen.message


def test_case_80_a_cache_that_is_as_warm_in_both_arms(build: type[Build]) -> None:
    """Case 80: 0.875 in both is one load, for a profile that declares it; a hundredth more or less is the same."""
    pair = _pair(build)

    for hits in (14336, 14336 + 163):
        assert across_arms(pair, (_cached(build, 14336), _cached(build, hits, k=4)), pair.profile) is None
    assert across_arms(pair, (_cached(build, 14336), _cached(build, 14336 + 164, k=4)), pair.profile) is not None


def _streamed(build: type[Build], events: int) -> PointRecord:
    return build.point(_requests(build, 16, token_events=events))


@pytest.mark.parametrize(
    ("events", "comparable"), [((110, 110), True), ((110, 108), True), ((110, 107), False), ((44, 110), False)]
)
def test_chunks_of_other_sizes_are_not_compared(
    build: type[Build], *, events: tuple[int, int], comparable: bool
) -> None:
    """Gaps between chunks are compared where chunks hold as many tokens in both arms, to 2 %; other metrics always."""
    pair = _pair(build)
    both = _streamed(build, events[0]), _streamed(build, events[1])

    seen = across_arms(pair, both, pair.profile, per_chunk=True)

    assert (seen is None) == comparable
    assert across_arms(pair, both, pair.profile) is None
    if seen is not None:
        assert seen.reason == "chunks-differ"
        assert "tokens, so gaps between chunks are not per token: use tpot_*" in seen.message


def test_chunks_that_nobody_counted_are_not_compared(build: type[Build]) -> None:
    """Without a token event in one arm nothing says that its chunks are those of the other."""
    pair = _pair(build)

    seen = across_arms(pair, (_streamed(build, 11), _streamed(build, 0)), pair.profile, per_chunk=True)

    assert seen is not None
    assert seen.message.startswith("at c=1 a chunk holds 1 in off and 0 in k4 tokens")


def _by(build: type[Build], *, ttft_s: float = 0.1, **client: Any) -> PointRecord:
    """Return a point measured by a client that fared so."""
    last_s = ttft_s + 1.0
    requests = _requests(build, ttft_s=ttft_s, first_text_s=ttft_s, last_token_s=last_s, closed_s=last_s)
    point = build.point(requests)
    return point.model_copy(update={"client": point.client.model_copy(update=client)})


JUST_LATE = LAG_S + 0.001
LATE = f"its event loop ran {1000 * JUST_LATE:.0f} ms late (p95), and {1000 * LAG_S:.0f} ms are tolerated"
PRESS_LESS = "press less"
FREE = f"free this machine of other work (0.10 CPUs), or {PRESS_LESS}"


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ({"busiest_cpu_share": 0.91}, f"one of its processes used 91 % of a CPU: {PRESS_LESS}"),
        ({"lag_p95_s": JUST_LATE}, f"{LATE}: {FREE}"),
        (
            {"late_sends_p95_s": JUST_LATE},
            f"it sent requests {1000 * JUST_LATE:.0f} ms after they were due (p95): {FREE}",
        ),
        (
            {"busiest_cpu_share": 1.0, "lag_p95_s": JUST_LATE},
            f"one of its processes used 100 % of a CPU; {LATE}: {PRESS_LESS}",
        ),
        ({"busiest_cpu_share": BUSY_SHARE, "lag_p95_s": JUST_LATE}, f"{LATE}: {FREE}"),
    ],
)
def test_a_saturated_client_measures_itself(build: type[Build], *, client: dict[str, Any], words: str) -> None:
    """A client that was busy or late makes the point INVALID, not slow; every sign is named, and what to do."""
    assert _problem(build, _by(build, **client)) == ("client-saturated", f"the load client was saturated: {words}")


def test_what_is_tolerated_is_fixed() -> None:
    """90 % of a CPU, 50 ms or a tenth of the median TTFT, a hundredth of the prompt tokens: no change by accident."""
    assert (BUSY_SHARE, LAG_S, LAG_SHARE, PREFIX_HIT_SHARE) == (0.9, 0.050, 0.10, 0.01)


def test_a_late_client_on_a_machine_that_tells_nothing(build: type[Build]) -> None:
    """Where it is unknown what else used the CPUs, the advice goes without the figure."""
    point = _by(build, lag_p95_s=JUST_LATE).model_copy(update={"other_cpu_share": None})

    seen = _problem(build, point)

    assert seen is not None
    assert seen[1].endswith(f": free this machine of other work, or {PRESS_LESS}")


@pytest.mark.parametrize(
    "client",
    [
        {"busiest_cpu_share": BUSY_SHARE},
        {"lag_p95_s": LAG_S},
        {"late_sends_p95_s": LAG_S},
        {"late_sends_p95_s": None},
        {"lag_max_s": 5.0},
        {"cpu_s": 100.0},
        {"ttft_s": 4 * LAG_S / LAG_SHARE, "lag_p95_s": 4 * LAG_S, "late_sends_p95_s": 4 * LAG_S},
    ],
)
def test_a_client_that_kept_up(build: type[Build], client: dict[str, Any]) -> None:
    """Up to 90 % of a CPU, a small lateness, or one that is small beside TTFT, and one late timer are tolerated."""
    assert _problem(build, _by(build, **client)) is None


def test_lateness_is_measured_against_the_first_tokens(build: type[Build]) -> None:
    """Of a long median TTFT a share is tolerated, and no more."""
    seen = _problem(build, _by(build, ttft_s=4 * LAG_S / LAG_SHARE, lag_p95_s=4 * LAG_S + 0.001))

    assert seen is not None
    assert f"{4000 * LAG_S + 1:.0f} ms late (p95), and {4000 * LAG_S:.0f} ms are tolerated" in seen[1]


def test_twice_the_processes_are_advised(build: type[Build]) -> None:
    """A client is told to take twice as many processes, as far as there are workers for them."""
    point = _by(build, lag_p95_s=JUST_LATE, processes=4)
    many = {at: _problem(build, point.model_copy(update={"at": at}), requests={at: 10}) for at in (10, 6, 4, "4/s")}
    advised = {at: re.findall("client_processes=[0-9]+", seen[1]) for at, seen in many.items() if seen is not None}

    assert advised == {10: ["client_processes=8"], 6: ["client_processes=6"], 4: [], "4/s": ["client_processes=8"]}


def test_a_client_without_first_tokens_may_be_a_little_late(build: type[Build]) -> None:
    """Where no answer tells a TTFT the lateness that is always tolerated holds."""
    point = build.point(_requests(build, ttft_s=None, first_text_s=None, last_token_s=None))
    late = point.model_copy(update={"client": point.client.model_copy(update={"lag_p95_s": JUST_LATE})})

    assert _problem(build, point) is None
    assert (_problem(build, late) or ("",))[0] == "client-saturated"
