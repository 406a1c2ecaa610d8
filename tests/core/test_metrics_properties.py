"""Properties of every row of the metric table, on points whose every number is drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core import counters
from pytest_specgate.core.metrics import METRICS, measure
from pytest_specgate.core.records import ChunkGaps
from pytest_specgate.core.speculation import SpeculationDelta

if TYPE_CHECKING:
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import PointRecord, RequestRecord
    from tests.core.conftest import Build

    Fields: TypeAlias = dict[str, Any]
    """What is drawn of one request."""

TIMES = st.floats(1e-3, 10)
"""Of requests, in seconds."""

PER_SECOND = {"tokens/s", "tokens/s/GPU", "requests/s"}


@st.composite
def _requests(draw: st.DrawFn) -> Fields:
    tokens = draw(st.integers(1, 40))
    first_s, decode_s = draw(TIMES), draw(TIMES) if tokens > 1 else 0.0
    return {
        "sent_s": draw(st.floats(0, 100)),
        "ttft_s": first_s,
        "first_text_s": first_s + draw(st.sampled_from([0.0, 0.5])) * decode_s,
        "last_token_s": first_s + decode_s,
        "closed_s": first_s + decode_s + draw(st.floats(0, 1)),
        "output_tokens": tokens,
        "token_events": draw(st.integers(1, tokens)),
        "error": draw(st.sampled_from([None, None, None, "HTTP 500"])),
    }


POINTS = st.fixed_dictionaries(
    {
        "requests": st.lists(_requests(), max_size=30),
        "accepting": st.one_of(st.none(), st.floats(0, 1)),
        "gpus": st.one_of(st.none(), st.integers(0, 16)),
        "gaps": st.one_of(st.none(), st.tuples(st.integers(1, 2000), TIMES)),
    }
)
"""Anything that a point may be, failed requests and answers of one token included."""

LIMITS = {"ttft": 2.0, "tpot": 0.5, "e2e": 8.0}


def _profile(build: type[Build], *, times: float = 1.0) -> RequestProfile:
    return build.profile(goodput_limits={name: f"{limit * times:.9f}s" for name, limit in LIMITS.items()})


def _point(build: type[Build], drawn: dict[str, Any], *, times: float = 1.0) -> PointRecord:
    """Return the point that was drawn, all of its times multiplied."""
    requests = [_request(build, fields, index=index, times=times) for index, fields in enumerate(drawn["requests"])]
    decoded = sum((request.output_tokens or 0) - 1 for request in requests)
    speculation = None
    if drawn["accepting"] is not None:
        accepted = int(drawn["accepting"] * decoded / 2)
        speculation = SpeculationDelta(accepted, accepted, accepted, (accepted,))
    gaps = None
    if drawn["gaps"] is not None:
        count, gap_s = drawn["gaps"]
        each = dict.fromkeys(("p50_s", "p90_s", "p95_s", "p99_s", "max_s"), gap_s * times)
        gaps = ChunkGaps(count=count, sum_s=count * gap_s * times, **each)
    point = build.point(requests, speculation=speculation)
    return point.model_copy(update={"gpus": drawn["gpus"], "gaps": gaps})


def _request(build: type[Build], fields: Fields, *, index: int, times: float) -> RequestRecord:
    scaled = {name: value * times if name.endswith("_s") else value for name, value in fields.items()}
    return build.request(index, **scaled)


@given(POINTS)
def test_every_metric_has_a_value_or_a_reason(build: type[Build], drawn: dict[str, Any]) -> None:
    """A finite value of something, or none of nothing with the reason why: never NaN, never 0 in place of a gap."""
    point, profile = _point(build, drawn), _profile(build)

    for name in METRICS:
        found = measure(name, point, profile)
        if found.value is None:
            assert found.missing
            assert found.n == 0
        else:
            assert math.isfinite(found.value)
            assert found.missing is None
            assert found.n >= METRICS[name].minimum_n
            assert found.value > 0 or name in {"goodput", "acceptance_rate", "preemptions"}


@given(POINTS)
def test_a_point_is_measured_without_its_failures(build: type[Build], drawn: dict[str, Any]) -> None:
    """What failed changes no figure of a request: neither with 0 nor with the times that it had."""
    point, profile = _point(build, drawn), _profile(build)
    without = point.model_copy(update={"requests": point.completed})

    for name, row in METRICS.items():
        if row.weighting == "each request once" and row.estimator != "ratio of sums":
            assert measure(name, point, profile) == measure(name, without, profile)


@given(POINTS, st.sampled_from([0.25, 0.5, 2.0, 8.0]))
def test_times_scale_and_rates_scale_the_other_way(build: type[Build], drawn: dict[str, Any], times: float) -> None:
    """All times multiplied by v multiply every time by v and divide every rate by v; shares and counts stay."""
    here, there = (
        {name: measure(name, _point(build, drawn, times=by), _profile(build, times=by)) for name in METRICS}
        for by in (1.0, times)
    )

    for name, row in METRICS.items():
        factor = times if row.unit == "s" else 1 / times if row.unit in PER_SECOND else 1.0
        one, other = here[name], there[name]
        assert (one.value is None, one.n) == (other.value is None, other.n)
        if one.value is not None:
            assert other.value == pytest.approx(one.value * factor, rel=1e-6)


TOKENS = {"tpot", "decode_rate", "output_throughput", "tokens_per_chunk"}
ENDS = {"tpot", "decode_rate", "e2e", "output_throughput", "request_throughput", "achieved_concurrency"}
STARTS = {"ttft", "tpot", "decode_rate"}


@given(POINTS, st.data())
def test_what_one_request_lacks_is_missing_for_all(
    build: type[Build], drawn: dict[str, Any], data: st.DataObject
) -> None:
    """A complete answer without a time or a count leaves what needs it without a value; the others are as before."""
    lacks, needing = data.draw(
        st.sampled_from(
            [("output_tokens", TOKENS), ("last_token_s", ENDS), ("ttft_s", STARTS), ("first_text_s", {"first_text"})]
        )
    )
    drawn = {**drawn, "gpus": 2}
    whole = _point(build, drawn)
    several = [one for one in whole.completed if (one.output_tokens or 0) > 1]
    if not several:
        return
    index = data.draw(st.sampled_from(several)).index
    requests = [one.model_copy(update={lacks: None}) if one.index == index else one for one in whole.requests]
    part = whole.model_copy(update={"requests": tuple(requests)})

    for name, row in METRICS.items():
        found = measure(name, part, build.profile())
        if row.source == "client" and name.startswith(tuple(needing)):
            assert found.value is None
            assert found.missing
        else:
            assert found == measure(name, whole, build.profile())


@given(POINTS)
def test_the_order_of_requests_does_not_matter(build: type[Build], drawn: dict[str, Any]) -> None:
    """Every figure is of a set of requests: the order in which they stand in the record changes none."""
    point, profile = _point(build, drawn), _profile(build)
    turned = point.model_copy(update={"requests": point.requests[::-1]})

    for name in METRICS:
        one, other = measure(name, point, profile), measure(name, turned, profile)
        assert (one.value is None, one.n) == (other.value is None, other.n)
        if one.value is not None:
            assert other.value == pytest.approx(one.value, rel=1e-12)


@given(POINTS)
def test_percentiles_are_in_order(build: type[Build], drawn: dict[str, Any]) -> None:
    """A higher percentile is no smaller, and a mean lies within the values."""
    point, profile = _point(build, drawn), _profile(build)

    for quantity in ("ttft", "first_text", "tpot", "e2e"):
        values = [measure(f"{quantity}_p{q}", point, profile).value for q in (50, 90, 95, 99)]
        known = [value for value in values if value is not None]
        assert known == sorted(known)


@given(POINTS)
def test_throughput_is_tokens_times_requests(build: type[Build], drawn: dict[str, Any]) -> None:
    """Tokens per second are requests per second times tokens per request; goodput is never more than throughput."""
    point, profile = _point(build, drawn), _profile(build)
    tokens, requests, good = (
        measure(name, point, profile).value for name in ("output_throughput", "request_throughput", "goodput")
    )
    if tokens is None or requests is None or good is None:
        assert not point.completed
        return
    each = sum(request.output_tokens or 0 for request in point.completed) / len(point.completed)

    assert tokens == pytest.approx(requests * each)
    assert 0 <= good <= requests * (1 + 1e-12)


def test_the_drawn_counters_are_sound(build: type[Build]) -> None:
    """The counters of a drawn point are those of its requests, so that these tests are of what a server counts."""
    drawn = {
        "requests": [{"output_tokens": 11, "ttft_s": 0.1, "last_token_s": 1.1}],
        "accepting": 1.0,
        "gpus": None,
        "gaps": None,
    }
    point = _point(build, drawn)

    assert point.counters.broken_identities() == ()
    assert point.counters.count(counters.GENERATION_TOKENS) == 11
    assert point.counters.tokens_per_step() == 2.0
