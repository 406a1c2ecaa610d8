"""Reads a vLLM server's pages: metrics, resolved configuration, tokenizer."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from pytest_specgate.core import counters
from pytest_specgate.core.counters import CounterPage, Sample
from pytest_specgate.core.errors import ScrapeError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from pytest_specgate.core.ports import Server

_TIMEOUT_S = 30.0
_SETTLE_S = 5.0
_SETTLE_PAUSE_S = 0.1


def parse_page(text: str) -> CounterPage:
    """Return the wanted series of an exposition page.

    Raises:
        ScrapeError: the text cannot be parsed, has no series of vLLM, or a wanted value is NaN or infinite.
    """
    try:
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    except ValueError as error:
        raise ScrapeError(f"/metrics cannot be read: {error}") from error
    if not any(sample.name.startswith("vllm:") for sample in samples):
        raise ScrapeError("/metrics has no vllm: series: is this a vLLM server, started without --disable-log-stats?")
    wanted = [sample for sample in samples if sample.name in counters.WANTED]
    for sample in wanted:
        if not math.isfinite(sample.value):
            raise ScrapeError(f"/metrics says {sample.name} is {sample.value}")
    return CounterPage(
        samples=tuple(Sample(name=sample.name, labels=dict(sample.labels), value=sample.value) for sample in wanted)
    )


class HttpPages:
    """Port `ServerPages` over HTTP; the environment's proxies are ignored, since servers are local.

    Args:
        settle_s: how long to wait for counters to agree with the client, in seconds.
    """

    def __init__(self, *, settle_s: float = _SETTLE_S) -> None:
        self._settle_s = settle_s
        self._client = httpx.Client(trust_env=False, timeout=_TIMEOUT_S)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def counters(self, server: Server) -> CounterPage:
        """Scrape ``/metrics`` once."""
        return parse_page(self._get(server, "/metrics").text)

    def settled_counters(self, server: Server, *, before: CounterPage, output_tokens: int) -> CounterPage:
        """Scrape until nothing runs and the tokens since `before` agree with the client's, for a bounded time."""
        deadline = time.monotonic() + self._settle_s
        while True:
            page = self.counters(server)
            if _settled(page, before=before, output_tokens=output_tokens) or time.monotonic() > deadline:
                return page
            time.sleep(_SETTLE_PAUSE_S)

    def resolved_config(self, server: Server) -> dict[str, JsonValue]:
        """Return ``vllm_config`` as the server resolved it."""
        body = self._json(self._get(server, "/server_info?config_format=json"))
        config = body.get("vllm_config")
        if not isinstance(config, dict):
            raise ScrapeError("/server_info has no vllm_config: this vLLM is too old for config_format=json")
        return config

    def tokenize(self, server: Server, text: str) -> list[int]:
        """Return the token ids of a text, special tokens included."""
        body = {"model": server.model, "prompt": text}
        answer = self._checked(server, "/tokenize", lambda url: self._client.post(url, json=body))
        tokens = self._json(answer).get("tokens")
        if not isinstance(tokens, list):
            raise ScrapeError("/tokenize answered without tokens")
        return tokens

    def _get(self, server: Server, path: str) -> httpx.Response:
        return self._checked(server, path, self._client.get)

    def _checked(self, server: Server, path: str, send: _Send) -> httpx.Response:
        try:
            response = send(server.url + path)
        except httpx.HTTPError as error:
            raise ScrapeError(f"{path} cannot be had: {type(error).__name__} {error}") from error
        if response.status_code != httpx.codes.OK:
            raise ScrapeError(f"{path} answered HTTP {response.status_code}: {response.text[:200]!r}")
        return response

    def _json(self, response: httpx.Response) -> dict[str, Any]:
        try:
            body = response.json()
        except ValueError as error:
            raise ScrapeError(f"{response.url.path} did not answer JSON: {response.text[:80]!r}") from error
        if not isinstance(body, dict):
            raise ScrapeError(f"{response.url.path} did not answer a JSON object: {response.text[:80]!r}")
        return body


def _settled(page: CounterPage, *, before: CounterPage, output_tokens: int) -> bool:
    running = page.total(counters.RUNNING) if page.has(counters.RUNNING) else 0
    generated = page.total(counters.GENERATION_TOKENS) - before.total(counters.GENERATION_TOKENS)
    return running == 0 and generated == output_tokens


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    _Send: TypeAlias = Callable[[str], httpx.Response]
