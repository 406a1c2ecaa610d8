"""Faults that were found and mended: each stays a test."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.arms import Arm, ArmPair, differing_paths
from pytest_specgate.core.counters import CounterDelta
from pytest_specgate.core.declared import fraction_of
from pytest_specgate.core.errors import ScrapeError, UsageError
from pytest_specgate.core.metrics import measure
from pytest_specgate.core.records import SCHEMA_VERSION, RequestRecord, WindowRecord
from pytest_specgate.core.redaction import redacted, redacted_text
from pytest_specgate.core.sse import Read, timeline

if TYPE_CHECKING:
    from tests.core.conftest import Build

DONE = "data: [DONE]\n\n"


def test_an_arm_without_arguments_differs_only_in_what_the_other_adds(build: type[Build]) -> None:
    """A reference without arguments and a candidate that adds one differ in just that argument."""
    plain = Arm("off", model="m")
    candidate = plain.vary("k4", args={"speculative_config": {"method": "ngram"}}, env={"A": "b"})

    assert differing_paths(plain, candidate) == ("args.speculative_config.method", "env.A")
    ArmPair(reference=plain, candidate=candidate, varies=("args.speculative_config", "env.A"), profile=build.profile())


def test_an_empty_mapping_against_a_full_one_stays_under_its_argument() -> None:
    """`{}` against `{"a": 1}` is covered by `varies="args.x"`."""
    one, other = Arm("a", model="m", args={"x": {}}), Arm("b", model="m", args={"x": {"a": 1}})

    assert set(differing_paths(one, other)) == {"args.x", "args.x.a"}


@pytest.mark.parametrize("text", ["NaN", "1e400", '{"a": [NaN]}'])
@pytest.mark.parametrize("place", [("arms", 0, "args"), ("profile", "extra_body")])
def test_no_nan_is_read_into_declarations_either(build: type[Build], place: str, text: str) -> None:
    """Free JSON of a stored arm or profile takes no number that JSON cannot say."""
    pair = build.pair(extra_body={"x": 1})
    window = json.loads(build.window(pair, [1.0], [1.0]).model_dump_json())
    target = window
    for part in place:
        target = target[part]
    target["x"] = "HERE"

    with pytest.raises(ValueError, match="x"):
        WindowRecord.model_validate_json(json.dumps(window).replace('"HERE"', text))


@pytest.mark.parametrize("name", ["auth", "api_key", "Authorization", "token", "HF_TOKEN"])
def test_a_mapping_under_any_secret_name_is_redacted(name: str) -> None:
    """All texts of a mapping under a secret name are redacted."""
    assert "hunter2" not in str(redacted({name: {"primary": "hunter2"}}))


@pytest.mark.parametrize("name", ["api_keys", "authToken"])
def test_other_spellings_of_secret_names(name: str) -> None:
    """Plural and camel case are secrets too."""
    assert "hunter2" not in str(redacted({name: ["hunter2"]}))


@pytest.mark.parametrize(
    "text",
    ["--api-key=hunter2", "--api_key hunter2", "non-default args: {'api_key': ['hunter2']}", '{"api_key": "hunter2"}'],
)
def test_api_keys_in_texts(text: str) -> None:
    """Keys are redacted in every form in which command lines and vLLM logs spell them."""
    assert "hunter2" not in redacted_text(text)


def test_a_finish_reason_of_another_type_does_not_break_the_client(build: type[Build]) -> None:
    """A finish reason that is no text is none."""
    event = json.dumps({"choices": [{"text": "a", "finish_reason": 5}]})
    seen = timeline([Read(0.1, f"data: {event}\n\n{DONE}".encode())])

    RequestRecord.model_validate({**build.request().model_dump(), "finish_reason": seen.finish_reason})


def test_half_a_character_does_not_break_the_client() -> None:
    """A lone surrogate in the JSON gives a text that can still be hashed."""
    seen = timeline([Read(0.1, ('data: {"choices":[{"text":"\\ud800"}]}\n\n' + DONE).encode())])

    hashlib.sha256(seen.text.encode())


def test_json_nested_too_deeply_fails_the_request() -> None:
    """JSON that nests too deeply to be read fails its request, not the run."""
    assert timeline([Read(0.1, ("data: " + "[" * 100_000 + "\n\n" + DONE).encode())]).error is not None


def test_text_that_is_no_text_fails_the_request() -> None:
    """An answer whose text is a number does not count."""
    assert timeline([Read(0.1, ('data: {"choices":[{"text":5}]}\n\n' + DONE).encode())]).error is not None


def test_throughput_does_not_leave_out_an_end_that_is_missing(build: type[Build]) -> None:
    """A complete answer without a last token event leaves throughput unmeasured."""
    odd = build.request(10, last_token_s=None)
    point = build.point([*(build.request(index) for index in range(10)), odd])

    assert measure("request_throughput", point, build.profile()).value is None
    assert measure("output_throughput", point, build.profile()).value is None


def test_case_50_finished_requests_of_a_page_without_the_counter(build: type[Build]) -> None:
    """A later page that no longer counts finished requests is an error, not "nothing was aborted"."""
    before = build.page({counters.GENERATION_TOKENS: 0}, finished={"length": 5, "abort": 0})
    after = build.page({counters.GENERATION_TOKENS: 5}, finished={})

    with pytest.raises(ScrapeError):
        CounterDelta(before, after).finished()


@pytest.mark.parametrize("text", ["true", f"{SCHEMA_VERSION}.0", f'"{SCHEMA_VERSION}"', "null"])
def test_a_schema_version_is_a_whole_number(build: type[Build], text: str) -> None:
    """A schema version is a whole number: `true` will not do, nor today's with a point or in quotes, nor nothing."""
    window = build.window(build.pair(), [1.0], [1.0]).model_dump_json()
    edited = window.replace(f'"schema_version":{SCHEMA_VERSION}', f'"schema_version":{text}')

    assert edited != window
    with pytest.raises(ValueError, match="schema_version"):
        WindowRecord.model_validate_json(edited)


def test_a_key_with_a_dot_is_no_path() -> None:
    """A key with a dot and a nested mapping are two different paths."""
    one, other = Arm("a", model="m", args={"x": {"a.b": 1}}), Arm("b", model="m", args={"x": {"a": {"b": 1}}})

    assert differing_paths(one, other)


def test_a_whole_number_too_large_for_a_float_is_refused() -> None:
    """A percentage beyond every float is refused like any other nonsense."""
    with pytest.raises(UsageError):
        fraction_of("margin", 10**400)


def test_arguments_of_vary_that_are_no_mapping_are_a_usage_error() -> None:
    """Arguments of `vary` that are no mapping are refused with a sentence."""
    with pytest.raises(UsageError):
        Arm("a", model="m").vary("b", args=[1])  # type: ignore[arg-type]  # the mistake under test
