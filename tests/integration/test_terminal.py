"""What a user sees on a terminal: one line that moves while a window runs, colours, tables that fit, no leftovers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.integration.conftest import GateFolder

COLUMNS: Final = 90
_LIMIT_S: Final = 60.0
_CONTROL: Final = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\](?:[^\x07\x1b]*)(?:\x07|\x1b\\)|([\r\n\x08])|([^\x1b])")
_LIVE: Final = re.compile(r"\rspecgate: round \d of \d: [^\r\n\x1b]*\x1b\[K")

_GATES = """\
    LOAD = load(requests={1: 2}, output_tokens=8)
    FAST, SLOW = arm("fast", step_s=0.001), arm("slow", step_s=0.02)
    PAIR = pair(FAST, SLOW, profile=LOAD)


    @gate(PAIR, SPEED)
    def test_slow(): pass


    @gate(PAIR, not_worse("output_throughput", at=1, margin="99%", noise=FLOOR))
    def test_slow_enough(): print("words of a test")
    """

_LONG_GATE = """\
    @gate(pair(arm("a"), arm("b", seed=1), profile=load(output_tokens=1000, requests={1: 50})), SPEED)
    def test_long(): pass
    """


class Screen:
    """A terminal of some width, as far as lines, erasing and returning to their beginning go."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._lines: list[list[str]] = [[]]
        self._at = 0

    def show(self, text: str) -> list[str]:
        """Show a text, and return the lines that are on the screen then."""
        for found in _CONTROL.finditer(text):
            parameters, command, control, letter = found.groups()
            if command == "K" and parameters in {"", "0"}:
                del self._lines[-1][self._at :]
            elif control == "\n":
                self._lines.append([])
            elif control:
                self._at = 0 if control == "\r" else max(0, self._at - 1)
            elif letter:
                self._put(letter)
        return ["".join(line).rstrip() for line in self._lines]

    def _put(self, letter: str) -> None:
        if self._at == self._columns:
            self._lines.append([])
            self._at = 0
        line = self._lines[-1]
        line.extend(" " * (self._at - len(line)))
        line[self._at : self._at + 1] = [letter]
        self._at += 1


def on_terminal(
    gates: GateFolder,
    *arguments: str,
    variables: dict[str, str] | None = None,
    until: Callable[[str], bool] | None = None,
) -> tuple[str, int]:
    """Run pytest on a terminal of its own, and return everything that was written there, and its exit status.

    Args:
        gates: where to run.
        arguments: of pytest.
        variables: of the environment.
        until: when to press Ctrl-C, by what was written so far; `None` for never.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = gates.environment({"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), **(variables or {})})
    # The harness is verbose and without colours.
    command = gates.command("-q", "--color=auto", *arguments)
    with subprocess.Popen(
        command, cwd=gates.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  - Ctrl-C
    ) as process:  # fmt: skip
        os.close(theirs)
        text = ""
        with contextlib.suppress(OSError):
            while data := os.read(ours, 65536):
                text += data.decode("utf-8", "replace")
                if until is not None and until(text):
                    until = None
                    os.write(ours, b"\x03")
        os.close(ours)
        return text, process.wait(_LIMIT_S)


@pytest.fixture(scope="module")
def shown(new_gate_folder: Callable[[], GateFolder]) -> tuple[str, Path]:
    """A run on a terminal with one loss: what was written, and where it ran."""
    gates = new_gate_folder()
    gates.write("test_term.py", _GATES)
    text, status = on_terminal(gates, variables={"PY_COLORS": "1"})
    assert status == pytest.ExitCode.TESTS_FAILED
    return text, gates.folder


def _final(text: str) -> list[str]:
    return Screen(COLUMNS).show(text)


def test_one_line_moves_while_a_window_runs(shown: tuple[str, Path]) -> None:
    """Each step is written over the one before; from the second round on the time that is left is told."""
    text, _ = shown
    live = _LIVE.findall(text)

    assert any("round 1 of 2: fast: starting its server" in line for line in live)
    assert any("round 1 of 2: slow: c=1, 2 requests" in line for line in live)
    assert not any("left" in line for line in live if "round 1 of 2: fast" in line)
    assert all(re.search(r"about \d+ s left\x1b\[K$", line) for line in live if "round 2 of 2: slow: starting" in line)
    assert any("round 2 of 2" in line for line in live)


def test_nothing_of_it_is_left_on_the_screen(shown: tuple[str, Path]) -> None:
    """The screen at the end has none of its states, and pytest's own line is whole."""
    lines = _final(shown[0])

    assert not [line for line in lines if "round 1 of" in line or "round 2 of" in line]
    assert not [line for line in lines if "requests, " in line and line.startswith("specgate: ")]
    assert any(re.fullmatch(r"test_term\.py \. +\[100%\]", line) for line in lines)


