"""``--specgate-attach``: servers that run elsewhere are measured, and the report says what is not proved of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.storage import load_record
from pytest_specgate.testing import FakeSettings, RunningFake, fake_vllm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.conftest import GateFolder

GATE = """\
    from pytest_specgate import Arm, ArmPair, RequestProfile, gate, noise_floor, not_worse

    OFF = Arm("off", model="fake-model")
    K4 = OFF.vary("k4", args={"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}})
    LOAD = RequestProfile(input_tokens=16, output_tokens=32, requests={1: 10})
    PAIR = ArmPair(reference=OFF, candidate=K4, varies="args.speculative_config", profile=LOAD, rounds=4)
    FLOOR = noise_floor("50%", source="made up")

    @gate(PAIR, not_worse("output_throughput", at=1, margin="90%", noise=FLOOR))
    def test_gate(): pass
    """

NGRAM = {"method": "ngram", "num_speculative_tokens": 4}
FAST = FakeSettings(step_s=0.002)


@pytest.fixture
def off() -> Iterator[RunningFake]:
    """A server that somebody else has started, without speculation and without its configuration told."""
    with fake_vllm(FAST) as server:
        yield server


@pytest.fixture
def k4() -> Iterator[RunningFake]:
    """Likewise with speculation."""
    with fake_vllm(FAST, speculative_config=NGRAM) as server:
        yield server


def test_attached_arms_are_measured_in_one_round_and_left_running(
    gate_folder: GateFolder, off: RunningFake, k4: RunningFake
) -> None:
    """Both arms are measured where they run, once, the report names what is not proved, and both still answer."""
    gate_folder.write("test_gate.py", GATE)
    run = gate_folder.run(f"--specgate-attach=off={off.url} k4={k4.url}")
    record = load_record(next(run.results.glob("*/record.json")))

    assert run.exit_code == 0, run.output
    assert [(boot.arm, boot.round, boot.boot_s) for boot in record.boots] == [("off", 1, None), ("k4", 1, None)]
    assert all(boot.unproved for boot in record.boots)
    assert f"engine: attached at {k4.url}, vLLM" in run.output
    assert "k4 was attached, so this is not proved: the command, arguments and environment" in run.output
    assert "start it with VLLM_SERVER_DEV_MODE=1" in run.output
    assert off.metrics()
    assert k4.metrics()


def test_what_is_not_proved_stands_in_the_message_of_a_failure(
    gate_folder: GateFolder, off: RunningFake, k4: RunningFake
) -> None:
    """A red gate on attached servers says what its verdict rests on without proof, and how to run it again."""
    gate_folder.write("test_gate.py", GATE.replace("not_worse", "better").replace('margin="90%"', 'by="900%"'))
    run = gate_folder.run("--specgate-attach", f"off={off.url} k4={k4.url}")
    failure = next(iter(run.cases.values())).failure or ""

    assert run.exit_code == 1, run.output
    assert "note: k4 was attached, so this is not proved" in failure
    assert f"--specgate-attach='off={off.url} k4={k4.url}'" in failure


def test_an_attached_server_that_tells_its_configuration_is_proved_by_it(gate_folder: GateFolder) -> None:
    """With VLLM_SERVER_DEV_MODE=1 the declared k is compared with the resolved one."""
    seven = {**NGRAM, "num_speculative_tokens": 7}
    gate_folder.write("test_gate.py", GATE)
    with (
        fake_vllm(FAST, environment={"VLLM_SERVER_DEV_MODE": "1"}) as one,
        fake_vllm(FAST, speculative_config=seven, environment={"VLLM_SERVER_DEV_MODE": "1"}) as other,
    ):
        run = gate_folder.run(f"--specgate-attach=off={one.url} k4={other.url}")

    assert run.exit_code == 1
    assert "INVALID (arm-not-as-declared)" in run.output
    assert "num_speculative_tokens" in run.output
    assert "start it with VLLM_SERVER_DEV_MODE=1" not in run.output


def test_an_attached_server_that_tells_nothing_is_proved_by_its_counters(
    gate_folder: GateFolder, off: RunningFake, k4: RunningFake
) -> None:
    """Addresses that were mixed up are found out by the series that a server counts."""
    gate_folder.write("test_gate.py", GATE)
    run = gate_folder.run(f"--specgate-attach=off={k4.url} k4={off.url}")

    assert run.exit_code == 1
    assert "arm off: no speculation is declared, but the server counts drafts" in run.output


def test_one_arm_can_be_attached_and_the_other_launched(gate_folder: GateFolder, k4: RunningFake) -> None:
    """An attached candidate stands against a reference that is started here; still one round."""
    gate_folder.write("test_gate.py", GATE)
    run = gate_folder.run(f"--specgate-attach=k4={k4.url}")
    record = load_record(next(run.results.glob("*/record.json")))

    assert [(boot.arm, bool(boot.unproved)) for boot in record.boots] == [("off", False), ("k4", True)]
    assert run.exit_code == 0, run.output
    assert "engine: python -m pytest_specgate.testing.fake_vllm (off)" in run.output


def test_strict_does_not_judge_what_nobody_can_compare(
    gate_folder: GateFolder, off: RunningFake, k4: RunningFake
) -> None:
    """Engine-induced differences of servers that do not tell their configuration cannot be ruled out."""
    gate_folder.write("test_gate.py", GATE)
    run = gate_folder.run("--specgate-strict", f"--specgate-attach=off={off.url} k4={k4.url}")

    assert run.exit_code == 1
    assert "INVALID (engine-differences): nothing is known of the starts of the servers of k4 against off" in run.output


def test_a_gate_without_a_declared_floor_cannot_be_decided_on_one_boot(gate_folder: GateFolder) -> None:
    """Repeating the same boot says nothing of the noise between boots, so the mistake is told at collection."""
    gate_folder.write("test_gate.py", GATE.replace(", noise=FLOOR", ""))
    run = gate_folder.run("--specgate-attach=k4=http://127.0.0.1:9")

    assert run.exit_code == 2
    assert "can never be decided with rounds=1" in run.output
    assert "k4 is attached and not booted anew, which is one round: declare a floor" in run.output


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("k4", "has 'k4', which is no NAME=VALUE"),
        ("k4=https://h:1", "has k4=https://h:1: the base address of a server is wanted, as http://10.0.0.5:8000"),
        ("k4=http://h:1/v1", "has k4=http://h:1/v1: the base address of a server is wanted"),
        ("k4=foo", "has k4=foo: the base address of a server is wanted, as http://10.0.0.5:8000"),
        ("k4=http://h:x", "has k4=http://h:x: the base address of a server is wanted"),
        ("k4=me:pw@h:1", "has k4=h:1: the base address of a server is wanted"),
        ("k4=http://me:pw@h:1", "the address of k4 has a user name, which is not sent"),
        ("off=http://h:1 k4=http://h:1/", "gives http://h:1 for off and k4: one server cannot be two arms"),
        ("k5=http://h:1", "names arm 'k5', which no collected gate has: there are k4, off; did you mean 'k4'?"),
    ],
)
def test_a_wrong_address_is_a_mistake_before_anything_runs(gate_folder: GateFolder, value: str, sentence: str) -> None:
    """Each is refused in one sentence, without a request to anybody."""
    gate_folder.write("test_gate.py", GATE)
    run = gate_folder.run(f"--specgate-attach={value}")

    assert run.exit_code == 4
    assert sentence in run.output
    assert not run.results.exists()


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (None, "arm k4: the attached server at http://127.0.0.1:9 does not list its models"),
        ("other", "serves other, not fake-model"),
    ],
)
def test_a_server_that_cannot_be_measured_is_named(
    gate_folder: GateFolder, off: RunningFake, model: str | None, sentence: str
) -> None:
    """One that does not answer, or serves another model, makes its gate INVALID; nothing is started in its place."""
    gate_folder.write("test_gate.py", GATE)
    if model is None:
        run = gate_folder.run(f"--specgate-attach=off={off.url} k4=http://127.0.0.1:9")
    else:
        with fake_vllm(FAST, model=model, speculative_config=NGRAM) as other:
            run = gate_folder.run(f"--specgate-attach=off={off.url} k4={other.url}")

    assert run.exit_code == 1
    assert "INVALID (server-start)" in run.output
    assert sentence in run.output
