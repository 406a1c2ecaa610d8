"""Options of the client benchmarks, and their report at the end of the session."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from benchmarks.client.reporting import Report, Settings
from pytest_specgate.options import read_options

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

_REPORT = pytest.StashKey[Report]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("client benchmarks")
    group.addoption("--client-repeats", type=int, default=3, help="how often every client does every point")
    group.addoption("--client-points", default="1,8,32,64,128,256", help="concurrencies, separated by commas")
    group.addoption(
        "--client-other-cpus",
        type=float,
        default=math.inf,
        help="points do not count during which other programs kept more CPUs busy (default: they count)",
    )
    group.addoption("--client-report", default="specgate-results/client", help="folder for the figures")


def pytest_configure(config: pytest.Config) -> None:
    """Begin the report."""
    config.stash[_REPORT] = Report(config.invocation_params.dir / config.getoption("--client-report"))


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Show the tables."""
    if text := config.stash[_REPORT].text():
        terminalreporter.section("client benchmarks")
        terminalreporter.write_line(text)


@pytest.fixture
def report(pytestconfig: pytest.Config) -> Report:
    """Return the report of the session."""
    return pytestconfig.stash[_REPORT]


@pytest.fixture
def settings(pytestconfig: pytest.Config) -> Settings:
    """Return what the command line asks for."""
    return Settings(
        repeats=pytestconfig.getoption("--client-repeats"),
        points=tuple(map(int, pytestconfig.getoption("--client-points").split(","))),
        other_cpus=pytestconfig.getoption("--client-other-cpus"),
        engine_python=str(read_options(pytestconfig).engine_python),
    )
