"""What children print: the end of it is shown, without secrets and noise."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters import server_log
from pytest_specgate.adapters.processes import Child
from pytest_specgate.adapters.server_log import last_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TypeAlias

    Start: TypeAlias = Callable[..., Child]

PATIENCE_S = 20.0
SLEEPS = "import time; time.sleep(600)"


def until_left(child: Child) -> None:
    """Wait until a child has left by itself."""
    assert child.wait(PATIENCE_S) is not None, "the script never left"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A function that starts a child that runs a script."""
    children: list[Child] = []

    def start_one(script: str, *, secrets: tuple[str, ...] = ()) -> Child:
        command = [sys.executable, "-S", "-c", script]
        child = Child(command, environment=os.environ, log=tmp_path / "logs" / f"{len(children)}.log", secrets=secrets)
        children.append(child)
        return child

    yield start_one
    for child in children:
        child.stop()


def test_case_132_control_characters_do_not_get_into_the_tail(start: Start) -> None:
    """Colours, NUL, non-characters and broken UTF-8 are taken out; line ends of progress bars become lines."""
    data = b"\x1b[31mred\x1b[0m\x00 \xef\xbf\xbe\xed\xa0\x80 \x9b2J tab\tend\r\nhalf\rfull\n"
    child = start(f"import os; os.write(1, {data!r})")
    until_left(child)

    assert child.log_tail().splitlines() == ["red \ufffd\ufffd\ufffd \ufffd2J tab\tend", "half", "full"]


def test_secrets_do_not_get_into_the_tail(start: Start) -> None:
    """An access token that a server prints is replaced; the log on disk stays as it was written."""
    child = start("print('using hf_abcdefghijklmnopqrst from http://me:pass@proxy/')")
    until_left(child)

    assert child.log_tail() == "using [redacted] from http://[redacted]@proxy/"
    assert "hf_abcdefghijklmnopqrst" in child.log.read_text()


def test_secrets_that_are_named_do_not_get_into_the_tail(start: Start) -> None:
    """Texts without any telling form are cut out wherever they stand, a longer one before a shorter one within it."""
    child = start("print('key=open sesame, opened with sesame or open')", secrets=("open sesame", "sesame"))
    until_left(child)

    assert child.log_tail() == "key=[redacted], opened with [redacted] or open"
    assert "open sesame" in child.log.read_text()


def test_a_log_is_for_its_user_only(start: Start) -> None:
    """It holds what the server printed, secrets included."""
    assert start(SLEEPS).log.stat().st_mode & 0o777 == 0o600


def test_half_a_line_is_not_in_the_tail(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the look back begins in the middle of a line, its rest is left out: what names a secret may be missing."""
    monkeypatch.setattr(server_log, "_TAIL_BYTES", 40)
    child = start("print('api_key=' + 'x' * 60); print('the cause')")
    until_left(child)

    assert child.log_tail() == "the cause"


def test_the_tail_is_the_end_of_a_long_log(start: Start) -> None:
    """Of megabytes, thirty lines come back, the last ones."""
    child = start("for i in range(40_000): print('line', i, 'x' * 50)")
    until_left(child)
    lines = child.log_tail().splitlines()

    assert len(lines) == 30
    assert lines[-1].startswith("line 39999 ")
    assert lines[0].startswith("line 39970 ")


def test_requests_that_went_well_do_not_push_the_cause_out_of_the_tail(start: Start) -> None:
    """Access lines of good answers are left out of the tail; those of bad ones, and all else, stay."""
    access = 'INFO: 127.0.0.1:5 - "POST /v1/completions HTTP/1.1"'
    lines = ["cause", *[f"{access} 200 OK"] * 60, f"{access} 503 Service Unavailable", 'said "ready" 200 times']
    child = start(f"print({chr(10).join(lines)!r})")
    until_left(child)

    assert child.log_tail().splitlines() == ["cause", *lines[-2:]]


def test_megabytes_of_good_answers_do_not_hide_the_cause(start: Start) -> None:
    """After 3 MB of access lines, the last thing that the server said is still found."""
    access = 'INFO:     127.0.0.1:50000 - "POST /v1/completions HTTP/1.1" 200 OK'
    child = start(f"print('the cause'); [print({access!r}) for _ in range(45_000)]")
    until_left(child)

    assert child.log.stat().st_size > 3_000_000
    assert child.log_tail() == "the cause"


def test_a_log_that_is_gone_has_no_tail(start: Start) -> None:
    """Someone who cleans up the folder does not break the report."""
    child = start(SLEEPS)
    child.log.unlink()

    assert child.log_tail() == ""


def test_the_first_error_stands_before_a_tail_that_only_points_to_it(start: Start) -> None:
    """Engines end with a traceback that says "see root cause above": the cause is shown, and is what is quoted."""
    cause = "(Worker pid=7) ERROR 11-29 23:58:19 [x.py:9] ValueError: Available memory is less than desired"
    last = "RuntimeError: Engine core initialization failed. See root cause above."
    child = start(f"print({cause!r}); print('noise\\n' * 50, {last!r}, sep='')")
    until_left(child)
    tail = child.log_tail()

    assert tail.splitlines()[0] == "first error: ValueError: Available memory is less than desired"
    assert tail.splitlines()[-1] == last
    assert last_words(tail) == ": ValueError: Available memory is less than desired"


def test_an_error_within_the_tail_is_not_said_twice(start: Start) -> None:
    """Where the tail reaches back to the first error it stands there, in its place."""
    child = start("print('ValueError: bad'); print('end')")
    until_left(child)

    assert child.log_tail() == "ValueError: bad\nend"
    assert last_words(child.log_tail()) == ": end"
