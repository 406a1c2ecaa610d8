"""The truth of a running fake, and the memory it takes."""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pytest_specgate.core.errors import ServerDiedError
from pytest_specgate.testing import FakeSettings, FakeTruth, RunningFake, SimulatedRequest, fake_vllm, simulate
from pytest_specgate.testing.readings import Tally
from pytest_specgate.testing.truth_log import TruthLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SPECULATION = {"method": "ngram", "num_speculative_tokens": 4}
SETTINGS = FakeSettings(step_s=0.001, draft_share=0.7, draft_lengths=(4, 4, 2))


@pytest.fixture(scope="module")
def server() -> Iterator[RunningFake]:
    """A healthy server with two engines and speculation."""
    with fake_vllm(SETTINGS, speculative_config=SPECULATION, arguments=["--data-parallel-size", "2"]) as running:
        yield running


def stamped_events(server: RunningFake, body: bytes) -> tuple[float, list[float], float]:
    """Stream an answer; return the time before the send, that of each read's end, and that of the end."""
    received, reads, sent_s = b"", list[float](), time.perf_counter()
    headers = {"content-type": "application/json"}
    with httpx.stream("POST", f"{server.url}/v1/completions", content=body, headers=headers) as answer:
        for data in answer.iter_raw():
            received += data
            reads += [time.perf_counter()] * (received.count(b'"choices":[{') - len(reads))
    return sent_s, reads, time.perf_counter()


def test_monotonic_and_perf_counter_are_one_clock() -> None:
    """What the documentation says of the clock holds here."""
    names = {time.get_clock_info(name).implementation for name in ("monotonic", "perf_counter")}

    assert names == {"clock_gettime(CLOCK_MONOTONIC)"}


def test_times_lie_between_those_of_the_client(server: RunningFake) -> None:
    """A client on the same machine sent before the arrival and read each event after it was written."""
    known = server.truth().requests
    body = json.dumps(
        {"model": "fake-model", "prompt": "some words", "max_tokens": 24, "ignore_eos": True, "stream": True}
    ).encode()
    sent_s, reads, end_s = stamped_events(server, body)
    (request,) = server.truth(after=len(known)).requests
    written = list(request.event_times_s)

    assert request.number == len(known) + 1
    assert request.body_sha256 == hashlib.sha256(body).hexdigest()
    assert sent_s <= request.arrived_s <= written[0]
    assert written == sorted(written)
    assert len(written) == len(reads) == 1 + request.decode_steps
    assert all(write_s <= read_s for write_s, read_s in zip(written, reads, strict=True))
    assert reads[-1] <= end_s


def test_events_and_tokens_are_those_the_client_saw(server: RunningFake, ask: Callable[..., httpx.Response]) -> None:
    """Tokens by event agree with the running usage of the stream."""
    after = len(server.truth().requests)
    options = {"include_usage": True, "continuous_usage_stats": True}
    lines = ask(server, "running usage", stream_options=options).text.split("\n\n")[:-3]
    totals = [0, *(json.loads(line.removeprefix("data: "))["usage"]["completion_tokens"] for line in lines)]
    (request,) = server.truth(after=after).requests

    assert list(request.event_tokens) == [b - a for a, b in itertools.pairwise(totals)]
    assert request.finish_reason == "length"


def test_an_answer_in_one_body_has_no_events(server: RunningFake, ask: Callable[..., httpx.Response]) -> None:
    """Its tokens are known all the same."""
    after = len(server.truth().requests)
    ask(server, stream=False)
    (request,) = server.truth(after=after).requests

    assert (request.event_times_s, request.event_tokens, request.output_tokens) == ((), (), 24)


def test_engines_have_their_share(
    server: RunningFake, ask: Callable[..., httpx.Response], counters: Callable[[str], dict[str, float]]
) -> None:
    """Each engine's totals are those of its requests, and those under its label."""
    for number in range(4):
        ask(server, f"a prompt, number {number}")
    truth, page = server.truth(), counters(server.metrics())

    for engine in truth.engines:
        mine = [request for request in truth.requests if request.engine == engine.engine]
        assert len(mine) == engine.requests >= 2
        assert engine.output_tokens == sum(request.output_tokens for request in mine)
        assert engine.output_tokens == page[f"generation_tokens_total:{engine.engine}"]
        assert engine.drafts == sum(request.drafts for request in mine)
        assert engine.drafts == page[f"spec_decode_num_drafts_total:{engine.engine}"] > 0
    assert [engine.engine for engine in truth.engines] == [0, 1]


