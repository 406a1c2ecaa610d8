"""Comparisons of two result files: identity first, then what changed, and words only where a floor is declared."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_specgate.core.bench_serve import parse_result
from pytest_specgate.core.comparison import INDICATIVE, SAME_TWICE, differences
from pytest_specgate.core.comparison_claims import Claims, claims_of
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.metrics import HEADLINE
from pytest_specgate.core.result_comparison import compare_results
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from pytest_specgate.core.bench_serve import BenchResult
    from pytest_specgate.core.comparison import Comparison, Row

NOTHING = Claims()
JUDGED = claims_of(cross_window="3%", source="six windows of a test", margins=["5%"])


def row_of(found: Comparison, metric: str) -> Row:
    """Return the row of a figure of two files."""
    (one,) = [one for one in found.rows if one.metric == metric]
    return one


def metrics(found: Comparison, outcome: Outcome | None) -> set[str]:
    """Return the metrics that have an outcome."""
    return {one.metric for one in found.rows if one.outcome is outcome}


def result(*, speed: float = 1.0, **changes: Any) -> BenchResult:
    """Return a result file of a server that is faster by a factor."""
    stored: dict[str, Any] = {
        "backend": "openai", "model_id": "m", "tokenizer_id": "t", "num_prompts": 50, "request_rate": "inf",
        "burstiness": 1.0, "max_concurrency": 8, "duration": 10 / speed, "completed": 50, "failed": 0,
        "total_input_tokens": 5000, "total_output_tokens": 1000, "request_throughput": 5 * speed,
        "output_throughput": 100 * speed, "median_ttft_ms": 50 / speed, "median_tpot_ms": 10 / speed,
        "mean_tpot_ms": 11 / speed, "median_itl_ms": 12 / speed, "p99_itl_ms": 30 / speed,
    }  # fmt: skip
    return parse_result(json.dumps({**stored, **changes}), source="run.json")


@pytest.mark.parametrize(
    ("given_values", "sentence"),
    [
        ({"margins": ["5%"]}, "--margin judges, and two windows have no spread to judge by"),
        ({"source": "x"}, "--source says where the floor across windows comes from"),
        ({"cross_window": "3%", "margins": ["5%"]}, "--cross-window is a measured figure: say where it comes from"),
        ({"cross_window": "3%", "source": " ", "margins": ["5%"]}, "say where it comes from"),
        ({"cross_window": "3%", "source": "six windows"}, "nothing says what loss is still called 'not worse'"),
        ({"cross_window": "3", "source": "six windows", "margins": ["5%"]}, "--cross-window='3' is not a percentage"),
        ({"cross_window": "0%", "source": "six windows", "margins": ["5%"]}, "is no floor"),
        ({"cross_window": "100%", "source": "six windows", "margins": ["5%"]}, "is no floor"),
        ({"cross_window": "", "source": "six windows", "margins": ["5%"]}, "--cross-window='' is not a percentage"),
        ({"margins": [""]}, "--margin='' is not a percentage"),
        ({"margins": ["=5%"]}, "names no metric"),
        ({"margins": ["5"]}, "--margin='5' is not a percentage"),
        ({"margins": ["ttft_p5=5%"]}, "there is no metric 'ttft_p5'; did you mean"),
        ({"margins": ["tokens_per_chunk=5%"]}, "has no better direction"),
        ({"margins": ["preemptions=5%"]}, "is a count, which has no ratio"),
        ({"margins": ["output_throughput=100%"]}, "allows it to vanish"),
        ({"margins": ["100%"]}, "allows it to vanish"),
        ({"margins": ["5%", "6%"]}, "given twice for the headline metrics"),
        ({"margins": ["ttft_p50=5%", "ttft_p50=6%"]}, "given twice for ttft_p50"),
    ],
)
def test_claims_that_cannot_be_judged_are_usage_errors(given_values: dict[str, Any], sentence: str) -> None:
    """A floor without a margin, a margin without a floor, and figures without a unit say what is missing, and why."""
    full: dict[str, Any] = {"cross_window": None, "source": None, "margins": []}
    if set(given_values) == {"margins"} and given_values["margins"] != ["5%"]:
        full |= {"cross_window": "3%", "source": "six windows"}
    with pytest.raises(UsageError) as caught:
        claims_of(**{**full, **given_values})

    assert sentence in str(caught.value)


def test_nothing_is_claimed_where_nothing_is_said() -> None:
    """Without options a comparison is indicative."""
    assert claims_of(cross_window=None, source=None, margins=[]) == NOTHING


def test_margins_by_name_and_for_the_headline() -> None:
    """A margin of its own goes before the general one, and what is no headline metric needs one."""
    claims = claims_of(cross_window="3%", source=" six windows ", margins=["5%", "ttft_p50 = 20%", "tpot_mean=1%"])
    found = {name: claims.margin_of(name) for name in (*HEADLINE, "tpot_mean", "e2e_mean")}

    assert found == {**dict.fromkeys(HEADLINE, 0.05), "ttft_p50": 0.2, "tpot_mean": 0.01, "e2e_mean": None}
    assert claims.floor is not None
    assert claims.floor.words == "3 % (six windows)"


def test_a_named_margin_alone_judges_nothing_else() -> None:
    """Without a general margin only what is named is judged."""
    claims = claims_of(cross_window="3%", source="six windows", margins=["output_throughput=5%"])
    found = compare_results(result(), result(speed=0.5), claims)

    assert metrics(found, Outcome.FAIL) == {"output_throughput"}
    assert {one.outcome for one in found.rows} == {Outcome.FAIL, None}


def test_case_136_two_files_without_a_floor_are_indicative() -> None:
    """However large the difference, two windows prove nothing by themselves."""
    for speed in (1.0, 0.2, 5.0):
        found = compare_results(result(), result(speed=speed), NOTHING)

        assert (found.valid, found.outcome, found.message) == (True, Outcome.INCONCLUSIVE, INDICATIVE)
        assert {one.outcome for one in found.rows} == {None}
        assert row_of(found, "output_throughput").change == pytest.approx(speed - 1)


def test_case_136_a_loss_beyond_the_margin_fails_with_all_that_differs() -> None:
    """Every metric that is judged fails for itself, and what is not judged is listed beside it."""
    found = compare_results(result(), result(speed=0.8), JUDGED)

    assert found.outcome == Outcome.FAIL
    assert metrics(found, Outcome.FAIL) == {"output_throughput", "ttft_p50", "tpot_p50"}
    assert row_of(found, "tpot_mean").change == pytest.approx(0.25)
    assert row_of(found, "tpot_mean").outcome is None


def test_bounds_are_those_of_the_rule_across_windows() -> None:
    """One window before, a declared floor, five degrees of freedom, and a family of all that is judged."""
    found = row_of(compare_results(result(), result(speed=0.97), JUDGED), "output_throughput")
    sd = math.log1p(0.03) / 1.959963984540054
    lower = math.log(0.97) - float(stats.t.ppf(0.95, 5)) * sd
    upper = math.log(0.97) + float(stats.t.ppf(1 - 0.05 / 3, 5)) * sd

    assert found.change_low == pytest.approx(math.expm1(lower))
    assert found.change_high == pytest.approx(math.expm1(upper))
    assert found.margin == pytest.approx(-0.05)
    assert found.outcome == Outcome.INCONCLUSIVE


@given(st.floats(0.3, 3.0), st.sampled_from(["1%", "3%", "10%"]), st.sampled_from(["0%", "5%", "30%"]))
def test_words_follow_from_bounds_whatever_the_change(speed: float, floor: str, margin: str) -> None:
    """PASS only where the bad bound lies within the margin, FAIL only where the good one lies beyond it."""
    claims = claims_of(cross_window=floor, source="six windows", margins=[margin])
    found = compare_results(result(), result(speed=speed), claims)
    one = row_of(found, "output_throughput")

    assert one.change_low is not None
    assert one.change_high is not None
    assert one.margin is not None
    assert one.change_low < speed - 1 < one.change_high
    expected = (
        Outcome.PASS if one.change_low >= one.margin
        else Outcome.FAIL if one.change_high < one.margin else Outcome.INCONCLUSIVE
    )  # fmt: skip
    assert one.outcome == expected


def test_equal_files_pass_with_a_floor_and_say_what_they_are() -> None:
    """The same file twice may pass, since nothing got worse; that nothing was compared is said."""
    found = compare_results(result(), result(), JUDGED, twice=True)

    assert found.outcome == Outcome.PASS
    assert SAME_TWICE in found.notes
    assert row_of(found, "output_throughput").change == 0.0


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"max_concurrency": 32}, "max_concurrency", 32),
        ({"max_concurrency": None}, "max_concurrency", None),
        ({"request_rate": 4.0}, "request_rate", 4.0),
        ({"model_id": "other"}, "model_id", "other"),
        ({"tokenizer_id": None}, "tokenizer_id", None),
        ({"burstiness": 0.5}, "burstiness", 0.5),
        ({"total_input_tokens": 5001}, "total_input_tokens", 5001),
        ({"backend": "openai-chat", "endpoint_type": "openai"}, "backend", "openai-chat"),
        ({"endpoint_type": "openai-chat"}, "endpoint_type", "openai-chat"),
        ({"gpu": "H200"}, "metadata.gpu", "H200"),
        ({"ramp_up_strategy": "linear"}, "ramp_up_strategy", "linear"),
    ],
)
def test_files_of_two_loads_have_no_table(changes: dict[str, Any], field: str, value: object) -> None:
    """A field that differs is shown with both values, and nothing else is."""
    found = compare_results(result(), result(speed=2.0, **changes), JUDGED)

    assert (found.valid, found.outcome, found.reason, found.rows) == (False, Outcome.INVALID, "profile-mismatch", ())
    assert [(one.field, one.candidate) for one in found.differences] == [(field, value)]


def test_prompt_lengths_are_compared_where_both_files_have_them() -> None:
    """With --save-detailed in both, each prompt counts; a file without it says nothing of single prompts."""
    detailed: dict[str, Any] = {"input_lens": [100] * 50}
    found = compare_results(result(**detailed), result(input_lens=[99, 101, *[100] * 48]), NOTHING)

    assert [one.field for one in found.differences] == ["input_lens"]
    assert compare_results(result(**detailed), result(), NOTHING).valid
    assert compare_results(result(**detailed), result(**detailed), NOTHING).identity.startswith("load: 10 of 10 ")


def test_metadata_may_differ_where_it_is_said() -> None:
    """A commit differs by purpose: it is named, and shown."""
    found = compare_results(result(commit="a"), result(commit="b"), NOTHING, varies=["commit"])

    assert found.valid
    assert "commit may differ: a and b" in found.notes


def test_metadata_that_is_not_there_cannot_vary() -> None:
    """A misspelt name would switch nothing off, and is a usage error with the nearest one."""
    with pytest.raises(UsageError, match=r"--varies comit: .*it is one of commit; did you mean 'commit'"):
        compare_results(result(commit="a"), result(commit="b"), NOTHING, varies=["comit"])
    with pytest.raises(UsageError, match="has that name, since neither has any"):
        compare_results(result(), result(), NOTHING, varies=["backend"])


def test_case_102_failures_are_named_before_what_follows_from_them() -> None:
    """A file with failures is INVALID by them, though its token counts differ for that reason, too."""
    found = compare_results(result(), result(speed=3.0, failed=10, completed=40, total_input_tokens=4000), JUDGED)

    assert (found.valid, found.reason, found.rows) == (False, "failed-requests", ())
    assert "in the candidate file 10 of 50 requests failed" in found.message
    assert [one.field for one in found.differences] == ["total_input_tokens"]


def test_answers_of_other_lengths_are_other_work() -> None:
    """Fewer tokens take less time: that is no gain in speed. A little less is a note."""
    found = compare_results(result(), result(total_output_tokens=800, output_throughput=80.0), JUDGED)
    near = compare_results(result(), result(total_output_tokens=995, output_throughput=99.5), JUDGED)

    assert (found.valid, found.reason) == (False, "other-work")
    assert "1000 and 800 tokens" in found.message
    assert near.valid
    assert any("1000 and 995 tokens" in note for note in near.notes)


def test_case_103_a_figure_that_is_missing_in_one_file_softens_nothing() -> None:
    """A judged metric that one file lacks is INVALID, beside the FAIL of another."""
    found = compare_results(result(), result(speed=0.5, median_ttft_ms=None), JUDGED)

    assert found.outcome == Outcome.FAIL
    assert row_of(found, "ttft_p50").outcome == Outcome.INVALID
    assert row_of(found, "ttft_p50").message == "in the candidate window it does not stand in the file"
    assert row_of(found, "ttft_p50").reference is None


def test_a_named_metric_that_neither_file_has_is_invalid() -> None:
    """A claim about nothing is not passed over."""
    claims = claims_of(cross_window="3%", source="six windows", margins=["5%", "decode_rate_p50=5%"])
    found = compare_results(result(), result(), claims)

    assert found.outcome == Outcome.INVALID
    assert metrics(found, Outcome.INVALID) == {"decode_rate_p50"}


def test_inter_chunk_latency_is_shown_and_not_compared_without_its_chunks() -> None:
    """How many tokens a chunk holds is not known without --save-detailed, so gaps are no latency per token."""
    claims = claims_of(cross_window="3%", source="six windows", margins=["5%", "inter_chunk_p50=5%"])
    one = row_of(compare_results(result(), result(speed=0.5), JUDGED), "inter_chunk_p50")
    judged = row_of(compare_results(result(), result(speed=0.5), claims), "inter_chunk_p50")

    assert (one.valid, one.reference, one.candidate, one.change) == (True, 0.012, 0.024, None)
    assert "--save-detailed" in one.message
    assert (judged.valid, judged.outcome, judged.reference) == (False, Outcome.INVALID, None)


@pytest.mark.parametrize(("gaps", "compared"), [(19, True), (9, False)])
def test_inter_chunk_latency_is_compared_where_chunks_hold_alike(gaps: int, compared: bool) -> None:
    """Chunks of one and of two tokens are different things; chunks of one token each are not."""
    saved = [result(itls=[[0.01] * count] * 50) for count in (19, gaps)]
    one = row_of(compare_results(saved[0], saved[1], NOTHING), "inter_chunk_p50")

    assert (one.change is not None) == compared
    assert ("a chunk holds 1 to 2 tokens" in one.message) != compared


def test_counters_of_speculation_in_one_file_are_said() -> None:
    """Off, nothing drafted or no scrape: the file does not tell which, and the report says that."""
    drafts = {"spec_decode_num_drafts": 10, "spec_decode_draft_tokens": 40, "spec_decode_accepted_tokens": 20}
    found = compare_results(result(), result(**drafts), NOTHING)

    assert any("only the candidate file counts drafts" in note for note in found.notes)
    assert row_of(found, "acceptance_rate").reason == "missing-metric"


def test_case_94_down_to_zero_is_the_largest_loss() -> None:
    """Case 94: a goodput that fell to 0 lost all of it: it fails where it is judged, and never shows "no change"."""
    files = result(request_goodput=5.0), result(request_goodput=0.0)
    claims = claims_of(cross_window="3%", source="six windows", margins=["goodput=5%"])
    found = compare_results(*files, claims)
    shown = row_of(compare_results(*files, NOTHING), "goodput")

    assert found.outcome == Outcome.FAIL
    assert (row_of(found, "goodput").reason, row_of(found, "goodput").change) == ("fell-to-zero", -1.0)
    assert (shown.outcome, shown.candidate, shown.change) == (None, 0.0, -1.0)


def test_case_93_nothing_to_compare_with_is_no_change() -> None:
    """Case 93: from 0 to something has no ratio; nothing is divided, and no figure is shown."""
    claims = claims_of(cross_window="3%", source="six windows", margins=["goodput=5%"])
    found = compare_results(result(request_goodput=0.0), result(request_goodput=5.0), claims)

    assert found.outcome == Outcome.INVALID
    assert row_of(found, "goodput").reason == "reference-is-zero"
    assert row_of(found, "goodput").change is None


def test_nothing_judged_is_no_pass() -> None:
    """Margins that meet no figure of both files do not make them pass."""
    bare: dict[str, Any] = {"median_ttft_ms": None, "median_tpot_ms": None}
    claims = Claims(JUDGED.floor, None, {})
    found = compare_results(result(**bare), result(**bare), claims)

    assert (found.outcome, found.reason) == (Outcome.INVALID, "nothing-judged")


def test_differences_are_found_at_every_depth() -> None:
    """A bool is no number, an absent field differs from null, and numbers are equal by value."""
    found = differences({"a": 1, "b": {"c": True, "d": 2.0}, "e": None}, {"a": 1.0, "b": {"c": 1, "d": 2}})

    assert [(one.field, one.reference, one.candidate) for one in found] == [("b.c", True, 1), ("e", None, "(unset)")]
