"""Reads a vLLM server's pages: metrics, resolved configuration, tokenizer."""

from __future__ import annotations

import json
import math
import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from pytest_specgate.adapters.asking import NO_ANSWER, Asker
from pytest_specgate.core import counters
from pytest_specgate.core.counters import CounterPage, Sample
from pytest_specgate.core.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

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


def parse_page(text: str, *, version: str | None = None, series: Collection[str] = ()) -> CounterPage:
    """Return the wanted series of an exposition page.

    Only lines of wanted series are parsed, so that a line nobody needs can break nothing.

    Args:
        text: the page.
        version: of the server, where it is known.
        series: names of further series that are kept where they can be read; where not, the page says why.

    Raises:
        ScrapeError: the page has no series of vLLM, or a wanted one cannot be read, is twice there, NaN or infinite.
    """
    lines = [line.strip() for line in text.split("\n")]
    if not any(line.startswith("vllm:") for line in lines):
        raise ScrapeError("/metrics has no vllm: series: is this a vLLM server, started without --disable-log-stats?")
    named = [(_NAME.split(line, maxsplit=1)[0], line) for line in lines]
    samples = _samples(line for name, line in named if name in counters.WANTED)
    unreadable: dict[str, str] = {}
    for wanted in sorted(set(series) - counters.WANTED):
        try:
            samples += _samples(line for name, line in named if name == wanted)
        except ScrapeError as error:
            unreadable[wanted] = str(error)
    return CounterPage(samples=samples, version=version, unreadable=unreadable)


def _samples(lines: Iterable[str]) -> tuple[Sample, ...]:
    """Parse lines of series.

    Raises:
        ScrapeError: one cannot be read, is twice there, NaN or infinite.
    """
    wanted = "".join(f"{line}\n" for line in lines)
    try:
        found = [sample for family in text_string_to_metric_families(wanted) for sample in family.samples]
    except ValueError as error:
        raise ScrapeError(f"/metrics cannot be read: {error}") from error
    samples = tuple(_sample(sample.name, dict(sample.labels), float(sample.value)) for sample in found)
    if len({(sample.name, frozenset(sample.labels.items())) for sample in samples}) < len(samples):
        raise ScrapeError("/metrics has a series twice, so no total can be formed")
    return samples


def _sample(name: str, labels: dict[str, str], value: float) -> Sample:
    if not math.isfinite(value):
        raise ScrapeError(f"/metrics says {name} is {value}")
    return Sample(name=name, labels=labels, value=value)


class HttpPages:
    """Port `ServerPages` over HTTP; the environment's proxies are ignored, since servers are local.

    Every page has a connection of its own: a kept one would save little, and costs a scrape when the server closes it
    meanwhile. While a page is waited for, a server that was started here is looked after; all methods raise
    `ServerDiedError` when it leaves.

    Args:
        settle_s: how long to wait for counters to agree with the client, in seconds.
        series: names of the series that are kept besides those that every record has.
    """

    def __init__(self, *, settle_s: float = _SETTLE_S, series: Collection[str] = ()) -> None:
        self._settle_s = settle_s
        self._series = series

    def counters(self, server: Server) -> CounterPage:
        """Scrape ``/metrics`` once."""
        return self._page(server, version=self._version(server))

    def _page(self, server: Server, *, version: str | None) -> CounterPage:
        return parse_page(self._text(server, "/metrics"), version=version, series=self._series)

    def _version(self, server: Server) -> str | None:
        """Return the server's version, for messages; a server that does not tell it lacks nothing else."""
        try:
            version = self._json(server, "/version").get("version")
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
        return self._json(server, "/server_info?config_format=json")

    def tokenize(self, server: Server, text: str, extra: Mapping[str, JsonValue]) -> list[int]:
        """Return the token ids of a text, special tokens included unless `extra` says otherwise."""
        return self._tokens(server, {"model": server.model, "prompt": text, **_steering(extra, _TEXT_FIELDS)})

    def tokenize_chat(self, server: Server, messages: Sequence[JsonValue], extra: Mapping[str, JsonValue]) -> list[int]:
        """Return the token ids that a conversation becomes through the chat template."""
        steering = _steering(extra, _TEMPLATE_FIELDS)
        return self._tokens(server, {"model": server.model, "messages": list(messages), **steering})

    def _tokens(self, server: Server, body: dict[str, JsonValue]) -> list[int]:
        tokens = self._json(server, "/tokenize", body=body).get("tokens")
        if not isinstance(tokens, list):
            raise ScrapeError("/tokenize answered without tokens")
        return tokens

    def _json(self, server: Server, path: str, *, body: JsonValue = None) -> dict[str, Any]:
        text, name = self._text(server, path, body=body), path.partition("?")[0]
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ScrapeError(f"{name} did not answer JSON: {_quoted(server, text)}") from error
        if not isinstance(found, dict):
            raise ScrapeError(f"{name} did not answer a JSON object: {_quoted(server, text)}")
        return found

    def _text(self, server: Server, path: str, *, body: JsonValue = None) -> str:
        asker = Asker(
            server.url, whose="its server", gone=lambda: _gone(server), cleaned=server.cleaned, silence_s=_TIMEOUT_S
        )
        try:
            answer = asker.ask(path, body=body, limit_s=_TIMEOUT_S)
        except NO_ANSWER as error:
            raise ScrapeError(f"{path} cannot be had: {type(error).__name__} {error}") from error
        if answer.status != HTTPStatus.OK:
            raise ScrapeError(f"{path} answered HTTP {answer.status}: {_quoted(server, answer.text)}")
        return answer.text


def _gone(server: Server) -> bool:
    """Raise `ServerDiedError` if a server has left; an attached one is left alone: asking it would be load."""
    if not server.attached:
        server.ensure_alive()
    return False


def _steering(extra: Mapping[str, JsonValue], fields: frozenset[str]) -> dict[str, JsonValue]:
    return {name: value for name, value in extra.items() if name in fields}


def _quoted(server: Server, text: str) -> str:
    return repr(server.cleaned(text)[:200])


def _settled(page: CounterPage, *, before: CounterPage, output_tokens: int) -> bool:
    busy = sum(page.total(gauge) for gauge in counters.GAUGES if page.has(gauge))
    generated = page.total(counters.GENERATION_TOKENS) - before.total(counters.GENERATION_TOKENS)
    # A counter never falls: more than was asked for is for the judge to see, and not to be waited out.
    return busy == 0 and generated >= output_tokens
