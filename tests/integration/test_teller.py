"""Between the package and pytest's terminal: who is shown a line, whose line moves, and how a failure is summed up."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_specgate.reporting.layout import Detail, View
from pytest_specgate.translate import (
    Teller,
    property_of,
    shorten_crash,
    show_summary,
    status_word,
    view_of,
    without_notes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DESCRIPTORS = Path("/proc/self/fd")
WHERE = ("round 1 of 2: k4: c=8", "", "")


@dataclasses.dataclass
class Writer:
    """pytest's terminal writer, as far as it is asked."""

    fullwidth: int = 72
    width_of_current_line: int = 0


@dataclasses.dataclass
class Reporter:
    """pytest's terminal reporter, which writes into a text."""

    config: Config
    isatty: bool = True
    text: io.StringIO = dataclasses.field(default_factory=io.StringIO)

    def ensure_newline(self) -> None:
        """End a line that has not ended."""

    def flush(self) -> None:
        """Hold nothing back."""

    def section(self, title: str) -> None:
        """Write a heading."""
        self.text.write(f"== {title} ==\n")

    def line(self, text: str) -> None:
        """Write a line."""
        self.text.write(f"{text}\n")

    write_line = line

    def write(self, text: str, **markup: bool) -> None:
        """Write a text, marked where a terminal would colour it."""
        self.text.write(f"<{'+'.join(markup)}:{text}>" if markup else text)


@dataclasses.dataclass
class Config:
    """pytest's config, as far as it is asked."""

    verbosity: int = 0
    capture: str = "fd"
    log_cli: bool = False
    tty: bool = True
    worker: bool = False
    blocked: tuple[str, ...] = ()
    writer: Writer = dataclasses.field(default_factory=Writer)

    def __post_init__(self) -> None:
        self.reporter = Reporter(self, isatty=self.tty)
        plugins = {} if self.worker else {"terminalreporter": self.reporter}
        self.pluginmanager = SimpleNamespace(get_plugin=plugins.get)

    def get_verbosity(self) -> int:
        """Return how much is to be said."""
        return self.verbosity

    def getoption(self, name: str, default: object) -> object:
        """Return an option; of a plugin that is blocked, there is none."""
        found: dict[str, object] = {} if name.partition("_")[0] in self.blocked else {"capture": self.capture}
        return found.get(name, default)

    def getini(self, name: str) -> object:
        """Return a setting."""
        if "log" in self.blocked:
            raise ValueError(name)
        return {"log_cli": self.log_cli}[name]

    def get_terminal_writer(self) -> Writer:
        """Return what writes."""
        return self.writer

    @property
    def teller(self) -> Teller:
        """What is tested."""
        return Teller(cast("pytest.Config", self))


@contextlib.contextmanager
def watching(config: Config, path: Path) -> Iterator[tuple[Teller, Callable[[], None] | None]]:
    """Give a teller that shows a line, with a file in place of pytest's output, and what shows it at once."""
    with path.open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        teller = config.teller
        with teller.watching(lambda: WHERE) as show:
            yield teller, show


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a test writes to, as if to a terminal."""
    monkeypatch.setenv("TERM", "xterm")
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("verbosity", "tty", "column", "text"),
    [
        (0, False, 0, "specgate: a word\n"),
        (-1, False, 0, "specgate: a word\n"),
        (-2, False, 0, ""),
        (0, False, 15, "\nspecgate: a word\n"),
        (0, True, 15, "\r\x1b[Kspecgate: a word\n"),
    ],
)
def test_a_line_stands_alone(verbosity: int, tty: bool, column: int, text: str) -> None:
    """It begins where a line begins, also after `collecting ...`; under -qq nobody is told."""
    config = Config(verbosity=verbosity, tty=tty, writer=Writer(width_of_current_line=column))

    config.teller("a word")

    assert config.reporter.text.getvalue() == text


def test_what_was_asked_for_is_answered_to_the_most_silent() -> None:
    """A plan is the whole output of its run."""
    config = Config(verbosity=-2, tty=False)

    config.teller.answer("in all: 1 window")

    assert config.reporter.text.getvalue() == "specgate: in all: 1 window\n"


def test_a_worker_has_no_terminal(out: Path) -> None:
    """Under xdist nothing is shown here, and nothing moves."""
    with watching(Config(worker=True), out) as (teller, show):
        teller("a word")

    assert show is None
    assert out.read_text(encoding="utf-8") == ""


@pytest.mark.parametrize(
    "config",
    [
        Config(tty=False),
        Config(capture="no"),
        Config(capture="tee-sys"),
        Config(blocked=("capture",)),
        Config(log_cli=True),
        Config(verbosity=1),
    ],
    ids=str,
)
def test_who_gets_every_step_as_a_line(config: Config, out: Path) -> None:
    """Logs, and terminals to which others write meanwhile or on which much is wanted."""
    with watching(config, out) as (_, show):
        pass

    assert show is None


def test_what_writes_no_logs_is_in_nobody_s_way(out: Path) -> None:
    """Under `-p no:logging` there are no settings of logs, and a line may move."""
    with watching(Config(blocked=("log",)), out) as (_, show):
        pass

    assert show is not None


def test_a_dumb_terminal_gets_lines(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot return to the beginning of a line is sent no code for it."""
    monkeypatch.setenv("TERM", "dumb")
    with watching(Config(), out) as (_, show):
        pass

    assert show is None
    assert out.read_text(encoding="utf-8") == ""


