"""Alarms while something is measured: none is swallowed, and what follows is what the alarm's handler wanted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate import Arm
from pytest_specgate.options import read_options
from pytest_specgate.session import GateSession
from pytest_specgate.time_limits import limit_explained

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def alarm() -> Iterator[list[BaseException]]:
    """What the handler of an alarm raises: the last of a list."""
    raised: list[BaseException] = []

    def handler(*_: object) -> None:
        raise raised[-1]

    before = signal.signal(signal.SIGALRM, handler)
    yield raised
    signal.signal(signal.SIGALRM, before)


def _in_a_callback() -> None:
    """Let an alarm ring in a callback of an event loop, which swallows all but interrupts, and go on."""

    async def run() -> None:
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGALRM)
        await asyncio.sleep(0.01)

    asyncio.run(run())


def _made_into_an_error() -> None:
    try:
        signal.raise_signal(signal.SIGALRM)
    except KeyboardInterrupt:
        raise OSError from None


def test_an_alarm_in_a_callback_is_heard(alarm: list[BaseException]) -> None:
    """A limit that an event loop would swallow ends measuring, with the remedy."""
    alarm.append(pytest.fail.Exception("Timeout (>1.0s) from pytest-timeout."))
    told = r"^Timeout \(>1\.0s\) from pytest-timeout: .*@pytest\.mark\.timeout\(0\)"
    with pytest.raises(pytest.fail.Exception, match=told), limit_explained():
        _in_a_callback()


def test_what_came_of_an_alarm_is_no_other_error(alarm: list[BaseException]) -> None:
    """Whatever somebody made of the interrupt, the limit is what is told."""
    alarm.append(pytest.fail.Exception("Timeout"))
    with pytest.raises(pytest.fail.Exception, match=r"^Timeout: "), limit_explained():
        _made_into_an_error()


def test_an_alarm_while_a_server_starts_is_explained(alarm: list[BaseException], pytester: pytest.Pytester) -> None:
    """A limit that the server of a test breaks is a sentence with its own remedy, and no traceback."""
    alarm.append(pytest.fail.Exception("Timeout (>1.0s) from pytest-timeout."))
    wiring: Any = SimpleNamespace(server=lambda _: signal.raise_signal(signal.SIGALRM))
    options = read_options(pytester.parseconfig(), environment={})
    session = GateSession(options, wiring, company="", say=print)
    with pytest.raises(
        pytest.fail.Exception, match=r"^Timeout .*: a server starts .*--specgate-start-limit$"
    ) as caught:
        session.server(Arm("off", model="m"))

    assert not caught.value.pytrace


@pytest.mark.parametrize("error", [pytest.exit.Exception("enough"), TimeoutError("mine")])
def test_other_alarms_raise_what_they_would(error: BaseException, alarm: list[BaseException]) -> None:
    """An alarm of the user's own keeps its exception, and its handler afterwards."""
    alarm.append(error)
    handler = signal.getsignal(signal.SIGALRM)
    with pytest.raises(type(error)) as caught, limit_explained():
        signal.raise_signal(signal.SIGALRM)

    assert caught.value is error
    assert signal.getsignal(signal.SIGALRM) is handler


def test_without_an_alarm_nothing_changes(alarm: list[BaseException]) -> None:
    """What measuring itself raises passes through."""
    with contextlib.suppress(KeyError), limit_explained():
        raise KeyError
    with pytest.raises(KeyboardInterrupt), limit_explained():
        raise KeyboardInterrupt

    assert alarm == []
