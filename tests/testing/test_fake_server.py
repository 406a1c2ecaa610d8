"""The fake vLLM over real HTTP: endpoints, streams, counters."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pytest_specgate.testing import FakeSettings, RunningFake, fake_vllm

if TYPE_CHECKING:
    from collections.abc import Iterator

FAST = FakeSettings(step_s=0.0005)
PROMPTS = [f"{number} boxes were carried to the north greenhouse" for number in range(12)]


@dataclasses.dataclass
class Seen:
    """What a client saw of one streamed answer."""

    events: list[dict[str, Any]]

    @property
    def text(self) -> str:
        """All text, joined."""
        return "".join(event["choices"][0]["text"] for event in self.events[:-1])

    @property
    def usage(self) -> dict[str, int]:
        """The usage event at the end."""
        usage: dict[str, int] = self.events[-1]["usage"]
        return usage

    @property
    def tokens_per_event(self) -> list[int]:
        """Tokens that each token event brought, from the running usage."""
        totals = [0, *(event["usage"]["completion_tokens"] for event in self.events[:-1])]
        return [after - before for before, after in itertools.pairwise(totals)]


def completion(prompt: Any = "Hello there", **fields: Any) -> dict[str, Any]:
    """Make a request body."""
    return {"model": "fake-model", "prompt": prompt, "max_tokens": 24, "ignore_eos": True, **fields}


def stream(server: RunningFake, prompt: str, **fields: Any) -> Seen:
    """Stream one answer with running usage and check its frame."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = completion(prompt, stream=True, stream_options=options, **fields)
    answer = httpx.post(f"{server.url}/v1/completions", json=body)
    lines = answer.text.split("\n\n")
    assert answer.status_code == 200
    assert lines[-2:] == ["data: [DONE]", ""]
    return Seen([json.loads(line.removeprefix("data: ")) for line in lines[:-2]])


def stream_all(server: RunningFake, *, concurrency: int, **fields: Any) -> list[Seen]:
    """Stream an answer to every prompt, so many at a time."""
    with concurrent.futures.ThreadPoolExecutor(concurrency) as pool:
        return list(pool.map(lambda prompt: stream(server, prompt, **fields), PROMPTS))


def counters(server: RunningFake) -> dict[str, float]:
    """Scrape the page and sum each series name over its labels, positions and reasons apart."""
    totals: dict[str, float] = {}
    for family in text_string_to_metric_families(httpx.get(f"{server.url}/metrics").text):
        for sample in family.samples:
            parts = [sample.labels[label] for label in ("position", "finished_reason") if label in sample.labels]
            key = ":".join([sample.name.removeprefix("vllm:"), *parts])
            totals[key] = totals.get(key, 0.0) + sample.value
    return totals


@pytest.fixture(scope="module")
def server() -> Iterator[RunningFake]:
    """A healthy server with speculation, in developer mode."""
    with fake_vllm(
        FAST,
        speculative_config={"method": "ngram", "num_speculative_tokens": 4},
        environment={"VLLM_SERVER_DEV_MODE": "1"},
        arguments=["--max-model-len", "512", "--enforce-eager", "--max-num-batched-tokens", "4096"],
    ) as running:
        yield running


def test_health_version_and_models(server: RunningFake) -> None:
    """The small pages have the shapes of vLLM's."""
    models = httpx.get(f"{server.url}/v1/models").json()

    assert httpx.get(f"{server.url}/health").status_code == 200
    assert "fake" in httpx.get(f"{server.url}/version").json()["version"]
    assert models["object"] == "list"
    assert [(card["id"], card["root"], card["max_model_len"]) for card in models["data"]] == [
        ("fake-model", "fake-model", 512)
    ]


def test_tokenize_and_detokenize(server: RunningFake) -> None:
    """Tokens of a text come with their count and lead back to the text."""
    body = {"model": "fake-model", "prompt": "There were 13 boxes."}
    tokens = httpx.post(f"{server.url}/tokenize", json=body).json()
    back = httpx.post(f"{server.url}/detokenize", json={"model": "fake-model", "tokens": tokens["tokens"]}).json()

    assert tokens["count"] == len(tokens["tokens"]) > 5
    assert (tokens["max_model_len"], tokens["token_strs"]) == (512, None)
    assert back == {"prompt": "There were 13 boxes."}


def test_usage_counts_the_tokens_of_tokenize(server: RunningFake) -> None:
    """The prompt tokens of an answer are those ``/tokenize`` counts, for text and for ids."""
    text = "There were 13 boxes."
    ids = httpx.post(f"{server.url}/tokenize", json={"prompt": text}).json()["tokens"]
    used = [
        httpx.post(f"{server.url}/v1/completions", json=completion(prompt)).json()["usage"]["prompt_tokens"]
        for prompt in (text, ids, [text], [ids])
    ]

    assert used == [len(ids)] * 4


