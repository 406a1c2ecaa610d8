"""Signals that would end this process at once: they end its blocks first."""

from __future__ import annotations

import concurrent.futures
import signal

import pytest

from pytest_specgate.adapters.processes import ended_by_signals


def test_a_cancelled_run_is_an_interrupt(harmless: signal.Signals) -> None:
    """What CI sends to end a run ends the block as Ctrl-C does, and afterwards means what it meant before."""
    before = signal.getsignal(harmless)
    with pytest.raises(KeyboardInterrupt, match=harmless.name), ended_by_signals():
        signal.raise_signal(harmless)

    assert signal.getsignal(harmless) == before


def test_signals_are_left_alone_in_other_threads() -> None:
    """Only the main thread may say what a signal does; a block in another one runs all the same."""
    before = signal.getsignal(signal.SIGTERM)

    def within() -> object:
        with ended_by_signals():
            return signal.getsignal(signal.SIGTERM)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        seen = pool.submit(within).result()

    assert seen == before
