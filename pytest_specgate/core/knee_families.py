"""Which windows are about the same drafter: only arms that agree in all but their horizon are ever compared.

A name such as ``ngram`` says nothing of the model it drafts for, nor of how it does. Windows whose arms differ in that
have advice of their own, under names that tell in what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.horizon_records import DrafterHorizons

_WIDTH: Final = 60


def family_names(windows: Sequence[Sequence[DrafterHorizons]]) -> list[list[str]]:
    """Return the name of each drafter of each window: that of its method, and in what it differs from others so called.

    Args:
        windows: the drafters of each.
    """
    everywhere = [told for drafters in windows for told in drafters]
    return [[_name(told, drafters, everywhere) for told in drafters] for drafters in windows]


def _name(told: DrafterHorizons, beside: Sequence[DrafterHorizons], everywhere: Sequence[DrafterHorizons]) -> str:
    alike = [other for other in everywhere if other.drafter == told.drafter]
    if words := ", ".join(_apart(told, alike)):
        return f"{told.drafter} ({words})"
    if sum(other.drafter == told.drafter for other in beside) > 1:
        # Two engines of one window, of which nothing is told, have each their own.
        return f"{told.drafter} ({', '.join(told.arms[k] for k in sorted(told.arms))})"
    return told.drafter


def _apart(told: DrafterHorizons, alike: Sequence[DrafterHorizons]) -> Iterator[str]:
    """Yield the settings in which drafters of one name differ, as one of them has them."""
    for path in sorted({path for other in alike for path in other.settings}):
        if len({repr(other.settings.get(path)) for other in alike}) > 1:
            yield _setting(path, told.settings[path]) if path in told.settings else f"no {path}"


def _setting(path: str, value: JsonValue) -> str:
    text = f"{path}={value}"
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
