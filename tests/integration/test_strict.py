"""``--specgate-strict``: what speculation changes besides must be listed, or the pair is not judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.adapters.storage import load_record

if TYPE_CHECKING:
    from tests.integration.conftest import GateFolder

GATE = """\
    from pytest_specgate import Arm, ArmPair, RequestProfile, gate, noise_floor, not_worse

    OFF = Arm("off", model="fake-model", args={"fake": {"step_s": 0.002}})
    K4 = OFF.vary("k4", args={"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}})
    LOAD = RequestProfile(input_tokens=16, output_tokens=32, requests={1: 10})
    PAIR = ArmPair(reference=OFF, candidate=K4, varies=VARIES, profile=LOAD, rounds=2, ALLOWED)

    @gate(PAIR, not_worse("output_throughput", at=1, margin="90%", noise=noise_floor("50%", source="made up")))
    def test_gate(): pass
    """


def written(folder: GateFolder, allowed: str = "") -> None:
    """Write the gate file."""
    folder.write("test_gate.py", GATE.replace("VARIES", '"args.speculative_config"').replace("ALLOWED", allowed))


def test_a_switch_alone_and_yes_in_the_environment_mean_the_same(gate_folder: GateFolder) -> None:
    """Both make the session strict, and the record says so; the pair of the fake has nothing to list."""
    written(gate_folder)
    runs = [
        gate_folder.run("--specgate-strict", "--specgate-results=a"),
        gate_folder.run("--specgate-results=b", variables={"SPECGATE_STRICT": "yes"}),
    ]
    strict = [load_record(path).strict for path in sorted(gate_folder.folder.glob("[ab]/*/record.json"))]

    assert [run.exit_code for run in runs] == [0, 0], runs[0].output
    assert strict == [True, True]
    assert "engine-induced (0)  none" in runs[0].output


def test_another_word_is_refused(gate_folder: GateFolder) -> None:
    """Anything but yes and no is a mistake, before any server starts."""
    written(gate_folder)
    run = gate_folder.run(variables={"SPECGATE_STRICT": "1"})

    assert run.exit_code == 4
    assert "SPECGATE_STRICT=1 is neither yes nor no" in run.output


def test_what_is_allowed_and_not_there_is_said(gate_folder: GateFolder) -> None:
    """An entry of the list that nothing needs any more is shown, so that it can go."""
    written(gate_folder, 'allow_engine_differences={"scheduler_config.gone": "was harmless once"}')
    run = gate_folder.run()

    assert run.exit_code == 0, run.output
    assert "allowed, but not found: scheduler_config.gone" in run.output
    assert "host: " in run.output


def test_a_reason_must_be_given(gate_folder: GateFolder) -> None:
    """A difference is allowed with a reason, not by its name alone."""
    written(gate_folder, 'allow_engine_differences={"scheduler_config.policy": ""}')
    run = gate_folder.run()

    assert run.exit_code == 2
    assert "ArmPair.allow_engine_differences" in run.output
