"""Prompts and answers through the front door: chat, files of the user's own, random tokens, outputs compared."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.flags import RANDOM_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

_LOADS = """\
    K2, K4 = arm("k2", k=2), arm("k4", k=4)
    CHAT = pair(K2, K4, varies="args.speculative_config", profile=load(api="chat", input_tokens=48), rounds=2)
    FILE = pair(K2, K4, varies="args.speculative_config", rounds=1,
                profile=load(prompts=PromptFile("data/mine.jsonl"), input_tokens=None))
    RANDOM = pair(K2, K4, varies="args.speculative_config", profile=load(prompts="random"), rounds=1)
    WIDE = not_worse("output_throughput", at=1, margin="90%", noise=FLOOR)


    @gate(CHAT, WIDE)
    def test_chat(): pass


    @gate(FILE, WIDE)
    def test_file(): pass


    @gate(RANDOM, WIDE)
    def test_random(verdict):
        assert "random tokens: acceptance means nothing" in verdict.flags
    """

_ANSWERS = """\
    LOAD = load(requests={1: 10})
    SAME, TWIN, OTHER = arm("same"), arm("twin", seed=1), arm("other", altered_answers=0.5)
    ALL = outputs_agree(at=1, at_least="100%")


    @gate(pair(SAME, TWIN, profile=LOAD), ALL)
    def test_twin(): pass


    @gate(pair(SAME, OTHER, profile=LOAD), ALL, SPEED)
    def test_other(): pass


    @gate(pair(SAME, OTHER, profile=LOAD), outputs_agree(at=1, at_least="1%"))
    def test_hardly(verdict): verdict.expect(Outcome.PASS)
    """

_MISTAKES = {
    'prompts=PromptFile("none.jsonl"), input_tokens=None': (
        r"PromptFile\('none\.jsonl'\) cannot be read: there is no such file at \S+none\.jsonl "
    ),
    'prompts=PromptFile("few.jsonl"), input_tokens=None': (
        r"few\.jsonl has 2 prompts, and the profile needs 3, 1 of them for the warm-up: add prompts to it, or lower "
    ),
    'prompts=PromptFile("bad.jsonl"), input_tokens=None': r"bad\.jsonl:2 is no JSON: write one prompt a line",
    'prompts=PromptFile("talks.jsonl"), input_tokens=None, api="chat"': (
        r"talks\.jsonl:3 is the same prompt as talks\.jsonl:1, out of the prefix cache: take one of the two out"
    ),
}


@pytest.fixture(scope="module")
def loads(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Two speculative arms under three kinds of prompts."""
    gates = new_gate_folder()
    (gates.folder / "data").mkdir()
    prompts = ["How are you?", [1, 2, 3, 4, 5, 1, 2, 3, 4, 5], {"prompt": "Tell me of the lake."}]
    gates.write("data/mine.jsonl", "".join(f"{json.dumps(prompt)}\n" for prompt in prompts))
    gates.write("test_loads.py", _LOADS)
    return gates.run()


