"""What of the servers of this session could not be ended: nothing is started beside it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_specgate.core.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Leftovers:
    """Ends that failed, for as long as what they left is there. One object serves all engines of a session."""

    def __init__(self) -> None:
        self._found: list[tuple[ServerError, Callable[[], bool]]] = []

    def refuse(self) -> None:
        """Make sure that nothing is left.

        Raises:
            ServerError: something is; the reason is that of the end that failed.
        """
        self._found = [(error, there) for error, there in self._found if there()]
        for error, _ in self._found:
            raise ServerError(str(error), log_tail=error.log_tail)

    @contextlib.contextmanager
    def kept(self, there: Callable[[], bool]) -> Iterator[None]:
        """Remember a `ServerError` that ends the block for as long as `there` says that its cause is there."""
        try:
            yield
        except ServerError as error:
            self._found.append((error, there))
            raise
