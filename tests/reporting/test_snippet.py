"""The gate file that pins a horizon: what it claims, and what it leaves out."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from pytest_specgate.core.advice import Advice
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.floors import NoiseFloor
from pytest_specgate.core.prompt_files import PromptFile
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.redaction import redacted_arm, redacted_profile
from pytest_specgate.core.sweeps import arm_sweep, stored_sweep
from pytest_specgate.reporting import snippet
from pytest_specgate.reporting.snippet import gate_snippet
from tests.reporting.conftest import PROFILE, arm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import RequestRecord, WindowRecord
    from tests.reporting.conftest import Window

FLOOR = NoiseFloor(0.04, 'six "quiet" windows')
FLOORS = dict.fromkeys(("decode_rate_p50", "output_throughput", "ttft_p50"), FLOOR)
ADVICE = (
    Advice("per-user speed", "decode_rate_p50", 1, (4,), 4, "measured", (0, 4)),
    Advice("latency", "ttft_p50", None, (), None, "nothing"),
)


def _record(
    window: type[Window], speed: float = 1.5, *, noise: Mapping[str, NoiseFloor] = FLOORS,
    profile: RequestProfile = PROFILE,
) -> WindowRecord:  # fmt: skip
    """Return a window of off and k=4, the latter at a known speed."""
    sweep = arm_sweep(arm(), arm, ks=(4,), profile=profile, noise=noise, allow_engine_differences={"x.y": "known"})
    made = window.of(*sweep.pairs, speeds={"k4": speed})
    return made.record.model_copy(update={"sweeps": (stored_sweep(sweep),)})


def _text(record: WindowRecord, **changes: Any) -> str:
    text = gate_snippet(record, ADVICE, **{"k": 4, "path": "results/one/record.json", **changes})
    ast.parse(text)
    return text


def _run(text: str, environment: dict[str, str]) -> dict[str, Any]:
    """Run a gate file in an environment, and return its names."""
    names: dict[str, Any] = {"__name__": "test_pinned"}
    with mock.patch.dict("os.environ", environment):
        exec(compile(text, "test_pinned.py", "exec"), names)
    return names


def _formatted(text: str) -> str:
    """Return a file as a formatter leaves it; where there is none its lines are short at least."""
    assert max(map(len, text.splitlines())) <= 100
    if importlib.util.find_spec("ruff") is None:
        return text
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length=100", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=60).stdout


def _unwrapped(text: str) -> str:
    """Return a file whose comments have one line each."""
    return re.sub(r"\n *#  +", " ", text)


def _calibrated(sd: float) -> tuple[ArmNoise, ...]:
    """Return a calibration of off, for each metric that horizons are compared by."""
    return tuple(
        ArmNoise(
            arm="off", at=1, metric=name, sd=sd, df=8.0, boots=6, builds=1, arm_sha256="a",
            measured_at="2026-11-02T09:00:00+00:00",
        )
        for name in FLOORS
    )  # fmt: skip


def _faster_for_one(record: WindowRecord) -> WindowRecord:
    """Return a window whose k=4 serves a single user at twice the speed."""

    def faster(one: RequestRecord) -> RequestRecord:
        return one.model_copy(update={name: getattr(one, name) / 2 for name in ("last_token_s", "closed_s", "ttft_s")})

    boots = [
        boot if boot.arm == "off" else boot.model_copy(update={"points": tuple(
            point if point.at != 1 else point.model_copy(update={"requests": tuple(map(faster, point.requests))})
            for point in boot.points
        )})
        for boot in record.boots
    ]  # fmt: skip
    return record.model_copy(update={"boots": tuple(boots)})


def test_half_of_each_gain_that_was_shown_is_claimed(window: type[Window]) -> None:
    """Each claim with its floor, below what was measured for it: a later run cannot lose the gain and pass."""
    text = _text(_record(window))

    assert (
        text
        == '''\
# k=4, as it was measured against speculation off: later runs are held to it.
# record: results/one/record.json, of 2026-11-29T12:00:00+00:00
# per-user speed (decode rate p50 at c=1): k=4
# latency (TTFT p50): nothing tells

from pytest_specgate import Arm, ArmPair, RequestProfile, at_least, better, gate, noise_floor

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
    "decode_rate_p50": noise_floor("4%", source='six "quiet" windows'),
    "output_throughput": noise_floor("4%", source='six "quiet" windows'),
    "ttft_p50": noise_floor("4%", source='six "quiet" windows'),
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
    better("output_throughput", at=8, by="25%", noise=FLOORS["output_throughput"]),
    # measured: better -33.3 %
    better("ttft_p50", at=8, by="16%", noise=FLOORS["ttft_p50"]),
    # measured: 2.500
    at_least("acceptance_length", "2.25", at=1),
)
def test_k4_against_off() -> None:
    """k=4 was measured better than off in decode rate p50, output throughput and TTFT p50."""
'''
    )


def test_what_was_lost_is_claimed_by_nobody(window: type[Window]) -> None:
    """A margin that holds a measured loss would never fail: a comment takes the place of the claim."""
    record = _faster_for_one(_record(window, 0.8))
    text = _text(record)

    assert 'better("decode_rate_p50", at=1, ' in text
    assert "    # not claimed: output throughput at c=8, measured worse -20.0 %\n" in text
    assert "    # not claimed: TTFT p50 at c=8, measured worse +25.0 %\n" in text
    assert "not_worse" not in text
    assert '"""k=4 was measured better than off in decode rate p50."""' in text


def test_who_has_lost_everything_is_pinned_by_nobody(window: type[Window]) -> None:
    """Nothing is left that could be claimed, so no file is written that would pass for ever."""
    with pytest.raises(UsageError) as caught:
        _text(_record(window, 0.8))

    assert str(caught.value) == (
        "no gate file pins k=4, of which nothing can be claimed against off: decode rate p50 at c=1 worse -20.0 %, "
        "output throughput at c=8 worse -20.0 %, TTFT p50 at c=8 worse +25.0 %"
    )


def test_a_loss_within_the_noise_is_said_where_the_margin_holds_it(window: type[Window]) -> None:
    """Half of the healthy horizons lose a little: that is no reason to claim nothing, and none to be silent."""
    text = _text(_record(window, 0.98))

    assert "# measured: worse -2.0 %, no change shown; the margin includes it, as noise\n" in text
    assert 'not_worse("decode_rate_p50", at=1, margin="8%"' in text
    assert '"""k=4 was measured better than off in nothing by more than the noise."""' in text


def test_without_known_noise_a_loss_beyond_the_guess_is_not_claimed(window: type[Window]) -> None:
    """The guessed margin is that of 1.5 floors, so a loss of more than one of them is taken for none of the noise."""
    text = _text(_faster_for_one(_record(window, 0.9, noise={})))

    assert "# not claimed: output throughput at c=8, measured worse -10.0 %" in text
    assert 'better("decode_rate_p50", at=1, by="40%"' in text


def test_noise_that_is_too_large_for_a_margin_is_said(window: type[Window]) -> None:
    """A margin that lets a metric vanish, or double, can hardly fail, so none is written."""
    noise = (*_calibrated(3.0)[1:2], *_calibrated(0.02)[:1], *_calibrated(0.02)[2:])
    record = _record(window, 1.01, noise={}).model_copy(update={"noise": noise})
    text = _text(record)
    words = "measured better +1.0 %, no change shown; its noise is too large for a margin below 100 %"

    assert f"# not claimed: output throughput at c=8, {words}" in _unwrapped(text)
    assert _formatted(text) == text
    assert _run(text, {})["PAIR"].rounds == 2


def test_drafts_that_are_seldom_accepted_are_not_claimed(window: type[Window], monkeypatch: pytest.MonkeyPatch) -> None:
    """An acceptance length of 1 or less is that of no draft token at all, which no gate takes."""
    monkeypatch.setattr(snippet, "_ACCEPTED", 0.4)
    text = _text(_record(window))

    assert "at_least" not in text
    assert "acceptance_length" not in text


def test_a_file_needs_no_more_names_than_it_uses(window: type[Window]) -> None:
    """A floor of a claim that is not made is not written, and nothing is imported for it."""
    floors = {"output_throughput": FLOOR, "ttft_p50": FLOOR}
    text = _text(_faster_for_one(_record(window, 0.8, noise=floors)))

    assert "noise_floor" not in text
    assert "FLOORS" not in text


def test_a_window_that_ended_early_is_named_as_such(window: type[Window]) -> None:
    """Who reads the file sees what it rests on; long comments go on in further lines."""
    record = _record(window).model_copy(update={"finished": False, "stopped": "the budget of 30min was used up " * 3})
    text = _text(record)

    assert "\n# the window did not run to its end: the budget of 30min was used up " in text
    assert _formatted(text) == text


def test_a_given_floor_replaces_that_of_the_record(window: type[Window]) -> None:
    """In the file and in what is claimed: 10 % hide a loss that 4 % do not."""
    given = {"decode_rate_p50": NoiseFloor(0.1, "six noisy windows")}
    text = _text(_record(window, 0.95), floors=given)

    assert '"decode_rate_p50": noise_floor("10%", source="six noisy windows"),' in text
    assert 'not_worse("decode_rate_p50", at=1, ' in text
    assert "# not claimed: output throughput at c=8, measured worse -5.0 %" in text


def test_a_gain_within_the_noise_is_not_claimed(window: type[Window]) -> None:
    """Two rounds could not show it."""
    assert 'not_worse("decode_rate_p50", at=1, margin="7%"' in _text(_record(window, 1.05))


def test_calibrated_noise_is_left_to_the_machine(window: type[Window]) -> None:
    """A calibration is found again where the file runs, so no floor is written."""
    text = _text(_record(window, noise={}).model_copy(update={"noise": _calibrated(0.02)}))

    assert "FLOORS" not in text
    assert "noise" not in text
    assert 'better("decode_rate_p50", at=1, by="25%"),' in text
    assert "rounds=2," in text


def test_without_any_noise_the_rounds_have_to_tell_it(window: type[Window]) -> None:
    """Four rounds, and a margin that says it is a guess."""
    text, small = (_text(_record(window, speed, noise={})) for speed in (1.5, 1.05))

    assert "rounds=4," in text
    assert "# measured: better +50.0 %; nothing tells its noise, so its rounds may not show that again\n" in text
    assert 'better("output_throughput", at=8, by="25%"),' in text
    assert "# measured: better +5.0 %; nothing tells its noise, so the margin is a guess\n" in small
    assert 'not_worse("output_throughput", at=8, margin="10%"),' in small


def test_secrets_are_taken_from_the_environment(window: type[Window]) -> None:
    """A record does not hold them, so the file cannot either: each has a variable, which a comment names."""
    record = _record(window)
    off = arm().vary("off", args={"api_key": ["one", "two"], "nested": {"token": "x", "kept": [1, 2]}},
                     env={"HF_TOKEN": "hf_abcdefghijklmnop1234", "PROXY": "http://u:word@h.invalid"})  # fmt: skip
    k4 = off.vary("k4", args=arm(4).args)
    load = redacted_profile(dataclasses.replace(PROFILE, extra_body={"auth": {"token": "words"}}))
    text = _text(record.model_copy(update={"arms": (redacted_arm(off), redacted_arm(k4)), "profile": load}))
    names = ("OFF_API_KEY", "OFF_API_KEY_2", "OFF_NESTED_TOKEN", "HF_TOKEN", "OFF_PROXY", "LOAD_EXTRA_BODY_AUTH_TOKEN")
    found = _run(text, {name: f"own {name}" for name in names})

    assert "# Secrets are taken from the environment: OFF_API_KEY, OFF_API_KEY_2, OFF_NESTED_TOKEN, HF_TOKEN," in text
    assert "redacted" not in text
    assert found["OFF"].args["api_key"] == ["own OFF_API_KEY", "own OFF_API_KEY_2"]
    assert found["OFF"].args["nested"] == {"token": "own OFF_NESTED_TOKEN", "kept": [1, 2]}
    assert found["OFF"].env == {"HF_TOKEN": "own HF_TOKEN", "PROXY": "own OFF_PROXY"}
    assert found["LOAD"].extra_body == {"auth": {"token": "own LOAD_EXTRA_BODY_AUTH_TOKEN"}}


@pytest.mark.parametrize(
    "load",
    [
        PROFILE,
        dataclasses.replace(PROFILE, input_tokens=None, prompts=PromptFile("own.jsonl"), api="chat"),
        dataclasses.replace(PROFILE, requests={1: 10, 8: 16, "1 T=0.8": 10}, temperature=0.3),
        dataclasses.replace(PROFILE, requests={1: 10, 8: 16, "4/s": 20, "4/s T=0.8": 20}, burstiness=1e-5),
        dataclasses.replace(
            PROFILE,
            stop=("it's", 'a "word"', "\\\n", "\u2028"),
            goodput_limits={"ttft": "1s"},
            extra_body={"a": [{}, [], None, True, 1e22, "\"'"], "b": {str(n): "long" * 9 for n in range(3)}},
            client_processes=2,
            endpoint="/v1/own",
        ),
    ],
)
def test_the_file_runs_and_declares_what_was_measured(window: type[Window], load: RequestProfile) -> None:
    """Whatever form a load has, and formatters leave the file as it is."""
    record = _record(window, profile=load)
    text = _text(record)
    found = _run(text, {})

    assert found["LOAD"] == load
    assert (found["OFF"], found["K4"]) == record.arms
    assert found["PAIR"].allow_engine_differences == {"x.y": "known"}
    assert _formatted(text) == text


def test_every_field_of_the_load_that_is_no_default_is_written(window: type[Window]) -> None:
    """So that the file sends what was sent."""
    load = dataclasses.replace(
        PROFILE, prompts=PromptFile("own.txt"), stop=("end",), goodput_limits={"ttft": "1s"}, warmup_requests=2
    )
    text = _text(_record(window).model_copy(update={"profile": load}))

    assert "    ArmPair,\n    PromptFile,\n    RequestProfile,\n" in text
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
        ({"arm": "k5"}, "one.json has no two readable arms, off and k=4, so no gate file can be written from"),
    ],
)
def test_what_cannot_be_pinned(window: type[Window], changes: dict[str, Any], sentence: str) -> None:
    """One sentence that names the record."""
    with pytest.raises(UsageError) as caught:
        _text(_record(window), **{"path": "one.json", **changes})

    assert str(caught.value).startswith(sentence)
