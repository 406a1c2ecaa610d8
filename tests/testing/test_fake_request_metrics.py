"""What answers of the fake tell of their own speculation: the truth, in the shapes of vLLM."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pytest_specgate.core.errors import ServerStartError
from pytest_specgate.core.sse import Read, timeline
from pytest_specgate.testing import FakeSettings, fake_vllm
from pytest_specgate.testing.arguments import parse_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_specgate.core.request_speculation import RequestSpeculation
    from pytest_specgate.testing import RequestTruth, RunningFake

K4 = {"method": "ngram", "num_speculative_tokens": 4}
SETTINGS = FakeSettings(step_s=0.0002, acceptance=(0.8, 0.6), draft_share=0.7, draft_lengths=(4, 4, 3, 1))
COUNTS = (
    "mean_acceptance_length", "draft_acceptance_rate", "acceptance_histogram", "num_spec_steps",
    "num_accepted_draft_tokens", "num_draft_tokens", "num_spec_tokens",
)  # fmt: skip
STEPS = ("per_step_accepted", "per_step_drafted")
TIMES = ("time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second")


def _server(level: str) -> Iterator[RunningFake]:
    arguments = ["--per-request-spec-decode-metrics", level]
    environment = {"VLLM_SERVER_DEV_MODE": "1"}
    with fake_vllm(SETTINGS, speculative_config=K4, arguments=arguments, environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def detailed() -> Iterator[RunningFake]:
    """A fake whose answers tell every step."""
    yield from _server("detailed")


@pytest.fixture(scope="module")
def summary() -> Iterator[RunningFake]:
    """A fake whose answers tell counts."""
    yield from _server("summary")


def _answer(server: RunningFake, prompt: str, *, chat: bool = False, **fields: Any) -> httpx.Response:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
    body = {"model": "fake-model", **asked, "max_tokens": 40, "ignore_eos": True, **fields}
    return httpx.post(f"{server.url}/v1/{'chat/' if chat else ''}completions", json=body)


def _stream(server: RunningFake, prompt: str, *, chat: bool = False) -> list[dict[str, Any]]:
    answer = _answer(server, prompt, chat=chat, stream=True, stream_options={"include_usage": True})
    lines = answer.text.split("\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def _told(server: RunningFake, prompt: str, *, chat: bool = False) -> tuple[RequestSpeculation, RequestTruth]:
    """Return what our reader makes of a stream, and what happened."""
    answer = _answer(server, prompt, chat=chat, stream=True, stream_options={"include_usage": True})
    seen = timeline([Read(0.5, answer.content)])
    assert (seen.error, seen.speculation_problem) == (None, None)
    assert seen.speculation is not None
    return seen.speculation, server.truth().requests[-1]


def _without_zeros(histogram: tuple[int, ...]) -> tuple[int, ...]:
    while histogram and not histogram[-1]:
        histogram = histogram[:-1]
    return histogram


@pytest.mark.parametrize("chat", [False, True])
def test_case_57_what_is_read_is_what_happened(detailed: RunningFake, *, chat: bool) -> None:
    """Case 57: of drafts that are short now and then, each accepted count and each length is that of the truth."""
    for number in range(4):
        found, truth = _told(detailed, f"prompt {number}", chat=chat)

        assert found.k == 4
        assert _without_zeros(found.accepted_histogram) == truth.drafts_by_accepted
        assert found.drafted_histogram is not None
        assert _without_zeros(found.drafted_histogram) == truth.drafts_by_length
        assert found.delta().drafts == truth.drafts > 0
        assert (found.draft_tokens, found.accepted_tokens) == (truth.draft_tokens, truth.accepted_tokens)


def test_summaries_tell_no_lengths(summary: RunningFake) -> None:
    """All but the lengths is told, and is the truth."""
    found, truth = _told(summary, "prompt 0")

    assert found.drafted_histogram is None
    assert (found.drafts, found.accepted_tokens) == (truth.drafts, truth.accepted_tokens)


def test_requests_add_up_to_the_counters(detailed: RunningFake, page_when: Callable[..., dict[str, float]]) -> None:
    """What requests tell since a page sums to what its counters rose by since then, draft by draft."""
    names = [f"spec_decode_num_{name}_total" for name in ("drafts", "draft_tokens", "accepted_tokens")]
    before = page_when(detailed, lambda page: page["num_requests_running"] == 0)
    told = [_told(detailed, f"sum {number}")[0].delta() for number in range(3)]
    wanted = [sum(delta.drafts for delta in told), sum(delta.draft_tokens for delta in told)]
    wanted.append(sum(delta.accepted_tokens for delta in told))
    after = page_when(detailed, lambda page: page[names[0]] - before[names[0]] >= wanted[0])

    assert [after[name] - before[name] for name in names] == wanted


@pytest.mark.parametrize("chat", [False, True])
def test_a_stream_tells_it_in_its_last_event_alone(detailed: RunningFake, *, chat: bool) -> None:
    """It rides on the usage, in vLLM's order, and nothing that is null stands beside it."""
    *events, usage = _stream(detailed, "prompt 1", chat=chat)

    assert all("metrics" not in event for event in events)
    assert list(usage["metrics"]) == ["speculative_decoding"]
    assert list(usage["metrics"]["speculative_decoding"]) == [*COUNTS, *STEPS]
    assert usage["usage"]["completion_tokens"] == 40


