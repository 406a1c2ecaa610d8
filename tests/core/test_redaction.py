"""Secrets stay out of records: by the names they have, and by their form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.arms import Arm
from pytest_specgate.core.redaction import (
    REDACTED,
    redacted,
    redacted_arm,
    redacted_profile,
    redacted_text,
    secrets_in,
    secrets_of,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

    from pytest_specgate.core.arms import EngineArguments
    from tests.core.conftest import Build

SECRET_FORMS = ["hf_abcdefghijklmnopqrstuvwx", "sk-proj-abc_DEF-0123456789"]


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "hf_token",
        "token",
        "access-token",
        "client_secret",
        "PASSWORD",
        "db_passwd",
        "api_key",
        "api-key",
        "OPENAI_APIKEY",
        "credential",
        "credentials",
        "aws_secrets",
        "Authorization",
        "proxy-authorization",
        "auth",
        "registry.auth",
        "access_key",
        "privateKey",
        "SIGNING_KEY",
        "pass",
        "DB_PASS",
        "smtp.pass",
        "redis-pass",
        "PWD",
        "MYSQL_PWD",
        "db-pwd",
        "tokens",
        "hf_tokens",
        "bearer-tokens",
        "headers.api_key[0]",
        "api_key.0",
        "kv.extra.api_key.value",
        "tokens.1",
    ],
)
@pytest.mark.parametrize("value", ["hunter2", ["hunter2"]])
def test_secrets_are_redacted_by_name(name: str, value: JsonValue) -> None:
    """What is called a secret is replaced, in mappings of any depth."""
    seen = redacted({"a": [{name: value}], name: value})

    assert "hunter2" not in str(seen)
    assert REDACTED in str(seen)


@pytest.mark.parametrize(
    "name",
    [
        "max_num_batched_tokens",
        "num_speculative_tokens",
        "tokenizer",
        "tokenizer_mode",
        "skip_special_tokens",
        "observed_output_tokens.c1",
        "tokenization_s",
        "token_events",
        "stop_token_ids",
        "bad_words_token_ids",
        "long_prefill_token_threshold",
        "cache_key",
        "key",
        "keyboard",
        "ssl_keyfile",
        "passes",
        "bypass",
        "compass",
        "pass_manager_level",
        "pass_config",
        "pwd_source",
        "author",
    ],
)
def test_harmless_names_are_kept(name: str) -> None:
    """Names that only resemble a secret's keep their values."""
    assert redacted({name: "auto"}) == {name: "auto"}


@pytest.mark.parametrize("value", [None, 5, 2.5, True, "plain", ["a", 1], {"b": {"c": "d"}}])
def test_what_is_no_secret_is_kept(value: JsonValue) -> None:
    """Values of every kind pass through unchanged."""
    assert redacted({"x": value}) == {"x": value}


@pytest.mark.parametrize("value", [None, True, False, 0, 5, 2.5, [7, None]])
@pytest.mark.parametrize("name", ["api_key", "HF_TOKEN", "password", "long_prefill_token_threshold"])
def test_what_is_no_text_is_no_secret(name: str, value: JsonValue) -> None:
    """A number, a switch or nothing stays under any name: no secret is a number, and unset must not look set."""
    assert redacted({name: value}) == {name: value}


@pytest.mark.parametrize("name", ["credentials", "secret", "client_secrets", "PASSWORDS", "db_passwd"])
@pytest.mark.parametrize(
    "value",
    [{"user": "hunter2"}, [{"key": "hunter2"}], {"a": {"b": ["hunter2"]}}, {"a": [{"b": {"c": "hunter2"}}]}],
)
def test_a_mapping_under_a_secret_name_is_redacted_whole(name: str, value: JsonValue) -> None:
    """Inside a mapping that is called a secret every text is one, however harmless its own name is."""
    seen = redacted({name: value, "plain": "kept"})

    assert "hunter2" not in str(seen)
    assert str(seen).count(REDACTED) == 1
    assert "kept" in str(seen)


def test_numbers_inside_a_secret_mapping_stay() -> None:
    """A mapping that is called a secret keeps its form, and what is no text in it."""
    value: JsonValue = {"credentials": {"port": 5, "tls": True, "user": None, "key": "hunter2"}}

    assert redacted(value) == {"credentials": {"port": 5, "tls": True, "user": None, "key": REDACTED}}


@pytest.mark.parametrize("secret", SECRET_FORMS)
@pytest.mark.parametrize("text", ["{}", "x {} y", "--token={}", '"{}"', "got: {}\n"])
def test_tokens_are_redacted_by_form(text: str, secret: str) -> None:
    """An access token is recognised wherever it stands in a text, and the rest is kept."""
    assert redacted_text(text.format(secret)) == text.format(REDACTED)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdef.012345", "Authorization: Bearer [redacted]"),
        ("authorization: bearer abcdef.012345", "authorization: bearer [redacted]"),
        ("http://user:pass@host:8000/v1", "http://[redacted]@host:8000/v1"),
        ("proxy=https://u:p%40x@h", "proxy=https://[redacted]@h"),
        ("GET /v1?token=hunter2&x=1", "GET /v1?token=[redacted]&x=1"),
        ("OPENAI_API_KEY=hunter2 vllm serve", "OPENAI_API_KEY=[redacted] vllm serve"),
        ("'PASSWORD=hunter2' vllm", "'PASSWORD=[redacted]' vllm"),
        ("client_secret=hunter2", "client_secret=[redacted]"),
        ("--api-key hunter2 --port 1", "--api-key [redacted] --port 1"),
        ("--hf-token hunter2", "--hf-token [redacted]"),
        ("--hf-token=hunter2", "--hf-token=[redacted]"),
    ],
)
def test_bearer_values_and_passwords_are_redacted(text: str, expected: str) -> None:
    """Bearer values, passwords in addresses and values given to secret options are replaced, and only those."""
    assert redacted_text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("http://127.0.0.1:8000/v1", "hf_short", "sk-1", "task-force-of-the-harbour-office", "the bearer came"),
        *("a@b: c", "--hf-token --port 1", "--max-num-batched-tokens 64", "tokens=5", "token", "password: none"),
    ],
)
def test_harmless_texts_are_kept(text: str) -> None:
    """Addresses without a password, and words that resemble a token, are kept."""
    assert redacted_text(text) == text


