"""What reports say of the prompts: where they come from, how long they are, and how much they repeat themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.flags import RANDOM_TOKENS

if TYPE_CHECKING:
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import WindowRecord


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