def test_steps_are_in_order(detailed: RunningFake) -> None:
    """The steps give the histogram, and no step accepts more than it drafts."""
    told = _stream(detailed, "prompt 2")[-1]["metrics"]["speculative_decoding"]
    accepted, drafted = (told[name] for name in STEPS)

    assert told["acceptance_histogram"] == [accepted.count(held) for held in range(5)]
    assert (len(accepted), sum(drafted)) == (told["num_spec_steps"], told["num_draft_tokens"])
    assert all(held <= length for held, length in zip(accepted, drafted, strict=True))
    assert told["mean_acceptance_length"] == 1 + sum(accepted) / len(accepted)
    assert told["draft_acceptance_rate"] == sum(accepted) / sum(drafted)


@pytest.mark.parametrize("chat", [False, True])
def test_one_body_tells_what_a_stream_tells(summary: RunningFake, *, chat: bool) -> None:
    """An answer that is not streamed has the same figures, and null for all that is not told."""
    whole = _answer(summary, "prompt 3", chat=chat).json()["metrics"]
    streamed = _stream(summary, "prompt 3", chat=chat)[-1]["metrics"]["speculative_decoding"]

    assert list(streamed) == list(COUNTS)
    assert whole == {**dict.fromkeys(TIMES), "speculative_decoding": {**streamed, **dict.fromkeys(STEPS)}}


def test_an_answer_of_one_token_drafted_nothing(detailed: RunningFake) -> None:
    """As in vLLM there are no steps then, the length is 1 and the rate 0; our reader knows that nothing was drafted."""
    answer = _answer(detailed, "short", max_tokens=1, stream=True, stream_options={"include_usage": True})
    told = json.loads(answer.text.split("\n\n")[-3].removeprefix("data: "))["metrics"]["speculative_decoding"]
    seen = timeline([Read(0.5, answer.content)]).speculation

    assert told == dict(zip(COUNTS, (1.0, 0.0, [0] * 5, 0, 0, 0, 4), strict=True))
    assert seen is not None
    assert seen.proposed_per_position == (0, 0, 0, 0)


def test_the_configuration_tells_it(detailed: RunningFake) -> None:
    """It stands where vLLM has it."""
    page = httpx.get(f"{detailed.url}/server_info?config_format=json").json()

    assert page["vllm_config"]["observability_config"]["per_request_spec_decode_metrics"] == "detailed"


def test_who_does_not_ask_is_told_nothing() -> None:
    """Without the flag no stream has the key, and a body has null."""
    with fake_vllm(SETTINGS, speculative_config=K4) as server:
        events = _stream(server, "prompt")
        whole = _answer(server, "prompt").json()

    assert all("metrics" not in event for event in events)
    assert whole["metrics"] is None


def test_it_needs_speculation() -> None:
    """A server without speculation does not start, and says why in vLLM's words."""
    with (
        pytest.raises(ServerStartError, match="requires speculative decoding to be enabled") as caught,
        fake_vllm(arguments=["--per-request-spec-decode-metrics=summary"]),
    ):
        pass

    assert caught.value.exit_code == 1


@pytest.mark.parametrize("words", [[], ["--per-request-spec-decode-metrics", "none"]])
def test_nothing_is_asked_by_default(words: list[str]) -> None:
    """The default asks for nothing, and so needs no speculation."""
    assert parse_arguments(words).request_metrics == "none"


def test_other_levels_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A level that vLLM does not know is none here."""
    with pytest.raises(SystemExit):
        parse_arguments(["--per-request-spec-decode-metrics", "full"])

    assert "invalid choice: 'full'" in capsys.readouterr().err
