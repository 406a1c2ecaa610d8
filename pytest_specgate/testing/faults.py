"""What goes wrong with one answer, by the number of its request."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pytest_specgate.testing.readings import FinishedReason
    from pytest_specgate.testing.settings import FakeSettings

StreamFault = Literal["stall", "truncate", "cut"]


@dataclasses.dataclass(frozen=True, slots=True)
class AnswerFaults:
    """The programmed faults of one completion request.

    Attributes:
        delay_s: seconds by which its first token is late.
        error: whether it fails after its first token event.
        death: whether the process dies in the middle of it.
        foreign: whether a request of somebody else comes with it.
        counted_as: the reason under which its end is counted; `None`: the true one.
        streams: faults of its stream, with the number of token events before each.
    """

    delay_s: float
    error: bool
    death: bool
    foreign: bool
    counted_as: FinishedReason | None
    streams: dict[StreamFault, int]

    def strikes(self, fault: StreamFault, *, written: int, tokens: int) -> bool:
        """Tell whether a fault strikes before the next event of a stream.

        Args:
            fault: which.
            written: token events that went before.
            tokens: tokens of the next event; 0 if it is no token event, so that the answer is complete.
        """
        after = self.streams.get(fault)
        return after is not None and (written >= after or not tokens)


def faults_of(settings: FakeSettings, number: int) -> AnswerFaults:
    """Return the faults that the settings have for a request, by its place among all accepted ones, from 1."""

    def past(limit: int | None) -> bool:
        return limit is not None and number > limit

    streams: dict[StreamFault, int] = {}
    if past(settings.stall_after_requests):
        streams["stall"] = settings.stall_after_events
    if past(settings.truncate_after_requests):
        streams["truncate"] = settings.truncate_after_events
    if past(settings.cut_after_requests):
        streams["cut"] = settings.cut_after_events
    return AnswerFaults(
        delay_s=settings.slow_first_s if number <= settings.slow_first_requests else 0.0,
        error=past(settings.error_after_requests),
        death=past(settings.die_after_requests),
        foreign=past(settings.foreign_after_requests),
        counted_as="abort" if past(settings.abort_after_requests) else None,
        streams=streams,
    )
