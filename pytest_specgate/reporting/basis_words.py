"""What intervals of acceptance are taken over, and how far drafts were shorter than k: the words of every report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_specgate.reporting.evidence import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_specgate.core.acceptance import AcceptanceCurve, Basis

_OVER: Final[dict[Basis, str]] = {
    "prompts": "over {}",
    "boots": "over {}, which sent the same prompts: they tell nothing of others",
    "drafts": "over {} as if these were independent, which is too narrow",
}


def basis_text(curve: AcceptanceCurve) -> str:
    """Return what the intervals of a curve are taken over: ``over 9 prompts``."""
    return _OVER[curve.basis].format(counted(curve.sampled, curve.basis.removesuffix("s")))


def basis_sentences(curves: Iterable[tuple[str, AcceptanceCurve]], *, link: str) -> Iterator[str]:
    """Yield what the intervals of some curves are taken over, each basis once.

    Args:
        curves: each with its name, which is told where they do not have one basis.
        link: the word before names: ``of`` or ``at``.
    """
    named: dict[str, list[str]] = {}
    for name, curve in curves:
        named.setdefault(basis_text(curve), []).append(name)
    for words, names in named.items():
        where = f" {link} {', '.join(names)}" if len(named) > 1 else ""
        yield f"intervals{where}: 95 %, {words}"


def draft_length_text(curve: AcceptanceCurve) -> str:
    """Return how many tokens a draft has on average, of k: ``3.75 of 4``; never k where any was missing."""
    length, digits = curve.counts.draft_tokens / curve.counts.drafts, 2
    while curve.short_drafts and float(f"{length:.{digits}f}") >= curve.k:
        digits += 1
    return f"{length:.{digits}f} of {curve.k}"


def missing_text(curve: AcceptanceCurve) -> str:
    """Return how many tokens full drafts would have had besides: ``20 of 320 draft tokens missing``."""
    return f"{curve.short_drafts} of {counted(curve.k * curve.counts.drafts, 'draft token')} missing"


def short_drafts_sentence(name: str, curve: AcceptanceCurve) -> str:
    """Return what drafts of fewer than k mean for the rates by position."""
    meaning = (
        "a lower rate at late positions may be shorter drafts, and not refusal"
        if curve.proposed is None
        else "rates by position count these as not accepted"
    )
    return f"{name}: draft length {draft_length_text(curve)}, {missing_text(curve)}: {meaning}"
