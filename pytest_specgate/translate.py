"""Between pytest and this package: errors as one sentence, lines shown at once."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.errors import RecordError, SpecgateError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HERE = Path(__file__).parent


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
        raise pytest.fail.Exception(text, pytrace=False) from None


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


def teller(config: pytest.Config) -> Callable[[str], None]:
    """Return what shows a line at once, also while pytest captures output; silent under ``-qq``."""

    def say(line: str) -> None:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        capture = config.pluginmanager.get_plugin("capturemanager")
        if reporter is None or config.get_verbosity() < -1:
            return
        with capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
            reporter.ensure_newline()
            reporter.write_line(f"specgate: {line}")
            reporter.flush()

    return say
