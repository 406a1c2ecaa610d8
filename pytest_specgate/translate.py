"""Between pytest and this package: errors as one sentence, lines shown at once."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_specgate.core.errors import RecordError, SpecgateError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_specgate.adapters.live_line import LiveLine, Parts
    from pytest_specgate.reporting.layout import View

_HERE = Path(__file__).parent
_FAILED: Final = "Failed: "
_OF_VERDICT: Final = re.compile(r"(FAIL|INCONCLUSIVE|INVALID)(?: \((?P<reason>[^)]*)\))?: (?P<sentence>.*)")


@contextlib.contextmanager
def one_sentence() -> Iterator[None]:
    """Fail the running test with the sentence of an error of ours, without its traceback."""
    __tracebackhide__ = True
    try:
        yield
    except SpecgateError as error:
        command, log_tail = getattr(error, "command", ""), getattr(error, "log_tail", "")
        parts = [f"{type(error).__name__}: {error}", f"server: {command}" if command else "", log_tail]
        text = "\n".join(filter(None, parts))
        raise pytest.fail.Exception(sendable(text), pytrace=False) from None


def without_notes(interrupt: KeyboardInterrupt) -> KeyboardInterrupt:
    """Take the notes from an interrupt, which pytest shows in one line, and return another that has them."""
    kept = KeyboardInterrupt(*interrupt.args)
    for note in vars(interrupt).pop("__notes__", ()):
        kept.add_note(note)
    return kept


def sendable(text: str) -> str:
    """Return text that any file and any process can take: half a character of a broken log is written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Stop the session with the sentence of an error in what the user wrote, or in what was stored."""
    try:
        yield
    except (UsageError, RecordError) as error:
        raise pytest.UsageError(str(error)) from None


def place_and_sentence(excinfo: pytest.ExceptionInfo[BaseException], root: Path) -> str | None:
    """Return an error of ours as ``file:line: sentence``, the place being the user's; `None` for any other error."""
    error = excinfo.value
    if not isinstance(error, SpecgateError):
        return None
    places = [
        (Path(str(entry.path)), entry.lineno + 1)
        for entry in excinfo.traceback
        if Path(str(entry.path)).is_relative_to(root) and not Path(str(entry.path)).is_relative_to(_HERE)
    ]
    if not places:
        return f"{error}"
    path, line = places[-1]
    return f"{path.relative_to(root).as_posix()}:{line}: {error}"


class Teller:
    """Shows lines at once, also while pytest captures output, and one that is rewritten while a window runs.

    Under ``-qq``, and in a worker of xdist, nothing is shown.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._live: LiveLine | None = None

    def __call__(self, line: str) -> None:
        """Show a line, unless the user wants to hear nothing."""
        if self._config.get_verbosity() >= -1:
            self.answer(line)

    def answer(self, line: str) -> None:
        """Show a line that was asked for."""
        reporter = self._reporter()
        if reporter is None:
            return
        from pytest_specgate.adapters.live_line import ERASE, PREFIX  # noqa: PLC0415  - only who says a line pays for it

        with self._live.away() if self._live is not None else contextlib.nullcontext(), uncaptured(self._config):
            reporter.ensure_newline()
            # "collecting ..." is no line that has ended: on a terminal it is written again.
            unended = self._config.get_terminal_writer().width_of_current_line > 0
            beginning = ERASE if reporter.isatty else "\n" * unended
            reporter.write_line(f"{beginning}{PREFIX}{line}")
            reporter.flush()

    @contextlib.contextmanager
    def watching(self, parts: Callable[[], Parts]) -> Iterator[Callable[[], None] | None]:
        """Show a line, made anew each time, until the block ends: rewritten on a terminal, now and then in a log.

        Gives what brings it up to date at once, and `None` where every step needs a line of its own.
        """
        descriptor = self._descriptor()
        if descriptor is None:
            yield None
            return
        from pytest_specgate.adapters.live_line import LiveLine  # noqa: PLC0415  - only who measures pays for it

        with LiveLine(descriptor, parts, rewritten=self._rewrites()) as live:
            self._live = live
            try:
                steps_stay = not live.rewritten or self._config.get_verbosity() > 0
                yield None if steps_stay else live.refresh
            finally:
                self._live = None

    def _reporter(self) -> pytest.TerminalReporter | None:
        reporter: pytest.TerminalReporter | None = self._config.pluginmanager.get_plugin("terminalreporter")
        return reporter

    def _descriptor(self) -> int | None:
        """Return a descriptor of what the reporter writes to, at the beginning of a line; `None` if it has none."""
        reporter = self._reporter()
        if reporter is None or self._config.get_verbosity() < -1:
            return None
        with uncaptured(self._config):
            try:
                descriptor = os.dup(sys.stdout.fileno())
            except (OSError, ValueError):
                return None
            reporter.ensure_newline()
            reporter.flush()
        return descriptor

    def _rewrites(self) -> bool:
        """Whether a line may be rewritten in place: on a terminal that can, where nothing else writes meanwhile."""
        reporter = self._reporter()
        if reporter is None or not reporter.isatty or os.environ.get("TERM") == "dumb":
            return False
        # Under -p no:capture there is no such option, and nothing is captured.
        captured = self._config.getoption("capture", default="no") not in {"no", "tee-sys"}
        return captured and not self._shows_logs()

    def _shows_logs(self) -> bool:
        if self._config.getoption("log_cli_level", default=None):
            return True
        # Under -p no:logging there is no such setting.
        with contextlib.suppress(ValueError):
            return bool(self._config.getini("log_cli"))
        return False


@contextlib.contextmanager
def uncaptured(config: pytest.Config) -> Iterator[None]:
    """Let a block write where pytest writes, also in a test whose output is captured."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
        yield