def test_secrets_by_form_are_found_under_any_name() -> None:
    """A token under a harmless name is replaced too."""
    assert redacted({"revision": SECRET_FORMS[0]}) == {"revision": REDACTED}


def test_an_arm_is_stored_without_secrets() -> None:
    """Arguments and environment of an arm lose their secrets and nothing else."""
    arm = Arm("off", model="folder", args={"api_key": "hunter2", "max_model_len": 64}, env={"HF_TOKEN": "x", "A": "b"})

    seen = redacted_arm(arm)

    assert (seen.name, seen.model) == ("off", "folder")
    assert seen.args == {"api_key": REDACTED, "max_model_len": 64}
    assert seen.env == {"HF_TOKEN": REDACTED, "A": "b"}


def test_an_arm_keeps_its_numbers_and_harmless_names() -> None:
    """Arguments whose names only contain a secret's word keep their values, and so does a switch."""
    args: EngineArguments = {"long_prefill_token_threshold": 64, "hf_token": True, "generation_config": "auto"}
    arm = Arm("off", model="folder", args=args)

    assert redacted_arm(arm) == arm


def test_a_profile_is_stored_without_secrets(build: type[Build]) -> None:
    """Fields of the user's own in the requests lose their secrets, and nothing else of a profile changes."""
    profile = build.profile(extra_body={"api_key": "hunter2", "user": {"pwd": "hunter2", "name": "x"}, "echo": True})

    seen = redacted_profile(profile)

    assert seen.extra_body == {"api_key": REDACTED, "user": {"pwd": REDACTED, "name": "x"}, "echo": True}
    assert redacted_profile(build.profile()) == build.profile()
    assert (seen.requests, seen.temperature) == (profile.requests, profile.temperature)


def test_addresses_of_model_and_endpoint_are_stored_without_passwords(build: type[Build]) -> None:
    """What an arm is served from and where requests are sent to may hold a password; the rest of them is kept."""
    arm = Arm("off", model="https://user:hunter2@models.invalid/x")
    profile = build.profile(endpoint="/v1/completions?api_key=hunter2&x=1")

    assert redacted_arm(arm).model == f"https://{REDACTED}@models.invalid/x"
    assert redacted_profile(profile).endpoint == f"/v1/completions?api_key={REDACTED}&x=1"
    assert redacted_profile(build.profile(endpoint="/v1/x")).endpoint == "/v1/x"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"credentials": {"user": ["one", {"x": "two"}], "port": 5}, "plain": "kept"}, {"one", "two"}),
        ([{"api_key": "one"}, {"api_key": ""}], {"one"}),
        ("hunter2", set()),
        (None, set()),
        (5, set()),
    ],
)
def test_secrets_in_a_value_are_the_texts_under_secret_names(value: JsonValue, found: set[str]) -> None:
    """At any depth; texts without a name, empty ones and numbers are none."""
    assert secrets_in(value) == found


def test_secrets_of_an_arm_are_its_texts_under_secret_names() -> None:
    """What to cut out of a log are the secret texts of arguments and environment, at any depth, longest first."""
    args: EngineArguments = {
        "api_key": ["one", "three"],
        "max_model_len": 64,
        "x": {"credentials": {"user": "seventeen", "port": 5}, "plain": "kept", "pass": ""},
    }
    arm = Arm("off", model="folder", args=args, env={"DB_PASS": "hunter2", "HF_TOKEN": "one", "A": "b"})

    assert secrets_of(arm) == ("seventeen", "hunter2", "three", "one")


def test_an_arm_without_secrets_has_none() -> None:
    """Nothing is cut out of the log of an arm that has no secret, nor for an empty one."""
    arm = Arm("off", model="folder", args={"dtype": "auto", "api_key": ""}, env={"PATH": "bin"})

    assert secrets_of(arm) == ()


@pytest.mark.parametrize("name", ["HF_TOKEN", "DB_PASS", "api_key"])
def test_no_secret_of_an_arm_is_stored(name: str) -> None:
    """Every text that is cut out of the log of an arm is gone from the arm that is stored, too."""
    arm = Arm("off", model="folder", args={"x": {name: ["hunter2"]}}, env={name: "hunter3"})

    stored = redacted_arm(arm)

    assert secrets_of(arm) == ("hunter2", "hunter3")
    assert not any(secret in str(stored) for secret in secrets_of(arm))


@pytest.mark.parametrize("text", ['{"step_s_per_draft_token": 0.001}', '{"max_token": 5, "x": 1}'])
def test_a_json_number_is_no_secret(text: str) -> None:
    """Settings whose names end like those of secrets keep their numbers, and the JSON around them stays whole."""
    assert redacted_text(text) == text
