"""What a server tells of one request's speculation: histograms of its drafts, believed only if they agree.

vLLM tells it with ``--per-request-spec-decode-metrics``, in the last event of a stream, as
``metrics.speculative_decoding``; it calls the field experimental. So what cannot be read, or contradicts itself, is no
fault of an answer: the answer counts, and tells nothing of its speculation.

A step that verified a draft accepted j of its tokens. Position i was reached by drafts of i tokens or more, and held in
those of which i or more were accepted; positions are named from 1.
"""

from __future__ import annotations

import collections
import itertools
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeAlias

from pydantic import Field, model_validator

from pytest_specgate.core.speculation import SpeculationDelta
from pytest_specgate.core.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST: Final = 2**53
"""Counts beyond what a float holds exactly are no counts."""

_LONGEST: Final = 1024
"""Draft positions beyond this many are no horizon of a drafter."""

_LISTS: Final = ("acceptance_histogram", "per_step_accepted", "per_step_drafted")

_Count: TypeAlias = Annotated[int, Field(ge=0, le=_MOST)]


class RequestSpeculation(Stored):
    """What one request drafted and accepted.

    Attributes:
        draft_tokens: tokens proposed.
        accepted_histogram: drafts by the number of their tokens that were accepted, from 0 to k.
        drafted_histogram: drafts by the number of tokens that they proposed, from 0 to k; `None` where the server does
            not tell.
    """

    draft_tokens: _Count
    accepted_histogram: Annotated[tuple[_Count, ...], Field(min_length=2, max_length=_LONGEST + 1)]
    drafted_histogram: tuple[_Count, ...] | None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if problem := _contradiction(self.draft_tokens, self.accepted_histogram, self.drafted_histogram):
            raise ValueError(problem)
        return self

    @property
    def k(self) -> int:
        """The draft horizon."""
        return len(self.accepted_histogram) - 1

    @property
    def drafts(self) -> int:
        """Verify steps that had a draft."""
        return sum(self.accepted_histogram)

    @property
    def accepted_tokens(self) -> int:
        """Draft tokens accepted."""
        return _tokens(self.accepted_histogram)

    @property
    def accepted_per_position(self) -> tuple[int, ...]:
        """Drafts in which a position was accepted, from position 1."""
        return _reached(self.accepted_histogram)

    @property
    def proposed_per_position(self) -> tuple[int, ...] | None:
        """Drafts that reached a position, from position 1; `None` where the server does not tell."""
        return None if self.drafted_histogram is None else _reached(self.drafted_histogram)

    def delta(self) -> SpeculationDelta:
        """Return the counts as the counters of a server have them."""
        return SpeculationDelta(self.drafts, self.draft_tokens, self.accepted_tokens, self.accepted_per_position)


def read_request_speculation(told: object) -> RequestSpeculation:
    """Read what a server tells of one request, in the form of vLLM's ``metrics.speculative_decoding``.

    Keys that are not known are left alone, and so are means and rates, which the counts give.

    Raises:
        ValueError: it has another form, or contradicts itself; a sentence without any text of the server.
    """
    if not isinstance(told, dict):
        raise ValueError("speculative_decoding is no JSON object")  # noqa: TRY004  - one error for all that is not believed
    names = ("num_spec_tokens", "num_spec_steps", "num_accepted_draft_tokens", "num_draft_tokens")
    k, drafts, accepted, draft_tokens = (_count(told, name) for name in names)
    histogram, *steps = (_counts(told, name) for name in _LISTS)
    if histogram is None:
        raise ValueError("acceptance_histogram is missing")
    if not 1 <= k <= _LONGEST or len(histogram) != k + 1:
        raise ValueError(f"acceptance_histogram has {len(histogram)} entries, and num_spec_tokens is {k}")
    if sum(histogram) != drafts:
        raise ValueError(f"num_spec_steps is {drafts}, and acceptance_histogram sums to {sum(histogram)}")
    if _tokens(histogram) != accepted:
        raise ValueError(f"num_accepted_draft_tokens is {accepted}, and acceptance_histogram has {_tokens(histogram)}")
    drafted = _drafted(histogram, *steps)
    # Said here in one sentence; the model would wrap it in lines about validation.
    if problem := _contradiction(draft_tokens, histogram, drafted):
        raise ValueError(problem)
    return RequestSpeculation(draft_tokens=draft_tokens, accepted_histogram=tuple(histogram), drafted_histogram=drafted)


def _drafted(
    histogram: Sequence[int], accepted: Sequence[int] | None, drafted: Sequence[int] | None
) -> tuple[int, ...] | None:
    """Return the drafts by their length out of what is told step by step; `None` where nothing is.

    A request that never drafted has no steps to tell, and nothing about it is unknown.
    """
    if accepted is None and drafted is None:
        return None if any(histogram) else tuple(histogram)
    if accepted is None or drafted is None or len(accepted) != len(drafted):
        raise ValueError("per_step_accepted and per_step_drafted are not of the same steps")
    longest = len(histogram) - 1
    steps = collections.Counter(zip(accepted, drafted, strict=True))
    if any(held > proposed or proposed > longest for held, proposed in steps):
        raise ValueError(f"a step accepted more than it drafted, or drafted more than {longest} tokens")
    by_accepted = collections.Counter(accepted)
    if any(by_accepted[held] != count for held, count in enumerate(histogram)):
        raise ValueError("per_step_accepted does not give acceptance_histogram")
    by_drafted = collections.Counter(drafted)
    return tuple(by_drafted[length] for length in range(longest + 1))


def _contradiction(draft_tokens: int, accepted: Sequence[int], drafted: Sequence[int] | None) -> str | None:
    """Return in what the figures of one request cannot all be true, `None` if they can."""
    drafts, k = sum(accepted), len(accepted) - 1
    if not _tokens(accepted) <= draft_tokens <= k * drafts:
        return f"{_tokens(accepted)} tokens accepted and {draft_tokens} drafted in {drafts} drafts of at most {k}"
    if drafted is None:
        return None
    if (len(drafted), sum(drafted), _tokens(drafted)) != (k + 1, drafts, draft_tokens):
        found = f"{_tokens(drafted)} tokens in {sum(drafted)} drafts of at most {len(drafted) - 1}"
        return f"lengths of drafts give {found}, and not {draft_tokens} in {drafts} of at most {k}"
    if any(held > reached for held, reached in zip(_reached(accepted), _reached(drafted), strict=True)):
        return "more drafts were accepted at a position than reached it"
    return None


def _tokens(histogram: Sequence[int]) -> int:
    return sum(tokens * count for tokens, count in enumerate(histogram))


def _reached(histogram: Sequence[int]) -> tuple[int, ...]:
    """Return how many entries lie at 1 or more, at 2 or more, and so on."""
    return tuple(itertools.accumulate(reversed(histogram)))[-2::-1]


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _count(told: dict[str, Any], name: str) -> int:
    value = told.get(name)
    if not _is_count(value):
        raise ValueError(f"{name} is missing, or no count")
    assert isinstance(value, int)
    return value


def _counts(told: dict[str, Any], name: str) -> list[int] | None:
    values = told.get(name)
    if values is None:
        return None
    if not isinstance(values, list) or not all(map(_is_count, values)):
        raise ValueError(f"{name} is no list of counts")
    return values