def test_server_info_resolves_the_configuration(server: RunningFake) -> None:
    """The configuration tells speculation, limits, and flags the fake has no use for."""
    info = httpx.get(f"{server.url}/server_info?config_format=json").json()
    config = info["vllm_config"]

    assert config["speculative_config"]["num_speculative_tokens"] == 4
    assert config["speculative_config"]["method"] == "ngram"
    assert config["model_config"]["max_model_len"] == 512
    assert config["model_config"]["enforce_eager"] is True
    assert config["scheduler_config"]["max_num_batched_tokens"] == 4096
    assert {"cache_config", "parallel_config"} < set(config)
    assert info["vllm_env"]["VLLM_SERVER_DEV_MODE"] == "1"
    assert "vllm_version" in info["system_env"]


def test_server_info_needs_developer_mode() -> None:
    """Without developer mode the page is not there."""
    with fake_vllm(environment={"VLLM_SERVER_DEV_MODE": "0"}) as plain:
        assert httpx.get(f"{plain.url}/server_info?config_format=json").status_code == 404


def test_stream_has_the_shape_of_vllm(server: RunningFake) -> None:
    """Token events, then one usage event without choices; the reason stands in the last token event."""
    seen = stream(server, "A shape")
    first, usage = seen.events[0], seen.events[-1]

    assert list(first) == ["id", "object", "created", "model", "choices", "usage"]
    assert first["id"].startswith("cmpl-")
    assert first["choices"] == [
        {
            "index": 0,
            "text": seen.events[0]["choices"][0]["text"],
            "logprobs": None,
            "finish_reason": None,
            "stop_reason": None,
            "prompt_token_ids": None,
            "token_ids": None,
        }
    ]
    assert [event["choices"][0]["finish_reason"] for event in seen.events[:-1]][-2:] == [None, "length"]
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 24
    assert usage["usage"]["total_tokens"] == 24 + usage["usage"]["prompt_tokens"]


def test_event_carries_all_tokens_of_its_step(server: RunningFake) -> None:
    """The first event has one token, the others up to 1 + k, and the texts have as many words."""
    seen = stream(server, "Some step")
    words = [len(event["choices"][0]["text"].split()) for event in seen.events[:-1]]

    assert seen.tokens_per_event[0] == 1
    assert 1 < max(seen.tokens_per_event) <= 5
    assert seen.tokens_per_event == words
    assert sum(words) == 24


def test_stream_without_options_has_no_usage(server: RunningFake) -> None:
    """Usage is sent only when asked for."""
    text = httpx.post(f"{server.url}/v1/completions", json=completion(stream=True)).text

    assert "usage" not in text
    assert text.endswith("data: [DONE]\n\n")


def test_whole_answer_equals_the_streamed_one(server: RunningFake) -> None:
    """A request that does not stream gets the same text and usage in one body."""
    body = httpx.post(f"{server.url}/v1/completions", json=completion("A whole")).json()
    seen = stream(server, "A whole")

    assert body["object"] == "text_completion"
    assert body["choices"][0]["text"] == seen.text
    assert body["choices"][0]["finish_reason"] == "length"
    assert {key: body["usage"][key] for key in seen.usage} == seen.usage


def test_answer_may_end_by_itself(server: RunningFake) -> None:
    """Without ``ignore_eos`` an answer ends at its own place, by a token without text, not before ``min_tokens``."""
    early = stream(server, "An end", ignore_eos=False, max_tokens=400)
    again = stream(server, "An end", ignore_eos=False, max_tokens=400)
    later = stream(server, "An end", ignore_eos=False, max_tokens=400, min_tokens=350)
    length = early.usage["completion_tokens"]

    assert early.events[-2]["choices"][0]["finish_reason"] == "stop"
    assert length == again.usage["completion_tokens"] == len(early.text.split()) + 1 < 400
    assert later.usage["completion_tokens"] > 350


@pytest.mark.parametrize(
    ("body", "status", "parameter"),
    [
        ({"prompt": "x"}, 400, "body.model"),
        (completion(model="other"), 404, "model"),
        ({"model": "fake-model"}, 400, None),
        (completion(max_tokens=0), 400, "body.max_tokens"),
        (completion(n=2), 400, "body.n"),
        (completion("word " * 512), 400, "input_tokens"),
        (completion(max_tokens=512), 400, "input_tokens"),
        (completion(["one", "two"]), 400, "prompt"),
        (completion([]), 400, "prompt"),
        (completion([49152]), 400, "prompt"),
        (completion(stream_options={"include_usage": True}), 400, None),
    ],
)
def test_bad_request_gets_an_error_body(
    server: RunningFake, body: dict[str, Any], status: int, parameter: str | None
) -> None:
    """What cannot be answered is refused with a status and a body that names the field."""
    answer = httpx.post(f"{server.url}/v1/completions", json=body)
    error = answer.json()["error"]

    assert (answer.status_code, error["code"]) == (status, status)
    assert set(error) == {"message", "type", "param", "code"}
    assert parameter is None or error["param"] == parameter


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nowhere", 404), ("GET", "/tokenize", 405)])
def test_unknown_route_is_refused(server: RunningFake, method: str, path: str, status: int) -> None:
    """A path or a verb that is not there says so."""
    assert httpx.request(method, f"{server.url}{path}").status_code == status


