"""Result files of ``vllm bench serve --save-result``: read strictly, and never believed beyond what they hold.

A file has times in milliseconds and rates; what was sent to which server it does not tell. Statistics of a run in which
nothing succeeded are 0.0 there, the best latency there is, so a file is asked what it is worth before any figure is.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from pytest_specgate.core.declared import FreeJson
from pytest_specgate.core.errors import RecordError
from pytest_specgate.core.json_keys import each_once
from pytest_specgate.core.metrics import METRICS, Measured
from pytest_specgate.core.speculation import too_few_drafts
from pytest_specgate.core.stored import Failure, Stored

if TYPE_CHECKING:
    from collections.abc import Iterator

UNPROVED: Final = (
    "seed",
    "dataset and prompts",
    "lengths asked of prompts and answers",
    "sampling parameters and ignore_eos",
    "extra fields of the requests",
    "limits of goodput",
    "warm-up and prefix cache",
    "server flags",
    "vLLM version",
    "GPU and host",
    "whether the server or a tokenizer of the client counted the tokens",
    "whether the client kept up",
)
"""What a file does not hold, in few words: two that look alike may be of two loads or two machines."""

_MOST: Final = 2**53
_ROUNDING: Final = 0.005
_STATISTIC: Final = re.compile(r"(mean|median|std|p[0-9]+(?:\.[0-9]+)?)_(\w+)_ms")
_QUANTITIES: Final = {"ttft": "ttft", "tpot": "tpot", "itl": "inter_chunk", "e2el": "e2e"}
_NEVER_ZERO: Final = ("ttft", "e2el")
_SHORTEST_S: Final = 1e-6
_LONGEST_S: Final = 1e7

_Count: TypeAlias = Annotated[int, Field(ge=0, le=_MOST)]
_Amount: TypeAlias = Annotated[float, Field(ge=0)]


class BenchResult(Stored):
    """One run of ``vllm bench serve``, as far as it is compared; `None` is a key that is missing or null.

    Other keys are kept as they are: those with a text are what ``--metadata`` added.

    Attributes:
        date: local time without a zone.
        backend: kind of endpoint.
        endpoint_type: the same, by its older name.
        label: free text of the user.
        model_id: as it was asked for.
        tokenizer_id: of the client.
        num_prompts: requests asked for.
        request_rate: arrivals a second, or ``inf``.
        burstiness: of the arrivals.
        max_concurrency: of the client.
        ramp_up_strategy: where the rate rises.
        ramp_up_start_rps: likewise.
        ramp_up_end_rps: likewise.
        duration: in seconds.
        completed: requests that succeeded.
        failed: requests that did not; older versions do not tell.
        total_input_tokens: of the successes.
        total_output_tokens: of the successes.
        request_throughput: requests a second.
        request_goodput: likewise, of those within limits that the file does not hold.
        output_throughput: output tokens a second.
        input_lens: tokens of each prompt, only with ``--save-detailed``.
        itls: gaps between the chunks of each answer in seconds, likewise.
        spec_decode_acceptance_rate: in percent.
        spec_decode_acceptance_length: tokens of a step that drafted.
        spec_decode_num_drafts: number of drafts.
        spec_decode_draft_tokens: tokens in them.
        spec_decode_accepted_tokens: of these.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, FreeJson] = Field(init=False)

    date: str | None = None
    backend: str
    endpoint_type: str | None = None
    label: str | None = None
    model_id: str
    tokenizer_id: str | None = None
    num_prompts: Annotated[int, Field(ge=1, le=_MOST)]
    request_rate: Annotated[float, Field(gt=0)] | Literal["inf"]
    burstiness: Annotated[float, Field(gt=0)]
    max_concurrency: Annotated[int, Field(ge=1, le=_MOST)] | None = None
    ramp_up_strategy: str | None = None
    ramp_up_start_rps: _Amount | None = None
    ramp_up_end_rps: _Amount | None = None
    duration: _Amount
    completed: _Count
    failed: _Count | None = None
    total_input_tokens: _Count
    total_output_tokens: _Count
    request_throughput: _Amount
    request_goodput: _Amount | None = None
    output_throughput: _Amount
    input_lens: tuple[_Count, ...] | None = None
    itls: tuple[tuple[_Amount, ...], ...] | None = None
    spec_decode_acceptance_rate: _Amount | None = None
    spec_decode_acceptance_length: _Amount | None = None
    spec_decode_num_drafts: _Count | None = None
    spec_decode_draft_tokens: _Count | None = None
    spec_decode_accepted_tokens: _Count | None = None

    @property
    def metadata(self) -> dict[str, JsonValue]:
        """What ``--metadata`` added: its values are always texts, and no other unknown key has one."""
        return {name: value for name, value in self.__pydantic_extra__.items() if isinstance(value, str)}

    @property
    def statistics_s(self) -> dict[tuple[str, str], float]:
        """Statistics in seconds, by quantity and statistic: ``("ttft", "median")``; those that are null are left out.

        `parse_result` has seen to it that they are numbers.
        """
        found = {name: value for name, value in self.__pydantic_extra__.items() if isinstance(value, int | float)}
        matches = {name: match for name in found if (match := _STATISTIC.fullmatch(name))}
        return {(match[2], match[1]): found[name] / 1000 for name, match in matches.items()}

    @property
    def tokens_per_chunk(self) -> float | None:
        """Output tokens / chunks; `None` where the chunks were not saved."""
        if self.itls is None or len(self.itls) != self.completed or not self.completed:
            return None
        return self.total_output_tokens / sum(1 + len(gaps) for gaps in self.itls)


