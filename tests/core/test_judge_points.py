"""Judging across two arms: what makes the points of a round incomparable, and what a verdict says besides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.arms import ArmPair
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.identity import observed_fields
from pytest_specgate.core.judge import first_point_problem, judge
from pytest_specgate.core.quantities import latency_rise
from pytest_specgate.core.records import ChunkGaps
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import PointRecord, WindowRecord
    from pytest_specgate.core.verdict import Verdict
    from tests.core.conftest import Build

GAPS = ChunkGaps(count=500, sum_s=20.0, p50_s=0.030, p90_s=0.060, p95_s=0.070, p99_s=0.090, max_s=0.200)


def _all_points(
    record: WindowRecord, *, arm: str, edit: Callable[[PointRecord], PointRecord], at: Sequence[Level] = (1, 8)
) -> WindowRecord:
    """Return the window with the points of every boot of an arm changed, and its observed fields with them."""
    boots = []
    for boot in record.boots:
        if boot.arm == arm:
            points = tuple(edit(point) if point.at in at else point for point in boot.points)
            profile = {**boot.profile, **observed_fields(points)}
            boots.append(boot.model_copy(update={"points": points, "profile": profile}))
        else:
            boots.append(boot)
    return record.model_copy(update={"boots": tuple(boots)})


def _with_all(**changes: Any) -> Callable[[PointRecord], PointRecord]:
    """Return an edit that changes every request of a point."""

    def edit(point: PointRecord) -> PointRecord:
        requests = tuple(request.model_copy(update=changes) for request in point.requests)
        return point.model_copy(update={"requests": requests})

    return edit


def _requests(build: type[Build], count: int, **changes: Any) -> list[Any]:
    return [build.request(index, **changes) for index in range(count)]


def test_case_79_a_parameter_that_one_arm_refuses(build: type[Build]) -> None:
    """Case 79: min_p 0.05 is served ten times by one arm and refused ten times by the other: INVALID, in its words."""
    refusal = "HTTP 400: The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
    pair = build.pair(min_p=0.05, requests={1: 10})
    record = _all_points(
        build.window(pair, [1.0] * 2, [1.0] * 2),
        arm="k4",
        edit=lambda _: build.point(
            [build.failed(index, error=refusal).model_copy(update={"status": 400}) for index in range(10)]
        ),
    )
    # The window stops a boot at its first failed point, and records the failure beside it.
    [verdict] = judge(build.gate(pair, build.threshold("ttft_p50")), _without_observed(record))

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "failed-requests")
    assert verdict.summary == f"arm k4 at c=1: 10 of 10 requests failed, the first with: {refusal}"
    assert (verdict.reference, verdict.candidate) == (None, None)


def _without_observed(record: WindowRecord) -> WindowRecord:
    """Return the window without the fields that were observed, so that only its points can tell what is wrong."""
    boots = [
        boot.model_copy(update={"profile": {name: boot.profile[name] for name in ("temperature", "min_p")}})
        for boot in record.boots
    ]
    return record.model_copy(update={"boots": tuple(boots)})


def _cached(build: type[Build], hits: float) -> Callable[[PointRecord], PointRecord]:
    """Return an edit that gives a point 16384 prompt tokens, of which some came from the prefix cache."""

    def edit(point: PointRecord) -> PointRecord:
        requests = _requests(build, 16, prompt_tokens=1024)
        speculation = build.drafted(16, k=4) if point.counters.speculation() else None
        return build.risen(build.point(requests, speculation=speculation), counters.PREFIX_HITS, hits)

    return edit


def _cached_window(build: type[Build], pair: ArmPair, hits: tuple[float, float]) -> WindowRecord:
    record = build.window(pair, [1.0] * 2, [1.0] * 2)
    for arm, share in zip(("off", "k4"), hits, strict=True):
        record = _all_points(record, arm=arm, edit=_cached(build, share), at=[1])
    return record


@pytest.mark.parametrize(
    ("declared", "hits", "outcome", "words"),
    [
        ("cold", (0, 14336), Outcome.INVALID, "arm k4 at c=1: 87.5 % of the prompt tokens came from the prefix cache"),
        ("warm", (0, 14336), Outcome.INVALID, "to different shares: 0.0 % in off and 87.5 % in k4"),
        ("cold", (14336, 14336), Outcome.INVALID, "arm off at c=1: 87.5 % of the prompt tokens came"),
        ("warm", (14336, 14336), Outcome.PASS, "within the margin"),
    ],
)
def test_case_80_a_warm_prefix_cache(
    build: type[Build], *, declared: str, hits: tuple[float, float], outcome: Outcome, words: str
) -> None:
    """Case 80: 0 against 14336 of 16384 is INVALID; 0.875 in both is judged if the profile declares it, only then."""
    pair = build.pair(requests={1: 16}, input_tokens=1024, prefix_cache=declared)

    [verdict] = judge(build.gate(pair, build.threshold("tpot_p50")), _cached_window(build, pair, hits))

    assert verdict.outcome == outcome
    assert verdict.reason == ("within-margin" if outcome == Outcome.PASS else "prefix-cache")
    assert words in verdict.summary


def test_case_83_prompts_that_one_server_counts_differently(build: type[Build]) -> None:
    """Case 83: the same bodies, 128 prompt tokens in one arm and 131 in the other: INVALID, and the field is named."""
    pair = build.pair()
    record = build.window(pair, [1.0] * 2, [1.0] * 2)
    for arm, tokens in (("off", 128), ("k4", 131)):
        record = _all_points(record, arm=arm, edit=_with_all(prompt_tokens=tokens))

    [verdict] = judge(build.gate(pair, build.threshold("tpot_p50")), record)

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "profile-mismatch")
    assert "observed_prompt_tokens.c1\n    off, round 1: [128, 128," in verdict.detail
    assert "\n    k4, round 1: [131, 131," in verdict.detail
    assert "prompt_set_sha256" not in verdict.detail


def _twins(build: type[Build], **profile: Any) -> ArmPair:
    """Return a pair of one arm under two names."""
    return ArmPair(
        reference=build.arm(4), candidate=build.arm(4).vary("again"), varies=(), profile=build.profile(**profile)
    )


def _streamed(build: type[Build], pair: ArmPair, events: tuple[int, int]) -> WindowRecord:
    """Return a window in which the answers of the two arms came in so many events each."""
    record = build.window(pair, [1.0] * 2, [1.0] * 2)
    for arm, count in zip(pair.arms, events, strict=True):
        record = _all_points(record, arm=arm.name, edit=_with_all(token_events=count))
        record = _all_points(record, arm=arm.name, edit=lambda point: point.model_copy(update={"gaps": GAPS}))
    return record


def test_gaps_of_equal_chunks_are_judged(build: type[Build]) -> None:
    """Where a chunk holds as many tokens in both arms, the gaps between chunks are figures like others."""
    pair = _twins(build)

    [verdict] = judge(build.gate(pair, build.threshold("inter_chunk_p99")), _streamed(build, pair, (5, 5)))

    assert (verdict.outcome, verdict.samples) == (Outcome.PASS, 500)
    assert verdict.reference == pytest.approx(0.090)


def test_gaps_of_unequal_chunks_are_invalid(build: type[Build]) -> None:
    """Where they do not, gaps are no time per token, and the verdict says what to use; other metrics stay judged."""
    pair = _twins(build)
    gate = build.gate(pair, build.threshold("inter_chunk_p99"), build.threshold("tpot_p50"))

    gaps, tpot = judge(gate, _streamed(build, pair, (5, 11)))

    assert (gaps.outcome, gaps.reason) == (Outcome.INVALID, "chunks-differ")
    assert gaps.summary.startswith("at c=1 a chunk holds 2.2 in k4 and 1 in again tokens, so gaps")
    assert tpot.outcome == Outcome.PASS


@pytest.mark.parametrize("name", ["inter_chunk_p50", "inter_chunk_mean"])
def test_gaps_are_not_gated_between_draft_horizons(build: type[Build], name: str) -> None:
    """Arms of other draft horizons stream chunks of other sizes: refused at once, with the alternative."""
    threshold = build.threshold(name)
    instead = name.replace("inter_chunk", "tpot")

    build.gate(_twins(build), threshold).check()
    for reference, candidate in ((None, 4), (4, 7)):
        with pytest.raises(UsageError, match=f"{name} is a time per chunk, .*: use {instead}$"):
            build.gate(build.pair(reference=reference, candidate=candidate), threshold).check()


@pytest.mark.parametrize("name", ["achieved_concurrency", "tokens_per_chunk"])
def test_what_has_no_better_direction_is_not_gated(build: type[Build], name: str) -> None:
    """A figure that is neither good nor bad cannot be claimed to be not worse."""
    with pytest.raises(UsageError) as raised:
        build.threshold(name)

    assert str(raised.value) == f"Threshold: {name} has no better direction: it is shown, and cannot be gated"


def test_goodput_is_gated_with_limits_only(build: type[Build]) -> None:
    """Without limits goodput would be another name of request throughput."""
    build.gate(build.pair(goodput_limits={"ttft": "500ms"}), build.threshold("goodput")).check()

    with pytest.raises(UsageError, match="goodput needs limits: give the profile goodput_limits="):
        build.gate(build.pair(), build.threshold("goodput")).check()


def test_case_94_a_rate_that_fell_to_nothing_fails(build: type[Build]) -> None:
    """Case 94: down to zero is -100 % and FAIL, the largest loss there is, and never "no change" or "not measured"."""
    pair = build.pair(goodput_limits={"ttft": "100ms"})
    record = build.window(pair, [1.0] * 2, [0.9] * 2)

    [verdict] = judge(build.gate(pair, build.threshold("goodput")), record)

    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, "fell-to-zero")
    assert verdict.summary == "FAIL: goodput at c=1 fell to 0: worse -100.0 %"
    assert (verdict.candidate, verdict.change, verdict.rounds) == (0.0, -1.0, 2)
    assert (verdict.reference or 0) > 0


def test_a_reference_of_nothing_measures_nothing(build: type[Build]) -> None:
    """Where the reference arm has no good request there is nothing to be better or worse than."""
    pair = build.pair(goodput_limits={"ttft": "100ms"})
    record = build.window(pair, [0.9] * 2, [1.0] * 2)

    [verdict] = judge(build.gate(pair, build.threshold("goodput")), record)

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "reference-is-zero")
    assert verdict.summary == "goodput at c=1 is 0 in off, so there is nothing to compare with: use at_least or at_most"


def test_tokens_per_step_compares_any_two_arms(build: type[Build]) -> None:
    """What a decode step gives is counted with and without speculation: 2.5 against 1 is better by 150 %."""
    pair = build.pair()
    gate = build.gate(pair, build.threshold("tokens_per_step", kind="better", margin=1.0))

    [verdict] = judge(gate, build.window(pair, [1.0] * 2, [1.0] * 2))

    assert (verdict.outcome, verdict.reference, verdict.candidate) == (Outcome.PASS, 1.0, 2.5)
    assert "better +150.0 %" in verdict.summary


def test_samples_are_the_fewest_of_any_boot(build: type[Build]) -> None:
    """A verdict tells of how many requests, or steps, a boot's figure was taken, at least."""
    pair = build.pair()
    record = build.window(pair, [1.0] * 2, [1.0] * 2)
    names = ("ttft_p50", "output_throughput", "tokens_per_step")

    at_one = judge(build.gate(pair, *(build.threshold(name) for name in names)), record)
    [at_eight] = judge(build.gate(pair, build.threshold("ttft_p50", 8)), record)

    assert [verdict.samples for verdict in at_one] == [10, 10, 40]
    assert at_eight.samples == 16


