"""The command that starts a server: as it would be, and as the project changes it."""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.profile import sha256_of_text
from pytest_specgate.core.secret_words import redacted_command, secrets_of_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.ports import ChangedCommand

PORT: Final = "{port}"
"""Stands for the port in a command: it is chosen when a server starts."""

OWN_COMMAND: Final = "{command}"
"""Stands for the command as it would have been, where a changed one is shown in short."""

_DIGITS: Final = 12


def unchanged(_: Arm, __: Sequence[str]) -> None:
    """Leave every command as it is."""


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """What is started for an arm.

    Attributes:
        launcher: interpreter and module, or what the user starts instead of them.
        arguments: of the server.
        changed: the whole of it, as the project changes it; `None` where it does not.
    """

    launcher: tuple[str, ...]
    arguments: tuple[str, ...]
    changed: ChangedCommand | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """What is started, word by word."""
        return self._own if self.changed is None else self.changed.words

    @property
    def _own(self) -> tuple[str, ...]:
        return (*self.launcher, *self.arguments)

    def at(self, port: int) -> Command:
        """Return the command on a port: where a word is `PORT`, and wherever a changed command speaks of it."""
        arguments = tuple(f"{port}" if word == PORT else word for word in self.arguments)
        if self.changed is None:
            return dataclasses.replace(self, arguments=arguments)
        # Inside a word the port of the original stands in quotes, which it needs no more.
        own = shlex.join((*self.launcher, *arguments))
        words = (word.replace(shlex.join(self._own), own) for word in self.changed.words)
        changed = self.changed._replace(words=tuple(word.replace(PORT, f"{port}") for word in words))
        return dataclasses.replace(self, arguments=arguments, changed=changed)

    @property
    def typed(self) -> str:
        """The command as a user would type it, without secrets."""
        own = f"{redacted_command(self.launcher)} {redacted_command(self.arguments, lists=True)}"
        return own if self.changed is None else self._shown(self.changed.words, own)

    @property
    def change(self) -> str:
        """What the project makes of the command, as ``numactl -N 0 {command}``, without secrets; empty for nothing.

        Where a secret was cut out, a digest of the whole stands behind it: only changes that are alike look alike.
        """
        if self.changed is None:
            return ""
        words = self.changed.words
        shown, around = self._shown(words, OWN_COMMAND), self._around(words)
        before, after = around or (self._named(words), ())
        whole = " ".join(filter(None, (shlex.join(before), OWN_COMMAND if around else "", shlex.join(after))))
        return shown if shown == whole else f"{shown} (sha256 {sha256_of_text(whole)[:_DIGITS]})"

    def _shown(self, changed: tuple[str, ...], own: str) -> str:
        """Return a changed command in which the words of the original stand as `own`, in a row or inside a word."""
        around = self._around(changed)
        if around is None:
            # Cut out before secrets are looked for: the original's own are none of the change.
            return redacted_command(self._named(changed), lists=True).replace(OWN_COMMAND, own)
        before, after = around
        return " ".join(filter(None, (redacted_command(before), own, redacted_command(after, lists=True))))

    def _named(self, changed: tuple[str, ...]) -> tuple[str, ...]:
        """Return a changed command with `OWN_COMMAND` wherever the original stands inside a word."""
        return tuple(word.replace(shlex.join(self._own), OWN_COMMAND) for word in changed)

    def _around(self, changed: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Return the words before and after those of the original; `None` where these do not stand in a row."""
        length = len(self._own)
        start = next((at for at in range(len(changed)) if changed[at : at + length] == self._own), None)
        return None if start is None else (changed[:start], changed[start + length :])

    @property
    def secrets(self) -> set[str]:
        """The secrets that the project has put in; those of the original are known without it."""
        words = () if self.changed is None else self.changed.words
        before, after = self._around(words) or ((), self._named(words))
        return secrets_of_words(before) | secrets_of_words(after, lists=True)
