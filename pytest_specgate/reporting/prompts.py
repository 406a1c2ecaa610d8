"""What reports say of the load: where prompts come from and how much they repeat themselves, and what else was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.flags import RANDOM_TOKENS
from pytest_specgate.core.levels import level_label, temperature_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import WindowRecord


def load_text(record: WindowRecord) -> str:
    """Return what was sent: prompts, output tokens, a temperature other than 0, and requests by load level."""
    profile = record.profile
    counts = ", ".join(f"{count} requests at {level_label(at)}" for at, count in profile.requests.items())
    return f"{prompts_text(record)}, {profile.output_tokens} output tokens{_temperature(profile)}, {counts}"


def temperature_lines(profile: RequestProfile, at: Level) -> Iterator[str]:
    """Say at which temperature a level was sent, where it is not 0 and the level's name does not tell it."""
    if profile.temperature_at(at) and temperature_of(at) is None:
        yield f"{level_label(at)} is sent at temperature {profile.temperature:g}, which is that of the profile"


def _temperature(profile: RequestProfile) -> str:
    """Name the temperature of the levels whose names tell none; nothing where that is 0, or of no level."""
    own = [temperature_of(at) is not None for at in profile.points]
    if not profile.temperature or all(own):
        return ""
    return f" at temperature {profile.temperature:g}{' where a level names none' if any(own) else ''}"


def prompts_text(record: WindowRecord) -> str:
    """Return the part of the load line that is about prompts."""
    profile = record.profile
    length = "of their own lengths" if profile.input_tokens is None else f"of {profile.input_tokens} tokens"
    remarks = [RANDOM_TOKENS] if profile.prompts == "random" else []
    remarks += _repetitiveness(record)
    chat = " as chat" if profile.api == "chat" else ""
    aside = f" ({', '.join(remarks)})" if remarks else ""
    return f"{profile.source} prompts{chat} {length}{aside}"


def _repetitiveness(record: WindowRecord) -> list[str]:
    """Say how much the prompts repeat themselves, as a range where points differ."""
    known = [found for boot in record.boots for point in boot.points if (found := point.repetitiveness) is not None]
    if not known:
        return []
    texts = dict.fromkeys(f"{value:.2f}" for value in (min(known), max(known)))
    return [f"repetitiveness {' to '.join(texts)}"]


def speculation_caption(profile: RequestProfile) -> str:
    """Return the line above the table of speculation."""
    label = f"; {RANDOM_TOKENS}" if profile.prompts == "random" else ""
    return f"speculation, from counter deltas of each point, all rounds pooled{label}"
