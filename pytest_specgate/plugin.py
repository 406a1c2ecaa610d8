"""The pytest plugin: hooks that translate between pytest and the session of gates.

Nothing here imports more than pytest until a gate was collected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.collection import seen_of
from pytest_specgate.fixtures import (
    SESSION_KEY,
    session_of,
    specgate_threshold,
    specgate_window,
    verdict,
    vllm_server,
)
from pytest_specgate.names import EXPECTED_PROPERTY, GATE_MARK, OUTCOME_PROPERTY, PAIRS_MARK
from pytest_specgate.options import OPTIONS_KEY, add_options, read_options

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

__all__ = ["specgate_threshold", "specgate_window", "verdict", "vllm_server"]

_MARKS = (
    f"{GATE_MARK}(pair, *thresholds): a regression gate; written as @gate(pair, not_worse(...), better(...)).",
    f"{PAIRS_MARK}(*pairs): measures pairs without judging them; written as @measured(pair).",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Freeze the options and name the marks."""
    config.stash[OPTIONS_KEY] = read_options(config)
    _refuse_writing_workers(config)
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)


def _refuse_writing_workers(config: pytest.Config) -> None:
    """Refuse to write baselines under xdist: two workers would write one file."""
    mode = config.stash[OPTIONS_KEY].baseline
    if mode in {"new", "all", "prune"} and (
        hasattr(config, "workerinput") or config.getoption("dist", default="no") != "no"
    ):
        raise pytest.UsageError(f"--specgate-baseline={mode} writes files, and workers would do it twice: use -n 0")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Turn each threshold of a gate into one test item."""
    if metafunc.definition.get_closest_marker(GATE_MARK) is not None:
        from pytest_specgate.gate_items import function_id, parametrize  # noqa: PLC0415  - only gates pay for it

        seen_of(metafunc.config).gates.add(function_id(metafunc.definition))
        parametrize(metafunc, metafunc.config.stash[OPTIONS_KEY])


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Show a mistake in a gate file as one sentence with its place."""
    report = yield
    if report.passed and isinstance(collector, pytest.Module):
        seen_of(collector.config).modules.add(collector.path)
    if report.failed:
        seen_of(collector.config).failed = True
    call = getattr(report, "call", None)
    if report.failed and call is not None and call.excinfo is not None:
        from pytest_specgate.translate import place_and_sentence  # noqa: PLC0415  - only mistakes pay for it

        report.longrepr = place_and_sentence(call.excinfo, collector.config.rootpath) or report.longrepr
    return report


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Take note that items were left out: this run cannot tell what is there for nothing."""
    for item in items[:1]:
        seen_of(item.config).deselected = True


def pytest_collection_finish(session: pytest.Session) -> None:
    """Plan the windows of the collected gates."""
    options = session.config.stash[OPTIONS_KEY]
    gated = any(item.get_closest_marker(name) for item in session.items for name in (GATE_MARK, PAIRS_MARK))
    if options.calibrate is not None and not gated:
        raise pytest.UsageError(
            "--specgate-calibrate found no gate and no @measured test: there is nothing to calibrate"
        )
    alone = options.resume is not None and not session.testsfailed
    if gated or options.baseline == "prune" or alone:
        session_of(session.config).windows.plan(session.items, check=not session.config.getoption("collectonly"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Print what would be done, or remove baselines, and do nothing more, if that is all that was asked for."""
    gates, options = session.config.stash.get(SESSION_KEY, None), session.config.stash[OPTIONS_KEY]
    if gates is None or session.config.option.collectonly or not (options.plan or options.baseline == "prune"):
        return None
    if options.plan:
        gates.windows.show_plan()
    else:
        gates.windows.prune(session.config)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Measure, run the body, and judge: whatever the body does, a threshold is judged."""
    gated = item.get_closest_marker(GATE_MARK) is not None
    if not gated and item.get_closest_marker(PAIRS_MARK) is None:
        return (yield)
    gates = session_of(item.config)
    if item.config.stash[OPTIONS_KEY].calibrate is not None:
        gates.skip_calibrated(item)
    if not gated:
        gates.refuse_unreadable(item)
        return (yield)
    gates.prepare(item)
    with gates.judging(item):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep a threshold that was not accepted failed, whatever ``xfail`` marks say: only `verdict.expect` accepts."""
    report = yield
    gates = item.config.stash.get(SESSION_KEY, None)
    excused = item.get_closest_marker(GATE_MARK) is not None and hasattr(report, "wasxfail")
    if excused and gates is not None and not gates.accepted(item):
        report.outcome = "failed"
        del report.wasxfail
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let no exit status of 0 stand beside a verdict that was not accepted."""
    gates = session.config.stash.get(SESSION_KEY, None)
    pruned = session.config.stash[OPTIONS_KEY].baseline == "prune"
    if pruned and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK
    if gates is not None and gates.refused and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    """Print the word of a verdict instead of FAILED, and say when a pass was an expected other outcome."""
    properties = dict(report.user_properties) if isinstance(report, pytest.TestReport) else {}
    outcome = properties.get(OUTCOME_PROPERTY, "PASS")
    if outcome == "PASS" or report.when != "call":
        return None
    if report.failed:
        of_verdict = str(outcome) in str(report.longrepr).partition("\n")[0]
        return ("failed", "F", str(outcome)) if of_verdict else None
    return ("passed", ".", f"{outcome} (expected)") if report.passed and EXPECTED_PROPERTY in properties else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show what was measured and judged: identity first, then figures."""
    gates = config.stash.get(SESSION_KEY, None)
    lines = list(gates.summary()) if gates is not None else []
    if lines:
        terminalreporter.ensure_newline()
        terminalreporter.section("specgate")
        for line in lines:
            terminalreporter.write_line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop whatever still runs."""
    gates = config.stash.get(SESSION_KEY, None)
    if gates is not None:
        gates.close()
