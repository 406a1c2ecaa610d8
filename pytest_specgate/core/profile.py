"""Request profile: everything that fixes the load put on both arms of a pair."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pydantic import Field, JsonValue, field_validator, model_validator

from pytest_specgate.core.declared import FreeJson, declaration, seconds_of
from pytest_specgate.core.errors import UsageError, nearest
from pytest_specgate.core.levels import (
    Level,
    concurrency_of,
    level_id,
    level_label,
    level_order,
    normal_level,
    rate_per_s,
    temperature_of,
    without_temperature,
)
from pytest_specgate.core.prompt_files import Prompt, PromptFile

if TYPE_CHECKING:
    from typing import Self

ProfileFields: TypeAlias = dict[str, JsonValue]
"""Flat view of a profile as it was put on one arm: field name to value; `None` means "not set"."""

ENDPOINT: Final = "/v1/completions"
CHAT_ENDPOINT: Final = "/v1/chat/completions"

Limited: TypeAlias = Literal["ttft", "tpot", "e2e"]
"""What a request can be limited in, to be good."""

MOST_PROCESSES: Final = 64
"""Processes of the load client, at most."""

SAMPLING_FIELDS: Final = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
)


CORPORA: Final = ("prose", "code", "random")
"""Names of what prompts can be cut from, besides a user's file."""

_BODY_FIELDS: Final = ("prompt", "messages", "max_tokens", "max_completion_tokens")
"""Of either API: one of them beside the other would contradict the profile."""

_CONTRARY_FIELDS: Final = {
    "prompt_embeds": "is a prompt beside the profile's own",
    "top_logprobs": "asks for logprobs, which the profile leaves off",
    "logprob_token_ids": "asks for logprobs, which the profile leaves off",
    "prompt_logprobs": "asks for logprobs, which no server gives in a stream",
}
"""Fields that engines refuse beside what the profile sends, and why."""