def view_of(config: pytest.Config) -> View:
    """Return what reports in the terminal are made for: how much, and how wide where it is a terminal."""
    from pytest_specgate.reporting.layout import Detail, View  # noqa: PLC0415  - only a run with gates pays for it

    reporter: pytest.TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    # A log is read elsewhere, on whatever is wide enough.
    columns = config.get_terminal_writer().fullwidth if reporter is not None and reporter.isatty else None
    return View(Detail.of(config.get_verbosity()), columns)


def show_summary(reporter: pytest.TerminalReporter, lines: Sequence[str]) -> None:
    """Show the summary of a run, with colours where pytest shows some; under ``-qq`` without a heading."""
    from pytest_specgate.reporting.colours import coloured  # noqa: PLC0415  - likewise

    reporter.ensure_newline()
    if reporter.config.get_verbosity() >= -1:
        reporter.section("specgate")
    for line in "\n".join(lines).split("\n"):
        for piece, markup in coloured(line):
            reporter.write(piece, **markup)
        reporter.line("")


def status_word(outcome: str) -> tuple[str, Mapping[str, bool]]:
    """Return the word of an outcome that is not PASS, as pytest shows it in its progress."""
    from pytest_specgate.reporting.colours import OF_OUTCOME  # noqa: PLC0415  - likewise

    return outcome, OF_OUTCOME[outcome]


def property_of(entries: Iterable[object], name: str) -> object | None:
    """Return a junit property by name, `None` where there is none: tests of others may put anything between them."""
    pairs = (entry for entry in entries if isinstance(entry, tuple | list) and len(entry) == 2)
    return next((value for key, value in pairs if key == name), None)


def shorten_crash(report: pytest.TestReport) -> None:
    """Let the line of a failed gate in pytest's short summary begin with what neither its word nor its name says."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None or not crash.message.startswith(_FAILED):
        return
    first = crash.message.removeprefix(_FAILED).partition("\n")[0]
    found = _OF_VERDICT.fullmatch(first)
    if found is None:
        crash.message = first
        return
    reason = f"{found['reason']}: " if found["reason"] else ""
    crash.message = f"{reason}{found['sentence'].removeprefix(_named(report))}"


def _named(report: pytest.TestReport) -> str:
    """Return how the sentence of a verdict begins, as its test's name already has it: ``TTFT p50 at c=1 ``."""
    from pytest_specgate.core.metrics import metric  # noqa: PLC0415  - only failures pay for it

    name, load = (property_of(report.user_properties, key) for key in ("specgate_metric", "specgate_load"))
    with contextlib.suppress(UsageError):
        return f"{metric(str(name)).label} at {load} "
    return ""
