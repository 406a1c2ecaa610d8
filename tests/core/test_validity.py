"""What must not be judged: boots that are not complete, and points that cannot be trusted."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.counters import CounterPage
from pytest_specgate.core.speculation import SpeculationDelta
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.validity import boot_problem, point_problem

if TYPE_CHECKING:
    from pytest_specgate.core.records import PointRecord, RequestRecord
    from tests.core.conftest import Build


def test_a_boot_that_failed_keeps_its_reason(build: type[Build]) -> None:
    """The failure of a boot is passed on as it is."""
    arm, failure = build.arm(), Failure(reason="server-died", message="it died", detail="boom")
    boot = build.boot(arm, build.profile()).model_copy(update={"failure": failure})

    assert boot_problem(arm, boot, build.profile()) == failure


def test_a_boot_without_all_points_was_not_measured(build: type[Build]) -> None:
    """A boot that lacks points of the profile names them."""
    boot = build.boot(build.arm(), build.profile(requests={1: 10}), number=3)

    seen = boot_problem(build.arm(), boot, build.profile(requests={1: 10, 8: 16, 32: 64}))

    assert seen == Failure(reason="not-measured", message="arm off, round 3: c=8, c=32 was not measured")


def test_a_complete_boot_has_no_problem(build: type[Build]) -> None:
    """A boot with every point of the profile can be judged."""
    assert boot_problem(build.arm(), build.boot(build.arm(), build.profile()), build.profile()) is None


def _requests(build: type[Build], count: int = 10) -> list[RequestRecord]:
    return [build.request(index) for index in range(count)]


def _problem(build: type[Build], point: PointRecord, *, k: int | None = None) -> tuple[str, str] | None:
    """Return reason and message of what is wrong with a point of ten requests, if anything is."""
    seen = point_problem(build.arm(k), point, build.profile())
    return seen if seen is None else (seen.reason, seen.message)


@pytest.mark.parametrize("k", [None, 4, 7])
def test_a_sound_point_has_no_problem(build: type[Build], k: int | None) -> None:
    """A point whose requests completed and whose counters agree can be judged."""
    speculation = None if k is None else build.drafted(10, k=k)

    assert _problem(build, build.point(_requests(build), speculation=speculation), k=k) is None


def test_case_13_a_request_that_failed_in_its_stream(build: type[Build]) -> None:
    """Case 13: one request with an error event makes the point invalid, and its error is shown."""
    broken = build.request(9, error="the server sent an error event: engine died")

    seen = _problem(build, build.point([*_requests(build, 9), broken]))

    words = "arm off at c=1: 1 of 10 requests failed, the first with: the server sent an error event: engine died"
    assert seen == ("failed-requests", words)


@pytest.mark.parametrize(("good", "bad"), [(2, 8), (0, 10)], ids=["case 34", "case 35"])
def test_cases_34_35_failed_requests(build: type[Build], *, good: int, bad: int) -> None:
    """Cases 34, 35: a point with failures, or with nothing else, is invalid whatever the rest looks like."""
    requests = [*_requests(build, good), *(build.failed(index) for index in range(bad))]

    seen = _problem(build, build.point(requests))

    words = f"arm off at c=1: {bad} of 10 requests failed, the first with: HTTP 500: engine died"
    assert seen == ("failed-requests", words)


def test_case_102_failures_make_no_arm_fast(build: type[Build]) -> None:
    """Case 102: fast answers beside failed ones are not celebrated."""
    fast = [build.request(index, speed=5.0) for index in range(7)]

    seen = _problem(build, build.point([*fast, *(build.failed() for _ in range(3))]))

    assert seen is not None
    assert seen[0] == "failed-requests"


def test_too_few_requests(build: type[Build]) -> None:
    """A point with fewer requests than the profile asks is invalid although none failed."""
    assert _problem(build, build.point(_requests(build, 9))) == (
        "too-few-requests",
        "arm off at c=1: 9 of 10 requests completed",
    )


def test_case_62_a_success_that_was_aborted(build: type[Build]) -> None:
    """Case 62: requests that the server aborted make the point invalid, although the client saw successes."""
    point = build.risen(build.point(_requests(build)), counters.FINISHED, 3, finished_reason="abort")

    ended = "the server ended requests that the client saw complete: 3 by abort (all: {'length': 10, 'abort': 3})"
    assert _problem(build, point) == ("aborted-requests", f"arm off at c=1: {ended}")


@pytest.mark.parametrize(("rise", "reason", "theirs"), [(7, "foreign-traffic", 117), (-7, "counter-mismatch", 103)])
def test_tokens_of_server_and_client_must_agree(build: type[Build], *, rise: float, reason: str, theirs: int) -> None:
    """More tokens at the server are somebody else's traffic, fewer are a broken count; both are invalid."""
    point = build.risen(build.point(_requests(build)), counters.GENERATION_TOKENS, rise)

    words = f"arm off at c=1: the server generated {theirs} tokens, our requests received 110"
    assert _problem(build, point) == (reason, words)


@pytest.mark.parametrize("count", [1, 10])
def test_requests_without_usage(build: type[Build], count: int) -> None:
    """Tokens that the client could not count make the point invalid: they are not nothing, and not a length."""
    uncounted = [build.request(index, output_tokens=None) for index in range(count)]

    seen = _problem(build, build.point([*_requests(build, 10 - count), *uncounted]))

    words = f"arm off at c=1: the server sent no usage for {count} requests, so their tokens are unknown"
    assert seen == ("no-usage", words)


