"""Fixtures of gate files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.options import OPTIONS_KEY
from pytest_specgate.translate import one_sentence, teller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.measured import MeasuredWindow
    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.thresholds import AnyThreshold
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.session import GateSession

SESSION_KEY: pytest.StashKey[GateSession] = pytest.StashKey()


def session_of(config: pytest.Config) -> GateSession:
    """Return the gates of a pytest session; they come into being when something first asks for them."""
    if SESSION_KEY not in config.stash:
        from pytest_specgate.session import GateSession  # noqa: PLC0415  - only gates pay for it
        from pytest_specgate.wiring import LocalWiring  # noqa: PLC0415

        options = config.stash[OPTIONS_KEY]
        workers = getattr(config, "workerinput", {}).get("workercount", 1)
        config.stash[SESSION_KEY] = GateSession(
            options,
            LocalWiring(options, root=config.rootpath, say=teller(config)),
            workers=workers,
            say=teller(config),
        )
    return config.stash[SESSION_KEY]


@pytest.fixture
def specgate_threshold(request: pytest.FixtureRequest) -> AnyThreshold:
    """The threshold that this item of a gate judges."""
    threshold: AnyThreshold = request.param
    return threshold


@pytest.fixture
def verdict(request: pytest.FixtureRequest) -> Verdict:
    """The verdict of this item's threshold; ``verdict.expect(Outcome.FAIL)`` accepts another outcome than PASS."""
    session = session_of(request.config)
    with one_sentence():
        own = session.verdict(request.node)
    # A rerun of the test declares anew what it expects.
    own.expect_pass()
    return own


@pytest.fixture
def specgate_window(request: pytest.FixtureRequest) -> MeasuredWindow:
    """Everything that was measured for this test's pair: of its gate, or of ``@measured(pair)``."""
    with one_sentence():
        return session_of(request.config).readable(request.node)


@pytest.fixture(scope="session")
def vllm_server(request: pytest.FixtureRequest) -> Iterator[Callable[[Arm], Server]]:
    """A function that returns a running server of an arm: ``vllm_server(OFF).url``.

    The server is kept for the next test that asks for the same arm. One server runs at a time: asking for another arm,
    or measuring a window, stops it first.
    """
    session = session_of(request.config)
    yield session.server
    session.close()
