"""The command line and the settings of the fake."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pytest_specgate.testing import FakeSettings
from pytest_specgate.testing.arguments import parse_arguments


def test_flags_of_vllm_are_read() -> None:
    """The flags that matter to the fake mean what they mean to vLLM."""
    arguments = parse_arguments(
        [
            *("--model", "m", "--served-model-name", "name", "alias", "--host", "127.0.0.2", "--port", "81"),
            *("--max_model_len=99", "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4, "x": 1}'),
            *("--fake", '{"step_s": 0.5, "acceptance": [0.9, 0.4]}'),
        ]
    )

    assert (arguments.model, arguments.served_names) == ("m", ("name", "alias"))
    assert (arguments.host, arguments.port, arguments.max_model_len) == ("127.0.0.2", 81, 99)
    assert arguments.draft_tokens == 4
    assert arguments.speculation is not None
    assert arguments.speculation.as_given() == {"method": "ngram", "num_speculative_tokens": 4, "x": 1}
    assert arguments.fake == FakeSettings(step_s=0.5, acceptance=(0.9, 0.4))


def test_defaults_are_a_healthy_server_without_speculation() -> None:
    """A bare command line gives a server that works."""
    arguments = parse_arguments([])

    assert arguments.served_name == arguments.model == "fake-model"
    assert arguments.draft_tokens == 0
    assert arguments.fake == FakeSettings()


def test_other_flags_are_ignored_but_known_by_name() -> None:
    """Flags that mean nothing here, with or without a value, disturb no other flag."""
    arguments = parse_arguments(
        [
            *("--enforce-eager", "--no-enable-prefix-caching", "--max-num-batched-tokens", "4096", "--model", "m"),
            *("--dtype=bfloat16", "-O3", "--compilation-config", '{"mode": 0}', "-tp", "2", "--port", "1"),
            *("--max-logprobs", "-1"),
        ]
    )

    assert (arguments.model, arguments.port) == ("m", 1)
    assert arguments.other == {
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "max_num_batched_tokens": 4096,
        "dtype": "bfloat16",
        "compilation_config": {"mode": 0},
        "max_logprobs": -1,
    }


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--fake", '{"step": 0.1}'], "step"),
        (["--fake", "{"], "JSON"),
        (["--fake", '{"acceptance": [1.2]}'], "acceptance"),
        (["--speculative-config", '{"method": "ngram"}'], "num_speculative_tokens"),
        (["--port", "many"], "port"),
        (["--data-parallel-size", "0"], "0 is not a positive number"),
        (["--block-size", "x"], "block-size"),
        (["--fake", '{"stall_s": -1}'], "stall_s"),
        (["--fake", '{"draft_lengths": []}'], "draft_lengths"),
    ],
)
def test_bad_value_is_refused_with_its_reason(argv: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt setting or a bad value stops the server with a usage error that names it."""
    with pytest.raises(SystemExit, match="2"):
        parse_arguments(argv)

    assert reason in capsys.readouterr().err


def test_last_acceptance_holds_for_further_positions() -> None:
    """A list shorter than the draft goes on with its last value."""
    settings = FakeSettings(acceptance=(0.9, 0.5))

    assert [settings.acceptance_at(position) for position in range(4)] == [0.9, 0.5, 0.5, 0.5]


def test_settings_are_frozen() -> None:
    """Settings cannot change under a running server."""
    with pytest.raises(ValidationError, match="frozen"):
        FakeSettings().seed = 1


def test_every_setting_is_described() -> None:
    """Each field tells its meaning in the schema."""
    properties = FakeSettings.model_json_schema()["properties"]

    assert [name for name, field in properties.items() if not field.get("description")] == []