_STATISTICS: Final[TypeAdapter[Any]] = TypeAdapter(
    Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, config=ConfigDict(strict=True)
)


def is_result(found: JsonValue) -> bool:
    """Whether a JSON value has the face of a result file, whole or not."""
    return isinstance(found, dict) and bool({"completed", "num_prompts", "request_rate"} & found.keys())


def parse_result(text: str, *, source: str) -> BenchResult:
    """Read one result.

    Args:
        text: of the file.
        source: name of the file, for messages.

    Raises:
        RecordError: it is no JSON, holds several results or a key twice, or a value is missing or of a wrong type;
            file and key are named.
    """
    json_value(text, source=source)
    try:
        result = BenchResult.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = _place(first["loc"])
        if first["type"] == "missing" or (first["input"] is None and place in BenchResult.model_fields):
            raise RecordError(
                f"{source} has no {place}: `vllm bench serve --save-result` writes it for every run that generates text"
            ) from None
        raise RecordError(_wrong(source, place, str(first["msg"]), first["input"])) from None
    for name, value in result.__pydantic_extra__.items():
        if _STATISTIC.fullmatch(name):
            _check_statistic(name, value, source=source)
    return result


def json_value(text: str, *, source: str) -> JsonValue:
    """Return what a file holds, whatever that is; an object that has a key twice is refused: readers take the last.

    Args:
        text: of the file.
        source: name of the file, for messages.

    Raises:
        RecordError: it is no JSON, or more than one value.
    """
    try:
        found: JsonValue = json.loads(text, object_pairs_hook=each_once)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise RecordError(
                f"{source} holds more than one JSON value, as --append-result writes them: give every run its own file"
            ) from None
        raise RecordError(f"{source} is no JSON: {error}") from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{source} cannot be read: {error}") from None
    return found


def _place(path: tuple[int | str, ...]) -> str:
    """Return where a value stands, without the branches of unions, which pydantic counts in."""
    return ".".join([str(part) for place, part in enumerate(path) if place == 0 or isinstance(part, int)]) or "the file"


def _check_statistic(name: str, value: JsonValue, *, source: str) -> None:
    try:
        _STATISTICS.validate_python(value)
    except ValidationError as error:
        raise RecordError(_wrong(source, name, str(error.errors()[0]["msg"]), value)) from None


