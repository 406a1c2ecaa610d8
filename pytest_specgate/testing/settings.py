"""What the fake vLLM can be told: its speeds, its acceptance, its faults."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveInt

Probability = Annotated[float, Field(ge=0, le=1)]


class FakeSettings(BaseModel):
    """The programmable behaviour of a fake vLLM, one JSON object on its command line (``--fake``).

    The defaults give a healthy server: 2 ms a step, 0.8 of the drafts accepted at every position, no fault. The time of
    one engine step is ``step_s + step_s_per_sequence x (sequences - 1) + step_s_per_draft_token x draft tokens
    + prefill_s_per_token x prompt tokens prefilled in it``.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True, hide_input_in_errors=True
    )

    step_s: NonNegativeFloat = 0.002
    """Seconds of a decode step with one running sequence."""

    step_s_per_sequence: NonNegativeFloat = 0.0
    """Seconds added to a step for each further running sequence."""

    step_s_per_draft_token: NonNegativeFloat = 0.0
    """Seconds added to a step for each draft token it verifies, over the whole batch."""

    prefill_s_per_token: NonNegativeFloat = 0.0
    """Seconds added to a step for each prompt token it prefills."""

    acceptance: tuple[Probability, ...] = Field(default=(0.8,), min_length=1)
    """Probability that a draft token is accepted, given that all before it were, by position; the last one holds for
    all further positions."""

    draft_share: Probability = 1.0
    """Share of decode steps in which a sequence drafts at all, as n-gram speculation does when nothing matches."""

    seed: int = 0
    """Seeds, together with the prompt, the drafts and acceptances of every sequence."""

    boot_s: NonNegativeFloat = 0.0
    """Seconds from the start of the process until its port listens."""

    exit_at_start: Annotated[int, Field(ge=0, le=255)] | None = None
    """Exit code with which the process leaves at once, before it listens; `None`: it stays."""

    exit_message: str = ""
    """What is printed to stderr before leaving because of ``exit_at_start``."""

    ready_after_s: NonNegativeFloat = 0.0
    """Seconds after the port listens in which completions are answered with HTTP 503; the model is listed already."""

    extra_prompt_tokens: NonNegativeInt = 0
    """Tokens added to every prompt where prompts are counted (usage and counters, not ``/tokenize``)."""

    stop_after_tokens: PositiveInt | None = None
    """Number of tokens after which every answer ends with finish reason "stop", although ``ignore_eos`` was asked;
    `None`: off."""

    never_draft: bool = False
    """Speculation is configured, but no sequence ever drafts."""

    report_k: PositiveInt | None = None
    """The ``num_speculative_tokens`` that ``/server_info`` claims while speculation is on; `None`: the truth."""

    die_after_requests: NonNegativeInt | None = None
    """Number of completion requests served before the process exits with code 1 in the middle of the next one;
    `None`: off."""

    error_after_requests: NonNegativeInt | None = None
    """Number of completion requests served before each further one fails after its first token event; `None`: off."""

    def acceptance_at(self, position: int) -> float:
        """Return the conditional probability of acceptance at a draft position, counted from 0."""
        return self.acceptance[min(position, len(self.acceptance) - 1)]


class SpeculativeConfig(BaseModel):
    """The part of ``--speculative-config`` that the fake understands; whatever else it holds is kept and shown."""

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)

    num_speculative_tokens: PositiveInt
    method: str | None = None

    def as_given(self) -> dict[str, Any]:
        """Return the keys and values that were set, in the order of the fields."""
        return self.model_dump(exclude_unset=True)