def test_broken_json_is_refused(server: RunningFake) -> None:
    """A body that is no JSON is a bad request, not a crash."""
    answer = httpx.post(f"{server.url}/v1/completions", content=b'{"model": ')

    assert answer.status_code == 400
    assert "JSON" in answer.json()["error"]["message"]


@pytest.mark.parametrize(("k", "share"), [(0, 1.0), (4, 1.0), (7, 1.0), (4, 0.4)])
def test_counters_are_what_the_client_saw(k: int, share: float) -> None:
    """Counters agree with the client's sums and keep vLLM's identities."""
    config = {"method": "ngram", "num_speculative_tokens": k} if k else None
    with fake_vllm(FakeSettings(step_s=0.0005, draft_share=share), speculative_config=config) as running:
        before = counters(running)
        seen = stream_all(running, concurrency=4)
        after = counters(running)
    moved = {name: after[name] - before[name] for name in after}
    tokens = sum(answer.usage["completion_tokens"] for answer in seen)
    decode_events = sum(len(answer.tokens_per_event) - 1 for answer in seen)

    assert max(max(answer.tokens_per_event) for answer in seen) <= 1 + k
    assert moved["generation_tokens_total"] == tokens == sum(sum(answer.tokens_per_event) for answer in seen)
    assert moved["prompt_tokens_total"] == sum(answer.usage["prompt_tokens"] for answer in seen)
    assert moved["request_success_total:length"] == moved["time_to_first_token_seconds_count"] == len(PROMPTS)
    assert moved["e2e_request_latency_seconds_count"] == len(PROMPTS)
    assert moved["inter_token_latency_seconds_count"] == decode_events
    assert (tokens - len(PROMPTS)) / decode_events == 1 if k == 0 else tokens - len(PROMPTS) > decode_events
    if k:
        check_speculation(moved, k=k, share=share, decode_steps=decode_events)
    else:
        assert not [name for name in after if "spec_decode" in name]


def check_speculation(moved: dict[str, float], *, k: int, share: float, decode_steps: int) -> None:
    """Check the identities of the speculation counters."""
    prefix = "spec_decode_num"
    accepted = [moved[f"{prefix}_accepted_tokens_per_pos_total:{position}"] for position in range(k)]
    drafts, draft_tokens = moved[f"{prefix}_drafts_total"], moved[f"{prefix}_draft_tokens_total"]

    assert sum(accepted) == moved[f"{prefix}_accepted_tokens_total"] > 0
    assert accepted == sorted(accepted, reverse=True)
    assert sum(accepted) <= draft_tokens == k * drafts
    assert drafts == decode_steps if share == 1 else 0 < drafts < decode_steps


def test_outputs_do_not_depend_on_speculation_or_batch() -> None:
    """The same prompts get the same texts with and without speculation, one by one and all at once."""
    config = {"method": "ngram", "num_speculative_tokens": 4}
    with fake_vllm(FAST) as off, fake_vllm(FakeSettings(step_s=0.001, seed=5), speculative_config=config) as on:
        texts = [
            [answer.text for answer in stream_all(server, concurrency=concurrency, max_tokens=40)]
            for server, concurrency in ((off, 1), (off, 6), (on, 1), (on, 12))
        ]

    assert texts[0] == texts[1] == texts[2] == texts[3]
    assert len(set(texts[0])) == len(PROMPTS)


def test_requests_beyond_the_batch_limit_wait() -> None:
    """With room for one sequence, all requests are still answered, and the page shows who waits."""
    with (
        fake_vllm(FakeSettings(step_s=0.01), arguments=["--max-num-seqs", "1"]) as narrow,
        concurrent.futures.ThreadPoolExecutor(3) as pool,
    ):
        answers = [pool.submit(stream, narrow, prompt) for prompt in PROMPTS[:3]]
        page = counters(narrow)
        while not page["num_requests_waiting"] and not all(answer.done() for answer in answers):
            page = counters(narrow)
        tokens = [answer.result().usage["completion_tokens"] for answer in answers]

    assert page["num_requests_running"] <= 1 <= page["num_requests_waiting"]
    assert tokens == [24, 24, 24]


def test_log_looks_like_that_of_the_engine(server: RunningFake) -> None:
    """Start-up and requests are logged in uvicorn's words."""
    httpx.get(f"{server.url}/health")

    assert "INFO:     Application startup complete." in server.log()
    assert '"GET /health HTTP/1.1" 200 OK' in server.log()
