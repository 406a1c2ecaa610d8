"""Verdicts as values: words and acceptance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.judge import judge
from pytest_specgate.core.verdict import Outcome, UnexpectedOutcomeError, Verdict, change_words

if TYPE_CHECKING:
    from tests.core.conftest import Build

PASS, FAIL, INCONCLUSIVE, INVALID = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.INVALID


def _verdict(build: type[Build], outcome: Outcome, *, change: float | None = None) -> Verdict:
    pair = build.pair()
    [verdict] = judge(build.gate(pair, build.threshold()), build.window(pair, [1.0, 1.0], [1.0, 1.0]))
    return verdict.model_copy(
        update={"outcome": outcome, "reason": "a-reason", "summary": "so it is", "change": change}
    )


@pytest.mark.parametrize("outcome", Outcome)
def test_only_pass_is_accepted_by_itself(build: type[Build], outcome: Outcome) -> None:
    """Without a word from the test, every outcome but PASS fails it."""
    verdict = _verdict(build, outcome)

    assert verdict.accepted == (outcome == PASS)
    assert not verdict.expected


@pytest.mark.parametrize("outcome", [FAIL, INCONCLUSIVE])
def test_expect_accepts_the_outcomes_it_names(build: type[Build], outcome: Outcome) -> None:
    """A test that expects FAIL or INCONCLUSIVE accepts either."""
    verdict = _verdict(build, outcome)

    verdict.expect(FAIL, INCONCLUSIVE)

    assert verdict.accepted
    assert verdict.expected


@pytest.mark.parametrize("outcome", [PASS, INVALID])
def test_expect_refuses_other_outcomes_at_once(build: type[Build], outcome: Outcome) -> None:
    """A test that expects FAIL or INCONCLUSIVE fails on PASS as on INVALID, with outcome, reason and summary."""
    verdict = _verdict(build, outcome)

    with pytest.raises(UnexpectedOutcomeError) as raised:
        verdict.expect(FAIL, INCONCLUSIVE)

    assert str(raised.value) == f"expected FAIL or INCONCLUSIVE, got {outcome} (a-reason): so it is"
    assert not verdict.accepted


@pytest.mark.parametrize("outcomes", [(), (INVALID,), (FAIL, INVALID), tuple(Outcome)])
def test_what_was_not_measured_is_never_accepted(build: type[Build], outcomes: tuple[Outcome, ...]) -> None:
    """INVALID cannot be expected, nor can nothing."""
    verdict = _verdict(build, INVALID)

    with pytest.raises(UsageError, match="takes PASS, FAIL or INCONCLUSIVE"):
        verdict.expect(*outcomes)

    assert not verdict.accepted


def test_expecting_pass_is_the_default(build: type[Build]) -> None:
    """A test that expects PASS declared nothing of its own."""
    verdict = _verdict(build, PASS)

    verdict.expect(PASS)

    assert (verdict.accepted, verdict.expected) == (True, False)


@pytest.mark.parametrize("outcome", [FAIL, INCONCLUSIVE])
def test_an_expectation_can_be_taken_back(build: type[Build], outcome: Outcome) -> None:
    """Once its expectation is taken back, a verdict is judged as if the test had said nothing."""
    verdict = _verdict(build, outcome)
    verdict.expect(outcome)

    verdict.expect_pass()

    assert (verdict.accepted, verdict.expected) == (False, False)


@pytest.mark.parametrize("outcome", Outcome)
def test_taking_back_nothing_changes_nothing(build: type[Build], outcome: Outcome) -> None:
    """A verdict of which nothing was expected still accepts PASS and nothing else, and nothing is raised."""
    verdict = _verdict(build, outcome)

    verdict.expect_pass()

    assert (verdict.accepted, verdict.expected) == (outcome == PASS, False)


def test_what_was_taken_back_can_be_expected_again(build: type[Build]) -> None:
    """A run of the test again declares its expectation anew."""
    verdict = _verdict(build, FAIL)
    verdict.expect(INCONCLUSIVE, FAIL)
    verdict.expect_pass()

    verdict.expect(FAIL)

    assert (verdict.accepted, verdict.expected) == (True, True)


def test_what_one_test_expects_leaves_others_alone(build: type[Build]) -> None:
    """Accepting an outcome of one verdict accepts it of no other."""
    one, other = _verdict(build, FAIL), _verdict(build, FAIL)

    one.expect(FAIL)

    assert (one.accepted, other.accepted) == (True, False)


def test_expectations_are_not_stored(build: type[Build]) -> None:
    """A verdict reads back from its JSON equal to what was measured, without what a test made of it."""
    verdict = _verdict(build, FAIL, change=-0.2)
    verdict.expect(FAIL)

    read = Verdict.model_validate_json(verdict.model_dump_json())

    assert read.model_dump() == verdict.model_dump()
    assert not read.accepted


@pytest.mark.parametrize("field", sorted(name for name, info in Verdict.model_fields.items() if info.is_required()))
def test_a_stored_verdict_lacks_nothing(build: type[Build], field: str) -> None:
    """A verdict without its gate, its word or any other part of its head is refused."""
    fields = _verdict(build, FAIL).model_dump()
    del fields[field]

    with pytest.raises(ValidationError, match=field):
        Verdict.model_validate(fields)


@pytest.mark.parametrize("field", ["change", "reference", "sd"])
def test_a_verdict_holds_no_nan(build: type[Build], field: str) -> None:
    """A figure that is no number cannot enter a verdict."""
    fields = _verdict(build, FAIL).model_dump()

    with pytest.raises(ValidationError, match="finite number"):
        Verdict.model_validate({**fields, field: float("nan")})


@pytest.mark.parametrize(
    ("metric", "change", "words"),
    [
        ("decode_rate_p50", 0.2, "better +20.0 %"),
        ("ttft_p50", 0.2, "worse +20.0 %"),
        ("decode_rate_p50", -0.2, "worse -20.0 %"),
        ("ttft_p50", -0.2, "better -20.0 %"),
        ("output_throughput", -1.0, "worse -100.0 %"),
        ("output_throughput", 1.173, "better +117.3 %"),
        ("output_throughput", 0.0004, "equal 0.0 %"),
        ("output_throughput", -0.0004, "equal 0.0 %"),
        ("output_throughput", 0.0, "equal 0.0 %"),
        ("ttft_p50", 0.0006, "worse +0.1 %"),
    ],
)
def test_case_142_words_follow_the_direction(metric: str, change: float, *, words: str) -> None:
    """Case 142: the sign is that of the raw change, the word that of its direction."""
    assert change_words(change, metric_name=metric) == words
