"""The command that starts a server: as it would be, and as the project changes it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.secret_words import redacted_command, secrets_of_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.ports import ChangedCommand

PORT: Final = "{port}"
"""Stands for the port in a command: it is chosen when a server starts."""

OWN_COMMAND: Final = "{command}"
"""Stands for the command as it would have been, where a changed one is shown in short."""


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
        words = tuple(f"{port}" if word == PORT else word.replace(PORT, f"{port}") for word in self.changed.words)
        return dataclasses.replace(self, arguments=arguments, changed=self.changed._replace(words=words))

    @property
    def typed(self) -> str:
        """The command as a user would type it, without secrets."""
        own = f"{redacted_command(self.launcher)} {redacted_command(self.arguments, lists=True)}"
        return own if self.changed is None else self._shown(self.changed.words, own)

    @property
    def change(self) -> str:
        """What the project makes of the command, as ``numactl -N 0 {command}``, without secrets; empty for nothing."""
        return "" if self.changed is None else self._shown(self.changed.words, OWN_COMMAND)

    def _shown(self, changed: tuple[str, ...], own: str) -> str:
        """Return a changed command in which the words of the original stand as `own`, if they stand there in a row."""
        around = self._around(changed)
        if around is None:
            return redacted_command(changed, lists=True)
        before, after = around
        return " ".join(filter(None, (redacted_command(before), own, redacted_command(after, lists=True))))

    def _around(self, changed: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Return the words before and after those of the original; `None` where these do not stand in a row."""
        length = len(self._own)
        start = next((at for at in range(len(changed)) if changed[at : at + length] == self._own), None)
        return None if start is None else (changed[:start], changed[start + length :])

    @property
    def secrets(self) -> set[str]:
        """The secrets that the project has put in; those of the original are known without it."""
        words = () if self.changed is None else self.changed.words
        before, after = self._around(words) or (words, ())
        return secrets_of_words(before) | secrets_of_words(after, lists=True)
