"""Texts that prompts are cut from: the corpus that comes with the package."""

from __future__ import annotations

from importlib import resources


class PackagedCorpus:
    """Port `PromptSource`: ``prose`` and ``code``."""

    def text(self, name: str) -> str:
        """Return the corpus of a name, paragraphs separated by blank lines."""
        return (resources.files("pytest_specgate.corpus") / f"{name}.txt").read_text(encoding="utf-8")