def test_invalid_verdicts_have_no_samples(build: type[Build]) -> None:
    """What was not judged was taken of nothing."""
    pair = build.pair()

    [verdict] = judge(build.gate(pair, build.threshold()), build.window(pair, [1.0], []))

    assert (verdict.outcome, verdict.samples) == (Outcome.INVALID, None)


def _flags(build: type[Build], record: WindowRecord, pair: ArmPair, *, at: Level = 8) -> str:
    [verdict] = judge(build.gate(pair, build.threshold("tpot_p50", at)), record)
    return " ".join(verdict.flags)


def test_a_load_that_was_not_reached_is_flagged(build: type[Build]) -> None:
    """Where fewer requests were in flight than declared, the verdict says how many, and that more requests help."""
    pair = build.pair()
    record = build.window(pair, [1.0] * 2, [1.0] * 2)

    def late(point: PointRecord) -> PointRecord:
        *others, last = point.requests
        return point.model_copy(update={"requests": (*others, last.model_copy(update={"sent_s": 2.2}))})

    thin = _all_points(record, arm="k4", edit=late, at=[8])

    assert "in flight" not in _flags(build, record, pair)
    assert "only 67 % of the declared concurrency was in flight on average" in _flags(build, thin, pair)


def test_an_open_loop_has_no_declared_concurrency(build: type[Build]) -> None:
    """Requests that arrive by a schedule are judged at their rate, and nothing is said of workers."""
    pair = build.pair(requests={"4/s": 12})
    record = build.window(pair, [1.0] * 2, [1.0] * 2)

    [verdict] = judge(build.gate(pair, build.threshold("ttft_p50", "4/s")), record)

    assert (verdict.outcome, verdict.at, verdict.flags) == (Outcome.PASS, "4/s", ())
    assert verdict.threshold == "r4-ttft_p50-not_worse"
    assert "TTFT p50 at 4/s" in verdict.summary


