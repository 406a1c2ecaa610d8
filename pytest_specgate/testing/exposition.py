"""The page ``/metrics``: families, labels and number format as vLLM prints them."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_specgate.testing.engine import Engine
    from pytest_specgate.testing.readings import Histogram

    Labels = Mapping[str, str]
    Reader = Callable[[Engine], Iterable[tuple[Labels, float]]]

KV_CACHE_TOKENS: Final = 93184
"""Tokens for which the fake claims to have room in its key-value cache."""

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def _plain(read: Callable[[Engine], float]) -> Reader:
    return lambda engine: [({}, read(engine))]


def _accepted_by_position(engine: Engine) -> list[tuple[Labels, float]]:
    return [({"position": str(i)}, accepted) for i, accepted in enumerate(engine.readings.accepted_per_position)]


def _finished_by_reason(engine: Engine) -> list[tuple[Labels, float]]:
    return [({"finished_reason": reason}, number) for reason, number in engine.readings.finished.items()]


def _prompt_tokens_by_source(engine: Engine) -> list[tuple[Labels, float]]:
    cached = engine.readings.cached_prompt_tokens
    return [
        ({"source": "local_compute"}, engine.readings.prompt_tokens - cached),
        ({"source": "local_cache_hit"}, cached),
        ({"source": "external_kv_transfer"}, 0),
    ]


def _cache_usage(engine: Engine) -> float:
    return min(1.0, sum(sequence.held_tokens for sequence in engine.running) / KV_CACHE_TOKENS)


_SPECULATION: Final[tuple[tuple[str, str, Reader], ...]] = (
    (
        "vllm:spec_decode_num_drafts",
        "Number of spec decoding drafts.",
        _plain(lambda engine: engine.readings.drafts),
    ),
    (
        "vllm:spec_decode_num_draft_tokens",
        "Number of draft tokens.",
        _plain(lambda engine: engine.readings.draft_tokens),
    ),
    (
        "vllm:spec_decode_num_accepted_tokens",
        "Number of accepted tokens.",
        _plain(lambda engine: engine.readings.accepted_tokens),
    ),
    (
        "vllm:spec_decode_num_accepted_tokens_per_pos",
        "Accepted tokens per draft position.",
        _accepted_by_position,
    ),
)
_GAUGES: Final[tuple[tuple[str, str, Reader], ...]] = (
    (
        "vllm:num_requests_running",
        "Number of requests in model execution batches.",
        _plain(lambda engine: engine.shown_running),
    ),
    (
        "vllm:num_requests_waiting",
        "Number of requests waiting to be processed.",
        _plain(lambda engine: len(engine.waiting)),
    ),
    (
        "vllm:kv_cache_usage_perc",
        "KV-cache usage. 1 means 100 percent usage.",
        _plain(_cache_usage),
    ),
)
# The fake never preempts: that family is there and stays at zero.
_COUNTERS: Final[tuple[tuple[str, str, Reader], ...]] = (
    (
        "vllm:prefix_cache_queries",
        "Prefix cache queries, in terms of number of queried tokens.",
        _plain(lambda engine: engine.readings.prefix_queries),
    ),
    (
        "vllm:prefix_cache_hits",
        "Prefix cache hits, in terms of number of cached tokens.",
        _plain(lambda engine: engine.readings.prefix_hits),
    ),
    (
        "vllm:num_preemptions",
        "Cumulative number of preemption from the engine.",
        _plain(lambda _: 0),
    ),
    (
        "vllm:prompt_tokens",
        "Number of prefill tokens processed.",
        _plain(lambda engine: engine.readings.prompt_tokens),
    ),
    (
        "vllm:prompt_tokens_by_source",
        "Number of prompt tokens by source.",
        _prompt_tokens_by_source,
    ),
    (
        "vllm:prompt_tokens_cached",
        "Number of cached prompt tokens (local + external).",
        _plain(lambda engine: engine.readings.cached_prompt_tokens),
    ),
    (
        "vllm:generation_tokens",
        "Number of generation tokens processed.",
        _plain(lambda engine: engine.readings.generation_tokens),
    ),
    (
        "vllm:request_success",
        "Count of successfully processed requests.",
        _finished_by_reason,
    ),
)
_HISTOGRAMS: Final[tuple[tuple[str, str, Callable[[Engine], Histogram]], ...]] = (
    (
        "vllm:iteration_tokens_total",
        "Histogram of number of tokens per engine_step.",
        lambda engine: engine.readings.iteration_tokens,
    ),
    (
        "vllm:time_to_first_token_seconds",
        "Histogram of time to first token in seconds.",
        lambda engine: engine.readings.first_tokens_s,
    ),
    (
        "vllm:inter_token_latency_seconds",
        "Histogram of inter-token latency in seconds.",
        lambda engine: engine.readings.steps_s,
    ),
    (
        "vllm:e2e_request_latency_seconds",
        "Histogram of e2e request latency in seconds.",
        lambda engine: engine.readings.requests_s,
    ),
    (
        "vllm:request_queue_time_seconds",
        "Histogram of time spent in WAITING phase for request.",
        lambda engine: engine.readings.queued_s,
    ),
)


def metrics_page(
    engines: Sequence[Engine], *, model_name: str, created_s: float, cache_config: Mapping[str, Any]
) -> str:
    """Return the text of the page.

    Args:
        engines: the engines of the server; the position of one is its ``engine`` label.
        model_name: name under which the model is served.
        created_s: unix time at which the counters were created.
        cache_config: leaves of the cache configuration, shown as labels of ``vllm:cache_config_info``.
    """
    page = _Page(engines, model_name=model_name, created_s=created_s)
    if any(engine.draft_tokens for engine in engines):
        for family in _SPECULATION:
            page.counter(*family)
    for family in _GAUGES:
        page.gauge(*family)
    for family in _COUNTERS:
        page.counter(*family)
    for name, text, read in _HISTOGRAMS:
        page.histogram(name, text, read)
    page.information("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", cache_config)
    return "".join(f"{line}\n" for line in page.lines)


class _Page:
    """Lines of the page, in the making."""

    def __init__(self, engines: Sequence[Engine], *, model_name: str, created_s: float) -> None:
        self.lines: list[str] = []
        self._created_s = created_s
        self._engines = [
            ({"engine": str(number), "model_name": model_name}, engine) for number, engine in enumerate(engines)
        ]

    def gauge(self, name: str, text: str, read: Reader) -> None:
        self._family(name, text, "gauge")
        self._samples(name, read)

    def counter(self, name: str, text: str, read: Reader) -> None:
        self._family(f"{name}_total", text, "counter")
        self._samples(f"{name}_total", read)
        self._created(name, text, read)

    def histogram(self, name: str, text: str, read: Callable[[Engine], Histogram]) -> None:
        self._family(name, text, "histogram")
        for labels, engine in self._engines:
            histogram = read(engine)
            edges = [_number(edge) for edge in histogram.edges]
            for edge, number in zip([*edges, "+Inf"], histogram.cumulative(), strict=True):
                self._sample(f"{name}_bucket", {**labels, "le": edge}, number)
            self._sample(f"{name}_count", labels, histogram.count)
            self._sample(f"{name}_sum", labels, histogram.sum)
        self._created(name, text, _plain(lambda _: 0))

    def information(self, name: str, text: str, leaves: Mapping[str, Any]) -> None:
        self._family(name, text, "gauge")
        shown = {key: str(value) for key, value in leaves.items()}
        for labels, _ in self._engines:
            self._sample(name, {**shown, "engine": labels["engine"]}, 1)

    def _created(self, name: str, text: str, read: Reader) -> None:
        self._family(f"{name}_created", text, "gauge")
        self._samples(f"{name}_created", lambda engine: [(labels, self._created_s) for labels, _ in read(engine)])

    def _samples(self, name: str, read: Reader) -> None:
        for common, engine in self._engines:
            for labels, value in read(engine):
                self._sample(name, {**common, **labels}, value)

    def _family(self, name: str, text: str, kind: str) -> None:
        self.lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]

    def _sample(self, name: str, labels: Labels, value: float) -> None:
        shown = ",".join(f'{key}="{_escaped(labels[key])}"' for key in sorted(labels))
        self.lines.append(f"{name}{{{shown}}} {_number(value)}")


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    """Write a number as Prometheus clients do: plain below a million, then with a two-digit exponent."""
    plain = repr(float(value))
    if abs(value) < 1e6:
        return plain
    mantissa, exponent = format(decimal.Decimal(plain).normalize(), "e").split("e")
    return f"{mantissa}e{int(exponent):+03d}"
