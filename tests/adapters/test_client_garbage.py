"""The garbage collector while a point runs: it neither stops the receive loop nor swallows an interrupt."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import httpx
import pytest

from pytest_specgate.adapters.client import HttpLoadDriver
from pytest_specgate.core.profile import RequestProfile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.adapters.conftest import Reply, Seen, Stub

COMPLETIONS = "/v1/completions"
PROFILE = RequestProfile(input_tokens=8, output_tokens=2, requests={1: 1})
GOOD = (b'data: {"choices": [{"text": "a", "finish_reason": "length"}]}\n\n', b"data: [DONE]\n\n")


def send(stub: Stub) -> None:
    """Send one request."""
    HttpLoadDriver().run_point(stub.target, [b"{}"], at=1, profile=PROFILE)


@pytest.fixture
def collector() -> Iterator[None]:
    """The garbage collector as it was before the test, afterwards."""
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_off_while_a_point_runs(stub: Stub, collector: None, enabled: bool) -> None:
    """Collections are off during the load; afterwards their state is what it was."""
    during: list[bool] = []

    def look(_: Seen) -> Reply:
        during.append(gc.isenabled())
        return stub.stream(*GOOD)

    stub.on(COMPLETIONS, look)
    (gc.enable if enabled else gc.disable)()
    send(stub)

    assert during == [False]
    assert gc.isenabled() is enabled


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_restored_after_an_error(
    stub: Stub, collector: None, monkeypatch: pytest.MonkeyPatch, enabled: bool
) -> None:
    """An error that no request can carry, here an interrupt, leaves the collector as it was."""
    (gc.enable if enabled else gc.disable)()
    monkeypatch.setattr(httpx.AsyncClient, "send", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        send(stub)

    assert gc.isenabled() is enabled


async def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_nothing_is_collected_on_purpose(stub: Stub, collector: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection that is asked for runs finalisers, in which an interrupt that arrives then would be lost."""
    collected: list[object] = []
    monkeypatch.setattr(gc, "collect", lambda *arguments: collected.append(arguments))
    stub.on(COMPLETIONS, stub.stream(*GOOD))
    send(stub)

    assert collected == []
