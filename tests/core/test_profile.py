"""The request profile: what is sent, and what two loads are compared by."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core import profile as profiles
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.profile import SAMPLING_FIELDS, declared_fields, encode_body, request_body, same

if TYPE_CHECKING:
    from pydantic import JsonValue

    from tests.core.conftest import Build

OTHER: dict[str, Any] = {
    "input_tokens": 17,
    "output_tokens": 12,
    "requests": {1: 10, 8: 17},
    "prompts": "code",
    "warmup_requests": 5,
    "temperature": 0.8,
    "top_p": 0.9,
    "top_k": 5,
    "min_p": 0.05,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "repetition_penalty": 1.1,
    "seed": 1,
    "order_seed": 1,
    "ignore_eos": False,
    "stop": ("\n",),
    "extra_body": {"echo": True},
    "request_timeout_s": 60.0,
    "burstiness": 0.5,
    "goodput_limits": {"ttft": "500ms"},
    "prefix_cache": "warm",
    "client_processes": 2,
    "api": "chat",
    "endpoint": "/other/v1/completions",
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def _body(build: type[Build], **changes: object) -> dict[str, Any]:
    return dict(request_body(build.profile(**changes), model="tiny", prompt="Once"))


@pytest.mark.parametrize("name", SAMPLING_FIELDS)
def test_case_76_every_sampling_parameter_is_sent(build: type[Build], name: str) -> None:
    """Case 76: the body carries each sampling parameter, set or not, so a server's own defaults decide nothing."""
    assert _body(build)[name] == getattr(build.profile(), name)
    assert _body(build, **{name: OTHER[name]})[name] == OTHER[name]


@pytest.mark.parametrize(("ignore_eos", "min_tokens"), [(True, 11), (False, 0)])
def test_case_77_length_is_fixed_in_every_request(build: type[Build], *, ignore_eos: bool, min_tokens: int) -> None:
    """Case 77: maximal and minimal length and `ignore_eos` stand in every body."""
    body = _body(build, ignore_eos=ignore_eos)

    assert (body["max_tokens"], body["min_tokens"], body["ignore_eos"]) == (11, min_tokens, ignore_eos)


def test_bodies_ask_for_one_streamed_answer_with_usage(build: type[Build]) -> None:
    """Every request streams one answer and asks for the server's own token counts."""
    body = _body(build)

    assert (body["stream"], body["n"], body["stream_options"]) == (True, 1, {"include_usage": True})
    assert (body["model"], body["prompt"], body["stop"], body["logprobs"]) == ("tiny", "Once", None, None)


def test_chat_asks_for_the_same_in_its_own_words(build: type[Build]) -> None:
    """A chat body has a message of the user for the prompt, and the chat API's names for length and logprobs."""
    chat, plain = _body(build, api="chat", extra_body={"tools": []}), _body(build)
    shared = {name: value for name, value in plain.items() if name not in {"prompt", "max_tokens", "logprobs"}}

    assert chat == {
        **shared,
        "messages": [{"role": "user", "content": "Once"}],
        "max_completion_tokens": 11,
        "logprobs": False,
        "tools": [],
    }


def test_a_conversation_is_sent_as_it_is(build: type[Build]) -> None:
    """Messages of a user's file are the messages of the body."""
    messages: list[JsonValue] = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Once"}]

    assert request_body(build.profile(api="chat"), model="tiny", prompt=messages)["messages"] == messages


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({}, "/v1/completions"),
        ({"api": "chat"}, "/v1/chat/completions"),
        ({"api": "chat", "endpoint": "/x"}, "/x"),
    ],
)
def test_requests_go_to_the_path_of_their_api(build: type[Build], changes: dict[str, Any], *, path: str) -> None:
    """Each API has its path, and a profile may name another."""
    profile = build.profile(**changes)

    assert profile.path == declared_fields(profile)["endpoint"] == path


def test_stream_options_are_sent_and_compared(build: type[Build]) -> None:
    """Further stream options stand in every body and in the profile."""
    options = {"include_usage": True, "continuous_usage_stats": True}

    assert _body(build, stream_options=options)["stream_options"] == options
    assert declared_fields(build.profile(stream_options=options))["stream_options"] == options


