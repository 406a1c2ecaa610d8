"""Texts that prompts are cut from: the corpora that come with the package, and the user's own files."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specgate.core.corpus import check_file
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.prompt_files import PromptFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_specgate.core.profile import RequestProfile

_CORPORA = ("prose", "code")


class LocalPrompts:
    """Port `PromptSource`.

    Args:
        root: folder that paths of users' files are relative to.
    """

    def __init__(self, root: Path = Path()) -> None:
        self._root = root

    def text(self, name: str) -> str:
        """Return the corpus of a name, paragraphs separated by blank lines; ``random`` draws its tokens from all."""
        names = _CORPORA if name == "random" else (name,)
        folder = resources.files("pytest_specgate.corpus")
        return "\n\n".join((folder / f"{corpus}.txt").read_text(encoding="utf-8") for corpus in names)

    def file(self, path: str) -> str:
        """Return what a user's file holds, its line ends as they are.

        Raises:
            UsageError: it is missing, cannot be read or is no UTF-8 text.
        """
        place = self._root / Path(path).expanduser()
        try:
            return place.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"PromptFile({path!r}) is no UTF-8 text: byte {error.start} of {place}") from error
        except OSError as error:
            why = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
            raise UsageError(
                f"PromptFile({path!r}) cannot be read: {why} at {place} (paths are relative to pytest's root folder)"
            ) from error


def check_files(profiles: Iterable[RequestProfile], *, root: Path) -> None:
    """Refuse profiles whose prompts cannot be taken from their files.

    Raises:
        UsageError: a file is missing, cannot be read, or does not hold what the profile needs.
    """
    source = LocalPrompts(root)
    for profile in profiles:
        if isinstance(profile.prompts, PromptFile):
            check_file(profile, source.file(profile.prompts.name))