def _wrong(source: str, place: str, message: str, found: object) -> str:
    shown = json.dumps(found) if isinstance(found, bool | int | float | list | dict | None) else repr(found)
    text = shown if len(shown) <= 40 else f"{shown[:37]}..."
    plain = message.removeprefix("Value error, ")
    return f"{source} is no result of `vllm bench serve` that can be read: {place}: {plain}, got {text}"


def identity_fields(result: BenchResult) -> dict[str, JsonValue]:
    """Return what a file tells of its load, field by field."""
    fields: dict[str, JsonValue] = {
        "backend": result.backend,
        "endpoint_type": result.endpoint_type or result.backend,
        "model_id": result.model_id,
        "tokenizer_id": result.tokenizer_id,
        "num_prompts": result.num_prompts,
        "request_rate": result.request_rate,
        "burstiness": result.burstiness,
        "max_concurrency": result.max_concurrency,
        "total_input_tokens": result.total_input_tokens,
    }
    ramp = {name: getattr(result, name) for name in ("ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps")}
    fields |= {name: value for name, value in ramp.items() if value is not None}
    return fields | {f"metadata.{name}": value for name, value in result.metadata.items()}


def problem_of(result: BenchResult) -> Failure | None:
    """Return the first reason why no figure of a file may be read, `None` if there is none."""
    return next(_problems(result), None)


def _problems(result: BenchResult) -> Iterator[Failure]:
    asked, done = result.num_prompts, result.completed
    if done == 0:
        text = f"0 of {asked} requests completed, and statistics of nothing are written as 0.0"
        yield Failure(reason="failed-requests", message=text)
    if result.failed:
        text = f"{result.failed} of {asked} requests failed: what is left of the load is another load"
        yield Failure(reason="failed-requests", message=text)
    if done != asked:
        text = f"{done} requests completed, and {asked} were asked for: what was done is another load"
        yield Failure(reason="failed-requests", message=text)
    yield from _contradictions(result)
    for (quantity, statistic), seconds in result.statistics_s.items():
        if quantity in _NEVER_ZERO and statistic != "std" and not seconds:
            text = f"{statistic}_{quantity}_ms is 0.0 though {done} requests completed: no server answers in no time"
            yield Failure(reason="impossible-value", message=text)
    yield from _impossible_times(result)


def _impossible_times(result: BenchResult) -> Iterator[Failure]:
    """Yield times that no run has, or that do not go together."""
    times = result.statistics_s
    named = {"duration": (result.duration, True)} | {
        f"{statistic}_{quantity}_ms": (seconds, quantity in _NEVER_ZERO and statistic != "std")
        for (quantity, statistic), seconds in times.items()
    }
    for name, (value, bounded) in named.items():
        if value > _LONGEST_S or (bounded and value < _SHORTEST_S):
            text = f"{name} stands for {value:g} s: no run has such a time"
            yield Failure(reason="impossible-value", message=text)
    first, whole = times.get(("ttft", "median")), times.get(("e2el", "median"))
    for name, seconds in (("median_e2el_ms", whole), ("duration", result.duration)):
        if first is not None and seconds is not None and first > seconds * (1 + _ROUNDING):
            text = f"median_ttft_ms stands for {first:g} s, and {name} for {seconds:g} s: no token comes after the end"
            yield Failure(reason="contradicts-itself", message=text)