def test_extra_fields_and_stop_strings_are_sent(build: type[Build]) -> None:
    """Fields of the user's own and stop strings are part of the body."""
    body = _body(build, extra_body={"echo": True}, stop=("\n", "END"))

    assert (body["echo"], body["stop"]) == (True, ["\n", "END"])


def test_one_spelling_for_one_body() -> None:
    """Bodies of equal content have equal bytes, whatever the order of their fields."""
    assert encode_body({"b": 1, "a": "é"}) == encode_body({"a": "é", "b": 1}) == '{"a":"é","b":1}'.encode()


def test_a_body_with_nan_is_never_sent() -> None:
    """NaN is no JSON."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_body({"x": float("nan")})


@pytest.mark.parametrize(
    "name", ["prompt", "stream_options", "temperature", "stop", "max_tokens", "messages", "max_completion_tokens"]
)
def test_extra_fields_shadow_nothing(build: type[Build], name: str) -> None:
    """A field that the profile sends itself cannot be set behind its back."""
    with pytest.raises(UsageError, match=f"^RequestProfile: extra_body sets {name}, which the profile sends itself$"):
        build.profile(extra_body={name: 1})


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("top_logprobs", "asks for logprobs, which the profile leaves off"),
        ("logprob_token_ids", "asks for logprobs, which the profile leaves off"),
        ("prompt_logprobs", "asks for logprobs, which no server gives in a stream"),
        ("prompt_embeds", "is a prompt beside the profile's own"),
    ],
)
@pytest.mark.parametrize("api", ["completions", "chat"])
def test_extra_fields_that_contradict_the_profile_are_refused(
    build: type[Build], api: str, *, name: str, why: str
) -> None:
    """What every server would answer with HTTP 400 is a mistake of the gate file."""
    with pytest.raises(UsageError) as raised:
        build.profile(api=api, extra_body={name: 2})

    assert str(raised.value) == f"RequestProfile: extra_body sets {name}, which {why}"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"stop": ("a", "\ud83d")}, "stop has half a character, which cannot be sent"),
        ({"extra_body": {"x": ["\ud83d"]}}, "extra_body has half a character, which cannot be sent"),
        ({"extra_body": {"\ud83d": 1}}, "extra_body has half a character, which cannot be sent"),
        ({"extra_body": {"x": 10**5000}}, "extra_body cannot be sent: "),
    ],
)
def test_what_cannot_be_sent_is_refused(build: type[Build], changes: dict[str, Any], *, problem: str) -> None:
    """A body that has no bytes is refused where it is written, not after the first boot."""
    with pytest.raises(UsageError, match=f"^RequestProfile: {problem}"):
        build.profile(**changes)


@pytest.mark.parametrize(
    ("requests", "problem"),
    [
        ({8: 4}, "point c=8 has 4 requests; each of its 8 workers needs at least one"),
        ({0: 4}, "a concurrency of 0 sends nothing: write 1 or more"),
        ({-1: 4}, "a concurrency of -1 sends nothing: write 1 or more"),
        ({1: 0}, "point c=1 has 0 requests"),
    ],
)
def test_impossible_points_are_refused(build: type[Build], *, requests: dict[int, int], problem: str) -> None:
    """A point with fewer requests than workers, or without workers, is refused."""
    with pytest.raises(UsageError, match=problem):
        build.profile(requests=requests)


def test_a_profile_without_points_is_refused(build: type[Build]) -> None:
    """A load of nothing is a mistake."""
    with pytest.raises(UsageError, match=r"^RequestProfile\.requests: "):
        build.profile(requests={})


def test_points_come_in_rising_order(build: type[Build]) -> None:
    """Points are measured from the lightest to the heaviest, however they were written."""
    assert build.profile(requests={32: 64, 1: 10, 8: 16}).points == (1, 8, 32)


def test_fingerprint_ignores_the_order_of_writing(build: type[Build]) -> None:
    """Profiles that differ only in the order of their keys have one fingerprint."""
    one = build.profile(requests={1: 10, 8: 16}, extra_body={"a": 1, "b": {"c": 2, "d": 3}})
    other = build.profile(extra_body={"b": {"d": 3, "c": 2}, "a": 1}, requests={8: 16, 1: 10})

    assert one.fingerprint() == other.fingerprint()


@pytest.mark.parametrize("field", sorted(OTHER))
def test_fingerprint_covers_every_field(build: type[Build], field: str) -> None:
    """Changing any single field of a profile changes its fingerprint: what it measures, or how, is another thing."""
    open_loop = {"requests": {"4/s": 10}}

    assert build.profile(**{**open_loop, field: OTHER[field]}).fingerprint() != build.profile(**open_loop).fingerprint()


def test_burstiness_is_nothing_to_a_closed_loop(build: type[Build]) -> None:
    """Without an arrival rate no request arrives by a schedule, so its burstiness tells no two loads apart."""
    assert build.profile(burstiness=0.5).fingerprint() == build.profile().fingerprint()


def test_every_field_is_covered_by_the_test_above(build: type[Build]) -> None:
    """The table of changed fields names every field of a profile."""
    assert set(OTHER) == set(vars(build.profile()))


def test_declared_fields_are_flat_and_named(build: type[Build]) -> None:
    """The fields that are compared include every point, every sampling parameter, and what is fixed by design."""
    fields = declared_fields(build.profile())

    assert (fields["requests.c1"], fields["requests.c8"], fields["concurrency_points"]) == (10, 16, [1, 8])
    assert (fields["api"], fields["endpoint"], fields["arrival"]) == ("completions", "/v1/completions", "closed loop")
    assert set(SAMPLING_FIELDS) <= set(fields)
    assert fields["extra_body_sha256"] is None


def test_hash_of_a_value_ignores_key_order() -> None:
    """A JSON value has one hash, whatever the order of its keys; the order of its lists matters."""
    assert profiles.sha256_of({"a": 1, "b": [1, 2]}) == profiles.sha256_of({"b": [1, 2], "a": 1})
    assert profiles.sha256_of([1, 2]) != profiles.sha256_of([2, 1])


def test_hash_of_a_text() -> None:
    """The hash of a text is that of its UTF-8 bytes."""
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

    assert profiles.sha256_of_text("") == empty


def test_check_point_names_the_points_there_are(build: type[Build]) -> None:
    """A concurrency that is not measured is refused with those that are."""
    profiles.check_point(build.profile(), 8)

    with pytest.raises(UsageError, match=r"^at=4 is no point of the profile, which measures c=1, c=8$"):
        profiles.check_point(build.profile(), 4)


def test_bodies_are_json(build: type[Build]) -> None:
    """What goes over the wire reads back as the body."""
    body = _body(build)

    assert json.loads(encode_body(body)) == body


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, 1.0), (0, -0.0), ([1, 2.0], [1.0, 2]), ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}), (None, None), ("x", "x")],
)
def test_numbers_are_equal_by_value(left: JsonValue, right: JsonValue) -> None:
    """Numbers are equal by value, mappings whatever the order of their keys."""
    assert same(left, right)
    assert same(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (0, False),
        (1, "1"),
        (True, "True"),
        (None, 0),
        (None, False),
        (None, ""),
        ([], {}),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": 1, "b": None}),
        ("a", "A"),
        (math.nan, math.nan),
        ([True], [1]),
        ({"a": {"b": 0}}, {"a": {"b": False}}),
    ],
)
def test_values_of_other_kinds_are_never_equal(left: JsonValue, right: JsonValue) -> None:
    """A number never equals a bool or a string, unset never equals set, and the order of lists matters."""
    assert not same(left, right)
    assert not same(right, left)


@given(JSON)
def test_a_value_is_the_same_as_itself(value: JsonValue) -> None:
    """Every JSON value without NaN is the same as itself, and not the same as itself in a list."""
    assert same(value, value)
    assert not same(value, [value])
