"""Traffic that is not ours, and counts that cannot be ours: what a point is refused for besides its own requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.counters import CounterPage, Sample
from pytest_specgate.core.validity import point_problem

if TYPE_CHECKING:
    from pytest_specgate.core.records import PointRecord, RequestRecord
    from tests.core.conftest import Build


def _requests(build: type[Build], **changes: Any) -> list[RequestRecord]:
    return [build.request(index, **changes) for index in range(10)]


def _problem(
    build: type[Build], point: PointRecord, *, k: int | None = None, **profile: object
) -> tuple[str, str] | None:
    """Return reason and message of what is wrong with a point, if anything is."""
    seen = point_problem(build.arm(k), point, build.profile(**profile))
    return seen if seen is None else (seen.reason, seen.message.removeprefix(f"arm {build.arm(k).name} at c=1: "))


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(("gauge", "word"), [(counters.RUNNING, "running"), (counters.WAITING, "waiting")])
def test_case_58_requests_of_nobody_around_a_point(build: type[Build], *, side: str, gauge: str, word: str) -> None:
    """Case 58: what still runs or waits before or after our own requests is somebody else's, whatever was counted."""
    point = build.point(_requests(build))
    page: CounterPage = getattr(point, side)
    busy = Sample(name=gauge, labels={"engine": "0", "model_name": build.model}, value=3)
    with_it = page.model_copy(update={"samples": (*page.samples, busy)})

    assert _problem(build, point.model_copy(update={side: with_it})) == (
        "foreign-traffic",
        f"the server had requests 3 {word} {side} the point, and none of them was ours",
    )


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("kept", "sound"), [((), False), ((counters.RUNNING,), True), ((counters.WAITING,), True)], ids=str
)
def test_a_page_that_does_not_tell_what_runs_is_refused(
    build: type[Build], *, side: str, kept: tuple[str, ...], sound: bool
) -> None:
    """What was not measured is never a pass: without both gauges a server that serves others looks like a quiet one."""
    point = build.point(_requests(build))
    page: CounterPage = getattr(point, side)
    left = tuple(sample for sample in page.samples if sample.name not in counters.GAUGES - set(kept))
    sentence = (
        "/metrics has neither vllm:num_requests_running nor vllm:num_requests_waiting "
        f"{side} the point, so the server may have served others meanwhile"
    )

    seen = _problem(build, point.model_copy(update={side: page.model_copy(update={"samples": left})}))

    assert seen == (None if sound else ("missing-counter", sentence))


STOPPED: dict[str, Any] = {"stop": ("###",), "ignore_eos": False}


@pytest.mark.parametrize(("spare", "sound"), [(0, True), (40, True), (41, False)])
def test_stop_strings_cut_tokens_outside_the_engine(build: type[Build], *, spare: int, sound: bool) -> None:
    """A stop string in the text cuts up to k tokens off an answer that the engine has counted; without one, none."""
    point = build.point(_requests(build), speculation=build.drafted(10, k=4))
    risen = build.risen(point, counters.GENERATION_TOKENS, spare)
    risen = build.risen(risen, f"{counters.STEPS[0]}_count", spare)

    assert (_problem(build, risen, k=4, **STOPPED) is None) == sound
    assert (_problem(build, risen, k=4) is None) == (not spare)


def test_drafts_of_steps_that_nobody_saw(build: type[Build]) -> None:
    """The engine drafts on until it hears that the client's stop string ended an answer: that breaks no identity."""
    point = build.point(_requests(build), speculation=build.drafted(10, k=4))
    risen = build.risen(build.risen(point, counters.DRAFTS, 50), counters.DRAFT_TOKENS, 200)

    assert _problem(build, risen, k=4, **STOPPED) is None
    assert (_problem(build, risen, k=4) or ("",))[0] == "counter-identity"


def test_prompts_of_another_length_than_declared(build: type[Build]) -> None:
    """Prompts are cut to the exact length by the server's own count: another count is not as declared."""
    point = build.point(_requests(build, prompt_tokens=19))

    assert _problem(build, point) == (
        "prompt-lengths",
        "the server counts 19 prompt tokens in request 0, declared are 16",
    )


def test_a_prefix_cache_that_is_not_counted_is_not_cold(build: type[Build]) -> None:
    """What was not measured is never a pass: without the counters a warm cache cannot be excluded."""
    point = build.point(_requests(build))
    pages = {
        side: page.model_copy(
            update={"samples": tuple(one for one in page.samples if one.name != counters.PREFIX_QUERIES)}
        )
        for side, page in (("before", point.before), ("after", point.after))
    }

    assert (_problem(build, point.model_copy(update=pages)) or ("",))[0] == "missing-counter"


def test_more_hits_than_lookups_cannot_be(build: type[Build]) -> None:
    """A hit rate above 1 is none."""
    point = build.risen(build.point(_requests(build)), counters.PREFIX_HITS, 200)

    assert (_problem(build, point, prefix_cache="warm") or ("",))[0] == "counter-identity"
