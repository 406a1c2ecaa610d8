"""From a server that tells of single requests to the record: the truth, and the curve that is built of it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.client import HttpLoadDriver
from pytest_specgate.adapters.scrape import HttpPages
from pytest_specgate.core.acceptance_samples import curve_of, request_samples
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.records import PointRecord
from pytest_specgate.testing import FakeSettings, fake_vllm

if TYPE_CHECKING:
    from pytest_specgate.testing import FakeTruth
    from tests.adapters.conftest import Target

PROFILE = RequestProfile(input_tokens=2, output_tokens=40, requests={4: 8})
BODIES = [
    json.dumps({
        "model": "fake-model", "prompt": f"prompt {number}", "max_tokens": 40, "ignore_eos": True, "stream": True,
        "stream_options": {"include_usage": True},
    }).encode()
    for number in range(8)
]  # fmt: skip


@pytest.fixture(scope="module")
def measured(target_at: type[Target]) -> tuple[list[PointRecord], FakeTruth]:
    """Two points of the same load, one after another, at a fake whose drafts are short now and then; and the truth."""
    settings = FakeSettings(step_s=0.0005, acceptance=(0.8, 0.6), draft_lengths=(4, 4, 2))
    arguments = ["--per-request-spec-decode-metrics", "detailed"]
    with fake_vllm(settings, speculative_config={"num_speculative_tokens": 4}, arguments=arguments) as server:
        target, pages = target_at(server.url, model="fake-model"), HttpPages()
        points = []
        for _ in range(2):
            before = pages.counters(target)
            load = HttpLoadDriver().run_point(target, BODIES, at=4, profile=PROFILE)
            tokens = sum(request.output_tokens or 0 for request in load.requests)
            after = pages.settled_counters(target, before=before, output_tokens=tokens)
            whole = {"requests": load.requests, "gaps": load.gaps, "client": load.client}
            none = {"gpus": None, "other_cpu_share": None, "repetitiveness": None}
            points.append(PointRecord(at=4, before=before, after=after, **whole, **none))  # type: ignore[arg-type]
        return points, server.truth()


def test_case_57_what_is_recorded_is_what_happened(measured: tuple[list[PointRecord], FakeTruth]) -> None:
    """Case 57: each request has the drafts that its body had at the server, accepted tokens and lengths alike."""
    points, truth = measured
    happened = {one.body_sha256: one for one in truth.requests}
    assert [request.body_sha256 for request in points[0].requests] == [hashlib.sha256(it).hexdigest() for it in BODIES]
    for request in points[0].requests:
        found, own = request.speculation, happened[request.body_sha256]
        assert found is not None
        assert found.accepted_histogram[: len(own.drafts_by_accepted)] == own.drafts_by_accepted
        assert (found.drafted_histogram or ())[: len(own.drafts_by_length)] == own.drafts_by_length
        assert found.delta().drafts == own.drafts > 0
        assert request.speculation_problem is None


def test_requests_agree_with_the_counters(measured: tuple[list[PointRecord], FakeTruth]) -> None:
    """Both are of the same drafts, so every request is a sample."""
    points, _ = measured
    found = request_samples(points[0])

    assert (len(found.samples), found.problem) == (8, "")


def test_the_curve_is_over_prompts_and_knows_the_lengths(measured: tuple[list[PointRecord], FakeTruth]) -> None:
    """Two points of the same prompts have as many samples as prompts, and what was proposed is known exactly."""
    points, truth = measured
    curve = curve_of(points)
    lengths = [one.drafts_by_length for one in truth.requests]

    assert (curve.basis, len(curve.samples)) == ("prompts", 8)
    assert curve.proposed == tuple(sum(sum(one[position:]) for one in lengths) for position in range(1, 5))
    assert curve.proposed[0] == curve.counts.drafts > curve.proposed[3]
    assert all(low == high for low, high in curve.per_proposed())


def test_a_record_keeps_it(measured: tuple[list[PointRecord], FakeTruth]) -> None:
    """A point reads back from its JSON equal to itself, and what it keeps of speculation is short."""
    point = measured[0][0]
    told = point.requests[0].speculation
    assert told is not None

    assert PointRecord.model_validate_json(point.model_dump_json()) == point
    assert len(told.model_dump_json()) < 120
