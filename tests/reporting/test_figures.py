"""Single figures as text."""

from __future__ import annotations

import pytest

from pytest_specgate.core.metrics import metric
from pytest_specgate.reporting.figures import number, percent, span, unit_text, value_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (123456.7, "123457"),
        (1234.56, "1235"),
        (123.456, "123.5"),
        (12.3456, "12.35"),
        (1.23456, "1.235"),
        (0.123456, "0.1235"),
        (1.0, "1.000"),
        (0.0, "0.0000"),
        (99.99999, "100.0"),
        (9.999999, "10.00"),
        (0.9999999, "1.000"),
        (999.96, "1000"),
        (999.94, "999.9"),
    ],
)
def test_figures_have_four_digits(value: float, text: str) -> None:
    """Four significant digits, written out, also where rounding adds one before the point."""
    assert number(value) == text


@pytest.mark.parametrize(
    ("name", "value", "text", "unit"),
    [
        ("ttft_p50", 0.0427, "42.70", "ms"),
        ("e2e_p50", 2.5, "2500", "ms"),
        ("tpot_p99", 0.00012, "0.1200", "ms"),
        ("output_throughput", 218.2, "218.2", "tokens/s"),
        ("decode_rate_p50", 33.4, "33.40", "tokens/s"),
        ("request_throughput", 0.5, "0.5000", "requests/s"),
        ("acceptance_length", 2.47, "2.470", "tokens"),
        ("acceptance_rate", 0.367, "36.70", "%"),
    ],
)
def test_times_are_shown_in_milliseconds_and_all_else_as_it_is(name: str, value: float, text: str, unit: str) -> None:
    """Seconds become milliseconds here, and nowhere else; figure and unit go together."""
    assert (value_text(metric(name), value), unit_text(metric(name))) == (text, unit)


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.178, "+17.8 %"),
        (-0.061, "-6.1 %"),
        (0.0, "+0.0 %"),
        (-1.0, "-100.0 %"),
        (-0.0001, "+0.0 %"),
        (82.564, "+8256 %"),
    ],
)
def test_changes_carry_their_sign(fraction: float, text: str) -> None:
    """Case 94: a drop to nothing is -100 %, never 0."""
    assert percent(fraction) == text


def test_an_interval_that_is_not_there_is_a_dash() -> None:
    """Without noise there are no bounds, and none are invented."""
    assert span(-0.061, 0.02) == "-6.1 .. +2.0 %"
    assert span(None, None) == span(None, 0.1) == span(0.1, None) == "-"
