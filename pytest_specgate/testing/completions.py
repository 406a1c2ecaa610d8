"""Completion requests: checked, run through the engine, told to the client step by step."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.testing.answers import Answer, natural_end
from pytest_specgate.testing.engine import EngineSequence, sequence_random
from pytest_specgate.testing.messages import (
    DONE_EVENT,
    CompletionMessages,
    CompletionRequest,
    RefusedError,
    error_event,
    usage,
)
from pytest_specgate.testing.tokenizer import VOCABULARY_SIZE, Tokenizer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from pytest_specgate.testing.arguments import ServerArguments
    from pytest_specgate.testing.engine import Emission
    from pytest_specgate.testing.engine_loop import EngineLoop

_ENGINE_FAILED: Final = "EngineCore encountered an issue. See stack trace (above) for the root cause."


@dataclasses.dataclass(frozen=True, slots=True)
class Completion:
    """An accepted completion request.

    Attributes:
        number: its place among all accepted ones, from 1.
        request: as sent.
        sequence: its part in the engine.
        answer: what it will say.
        messages: its events and body.
    """

    number: int
    request: CompletionRequest
    sequence: EngineSequence
    answer: Answer
    messages: CompletionMessages

    def usage_after(self, tokens: int) -> dict[str, int]:
        """Return the usage object once so many tokens are given out."""
        return usage(self.sequence.prompt_tokens, tokens)


class Completions:
    """Accepts completion requests and answers them out of one engine."""

    def __init__(self, arguments: ServerArguments, *, tokenizer: Tokenizer, engine_loop: EngineLoop) -> None:
        self._arguments = arguments
        self._fake = arguments.fake
        self._tokenizer = tokenizer
        self._engine_loop = engine_loop
        self._accepted = 0

    def accept(self, request: CompletionRequest) -> Completion:
        """Check a request and prepare its answer; from here on it counts as accepted.

        Raises:
            RefusedError: the prompt is none, too long or not of this vocabulary.
        """
        prompt = request.single_prompt()
        prompt_tokens = self._count_prompt(prompt) + self._fake.extra_prompt_tokens
        self._check_length(prompt_tokens, request.output_limit)
        prompt_key = prompt if isinstance(prompt, str) else repr(prompt)
        answer = Answer(prompt_key, end_token=self._end_token(request, prompt_key))
        output_tokens, finish_reason = answer.length(request.output_limit)
        self._accepted += 1
        return Completion(
            number=self._accepted,
            request=request,
            sequence=EngineSequence(
                prompt_tokens=prompt_tokens,
                output_tokens=output_tokens,
                finish_reason=finish_reason,
                random=sequence_random(self._fake, prompt_key),
                arrived_s=time.monotonic(),
            ),
            answer=answer,
            messages=CompletionMessages(
                identifier=f"cmpl-{uuid.uuid4().hex[:16]}", created_s=int(time.time()), model=request.model
            ),
        )

    async def stream(self, completion: Completion) -> AsyncGenerator[bytes]:
        """Yield the events of a streamed answer."""
        options = completion.request.stream_options
        try:
            async with contextlib.aclosing(self._emissions(completion)) as emissions:
                async for emission in emissions:
                    text = completion.answer.text(emission.start, emission.tokens)
                    so_far = completion.usage_after(emission.start + emission.tokens)
                    continuous = so_far if options is not None and options.continuous_usage_stats else None
                    yield completion.messages.token_event(text, emission.finish_reason, continuous)
        except RefusedError as error:
            yield error_event(error)
        else:
            if options is not None and options.include_usage:
                yield completion.messages.usage_event(so_far)
        yield DONE_EVENT

    async def whole(self, completion: Completion) -> dict[str, Any]:
        """Return the body of an answer that is not streamed.

        Raises:
            RefusedError: the programmed failure of the engine.
        """
        async with contextlib.aclosing(self._emissions(completion)) as emissions:
            async for _ in emissions:
                pass
        sequence = completion.sequence
        text = completion.answer.text(0, sequence.output_tokens)
        return completion.messages.body(text, sequence.finish_reason, completion.usage_after(sequence.output_tokens))

    async def _emissions(self, completion: Completion) -> AsyncGenerator[Emission]:
        """Yield what the engine gives a request, and bring in the programmed faults after each step."""
        with self._engine_loop.generation(completion.sequence) as queue:
            finish_reason = None
            while finish_reason is None:
                emission = await queue.get()
                finish_reason = emission.finish_reason
                yield emission
                self._break_down(completion, emission)

    def _break_down(self, completion: Completion, emission: Emission) -> None:
        if _is_past(self._fake.error_after_requests, completion):
            raise RefusedError(_ENGINE_FAILED, status=HTTPStatus.INTERNAL_SERVER_ERROR, kind="InternalServerError")
        half_given = 2 * (emission.start + emission.tokens) >= completion.sequence.output_tokens
        if _is_past(self._fake.die_after_requests, completion) and half_given:
            sys.stderr.write("FATAL:    the fake server dies as programmed (die_after_requests)\n")
            sys.stderr.flush()
            # A crash: nothing is closed, finished or said to the client.
            os._exit(1)

    def _count_prompt(self, prompt: str | list[int]) -> int:
        if isinstance(prompt, str):
            return len(self._tokenizer.encode(prompt))
        if max(prompt) >= VOCABULARY_SIZE:
            raise RefusedError(f"Token id {max(prompt)} is out of vocabulary", parameter="prompt")
        return len(prompt)

    def _end_token(self, request: CompletionRequest, prompt_key: str) -> int | None:
        """Return the number of the token that ends the answer, if one does; a programmed stop asks nobody."""
        ends = [self._fake.stop_after_tokens]
        if not request.ignore_eos:
            ends.append(natural_end(prompt_key, request.min_tokens))
        return min((end for end in ends if end is not None), default=None)

    def _check_length(self, prompt_tokens: int, output_limit: int) -> None:
        limit = self._arguments.max_model_len
        if prompt_tokens + output_limit > limit:
            raise RefusedError(
                f"This model's maximum context length is {limit} tokens, but the prompt has {prompt_tokens} and "
                f"{output_limit} output tokens were asked for; shorten the prompt or lower max_tokens.",
                parameter="input_tokens",
            )


def _is_past(limit: int | None, completion: Completion) -> bool:
    """Tell whether a fault that begins after ``limit`` requests has begun."""
    return limit is not None and completion.number > limit
