"""What every server of a session is given besides what its arm declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.storage import load_record

if TYPE_CHECKING:
    from tests.integration.conftest import GateFolder

GATE = """\
    from pytest_specgate import Arm, ArmPair, RequestProfile, gate, noise_floor, not_worse

    ONE = Arm("one", model="fake-model", args={"max_num_seqs": 5}, env={"VLLM_OWN": "arm"})
    TWO = ONE.vary("two", args={"fake": {"step_s": 0.003}})
    LOAD = RequestProfile(input_tokens=16, output_tokens=32, requests={1: 10})
    PAIR = ArmPair(reference=ONE, candidate=TWO, varies="args.fake", profile=LOAD, rounds=1)

    @gate(PAIR, not_worse("output_throughput", at=1, margin="90%", noise=noise_floor("50%", source="made up")))
    def test_gate(): pass
    """
TOKEN = "hf_abcdefghijklmnopqrstuv"


def test_every_server_gets_them_and_an_arm_has_the_last_word(gate_folder: GateFolder) -> None:
    """Arguments come before the arm's own, variables are overridden by the arm's, and secrets are stored nowhere."""
    gate_folder.write("test_gate.py", GATE)
    run = gate_folder.run(
        "--specgate-engine-args=--max-num-seqs 7 --seed 3",
        variables={"SPECGATE_ENGINE_ENV": f"VLLM_OWN=session VLLM_MORE='a b' HF_TOKEN={TOKEN}"},
    )
    [path] = gate_folder.folder.glob("specgate-results/*/record.json")
    commands = [boot.command for boot in load_record(path).boots]

    assert run.exit_code == 0, run.output
    for command in commands:
        assert command.index("--max-num-seqs 7 --seed 3") < command.index("--max-num-seqs 5")
        assert "VLLM_OWN=arm" in command
        assert "'VLLM_MORE=a b'" in command
    assert TOKEN not in path.read_text(encoding="utf-8")
    assert TOKEN not in run.output


def test_servers_see_the_devices_of_their_job_and_no_others(gate_folder: GateFolder) -> None:
    """Who asks for some devices has them to himself, and leaves the others alone."""
    gate_folder.write("test_gate.py", GATE)
    run = gate_folder.run("--specgate-devices=0")
    [path] = gate_folder.folder.glob("specgate-results/*/record.json")

    assert run.exit_code == 0, run.output
    assert all("CUDA_VISIBLE_DEVICES=0 " in boot.command for boot in load_record(path).boots)


@pytest.mark.parametrize(
    ("variable", "text", "sentence"),
    [
        ("SPECGATE_ENGINE_ENV", "B A=1", "SPECGATE_ENGINE_ENV has 'B', which is no NAME=VALUE"),
        ("SPECGATE_ENGINE_ENV", "A=1 B", "SPECGATE_ENGINE_ENV has a word after A=, which is no NAME=VALUE: put values"),
        ("SPECGATE_ENGINE_ENV", "=1", "SPECGATE_ENGINE_ENV has '=', which is no NAME=VALUE"),
        ("SPECGATE_ENGINE_ARGS", "--x 'y", "SPECGATE_ENGINE_ARGS cannot be read as words: No closing quotation"),
        (
            "SPECGATE_ENGINE_COMMAND",
            "python 'x",
            "SPECGATE_ENGINE_COMMAND cannot be read as words: No closing quotation",
        ),
        *[
            ("SPECGATE_ENGINE_ARGS", f"--seed 3 {text}", f"SPECGATE_ENGINE_ARGS has --{name}, which is set by the gate")
            for text, name in {
                "--model=other": "model",
                "--model other": "model",
                "--host 0.0.0.0": "host",
                "--port=8123": "port",
                "--served-model-name x": "served-model-name",
                "--served_model_name=x": "served-model-name",
                "--served x": "served-model-name",
            }.items()
        ],
    ],
)
def test_what_cannot_be_read_is_refused(gate_folder: GateFolder, variable: str, text: str, sentence: str) -> None:
    """A value that is no list of words, or of variables, is a usage error that quotes it."""
    gate_folder.write("test_gate.py", GATE)
    run = gate_folder.run(engine=None, variables={variable: text})

    assert run.exit_code == 4
    assert sentence in run.output
    assert "INTERNALERROR" not in run.output


def test_secrets_of_a_session_are_in_no_failure(gate_folder: GateFolder) -> None:
    """The command that measures again names what was set, and no key, however it was quoted; so does the report."""
    gate_folder.write("test_gate.py", GATE.replace("not_worse", "better").replace('margin="90%"', 'by="900%"'))
    run = gate_folder.run(
        "--specgate-engine-args=--api-key 'open sesame' --seed 3",
        "--specgate-engine-env=AWS_SECRET_ACCESS_KEY=s3cr3tvalue HF_TOKEN='top s3cr3tvalue' PLAIN='a b'",
        variables={"OWN_API_KEY": "inherited-value"},
    )
    failure = next(iter(run.cases.values())).failure or ""
    junit = (gate_folder.folder / "junit.xml").read_text(encoding="utf-8")
    again = next(line for line in failure.splitlines() if "--specgate-engine-env=" in line)

    assert run.exit_code == 1, run.output
    assert "PLAIN=a b" in again
    assert "AWS_SECRET_ACCESS_KEY=[redacted]" in again
    assert "--seed 3" in again
    for secret in ("s3cr3t", "sesame", "inherited-value"):
        assert secret not in run.output
        assert secret not in junit
