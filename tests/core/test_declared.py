"""Mistakes in a gate file: each is one sentence that names the thing and the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.arms import Arm, ArmPair
from pytest_specgate.core.declared import fraction_of, known_keywords
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.thresholds import NoiseFloor, Threshold

if TYPE_CHECKING:
    from tests.core.conftest import Build

NAN, INFINITY = float("nan"), float("inf")
LOAD: dict[str, Any] = {"input_tokens": 16, "output_tokens": 11, "requests": {1: 10}}
CLAIM: dict[str, Any] = {"metric": "ttft_p50", "at": 1, "kind": "not_worse", "fraction": 0.05}

PROFILE_MISTAKES = [
    ({"temprature": 0.5}, "RequestProfile has no field 'temprature'; did you mean 'temperature'?"),
    ({"qqq": 0.5}, "RequestProfile has no field 'qqq'"),
    ({"temperature": NAN}, "RequestProfile.temperature: input should be a finite number, got nan"),
    ({"request_timeout_s": INFINITY}, "RequestProfile.request_timeout_s: input should be a finite number, got inf"),
    ({"temperature": -0.5}, "RequestProfile.temperature: input should be greater than or equal to 0, got -0.5"),
    ({"temperature": True}, "RequestProfile.temperature: input should be a valid number, got True"),
    ({"temperature": "0"}, "RequestProfile.temperature: input should be a valid number, got '0'"),
    ({"top_k": True}, "RequestProfile.top_k: input should be a valid integer, got True"),
    ({"top_k": 1.0}, "RequestProfile.top_k: input should be a valid integer, got 1.0"),
    ({"ignore_eos": 1}, "RequestProfile.ignore_eos: input should be a valid boolean, got 1"),
    ({"output_tokens": 1}, "RequestProfile.output_tokens: input should be greater than 1, got 1"),
    (
        {"prompts": "prosa"},
        (
            "RequestProfile: prompts='prosa' names no corpus, which are prose, code, random; did you mean 'prose'? "
            "(a file of your own is written PromptFile('prosa'))"
        ),
    ),
    ({"endpoint": "v1/x"}, "RequestProfile.endpoint: string should match pattern '^/[!-~]*$', got 'v1/x'"),
    ({"stream_options": {}}, "RequestProfile: stream_options must have include_usage=True: only usage counts tokens"),
    (
        {"input_tokens": None},
        "RequestProfile: input_tokens=None takes prompts as they are, and those of 'prose' are cut",
    ),
    (
        {"prompts": "random", "api": "chat"},
        "RequestProfile: prompts='random' sends token ids, which the chat API does not take: use api='completions'",
    ),
    ({"extra_body": {"x": NAN}}, "RequestProfile.extra_body.x.float: input should be a finite number, got nan"),
    ({"requests": {1: True}}, "RequestProfile.requests.1: input should be a valid integer, got True"),
    ({"stop": "x" * 99}, f"RequestProfile.stop: input should be a valid tuple, got '{'x' * 56}..."),
]
CLAIM_MISTAKES = [
    ({"fractoin": 0.05}, "Threshold has no field 'fractoin'; did you mean 'fraction'?"),
    ({"metric": "ttft_50"}, "there is no metric 'ttft_50'; did you mean 'ttft_p50'?"),
    ({"at": 0}, "Threshold: a concurrency of 0 sends nothing: write 1 or more"),
    ({"at": True}, "Threshold: True is no load level: write a concurrency as 8, an arrival rate as '4/s'"),
    ({"kind": "worse"}, "Threshold.kind: input should be 'not_worse', 'better' or 'equivalent', got 'worse'"),
    ({"fraction": NAN}, "Threshold.fraction: input should be a finite number, got nan"),
    ({"fraction": -0.01}, "Threshold.fraction: input should be greater than or equal to 0, got -0.01"),
    ({"fraction": True}, "Threshold.fraction: input should be a valid number, got True"),
    ({"floor": 0.01}, "Threshold.floor: input should be an instance of NoiseFloor, got 0.01"),
]


@pytest.mark.parametrize(("mistake", "sentence"), PROFILE_MISTAKES)
def test_a_mistake_in_a_profile(mistake: dict[str, Any], sentence: str) -> None:
    """A wrong name, type or value in a profile is a usage error that names the field and what was written."""
    with pytest.raises(UsageError) as raised:
        RequestProfile(**{**LOAD, **mistake})

    assert str(raised.value) == sentence


@pytest.mark.parametrize(("mistake", "sentence"), CLAIM_MISTAKES)
def test_a_mistake_in_a_threshold(mistake: dict[str, Any], sentence: str) -> None:
    """A wrong name, type or value in a threshold is a usage error that names the field and what was written."""
    with pytest.raises(UsageError) as raised:
        Threshold(**{**CLAIM, **mistake})

    assert str(raised.value) == sentence


def test_a_wrong_name_is_named_before_the_one_that_is_missing() -> None:
    """Of a misspelt required field the misspelling is named, since it explains the gap."""
    load: dict[str, Any] = {"input_tokens": 16, "output_token": 11, "requests": {1: 10}}

    with pytest.raises(UsageError, match="no field 'output_token'; did you mean 'output_tokens'"):
        RequestProfile(**load)


def test_a_missing_field_is_named() -> None:
    """A field that is left out is named with its owner."""
    with pytest.raises(UsageError, match=r"^RequestProfile needs 'requests'$"):
        RequestProfile(input_tokens=16, output_tokens=11)  # type: ignore[call-arg]  # the point of the test


def test_a_field_given_by_position_shows_the_way() -> None:
    """An arm's model given by position is refused with the way to write it."""
    with pytest.raises(UsageError, match=r"^Arm takes its fields by name, as Arm\(name=\.\.\.\), got 'folder'$"):
        Arm("off", "folder")  # type: ignore[call-arg]  # the point of the test


