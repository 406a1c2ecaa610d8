"""What a run leaves for its readers: terminal summary, junit report and record, and no secret in any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

ROWS = ("output throughput [tokens/s]", "TTFT p50 [ms]", "TPOT p50 [ms]", "decode rate p50 [tokens/s]")
UNDECIDED = "test_even[c1-output_throughput-not_worse]"

_UNDECIDED_GATE = """\
    FAST, TWIN = arm("fast", step_s=0.003), arm("twin", step_s=0.003, seed=1)


    @gate(pair(FAST, TWIN, profile=load(requests={1: 4})), UNDECIDABLE)
    def test_even(): pass
    """


@pytest.fixture(scope="module")
def distributed(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """A single undecided gate under one xdist worker; warnings are errors."""
    gates = new_gate_folder()
    gates.write("test_even.py", _UNDECIDED_GATE)
    return gates.run("-n", "1", "-W", "error")


@pytest.mark.parametrize("pair", ["k4 against off", "k7 against k4"])
@pytest.mark.parametrize("row", [*ROWS, "E2E latency p50 [ms]"])
def test_the_table_has_the_headline_figures_of_both_arms(row: str, pair: str, healthy: GateRun) -> None:
    """Each headline metric has one row a point, with a figure for either arm and a direction word."""
    found = [line.partition(row)[2].split() for line in healthy.table(pair).splitlines() if row in line]

    assert len(found) == 2
    for cells in found:
        assert all(float(cell) > 0 for cell in cells[:2])
        assert cells[2] in {"better", "worse", "equal"}


def test_the_table_says_what_was_judged(healthy: GateRun) -> None:
    """Gated rows carry interval and outcome with the claim."""
    table = healthy.table("k4 against off")

    assert "PASS (better than +20 %)" in table
    assert "PASS (not worse than -30 %)" in table
    assert "PASS (not worse than +30 %)" in table


def test_speculation_is_shown_by_draft_position(healthy: GateRun) -> None:
    """Speculative arms have one rate a position at each point, falling from the first; others have no row."""
    lines = healthy.summary.partition("speculation, from counter deltas")[2].partition("\n\n")[0].splitlines()
    rows = [line.split() for line in lines if line.startswith(("k4 ", "k7 ", "off "))]

    assert [row[:2] for row in rows] == [["k4", "c=1"], ["k4", "c=2"], ["k7", "c=1"], ["k7", "c=2"]]
    for row in rows:
        rates = [float(cell) for cell in row[-int(row[0][1]) :]]
        assert len(row) == 9 + len(rates)
        assert rates == sorted(rates, reverse=True)
        assert 0 < rates[-1] <= rates[0] <= 1


@pytest.mark.parametrize("run", ["healthy", "slowed", "faulty"])
def test_every_summary_says_that_accuracy_was_not_checked(run: str, request: pytest.FixtureRequest) -> None:
    """A reader must not take a speed verdict for an accuracy check."""
    measured: GateRun = request.getfixturevalue(run)

    assert "no accuracy check ran" in measured.summary


def test_the_summary_names_boots_load_and_record(healthy: GateRun) -> None:
    """Order of the boots, the load in words, and the path of the record stand in the summary."""
    (path,) = healthy.results.glob("*/record.json")

    assert "boots: 6 in 2 rounds (off k4 k7 / k7 k4 off)" in healthy.summary
    assert "\nload: prose prompts of 16 tokens (repetitiveness " in healthy.summary
    assert "), 32 output tokens, 10 requests at c=1, 10 requests at c=2\n" in healthy.summary
    assert f"record: {path.relative_to(healthy.results.parent)}" in healthy.summary


def test_progress_is_shown_while_a_window_runs(healthy: GateRun) -> None:
    """Each boot and each point is announced before the first result."""
    progress = healthy.output.partition("specgate: round 1 of 2: off")[2].partition("PASSED")[0]

    assert "round 2 of 2: off: starting its server" in progress
    assert "k7: c=2, 10 requests" in progress


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("test_k4[c1-decode_rate_p50-better]", "_tokens_per_s"),
        ("test_k4[c2-output_throughput-not_worse]", "_tokens_per_s"),
        ("test_k4[c2-e2e_p50-not_worse]", "_s"),
    ],
)
def test_junit_properties_carry_units_in_their_names(name: str, unit: str, healthy: GateRun) -> None:
    """Both arms' figures, the change with its interval and the noise are properties of the test case."""
    properties = healthy.cases[name].properties
    figures = {
        key.removeprefix("specgate_"): float(properties[key])
        for key in (f"specgate_reference{unit}", f"specgate_candidate{unit}", "specgate_change", "specgate_change_low")
    }

    assert figures[f"reference{unit}"] > 0
    assert figures[f"candidate{unit}"] / figures[f"reference{unit}"] - 1 == pytest.approx(figures["change"])
    assert figures["change_low"] < figures["change"] < float(properties["specgate_change_high"])
    assert (properties["specgate_rounds"], properties["specgate_pair"]) == ("2", "k4 against off")
    assert properties["specgate_gate"] == "test_speculation.py::test_k4"


