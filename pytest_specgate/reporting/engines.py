"""Engines as text: which build served each arm, in what two builds differ, what is not proved of attached servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_specgate.core.confounds import CHANGED_COMMAND, attached_sentence, build_differences

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.records import WindowRecord

_DIGEST_SHOWN: Final = 12


def engine_lines(record: WindowRecord) -> Iterator[str]:
    """Name the engine of every arm, once for those that share one."""
    engines: dict[str, list[str]] = {}
    for name, facts in record.engine.items():
        changed = f", started as {facts[CHANGED_COMMAND]}" if facts.get(CHANGED_COMMAND) else ""
        engines.setdefault(f"{_engine_text(facts)}{changed}", []).append(name)
    for text, arms in engines.items():
        of = f" ({', '.join(arms)})" if len(engines) > 1 else ""
        yield f"engine: {text}{of}"
    for arm in record.arms:
        if sentence := attached_sentence(arm.name, record):
            yield sentence


def _engine_text(facts: Mapping[str, object]) -> str:
    image = f", image {facts['image_digest']}" if facts.get("image_digest") else ""
    if facts.get("command"):
        return f"{facts['command']}{image}"
    if facts.get("attached"):
        version = facts.get("version")
        return f"attached at {facts['attached']}, {f'vLLM {version}' if version else 'which does not tell its version'}"
    build = f"{facts.get('distribution')} {facts.get('version')}"
    kind = " (development install)" if facts.get("development") else ""
    return f"{build}{kind}, torch {facts.get('torch')}, Python {facts.get('python')}{image}"


def build_lines(pair: ArmPair, record: WindowRecord) -> Iterator[str]:
    """Show the engine builds of a pair side by side, where they differ or ought to."""
    differences = build_differences(pair, record)
    title = f"engine builds, {pair.reference.name} -> {pair.candidate.name}"
    if differences:
        shown = [f"{name} {_short(left)} -> {_short(right)}" for name, (left, right) in differences.items()]
        yield f"{title}: {', '.join(shown)}"
    elif "engine" in pair.paths:
        yield f"{title}: nothing that they tell sets them apart, and their files may change under one version"


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    digest = len(text) == 64 and set(text) <= set("0123456789abcdef")
    return text[:_DIGEST_SHOWN] if digest else text