@pytest.mark.parametrize(("fraction", "source"), [(0.0, "A/A"), (1.0, "A/A"), (NAN, "A/A"), (0.01, ""), (0.01, None)])
def test_a_noise_floor_needs_a_size_and_a_source(fraction: float, source: Any) -> None:
    """A floor of nothing, of everything, of NaN, or without a source is refused."""
    with pytest.raises(UsageError, match=r"^NoiseFloor\.(fraction|source): "):
        NoiseFloor(fraction, source)


def test_a_declaration_that_goes_through_replace_is_checked_too(build: type[Build]) -> None:
    """A pair with another number of rounds is checked like a new one."""
    with pytest.raises(UsageError, match="rounds=5: 1, 2, 3 or an even number"):
        build.pair().with_rounds(5)


def test_a_gate_without_thresholds_is_refused(build: type[Build]) -> None:
    """A gate that claims nothing is a mistake."""
    with pytest.raises(UsageError, match=r"^Gate\.thresholds: "):
        Gate(id="x", pair=build.pair(), thresholds=())


def test_declarations_cannot_be_changed(build: type[Build]) -> None:
    """A declaration is a value."""
    with pytest.raises(AttributeError):
        build.arm().name = "x"  # type: ignore[misc]  # the point of the test


def test_declarations_nest_only_declarations(build: type[Build]) -> None:
    """An arm's name does not stand for the arm."""
    with pytest.raises(UsageError, match=r"^ArmPair\.reference: input should be an instance of Arm, got 'off'$"):
        ArmPair(reference="off", candidate=build.arm(4), varies="args", profile=build.profile())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "fraction"),
    [("0.4%", 0.004), ("10%", 0.1), ("0.10%", 0.001), (" 5 % ", 0.05), ("0%", 0.0), ("150%", 1.5)],
)
def test_case_95_a_percentage_is_a_fraction(text: str, fraction: float) -> None:
    """Case 95: "10%" is 0.10 and "0.10%" is 0.001."""
    assert fraction_of("margin", text) == pytest.approx(fraction)


@pytest.mark.parametrize(("number", "shown"), [(0.4, "0.4"), (10, "10"), (0, "0")])
def test_case_95_a_number_without_unit_is_refused(number: float, shown: str) -> None:
    """Case 95: a bare number is ambiguous, and the message says how to write it."""
    with pytest.raises(UsageError) as raised:
        fraction_of("margin", number)

    expected = f"margin={number!r} has no unit: write margin='{shown}%' if you mean {shown} percent"
    assert str(raised.value) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("5", "", "%", "five%", "-1%", "nan%", "inf%", "1e3%", "1,5%", "5%%", f"{'9' * 400}%"),
        *(NAN, INFINITY, -1.0, True, None, [5]),
    ],
)
def test_case_95_anything_else_is_no_percentage(text: object) -> None:
    """Case 95: what is no non-negative number with a percent sign is refused, and quoted."""
    with pytest.raises(UsageError) as raised:
        fraction_of("margin", text)

    expected = f"margin={text!r} is not a percentage: write a non-negative number with its unit, as margin='5%'"
    assert str(raised.value) == expected


@known_keywords
def _not_worse(metric: str, *, at: int, margin: str = "5%") -> str:
    """Stand for a function of a gate file."""
    return f"{metric} at {at} by {margin}"


def test_known_keywords_pass_arguments_through() -> None:
    """A function of a gate file called as it should be is called."""
    assert _not_worse("ttft_p50", at=1) == "ttft_p50 at 1 by 5%"


def test_a_misspelt_keyword_names_the_nearest() -> None:
    """A keyword that a gate-file function does not have is answered with the one that was meant."""
    with pytest.raises(UsageError) as raised:
        _not_worse("ttft_p50", at=1, marign="2%")  # type: ignore[call-arg]  # the point of the test

    assert str(raised.value) == "_not_worse() has no keyword 'marign'; did you mean 'margin'?"


def test_a_missing_argument_is_a_usage_error() -> None:
    """A gate-file function called without a needed argument names it, without a traceback into this package."""
    with pytest.raises(UsageError, match="'at'"):
        _not_worse("ttft_p50")  # type: ignore[call-arg]  # the point of the test


def test_a_type_error_from_inside_is_not_hidden() -> None:
    """A fault inside a gate-file function stays what it is."""

    @known_keywords
    def faulty() -> object:
        """Fail on the inside."""
        return len(5)  # type: ignore[arg-type]  # the point of the test

    with pytest.raises(TypeError):
        faulty()
