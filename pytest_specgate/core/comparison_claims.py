"""What is claimed when two windows are compared, as a command line says it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.declared import fraction_of
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.floors import NoiseFloor
from pytest_specgate.core.metrics import HEADLINE, metric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SOURCE_LENGTH: Final = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Claims:
    """What is claimed of the candidate: not worse by more than a margin, given how far two windows lie apart.

    Attributes:
        floor: 95 % of the differences of two windows of the same code lie within it; `None` claims nothing.
        margin: the largest loss of a headline metric that is still called "not worse", a fraction; `None` for none.
        margins: likewise by metric, headline or not.
    """

    floor: NoiseFloor | None = None
    margin: float | None = None
    margins: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def margin_of(self, name: str) -> float | None:
        """Return the margin of a metric; `None` where nothing is claimed of it."""
        return self.margins.get(name, self.margin if name in HEADLINE else None)


def claims_of(*, cross_window: str | None, source: str | None, margins: Sequence[str]) -> Claims:
    """Read what a user claims.

    Args:
        cross_window: floor across windows, as ``3%``; `None` for none.
        source: where that figure comes from.
        margins: ``5%`` for the headline metrics, ``ttft_p50=10%`` for one.

    Raises:
        UsageError: one of them is missing, or cannot be read; the message says why it is needed.
    """
    if cross_window is None:
        _refuse_without_floor(source, margins)
        return Claims()
    if source is None or len(source.strip()) < _SOURCE_LENGTH:
        raise UsageError(
            "--cross-window is a measured figure: say where it comes from, with --source 'six windows of one commit'"
        )
    fraction = fraction_of("--cross-window", cross_window)
    if not 0 < fraction < 1:
        raise UsageError(f"--cross-window={cross_window!r} is no floor: write more than 0 % and less than 100 %")
    if not margins:
        raise UsageError(
            "--cross-window judges, and nothing says what loss is still called 'not worse': give --margin '5%', or one "
            "for each metric as --margin output_throughput=5%"
        )
    found = _margins(margins)
    return Claims(NoiseFloor(fraction, source.strip()), found.pop("", None), found)


def _refuse_without_floor(source: str | None, margins: Sequence[str]) -> None:
    if source is not None:
        raise UsageError("--source says where the floor across windows comes from: give --cross-window '3%' too")
    if margins:
        raise UsageError(
            "--margin judges, and two windows have no spread to judge by: declare how far two windows of the same code "
            "lie apart, with --cross-window '3%' --source '...'"
        )


def _margins(texts: Sequence[str]) -> dict[str, float]:
    """Return margins by metric, that of the headline metrics under an empty name."""
    found: dict[str, float] = {}
    for text in texts:
        name, equals, amount = (part.strip() for part in text.rpartition("="))
        if equals and not name:
            raise UsageError(f"--margin={text!r} names no metric: write --margin '5%' or --margin output_throughput=5%")
        if name in found:
            raise UsageError(f"--margin is given twice for {name or 'the headline metrics'}: give it once")
        found[name] = fraction_of("--margin", amount)
        for one in (name,) if name else HEADLINE:
            _check_margin(one, found[name])
    return found


def _check_margin(name: str, fraction: float) -> None:
    row = metric(name)
    if not row.gated or row.unit == "events":
        why = "is a count, which has no ratio" if row.gated else "has no better direction"
        raise UsageError(f"--margin {name}: {name} {why}: it is shown, and cannot be judged")
    if row.higher_is_better and fraction >= 1:
        raise UsageError(
            f"--margin: a loss of {100 * fraction:g} % on {name} allows it to vanish: write less than 100 %"
        )