def test_a_server_that_does_not_keep_up_is_flagged(build: type[Build]) -> None:
    """Where later requests of an open loop take much longer than earlier ones, latencies tell the point's length."""
    pair = build.pair(requests={"4/s": 12})
    record = build.window(pair, [1.0] * 2, [1.0] * 2)

    def queue(point: PointRecord) -> PointRecord:
        waits = [0.1 + 0.4 * index for index in range(12)]
        requests = [
            build.request(
                index, sent_s=0.25 * index, ttft_s=wait, first_text_s=wait, last_token_s=wait + 1.0, closed_s=wait + 1.0
            )
            for index, wait in enumerate(waits)
        ]
        return build.point(requests, at="4/s")

    sound, queued = _flags(build, record, pair, at="4/s"), _all_points(record, arm="off", edit=queue, at=["4/s"])

    assert "keep up" not in sound
    assert "a server did not keep up with 4/s" in _flags(build, queued, pair, at="4/s")


@pytest.mark.parametrize(
    ("at", "ends", "expected"),
    [
        ("4/s", (2, 4, 8, 16), 4.0),
        ("4/s", (0.5, 0.5, 1.0, 1.0), 2.0),
        ("4/s", (2, 4, 6, 15, 16), 5.0),
        ("4/s", (3, 3, 3, 3, 3, 3), 1.0),
        ("4/s", (2, 4, 8), None),
        ("4/s", (0, 0, 8, 16), None),
        (1, (2, 4, 8, 16), None),
    ],
)
def test_latency_over_the_course_of_a_point(
    build: type[Build], *, at: Level, ends: tuple[float, ...], expected: float | None
) -> None:
    """The median of the second half over that of the first, in sending order; none in a closed loop or of a few."""
    requests = [build.request(index, sent_s=float(index), last_token_s=float(end)) for index, end in enumerate(ends)]

    assert latency_rise(build.point(requests[::-1], at=at)) == expected


