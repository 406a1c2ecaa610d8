"""The exception tree, and the help it gives with names."""

from __future__ import annotations

import pytest

from pytest_specgate.core import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.UsageError,
        errors.ServerError,
        errors.ServerStartError,
        errors.ServerDiedError,
        errors.InvalidError,
        errors.ScrapeError,
        errors.RecordError,
    ],
)
def test_every_error_is_a_specgate_error(error: type[Exception]) -> None:
    """Whoever catches the base class catches everything that is raised on purpose."""
    assert issubclass(error, errors.SpecgateError)


def test_an_invalid_measurement_is_no_mistake_of_use() -> None:
    """Whoever catches mistakes in a gate file, or servers that died, does not catch a measurement that is invalid."""
    others = (errors.UsageError, errors.ServerError, errors.ScrapeError, errors.RecordError)

    assert not issubclass(errors.InvalidError, others)


@pytest.mark.parametrize("error", [errors.ServerStartError, errors.ServerDiedError])
def test_server_errors_carry_what_explains_them(error: type[errors.ServerError]) -> None:
    """A server error has the exit code and the end of the log, and its text is the message alone."""
    raised = error("it died", exit_code=3, log_tail="boom")

    assert (str(raised), raised.exit_code, raised.log_tail) == ("it died", 3, "boom")


def test_a_server_error_without_a_process_has_no_exit_code() -> None:
    """While a process lives its exit code is unknown, not 0."""
    raised = errors.ServerError("it does not answer")

    assert (raised.exit_code, raised.log_tail) == (None, "")


@pytest.mark.parametrize(
    ("name", "hint"), [("marign", "; did you mean 'margin'?"), ("nois", "; did you mean 'noise'?"), ("qqqqqq", "")]
)
def test_nearest_name(name: str, hint: str) -> None:
    """A misspelt name is answered with the nearest known one, and a strange one with nothing."""
    assert errors.nearest(name, ("margin", "noise", "at")) == hint
