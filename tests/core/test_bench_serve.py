"""Result files of `vllm bench serve`: what is read, what is refused, and what such a file is worth."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.bench_serve import (
    UNPROVED,
    BenchResult,
    figures,
    identity_fields,
    is_result,
    json_value,
    parse_result,
    problem_of,
)
from pytest_specgate.core.errors import RecordError

if TYPE_CHECKING:
    from pydantic import JsonValue

SPECULATION = {
    "spec_decode_acceptance_rate": 48.06238185255198,
    "spec_decode_acceptance_length": 2.9224952741020793,
    "spec_decode_num_drafts": 529,
    "spec_decode_draft_tokens": 2116,
    "spec_decode_accepted_tokens": 1017,
    "spec_decode_per_position_acceptance_rates": [0.8, 0.6, 0.4, 0.1],
}
"""What vLLM wrote of 48 requests with drafts of four tokens: the rate is in percent."""


def stored(**changes: Any) -> dict[str, Any]:
    """Return what a run of 48 requests of 32 tokens at 8 concurrent ones writes."""
    found: dict[str, Any] = {
        "date": "20261130-041120", "endpoint_type": "openai", "backend": "openai", "label": None,
        "model_id": "m", "tokenizer_id": "t", "num_prompts": 48, "request_rate": "inf", "burstiness": 1.0,
        "max_concurrency": 8, "duration": 0.8, "completed": 48, "failed": 0, "total_input_tokens": 3048,
        "total_output_tokens": 1536, "request_throughput": 60.0, "request_goodput": None, "output_throughput": 1920.0,
        "total_token_throughput": 5730.0, "latencies": [0.13] * 48, "max_concurrent_requests": 48, "rtfx": 0.0,
        "mean_ttft_ms": 8.5, "median_ttft_ms": 7.5, "std_ttft_ms": 2.5, "p99_ttft_ms": 14.9,
        "mean_tpot_ms": 4.01, "median_tpot_ms": 4.0, "std_tpot_ms": 0.01, "p99_tpot_ms": 4.03,
        "mean_itl_ms": 4.01, "median_itl_ms": 4.0, "std_itl_ms": 0.2, "p99_itl_ms": 4.5,
    }  # fmt: skip
    return {**found, **changes}


def parsed(**changes: Any) -> BenchResult:
    """Read such a file."""
    return parse_result(json.dumps(stored(**changes)), source="run.json")


def refusal(text: str) -> str:
    """Return why a file is refused."""
    with pytest.raises(RecordError) as caught:
        parse_result(text, source="run.json")
    return str(caught.value)


def test_figures_have_our_names_and_units() -> None:
    """Statistics come in seconds under the names of the metric table, with the requests that they were taken of."""
    found = figures(parsed(request_goodput=12.5))
    values = {name: one.value for name, one in found.items() if one.value is not None}

    assert values == pytest.approx(
        {
            "output_throughput": 1920.0, "request_throughput": 60.0, "goodput": 12.5,
            "ttft_p50": 0.0075, "ttft_mean": 0.0085, "tpot_p50": 0.004, "tpot_mean": 0.00401,
            "inter_chunk_p50": 0.004, "inter_chunk_mean": 0.00401, "inter_chunk_p99": 0.0045,
        }
    )  # fmt: skip
    assert found["ttft_p50"].n == 48


def test_a_percentile_of_too_few_requests_has_no_value() -> None:
    """A p99 needs 500 requests here as in a gate, whatever the file says."""
    found = figures(parsed())["ttft_p99"]
    enough = parsed(num_prompts=500, completed=500, request_throughput=625.0)

    assert (found.value, found.missing) == (None, "48 requests have a value, and 500 are needed")
    assert figures(enough)["ttft_p99"].value == pytest.approx(0.0149)


@pytest.mark.parametrize("name", ["median_tpot_ms", "mean_itl_ms"])
def test_zero_that_stands_for_nothing_is_missing(name: str) -> None:
    """A 0.0 is written where no answer had a second token: that is no time."""
    found = figures(parsed(**{name: 0.0}))
    ours = {"median_tpot_ms": "tpot_p50", "mean_itl_ms": "inter_chunk_mean"}[name]

    assert found[ours].value is None
    assert "0.0 stands for no value" in str(found[ours].missing)


@pytest.mark.parametrize("name", ["median_ttft_ms", "request_goodput", "max_concurrency", "failed", "tokenizer_id"])
def test_case_114_null_is_missing_and_never_zero(name: str) -> None:
    """Case 114: a key with null is as good as none."""
    result = parsed(**{name: None})

    assert problem_of(result) is None
    assert {one.value for one in figures(result).values()}.isdisjoint({0})
    assert "ttft_p50" in figures(result) or name == "median_ttft_ms"


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e400"])
@pytest.mark.parametrize("name", ["median_ttft_ms", "output_throughput", "latencies", "anything"])
def test_case_114_what_is_no_number_is_refused_by_file_and_key(name: str, literal: str) -> None:
    """Case 114: NaN, infinity and 1e400 are refused wherever they stand, unread keys included."""
    value = "[1.0, @@]" if name == "latencies" else "@@"
    text = json.dumps(stored(**{name: "@"})).replace('"@"', value.replace("@@", literal))
    said = refusal(text)

    assert said.startswith("run.json ")
    assert name in said


@pytest.mark.parametrize(("value", "shown"), [(True, "true"), ("12", "'12'"), (-3, "-3"), ([], "[]")])
@pytest.mark.parametrize("name", ["median_ttft_ms", "p99_itl_ms", "duration", "completed", "output_throughput"])
def test_case_115_wrong_types_are_refused_by_file_and_key(name: str, value: object, shown: str) -> None:
    """Case 115: a bool, a text, a negative number or a list is no latency, no count and no rate."""
    said = refusal(json.dumps(stored(**{name: value})))

    assert said.startswith("run.json ")
    assert f"{name}: " in said
    assert said.endswith(f"got {shown}")


@pytest.mark.parametrize("name", ["backend", "model_id", "num_prompts", "request_rate", "completed", "duration"])
@pytest.mark.parametrize("absent", [True, False])
def test_what_every_run_has_is_required(name: str, absent: bool) -> None:
    """A key that says what was measured must be there, and null is not."""
    found = stored(**{name: None})
    if absent:
        del found[name]

    assert refusal(json.dumps(found)).startswith(f"run.json has no {name}: `vllm bench serve --save-result` writes it")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "run.json is no JSON: "),
        (json.dumps(stored()) + "\n" + json.dumps(stored()), "more than one JSON value, as --append-result writes"),
        ('{"completed": 1, "completed": 2}', "the key 'completed' stands twice"),
        ("[" * 100_000, "run.json cannot be read: "),
        ("[]", "run.json is no result of `vllm bench serve` that can be read: the file: "),
        (json.dumps(stored(completed=10**30)), "completed: "),
        (json.dumps(stored(duration=10**400)), "duration: "),
        (json.dumps(stored(request_rate="fast")), "request_rate: "),
        (json.dumps(stored(itls=[[0.1], [0.1, -1.0]])), "itls.1.1: "),
    ],
    ids=["broken", "appended", "twice", "deep", "list", "huge", "huge time", "rate", "nested"],
)
def test_broken_files_are_told_in_a_sentence(text: str, sentence: str) -> None:
    """What cannot be read is named, on one line."""
    said = refusal(text)

    assert sentence in said
    assert "\n" not in said


@given(st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text() | st.floats() | st.lists(st.none())))
def test_any_object_is_read_or_refused_in_a_sentence(changes: dict[str, object]) -> None:
    """No JSON object makes the reader fail otherwise than by its own error."""
    text = json.dumps({**stored(), **changes})
    try:
        result = parse_result(text, source="run.json")
    except RecordError as error:
        assert str(error).startswith("run.json ")  # noqa: PT017  - either end is right
        return

    assert all(one.value is None or math.isfinite(one.value) for one in figures(result).values())


@given(st.sampled_from(sorted(stored())), st.none() | st.booleans() | st.integers() | st.text() | st.floats())
def test_any_value_under_a_known_key_is_read_or_refused(name: str, value: object) -> None:
    """Whatever stands where vLLM writes something else, no figure below 0 and no infinite one comes of it."""
    try:
        result = parse_result(json.dumps(stored(**{name: value})), source="run.json")
    except RecordError as error:
        assert str(error).startswith("run.json ")  # noqa: PT017  - either end is right
        return
    problem_of(result)

    assert all(one.value is None or 0 <= one.value < math.inf for one in figures(result).values())


@pytest.mark.parametrize(
    ("changes", "reason", "said"),
    [
        ({"completed": 0, "failed": 48}, "failed-requests", "0 of 48 requests completed"),
        ({"failed": 3}, "failed-requests", "3 of 48 requests failed"),
        ({"completed": 40, "failed": None}, "failed-requests", "40 requests completed, and 48 were asked for"),
        ({"total_output_tokens": 0, "output_throughput": 0.0}, "fell-to-zero", "output_throughput is 0"),
        ({"duration": 0.4}, "contradicts-itself", "output_throughput is 1920, and total_output_tokens / duration"),
        ({"duration": 0.0}, "contradicts-itself", "duration is 1536 / 0"),
        ({"request_throughput": 61.0}, "contradicts-itself", "request_throughput is 61, and completed / duration"),
        ({"median_ttft_ms": 0.0}, "impossible-value", "median_ttft_ms is 0.0 though 48 requests completed"),
        (SPECULATION | {"spec_decode_accepted_tokens": 3000}, "counter-identity", "only 2116 were drafted"),
        (SPECULATION | {"spec_decode_acceptance_rate": 0.4806}, "counter-identity", "its counts give 48.0624"),
    ],
)
def test_case_102_what_no_figure_may_be_read_of(changes: dict[str, Any], reason: str, said: str) -> None:
    """Failures, nothing at all, and figures that contradict each other make a file INVALID, with the numbers."""
    problem = problem_of(parsed(**changes))

    assert problem is not None
    assert problem.reason == reason
    assert said in problem.message


def test_an_all_failed_run_has_the_best_latency_and_is_refused() -> None:
    """Where nothing succeeded every statistic is 0.0: the fastest server there is, and no result."""
    zeros = {name: 0.0 for name in stored() if name.endswith(("_ms", "throughput"))}
    problem = problem_of(parsed(completed=0, failed=48, total_input_tokens=0, total_output_tokens=0, **zeros))

    assert problem is not None
    assert "statistics of nothing are written as 0.0" in problem.message


def test_speculation_is_taken_from_its_counts() -> None:
    """The rate of the file is in percent, and ours is a share."""
    result = parsed(**SPECULATION)
    found = figures(result)

    assert problem_of(result) is None
    assert found["acceptance_rate"].value == pytest.approx(1017 / 2116)
    assert found["acceptance_length"].value == pytest.approx(1 + 1017 / 529)
    assert (found["acceptance_rate"].n, found["acceptance_length"].n) == (529, 529)


def test_too_few_drafts_have_no_acceptance() -> None:
    """What a window does not tell of 19 drafts, a file does not tell, either; of 20 both do."""
    few, enough = (
        figures(parsed(spec_decode_num_drafts=count, spec_decode_draft_tokens=80, spec_decode_accepted_tokens=30))
        for count in (19, 20)
    )

    assert few["acceptance_rate"].missing == "there are 19 drafts, and 20 are needed"
    assert few["acceptance_length"].value is None
    assert enough["acceptance_length"].value == pytest.approx(2.5)


def test_without_counters_there_is_no_acceptance() -> None:
    """A missing block is neither 0 nor 1."""
    assert not {"acceptance_rate", "acceptance_length"} & figures(parsed()).keys()


def test_tokens_per_chunk_are_known_where_chunks_were_saved() -> None:
    """With --save-detailed the chunks are there: one for the first token, and one for every gap."""
    saved = parsed(itls=[[0.004] * 15] * 48)

    assert saved.tokens_per_chunk == pytest.approx(2.0)
    assert figures(saved)["inter_chunk_p50"].n == 15 * 48
    assert parsed().tokens_per_chunk is None
    assert parsed(itls=[[0.004]]).tokens_per_chunk is None, "not every answer has its gaps there"


def test_identity_is_the_load_as_far_as_it_is_told() -> None:
    """What --metadata added is a field of its own; a label, a date and a result are none."""
    fields = identity_fields(parsed(label="main", commit="abc", another=3))

    assert fields["metadata.commit"] == "abc"
    assert fields["max_concurrency"] == 8
    assert not {"label", "date", "duration", "metadata.another", "ramp_up_strategy"} & fields.keys()


def test_a_rising_rate_belongs_to_the_load() -> None:
    """A ramp-up run differs from one with a steady rate."""
    fields = identity_fields(parsed(ramp_up_strategy="linear", ramp_up_start_rps=1, ramp_up_end_rps=8))

    assert (fields["ramp_up_strategy"], fields["ramp_up_start_rps"], fields["ramp_up_end_rps"]) == ("linear", 1, 8)


def test_older_files_without_an_endpoint_type_compare_by_their_backend() -> None:
    """The two keys say the same."""
    assert identity_fields(parsed(endpoint_type=None))["endpoint_type"] == "openai"


def test_what_a_file_cannot_prove_is_listed() -> None:
    """Nothing of the seed, the prompts, the server, its version or the machine stands in such a file."""
    told = "; ".join(UNPROVED)

    assert all(word in told for word in ("seed", "dataset", "sampling", "server flags", "vLLM version", "GPU"))


def test_results_are_told_from_other_files() -> None:
    """A record of a window, a list or another benchmark's file is none."""
    others: list[JsonValue] = [[], {"schema_version": 3}, "text", None]

    assert is_result(json_value(json.dumps(stored()), source="run.json"))
    assert not any(map(is_result, others))


@pytest.mark.parametrize(
    ("changes", "reason", "sentence"),
    [
        ({"median_ttft_ms": 7e-4}, "impossible-value", "median_ttft_ms stands for 7e-07 s"),
        ({"p99_ttft_ms": 1e300}, "impossible-value", "p99_ttft_ms stands for 1e+297 s"),
        ({"median_tpot_ms": 2e10}, "impossible-value", "median_tpot_ms stands for 2e+07 s"),
        ({"median_ttft_ms": 900.0}, "contradicts-itself", "and duration for 0.8 s"),
        ({"median_ttft_ms": 200.0, "median_e2el_ms": 131.0}, "contradicts-itself", "and median_e2el_ms for 0.131 s"),
        ({"request_goodput": 1e300}, "contradicts-itself", "request_goodput is 1e+300"),
        ({**SPECULATION, "spec_decode_acceptance_length": 9.0}, "counter-identity", "its counts give 2.922"),
    ],
)
def test_absurd_numbers_are_no_figures(changes: dict[str, Any], reason: str, sentence: str) -> None:
    """No token comes within a microsecond or after the end, no run takes months, and shares follow from counts."""
    found = problem_of(parsed(**changes))

    assert found is not None
    assert found.reason == reason
    assert sentence in found.message
