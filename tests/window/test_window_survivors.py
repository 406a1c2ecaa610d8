"""Servers that cannot be ended: the first cause is kept, and nothing boots beside a survivor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.errors import ServerError

if TYPE_CHECKING:
    from tests.window.conftest import Boot, Declare, World


def survive(_: Boot) -> None:
    """Refuse to end."""
    raise ServerError("processes 12 of the server could not be ended")


def test_what_failed_first_is_not_lost_when_the_stop_fails_too(world: World, declare: type[Declare]) -> None:
    """Requests that failed are the reason, also when their server cannot be ended afterwards."""
    world.failing.add(("off", 1, "c1"))
    world.at["off", 1, "stop"] = survive
    failure = world.measure(declare.pair(None, 4)).boots[0].failure

    assert failure is not None
    assert (failure.reason, "requests failed" in failure.message) == ("failed-requests", True)


def test_no_arm_boots_beside_a_server_that_cannot_be_ended(world: World, declare: type[Declare]) -> None:
    """One server runs at a time: a survivor ends the window, also for pairs that have nothing to do with it."""
    world.at["off", 1, "stop"] = survive
    record = world.measure(declare.pair(None, 4), declare.pair(4, 7))

    assert world.starts() == ["off"]
    assert [boot.failure.reason for boot in record.boots if boot.failure] == ["server-not-stopped"]
