"""The truth of a fake vLLM: what it really did, request by request, as typed models and as JSON of ``/fake/truth``."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from pytest_specgate.testing.readings import FinishedReason

TRUTH_VERSION: Final = 1


class _Truth(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class RequestTruth(_Truth):
    """One completion request. ``output_tokens == 1 + decode_steps + accepted_tokens - cut_tokens`` once it has any."""

    number: int
    """Its place among all accepted requests, from 1: the number that the settings of faults count."""

    body_sha256: str | None
    """SHA-256 of the body as received, in hexadecimal; `None` in a simulation, which has no bodies."""

    engine: int
    """Place of the engine that served it: the ``engine`` label of its counters."""

    arrived_s: float
    """Time at which its last byte had been read."""

    event_times_s: tuple[float, ...]
    """Time of each token event, right before it was written to the socket; empty where the answer was one body."""

    event_tokens: tuple[int, ...]
    """Tokens of each of those events."""

    prompt_tokens: int
    """Length of the prompt."""

    cached_prompt_tokens: int
    """Prompt tokens found in the prefix cache."""

    output_tokens: int
    """Tokens the engine has given out; more than were written, if the stream was cut or stalls."""

    decode_steps: int
    """Steps after the one that gave the first token."""

    drafts: int
    """Decode steps that verified a draft."""

    draft_tokens: int
    """Tokens those drafts proposed."""

    accepted_tokens: int
    """Draft tokens accepted, as vLLM counts them: before the end of the answer cuts them."""

    cut_tokens: int
    """Accepted tokens beyond the end of the answer, which nobody got."""

    drafts_by_accepted: tuple[int, ...] = ()
    """Those drafts by the number of their tokens that were accepted, from 0 to the most of them."""

    drafts_by_length: tuple[int, ...] = ()
    """Those drafts by the number of tokens that they proposed, from 0 to the most of them."""

    finish_reason: FinishedReason | None
    """Why it ended, whatever was counted; `None` while it runs."""


class EngineTruth(_Truth):
    """One engine, since its start: never late, never reset."""

    engine: int
    """Its place: its ``engine`` label."""

    steps: int
    """Engine steps that gave tokens."""

    busy_s: float
    """Seconds that those steps should take by the settings."""

    requests: int
    """Requests that reached it, those of somebody else included."""

    foreign_requests: int
    """Those of somebody else; they are in no list of requests."""

    foreign_output_tokens: int
    """Tokens generated for them."""

    prompt_tokens: int
    """Prompt tokens of all requests admitted to a batch, cached ones included."""

    cached_prompt_tokens: int
    """Those of them that were found in the prefix cache."""

    output_tokens: int
    """Tokens given out."""

    decode_steps: int
    """Steps of a sequence after the one that gave its first token."""

    drafts: int
    """Those of them that verified a draft."""

    draft_tokens: int
    """Tokens those drafts proposed."""

    accepted_per_position: tuple[int, ...]
    """Accepted draft tokens by position; empty when speculation is off."""

    cut_tokens: int
    """Accepted tokens beyond the end of an answer, which nobody got."""

    finished: dict[FinishedReason, int]
    """Ended requests by reason, whatever was counted."""

    @property
    def accepted_tokens(self) -> int:
        """Accepted draft tokens over all positions."""
        return sum(self.accepted_per_position)


class FakeTruth(_Truth):
    """What a fake vLLM really did.

    All times are seconds. Those of a server are of the machine's monotonic clock (``CLOCK_MONOTONIC``), which on Linux
    is the clock of `time.monotonic` and of `time.perf_counter` in every process: a client on the same machine compares
    them with its own stamps. Those of a simulation begin at 0.
    """

    schema_version: Literal[1] = TRUTH_VERSION
    """Version of this form."""

    clock: Literal["monotonic", "virtual"]
    """Clock of the times."""

    taken_s: float
    """Time at which this was written down."""

    forgotten_requests: int
    """Number of requests, from the first on, that are not listed: too long ago for the memory set aside."""

    requests: tuple[RequestTruth, ...]
    """Requests in order of their arrival."""

    engines: tuple[EngineTruth, ...]
    """Engines in the order of their labels."""
