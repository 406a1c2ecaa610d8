"""From a request to its part in an engine, the same for the server and for a simulation."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from pytest_specgate.testing.answers import Answer, is_altered, natural_end
from pytest_specgate.testing.engine import EngineSequence, sequence_random
from pytest_specgate.testing.faults import AnswerFaults, faults_of
from pytest_specgate.testing.messages import RefusedError
from pytest_specgate.testing.prefix_cache import block_chain
from pytest_specgate.testing.tokenizer import VOCABULARY_SIZE, Tokenizer

if TYPE_CHECKING:
    from pytest_specgate.testing.arguments import ServerArguments

FOREIGN_PROMPT_TOKENS: Final = 16

Prompt = str | list[int]


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """What has to be done for one request.

    Attributes:
        number: its place among all accepted ones, from 1.
        sequence: its part in the engine.
        answer: what it will say.
        faults: what will go wrong.
    """

    number: int
    sequence: EngineSequence
    answer: Answer
    faults: AnswerFaults


class TaskMaker:
    """Makes tasks out of requests, and counts them.

    Args:
        arguments: the command line.
        tokenizer: what counts prompts.
    """

    def __init__(self, arguments: ServerArguments, tokenizer: Tokenizer) -> None:
        self._arguments = arguments
        self._fake = arguments.fake
        self._tokenizer = tokenizer
        self._made = 0
        self._foreign = 0

    def task(
        self, prompt: Prompt, *, output_limit: int, min_tokens: int = 0, ignore_eos: bool = True, arrived_s: float
    ) -> Task:
        """Make the task of the next request.

        Raises:
            RefusedError: the prompt is too long or not of this vocabulary.
        """
        tokens = self._tokens(prompt)
        prompt_tokens = len(tokens) + self._fake.extra_prompt_tokens
        self._check_length(prompt_tokens, output_limit)
        prompt_key = prompt if isinstance(prompt, str) else repr(prompt)
        ends = [self._fake.stop_after_tokens, None if ignore_eos else natural_end(prompt_key, min_tokens)]
        answer = Answer(
            prompt_key,
            end_token=min((end for end in ends if end is not None), default=None),
            turn=output_limit // 2 if is_altered(prompt_key, self._fake.altered_answers) else None,
        )
        output_tokens, finish_reason = answer.length(output_limit)
        self._made += 1
        faults = faults_of(self._fake, self._made)
        sequence = EngineSequence(
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            finish_reason=finish_reason,
            random=sequence_random(self._fake, prompt_key),
            arrived_s=arrived_s,
            blocks=block_chain(tokens, self._arguments.block_size) if self._arguments.prefix_caching else (),
            counted_as=faults.counted_as,
        )
        return Task(self._made, sequence, answer, faults)

    def foreign(self, arrived_s: float) -> EngineSequence:
        """Make the sequence of a request of somebody else."""
        self._foreign += 1
        return EngineSequence(
            prompt_tokens=FOREIGN_PROMPT_TOKENS,
            output_tokens=self._fake.foreign_output_tokens,
            finish_reason="length",
            random=sequence_random(self._fake, f"foreign request {self._foreign}"),
            arrived_s=arrived_s,
            foreign=True,
        )

    def _tokens(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, str):
            return self._tokenizer.encode(prompt)
        if max(prompt) >= VOCABULARY_SIZE:
            raise RefusedError(f"Token id {max(prompt)} is out of vocabulary", parameter="prompt")
        return prompt

    def _check_length(self, prompt_tokens: int, output_limit: int) -> None:
        limit = self._arguments.max_model_len
        if prompt_tokens + output_limit > limit:
            raise RefusedError(
                f"This model's maximum context length is {limit} tokens, but the prompt has {prompt_tokens} and "
                f"{output_limit} output tokens were asked for; shorten the prompt or lower max_tokens.",
                parameter="input_tokens",
            )
