"""What the fake vLLM can be told: its speeds, its acceptance, its faults."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

Probability = Annotated[float, Field(ge=0, le=1)]
AfterRequests = NonNegativeInt | None
"""Number of completion requests that stay unharmed; every further one is hit. `None`: the fault is off."""


class FakeSettings(BaseModel):
    """The programmable behaviour of a fake vLLM, one JSON object on its command line (``--fake``).

    The defaults give a healthy server: 2 ms a step, 0.8 of the drafts accepted at every position, no fault. The time of
    one engine step is ``step_s + step_s_per_sequence x (sequences - 1) + step_s_per_draft_token x draft tokens
    + prefill_s_per_token x prompt tokens prefilled in it``; prompt tokens found in the prefix cache are not prefilled.

    Names of faults follow one scheme: ``<fault>_after_requests`` is the number of completion requests that stay
    unharmed, and `None` switches the fault off; ``<fault>_after_events`` says where in a stream it strikes, in token
    events (if the answer has fewer, after its last one). What concerns streams leaves answers in one body alone.
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

    draft_lengths: tuple[PositiveInt, ...] | None = Field(default=None, min_length=1)
    """Lengths of drafts, of which each draft takes one at random, at most k: `[4, 4, 4, 2]` makes a quarter of them
    short. `None`: every draft has k tokens."""

    never_draft: bool = False
    """Speculation is configured, but no sequence ever drafts."""

    prefix_caching: bool = False
    """Whether prompts share cached blocks; `--enable-prefix-caching` and `--no-enable-prefix-caching` override it."""

    seed: int = 0
    """Seeds, together with the prompt, the drafts and acceptances of every sequence."""

    boot_s: NonNegativeFloat = 0.0
    """Seconds from the start of the process until its port listens."""

    exit_at_start: Annotated[int, Field(ge=0, le=255)] | None = None
    """Exit code with which the process leaves at once, before it listens; `None`: it stays."""

    exit_message: str = ""
    """What is printed to stderr before leaving because of `exit_at_start`."""

    healthy_after_s: NonNegativeFloat = 0.0
    """Seconds after the port listens in which `/health` is answered with HTTP 503; the model is listed already."""

    ready_after_s: NonNegativeFloat = 0.0
    """Seconds after the port listens in which completions are answered with HTTP 503; the model is listed already."""

    sync_under_speculation: bool = False
    """Under speculation `/server_info` tells synchronous scheduling: a difference that nobody declared."""

    report_k: PositiveInt | None = None
    """The `num_speculative_tokens` that `/server_info` claims while speculation is on; `None`: the truth."""

    extra_prompt_tokens: NonNegativeInt = 0
    """Tokens added to every prompt where prompts are counted (usage and counters, not `/tokenize`)."""

    stop_after_tokens: PositiveInt | None = None
    """Number of tokens after which every answer ends with finish reason "stop", although `ignore_eos` was asked;
    `None`: off."""

    altered_answers: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of prompts, drawn by their text, whose answers turn into others half-way, as rounding may turn them."""

    slow_first_requests: NonNegativeInt = 0
    """Number of completion requests, from the first on, whose first token comes `slow_first_s` later."""

    slow_first_s: NonNegativeFloat = 0.5
    """Seconds by which those are late."""

    error_after_requests: AfterRequests = None
    """An error event after the first token event, in a stream of HTTP 200; HTTP 500 where the answer is one body."""

    stall_after_requests: AfterRequests = None
    """A stream that stops for `stall_s`, while the engine and its counters go on."""

    stall_after_events: PositiveInt = 1
    """Token events before the stall."""

    stall_s: NonNegativeFloat | None = None
    """Seconds of the stall; `None`: for ever."""

    truncate_after_requests: AfterRequests = None
    """A stream that ends in good order, but early: no finish reason, no usage, no `[DONE]`. It counts as aborted."""

    truncate_after_events: PositiveInt = 1
    """Token events of a truncated stream."""

    cut_after_requests: AfterRequests = None
    """A stream whose connection is closed after half an event. It counts as aborted."""

    cut_after_events: PositiveInt = 1
    """Token events before the half one."""

    cut_inside: Literal["chunk", "event"] = "chunk"
    """Whether the half event is half a chunk of the transfer coding, too, or a chunk that is whole."""

    die_after_requests: AfterRequests = None
    """A crash: the process exits with code 1 once half of the answer is given."""

    abort_after_requests: AfterRequests = None
    """An answer that is complete, but counted as `finished_reason="abort"`."""

    reset_after_requests: PositiveInt | None = None
    """Number of finished requests after which, once, all counters start from zero again with new `_created` times."""

    counters_late_s: NonNegativeFloat = 0.0
    """Seconds for which the last step of every request is not counted yet, and the request counts as running."""

    foreign_after_requests: AfterRequests = None
    """A request of somebody else beside each request: it is in the batch and in the counters, and nobody asked it."""

    foreign_every_s: PositiveFloat | None = None
    """Seconds from one request of somebody else to the next, from the start on; `None`: off."""

    foreign_output_tokens: PositiveInt = 16
    """Tokens generated for each request of somebody else; its prompt has 16."""

    log_bytes_at_start: NonNegativeInt = 0
    """Bytes printed to stderr once the port listens."""

    log_bytes_per_request: NonNegativeInt = 0
    """Bytes printed to stderr for each completion request."""

    ignore_sigint: bool = False
    """SIGINT is logged and does nothing."""

    ignore_sigterm: bool = False
    """SIGTERM is logged and does nothing."""

    truth_folder: str | None = None
    """Folder in which the process leaves its truth (`truth-<pid>.json`) when it stops in good order; `None`: none."""

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
