"""Limits of a test's time, as pytest-timeout has them, while a window is measured inside its first test."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_KILLING_KEY: Final = pytest.StashKey[float]()
_REMEDY: Final = (
    "a window is measured inside its first test: mark its tests with @pytest.mark.timeout(0), and limit measuring by "
    "--specgate-budget"
)
SERVER_REMEDY: Final = (
    "a server starts inside the first test that asks for it: mark its tests with @pytest.mark.timeout(0), and limit "
    "the start by --specgate-start-limit"
)
"""What to do about a limit that a test's own server has broken."""


class _Alarm(KeyboardInterrupt):
    """What an alarm raises instead: event loops let interrupts through, and swallow anything else in a callback."""


def note_limit(item: pytest.Item, settings: Any) -> None:
    """Take note of a limit that would end the whole process, and say nothing more."""
    item.stash[_KILLING_KEY] = settings.timeout if settings.method == "thread" else 0.0


def warning_of(item: pytest.Item) -> str:
    """Say what pytest-timeout would do to a window, where it will not let anybody say it afterwards; else nothing."""
    limit_s = item.stash.get(_KILLING_KEY, 0.0)
    return f"pytest-timeout ends this process after {limit_s:g} s (method thread), and {_REMEDY}" if limit_s > 0 else ""


@contextlib.contextmanager
def limit_explained(remedy: str = _REMEDY) -> Iterator[None]:
    """Let an alarm end measuring as an interrupt would, then raise what its handler raised, with the remedy.

    Args:
        remedy: what to do about it.

    Raises:
        pytest.fail.Exception: the time was up.
    """
    handler = signal.getsignal(signal.SIGALRM)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    raised: list[BaseException] = []

    def alarm(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except BaseException as error:  # noqa: BLE001  - raised again below, once nothing can swallow it
            raised.append(error)
            raise _Alarm from None

    try:
        signal.signal(signal.SIGALRM, alarm)
        yield
    except BaseException:
        if not raised:
            raise
    finally:
        if signal.getsignal(signal.SIGALRM) is alarm:
            signal.signal(signal.SIGALRM, handler)
    if raised:
        raise _explained(raised[0], remedy) from None


def _explained(error: BaseException, remedy: str) -> BaseException:
    if not isinstance(error, pytest.fail.Exception):
        return error
    return pytest.fail.Exception(f"{str(error.msg).rstrip('.')}: {remedy}", pytrace=False)
