"""Reads a vLLM server's pages: metrics, resolved configuration, tokenizer."""

from __future__ import annotations

import math
import re
import time
from typing import TYPE_CHECKING, Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from pytest_specgate.core import counters
from pytest_specgate.core.counters import CounterPage, Sample
from pytest_specgate.core.errors import ScrapeError
from pytest_specgate.core.records import redacted_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.ports import Server

_TIMEOUT_S = 30.0
_SETTLE_S = 5.0
_SETTLE_PAUSE_S = 0.1
_TEXT_FIELDS = frozenset({"add_special_tokens"})
"""Fields of a completions request that change what its prompt becomes."""
_TEMPLATE_FIELDS = frozenset(
    {
        "add_generation_prompt",
        "continue_final_message",
        "add_special_tokens",
        "chat_template",
        "chat_template_kwargs",
        "tools",
    }
)
"""Fields of a chat request that change what its messages become."""
_NAME = re.compile(r"[{\s]")


def parse_page(text: str, *, version: str | None = None) -> CounterPage:
    """Return the wanted series of an exposition page.

    Only lines of wanted series are parsed, so that a line nobody needs can break nothing.

    Args:
        text: the page.
        version: of the server, where it is known.

    Raises:
        ScrapeError: the page has no series of vLLM, or a wanted one cannot be read, is twice there, NaN or infinite.
    """
    lines = [line.strip() for line in text.split("\n")]
    if not any(line.startswith("vllm:") for line in lines):
        raise ScrapeError("/metrics has no vllm: series: is this a vLLM server, started without --disable-log-stats?")
    wanted = "".join(f"{line}\n" for line in lines if _NAME.split(line, maxsplit=1)[0] in counters.WANTED)
    try:
        found = [sample for family in text_string_to_metric_families(wanted) for sample in family.samples]
    except ValueError as error:
        raise ScrapeError(f"/metrics cannot be read: {error}") from error
    samples = tuple(_sample(sample.name, dict(sample.labels), float(sample.value)) for sample in found)
    if len({(sample.name, frozenset(sample.labels.items())) for sample in samples}) < len(samples):
        raise ScrapeError("/metrics has a series twice, so no total can be formed")
    return CounterPage(samples=samples, version=version)


def _sample(name: str, labels: dict[str, str], value: float) -> Sample:
    if not math.isfinite(value):
        raise ScrapeError(f"/metrics says {name} is {value}")
    return Sample(name=name, labels=labels, value=value)


class HttpPages:
    """Port `ServerPages` over HTTP; the environment's proxies are ignored, since servers are local.

    Args:
        settle_s: how long to wait for counters to agree with the client, in seconds.
    """

    def __init__(self, *, settle_s: float = _SETTLE_S) -> None:
        self._settle_s = settle_s
        # Kept connections would save little, and one that the server closes meanwhile costs a scrape.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.Client(trust_env=False, timeout=_TIMEOUT_S, limits=limits)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def counters(self, server: Server) -> CounterPage:
        """Scrape ``/metrics`` once."""
        return self._page(server, version=self._version(server))

    def _page(self, server: Server, *, version: str | None) -> CounterPage:
        return parse_page(self._get(server, "/metrics").text, version=version)

    def _version(self, server: Server) -> str | None:
        """Return the server's version, for messages; a server that does not tell it lacks nothing else."""
        try:
            version = self._json(self._get(server, "/version")).get("version")
        except ScrapeError:
            return None
        return version if isinstance(version, str) else None

    def settled_counters(self, server: Server, *, before: CounterPage, output_tokens: int) -> CounterPage:
        """Scrape until nothing runs and the tokens since `before` agree with the client's, for a bounded time."""
        deadline = time.monotonic() + self._settle_s
        while True:
            page = self._page(server, version=before.version)
            if _settled(page, before=before, output_tokens=output_tokens) or time.monotonic() > deadline:
                return page
            time.sleep(_SETTLE_PAUSE_S)

    def resolved_config(self, server: Server) -> dict[str, JsonValue]:
        """Return ``vllm_config`` as the server resolved it."""
        config = self._server_info(server).get("vllm_config")
        if not isinstance(config, dict):
            raise ScrapeError("/server_info has no vllm_config: this vLLM is too old for config_format=json")
        return config

    def resolved_environment(self, server: Server) -> dict[str, JsonValue]:
        """Return ``vllm_env`` as the server resolved it; empty if it does not tell."""
        environment = self._server_info(server).get("vllm_env")
        return environment if isinstance(environment, dict) else {}

    def _server_info(self, server: Server) -> dict[str, Any]:
        return self._json(self._get(server, "/server_info?config_format=json"))

    def tokenize(self, server: Server, text: str, extra: Mapping[str, JsonValue]) -> list[int]:
        """Return the token ids of a text, special tokens included unless `extra` says otherwise."""
        return self._tokens(server, {"model": server.model, "prompt": text, **_steering(extra, _TEXT_FIELDS)})

    def tokenize_chat(self, server: Server, messages: Sequence[JsonValue], extra: Mapping[str, JsonValue]) -> list[int]:
        """Return the token ids that a conversation becomes through the chat template."""
        steering = _steering(extra, _TEMPLATE_FIELDS)
        return self._tokens(server, {"model": server.model, "messages": list(messages), **steering})

    def _tokens(self, server: Server, body: dict[str, JsonValue]) -> list[int]:
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
            raise ScrapeError(f"{path} answered HTTP {response.status_code}: {_quoted(response)}")
        return response

    def _json(self, response: httpx.Response) -> dict[str, Any]:
        try:
            body = response.json()
        except ValueError as error:
            raise ScrapeError(f"{response.url.path} did not answer JSON: {_quoted(response)}") from error
        if not isinstance(body, dict):
            raise ScrapeError(f"{response.url.path} did not answer a JSON object: {_quoted(response)}")
        return body


def _steering(extra: Mapping[str, JsonValue], fields: frozenset[str]) -> dict[str, JsonValue]:
    return {name: value for name, value in extra.items() if name in fields}


def _quoted(response: httpx.Response) -> str:
    return repr(redacted_text(response.text)[:200])


def _settled(page: CounterPage, *, before: CounterPage, output_tokens: int) -> bool:
    busy = sum(page.total(gauge) for gauge in counters.GAUGES if page.has(gauge))
    generated = page.total(counters.GENERATION_TOKENS) - before.total(counters.GENERATION_TOKENS)
    # A counter never falls: more than was asked for is for the judge to see, and not to be waited out.
    return busy == 0 and generated >= output_tokens


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    _Send: TypeAlias = Callable[[str], httpx.Response]
