"""The ports: one protocol for each thing that a window needs of the outside world."""

from __future__ import annotations

import dataclasses
import inspect
import typing

import pytest

from pytest_specgate.core import ports
from pytest_specgate.core.ports import CpuReading, Ports

PORTS = {field.name: field.type for field in dataclasses.fields(Ports)}


@pytest.mark.parametrize("name", sorted(PORTS))
def test_every_port_is_a_protocol_that_says_what_it_wants(name: str) -> None:
    """A port is a protocol, and each of its methods states its contract."""
    port = getattr(ports, str(PORTS[name]))

    assert typing.Protocol in port.__mro__
    assert [method for method, _ in inspect.getmembers(port, inspect.isfunction) if method[0] != "_"]
    assert all(inspect.getdoc(member) for name, member in vars(port).items() if name[0] != "_")


@pytest.mark.parametrize(
    ("at_s", "used_s", "share"),
    [(12.0, 103.0, 1.5), (14.0, 100.0, 0.0), (12.0, 99.0, 0.0), (10.0, 103.0, 0.0), (9.0, 103.0, 0.0)],
)
def test_cpu_share_of_others_between_two_readings(at_s: float, used_s: float, *, share: float) -> None:
    """The share of others is CPU seconds over elapsed seconds, and never below 0, whatever the readings say."""
    assert CpuReading(at_s, used_s).share_since(CpuReading(10.0, 100.0)) == share
