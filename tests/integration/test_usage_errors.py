"""Mistakes in gate files and options: one sentence with its place, no traceback, and no server is started."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.conftest import GateFolder, GateRun

_PLAIN: Final = """\
    def test_verdict(verdict): pass
    def test_window(specgate_window): pass
    """
_TWO: Final = 'PAIR = pair(arm("off"), arm("on", seed=1))'


def _gate(threshold: str, pair: str = "PAIR") -> str:
    return f"{_TWO}\n\n@gate({pair}, {threshold})\ndef test_gate(): pass\n"


def _throughput(rest: str) -> str:
    return _gate(f'not_worse("output_throughput", {rest})')


MISTAKES: Final = {
    "unknown_metric": (
        _gate('not_worse("ttfp_p50", at=1, margin="5%")'),
        "there is no metric 'ttfp_p50'; did you mean 'ttft_p50'?",
    ),
    "misspelt_threshold_keyword": (
        _throughput('at=1, margni="5%"'),
        "not_worse() has no keyword 'margni'; did you mean 'margin'?",
    ),
    "misspelt_profile_keyword": (
        "LOAD = RequestProfile(input_tokens=16, output_tokens=16, request={1: 2})",
        "RequestProfile has no field 'request'; did you mean 'requests'?",
    ),
    "misspelt_pair_keyword": (
        'PAIR = ArmPair(reference=arm("off"), candidat=arm("on", seed=1), varies="args.fake", profile=load())',
        "ArmPair has no field 'candidat'; did you mean 'candidate'?",
    ),
    "misspelt_arm_keyword": (
        'OFF = Arm("off", modell="x")',
        "Arm has no field 'modell'; did you mean 'model'?",
    ),
    "margin_as_a_number": (_throughput("at=1, margin=0.4"), "margin=0.4 has no unit: write margin='0.4%'"),
    "margin_without_unit": (_throughput('at=1, margin="0.4"'), "margin='0.4' is not a percentage"),
    "negative_margin": (_throughput('at=1, margin="-1%"'), "margin='-1%' is not a percentage"),
    "margin_not_a_number": (_throughput('at=1, margin=float("nan")'), "margin=nan is not a percentage"),
    "duplicate_threshold": (
        _gate("SPEED, SPEED"),
        "threshold c1-output_throughput-not_worse is declared twice",
    ),
    "more_than_varies": (
        'pair(arm("off"), arm("on", seed=1, args={"max_model_len": 99}))',
        "arms on against off also differ in args.max_model_len, which `varies` does not name",
    ),
    "less_than_varies": (
        'pair(arm("off"), arm("on", seed=1), varies=("args.fake", "args.dtype"))',
        "arms on against off do not differ in args.dtype, which `varies` names",
    ),
    "same_name_in_a_pair": ('pair(arm("on"), arm("on", seed=1))', "both arms are called 'on'"),
    "unknown_point": (_throughput('at=8, margin="5%"'), "at=8 is no point of the profile, which measures c=1"),
    "level_in_quotes": (
        _throughput('at="1", margin="5%"'),
        "Threshold: '1' is no load level: write a concurrency as 8, an arrival rate as '4/s'",
    ),
    "level_of_nothing": (_throughput('at=0, margin="5%"'), "a concurrency of 0 sends nothing: write 1 or more"),
    "unknown_rate": (_throughput('at="4/s", margin="5%"'), "at='4/s' is no point of the profile, which measures c=1"),
    "rate_twice": ('load(requests={"4/s": 2, "4.0/s": 2})', "RequestProfile: point 4/s is there twice"),
    "rate_of_one_request": ('load(requests={"4/s": 1})', "point 4/s has 1 requests; a rate of arrival needs 2 or more"),
    "limit_without_unit": ('load(goodput_limits={"ttft": "500"})', "goodput_limits['ttft']='500' is no duration"),
    "goodput_without_limits": (_gate('not_worse("goodput", at=1, margin="5%", noise=FLOOR)'), "goodput needs limits"),
    "no_direction": (
        _gate('not_worse("achieved_concurrency", at=1, margin="5%")'),
        "Threshold: achieved_concurrency has no better direction: it is shown, and cannot be gated",
    ),
    "chunks_of_two_horizons": (
        _gate(
            'not_worse("inter_chunk_mean", at=1, margin="5%", noise=FLOOR)',
            'pair(arm("off"), arm("k4", k=4), varies="args.speculative_config")',
        ),
        "inter_chunk_mean is a time per chunk",
    ),
    "percentile_of_few_requests": (
        _gate('not_worse("ttft_p99", at=1, margin="5%", noise=FLOOR)'),
        "ttft_p99 at c=1 needs 500 requests, the profile has 2",
    ),
    "undecidable": (
        _throughput('at=1, margin="5%"'),
        "threshold c1-output_throughput-not_worse can never be decided with rounds=2",
    ),
    "odd_rounds": ('pair(arm("off"), arm("on", seed=1), rounds=5)', "rounds=5: 1, 2, 3 or an even number"),
    "two_gates": (
        f"{_TWO}\n\n@gate(PAIR, SPEED)\n@gate(PAIR, SPEED)\ndef test_gate(): pass\n",
        "2 @gate decorators; write one gate a function",
    ),
    "gate_and_server": (
        f"{_TWO}\n\n@gate(PAIR, SPEED)\ndef test_gate(vllm_server): pass\n",
        "cannot ask for vllm_server",
    ),
    "no_threshold": (f"{_TWO}\n\n@gate(PAIR)\ndef test_gate(): pass\n", "after its pair; got none"),
    "no_pair": ("@gate(SPEED)\ndef test_gate(): pass\n", "gate() takes an ArmPair first, got Threshold"),
    "no_pair_measured": ("@measured()\ndef test_look(): pass\n", "measured() takes one or more ArmPairs"),
    "fewer_requests_than_workers": ("load(requests={8: 4})", "point c=8 has 4 requests"),
    "floor_without_unit": ('noise_floor(0.02, source="a guess")', "noise_floor=0.02 has no unit"),
    "floor_without_source": ('noise_floor("2%")', "source"),
    "argument_of_ours": ('arm("off", args={"port": 1})', "port is set by the gate itself"),
    "measured_loads": (
        f"{_TWO}\n\n@measured(PAIR, pair(*PAIR.arms, profile=load(input_tokens=8)))\ndef test_look(): pass\n",
        "measured() takes pairs of one window, and these have different profiles",
    ),
    "speculation_as_text": (
        """arm("k4", args={"speculative_config": '{"num_speculative_tokens": 4}'})""",
        "speculative_config is a dict, so that what it declares can be proved; got ",
    ),
    "k_as_text": (
        """arm("k4", args={"speculative_config": {"method": "ngram", "num_speculative_tokens": "4"}})""",
        "num_speculative_tokens is a whole number above 0, got '4'",
    ),
    "speculation_by_another_name": (
        """arm("k4", args={"spec-tokens": 4})""",
        "spec_tokens: declare speculation as speculative_config, a dict, so that it can be proved",
    ),
    "an_argument_twice": (
        """arm("off", args={"max_model_len": 64, "max-model-len": 32})""",
        "max_model_len is given twice, as 'max_model_len' and as 'max-model-len'; give it once",
    ),
    "two_revisions": (
        """pair(arm("off"), arm("new", args={"revision": "abc"}), varies="args.revision")""",
        "the revision is part of the request profile, so both must serve one",
    ),
    "two_models": (
        'pair(Arm("a", model="x"), Arm("b", model="y"), varies="model")',
        "the model is part of the request profile",
    ),
}


STRANGE: Final = {
    "xfail": (
        "@pytest.mark.xfail\n@gate(PAIR, SPEED)\ndef test_gate(): pass\n",
        "test_gate[c1-output_throughput-not_worse]: xfail would excuse what was not measured; use verdict.expect(",
    ),
    "test_case": (
        "import unittest\n\nclass TestGate(unittest.TestCase):\n    @gate(PAIR, SPEED)\n    def test_gate(self): ...\n",
        "TestGate::test_gate: a gate is a plain function, or a method of a plain class",
    ),
}


@pytest.fixture(scope="module")
def mistaken(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """One run over all gate files with a mistake, and one without."""
    gates = new_gate_folder()
    for name, (body, _) in MISTAKES.items():
        gates.write(f"test_{name}.py", body)
    gates.write("test_right.py", f"{_TWO}\n\n@gate(PAIR, SPEED)\ndef test_gate(): pass\n")
    return gates.run()


def _told(run: GateRun, name: str) -> list[str]:
    """Return the lines that pytest shows for the collection of one file."""
    _, *parts = re.split(r"_+ ERROR collecting (\S+) _+\n", run.output)
    section = dict(zip(parts[::2], parts[1::2], strict=True))[f"test_{name}.py"]
    own, *_ = re.split(r"^[-=]{3}", section, maxsplit=1, flags=re.MULTILINE)
    return [line for line in own.splitlines() if line.strip()]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_gate_file_is_one_sentence_with_its_place(name: str, mistaken: GateRun) -> None:
    """Collecting the file fails with its line and what to change."""
    (line,) = _told(mistaken, name)

    assert re.match(rf"test_{name}\.py:\d+: ", line)
    assert MISTAKES[name][1] in line


def test_the_place_is_the_line_of_the_mistake(mistaken: GateRun) -> None:
    """The line number is that of the call that cannot be right."""
    text = (mistaken.folder / "test_unknown_metric.py").read_text(encoding="utf-8").splitlines()
    (line,) = _told(mistaken, "unknown_metric")

    assert "ttfp_p50" in text[int(line.split(":")[1]) - 1]


def test_mistakes_stop_the_run_before_any_server(mistaken: GateRun) -> None:
    """A run with a broken gate file measures nothing, not even its right ones, and shows no traceback."""
    assert (mistaken.exit_code, mistaken.counts) == (2, {"errors": len(MISTAKES)})
    assert "Traceback" not in mistaken.output
    assert not mistaken.results.exists()


def _errors(run: GateRun) -> list[str]:
    # Standard error may come out in the middle of a line of standard output.
    return [line[line.index("ERROR: ") :] for line in run.output.splitlines() if "ERROR: " in line]


@pytest.mark.parametrize("name", STRANGE)
def test_a_gate_that_could_not_fail_is_refused(name: str, gate_folder: GateFolder) -> None:
    """What pytest would run without judging it stops the run with one sentence that names the test."""
    body, expected = STRANGE[name]
    gate_folder.write("test_gate.py", f"{_TWO}\n\n{body}")
    run = gate_folder.run()

    (error,) = _errors(run)
    assert run.exit_code == 4
    assert error.startswith(f"ERROR: test_gate.py::{expected}")
    assert not run.results.exists()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (None, "does not exist: set --specgate-engine-python"),
        ("#!/bin/sh\necho broken >&2\nexit 7\n", "does not work (exit code 7): broken"),
        ('#!/bin/sh\necho \'{"distribution": null, "version": null}\'\n', "name another interpreter"),
    ],
    ids=["missing", "broken", "without_vllm"],
)
def test_an_engine_that_cannot_run(script: str | None, expected: str, gate_folder: GateFolder) -> None:
    """An interpreter that is missing, broken or without vLLM is named before anything starts."""
    engine = gate_folder.folder / "engine-python"
    if script is not None:
        engine.write_text(script, encoding="utf-8")
        engine.chmod(0o755)
    gate_folder.write("test_gate.py", _gate("SPEED"))
    run = gate_folder.run(f"--specgate-engine-python={engine}", engine=None)

    (error,) = _errors(run)
    assert run.exit_code == 4
    assert str(engine) in error
    assert expected in error
    assert not run.results.exists()


def test_an_embedded_model_that_is_not_prepared(gate_folder: GateFolder, tmp_path: Path) -> None:
    """The command that prepares the model is named, and nothing is downloaded or started."""
    arms = '(Arm(f"seed{n}", model=EMBEDDED_MODEL, args={"seed": n}) for n in (1, 2))'
    gate_folder.write("test_gate.py", _gate("SPEED", pair=f'pair(*{arms}, varies="args.seed")'))
    run = gate_folder.run(variables={"SPECGATE_CACHE_DIR": str(tmp_path)})

    (error,) = _errors(run)
    assert run.exit_code == 4
    assert "specgate prepare-model" in error
    assert not list(tmp_path.iterdir())
    assert not run.results.exists()


REFUSED: Final = {
    "--specgate-rounds=": "--specgate-rounds is empty: give it a value or leave it out",
    "--specgate-rounds=many": "--specgate-rounds=many is not a whole number above 0",
    "--specgate-start-limit=inf": "--specgate-start-limit=inf is not a number above 0",
    "SPECGATE_ROUNDS= ": "SPECGATE_ROUNDS is empty: give it a value or leave it out",
    "SPECGATE_START_LIMIT=-1": "SPECGATE_START_LIMIT=-1 is not a number above 0",
    "specgate_rounds=1.5": "specgate_rounds=1.5 is not a whole number above 0",
}


@pytest.mark.parametrize("given", REFUSED)
def test_a_value_that_cannot_be_meant_is_refused_where_it_was_given(given: str, gate_folder: GateFolder) -> None:
    """A bad value on the command line, in the environment or in the ini file is named by its place."""
    name, _, value = given.partition("=")
    if name.startswith("specgate_"):
        gate_folder.write("pytest.ini", f"[pytest]\n{name} = {value}\n")
    arguments = [given] if name.startswith("--") else []
    run = gate_folder.run(*arguments, variables={name: value} if name.isupper() else {})

    assert (run.exit_code, _errors(run)) == (4, [f"ERROR: {REFUSED[given]}"])


@pytest.mark.parametrize(
    ("body", "exit_code"),
    [
        ("@gate(PAIR, SPEED)\ndef test_gate(): pass\n", 2),
        ("@measured(PAIR)\ndef test_look(specgate_window): pass\n", 4),
    ],
    ids=["gate", "measured"],
)
def test_odd_rounds_as_an_option(body: str, exit_code: int, gate_folder: GateFolder) -> None:
    """`--specgate-rounds=5` is refused as it would be in the file, for gates and for `@measured`."""
    gate_folder.write("test_rounds.py", f"{_TWO}\n\n{body}")
    run = gate_folder.run("--specgate-rounds=5")

    assert run.exit_code == exit_code
    assert "rounds=5: 1, 2, 3 or an even number keeps the boot order balanced" in run.output
    assert [text for text in ("Traceback", "INTERNALERROR") if text in run.output] == []
    assert not run.results.exists()


def test_a_fixture_of_gates_in_another_test(gate_folder: GateFolder) -> None:
    """A test that is no gate and asks for what only gates have is told so, without a traceback."""
    gate_folder.write("test_plain.py", _PLAIN)
    run = gate_folder.run()

    assert (run.exit_code, run.counts) == (1, {"errors": 2})
    for test, sentence in (
        ("test_verdict", "test_verdict asks for a verdict, but is no gate: decorate it with @gate(pair, ...)"),
        ("test_window", "test_window reads a window, but is no gate and has no @measured(pair)"),
    ):
        assert sentence in str(run.cases[test].failure)
    assert [text for text in ("fixtures.py", "During handling of the above") if text in run.output] == []
