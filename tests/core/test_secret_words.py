"""Secrets on command lines and in environments: found by the names that they are given under."""

from __future__ import annotations

import pytest

from pytest_specgate.core.secret_words import (
    redacted_command,
    redacted_words,
    secrets_of_environment,
    secrets_of_words,
)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--api-key", "open sesame", "--seed", "3"], ["--api-key", "[redacted]", "--seed", "3"]),
        (["--api-key=open sesame", "x"], ["--api-key=[redacted]", "x"]),
        (["--api_key", "one", "two", "--x"], ["--api_key", "[redacted]", "[redacted]", "--x"]),
        (["AWS_SECRET_ACCESS_KEY=a b", "A=b"], ["AWS_SECRET_ACCESS_KEY=[redacted]", "A=b"]),
        (["-e", "HF_TOKEN=x", "vllm"], ["-e", "HF_TOKEN=[redacted]", "vllm"]),
        (["--hub", "hf_abcdefghijklmnopqrst"], ["--hub", "[redacted]"]),
        (["--x", '{"api_key": "own"}'], ["--x", '{"api_key": "[redacted]"}']),
        (
            ["--x", '{"credentials": {"user": ["own"], "n": 5}}'],
            ["--x", '{"credentials": {"user": ["[redacted]"], "n": 5}}'],
        ),
        (['--x=[{"auth": {"v": "own"}}]'], ['--x=[{"auth": {"v": "[redacted]"}}]']),
        (["--x", '{"plain":  "as  written"}'], ["--x", '{"plain":  "as  written"}']),
        (["--x", "{not json", "[1"], ["--x", "{not json", "[1"]),
        (["--seed", "3", ""], ["--seed", "3", ""]),
    ],
)
def test_values_of_secret_names_are_replaced(words: list[str], shown: list[str]) -> None:
    """Whatever joins name and value; what is no secret stays as it is."""
    assert redacted_words(words, lists=True) == shown


def test_a_command_has_one_value_an_option() -> None:
    """What follows may be the program that a launcher runs."""
    words = ["run", "--api-key", "own", "vllm"]

    assert redacted_command(words) == "run --api-key '[redacted]' vllm"
    assert secrets_of_words(words) == {"own"}
    assert secrets_of_words(words, lists=True) == {"own", "vllm"}


def test_secrets_are_the_values_without_their_names() -> None:
    """They can be cut out of what somebody prints; empty ones cannot."""
    words = ["--api-key=open sesame", "HF_TOKEN=x", "--password", "", "--seed", "3"]

    assert secrets_of_words(words, lists=True) == {"open sesame", "x"}


def test_secrets_inside_a_json_value_are_found() -> None:
    """What stands deep inside a value under a secret's name can be cut out of what a server prints, too."""
    words = ["--x", '{"credentials": {"user": ["own"], "n": 5}, "plain": "kept"}', "--y", "[" * 99999]

    assert secrets_of_words(words, lists=True) == {"own"}


def test_short_values_of_inherited_variables_are_no_secrets() -> None:
    """They would be cut out of every log."""
    environment = {"A_TOKEN": "longenough", "B_TOKEN": "short", "HOME": "/home/longenough"}

    assert secrets_of_environment(environment) == {"longenough"}


@pytest.mark.parametrize(
    ("text", "secrets", "shown"),
    [
        ("export MY_TOKEN=x; exec vllm", {"x"}, "export MY_TOKEN=[redacted]; exec vllm"),
        ("set MY_TOKEN=ab&& exec vllm --api-key 'c d'", {"ab", "c d"},
         "set MY_TOKEN=[redacted]&& exec vllm --api-key '[redacted]'"),
        ("exec bash -c 'export MY_TOKEN=ab; vllm'", {"ab"}, "exec bash -c 'export MY_TOKEN=[redacted]; vllm'"),
        ("don't MY_TOKEN=ab; vllm", {"ab"}, "don't MY_TOKEN=[redacted]; vllm"),
        ("exec vllm --api-key a\\ b", {"a b"}, "[redacted]"),
        ("MY_TOKEN=abcdefgh exec vllm", {"abcdefgh", "abcdefgh exec vllm"}, "MY_TOKEN=[redacted]"),
        ("cd /tmp && exec vllm --seed 3", set(), "cd /tmp && exec vllm --seed 3"),
    ],
    ids=["export", "options", "nested", "open", "escaped", "first", "none"],
)  # fmt: skip
def test_secrets_in_the_text_of_a_shell_are_found(text: str, secrets: set[str], shown: str) -> None:
    """A value ends where a command does; what cannot be cut out of the text takes all of it along."""
    assert secrets_of_words(["bash", "-c", text]) == secrets
    assert redacted_words(["bash", "-c", text]) == ["bash", "-c", shown]
