"""What an answer tells of its own speculation, in the shapes of vLLM's ``metrics``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.testing.arguments import ServerArguments
    from pytest_specgate.testing.engine import EngineSequence

Level: TypeAlias = Literal["none", "summary", "detailed"]
"""How much is told: nothing, counts, or every step, too."""

REFUSED: Final = (
    "--per-request-spec-decode-metrics requires speculative decoding to be enabled (via --speculative-config)."
)
"""What vLLM says when it is asked to tell of speculation that there is not."""

_TIMES: Final = ("time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second")
_STEPS: Final = ("per_step_accepted", "per_step_drafted")


def streamed_metrics(sequence: EngineSequence, arguments: ServerArguments) -> dict[str, Any] | None:
    """Return the ``metrics`` of the last event of a stream, which leaves out what it does not tell; `None` for none."""
    told = _speculation(sequence, arguments)
    return None if told is None else {"speculative_decoding": told}


def body_metrics(sequence: EngineSequence, arguments: ServerArguments) -> dict[str, Any] | None:
    """Return the ``metrics`` of an answer in one body, where what is not told is null; `None` for none."""
    told = _speculation(sequence, arguments)
    if told is None:
        return None
    return {**dict.fromkeys(_TIMES), "speculative_decoding": {**told, **{name: told.get(name) for name in _STEPS}}}


def _speculation(sequence: EngineSequence, arguments: ServerArguments) -> dict[str, Any] | None:
    tally, k, level = sequence.tally, arguments.draft_tokens, arguments.request_metrics
    if level == "none":
        return None
    histogram = _padded(tally.drafts_by_accepted, k + 1)
    told = {
        "mean_acceptance_length": 1.0 + tally.accepted_tokens / tally.drafts if tally.drafts else 1.0,
        "draft_acceptance_rate": tally.accepted_tokens / tally.draft_tokens if tally.draft_tokens else 0.0,
        "acceptance_histogram": histogram,
        "num_spec_steps": tally.drafts,
        "num_accepted_draft_tokens": tally.accepted_tokens,
        "num_draft_tokens": tally.draft_tokens,
        "num_spec_tokens": k,
    }
    # Like vLLM, which tells no steps where there are none.
    if level == "detailed" and sequence.verified:
        accepted, drafted = ([step[place] for step in sequence.verified] for place in (1, 0))
        told |= {"per_step_accepted": accepted, "per_step_drafted": drafted}
    return told


def _padded(counts: Sequence[int], length: int) -> list[int]:
    return [*counts, *([0] * (length - len(counts)))]