@pytest.fixture(scope="module")
def answers(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """An arm that answers like its reference, and one that answers half of the prompts otherwise."""
    gates = new_gate_folder()
    gates.write("test_answers.py", _ANSWERS)
    return gates.run()


def test_all_kinds_of_prompts_are_measured(loads: GateRun) -> None:
    """Chat, a file of one's own and random tokens give verdicts like any other load."""
    assert {case.outcome for case in loads.cases.values()} == {"PASS"}
    assert (loads.exit_code, len(loads.cases)) == (0, 3)


def test_the_load_lines_tell_what_was_sent(loads: GateRun) -> None:
    """Each window names the source of its prompts, their lengths, and how much they repeat themselves."""
    lines = re.findall(r"^load: (.*), 16 output tokens", loads.summary, re.MULTILINE)

    assert [re.sub(r"\d\.\d\d", "N", line) for line in lines] == [
        "prose prompts as chat of 48 tokens (repetitiveness N)",
        "file data/mine.jsonl prompts of their own lengths (repetitiveness N)",
        f"random prompts of 16 tokens ({RANDOM_TOKENS}, repetitiveness N)",
    ]


def test_several_windows_are_told_apart_while_they_run(loads: GateRun) -> None:
    """Three loads are three windows, and every boot says of which of them it is."""
    places = re.findall(
        r"^specgate: (window \d of 3), round 1 of \d: \w+: starting its server$", loads.output, re.MULTILINE
    )

    assert list(dict.fromkeys(places)) == ["window 1 of 3", "window 2 of 3", "window 3 of 3"]


def test_chat_prompts_are_counted_through_the_template(loads: GateRun) -> None:
    """The server counts exactly what was asked for, template included; the template is part of the profile."""
    chat = loads.records[0].boots[0]

    assert chat.profile["observed_prompt_tokens.c1"] == [48, 48]
    assert chat.profile["endpoint"] == "/v1/chat/completions"
    assert chat.profile["chat_template_sha256"] is not None
    assert [request.finish_reason for request in chat.points[0].requests] == ["length", "length"]


def test_prompts_of_a_file_keep_their_lengths(loads: GateRun) -> None:
    """The lengths that the server saw are recorded request by request; token ids are what they are."""
    boot = loads.records[1].boots[0]
    lengths = boot.profile["observed_prompt_tokens.c1"]

    assert isinstance(lengths, list)
    assert lengths[0] == 10
    assert boot.points[0].repetitiveness is not None
    assert boot.points[0].repetitiveness > 0


def test_random_tokens_are_labelled(loads: GateRun) -> None:
    """The window of random tokens says thrice what its acceptance is worth: load, verdicts, table; the others never."""
    assert loads.summary.count(RANDOM_TOKENS) == 3


def test_equal_answers_pass_a_claim_on_them(answers: GateRun) -> None:
    """A seed changes the drafts and not the answers: 10 of 10 are equal in both rounds."""
    case = answers.cases["test_twin[c1-outputs_agree]"]

    assert (case.outcome, case.properties["specgate_equal_share"]) == ("PASS", "1.0")
    assert "equal answers" in answers.table("twin against same")


def test_other_answers_fail_a_claim_on_them_and_nothing_else(answers: GateRun) -> None:
    """Answers that turn half-way fail the claim that all are equal, and not one that hardly any is."""
    case = answers.cases["test_other[c1-outputs_agree]"]

    assert case.outcome == "FAIL"
    assert re.search(r"FAIL: \d of 10 answers at c=1 equal .*, asked for at least 100 %", str(case.failure))
    assert re.search(r"first difference at character \d+ of request \d at c=1, round 1", str(case.failure))
    assert answers.cases["test_hardly[c1-outputs_agree]"].outcome == "PASS"


def test_the_summary_counts_answers_and_their_floor(answers: GateRun) -> None:
    """One line a pair: equal between the arms, equal of each arm with itself, and that this checks no accuracy."""
    lines = [line for line in answers.summary.splitlines() if line.startswith("outputs: ")]

    assert len(lines) == 2
    assert all(line.endswith("; no accuracy check ran") for line in lines)
    assert lines[0].startswith(
        "outputs: 20 of 20 answers equal between twin and same (same with itself across rounds: "
    )


def test_answers_are_in_the_record(answers: GateRun) -> None:
    """The texts of greedy requests are kept, so that they can be looked at."""
    texts = [request.text for request in answers.records[0].boots[0].points[0].requests]

    assert all(text and text.startswith(" ") for text in texts)
    assert len(set(texts)) == 10


@pytest.mark.parametrize("fields", _MISTAKES)
def test_a_file_that_cannot_be_used_stops_at_collection(fields: str, gate_folder: GateFolder) -> None:
    """One sentence, no traceback, and no server is started."""
    gate_folder.write("few.jsonl", '"One"\n"Two"\n')
    gate_folder.write("bad.jsonl", '"One"\nTwo\n')
    gate_folder.write("talks.jsonl", '"One"\n"Two"\n{"messages": [{"content": "One", "role": "user"}]}\n')
    gate_folder.write(
        "test_file.py",
        f"""\
        @gate(pair(arm("one"), arm("two", seed=1), profile=load({fields})), SPEED)
        def test_file(): pass
        """,
    )
    run = gate_folder.run(engine=gate_folder.recorded_engine())

    assert run.exit_code == 4
    assert re.search(f"ERROR: {_MISTAKES[fields]}", run.output)
    assert "Traceback" not in run.output
    assert not (gate_folder.folder / "lifetimes.txt").exists()
