"""Windows that must not be judged: INVALID, with the reason, and never a figure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.counters import CounterPage
from pytest_specgate.core.identity import REMEDIES, sent_hash
from pytest_specgate.core.judge import judge, needs_more_rounds
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from pytest_specgate.core.records import PointRecord, WindowRecord
    from tests.core.conftest import Build

FIGURES = ("reference", "candidate", "ratios", "change", "change_low", "change_high", "sd", "df", "rounds")


def _judged(build: type[Build], record: WindowRecord, *names: str) -> tuple[Verdict, ...]:
    thresholds = [build.threshold(name) for name in names or ("output_throughput",)]
    return judge(build.gate(build.pair(), *thresholds), record)


def _window(build: type[Build], reference: int = 2, candidate: int = 2) -> WindowRecord:
    return build.window(build.pair(), [1.0] * reference, [1.0] * candidate)


def _assert_invalid(verdict: Verdict, reason: str) -> None:
    """Check the word, the reason, and that no figure is there to be scraped."""
    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, reason)
    assert [getattr(verdict, name) or None for name in FIGURES] == [None] * len(FIGURES)
    assert (verdict.gate, verdict.accepted) == ("test_gate.py::test_gate", False)


@pytest.mark.parametrize(("reference", "candidate"), [(0, 2), (2, 0), (0, 0)], ids=str)
def test_a_window_of_one_arm(build: type[Build], *, reference: int, candidate: int) -> None:
    """A window that has no complete round is invalid as a whole."""
    [verdict] = _judged(build, _window(build, reference, candidate))

    _assert_invalid(verdict, "not-measured")
    assert verdict.summary == "the window ended before both arms of k4 against off ran"


@pytest.mark.parametrize(("reference", "candidate"), [(2, 1), (1, 2)], ids=str)
def test_a_half_measured_round_does_not_count(build: type[Build], *, reference: int, candidate: int) -> None:
    """A round that lacks an arm is no round: what needs two of them is not decided by one and a half."""
    [verdict] = _judged(build, _window(build, reference, candidate))

    assert (verdict.outcome, verdict.reason, verdict.rounds) == (Outcome.INCONCLUSIVE, "stopped", 1)


def _failed(record: WindowRecord, build: type[Build], *, arm: str, number: int, reason: str = "died") -> WindowRecord:
    """Return the window with a boot that failed before its first point."""
    failure = Failure(reason=reason, message=f"arm {arm}: it died in round {number}", detail="boom")
    return build.edited(
        record, arm=arm, number=number, edit=lambda boot: boot.model_copy(update={"failure": failure, "points": ()})
    )


@pytest.mark.parametrize(
    ("boots", "arm", "number"),
    [((3, 2), "off", 3), ((2, 3), "k4", 3), ((1, 0), "off", 1), ((0, 1), "k4", 1), ((6, 5), "off", 6)],
    ids=str,
)
def test_a_boot_that_failed_in_a_half_round_is_not_ignored(
    build: type[Build], *, boots: tuple[int, int], arm: str, number: int
) -> None:
    """A server that died before its partner booted makes the pair invalid, as it would in a whole round."""
    [verdict] = _judged(build, _failed(_window(build, *boots), build, arm=arm, number=number))

    _assert_invalid(verdict, "died")
    assert (verdict.summary, verdict.detail) == (f"arm {arm}: it died in round {number}", "boom")


def test_a_half_round_without_one_of_the_points(build: type[Build]) -> None:
    """A boot that lacks a point is invalid also where its partner never booted."""
    record = build.edited(
        _window(build, 3, 2), arm="off", number=3, edit=lambda boot: boot.model_copy(update={"points": ()})
    )

    [verdict] = _judged(build, record)

    _assert_invalid(verdict, "not-measured")
    assert verdict.summary == "arm off, round 3: c=1, c=8 was not measured"


@pytest.mark.parametrize("arm", ["off", "k4"])
def test_a_dead_server(build: type[Build], arm: str) -> None:
    """A boot whose server died makes every threshold invalid, with its reason and the end of its log."""
    failure = Failure(reason="server-died", message=f"arm {arm}: it died with exit code 3", detail="boom")
    record = build.edited(
        _window(build), arm=arm, number=2, edit=lambda boot: boot.model_copy(update={"failure": failure, "points": ()})
    )

    verdicts = _judged(build, record, "output_throughput", "ttft_p50")

    for verdict in verdicts:
        _assert_invalid(verdict, "server-died")
        assert (verdict.summary, verdict.detail) == (failure.message, "boom")
    assert not needs_more_rounds(verdicts)


@pytest.mark.parametrize(
    ("failures", "first"),
    [
        ((("off", 2), ("k4", 1)), "k4-1"),
        ((("off", 1), ("k4", 1)), "off-1"),
        ((("off", 2), ("k4", 2)), "k4-2"),
        ((("off", 3), ("k4", 2)), "k4-2"),
    ],
    ids=str,
)
def test_the_first_failure_in_time_is_named(
    build: type[Build], *, failures: tuple[tuple[str, int], ...], first: str
) -> None:
    """Of two boots that failed the earlier one is the reason; even rounds boot the candidate first."""
    record = _window(build, 3, 2)
    for arm, number in failures:
        record = _failed(record, build, arm=arm, number=number, reason=f"{arm}-{number}")

    [verdict] = _judged(build, record)

    _assert_invalid(verdict, first)


def test_a_boot_without_one_of_the_points(build: type[Build]) -> None:
    """A boot that ended before its last point makes thresholds at the other points invalid too."""
    record = build.edited(
        _window(build), arm="k4", edit=lambda boot: boot.model_copy(update={"points": boot.points[:1]})
    )

    [verdict] = _judged(build, record)

    _assert_invalid(verdict, "not-measured")
    assert verdict.summary == "arm k4, round 1: c=8 was not measured"


def test_case_75_a_profile_mismatch_names_field_and_values(build: type[Build]) -> None:
    """Case 75: different prompts are invalid; the field and both values are shown, and no figure."""
    record = build.edited(
        _window(build),
        arm="k4",
        edit=lambda boot: boot.model_copy(update={"profile": {**boot.profile, "prompt_set_sha256.c1": "bbbb"}}),
    )

    [verdict] = _judged(build, record)

    fields = len(record.boots[0].profile)
    _assert_invalid(verdict, "profile-mismatch")
    assert verdict.summary == f"request profile: {fields - 1} of {fields} fields identical"
    assert verdict.detail.splitlines() == [
        "prompt_set_sha256.c1",
        f"    off, round 1: {sent_hash(record.boots[0].points[0].requests)}",
        "    k4, round 1: bbbb",
        f"    {REMEDIES['prompt_set_sha256']}",
    ]


def _edited(build: type[Build], *, arm: str = "k4", at: int = 1, **changes: Any) -> WindowRecord:
    """Return a window in which the first request of a point is changed."""

    def change(point: PointRecord) -> PointRecord:
        first, *others = point.requests
        return point.model_copy(update={"requests": (first.model_copy(update=changes), *others)})

    return build.edited_point(_window(build), arm=arm, at=at, edit=change)


@pytest.mark.parametrize("arm", ["off", "k4"])
@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -0.1])
def test_case_89_a_figure_that_is_no_number(build: type[Build], *, arm: str, value: float) -> None:
    """Case 89: NaN, infinity, zero and negative times are invalid in either arm, never better or equal."""
    [verdict] = _judged(build, _edited(build, arm=arm, ttft_s=value), "ttft_p50")

    _assert_invalid(verdict, "missing-metric" if math.isnan(value) else "impossible-value")
    assert verdict.summary.startswith(f"arm {arm} at c=1: ")
    assert "request 0 has" in verdict.summary


def test_case_90_a_missing_metric(build: type[Build]) -> None:
    """Case 90: a metric that a point does not give is invalid, with the reason why it is missing."""
    [verdict] = _judged(build, _edited(build, ttft_s=None), "ttft_p50")

    _assert_invalid(verdict, "missing-metric")
    assert verdict.summary == "arm k4 at c=1: no ttft_p50: request 0 has an impossible value: nan"


def test_case_90_a_metric_of_too_few_requests(build: type[Build]) -> None:
    """Case 90: a percentile that fewer requests have than it needs is invalid, with both numbers."""
    pair = build.pair(ignore_eos=False)

    def shorten(point: PointRecord) -> PointRecord:
        first, *others = point.requests
        requests = [first.model_copy(update={"output_tokens": 1}), *others]
        return build.point(requests, speculation=point.counters.speculation() and build.drafted(9, k=4))

    record = build.window(pair, [1.0, 1.0], [1.0, 1.0])
    record = build.edited_point(record, arm="k4", edit=shorten)
    record = build.edited_point(record, arm="off", edit=shorten)

    [verdict] = judge(build.gate(pair, build.threshold("tpot_p50")), record)

    _assert_invalid(verdict, "missing-metric")
    assert verdict.summary == "arm off at c=1: no tpot_p50: 9 requests have a value, and 10 are needed"


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_case_94_down_to_zero(build: type[Build], *, ignore_eos: bool) -> None:
    """Case 94: a throughput that fell to zero is invalid, not unchanged."""
    pair = build.pair(ignore_eos=ignore_eos)

    def silence(point: PointRecord) -> PointRecord:
        silent = [request.model_copy(update={"output_tokens": 0}) for request in point.requests]
        return build.point(silent, at=point.at)

    record = build.edited_point(build.window(pair, [1.0] * 2, [1.0] * 2), arm="off", edit=silence)
    [verdict] = judge(build.gate(pair, build.threshold()), record)

    _assert_invalid(verdict, "impossible-value")
    assert verdict.summary == "arm off at c=1: request 0 has impossible values: it has 0 output tokens"


@pytest.mark.parametrize("metric", ["output_throughput", "ttft_p50"])
def test_requests_without_usage(build: type[Build], metric: str) -> None:
    """Answers whose tokens nobody counted are invalid, also for a metric that needs no count."""
    [verdict] = _judged(build, _edited(build, output_tokens=None), metric)

    _assert_invalid(verdict, "no-usage")


@pytest.mark.parametrize("arm", ["off", "k4"])
def test_case_102_failed_requests(build: type[Build], arm: str) -> None:
    """Case 102: a failed request in either arm makes the thresholds of its point invalid."""
    [verdict] = _judged(build, _edited(build, arm=arm, error="HTTP 500"), "ttft_p50")

    _assert_invalid(verdict, "failed-requests")


def test_an_unusable_point_leaves_the_others_judged(build: type[Build]) -> None:
    """A failed request at c=8 invalidates what is claimed at c=8, and nothing at c=1."""
    gate = build.gate(build.pair(), build.threshold(at=1), build.threshold(at=8))

    at_one, at_eight = judge(gate, _edited(build, at=8, error="HTTP 500"))

    assert at_one.outcome == Outcome.PASS
    _assert_invalid(at_eight, "failed-requests")


def test_case_103_a_missing_figure_softens_no_other(build: type[Build]) -> None:
    """Case 103: beside a p95 that fails, a metric that is missing is invalid, and both are listed."""
    pair = build.pair(requests={1: 100})

    def without_ends(point: PointRecord) -> PointRecord:
        requests = [request.model_copy(update={"last_token_s": None}) for request in point.requests]
        return point.model_copy(update={"requests": tuple(requests)})

    record = build.window(pair, [1.0, 1.0], [1 / 1.3, 1 / 1.3])
    record = build.edited_point(record, arm="off", edit=without_ends)
    thresholds = build.threshold("tpot_p50"), build.threshold("ttft_p95", margin=0.1)

    verdicts = judge(build.gate(pair, *thresholds), record)

    assert [verdict.outcome for verdict in verdicts] == [Outcome.INVALID, Outcome.FAIL]
    assert verdicts[0].summary == "arm off at c=1: no tpot_p50: request 0 has an impossible value: nan"


def test_counters_that_went_back(build: type[Build]) -> None:
    """A counter reset in one boot is invalid, not a negative number of tokens."""
    record = build.edited_point(
        _window(build),
        arm="k4",
        edit=lambda point: point.model_copy(update={"before": point.after, "after": point.before}),
    )

    [verdict] = _judged(build, record)

    _assert_invalid(verdict, "counters-unreadable")


def test_a_page_without_series(build: type[Build]) -> None:
    """A scrape without the engine's series is invalid, not zero drafts."""
    empty = CounterPage(samples=())
    record = build.edited_point(
        _window(build), arm="off", edit=lambda point: point.model_copy(update={"before": empty, "after": empty})
    )

    [verdict] = _judged(build, record)

    _assert_invalid(verdict, "counters-unreadable")


def test_invalid_beside_open_names_the_invalid_one(build: type[Build]) -> None:
    """A threshold that was still open when another became invalid says so."""
    gate = build.gate(build.pair(), build.threshold(floor=None), build.threshold(at=8))

    stopped, invalid = judge(gate, _edited(build, at=8, error="HTTP 500"))

    _assert_invalid(invalid, "failed-requests")
    assert stopped.summary.endswith(
        "stopped at round 2 of 6, equal 0.0 % until then: c8-output_throughput-not_worse is INVALID"
    )