@declaration
class RequestProfile:
    """The load: which prompts, how long, how many at which concurrency, and with which sampling.

    Sampling parameters are always sent, so a server's own defaults decide nothing.

    Attributes:
        input_tokens: exact prompt length, in tokens of the served model, those of a chat template included; `None`
            takes the prompts of a file as they are.
        output_tokens: output tokens asked of every request.
        requests: number of requests at each point, by load level: ``{1: 10, 8: 32, "4/s": 200}`` is a closed loop of
            1 and of 8 workers, and an open loop in which 4 requests arrive a second; ``{8: 32, "8 T=0.8": 32}`` is one
            load at two temperatures, that of the profile and 0.8.
        prompts: name of a corpus that comes with the package, ``"prose"`` or ``"code"``; a file of your own,
            ``PromptFile("prompts.jsonl")``; or ``"random"`` for random tokens, whose acceptance means nothing.
        api: ``"completions"`` sends prompts as they are, ``"chat"`` as messages through the model's chat template.
        endpoint: path on the server; `None` is that of the API.
        stream_options: as in the API; usage is always asked for, since it alone counts tokens.
        warmup_requests: requests sent one after another before the first point of every boot, never measured.
        temperature: softmax temperature of the warm-up, and of every level without one of its own; 0 is greedy.
        top_p: nucleus sampling; 1 is off.
        top_k: number of candidates kept; 0 is off.
        min_p: relative probability floor; 0 is off.
        presence_penalty: as in the completions API.
        frequency_penalty: as in the completions API.
        repetition_penalty: as in vLLM; 1 is off.
        seed: sampling seed sent with every request.
        order_seed: seed of the draw of prompts from the corpus, and of arrivals in an open loop.
        burstiness: of arrivals in an open loop, the shape of the gamma distribution of the gaps between them: 1 is a
            Poisson process, less is more bunched, more is more even.
        goodput_limits: what a request may take to count as good: ``{"ttft": "500ms", "tpot": "50ms", "e2e": "10s"}``.
        prefix_cache: ``"cold"``: a server that finds more than 1 % of its prompt tokens in its prefix cache is not
            judged; ``"warm"``: it may, to the same share in both arms.
        ignore_eos: generate `output_tokens` tokens whatever the model says.
        stop: stop strings.
        extra_body: further JSON fields of every request body; those that decide which tokens a prompt becomes steer the
            count of its tokens, too.
        request_timeout_s: longest silence of the server that is waited for, in seconds.
        client_processes: processes that send the load; `None` takes one for every 256 closed-loop workers.
    """

    input_tokens: int | None = Field(gt=0)
    output_tokens: int = Field(gt=1)
    requests: dict[Level, int] = Field(min_length=1)
    prompts: Literal["prose", "code", "random"] | PromptFile = "prose"
    api: Literal["completions", "chat"] = "completions"
    endpoint: str | None = Field(default=None, pattern="^/[!-~]*$")
    stream_options: dict[str, bool] = Field(default_factory=lambda: {"include_usage": True})
    warmup_requests: int = Field(default=4, ge=0)
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0)
    min_p: float = Field(default=0.0, ge=0, le=1)
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = Field(default=1.0, gt=0)
    seed: int = 0
    order_seed: int = Field(default=0, ge=0)
    burstiness: float = Field(default=1.0, gt=0, le=1e6)
    goodput_limits: dict[Limited, str] = Field(default_factory=dict)
    prefix_cache: Literal["cold", "warm"] = "cold"
    ignore_eos: bool = True
    stop: tuple[str, ...] = ()
    extra_body: dict[str, FreeJson] = Field(default_factory=dict)
    request_timeout_s: float = Field(default=600.0, gt=0)
    client_processes: int | None = Field(default=None, ge=1, le=MOST_PROCESSES)

    @field_validator("requests", mode="before")
    @classmethod
    def _no_level_twice(cls, requests: object) -> object:
        seen: set[Level] = set()
        for at in requests if isinstance(requests, dict) else ():
            level = at if isinstance(at, str) and at.isdecimal() else normal_level(at)
            if level in seen:
                raise ValueError(f"point {level_label(level)} is there twice")
            seen.add(level)
        return requests

    @field_validator("requests")
    @classmethod
    def _points(cls, requests: dict[Level, int]) -> dict[Level, int]:
        for at, count in requests.items():
            workers = concurrency_of(at)
            if workers is None and count < 2:
                raise ValueError(f"point {level_label(at)} has {count} requests; a rate of arrival needs 2 or more")
            if workers is not None and count < workers:
                raise ValueError(
                    f"point {level_label(at)} has {count} requests; each of its {workers} workers needs at least one"
                )
        return {at: requests[at] for at in sorted(requests, key=level_order)}

    @field_validator("goodput_limits")
    @classmethod
    def _durations(cls, limits: dict[Limited, str]) -> dict[Limited, str]:
        for name, text in limits.items():
            seconds_of(f"goodput_limits[{name!r}]", text)
        return limits

    @field_validator("prompts", mode="before")
    @classmethod
    def _prompts(cls, prompts: object) -> object:
        if isinstance(prompts, str) and prompts not in CORPORA:
            raise ValueError(
                f"prompts={prompts!r} names no corpus, which are {', '.join(CORPORA)}{nearest(prompts, CORPORA)} "
                f"(a file of your own is written PromptFile({prompts!r}))"
            )
        return prompts

    @field_validator("stream_options")
    @classmethod
    def _usage(cls, options: dict[str, bool]) -> dict[str, bool]:
        if options.get("include_usage") is not True:
            raise ValueError("stream_options must have include_usage=True: only usage counts tokens")
        return options

    @model_validator(mode="after")
    def _no_point_twice(self) -> Self:
        for at in self.requests:
            load = without_temperature(at)
            if load in self.requests and temperature_of(at) == self.temperature:
                raise ValueError(
                    f"point {level_label(load)} is there twice: {at!r} is the same at the profile's own temperature"
                )
        return self

    @model_validator(mode="after")
    def _possible_prompts(self) -> Self:
        if self.input_tokens is None and not isinstance(self.prompts, PromptFile):
            raise ValueError(f"input_tokens=None takes prompts as they are, and those of {self.prompts!r} are cut")
        if self.prompts == "random" and self.api == "chat":
            raise ValueError(
                "prompts='random' sends token ids, which the chat API does not take: use api='completions'"
            )
        return self

    @model_validator(mode="after")
    def _no_shadowing(self) -> Self:
        own = {*request_body(self, model="", prompt="", extra=False), *_BODY_FIELDS}
        shadowed = sorted(own & set(self.extra_body))
        if shadowed:
            raise ValueError(f"extra_body sets {', '.join(shadowed)}, which the profile sends itself")
        for name in sorted(_CONTRARY_FIELDS.keys() & set(self.extra_body)):
            raise ValueError(f"extra_body sets {name}, which {_CONTRARY_FIELDS[name]}")
        return self

    @model_validator(mode="after")
    def _fit_to_send(self) -> Self:
        parts: dict[str, JsonValue] = {"stop": list(self.stop), "extra_body": dict(self.extra_body)}
        for name, value in parts.items():
            try:
                encode_body({name: value})
            except UnicodeEncodeError:
                raise ValueError(f"{name} has half a character, which cannot be sent") from None
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{name} cannot be sent: {error}") from None
        return self

    @property
    def points(self) -> tuple[Level, ...]:
        """Load levels in rising order, concurrencies first."""
        return tuple(self.requests)

    @property
    def path(self) -> str:
        """Where requests are sent to."""
        return self.endpoint or (CHAT_ENDPOINT if self.api == "chat" else ENDPOINT)

    @property
    def source(self) -> str:
        """Where prompts come from, in words."""
        return f"file {self.prompts.name}" if isinstance(self.prompts, PromptFile) else self.prompts

    def temperature_at(self, at: Level) -> float:
        """Return the temperature of a load level: its own, or else that of the profile."""
        own = temperature_of(at)
        return self.temperature if own is None else own

    def greedy_at(self, at: Level) -> bool:
        """Whether the same prompt has one right answer at a load level, so that answers can be compared."""
        return self.temperature_at(at) == 0

    def points_at_temperature(self, temperature: float) -> tuple[Level, ...]:
        """Return the load levels that are sent at a temperature, in rising order."""
        return tuple(at for at in self.points if self.temperature_at(at) == temperature)

    @property
    def goodput_limits_s(self) -> dict[Limited, float]:
        """What a request may take to count as good, in seconds."""
        return {name: seconds_of(name, text) for name, text in self.goodput_limits.items()}

    def fingerprint(self) -> str:
        """Return a short name that is equal for equal profiles, whatever the order they were written in."""
        return sha256_of(declared_fields(self))[:12]


