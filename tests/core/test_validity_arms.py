"""A fresh server is the arm that was declared, or says in what it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.errors import ScrapeError
from pytest_specgate.core.proof import unproved
from pytest_specgate.core.records import Failure

if TYPE_CHECKING:
    from pytest_specgate.core.counters import CounterPage
    from tests.core.conftest import Build, Captured

SPECULATION = (counters.DRAFTS, counters.DRAFT_TOKENS, counters.ACCEPTED_TOKENS)


def _page(build: type[Build], *, positions: int = 0, model: str = "tiny") -> CounterPage:
    """Return the page of a fresh server with a number of draft positions."""
    values = {counters.GENERATION_TOKENS: 0.0}
    if positions:
        values |= dict.fromkeys(SPECULATION, 0.0)
    return build.page(values, positions=(0,) * positions, finished={}, model=model)


def _resolved(k: int | None) -> Any:
    return None if k is None else {"method": "ngram", "num_speculative_tokens": k}


def _told(speculation: Any) -> dict[str, Any]:
    """Return what a server tells of its resolved configuration."""
    return {"speculative_config": speculation}


def _problem(build: type[Build], declared: dict[str, Any], resolved: dict[str, Any], *, counted: int = 4) -> str | None:
    """Return what is said of an arm `x` whose server resolved a configuration and counts some positions."""
    arm = build.arm().vary("x", args={"speculative_config": declared})
    seen = unproved(arm, config=_told(resolved), page=_page(build, positions=counted), model="tiny")
    assert seen is None or seen.reason == "arm-not-as-declared"
    return None if seen is None else seen.message


@pytest.mark.parametrize("k", [None, 4, 7])
def test_an_arm_as_declared_is_proved(build: type[Build], k: int | None) -> None:
    """A server that resolved and counts what was declared raises no doubt."""
    page = _page(build, positions=k or 0)

    assert unproved(build.arm(k), config=_told(_resolved(k)), page=page, model="tiny") is None


RUNS = "arm off: no speculation is declared, but the server runs it: "


@pytest.mark.parametrize(
    ("declared", "resolved", "counted", "problem"),
    [
        (4, None, 0, "arm k4: speculation is declared, but the server resolved none"),
        (4, None, 4, "arm k4: speculation is declared, but the server resolved none"),
        (
            4,
            7,
            7,
            "arm k4: num_speculative_tokens=4 is declared, but the server resolved num_speculative_tokens=7",
        ),
        (4, 4, 7, "arm k4: the server resolved k=4, but counts 7 draft positions"),
        (4, 4, 0, "arm k4: the server resolved k=4, but counts 0 draft positions"),
        (None, 4, 4, f"{RUNS}{{'method': 'ngram', 'num_speculative_tokens': 4}}"),
        (None, 4, 0, f"{RUNS}{{'method': 'ngram', 'num_speculative_tokens': 4}}"),
        (None, None, 2, f"{RUNS}('0', '1')"),
    ],
)
def test_an_arm_that_is_not_as_declared(
    build: type[Build], *, declared: int | None, resolved: int | None, counted: int, problem: str
) -> None:
    """What the server resolved and what it counts must both be the declaration, in either direction."""
    page = _page(build, positions=counted)

    seen = unproved(build.arm(declared), config=_told(_resolved(resolved)), page=page, model="tiny")

    assert seen == Failure(reason="arm-not-as-declared", message=problem)


@pytest.mark.parametrize("declared", [4, None])
@pytest.mark.parametrize("config", ["ngram", [{"num_speculative_tokens": 4}], 4, True])
def test_a_resolved_configuration_of_another_form_proves_nothing(
    build: type[Build], config: Any, declared: int | None
) -> None:
    """What the server says of its speculation in a form that cannot be compared proves neither on nor off."""
    arm = build.arm(declared)

    seen = unproved(arm, config=_told(config), page=_page(build, positions=declared or 0), model="tiny")

    assert seen is not None
    assert seen.message == f"arm {arm.name}: the server says of its speculation only {config!r}"


def test_case_53_section_b_of_another_model(build: type[Build], captured: type[Captured]) -> None:
    """Case 53: a page of `other` where Qwen/Qwen3-0.6B is expected is named with both, and the arm is not proved."""
    page = captured.page("sample_b")
    other = [
        one.model_copy(update={"labels": {**one.labels, "model_name": "other"}}) if "model_name" in one.labels else one
        for one in page.samples
    ]
    pages = page, page.model_copy(update={"samples": tuple(other)})

    ours, theirs = (
        unproved(build.arm(4), config=_told(_resolved(4)), page=seen, model="Qwen/Qwen3-0.6B") for seen in pages
    )

    assert ours is None
    words = "arm k4: the server counts for model other, not for Qwen/Qwen3-0.6B"
    assert theirs == Failure(reason="arm-not-as-declared", message=words)


def test_case_53_somebody_elses_model(build: type[Build]) -> None:
    """Case 53: a page that counts for another model is not our server's, and both names are said."""
    page = _page(build, positions=4, model="other")

    seen = unproved(build.arm(4), config=_told(_resolved(4)), page=page, model="tiny")

    assert seen is not None
    assert seen.message == "arm k4: the server counts for model other, not for tiny"