def test_a_terminal_gets_a_line_that_moves(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is rewritten when that is asked for, makes room for others, and is gone in the end, whatever NO_COLOR says."""
    monkeypatch.setenv("NO_COLOR", "1")
    with watching(Config(), out) as (teller, show):
        assert show is not None
        show()
        teller("a word")

    assert out.read_bytes().decode() == 2 * f"\rspecgate: {WHERE[0]}\x1b[K\r\x1b[K"


def test_nothing_moves_for_the_most_silent(out: Path) -> None:
    """Under -qq nothing is shown while a window runs."""
    with watching(Config(verbosity=-2), out) as (_, show):
        pass

    assert show is None
    assert out.read_text(encoding="utf-8") == ""


def test_an_output_without_a_descriptor_gets_lines() -> None:
    """Where pytest writes into a text of Python, nothing else can."""
    with contextlib.redirect_stdout(io.StringIO()), Config().teller.watching(lambda: WHERE) as show:
        assert show is None


@pytest.mark.parametrize(
    ("config", "view"),
    [
        (Config(), View(Detail.NORMAL, 72)),
        (Config(tty=False, verbosity=2), View(Detail.LONG, None)),
        (Config(worker=True, verbosity=-1), View(Detail.SHORT, None)),
    ],
)
def test_reports_are_as_wide_as_the_terminal(config: Config, view: View) -> None:
    """A log has no width: it is read elsewhere."""
    assert view_of(cast("pytest.Config", config)) == view


@pytest.mark.parametrize(("verbosity", "heading"), [(0, "== specgate ==\n"), (-1, "== specgate ==\n"), (-2, "")])
def test_the_summary_is_coloured_line_by_line(verbosity: int, heading: str) -> None:
    """Tables are coloured after they were made; under -qq there is no heading."""
    config = Config(verbosity=verbosity)

    show_summary(cast("pytest.TerminalReporter", config.reporter), ["not PASS", "x  PASS\ny  FAIL"])

    assert config.reporter.text.getvalue() == f"{heading}<bold:not PASS>\nx  <green:PASS>\ny  <red:FAIL>\n"


@pytest.mark.parametrize(
    ("outcome", "markup"),
    [("FAIL", {"red": True}), ("INCONCLUSIVE", {"yellow": True}), ("INVALID", {"red": True, "bold": True})],
)
def test_words_in_the_progress_are_coloured(outcome: str, markup: dict[str, bool]) -> None:
    """A verdict that could not be reached is not as red as a loss."""
    assert status_word(outcome) == (outcome, markup)


@pytest.mark.parametrize(
    ("message", "short"),
    [
        (
            "Failed: FAIL: TTFT p50 at c=8 worse +9.0 %, interval +8.0 to +10.0 %, margin +5 %: the whole\n    more",
            "worse +9.0 %, interval +8.0 to +10.0 %, margin +5 %: the whole",
        ),
        ("Failed: INVALID (server-died): arm k4: its server left", "server-died: arm k4: its server left"),
        ("Failed: INCONCLUSIVE: stopped at round 1", "stopped at round 1"),
        (
            "Failed: expected PASS, got FAIL (beyond-margin): FAIL: x\nmore",
            "expected PASS, got FAIL (beyond-margin): FAIL: x",
        ),
        ("Failed: UsageError: no prompt fits\nserver: x", "UsageError: no prompt fits"),
        ("AssertionError: assert 1 == 2\nmore", "AssertionError: assert 1 == 2\nmore"),
    ],
)
def test_the_line_of_a_failure_is_short(message: str, short: str) -> None:
    """What the word and the name of the test say already is left out, and so are further lines; others stay."""
    crash = SimpleNamespace(message=message)
    properties = [("specgate_metric", "ttft_p50"), ("specgate_load", "c=8")]
    report: Any = SimpleNamespace(longrepr=SimpleNamespace(reprcrash=crash), user_properties=properties)

    shorten_crash(report)

    assert crash.message == short


@pytest.mark.parametrize("longrepr", ["a text", None, SimpleNamespace(reprcrash=None)])
def test_a_failure_without_a_place_stays(longrepr: object) -> None:
    """Nothing is shortened that pytest has made a text of."""
    report: Any = SimpleNamespace(longrepr=longrepr, user_properties=[])

    shorten_crash(report)

    assert report.longrepr is longrepr


def test_an_interrupt_of_one_line_leaves_its_notes_to_reports() -> None:
    """An interrupt stands between exclamation marks in pytest, and what it means is told in full elsewhere."""
    interrupt = KeyboardInterrupt("enough")
    interrupt.add_note("what was measured so far is in record.json")
    kept = without_notes(interrupt)

    assert traceback.format_exception_only(interrupt) == ["KeyboardInterrupt: enough\n"]
    assert (kept.args, kept.__notes__) == (("enough",), ["what was measured so far is in record.json"])


@pytest.mark.parametrize("odd", [("one",), {"a": 1, "b": 2}, "ab", 7, None, (["unhashable"], 1)], ids=repr)
def test_a_property_is_found_among_anything(odd: object) -> None:
    """Tests of others put into their properties what they like, and ours are found all the same."""
    assert property_of([odd, ("specgate_load", "c=8")], "specgate_load") == "c=8"
    assert property_of([odd], "specgate_load") is None


def test_a_metric_of_nobody_is_no_error() -> None:
    """Answers that are compared have no metric in the table."""
    crash = SimpleNamespace(message="Failed: FAIL: equal answers at c=8 90 %")
    report: Any = SimpleNamespace(
        longrepr=SimpleNamespace(reprcrash=crash), user_properties=[("specgate_metric", "outputs_agree")]
    )

    shorten_crash(report)

    assert crash.message == "equal answers at c=8 90 %"


def test_no_descriptor_is_left_open(out: Path) -> None:
    """What was opened for the line is closed with it."""
    before = len(list(DESCRIPTORS.iterdir()))
    with watching(Config(), out):
        during = len(list(DESCRIPTORS.iterdir()))

    assert during > before
    assert len(list(DESCRIPTORS.iterdir())) == before
