"""Fixtures of gate files."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.distributed import WorkerTeller, company, is_worker, stop_if_alone
from pytest_specgate.options import OPTIONS_KEY
from pytest_specgate.project_hooks import hooks_of
from pytest_specgate.translate import Teller, one_sentence

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
        say = WorkerTeller(config) if is_worker(config) else Teller(config)
        watch = say.watching if isinstance(say, Teller) else None
        wiring = LocalWiring(
            options,
            root=config.rootpath,
            say=say,
            watch=watch,
            hooks=hooks_of(config),
            before_server=functools.partial(stop_if_alone, config),
        )
        config.stash[SESSION_KEY] = GateSession(options, wiring, company=company(config), say=say)
    return config.stash[SESSION_KEY]


@pytest.fixture
def specgate_threshold(request: pytest.FixtureRequest) -> AnyThreshold:
    """The claim that this test of a gate judges, for whoever looks at it: ``specgate_threshold.id``.

    Each threshold of ``@gate(pair, ...)`` is a test of its own, and its name ends with that of the threshold.
    """
    threshold: AnyThreshold = request.param
    return threshold


@pytest.fixture
def verdict(request: pytest.FixtureRequest) -> Verdict:
    """The verdict that this test gives, to look at it or to accept another than PASS: ``verdict.expect(Outcome.FAIL)``.

    ::

        @gate(PAIR, not_worse("output_throughput", at=32, margin="5%"))
        def test_k7_loses_at_32(verdict):
            verdict.expect(Outcome.FAIL)
    """
    session = session_of(request.config)
    with one_sentence():
        own = session.verdict(request.node)
    # A rerun of the test declares anew what it expects.
    own.expect_pass()
    return own


@pytest.fixture
def specgate_window(request: pytest.FixtureRequest) -> MeasuredWindow:
    """All that was measured for this test, to check more: ``specgate_window.values("ttft_p50", arm="off", at=1)``.

    It is there for tests of ``@gate(pair, ...)``, and for those that only measure::

        @measured(PAIR)
        def test_acceptance(specgate_window):
            assert min(v.value for v in specgate_window.values("acceptance_rate", arm="k4", at=1)) > 0.5
    """
    with one_sentence():
        return session_of(request.config).readable(request.node)


@pytest.fixture(scope="session")
def vllm_server(request: pytest.FixtureRequest) -> Iterator[Callable[[Arm], Server]]:
    """A running vLLM for a test that needs a server, by the arm that it asks for: ``vllm_server(OFF).url``.

    The server is kept for the next test that asks for the same arm. One server runs at a time: asking for another arm,
    or measuring a window, stops it first.
    """
    session = session_of(request.config)
    yield session.server
    session.close()
