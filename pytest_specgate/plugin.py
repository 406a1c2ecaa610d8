"""The pytest plugin: hooks that translate between pytest and the session of gates.

Nothing here imports more than pytest until a gate was collected.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate import distributed, hookspecs
from pytest_specgate.collection import seen_of
from pytest_specgate.fixtures import (
    SESSION_KEY,
    session_of,
    specgate_threshold,
    specgate_window,
    verdict,
    vllm_server,
)
from pytest_specgate.names import (
    EXPECTED_PROPERTY,
    GATE_MARK,
    JOB_SUMMARY,
    OUTCOME_PROPERTY,
    PAIRS_MARK,
    SERVER_FIXTURE,
)
from pytest_specgate.options import OPTIONS_KEY, add_options, read_options, remove_earlier_reports
from pytest_specgate.project_hooks import take_metrics
from pytest_specgate.translate import Teller, property_of, shorten_crash, show_summary, status_word, view_of

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from pytest_specgate.options import GateOptions

__all__ = ["specgate_threshold", "specgate_window", "verdict", "vllm_server"]

_MARKS = (
    f"{GATE_MARK}(pair, *thresholds): a regression gate; written as @gate(pair, not_worse(...), better(...)).",
    f"{PAIRS_MARK}(*pairs): measures pairs without judging them; written as @measured(pair).",
)

_BENCHMARK_FILES = ("benchmark_json", "benchmark_save", "benchmark_autosave")
"""Options by which pytest-benchmark is asked for a file."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that a project may implement."""
    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Remove the reports of an earlier run, whatever may yet refuse this one."""
    remove_earlier_reports(early_config)


def pytest_configure(config: pytest.Config) -> None:
    """Freeze the options, name the marks and know the metrics that the project adds."""
    config.stash[OPTIONS_KEY] = read_options(config)
    take_metrics(config)
    _refuse_workers(config)
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)
    if any(config.getoption(name, default=None) for name in _BENCHMARK_FILES):
        from pytest_specgate.benchmark_export import register_export  # noqa: PLC0415  - only its users pay for it

        register_export(config)
    if _reports(config.stash[OPTIONS_KEY]):
        from pytest_specgate.report_files import register_reports  # noqa: PLC0415  - only a report pays for it

        # After the export: what it makes of the exit status belongs into a report.
        register_reports(config)


def _reports(options: GateOptions) -> bool:
    """Whether a run may leave reports: files that were asked for, or the summary of a CI job."""
    return bool(options.json or options.markdown or options.html or os.environ.get(JOB_SUMMARY))


def _refuse_workers(config: pytest.Config) -> None:
    """Refuse what cannot be done under xdist: two workers would write one file, and none has a terminal."""
    options = config.stash[OPTIONS_KEY]
    if not distributed.is_distributed(config) or config.getoption("collectonly"):
        return
    if options.baseline in {"new", "all", "prune"}:
        raise pytest.UsageError(
            f"--specgate-baseline={options.baseline} writes files, and workers would do it twice: use -n 0"
        )
    if options.plan:
        raise pytest.UsageError("--specgate-plan runs no test, and workers wait for some: use -n 0")


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
    if report.passed and seen_of(collector.config).gates:
        from pytest_specgate.gate_items import gate_ids_of  # noqa: PLC0415  - only gates pay for it

        seen_of(collector.config).gate_ids.update(gate_ids_of(report.result))
    if report.failed:
        seen_of(collector.config).failed = True
    call = getattr(report, "call", None)
    if report.failed and call is not None and call.excinfo is not None:
        from pytest_specgate.translate import place_and_sentence  # noqa: PLC0415  - only mistakes pay for it

        report.longrepr = place_and_sentence(call.excinfo, collector.config.rootpath) or report.longrepr
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: Sequence[pytest.Item]
) -> Generator[None, object, object]:
    """Take note of the order in which the tests were written, before anybody shuffles them."""
    seen_of(config).written = tuple(items)
    return (yield)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Take note that items were left out: this run cannot tell what is there for nothing."""
    for item in items[:1]:
        seen_of(item.config).deselected = True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> Generator[None, object, object]:
    """Plan the windows of the collected gates, before anybody is told the order of the tests."""
    try:
        _plan(session)
        return (yield)
    except pytest.UsageError as error:
        distributed.refuse(session.config, str(error))
        raise