def messages_of(prompt: Prompt) -> list[JsonValue]:
    """Return a prompt as the messages of a conversation: a text is what the user says first."""
    return list(prompt) if isinstance(prompt, list) else [{"role": "user", "content": prompt}]


def request_body(
    profile: RequestProfile, *, model: str, prompt: Prompt, at: Level | None = None, extra: bool = True
) -> dict[str, JsonValue]:
    """Return the JSON body of one streaming request, with every parameter written out.

    Args:
        profile: the load.
        model: name under which the model is served.
        prompt: a text; token ids, of completions only; or messages, of chat only.
        at: load level, which may have a temperature of its own; `None` for the warm-up.
        extra: whether the user's further fields are in it.
    """
    chat = profile.api == "chat"
    asked: dict[str, JsonValue] = {"messages": messages_of(prompt)} if chat else {"prompt": prompt}
    body: dict[str, JsonValue] = {
        "model": model,
        **asked,
        "max_completion_tokens" if chat else "max_tokens": profile.output_tokens,
        "min_tokens": profile.output_tokens if profile.ignore_eos else 0,
        "ignore_eos": profile.ignore_eos,
        "n": 1,
        "logprobs": False if chat else None,
        "stop": list(profile.stop) or None,
        "stream": True,
        "stream_options": dict(profile.stream_options),
        **{name: getattr(profile, name) for name in SAMPLING_FIELDS},
        "temperature": profile.temperature if at is None else profile.temperature_at(at),
    }
    return {**body, **profile.extra_body} if extra else body


