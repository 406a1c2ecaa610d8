"""The programmable faults of the fake vLLM, and how its process ends."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

from pytest_specgate.core.errors import ServerStartError
from pytest_specgate.testing import FakeSettings, RunningFake, fake_vllm

if TYPE_CHECKING:
    from collections.abc import Callable


def post(server: RunningFake, **fields: Any) -> httpx.Response:
    """Ask for 24 tokens, streamed unless told otherwise."""
    body = {"model": "fake-model", "prompt": "Hello there", "max_tokens": 24, "ignore_eos": True, "stream": True}
    return httpx.post(f"{server.url}/v1/completions", json={**body, **fields})


def read_stream(server: RunningFake, take: Callable[[bytes], object], *, max_tokens: int = 24) -> None:
    """Stream an answer and hand each read on as it comes."""
    body = {"model": "fake-model", "prompt": "x", "max_tokens": max_tokens, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{server.url}/v1/completions", json=body) as answer:
        for data in answer.iter_bytes():
            take(data)


def events(text: str) -> list[Any]:
    """Decode the events of a stream that lie before its end mark."""
    lines = text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def test_exit_at_start_leaves_with_code_and_message() -> None:
    """A server told to fail leaves before it listens; whoever started it hears code and message."""
    settings = FakeSettings(exit_at_start=3, exit_message="RuntimeError: no device", boot_s=1000)
    with pytest.raises(ServerStartError, match=r"exit code 3.*no device") as caught, fake_vllm(settings):
        pass

    assert caught.value.exit_code == 3
    assert caught.value.log_tail == "RuntimeError: no device\n"


def test_bad_flag_stops_the_start() -> None:
    """A usage error of the command line is reported with its reason."""
    with (
        pytest.raises(ServerStartError, match="num_speculative_tokens"),
        fake_vllm(speculative_config={"method": "ngram"}),
    ):
        pass


def test_taken_port_stops_the_start() -> None:
    """An address that is in use ends the server with code 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerStartError) as caught, fake_vllm(arguments=["--port", str(port)]):
            pass

    assert caught.value.exit_code == 1


def test_late_readiness_refuses_completions_only() -> None:
    """Until it is ready, a server lists its model but answers completions with 503."""
    with fake_vllm(FakeSettings(ready_after_s=1000)) as server:
        models = httpx.get(f"{server.url}/v1/models").json()
        answer = post(server)

    assert models["data"][0]["id"] == "fake-model"
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == 503


def test_ready_server_answers() -> None:
    """A server that was late becomes ready."""
    with fake_vllm(FakeSettings(ready_after_s=0.05, boot_s=0.05)) as server:
        answer = post(server)
        while answer.status_code == 503:
            answer = post(server)

    assert answer.status_code == 200


def test_extra_prompt_tokens_show_in_usage_and_counters() -> None:
    """A server that counts prompts differently does so in the usage and in its counters, not in ``/tokenize``."""
    with fake_vllm(FakeSettings(extra_prompt_tokens=5)) as server:
        count = httpx.post(f"{server.url}/tokenize", json={"prompt": "Hello there"}).json()["count"]
        usage = post(server, stream=False).json()["usage"]
        page = httpx.get(f"{server.url}/metrics").text

    assert usage["prompt_tokens"] == count + 5
    assert f'vllm:prompt_tokens_total{{engine="0",model_name="fake-model"}} {count + 5:.1f}' in page


def test_programmed_stop_ignores_the_request() -> None:
    """An answer stops early although the request forbade it."""
    with fake_vllm(FakeSettings(stop_after_tokens=5)) as server:
        body = post(server, stream=False, min_tokens=24).json()

    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["completion_tokens"] == 5


def test_inactive_speculation_shows_zero_drafts() -> None:
    """Speculation may be configured and visible, and yet nothing is drafted."""
    config = {"method": "ngram", "num_speculative_tokens": 4}
    with fake_vllm(FakeSettings(never_draft=True), speculative_config=config) as server:
        tokens = len(events(post(server).text))
        page = httpx.get(f"{server.url}/metrics").text

    assert tokens == 24
    assert 'vllm:spec_decode_num_drafts_total{engine="0",model_name="fake-model"} 0.0' in page
    assert page.count("vllm:spec_decode_num_accepted_tokens_per_pos_total{") == 4