def test_a_terminal_shows_colours(shown: tuple[str, Path]) -> None:
    """FAIL is red in the table, in the list of what is not PASS and in the short summary; PASS is green."""
    text, _ = shown
    summary = text.partition(" specgate ===")[2]

    assert "\x1b[31mFAIL\x1b[0m" in summary
    assert "\x1b[32mPASS\x1b[0m" in summary
    assert "\x1b[1mslow against fast (args.fake varies)\x1b[0m" in summary
    assert "\x1b[31mFAIL\x1b[0m test_term.py::" in text.partition("short test summary")[2]


def test_tables_fit_the_terminal(shown: tuple[str, Path]) -> None:
    """What 90 columns cannot show is left out and named; no row is torn, codes or not."""
    lines = _final(shown[0])
    start = next(place for place, line in enumerate(lines) if line.startswith("slow against fast"))
    table = lines[start + 2 : start + 4 + next(n for n, line in enumerate(lines[start + 2 :]) if line.startswith("("))]

    assert lines[start + 1].startswith("request profile: ")
    assert any(line.startswith(f"(not shown in {COLUMNS} columns: changes by round") for line in table)
    assert "FAIL test_slow" in "\n".join(table)
    assert "PASS test_slow_enough" in "\n".join(table)


def test_codes_get_into_no_file(shown: tuple[str, Path]) -> None:
    """The junit report has neither colours nor the line that moved."""
    report = (shown[1] / "junit.xml").read_text(encoding="utf-8")

    assert "specgate_outcome" in report
    assert "\x1b" not in report
    assert "#x1B" not in report
    assert "starting its server" not in report


def test_the_short_summary_begins_with_the_figure(shown: tuple[str, Path]) -> None:
    """After the name of the test comes the change, not what the name has said already."""
    lines = _final(shown[0])

    assert any(line.startswith("FAIL test_term.py::test_slow[") and " - worse -" in line for line in lines)


def test_ctrl_c_erases_the_line(gate_folder: GateFolder) -> None:
    """Whoever interrupts a window sees where its record is, and no half of a line."""
    gate_folder.write("test_long.py", _LONG_GATE)

    text, status = on_terminal(gate_folder, until=lambda seen: "a: c=1, 50 requests" in seen)
    lines = _final(text)

    assert status == pytest.ExitCode.INTERRUPTED
    assert any(line.startswith("specgate: interrupted; what was measured so far is in ") for line in lines)
    assert not any("c=1, 50 requests" in line for line in lines)
    assert any(line.strip("!") == " KeyboardInterrupt " for line in lines)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one\r\ntwo", ["one", "two"]),
        ("long one\rshort\x1b[K", ["short"]),
        ("\x1b[1mbold\x1b[0m\x1b]9;4;1;50\x07", ["bold"]),
        ("12345678901", ["1234567890", "1"]),
    ],
)
def test_the_screen_of_these_tests(text: str, lines: Sequence[str]) -> None:
    """Returning, erasing, colours, titles and the end of a line are as on a terminal."""
    assert Screen(10).show(text) == lines
