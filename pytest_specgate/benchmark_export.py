"""Measured points in the files of pytest-benchmark: with ``--benchmark-json`` and ``--benchmark-save``.

Its public hooks are implemented and called; nothing of it is imported, and no gate depends on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_specgate.fixtures import SESSION_KEY
from pytest_specgate.names import GATE_MARK, PAIRS_MARK
from pytest_specgate.options import OPTIONS_KEY

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.reporting.benchmark_json import BenchmarkPoints
    from pytest_specgate.session import GateSession

_OUTPUT: Final = "specgate_benchmark"
_UNUSED: Final = "no test used the fixture of pytest-benchmark"


class BenchmarkExport:
    """A plugin for a run that asked pytest-benchmark for a file.

    Where tests used its fixture, pytest-benchmark writes the file, and the points stand in it beside its own results.
    Where none did, it writes nothing: then its hooks are asked for the document, and it is written here.
    """

    def __init__(self, config: pytest.Config, file: Path | None, *, opened: bool) -> None:
        self._config = config
        self._file = file
        self._opened = opened
        self._lines: list[str] = []
        self._failed = False
        self._measured: dict[str, tuple[ArmPair, ...]] = {}
        self._generated = False
        self._started = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Take note of what is measured without being judged."""
        if SESSION_KEY not in self._config.stash:
            return
        from pytest_specgate.gate_items import pairs_of  # noqa: PLC0415  - only gates pay for it

        options = self._config.stash[OPTIONS_KEY]
        for item in session.items:
            marks = {mark.name for mark in item.iter_markers()}
            if isinstance(item, pytest.Function) and PAIRS_MARK in marks and GATE_MARK not in marks:
                self._measured[_test_id(item)] = pairs_of(item, options)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Make room for the file, and keep pytest-benchmark from warning that nothing is saved: it is.

        That warning would end a run under ``-W error`` before anything is written.
        """
        self._started = True
        if self._file is None or self._is_disabled or self._gates() is None:
            return
        stack = contextlib.ExitStack()
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="Not saving anything")
        self._config.add_cleanup(stack.close)
        if not self._opened:
            # A run that is refused here has nothing to write at its end.
            self._started = False
            _make_room(self._place(self._file))
            self._started = True

    @pytest.hookimpl(wrapper=True)
    def pytest_benchmark_generate_json(self, include_data: bool) -> Generator[None, dict[str, Any], dict[str, Any]]:
        """Add the points to a document of pytest-benchmark, whoever writes it."""
        document = yield
        self._generated = True
        gates = self._gates()
        if gates is not None:
            points = self._points(gates)
            document.setdefault("benchmarks", []).extend(points.listed(data=include_data))
            document["specgate"] = {"entries": len(points.entries), "left_out": [*points.left_out]}
        return document

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file if pytest-benchmark did not; one that was asked for and is not there makes no run green."""
        gates = self._gates()
        if gates is not None:
            try:
                self._lines.append(self._finished(gates, by_them=self._generated))
            except (OSError, TypeError, ValueError) as error:
                self._lines.append(f"--benchmark-json: {self._file} was not written: {error}")
                self._failed = True
        # A worker has no terminal: what it has to say goes with its results.
        getattr(self._config, "workeroutput", {})[_OUTPUT] = {"lines": self._lines, "failed": self._failed}
        if self._failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take in what a worker of xdist has written."""
        told = getattr(node, "workeroutput", {}).get(_OUTPUT)
        if told is not None:
            self._lines += told["lines"]
            self._failed = self._failed or told["failed"]

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what became of the points."""
        for line in self._lines:
            terminalreporter.write_line(f"specgate: {line}")

    def _finished(self, gates: GateSession, *, by_them: bool) -> str:
        """Write the file where that is left to do, and say in one line where the points are."""
        if self._file is None:
            saved = "saved with the results of pytest-benchmark" if by_them else f"not saved, since {_UNUSED}"
            return f"{_counted(self._points(gates))} {saved}; --benchmark-json=FILE writes them always"
        if not by_them and self._is_disabled:
            return f"{self._file} was not written, since --benchmark-disable was given"
        if not by_them:
            self._write(self._place(self._file))
        return f"{_counted(self._points(gates))} in {self._file}{'' if by_them else f', where {_UNUSED}'}"

    def _write(self, path: Path) -> None:
        from pytest_specgate.adapters.storage import write_atomically  # noqa: PLC0415

        write_atomically(path, json.dumps(self._document(), indent=1, allow_nan=False, default=str) + "\n")

    def _document(self) -> dict[str, Any]:
        """Return the document of a run without a result of pytest-benchmark's own, as its hooks make it."""
        config, hook = self._config, self._config.hook
        machine = hook.pytest_benchmark_generate_machine_info(config=config)
        hook.pytest_benchmark_update_machine_info(config=config, machine_info=machine)
        commit = hook.pytest_benchmark_generate_commit_info(config=config)
        hook.pytest_benchmark_update_commit_info(config=config, commit_info=commit)
        document: dict[str, Any] = hook.pytest_benchmark_generate_json(
            config=config, benchmarks=[], include_data=True, machine_info=machine, commit_info=commit
        )
        hook.pytest_benchmark_update_json(config=config, benchmarks=[], output_json=document)
        return document

    def _gates(self) -> GateSession | None:
        """Return the gates of this process, if it came to measuring any."""
        gates, options = self._config.stash.get(SESSION_KEY, None), self._config.stash[OPTIONS_KEY]
        idle = options.plan or options.calibrate is not None or options.baseline == "prune"
        idle = idle or not self._started or self._config.getoption("collectonly")
        return gates if gates is not None and not idle and [*gates.windows] else None

    def _points(self, gates: GateSession) -> BenchmarkPoints:
        from pytest_specgate.reporting.benchmark_json import benchmark_points  # noqa: PLC0415  - only gates pay for it

        return benchmark_points(gates.report(), self._measured)

    def _place(self, file: Path) -> Path:
        return self._config.invocation_params.dir / file

    @property
    def _is_disabled(self) -> bool:
        """Whether the user wants no results; that pytest-benchmark disables itself under xdist is its own affair."""
        return bool(self._config.getoption("benchmark_disable") and not self._config.getoption("benchmark_enable"))


def register_export(config: pytest.Config) -> None:
    """Take part in the files of pytest-benchmark, if it is there and was asked for one."""
    file = config.getoption("benchmark_json", default=None)
    saved = config.getoption("benchmark_save", default=None) or config.getoption("benchmark_autosave", default=None)
    if file is not None or saved:
        # Older releases open the file themselves.
        opened = not isinstance(file, str | os.PathLike | None)
        path = None if file is None else Path(file.name if opened else file)
        config.pluginmanager.register(BenchmarkExport(config, path, opened=opened), "specgate-benchmark-export")


def _make_room(path: Path) -> None:
    """Remove what an earlier run has left: if this one is killed, that must not be taken for its result.

    Raises:
        pytest.UsageError: nothing can be written there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    except OSError as error:
        raise pytest.UsageError(f"--benchmark-json={path} cannot be written: {error.strerror}") from None


def _test_id(item: pytest.Function) -> str:
    from pytest_specgate.gate_items import function_id  # noqa: PLC0415  - only gates pay for it

    callspec = getattr(item, "callspec", None)
    return function_id(item) + (f"[{callspec.id}]" if callspec is not None else "")


def _counted(points: BenchmarkPoints) -> str:
    count = len(points.entries)
    left = f" ({len(points.left_out)} left out, since they must not be read)" if points.left_out else ""
    return f"{count} figure{'' if count == 1 else 's'} of gates{left}"