def test_an_arm_that_declares_no_horizon_takes_the_servers(build: type[Build]) -> None:
    """Where an arm leaves k to the server, any k proves it that the server also counts, and no other."""
    declared, resolved = {"method": "mtp"}, {"method": "mtp", "num_speculative_tokens": 3}

    assert _problem(build, declared, resolved, counted=3) is None
    assert _problem(build, declared, resolved, counted=2) == (
        "arm x: the server resolved k=3, but counts 2 draft positions"
    )


def test_a_server_that_resolves_no_horizon_proves_nothing(build: type[Build]) -> None:
    """A configuration without k agrees with no number of counted positions, 0 included."""
    for counted in (0, 4):
        assert _problem(
            build, {"method": "ngram", "num_speculative_tokens": 4}, {"method": "ngram"}, counted=counted
        ) == (f"arm x: the server resolved k=None, but counts {counted} draft positions")


@pytest.mark.parametrize(
    ("name", "declared", "resolved"),
    [
        ("method", "ngram", "eagle"),
        ("method", "eagle", "eagle3"),
        ("method", "mtp", "ngram"),
        ("method", "deepseek_mtp", "eagle"),
        ("method", "[ngram]", "suffix"),
        ("method", "ngram", None),
        ("method", None, "ngram"),
        ("prompt_lookup_max", 5, 4),
        ("prompt_lookup_min", 2, 2.5),
        ("prompt_lookup_max", "5", 5),
        ("disable_padded_drafter_batch", True, False),
        ("disable_padded_drafter_batch", True, 1),
        ("rejection_sample_method", "[a]", "a"),
        ("rejection_sample_method", "a_mtp", "mtp"),
        ("moe", {"a": [1, 2]}, {"a": [2, 1]}),
        ("moe", {"a": 1}, {"a": 1, "b": 2}),
        ("draft_tensor_parallel_size", 2, None),
    ],
)
def test_every_declared_key_is_compared(build: type[Build], *, name: str, declared: Any, resolved: Any) -> None:
    """A key of the speculative configuration that the server resolved to another value is named with both."""
    common = {"num_speculative_tokens": 4}

    seen = _problem(build, {**common, name: declared}, {**common, name: resolved})

    assert seen == f"arm x: {name}={declared} is declared, but the server resolved {name}={resolved}"


@pytest.mark.parametrize(
    ("name", "declared", "resolved"),
    [
        ("model", "drafts/tiny", "/srv/drafts/tiny"),
        ("method", "[ngram]", "ngram"),
        ("method", "ngram", "[ngram]"),
        ("method", "deepseek_mtp", "mtp"),
        ("method", "mtp", "mtp"),
        ("prompt_lookup_max", 5, 5.0),
        ("moe", {"a": 1, "b": [True]}, {"b": [True], "a": 1}),
        ("draft_tensor_parallel_size", None, None),
    ],
)
def test_other_spellings_of_one_value_agree(build: type[Build], *, name: str, declared: Any, resolved: Any) -> None:
    """The draft model's place, aliases of a method and numbers of one value are no difference."""
    common = {"num_speculative_tokens": 4}

    assert _problem(build, {**common, name: declared}, {**common, name: resolved}) is None


def test_what_the_server_adds_or_leaves_out_is_no_difference(build: type[Build]) -> None:
    """Defaults that the server filled in are not declared, and a key that it does not show cannot be compared."""
    declared = {"num_speculative_tokens": 4, "prompt_lookup_max": 5}
    resolved = {"num_speculative_tokens": 4, "method": "ngram", "prompt_lookup_min": 2}

    assert _problem(build, declared, resolved) is None


def test_the_first_key_that_differs_is_named(build: type[Build]) -> None:
    """Of several keys that differ the first declared is named, behind others that agree."""
    declared = {"num_speculative_tokens": 4, "method": "ngram", "prompt_lookup_max": 5, "prompt_lookup_min": 2}

    seen = _problem(build, declared, {**declared, "prompt_lookup_min": 1, "prompt_lookup_max": 7})

    assert seen == "arm x: prompt_lookup_max=5 is declared, but the server resolved prompt_lookup_max=7"


def test_positions_that_are_no_numbers_are_unreadable(build: type[Build]) -> None:
    """A page whose draft positions cannot be read proves no arm; the error is the page's."""
    samples = _page(build, positions=1).samples
    odd = [sample.model_copy(update={"labels": {**sample.labels, "position": "x"}}) for sample in samples]
    page = _page(build).model_copy(update={"samples": tuple(odd)})

    with pytest.raises(ScrapeError, match="draft positions that are no numbers"):
        unproved(build.arm(1), config=_told(_resolved(1)), page=page, model="tiny")
