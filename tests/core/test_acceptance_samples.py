"""Acceptance request by request: used where all tell it and the counters agree, else the counters alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.acceptance_samples import NOT_ASKED, curve_of, decoded_of, request_samples, samples_problem
from pytest_specgate.core.errors import ScrapeError, UsageError
from pytest_specgate.core.records import RequestRecord
from pytest_specgate.core.request_speculation import RequestSpeculation
from pytest_specgate.core.speculation import SpeculationDelta, pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import PointRecord
    from tests.core.conftest import Build

FIRST = RequestSpeculation(draft_tokens=7, accepted_histogram=(1, 1, 2), drafted_histogram=(0, 1, 3))
SECOND = RequestSpeculation(draft_tokens=5, accepted_histogram=(3, 0, 0), drafted_histogram=(0, 1, 2))
IDLE = RequestSpeculation(draft_tokens=0, accepted_histogram=(0, 0, 0), drafted_histogram=(0, 0, 0))
BOTH = SpeculationDelta(drafts=7, draft_tokens=12, accepted_tokens=5, accepted_per_position=(3, 2))


def _point(
    build: type[Build],
    told: Sequence[RequestSpeculation | str | None] = (FIRST, SECOND),
    *,
    counted: SpeculationDelta | None = None,
    at: Level = 1,
) -> PointRecord:
    """Return a point whose requests tell this (a text: why they are not believed), with counters that agree."""
    requests = [
        build.request(index, speculation_problem=one) if isinstance(one, str) else build.request(index, speculation=one)
        for index, one in enumerate(told)
    ]
    agreed = [one.delta() for one in told if isinstance(one, RequestSpeculation)]
    return build.point(requests, at=at, speculation=counted or (pool(agreed) if agreed else BOTH))


def test_requests_that_agree_with_the_counters_are_samples(build: type[Build]) -> None:
    """Each answer is one sample, in sending order, and how many drafts reached each position is summed."""
    found = request_samples(_point(build))

    assert found.samples == (FIRST.delta(), SECOND.delta())
    assert pool(found.samples) == BOTH
    assert found.proposed == (7, 5)
    assert found.problem == ""


def test_a_request_without_a_draft_is_a_sample(build: type[Build]) -> None:
    """One that never drafted has told all there is."""
    found = request_samples(_point(build, (FIRST, IDLE)))

    assert (len(found.samples), found.proposed, found.problem) == (2, (4, 3), "")


def test_lengths_that_one_request_does_not_tell_are_not_known(build: type[Build]) -> None:
    """A sum of those that tell would be no sum of all."""
    summary = RequestSpeculation(draft_tokens=5, accepted_histogram=(3, 0, 0), drafted_histogram=None)
    found = request_samples(_point(build, (FIRST, summary)))

    assert (len(found.samples), found.proposed) == (2, None)


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ((), "no request was answered"),
        ((None, None), NOT_ASKED),
        ((FIRST, None, None), "not told in 2 of 3 answers"),
        (
            (FIRST, "num_spec_steps is missing, or no count"),
            (
                "not told in a form that can be believed in 1 of 2 answers, the first of them of request 1: "
                "num_spec_steps is missing, or no count"
            ),
        ),
    ],
)
def test_without_all_requests_there_are_no_samples(
    build: type[Build], *, told: tuple[RequestSpeculation | str | None, ...], problem: str
) -> None:
    """One answer that does not tell leaves the sum open, and the reason is told."""
    found = request_samples(_point(build, told))

    assert (found.samples, found.proposed, found.problem) == ((), None, problem)


@pytest.mark.parametrize(
    ("counted", "problem"),
    [
        (
            SpeculationDelta(drafts=8, draft_tokens=14, accepted_tokens=6, accepted_per_position=(4, 2)),
            (
                "requests tell 7 drafts, 12 draft tokens, [3, 2] accepted, and the counters 8 drafts, 14 draft tokens, "
                "[4, 2] accepted: others were served, or some were aborted"
            ),
        ),
        (
            SpeculationDelta(drafts=7, draft_tokens=12, accepted_tokens=5, accepted_per_position=(3, 2, 0)),
            "requests and counters have draft horizons of 2 and 3",
        ),
    ],
)
def test_counters_that_say_otherwise_are_believed(
    build: type[Build], *, counted: SpeculationDelta, problem: str
) -> None:
    """Somebody else's drafts are in the counters and in no request: request-level figures are not used then."""
    found = request_samples(_point(build, counted=counted))

    assert (found.samples, found.problem) == ((), problem)


def test_counters_that_cannot_be_read_are_a_reason(build: type[Build]) -> None:
    """Without speculation counters, or with some that fell, nothing can be checked, and that is said."""
    point = _point(build)
    plain = build.point(point.requests)
    fallen = build.risen(point, counters.DRAFTS, -100.0)

    assert request_samples(plain).problem == "at c=1 the server has no speculation counters, so there is no acceptance"
    assert "counter reset" in request_samples(fallen).problem


def test_a_failed_request_tells_nothing(build: type[Build]) -> None:
    """Only complete answers are samples; what a failed one drafted is in the counters, which then do not agree."""
    failed = build.failed(2)
    requests = (*_point(build).requests, failed)
    untouched = build.point(requests, speculation=BOTH)
    drafted = build.point(requests, speculation=pool([BOTH, FIRST.delta()]))

    assert request_samples(untouched).problem == ""
    assert request_samples(drafted).problem.startswith("requests tell 7 drafts")


