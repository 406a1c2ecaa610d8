"""Identity before numbers, and arms that are not what was declared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

PAIRS = ("longer against plain", "shorter against plain")
UNITS = ("tokens/s", "[ms]", "----  ")
FIGURES = (*UNITS, "TTFT", "TPOT", "interval", "better", "worse ")

_MISMATCHED_GATES = """\
    PLAIN, LONGER, SHORTER = arm("plain"), arm("longer", extra_prompt_tokens=3), arm("shorter", stop_after_tokens=5)


    @gate(pair(PLAIN, LONGER), SPEED)
    def test_prompts(): pass


    @gate(pair(PLAIN, SHORTER), SPEED)
    def test_lengths(): pass
    """

_UNDECLARED_GATES = """\
    K4, LIES, IDLES = arm("k4", k=4), arm("lies", k=4, report_k=3), arm("idles", k=4, never_draft=True)
    CLAIM = not_worse("acceptance_length", at=1, margin="5%", noise=FLOOR)


    @gate(pair(K4, LIES), CLAIM)
    def test_lies(): pass


    @gate(pair(K4, IDLES), CLAIM)
    def test_idles(): pass


    @measured(pair(K4, LIES))
    def test_reads(specgate_window): pass
    """

# The third server is the candidate of the second round: it counts other prompts, and fails at the second point.
_LATE_ENGINE = """\
    import json, pathlib, sys

    from pytest_specgate.testing.main import main

    with pathlib.Path("starts.txt").open("a") as file:
        file.write("x")
    argv = sys.argv[1:]
    if len(pathlib.Path("starts.txt").read_text()) == 3:
        argv += ["--fake", json.dumps({"step_s": 0.002, "extra_prompt_tokens": 3, "error_after_requests": 4})]
    raise SystemExit(main(argv))
    """

_LATE_GATE = """\
    @gate(pair(arm("good"), arm("other", seed=1), profile=load(requests={1: 2, 2: 2})), UNDECIDABLE)
    def test_late(): pass
    """


@pytest.fixture(scope="module")
def mismatched(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """One arm that sees longer prompts than its reference, and one that stops early."""
    gates = new_gate_folder()
    gates.write("test_profiles.py", _MISMATCHED_GATES)
    return gates.run()


@pytest.fixture(scope="module")
def undeclared(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """One arm that resolves another draft horizon than it declares, and one that never drafts."""
    gates = new_gate_folder()
    gates.write("test_arms.py", _UNDECLARED_GATES)
    return gates.run()


def _places(pattern: str, text: str) -> list[int]:
    return [found.start() for found in re.finditer(pattern, text, re.MULTILINE)]


def test_identity_is_printed_before_any_table(healthy: GateRun) -> None:
    """For every pair the line on the request profile comes first, and no figure stands above the first one."""
    identity = _places(r"request profile: (\d+) of \1 fields identical", healthy.output)
    tables = _places(r"^ *load  metric", healthy.output)

    # Each pair has its table, and one by round.
    assert (len(identity), len(tables)) == (2, 4)
    assert identity[0] < tables[0] < tables[1] < identity[1] < tables[2]
    assert not any(unit in healthy.output[: identity[0]] for unit in UNITS)


def test_all_fields_of_the_profile_are_compared(healthy: GateRun) -> None:
    """The number in the line is that of the fields in the record: declared, prompt hashes by point, observed ones."""
    fields = healthy.record.boots[0].profile

    assert f"request profile: {len(fields)} of {len(fields)} fields identical" in healthy.output
    assert {"temperature", "ignore_eos", "warmup_requests", "tokenizer_sha256", "order_seed"} <= set(fields)
    assert sum(name.startswith("prompt") and name.endswith((".c1", ".c2")) for name in fields) == 2
    assert fields["observed_output_tokens.c2"] == [32] * 10


def test_a_mismatch_is_invalid_and_fails_the_run(mismatched: GateRun) -> None:
    """Both gates are INVALID for their profiles, and INVALID alone is exit status 1."""
    reasons = {case.properties["specgate_reason"] for case in mismatched.cases.values()}

    assert (mismatched.exit_code, mismatched.counts) == (1, {"failed": 2})
    assert {case.outcome for case in mismatched.cases.values()} == {"INVALID"}
    assert reasons == {"profile-mismatch"}


@pytest.mark.parametrize(
    ("test", "pair", "lines"),
    [
        (
            "test_prompts",
            PAIRS[0],
            ("observed_prompt_tokens.c1", "plain, round 1: [16, 16]", "longer, round 1: [19, 19]"),
        ),
        (
            "test_lengths",
            PAIRS[1],
            ("observed_output_tokens.c1", "plain, round 1: [16, 16]", "shorter, round 1: [5, 5]"),
        ),
        (
            "test_lengths",
            PAIRS[1],
            (
                "observed_finish_reasons.c1",
                "plain, round 1: ['length', 'length']",
                "shorter, round 1: ['stop', 'stop']",
            ),
        ),
    ],
)
def test_a_mismatch_names_field_and_both_values(
    test: str, pair: str, lines: tuple[str, ...], mismatched: GateRun
) -> None:
    """Failure text and summary quote what each side had, one below the other."""
    failure = str(mismatched.cases[f"{test}[c1-output_throughput-not_worse]"].failure)

    for text in (failure, mismatched.table(pair)):
        stripped = [line.strip() for line in text.splitlines()]
        place = stripped.index(lines[0])
        assert tuple(stripped[place : place + 3]) == lines


def test_a_mismatch_shows_no_figure_anywhere(mismatched: GateRun) -> None:
    """Neither the terminal nor the report has a table, a speed or a change."""
    report = (mismatched.folder / "junit.xml").read_text(encoding="utf-8")

    for text in (mismatched.output, report):
        assert [figure for figure in FIGURES if figure in text.replace("not worse", "")] == []
    names = {name for case in mismatched.cases.values() for name in case.properties}
    assert not {name for name in names if re.search(r"reference|candidate|change|noise", name)}


def test_a_mismatch_ends_its_pair_at_once(mismatched: GateRun) -> None:
    """No further round is booted for a pair that is decided, and the record of what ran is kept."""
    record = mismatched.record

    assert [boot.arm for boot in record.boots] == ["plain", "longer", "shorter"]
    assert record.finished
    assert [verdict["reference"] for verdict in record.verdicts] == [None, None]


def test_another_draft_horizon_is_not_the_declared_arm(undeclared: GateRun) -> None:
    """A server that resolved k=3 where k=4 is declared is INVALID before any load."""
    case = undeclared.cases["test_lies[c1-acceptance_length-not_worse]"]
    (boot,) = undeclared.record.boots_of("lies")

    assert (case.outcome, case.properties["specgate_reason"]) == ("INVALID", "arm-not-as-declared")
    assert "arm lies: num_speculative_tokens=4 is declared, but the server resolved num_speculative_tokens=3" in str(
        case.failure
    )
    assert boot.points == ()


def test_speculation_that_never_drafts_is_invalid(undeclared: GateRun) -> None:
    """Zero drafts while tokens flow is no acceptance of 0 but a measurement that must not be judged."""
    case = undeclared.cases["test_idles[c1-acceptance_length-not_worse]"]

    assert (case.outcome, case.properties["specgate_reason"]) == ("INVALID", "speculation-inactive")
    assert "arm idles at c=1: speculation did not run: 0 drafts" in str(case.failure)
    assert undeclared.exit_code == 1


def test_an_arm_that_never_drafts_has_no_row_of_rates(undeclared: GateRun) -> None:
    """The table of speculation leaves it out instead of showing zeros."""
    rows = undeclared.summary.partition("speculation, from counter deltas")[2].partition("\n\n")[0]

    assert "\nk4 " in rows
    assert "\nidles " not in rows


def test_a_window_that_must_not_be_judged_cannot_be_read(undeclared: GateRun) -> None:
    """A test that only reads the window of an invalid pair is told why instead of getting figures."""
    failure = str(undeclared.cases["test_reads"].failure)

    assert "INVALID (arm-not-as-declared): arm lies: num_speculative_tokens=4 is declared" in failure
    assert "fixtures.py" not in failure


def test_figures_of_boots_without_verified_identity_are_not_shown(gate_folder: GateFolder) -> None:
    """A boot that fails after its first point proves no profile, so not even earlier rounds of its pair are shown."""
    gate_folder.write("engine.py", _LATE_ENGINE)
    gate_folder.write("test_late.py", _LATE_GATE)
    run = gate_folder.run(engine="python engine.py")
    case = run.cases["test_late[c1-output_throughput-not_worse]"]

    assert [boot.arm for boot in run.record.boots] == ["good", "other", "other"]
    assert (case.outcome, case.properties["specgate_reason"]) == ("INVALID", "failed-requests")
    assert [figure for figure in FIGURES if figure in run.summary.replace("not worse", "")] == []