def encode_body(body: dict[str, JsonValue]) -> bytes:
    """Return the bytes that go over the wire: one spelling for one body."""
    return json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def sha256_of(value: JsonValue) -> str:
    """Return the hash of a JSON value, independent of key order."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256_of_text(text)


def sha256_of_text(text: str) -> str:
    """Return the hash of a text, which may hold halves of characters as the environment does."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def declared_fields(profile: RequestProfile) -> ProfileFields:
    """Return the fields of a profile that are known before any server runs."""
    body = request_body(profile, model="", prompt="")
    # One load at two temperatures is one concurrency, or one rate.
    workers: list[JsonValue] = [*dict.fromkeys(of for at in profile.points if (of := concurrency_of(at)) is not None)]
    rates: list[JsonValue] = [*dict.fromkeys(rate for at in profile.points if (rate := rate_per_s(at)) is not None)]
    limits: dict[str, JsonValue] = {str(name): seconds for name, seconds in profile.goodput_limits_s.items()}
    return {
        "api": profile.api,
        "endpoint": profile.path,
        "stream_options": body["stream_options"],
        "prompt_source": profile.source,
        "concurrency_points": workers,
        **{f"requests.{level_id(at)}": count for at, count in profile.requests.items()},
        **{f"temperature.{level_id(at)}": own for at in profile.points if (own := temperature_of(at)) is not None},
        "warmup_requests": profile.warmup_requests,
        "arrival": arrival_words(profile),
        "arrival_rates_per_s": rates or None,
        "arrival_burstiness": profile.burstiness if rates else None,
        "order_seed": profile.order_seed,
        "input_tokens": profile.input_tokens,
        "output_tokens": profile.output_tokens,
        **{name: body[name] for name in ("min_tokens", "ignore_eos", "n", "logprobs", "stop", *SAMPLING_FIELDS)},
        "extra_body_sha256": sha256_of(profile.extra_body) if profile.extra_body else None,
        "request_timeout_s": profile.request_timeout_s,
        "client_processes": profile.client_processes,
        "goodput_limits_s": limits or None,
        "prefix_cache": profile.prefix_cache,
    }


def arrival_words(profile: RequestProfile) -> str:
    """Name how requests arrive: ``closed loop``, ``open loop`` or both."""
    kinds = {"closed loop" if concurrency_of(at) else "open loop" for at in profile.points}
    return " and ".join(sorted(kinds))


def check_point(profile: RequestProfile, at: Level) -> None:
    """Refuse a load level that the profile does not measure.

    Raises:
        UsageError: the profile has no such point.
    """
    if at not in profile.requests:
        known = ", ".join(map(level_label, profile.points))
        bare = without_temperature(at)
        named = bare in profile.requests and temperature_of(at) == profile.temperature
        cure = f": {profile.temperature:g} is the temperature of the profile itself, so write at={bare!r}"
        raise UsageError(f"at={at!r} is no point of the profile, which measures {known}{cure if named else ''}")


def ends_of(profile: RequestProfile) -> tuple[Level, Level]:
    """Return the lowest and the highest load of a profile, at the coldest temperature that it sends.

    A rate of arrival is neither less nor more than a concurrency: it counts only where there is no concurrency.
    """
    alike = profile.points_at_temperature(min(map(profile.temperature_at, profile.points)))
    ends = [at for at in alike if concurrency_of(at) is not None] or alike
    return ends[0], ends[-1]


def same(left: JsonValue, right: JsonValue) -> bool:
    """Compare two JSON values: numbers by value, but never a number with a bool or a string; order matters."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return type(left) is type(right) and left == right
