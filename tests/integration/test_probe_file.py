"""The gate file of `specgate probe`: whatever somebody typed stays a value in it, and secrets stay outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specgate import AcceptanceProbe, Arm, PromptFile, RequestProfile, UsageError, cli
from pytest_specgate.cli import probe_request
from pytest_specgate.cli.probe_file import gate_file

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

SPECULATION: dict[str, Any] = {"method": "ngram", "num_speculative_tokens": 4}
LOAD = RequestProfile(input_tokens=16, output_tokens=16, requests={1: 4, "4/s": 8})

NASTY = st.sampled_from(['"""', "\n", "'+os.abort()+'", "\\", "{x}", "\u2028", '"', "ü"])
TEXTS = st.lists(
    st.one_of(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4), NASTY), max_size=4
).map("".join)
NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none())
VALUES = st.recursive(
    st.one_of(TEXTS, NUMBERS),
    lambda inside: st.one_of(st.lists(inside, max_size=3), st.dictionaries(TEXTS, inside, max_size=3)),
    max_leaves=6,
)
NAMES = st.sampled_from(["HF_TOKEN", "A", "PROBE_API_KEY", "PROBE_A", "HTTPS_PROXY", "PATH"])
SECRETS = st.sampled_from(["http://user:word@proxy.invalid", "--api-key secret", "hf_abcdefghijklmnop1234"])


def probe_of(arm: Arm, load: RequestProfile = LOAD) -> AcceptanceProbe:
    """Return a probe of an arm."""
    return AcceptanceProbe(arm=arm, profile=load, boots=2)


def declared(text: str, environment: dict[str, str]) -> dict[str, Any]:
    """Run a gate file in an environment, and return its names."""
    names: dict[str, Any] = {}
    with mock.patch.dict("os.environ", environment):
        exec(compile(text.encode("utf-8"), "acceptance_probe.py", "exec"), names)
    return names


@given(
    model=st.one_of(TEXTS.filter(bool), SECRETS),
    args=st.dictionaries(st.sampled_from(["api_key", "x", "header", "fake"]), VALUES, max_size=4),
    env=st.dictionaries(NAMES, st.one_of(st.text(st.characters(codec="ascii", exclude_characters="\0")), SECRETS)),
    again=st.one_of(TEXTS, st.just("\ud800")),
)
@settings(max_examples=60)
def test_whatever_was_typed_stays_a_value(model: str, args: dict[str, Any], env: dict[str, str], again: str) -> None:
    """The file declares the very arm it was written for, in an environment that holds its secrets."""
    arm = Arm("k4", model=model, args={**args, "speculative_config": SPECULATION}, env=env)
    probe = probe_of(arm)
    written = gate_file(probe, [("acceptance_length", "2")], again=again)

    assert declared(written.text, dict(written.secrets))["PROBE"] == probe


def test_secrets_are_written_as_variables() -> None:
    """A value under a secret's name, or that looks like one, is taken from the environment under a name of its own."""
    args = {
        "api_key": ["s-one", "s-two"],
        "auth": {"value": "s-three"},
        "proxy": "http://u:s-four@h.invalid",
        "port_range": 5,
    }
    env = {"HF_TOKEN": "s-six", "HTTPS_PROXY": "http://u:s-seven@h.invalid", "PROBE_API_KEY_2": "8", "PROBE_PROXY": "9"}
    written = gate_file(
        probe_of(Arm("k4", model="m", args={**args, "speculative_config": SPECULATION}, env=env)), [], again=""
    )

    assert written.secrets == {
        "PROBE_API_KEY": "s-one",
        "PROBE_API_KEY_3": "s-two",
        "PROBE_AUTH_VALUE": "s-three",
        "PROBE_PROXY_2": "http://u:s-four@h.invalid",
        "HF_TOKEN": "s-six",
        "PROBE_HTTPS_PROXY": "http://u:s-seven@h.invalid",
    }
    assert "s-" not in written.text
    assert "# Secrets are taken from the environment: PROBE_API_KEY, " in written.text


def test_a_file_of_prompts_is_named_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts of a file are sent as they are, and found from wherever the gate file lies."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.jsonl").write_text('"a prompt"\n', encoding="utf-8")
    probe = probe_request.probe_of(asked("--k", "2", "--prompts", "mine.jsonl", "--requests", "1=4", "2/s=8"))
    found = declared(gate_file(probe, [], again="").text, {})

    assert found["LOAD"].prompts == PromptFile(str(tmp_path / "mine.jsonl"))
    assert found["LOAD"].input_tokens is None
    assert found["LOAD"].requests == {1: 4, "2/s": 8}
    assert found["PROBE"] == probe


@pytest.mark.parametrize(
    ("arguments", "told"),
    [([], "detailed"), (["--no-per-request"], None), (["--attach", "http://h.invalid"], None)],
)
def test_requests_are_asked_of_a_server_that_is_started(arguments: list[str], told: str | None) -> None:
    """Per-request metrics are an argument of the arm, unless they are unwanted or nothing is started."""
    probe = probe_request.probe_of(asked("--k", "7", *arguments))

    assert probe.arm.args.get("per_request_spec_decode_metrics") == told
    assert (probe.arm.name, probe.arm.draft_horizon) == ("k7", 7)
    assert (probe.profile.input_tokens, probe.profile.output_tokens, probe.profile.requests) == (512, 256, {1: 16})
    assert (probe.temperatures, probe.boots) == ((0.0, 0.8), 1 if "--attach" in arguments else 2)


def test_an_own_choice_of_per_request_metrics_is_kept() -> None:
    """Who sets the argument himself has his own; --k takes the place of the horizon in the configuration."""
    probe = probe_request.probe_of(asked("--k", "3", "--engine-args", '{"per-request-spec-decode-metrics": "summary"}'))

    assert probe.arm.args["per_request_spec_decode_metrics"] == "summary"
    assert probe.arm.draft_horizon == 3


def asked(*arguments: str) -> argparse.Namespace:
    """Return what the parser makes of some arguments."""
    words = ["probe", "--model", "m", "--speculative-config", '{"num-speculative-tokens": 4}', *arguments]
    return cli._parser().parse_args(words)


def test_a_secret_that_no_environment_holds_is_refused() -> None:
    """A NUL in a secret is a usage error, which does not repeat it."""
    arm = Arm("k4", model="m", args={"api_key": "a\0b", "speculative_config": SPECULATION})
    with pytest.raises(UsageError, match="the secret for PROBE_API_KEY has a NUL"):
        gate_file(probe_of(arm), [], again="")