def _contradictions(result: BenchResult) -> Iterator[Failure]:
    """Yield figures that do not follow from those beside them: the file was edited, or written by something else."""
    rates = (
        ("output_throughput", result.output_throughput, "total_output_tokens", result.total_output_tokens),
        ("request_throughput", result.request_throughput, "completed", result.completed),
    )
    for name, rate, counted, count in rates:
        if not count or not rate:
            text = f"{name} is {rate:g} and {counted} {count}: nothing can be compared with that"
            yield Failure(reason="fell-to-zero", message=text)
        elif not math.isclose(rate * result.duration, count, rel_tol=_ROUNDING):
            text = f"{name} is {rate:g}, and {counted} / duration is {count} / {result.duration:g}"
            yield Failure(reason="contradicts-itself", message=text)
    if (goodput := result.request_goodput) is not None and goodput > result.request_throughput * (1 + _ROUNDING):
        text = f"request_goodput is {goodput:g}, and all requests are {result.request_throughput:g}"
        yield Failure(reason="contradicts-itself", message=text)
    yield from _speculation(result)


def _speculation(result: BenchResult) -> Iterator[Failure]:
    """Yield figures of speculation that do not follow from its counts."""
    accepted, drafted = result.spec_decode_accepted_tokens, result.spec_decode_draft_tokens
    if accepted is not None and drafted is not None and accepted > drafted:
        text = f"spec_decode_accepted_tokens is {accepted}, and only {drafted} were drafted"
        yield Failure(reason="counter-identity", message=text)
    percent = result.spec_decode_acceptance_rate
    if accepted is not None and drafted and percent is not None:
        share = 100 * accepted / drafted
        if not math.isclose(percent, share, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
            text = f"spec_decode_acceptance_rate is {percent:g} (in percent), and its counts give {share:g}"
            yield Failure(reason="counter-identity", message=text)
    drafts, length = result.spec_decode_num_drafts, result.spec_decode_acceptance_length
    if accepted is not None and drafts and length is not None:
        counted = 1 + accepted / drafts
        if not math.isclose(length, counted, rel_tol=_ROUNDING):
            text = f"spec_decode_acceptance_length is {length:g}, and its counts give {counted:g}"
            yield Failure(reason="counter-identity", message=text)


def figures(result: BenchResult) -> dict[str, Measured]:
    """Return the figures of a file by our names, where the estimator is the same: times in seconds, shares as such.

    A percentile of fewer requests than it needs has no value, as everywhere; nor has a 0.0 that stands for nothing.
    """
    done = result.completed
    found = {
        "output_throughput": Measured(result.output_throughput, n=done),
        "request_throughput": Measured(result.request_throughput, n=done),
    }
    if result.request_goodput is not None:
        found["goodput"] = Measured(result.request_goodput, n=done)
    for (quantity, statistic), seconds in result.statistics_s.items():
        suffix = "p50" if statistic == "median" else statistic
        name = f"{_QUANTITIES.get(quantity, quantity)}_{suffix}"
        if name in METRICS:
            found[name] = _statistic(name, seconds, result)
    if (chunk := result.tokens_per_chunk) is not None:
        found["tokens_per_chunk"] = Measured(chunk, n=done)
    return found | _acceptance(result)


def _statistic(name: str, seconds: float, result: BenchResult) -> Measured:
    row, n = METRICS[name], result.completed
    if not seconds:
        return Measured(None, "0.0 stands for no value: no answer had a second token")
    if row.per_chunk:
        return Measured(seconds, n=sum(map(len, result.itls or ())))
    if n < row.minimum_n:
        return Measured(None, f"{n} {row.counted} have a value, and {row.minimum_n} are needed")
    return Measured(seconds, n=n)


def _acceptance(result: BenchResult) -> dict[str, Measured]:
    """Return what speculation did, from the counts: the rate of the file is in percent."""
    drafts, tokens, accepted = (
        result.spec_decode_num_drafts, result.spec_decode_draft_tokens, result.spec_decode_accepted_tokens
    )  # fmt: skip
    if not drafts or not tokens or accepted is None:
        return {}
    if missing := too_few_drafts(drafts):
        return dict.fromkeys(("acceptance_rate", "acceptance_length"), Measured(None, missing))
    return {
        "acceptance_rate": Measured(accepted / tokens, n=drafts),
        "acceptance_length": Measured(1 + accepted / drafts, n=drafts),
    }
