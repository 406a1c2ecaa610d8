"""Completion requests: checked, run through an engine, told to the client step by step."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import os
import sys
import time
import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.testing.chat import ChatMessages, ChatRequest
from pytest_specgate.testing.http_server import Cut, half_written
from pytest_specgate.testing.messages import DONE_EVENT, CompletionMessages, RefusedError, error_event, usage
from pytest_specgate.testing.request_metrics import body_metrics, streamed_metrics
from pytest_specgate.testing.sequences import TaskMaker

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from pytest_specgate.testing.arguments import ServerArguments
    from pytest_specgate.testing.engine import Emission
    from pytest_specgate.testing.engine_loop import EngineLoop
    from pytest_specgate.testing.fleet import Fleet
    from pytest_specgate.testing.http_server import HttpRequest
    from pytest_specgate.testing.messages import AnswerRequest
    from pytest_specgate.testing.sequences import Task
    from pytest_specgate.testing.tokenizer import Tokenizer
    from pytest_specgate.testing.truth_log import TruthEntry, TruthLog

_ENGINE_FAILED: Final = "EngineCore encountered an issue. See stack trace (above) for the root cause."


@dataclasses.dataclass(frozen=True, slots=True)
class Completion:
    """An accepted completion request.

    Attributes:
        request: as sent, to either API.
        task: what has to be done for it.
        engine_loop: the engine that does it.
        messages: its events and body.
        entry: its place in the truth.
    """

    request: AnswerRequest
    task: Task
    engine_loop: EngineLoop
    messages: CompletionMessages | ChatMessages
    entry: TruthEntry

    def usage_after(self, tokens: int) -> dict[str, int]:
        """Return the usage object once so many tokens are given out."""
        return usage(self.task.sequence.prompt_tokens, tokens)

    def token_event(self, emission: Emission) -> bytes:
        """Return the event of one step."""
        text = self.task.answer.text(emission.start, emission.tokens)
        options = self.request.stream_options
        continuous = options is not None and options.continuous_usage_stats
        so_far = self.usage_after(emission.start + emission.tokens) if continuous else None
        return self.messages.token_event(text, emission.finish_reason, so_far)


class Completions:
    """Accepts completion requests and answers them out of the engines.

    Args:
        arguments: the command line.
        tokenizer: what counts prompts.
        fleet: the engines.
        engine_loops: what runs them, in the same order.
        truth_log: where it is noted what really happened.
    """

    def __init__(
        self,
        arguments: ServerArguments,
        *,
        tokenizer: Tokenizer,
        fleet: Fleet,
        engine_loops: Sequence[EngineLoop],
        truth_log: TruthLog,
    ) -> None:
        self._arguments = arguments
        self._fake = arguments.fake
        self._tasks = TaskMaker(arguments, tokenizer)
        self._fleet = fleet
        self._engine_loops = engine_loops
        self._truth_log = truth_log

    def accept(self, request: AnswerRequest, received: HttpRequest) -> Completion:
        """Check a request and prepare its answer; from here on it counts as accepted.

        Raises:
            RefusedError: the prompt is none, too long or not of this vocabulary.
        """
        task = self._tasks.task(
            request.single_prompt(),
            output_limit=request.output_limit,
            min_tokens=request.min_tokens,
            ignore_eos=request.ignore_eos,
            arrived_s=received.received_s,
        )
        if task.faults.foreign:
            self.submit_foreign()
        place = self._fleet.choose()
        return Completion(
            request=request,
            task=task,
            engine_loop=self._engine_loops[place],
            messages=_messages(request),
            entry=self._truth_log.open(
                body_sha256=hashlib.sha256(received.body).hexdigest(),
                engine=place,
                arrived_s=received.received_s,
                tally=task.sequence.tally,
            ),
        )

    def submit_foreign(self) -> None:
        """Let somebody else's request in."""
        self._engine_loops[self._fleet.choose()].submit(self._tasks.foreign(time.monotonic()))

    async def stream(self, completion: Completion) -> AsyncGenerator[bytes | Cut, float]:
        """Yield the events of a streamed answer, and be sent the time at which each was written."""
        faults = completion.task.faults
        stalls = "stall" in faults.streams
        written = 0
        async with contextlib.aclosing(self._events(completion)) as events:
            async for event, tokens in events:
                if stalls and faults.strikes("stall", written=written, tokens=tokens):
                    stalls = False
                    await _stall(self._fake.stall_s)
                if faults.strikes("truncate", written=written, tokens=tokens):
                    return
                if faults.strikes("cut", written=written, tokens=tokens):
                    yield half_written(event, inside=self._fake.cut_inside)
                    return
                written_s = yield event
                if tokens:
                    written += 1
                    self._truth_log.wrote(completion.entry, at_s=written_s, tokens=tokens)

    async def whole(self, completion: Completion) -> dict[str, Any]:
        """Return the body of an answer that is not streamed.

        Raises:
            RefusedError: the programmed failure of the engine.
        """
        async with contextlib.aclosing(self._emissions(completion)) as emissions:
            async for _ in emissions:
                pass
        sequence = completion.task.sequence
        text = completion.task.answer.text(0, sequence.output_tokens)
        return completion.messages.body(
            text,
            sequence.finish_reason,
            completion.usage_after(sequence.output_tokens),
            body_metrics(sequence, self._arguments),
        )

    async def _events(self, completion: Completion) -> AsyncGenerator[tuple[bytes, int]]:
        """Yield every event with its number of tokens, 0 if it is no token event."""
        options = completion.request.stream_options
        opening = completion.messages.opening
        try:
            async with contextlib.aclosing(self._emissions(completion)) as emissions:
                async for emission in emissions:
                    if opening:
                        yield opening, 0
                        opening = b""
                    yield completion.token_event(emission), emission.tokens
        except RefusedError as error:
            yield error_event(error), 0
        else:
            if options is not None and options.include_usage:
                total = completion.usage_after(emission.start + emission.tokens)
                metrics = streamed_metrics(completion.task.sequence, self._arguments)
                yield completion.messages.usage_event(total, metrics), 0
        yield DONE_EVENT, 0

    async def _emissions(self, completion: Completion) -> AsyncGenerator[Emission]:
        """Yield what the engine gives a request, and bring in the programmed faults after each step."""
        if completion.task.faults.delay_s:
            await asyncio.sleep(completion.task.faults.delay_s)
        with completion.engine_loop.generation(completion.task.sequence) as queue:
            finish_reason = None
            while finish_reason is None:
                emission = await queue.get()
                finish_reason = emission.finish_reason
                yield emission
                _break_down(completion.task, emission)


def _messages(request: AnswerRequest) -> CompletionMessages | ChatMessages:
    """Return what words the answer to a request of either API."""
    number, created_s = uuid.uuid4().hex[:16], int(time.time())
    if isinstance(request, ChatRequest):
        return ChatMessages(identifier=f"chatcmpl-{number}", created_s=created_s, model=request.model)
    return CompletionMessages(identifier=f"cmpl-{number}", created_s=created_s, model=request.model)


async def _stall(seconds: float | None) -> None:
    if seconds is None:
        await asyncio.Event().wait()
    else:
        await asyncio.sleep(seconds)


def _break_down(task: Task, emission: Emission) -> None:
    """Fail or crash, if that is programmed for this request and this moment."""
    if task.faults.error:
        raise RefusedError(_ENGINE_FAILED, status=HTTPStatus.INTERNAL_SERVER_ERROR, kind="InternalServerError")
    if task.faults.death and 2 * (emission.start + emission.tokens) >= task.sequence.output_tokens:
        sys.stderr.write("FATAL:    the fake server dies as programmed (die_after_requests)\n")
        sys.stderr.flush()
        # A crash: nothing is closed, finished or said to the client.
        os._exit(1)