def test_a_prompt_of_several_boots_is_one_sample(build: type[Build]) -> None:
    """Boots send the same prompts, which say nothing new at the second time."""
    turned = _point(build, (SECOND, FIRST))
    curve = curve_of([_point(build), turned])

    assert curve.basis == "prompts"
    assert curve.samples == (BOTH, BOTH)
    assert curve.counts == pool([BOTH, BOTH])
    assert curve.proposed == (14, 10)


@pytest.mark.parametrize(
    ("told", "basis", "samples"),
    [
        ([(FIRST, SECOND)], "prompts", 2),
        ([(FIRST, SECOND), (None, None)], "boots", 2),
        ([(None,), (None,), (None,)], "boots", 3),
        ([(None, None)], "drafts", 0),
        ([(FIRST,)], "drafts", 0),
        ([(FIRST,), (FIRST,)], "boots", 2),
        ([(FIRST, IDLE)], "drafts", 0),
        ([(FIRST, IDLE), (FIRST, IDLE)], "boots", 2),
    ],
)
def test_the_basis_is_the_best_that_all_boots_tell(
    build: type[Build], *, told: list[tuple[RequestSpeculation | None, ...]], basis: str, samples: int
) -> None:
    """Prompts, if every boot tells them and two drafted; else boots, if two did; else drafts."""
    curve = curve_of([_point(build, one) for one in told])

    assert (curve.basis, len(curve.samples)) == (basis, samples)


def test_the_reason_against_prompts_is_told(build: type[Build]) -> None:
    """Of several boots, the first that does not tell says why; boots that all tell have no reason."""
    told, silent = _point(build), _point(build, (None, None))

    assert samples_problem([told, silent]) == NOT_ASKED
    assert samples_problem([told, told]) == ""


def test_lengths_are_known_even_where_prompts_are_no_basis(build: type[Build]) -> None:
    """One prompt cannot scatter, but tells how long its drafts were."""
    assert curve_of([_point(build, (FIRST,))]).proposed == (4, 3)
    assert curve_of([_point(build, (None,))]).proposed is None


def test_points_that_are_no_curve_are_refused(build: type[Build]) -> None:
    """Points of two levels or two horizons are two curves, and none is none."""
    longer = SpeculationDelta(drafts=7, draft_tokens=12, accepted_tokens=5, accepted_per_position=(3, 2, 0))
    for points in ([], [_point(build), _point(build, at=8)], [_point(build), _point(build, counted=longer)]):
        with pytest.raises(UsageError, match="one load level and one draft horizon"):
            curve_of(points)


def test_a_curve_of_nothing_is_refused(build: type[Build]) -> None:
    """Without speculation, without a draft, or with counters of two lives there is no acceptance."""
    nothing = SpeculationDelta(drafts=0, draft_tokens=0, accepted_tokens=0, accepted_per_position=(0, 0))
    with pytest.raises(UsageError, match="no speculation counters"):
        curve_of([build.point([build.request()])])
    with pytest.raises(UsageError, match="nothing was drafted"):
        curve_of([_point(build, (IDLE, IDLE), counted=nothing)])
    with pytest.raises(ScrapeError, match="counter reset"):
        curve_of([build.risen(_point(build), counters.DRAFTS, -100.0)])


def test_case_57_short_drafts_are_told_from_refused_ones(build: type[Build]) -> None:
    """Case 57: one draft of six has two tokens, so position 3 holds in 2 of 6 drafts, and in 2 of 5 that reach it."""
    detailed = RequestSpeculation(
        draft_tokens=22, accepted_histogram=(1, 1, 2, 1, 1), drafted_histogram=(0, 0, 1, 0, 5)
    )
    summary = detailed.model_copy(update={"drafted_histogram": None})
    exact, bounded = (curve_of([_point(build, (one,))]) for one in (detailed, summary))

    assert exact.counts == SpeculationDelta(6, 22, 12, (5, 4, 2, 1))
    assert exact.rates[2].value == 2 / 6
    assert (exact.proposed, exact.per_proposed()[2]) == ((6, 6, 5, 5), (2 / 5, 2 / 5))
    assert (bounded.proposed, bounded.per_proposed()[2]) == (None, (2 / 6, 2 / 5))


def test_records_keep_it_and_older_ones_load(build: type[Build]) -> None:
    """A request reads back from its JSON as it was; one of an older record, without the keys, tells nothing."""
    request = build.request(speculation=FIRST)
    older = build.request().model_dump_json(exclude={"speculation", "speculation_problem"})

    assert RequestRecord.model_validate_json(request.model_dump_json()) == request
    assert RequestRecord.model_validate_json(older) == build.request()
    assert build.request().speculation is None


def test_what_was_decoded_is_told_by_what_a_curve_has_samples_of(build: type[Build]) -> None:
    """By prompt over all boots, by boot, or not at all; the first token of an answer is not of a decode step."""
    told, silent = [_point(build), _point(build, (SECOND, FIRST))], [_point(build, (None, None))] * 2
    prompts, boots, one = (curve_of(points) for points in (told, silent, silent[:1]))
    each = (told[0].requests[0].output_tokens or 0) - 1

    assert each > 1
    assert (prompts.basis, decoded_of(told, prompts)) == ("prompts", (2 * each, 2 * each))
    assert (boots.basis, decoded_of(silent, boots)) == ("boots", (2 * each, 2 * each))
    assert (one.basis, decoded_of(silent[:1], one)) == ("drafts", ())