@pytest.mark.parametrize("tokens", [1, 10, 12])
def test_case_77_an_answer_of_another_length(build: type[Build], tokens: int) -> None:
    """Case 77: where the end token is ignored, an answer that is shorter or longer than asked for is invalid."""
    odd = [build.request(index, output_tokens=tokens) for index in (4, 5)]

    seen = _problem(build, build.point([*_requests(build, 8), *odd]))

    assert seen == ("output-lengths", f"arm off at c=1: request 4 ended after {tokens} of 11 output tokens")


def test_answers_that_may_end_by_themselves_may_be_short(build: type[Build]) -> None:
    """Where the end token counts, answers of any length are what was asked for."""
    point = build.point([build.request(index, output_tokens=1 + index) for index in range(10)])

    assert point_problem(build.arm(), point, build.profile(ignore_eos=False)) is None


def test_usage_is_asked_of_every_answer(build: type[Build]) -> None:
    """Where the end token counts, an answer without a count is invalid all the same."""
    point = build.point([*_requests(build, 9), build.request(9, output_tokens=None)])

    seen = point_problem(build.arm(), point, build.profile(ignore_eos=False))

    assert seen is not None
    assert seen.reason == "no-usage"


def test_lengths_and_usage_are_those_of_complete_answers(build: type[Build]) -> None:
    """A failed request is named as failed, whatever its length or its missing count."""
    broken = build.request(9, error="truncated", output_tokens=None)

    seen = _problem(build, build.point([*_requests(build, 9), broken]))

    assert seen is not None
    assert seen[0] == "failed-requests"


def test_case_46_a_reset_counter_is_unreadable(build: type[Build]) -> None:
    """Case 46: counters that went back make the point invalid, and are named."""
    point = build.point(_requests(build))
    reset = point.model_copy(update={"before": point.after, "after": point.before})

    seen = _problem(build, reset)

    assert seen is not None
    assert seen[0] == "counters-unreadable"
    assert seen[1].startswith("arm off at c=1: counter reset: vllm:")


def test_case_50_a_page_without_series_is_unreadable(build: type[Build]) -> None:
    """Case 50: a page without the engine's series does not read as "speculation off, 0 drafts"."""
    empty = CounterPage(samples=())
    point = build.point(_requests(build)).model_copy(update={"before": empty, "after": empty})

    seen = _problem(build, point)

    assert seen is not None
    assert (seen[0], "--disable-log-stats" in seen[1]) == ("counters-unreadable", True)


def test_case_48_speculation_that_never_drafted(build: type[Build]) -> None:
    """Case 48: an arm that declares k and drafts nothing while tokens flow is invalid."""
    idle = SpeculationDelta(0, 0, 0, (0, 0, 0, 0))

    seen = _problem(build, build.point(_requests(build), speculation=idle), k=4)

    reason, message = seen or ("", "")
    assert reason == "speculation-inactive"
    assert message == (
        "arm k4 at c=1: speculation did not run: 0 drafts: ngram drafts what followed the same tokens before, and "
        "these prompts and answers repeat nothing: use prompts like your traffic"
    )


@pytest.mark.parametrize("config", [{"model": "a"}, {"method": "eagle3", "num_speculative_tokens": 4}])
def test_a_drafter_that_never_drafted_may_not_have_been_loaded(build: type[Build], config: dict[str, Any]) -> None:
    """A drafter with weights drafts in every step, so the log of the server tells more than other prompts would."""
    arm = build.arm().vary("k4", args={"speculative_config": config})
    point = build.point(_requests(build), speculation=SpeculationDelta(0, 0, 0, (0, 0, 0, 0)))

    found = point_problem(arm, point, build.profile())

    assert found is not None
    assert found.message.endswith(": 0 drafts: see in the server's log whether the drafter was loaded")


def test_an_arm_that_lost_its_speculation_counters(build: type[Build]) -> None:
    """An arm that declares speculation but has no such series at a point is not as declared."""
    seen = _problem(build, build.point(_requests(build)), k=4)

    assert seen == ("arm-not-as-declared", "arm k4 at c=1: the server has no speculation counters")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"accepted_tokens": 61}, "accepted tokens by position sum to 60, not to 61"),
        ({"accepted_per_position": (10, 20, 30, 0)}, "accepted tokens rise with the position: [10, 20, 30, 0]"),
        ({"draft_tokens": 59}, "60 tokens accepted of 59 drafted"),
        ({"draft_tokens": 161}, "161 draft tokens in 40 drafts of at most 4"),
        ({"accepted_per_position": (30, 20, 10)}, "3 draft positions are counted, not 4"),
    ],
)
def test_case_55_broken_identities(build: type[Build], *, changes: dict[str, Any], problem: str) -> None:
    """Case 55: counters that contradict each other make the point invalid, and the identity is named."""
    broken = dataclasses.replace(build.drafted(10, k=4), **changes)

    seen = _problem(build, build.point(_requests(build), speculation=broken), k=4)

    assert seen == ("counter-identity", f"arm k4 at c=1: impossible counters: {problem}")
