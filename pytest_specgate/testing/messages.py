"""Bodies of requests and answers, in the shapes of vLLM's API."""

from __future__ import annotations

import abc
import json
from http import HTTPStatus
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError, model_validator

if TYPE_CHECKING:
    from pytest_specgate.testing.answers import FinishReason

# A local version label, so that no record of a run against the fake can pass for one of the real engine.
VERSION: Final = "0.32.0+fake"
SYSTEM_FINGERPRINT: Final = f"vllm-{VERSION}"

TokenIds = list[NonNegativeInt]
Model = TypeVar("Model", bound=BaseModel)


class RefusedError(Exception):
    """A request that is answered with an error body.

    Attributes:
        status: HTTP status of the answer.
        kind: error type named in the body.
        parameter: the request field it is about, if one is.
    """

    def __init__(
        self, message: str, *, status: HTTPStatus = HTTPStatus.BAD_REQUEST, kind: str = "", parameter: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind or "BadRequestError"
        self.parameter = parameter

    def body(self) -> dict[str, Any]:
        """Return the error body."""
        error = {"message": str(self), "type": self.kind, "param": self.parameter, "code": self.status.value}
        return {"error": error}


class StreamOptions(BaseModel):
    """The ``stream_options`` of a completion request."""

    model_config = ConfigDict(frozen=True)

    include_usage: bool = False
    continuous_usage_stats: bool = False


class AnswerRequest(BaseModel):
    """What requests of both APIs have in common."""

    model_config = ConfigDict(frozen=True)

    model: str
    max_tokens: PositiveInt | None = None
    min_tokens: NonNegativeInt = 0
    ignore_eos: bool = False
    n: Annotated[int, Field(ge=1, le=1)] = 1
    stream: bool = False
    stream_options: StreamOptions | None = None

    @model_validator(mode="after")
    def _options_need_a_stream(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options is allowed with stream=true only")
        return self

    @property
    def output_limit(self) -> int:
        """Most tokens the answer may have; 16 when the request sets no limit, as vLLM does."""
        return 16 if self.max_tokens is None else self.max_tokens

    @abc.abstractmethod
    def single_prompt(self) -> str | TokenIds:
        """Return the one prompt of the request.

        Raises:
            RefusedError: there is none, or more than one.
        """


class CompletionRequest(AnswerRequest):
    """The fields of a completion request that change what the fake does; others are accepted and ignored."""

    prompt: str | TokenIds | list[str] | list[TokenIds]

    def single_prompt(self) -> str | TokenIds:
        """Return the one prompt of the request.

        Raises:
            RefusedError: there is none, or more than one.
        """
        if isinstance(self.prompt, str):
            return self.prompt
        prompts = [self.prompt] if all(isinstance(item, int) for item in self.prompt) else self.prompt
        if len(prompts) != 1 or not prompts[0]:
            raise RefusedError("the fake server answers exactly one non-empty prompt a request", parameter="prompt")
        return prompts[0]  # type: ignore[return-value]  # - the elements are prompts once ids are wrapped


class TokenizeRequest(BaseModel):
    """The body of ``POST /tokenize``."""

    model: str | None = None
    prompt: str
    return_token_strs: bool = False


class DetokenizeRequest(BaseModel):
    """The body of ``POST /detokenize``."""

    model: str | None = None
    tokens: TokenIds


def parse_body(model: type[Model], body: bytes) -> Model:
    """Read a JSON request body.

    Raises:
        RefusedError: the body is no JSON, or lacks or misuses a field.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        lines = [f"{problem['msg']} ({problem['type']}) at {_place(problem['loc'])}" for problem in problems]
        message = f"{len(problems)} validation error{'s'[: len(problems) - 1]}: " + "; ".join(lines)
        raise RefusedError(message, kind="Bad Request", parameter=_place(problems[0]["loc"])) from None


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(("body", *map(str, location)))


def compact(value: Any) -> bytes:
    """Write JSON as the server does: UTF-8, no blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """Return the usage object of an answer."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


# The parts of a token event around its text, its finish reason and its usage: written once, since making each event
# out of a dictionary costs as much as everything else that is done for it.
_BEFORE_TEXT: Final = b',"choices":[{"index":0,"text":'
_BEFORE_REASON: Final = b',"logprobs":null,"finish_reason":'
_USAGE: Final = b',"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}'
_AFTER_REASON: Final = b',"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]'


def text_and_reason(text: str, finish_reason: FinishReason | None, *, between: bytes) -> bytes:
    """Return the part of a token event that changes: text and finish reason, and what stands between them."""
    reason = b"null" if finish_reason is None else f'"{finish_reason}"'.encode()
    return encode_basestring(text).encode() + between + reason


def usage_and_end(usage_so_far: dict[str, int] | None) -> bytes:
    """Return the end of a token event, with the running count where one is asked for."""
    return (b"" if usage_so_far is None else _USAGE % tuple(usage_so_far.values())) + b"}\n\n"


class CompletionMessages:
    """The events and the body that answer one completion request."""

    opening: Final = b""
    """Nothing comes before the first token."""

    def __init__(self, *, identifier: str, created_s: int, model: str) -> None:
        self._head = {"id": identifier, "object": "text_completion", "created": created_s, "model": model}
        self._before_text = b"data: " + compact(self._head).removesuffix(b"}") + _BEFORE_TEXT

    def token_event(
        self, text: str, finish_reason: FinishReason | None, usage_so_far: dict[str, int] | None = None
    ) -> bytes:
        """Return the event of one decode step."""
        told = text_and_reason(text, finish_reason, between=_BEFORE_REASON)
        return b"".join([self._before_text, told, _AFTER_REASON, usage_and_end(usage_so_far)])

    def usage_event(self, total: dict[str, int], metrics: dict[str, Any] | None = None) -> bytes:
        """Return the event after the last token: no choice, the usage of the whole answer, and its metrics if any."""
        told = {} if metrics is None else {"metrics": metrics}
        return event({**self._head, "choices": [], "usage": total, "system_fingerprint": SYSTEM_FINGERPRINT, **told})

    def body(
        self, text: str, finish_reason: FinishReason, total: dict[str, int], metrics: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the answer to a request that does not stream."""
        choice = {
            "index": 0,
            "text": text,
            "logprobs": None,
            "finish_reason": finish_reason,
            "stop_reason": None,
            "token_ids": None,
            "prompt_logprobs": None,
            "prompt_token_ids": None,
        }
        return {
            **self._head,
            "choices": [choice],
            "service_tier": None,
            "system_fingerprint": SYSTEM_FINGERPRINT,
            "usage": {**total, "prompt_tokens_details": None},
            "kv_transfer_params": None,
            "metrics": metrics,
        }


DONE_EVENT: Final = b"data: [DONE]\n\n"


def error_event(error: RefusedError) -> bytes:
    """Return the event with which a stream that has begun reports a failure of the engine."""
    return b"data: " + json.dumps(error.body()).encode() + b"\n\n"


def event(value: dict[str, Any]) -> bytes:
    """Return a JSON value as one event of a stream."""
    return b"data: " + compact(value) + b"\n\n"
