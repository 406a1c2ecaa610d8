"""``--specgate-strict``: what speculation changes besides must be listed, or the pair is not judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.adapters.storage import load_record

if TYPE_CHECKING:
    from tests.integration.conftest import GateFolder

GATE = """\
    from pytest_specgate import Arm, ArmPair, RequestProfile, gate, noise_floor, not_worse

    OFF = Arm("off", model="fake-model", args={"fake": {"step_s": 0.002, FAULT}})
    K4 = OFF.vary("k4", args={"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}})
    LOAD = RequestProfile(input_tokens=16, output_tokens=32, requests={1: 10})
    PAIR = ArmPair(reference=OFF, candidate=K4, varies=VARIES, profile=LOAD, rounds=2, ALLOWED)

    @gate(PAIR, not_worse("output_throughput", at=1, margin="90%", noise=noise_floor("50%", source="made up")))
    def test_gate(): pass
    """


ENGINE = """\
    import sys

    from pytest_specgate.testing.main import main

    if "--speculative-config" in sys.argv:
        print("WARNING 11-29 10:00:00 [__init__.py:1] min_p won't work with speculative decoding.", file=sys.stderr)
    raise SystemExit(main())
    """
ASYNC = "scheduler_config.async_scheduling"
TEST = "test_gate[c1-output_throughput-not_worse]"


def written(folder: GateFolder, allowed: str = "", *, fault: str = "") -> None:
    """Write the gate file."""
    text = GATE.replace("VARIES", '"args.speculative_config"').replace("ALLOWED", allowed).replace("FAULT", fault)
    folder.write("test_gate.py", text)


def other_engine(folder: GateFolder) -> str:
    """Return a command of the fake vLLM that warns of something under speculation."""
    folder.write("engine.py", ENGINE)
    return "python engine.py"


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


def test_an_unlisted_difference_is_invalid_with_its_evidence(gate_folder: GateFolder) -> None:
    """The failure in junit and the terminal show both values and the line of the log; a second round was booted."""
    written(gate_folder, fault='"sync_under_speculation": True')
    run = gate_folder.run("--specgate-strict", engine=other_engine(gate_folder))
    case = run.cases[TEST]

    assert (run.exit_code, case.outcome) == (1, "INVALID")
    for text in (case.failure or "", run.summary):
        assert f"servers of k4 against off also differ in {ASYNC}, log:min_p-won-t-work-with-" in text
        assert f"engine-induced (2)  {ASYNC}: true -> false (one arm schedules" in text
        assert 'log: "min_p won\'t work with speculative decoding." (candidate only)' in text
        assert "speculative_config: none -> ngram, k=4" in text
    assert len(run.record.boots) == 4
    assert case.properties["specgate_engine_differences"].startswith(f"2 ({ASYNC}, log:min_p-")
    assert case.properties["specgate_outputs"].startswith("outputs were not compared")


def test_listed_differences_pass_and_are_kept(gate_folder: GateFolder) -> None:
    """With a reason for each the pair is judged, and the record keeps the reasons."""
    written(
        gate_folder,
        f'allow_engine_differences={{"{ASYNC}": "looked at"}}',
        fault='"sync_under_speculation": True',
    )
    run = gate_folder.run("--specgate-strict")

    assert run.exit_code == 0, run.output
    assert "allowed: looked at" in run.summary
    [pair] = run.record.pairs
    assert pair.allow_engine_differences == {ASYNC: "looked at"}
    assert [found["kind"] for found in pair.differences or () if found["id"] == ASYNC] == ["engine-induced"]


def test_without_strict_a_failure_names_the_differences(gate_folder: GateFolder) -> None:
    """A loss that is shown may come from what differs besides: the failure says so in one line."""
    written(gate_folder, fault='"sync_under_speculation": True, "step_s_per_draft_token": 0.005, "acceptance": [0.0]')
    run = gate_folder.run()
    failure = run.cases[TEST].failure or ""

    assert run.cases[TEST].outcome in {"FAIL", "INCONCLUSIVE"}
    assert f"engine-induced differences: 1 ({ASYNC})" in failure


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