def _plan(session: pytest.Session) -> None:
    config, options = session.config, session.config.stash[OPTIONS_KEY]
    gated = any(item.get_closest_marker(name) for item in session.items for name in (GATE_MARK, PAIRS_MARK))
    company = distributed.company(config)
    if company and (gated or any(SERVER_FIXTURE in getattr(item, "fixturenames", ()) for item in session.items)):
        raise pytest.UsageError(company)
    if options.calibrate is not None and not gated and not session.testsfailed:
        raise pytest.UsageError(
            "--specgate-calibrate found no gate and no @measured test: there is nothing to calibrate"
        )
    alone = options.resume is not None and not session.testsfailed
    if gated or options.baseline == "prune" or alone:
        gates = session_of(config)
        gates.plan(session.items, seen_of(config).written, check=not config.getoption("collectonly"))
        gates.windows.give_up(session.items, distributed.crashed_items(config))
        gates.note_judged(session.items, distributed.judged_before(config))
        if options.plan or config.getoption("collectonly"):
            teller = Teller(config)
            gates.windows.tell_vetoes(teller.answer if options.plan else teller)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Print what would be done, or remove baselines, and do nothing more, if that is all that was asked for."""
    gates, options = session.config.stash.get(SESSION_KEY, None), session.config.stash[OPTIONS_KEY]
    if gates is None or session.config.option.collectonly or not (options.plan or options.baseline == "prune"):
        return None
    if options.plan:
        gates.windows.show_plan(Teller(session.config).answer, view_of(session.config))
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
    try:
        with gates.judging(item):
            return (yield)
    finally:
        from pytest_specgate.verdict_hook import tell_verdict  # noqa: PLC0415  - only gates pay for it

        tell_verdict(item, gates)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep a threshold that was not accepted failed, whatever ``xfail`` marks say: only `verdict.expect` accepts."""
    report = yield
    gates = item.config.stash.get(SESSION_KEY, None)
    if gates is None or item.get_closest_marker(GATE_MARK) is None:
        return report
    if hasattr(report, "wasxfail") and not gates.accepted(item):
        report.outcome = "failed"
        del report.wasxfail
    gates.note_report(item, report)
    shorten_crash(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Let no exit status of 0 stand beside a verdict that was not accepted, or beside too few gates."""
    if not _has_end(session.config):
        return (yield)
    from pytest_specgate.session_end import enforce, finish  # noqa: PLC0415  - only gates pay for it

    finish(session)
    try:
        return (yield)
    finally:
        # Other plugins may have made their own status of it meanwhile.
        enforce(session)


def _has_end(config: pytest.Config) -> bool:
    """Whether there is anything to tell at the end: of gates, or that there were none."""
    return bool(
        SESSION_KEY in config.stash
        or distributed.TOLD_KEY in config.stash
        or distributed.judged_before(config)
        or config.stash[OPTIONS_KEY].require_gates
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist that takes the place of another in which tests that one died."""
    distributed.tell_crashes(node.config, node.workerinput)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, sched: Any) -> None:
    """Take note of a test in which a worker of xdist died."""
    distributed.note_crash(sched.config, crashitem)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Take note of a verdict of a worker of xdist, in the process that started it."""
    if report.when == "call" and hasattr(report, "node"):
        distributed.note_verdict(report)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take in what a worker of xdist has to tell at its end, or stop the run with what it refuses."""
    distributed.hear(node.config, getattr(node, "workeroutput", {}))


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Take note of a limit of pytest-timeout that measuring inside a test may break."""
    if any(item.get_closest_marker(name) for name in (GATE_MARK, PAIRS_MARK)):
        from pytest_specgate.time_limits import note_limit  # noqa: PLC0415  - only gates pay for it

        note_limit(item, settings)


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport,
) -> tuple[str, str, str | tuple[str, Mapping[str, bool]]] | None:
    """Print the word of a verdict instead of FAILED, and say when a pass was an expected other outcome."""
    if not isinstance(report, pytest.TestReport) or report.when != "call":
        return None
    outcome = property_of(report.user_properties, OUTCOME_PROPERTY)
    if outcome is None or outcome == "PASS":
        return None
    if report.failed:
        of_verdict = str(outcome) in str(report.longrepr).partition("\n")[0]
        return ("failed", "F", status_word(str(outcome))) if of_verdict else None
    expected = report.passed and property_of(report.user_properties, EXPECTED_PROPERTY) is not None
    return ("passed", ".", f"{outcome} (expected)") if expected else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show what was measured and judged: identity first, then figures."""
    lines: list[str] = []
    if _has_end(config):
        from pytest_specgate.session_end import summary_lines  # noqa: PLC0415  - only gates pay for it

        lines += summary_lines(config)
    if _reports(config.stash[OPTIONS_KEY]):
        from pytest_specgate.report_files import report_lines  # noqa: PLC0415  - only a report pays for it

        lines += report_lines(config)
    if lines:
        show_summary(terminalreporter, lines)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop whatever still runs."""
    gates = config.stash.get(SESSION_KEY, None)
    if gates is not None:
        gates.close()