def test_the_page_is_json_with_a_version(server: RunningFake) -> None:
    """Whoever does not use Python reads the same."""
    answer = httpx.get(f"{server.url}/fake/truth?after=1000000")

    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["schema_version"] == 1
    assert (answer.json()["clock"], answer.json()["requests"]) == ("monotonic", [])
    assert FakeTruth.model_validate_json(answer.text).taken_s > 0


@pytest.mark.parametrize("after", ["x", "-1", ""])
def test_a_bad_number_is_refused(server: RunningFake, after: str) -> None:
    """The question is answered with an error, not with everything."""
    answer = httpx.get(f"{server.url}/fake/truth?after={after or '%20'}")

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "after"


def test_server_and_simulation_agree(ask: Callable[..., httpx.Response]) -> None:
    """The same prompts draft and accept the same on made-up time; only times differ."""
    settings = SETTINGS.model_copy(update={"prefix_caching": True})
    prompts = [f"number {number}, and then some more words so that it takes several blocks" for number in (1, 2, 1)]
    with fake_vllm(settings, speculative_config=SPECULATION) as running:
        for prompt in prompts:
            ask(running, prompt)
        served = running.truth()
    requests = [SimulatedRequest(prompt, 24) for prompt in prompts]
    simulated = simulate(settings, requests=requests, concurrency=1, draft_tokens=4).truth

    def timeless(truth: FakeTruth) -> tuple[list[Any], list[Any]]:
        left_out = {"arrived_s", "event_times_s", "body_sha256"}
        rows = [request.model_dump(exclude=left_out) for request in truth.requests]
        return rows, [engine.model_dump(exclude={"busy_s"}) for engine in truth.engines]

    assert timeless(served) == timeless(simulated)
    assert [request.cached_prompt_tokens for request in served.requests] == [0, 0, 16]


def test_a_stopped_server_leaves_its_truth(tmp_path: Path, ask: Callable[..., httpx.Response]) -> None:
    """Where a folder is set, the truth of a server that somebody else started can be read afterwards."""
    with fake_vllm(FakeSettings(truth_folder=str(tmp_path))) as running:
        ask(running)
        asked = running.truth()
    (path,) = tmp_path.iterdir()
    left = FakeTruth.model_validate_json(path.read_text(encoding="utf-8"))

    assert path.name == f"truth-{running.pid}.json"
    assert left.requests == asked.requests


def test_a_dead_server_has_no_truth(ask: Callable[..., httpx.Response]) -> None:
    """Asking a crashed server is an error that shows how it ended."""
    with fake_vllm(FakeSettings(die_after_requests=0)) as running:
        with pytest.raises(httpx.RemoteProtocolError):
            ask(running)
        running.process.wait(10)
        with pytest.raises(ServerDiedError, match="does not answer /metrics any more") as caught:
            running.metrics()

    assert caught.value.exit_code == 1
    assert "dies as programmed" in caught.value.log_tail


def fill(log: TruthLog, events: list[int]) -> None:
    """Write requests with so many token events each."""
    for number in events:
        entry = log.open(body_sha256=None, engine=0, arrived_s=0.0, tally=Tally(1))
        for _ in range(number):
            log.wrote(entry, at_s=1.0, tokens=1)


def listed(log: TruthLog, after: int = 0) -> tuple[int, list[int]]:
    """Return how many requests are forgotten, and the numbers of those listed."""
    truth = log.truth([], clock="virtual", now_s=0.0, after=after)
    return truth.forgotten_requests, [request.number for request in truth.requests]


def test_old_requests_are_forgotten() -> None:
    """Beyond the limit of requests the oldest go, and numbers stay what they were."""
    log = TruthLog(most_requests=3)
    fill(log, [1] * 5)

    assert listed(log) == (2, [3, 4, 5])
    assert listed(log, after=1) == (2, [3, 4, 5])
    assert listed(log, after=4) == (2, [5])
    assert listed(log, after=9) == (2, [])


def test_many_events_are_forgotten() -> None:
    """The limit of token events holds over all requests; those of a forgotten one are counted no more."""
    log = TruthLog(most_events=10)
    first = log.open(body_sha256=None, engine=0, arrived_s=0.0, tally=Tally(1))
    for _ in range(11):
        log.wrote(first, at_s=1.0, tokens=1)
    fill(log, [5])
    log.wrote(first, at_s=2.0, tokens=1)
    fill(log, [5, 1, 0])

    assert listed(log) == (2, [3, 4, 5])