@pytest.mark.parametrize(("config", "claimed"), [({"num_speculative_tokens": 4}, 7), (None, None)])
def test_reported_k_may_differ_from_the_truth(config: dict[str, Any] | None, claimed: int | None) -> None:
    """The configuration page can claim another k; without speculation there is nothing to claim."""
    with fake_vllm(
        FakeSettings(report_k=7), speculative_config=config, environment={"VLLM_SERVER_DEV_MODE": "1"}
    ) as server:
        info = httpx.get(f"{server.url}/server_info?config_format=json").json()
    speculative = info["vllm_config"]["speculative_config"]

    assert (speculative and speculative["num_speculative_tokens"]) == claimed


@pytest.mark.parametrize(
    ("config", "lost", "told"),
    [({"num_speculative_tokens": 4}, True, False), ({"num_speculative_tokens": 4}, False, True), (None, True, True)],
)
def test_speculation_may_change_another_setting(config: dict[str, Any] | None, *, lost: bool, told: bool) -> None:
    """The configuration page tells synchronous scheduling under speculation only, and only where it is programmed."""
    settings = FakeSettings(sync_under_speculation=lost)
    with fake_vllm(settings, speculative_config=config, environment={"VLLM_SERVER_DEV_MODE": "1"}) as server:
        info = httpx.get(f"{server.url}/server_info?config_format=json").json()

    assert info["vllm_config"]["scheduler_config"]["async_scheduling"] is told


def test_death_cuts_a_stream() -> None:
    """After the set number of requests the process dies with code 1 in the middle of the next stream."""
    with fake_vllm(FakeSettings(die_after_requests=1)) as server:
        complete = events(post(server).text)
        received = bytearray()
        with pytest.raises(httpx.RemoteProtocolError):
            read_stream(server, received.extend)
        exit_code = server.process.wait(10)

    assert len(complete) == 24
    assert 1 <= received.count(b"data: ") < 24
    assert b"[DONE]" not in received
    assert exit_code == 1


def test_engine_error_is_told_in_the_stream() -> None:
    """After the set number of requests a stream brings one token, then an error event, then its end mark."""
    with fake_vllm(FakeSettings(error_after_requests=1)) as server:
        healthy = events(post(server).text)
        broken = [events(post(server).text) for _ in range(2)]
        whole = post(server, stream=False)
        page = httpx.get(f"{server.url}/metrics").text

    assert len(healthy) == 24
    for stream in broken:
        assert [list(event)[-1] for event in stream] == ["choices", "error"]
        assert stream[1]["error"]["code"] == 500
        assert stream[1]["error"]["type"] == "InternalServerError"
    assert whole.status_code == whole.json()["error"]["code"] == 500
    assert 'finished_reason="error",model_name="fake-model"} 3.0' in page


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_process_cleanly(number: signal.Signals) -> None:
    """A signal ends the server with code 0, in the middle of a stream too, and leaves no process behind."""
    with fake_vllm(FakeSettings(step_s=0.02)) as server:
        with pytest.raises(httpx.TransportError):
            read_stream(server, lambda _: server.process.send_signal(number), max_tokens=2000)
        exit_code = server.process.wait(10)
        log = server.log()

    assert exit_code == 0
    assert not psutil.pid_exists(server.pid)
    assert "Application shutdown complete." in log
    assert "Traceback" not in log


def test_signal_ends_a_booting_server() -> None:
    """A server that does not listen yet can be stopped as well."""
    command = [sys.executable, "-m", "pytest_specgate.testing.fake_vllm", "--fake", '{"boot_s": 1000}']
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        printed = [process.stderr.readline() for _ in range(2)]
        process.terminate()
        printed.append(process.stderr.read())

    assert printed[1:] == ["INFO:     Waiting for application startup.\n", ""]
    assert process.returncode == 0


def test_leaving_the_block_stops_the_server() -> None:
    """The context manager leaves no process, after an error in its block too."""
    with contextlib.suppress(ZeroDivisionError), fake_vllm() as server:
        _ = 1 / 0

    assert server.process.returncode == 0
    assert not psutil.pid_exists(server.pid)