def test_the_first_point_that_cannot_be_judged(build: type[Build]) -> None:
    """The first reason at any level, or at one of them, whether it is gated or not; none when all is well."""
    pair = build.pair()
    record = build.window(pair, [1.0] * 2, [1.0] * 2)
    broken = build.edited_point(record, arm="k4", at=8, edit=_with_error)

    assert first_point_problem(pair, record) is None
    assert first_point_problem(pair, broken, at=1) is None
    for at in (8, None):
        problem = first_point_problem(pair, broken, at=at)
        assert problem is not None
        assert problem.message.startswith("arm k4 at c=8: 1 of 16 requests failed")


def _with_error(point: PointRecord) -> PointRecord:
    first, *others = point.requests
    return point.model_copy(update={"requests": (first.model_copy(update={"error": "HTTP 500"}), *others)})


def test_arrivals_of_an_open_loop_are_part_of_the_load(build: type[Build]) -> None:
    """Two arms that were sent the same requests at other times were not under one load."""
    pair = build.pair(requests={"4/s": 12})
    record = build.window(pair, [1.0] * 2, [1.0] * 2)

    def due(shift: float) -> Callable[[PointRecord], PointRecord]:
        return lambda point: point.model_copy(
            update={
                "requests": tuple(
                    one.model_copy(update={"due_s": index * 0.25 + shift * (index == 5)})
                    for index, one in enumerate(point.requests)
                )
            }
        )

    def verdict(shifts: tuple[float, float]) -> Verdict:
        edited = record
        for arm, shift in zip(("off", "k4"), shifts, strict=True):
            edited = _all_points(edited, arm=arm, edit=due(shift), at=["4/s"])
        [found] = judge(build.gate(pair, build.threshold("tpot_p50", "4/s")), edited)
        return found

    assert verdict((0.0, 0.0)).outcome == Outcome.PASS
    other = verdict((0.0, 0.01))
    assert (other.reason, other.detail.splitlines()[0]) == ("profile-mismatch", "arrivals_sha256.r4")


def test_two_clients_are_two_loads(build: type[Build]) -> None:
    """Arms whose load came from other numbers of processes are not compared."""
    pair = build.pair()
    record = _all_points(
        build.window(pair, [1.0] * 2, [1.0] * 2),
        arm="k4",
        edit=lambda point: point.model_copy(update={"client": point.client.model_copy(update={"processes": 2})}),
    )

    [verdict] = judge(build.gate(pair, build.threshold("tpot_p50")), record)

    assert (verdict.reason, verdict.detail.splitlines()[0]) == ("profile-mismatch", "client_processes.c1")