def test_a_failed_threshold_has_a_junit_failure(slowed: GateRun) -> None:
    """Its text has interval, margin and reason; a passed one has none."""
    failure = str(slowed.cases["test_bare[c1-output_throughput-not_worse]"].failure)

    assert "interval -" in failure
    assert "margin -30 %: the whole interval lies beyond the margin" in failure
    assert slowed.cases["test_method[c1-output_throughput-not_worse]"].failure is None


def test_warnings_as_errors_change_nothing(faulty: GateRun, distributed: GateRun) -> None:
    """Under `-W error` the plugin warns of nothing, with and without xdist."""
    for run in (faulty, distributed):
        assert "Warning" not in run.output
        assert "INTERNALERROR" not in run.output


def test_control_characters_of_a_server_log_stay_out_of_the_report(faulty: GateRun) -> None:
    """A log with terminal escapes and NUL gives well-formed XML, and the text around them is kept."""
    failure = str(faulty.cases["test_dead[c1-output_throughput-not_worse]"].failure)

    assert "boom" in failure
    assert "\x1b" not in faulty.output
    assert "\x00" not in faulty.output
    assert "#x1B" not in failure


def test_xdist_carries_the_same_properties(distributed: GateRun, slowed: GateRun) -> None:
    """Under `-n 1` the test case has the names, and the outcome, of a run without xdist."""
    ours, theirs = distributed.cases[UNDECIDED], slowed.cases[UNDECIDED]

    assert list(ours.properties) == list(theirs.properties)
    for name in ("specgate_outcome", "specgate_claim", "specgate_limit", "specgate_rounds", "specgate_noise_source"):
        assert ours.properties[name] == theirs.properties[name]


def test_an_undecided_gate_alone_fails_the_run(distributed: GateRun) -> None:
    """INCONCLUSIVE is exit status 1, with a failure text like FAIL."""
    assert (distributed.exit_code, distributed.counts) == (1, {"failed": 1})
    assert "INCONCLUSIVE: output throughput at c=1" in str(distributed.cases[UNDECIDED].failure)


@pytest.mark.parametrize("run", ["healthy", "slowed", "faulty", "distributed"])
def test_every_window_leaves_one_record(run: str, request: pytest.FixtureRequest) -> None:
    """The record loads back, is of schema 3, and holds every boot with its command and resolved configuration."""
    record = request.getfixturevalue(run).record

    assert (record.schema_version, record.finished) == (3, True)
    assert len({boot.arm for boot in record.boots}) == len(record.arms)
    for boot in record.boots:
        assert boot.failure or {point.at for point in boot.points} == set(record.profile.points)
        assert "--served-model-name" in boot.command


def test_the_record_holds_requests_and_counters(healthy: GateRun) -> None:
    """Every request is there with its times and counts, between two counter pages that account for its tokens."""
    point = healthy.record.boots_of("k4")[0].point(2)

    assert point is not None
    assert [request.index for request in point.requests] == list(range(10))
    assert all(0 < (request.ttft_s or 0) <= (request.last_token_s or 0) for request in point.requests)
    assert sum(request.output_tokens or 0 for request in point.requests) == 320
    assert point.counters.total("vllm:generation_tokens_total") == 320


def test_the_record_agrees_with_the_report(healthy: GateRun) -> None:
    """The judged verdicts in the record are those of the test cases."""
    for verdict in healthy.record.verdicts:
        name = f"test_{'k4' if verdict['pair'] == 'k4 against off' else 'k7'}[{verdict['threshold']}]"
        assert str(verdict["outcome"]) == healthy.cases[name].outcome
        assert str(verdict["change"]) == healthy.cases[name].properties["specgate_change"]


@pytest.mark.parametrize("secret", ["hf_abcdefghijklmnop1234", "words-of-a-secret"])
def test_no_secret_is_printed_or_stored(secret: str, faulty: GateRun) -> None:
    """A token in an arm's environment and a key in its arguments appear nowhere but in the server's own log."""
    kept = [path for path in faulty.results.rglob("*") if path.is_file() and path.suffix != ".log"]

    assert sorted(path.name for path in kept) == ["attempt.json", "record.json"]
    assert all(secret not in path.read_text(encoding="utf-8") for path in kept)
    assert secret not in (faulty.folder / "junit.xml").read_text(encoding="utf-8")
    assert secret not in faulty.output
    assert "HF_TOKEN=[redacted]" in faulty.output.replace("'", "")


def test_what_only_sounds_like_a_secret_is_kept(faulty: GateRun) -> None:
    """`long_prefill_token_threshold` is a number of tokens, not a token: commands and record have it."""
    assert faulty.output.count("--long-prefill-token-threshold 2048") >= 12
    assert {arm.args["long_prefill_token_threshold"] for arm in faulty.record.arms} == {2048}
