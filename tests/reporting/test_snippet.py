"""The gate file that pins a horizon: what it claims, and what it leaves out."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.advice import Advice
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.floors import NoiseFloor
from pytest_specgate.core.prompt_files import PromptFile
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.redaction import redacted_arm, redacted_profile
from pytest_specgate.core.sweeps import arm_sweep, stored_sweep
from pytest_specgate.reporting.snippet import gate_snippet
from tests.reporting.conftest import PROFILE, arm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.records import WindowRecord
    from tests.reporting.conftest import Window

FLOOR = NoiseFloor(0.04, 'six "quiet" windows')
FLOORS = dict.fromkeys(("decode_rate_p50", "output_throughput", "ttft_p50"), FLOOR)
ADVICE = (
    Advice("per-user speed", "decode_rate_p50", 1, (4,), 4, "measured", (0, 4)),
    Advice("latency", "ttft_p50", None, (), None, "nothing"),
)


def _record(
    window: type[Window], speed: float | Mapping[int, float] = 1.5, *, noise: Mapping[str, NoiseFloor] = FLOORS
) -> WindowRecord:
    """Return a window of off and k=4, the latter at a known speed."""
    sweep = arm_sweep(arm(), arm, ks=(4,), profile=PROFILE, noise=noise, allow_engine_differences={"x.y": "known"})
    made = window.of(*sweep.pairs, speeds={"k4": speed} if isinstance(speed, float) else {})
    return made.record.model_copy(update={"sweeps": (stored_sweep(sweep),)})


def _text(record: WindowRecord, **changes: Any) -> str:
    text = gate_snippet(record, ADVICE, **{"k": 4, "path": "results/one/record.json", **changes})
    ast.parse(text)
    return text


def test_a_gain_is_claimed_by_half_and_the_rest_not_to_be_lost(window: type[Window]) -> None:
    """Each claim with its floor, below what was measured for it."""
    text = _text(_record(window))

    assert (
        text
        == '''\
# k=4, as it was measured against speculation off: a gate file that holds every later run to it.
# record: results/one/record.json, of 2026-11-29T12:00:00+00:00
# per-user speed (decode rate p50 at c=1): k=4
# latency (TTFT p50): nothing tells

from pytest_specgate import Arm, ArmPair, RequestProfile, at_least, better, gate, noise_floor, not_worse

OFF = Arm(
    "off",
    model="folder",
    args={"max_model_len": 64},
)
K4 = OFF.vary("k4", args={"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}})

LOAD = RequestProfile(
    input_tokens=16,
    output_tokens=11,
    requests={1: 10, 8: 16},
)

FLOORS = {
    "decode_rate_p50": noise_floor("4%", source="six \\"quiet\\" windows"),
    "output_throughput": noise_floor("4%", source="six \\"quiet\\" windows"),
    "ttft_p50": noise_floor("4%", source="six \\"quiet\\" windows"),
}

PAIR = ArmPair(
    reference=OFF,
    candidate=K4,
    varies="args.speculative_config",
    profile=LOAD,
    rounds=2,
    allow_engine_differences={"x.y": "known"},
)


@gate(
    PAIR,
    # measured: better +50.0 %
    better("decode_rate_p50", at=1, by="25%", noise=FLOORS["decode_rate_p50"]),
    # measured: better +50.0 %
    not_worse("output_throughput", at=8, margin="7%", noise=FLOORS["output_throughput"]),
    # measured: better -33.3 %
    not_worse("ttft_p50", at=8, margin="7%", noise=FLOORS["ttft_p50"]),
    # measured: 2.500
    at_least("acceptance_length", "2.25", at=1),
)
def test_k4_against_off() -> None:
    """k=4 is worth it."""
'''
    )


def test_what_was_lost_is_in_the_margin(window: type[Window]) -> None:
    """A gate file that fails from its first day on pins nothing."""
    text = _text(_record(window, 0.8))

    assert '# measured: worse -20.0 %\n    not_worse("decode_rate_p50", at=1, margin="25%"' in text
    assert 'not_worse("ttft_p50", at=8, margin="34%"' in text
    assert "better(" not in text


def test_a_gain_within_the_noise_is_not_claimed(window: type[Window]) -> None:
    """Two rounds could not show it."""
    assert 'not_worse("decode_rate_p50", at=1, margin="7%"' in _text(_record(window, 1.05))


def test_calibrated_noise_is_left_to_the_machine(window: type[Window]) -> None:
    """A calibration is found again where the file runs, so no floor is written."""
    known = [
        ArmNoise(
            arm="off", at=1, metric=name, sd=0.02, df=8.0, boots=6, builds=1, arm_sha256="a",
            measured_at="2026-11-02T09:00:00+00:00",
        )
        for name in FLOORS
    ]  # fmt: skip
    text = _text(_record(window, noise={}).model_copy(update={"noise": tuple(known)}))

    assert "FLOORS" not in text
    assert "noise" not in text
    assert 'better("decode_rate_p50", at=1, by="25%"),' in text
    assert "rounds=2," in text


def test_without_any_noise_the_rounds_have_to_tell_it(window: type[Window]) -> None:
    """Four rounds, and a margin that says it is a guess."""
    text = _text(_record(window, noise={}))

    assert "rounds=4," in text
    assert "# measured: better +50.0 %; nothing tells its noise, so the margin is a guess" in text
    assert 'not_worse("output_throughput", at=8, margin="10%"),' in text


def test_secrets_are_named_where_they_stood(window: type[Window]) -> None:
    """A record does not hold them, so the file cannot either: a comment says what is missing."""
    record = _record(window)
    off = arm().vary("off", args={"api_key": "a-secret-word", "nested": {"token": "x", "kept": [1, 2]}},
                     env={"HF_TOKEN": "hf_abcdefghijklmnop1234"})  # fmt: skip
    k4 = off.vary("k4", args=arm(4).args)
    load = redacted_profile(dataclasses.replace(PROFILE, extra_body={"auth": {"token": "words"}}))
    text = _text(record.model_copy(update={"arms": (redacted_arm(off), redacted_arm(k4)), "profile": load}))

    assert (
        "# left out, since records hold no secrets (put them back): args.api_key, args.nested.token, env.HF_TO" in text
    )
    assert "# left out, since records hold no secrets (put them back): extra_body.auth.token" in text
    assert 'args={"max_model_len": 64, "nested": {"kept": [1, 2]}},' in text
    assert "redacted" not in text


def test_every_field_of_the_load_that_is_no_default_is_written(window: type[Window]) -> None:
    """So that the file sends what was sent."""
    load = dataclasses.replace(
        PROFILE, prompts=PromptFile("own.txt"), stop=("end",), goodput_limits={"ttft": "1s"}, warmup_requests=2
    )
    text = _text(_record(window).model_copy(update={"profile": load}))

    assert "ArmPair, PromptFile, RequestProfile" in text
    for line in ('prompts=PromptFile("own.txt"),', 'stop=("end",),', 'goodput_limits={"ttft": "1s"},'):
        assert f"    {line}\n" in text
    assert "temperature" not in text


def test_long_arguments_stand_one_a_line(window: type[Window]) -> None:
    """A line of a file is read by people."""
    long = arm().vary("off", args={f"argument_{number}": "word" * 5 for number in range(4)})
    record = _record(window)
    text = _text(record.model_copy(update={"arms": (long, long.vary("k4", args=arm(4).args))}))

    assert '    args={\n        "max_model_len": 64,\n        "argument_0": "wordwordwordwordword",\n' in text


def test_a_pair_of_a_gate_is_one_too(window: type[Window], k4_off: ArmPair) -> None:
    """A window without a sweep tells as much of a horizon that met off there."""
    text = _text(window.of(k4_off, speeds={"k4": 1.5}).record)

    assert 'varies="args.speculative_config",' in text
    assert "allow_engine_differences" not in text


def test_arms_that_never_shared_a_round_are_not_compared(window: type[Window]) -> None:
    """Off in the first round and k=4 in the second: their difference may be that of the rounds."""
    record = _record(window)
    boots = [one for one in record.boots if (one.arm, one.round) in {("off", 1), ("k4", 2)}]

    with pytest.raises(UsageError, match="has no load level at which off and k=4 can be compared"):
        _text(record.model_copy(update={"boots": tuple(boots)}))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"k": 0}, "no gate file pins k=0: where speculation is off there is nothing to hold it to"),
        ({"k": 3}, "one.json has no two readable arms, off and k=3, so no gate file can be written from it"),
        ({"drafter": "eagle3"}, "one.json has no two readable arms, off and k=4, so no gate file can be written from"),
    ],
)
def test_what_cannot_be_pinned(window: type[Window], changes: dict[str, Any], sentence: str) -> None:
    """One sentence that names the record."""
    with pytest.raises(UsageError) as caught:
        _text(_record(window), **{"path": "one.json", **changes})

    assert str(caught.value).startswith(sentence)
