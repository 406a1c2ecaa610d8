"""Faults of counters, over HTTP: late, reset, miscounted, moved by somebody else; and several engines."""

from __future__ import annotations

import concurrent.futures
from typing import TYPE_CHECKING

import httpx

from pytest_specgate.testing import FakeSettings, fake_vllm

if TYPE_CHECKING:
    from collections.abc import Callable


def test_case_58_a_page_lags_behind_the_last_byte(
    ask: Callable[..., httpx.Response],
    counters: Callable[[str], dict[str, float]],
    page_when: Callable[..., dict[str, float]],
) -> None:
    """Case 58: the first scrape misses tokens and shows a running request; a later one agrees with the client."""
    with fake_vllm(FakeSettings(counters_late_s=1.5)) as server:
        ask(server)
        first = counters(server.metrics())
        last = page_when(server, lambda page: page["num_requests_running"] == 0)

    assert (first["generation_tokens_total"], first["num_requests_running"]) == (23, 1)
    assert (last["generation_tokens_total"], last["request_success_total:length"]) == (24, 1)


def test_case_46_counters_go_back_to_zero(
    ask: Callable[..., httpx.Response], counters: Callable[[str], dict[str, float]]
) -> None:
    """Case 46: once, after the set number of finished requests, in a process that lives on."""
    with fake_vllm(FakeSettings(reset_after_requests=2)) as server:
        pages = [counters(server.metrics())]
        for _ in range(3):
            ask(server)
            pages.append(counters(server.metrics()))
        truth = server.truth()
    created = [page["generation_tokens_created"] for page in pages]

    assert [page["generation_tokens_total"] for page in pages] == [0, 24, 0, 24]
    assert created[0] == created[1] < created[2] == created[3]
    assert truth.engines[0].output_tokens == 72


def test_case_62_a_good_answer_is_counted_as_aborted(
    ask: Callable[..., httpx.Response], counters: Callable[[str], dict[str, float]]
) -> None:
    """Case 62: the client sees a complete answer, the counter an abort, the truth the answer."""
    with fake_vllm(FakeSettings(abort_after_requests=1)) as server:
        texts = [ask(server).text for _ in range(2)]
        page = counters(server.metrics())
        reasons = [request.finish_reason for request in server.truth().requests]

    assert texts[1].endswith("data: [DONE]\n\n")
    assert '"finish_reason":"length"' in texts[1]
    assert (page["request_success_total:length"], page["request_success_total:abort"]) == (1, 1)
    assert reasons == ["length", "length"]


def test_foreign_requests_come_beside_ours(
    ask: Callable[..., httpx.Response], counters: Callable[[str], dict[str, float]]
) -> None:
    """Tokens that no client asked for are in the counters, and told apart in the truth."""
    with fake_vllm(FakeSettings(foreign_after_requests=1, foreign_output_tokens=7)) as server:
        ask(server)
        alone = counters(server.metrics())
        ask(server)
        page = counters(server.metrics())
        truth = server.truth()

    assert alone["generation_tokens_total"] == 24
    assert page["generation_tokens_total"] == 48 + 7
    assert (len(truth.requests), truth.engines[0].foreign_output_tokens) == (2, 7)


def test_foreign_requests_come_without_ours(page_when: Callable[..., dict[str, float]]) -> None:
    """By the clock, they come to a server that nobody asks anything."""
    with fake_vllm(FakeSettings(foreign_every_s=0.01, foreign_output_tokens=3)) as server:
        page = page_when(server, lambda page: page["request_success_total:length"] >= 2)
        truth = server.truth()

    assert page["generation_tokens_total"] >= 6
    assert truth.requests == ()


def test_prompts_share_blocks_where_caching_is_on(
    ask: Callable[..., httpx.Response], counters: Callable[[str], dict[str, float]]
) -> None:
    """The flag of vLLM turns the cache on; hits are counted in tokens, and the last block is never one."""
    prompt = list(range(64))
    with fake_vllm(arguments=["--enable-prefix-caching", "--block-size", "32"]) as server:
        ask(server, prompt)
        ask(server, [*prompt, 64])
        page = counters(server.metrics())
        text = server.metrics()

    assert (page["prefix_cache_queries_total"], page["prefix_cache_hits_total"]) == (129, 64)
    assert page["prompt_tokens_total"] == page["prompt_tokens_by_source_total"] == 129
    assert page["prompt_tokens_cached_total"] == 64
    assert 'block_size="32"' in text
    assert 'enable_prefix_caching="True"' in text


def test_case_44_engines_have_series_of_their_own(
    ask: Callable[..., httpx.Response], counters: Callable[[str], dict[str, float]]
) -> None:
    """Case 44: requests are spread, and each engine counts its own, by position, too."""
    config = {"num_speculative_tokens": 2}
    environment = {"VLLM_SERVER_DEV_MODE": "1"}
    with (
        fake_vllm(
            speculative_config=config, environment=environment, arguments=["--data-parallel-size", "2"]
        ) as server,
        concurrent.futures.ThreadPoolExecutor(4) as pool,
    ):
        list(pool.map(lambda number: ask(server, f"prompt {number}"), range(8)))
        page, text = counters(server.metrics()), server.metrics()
        info = httpx.get(f"{server.url}/server_info?config_format=json").json()

    assert page["generation_tokens_total"] == 8 * 24
    assert min(page["generation_tokens_total:0"], page["generation_tokens_total:1"]) >= 24
    assert text.count("vllm:spec_decode_num_accepted_tokens_per_pos_total{") == 4
    assert info["vllm_config"]["parallel_config"]["data_parallel_size"] == 2
