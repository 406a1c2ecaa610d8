"""What reports say of the prompts: source, length, how repetitive they are, and a label on random tokens."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.flags import RANDOM_TOKENS
from pytest_specgate.core.prompt_files import PromptFile

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from tests.reporting.conftest import Window


def _load(one: Window) -> str:
    (line,) = [line for line in one.lines() if line.startswith("load: ")]
    return line.removeprefix("load: ").partition(", 11 output tokens")[0]


def _of(window: type[Window], pair: ArmPair, **profile: Any) -> Window:
    return window.of(dataclasses.replace(pair, profile=dataclasses.replace(pair.profile, **profile)), speeds={})


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ({}, "prose prompts of 16 tokens (repetitiveness 0.12)"),
        ({"prompts": "code", "api": "chat"}, "code prompts as chat of 16 tokens (repetitiveness 0.12)"),
        ({"prompts": "random"}, f"random prompts of 16 tokens ({RANDOM_TOKENS}, repetitiveness 0.12)"),
        (
            {"prompts": PromptFile("data/mine.jsonl"), "input_tokens": None},
            "file data/mine.jsonl prompts of their own lengths (repetitiveness 0.12)",
        ),
    ],
)
def test_the_load_line_tells_of_the_prompts(
    window: type[Window], k4_off: ArmPair, profile: dict[str, Any], *, words: str
) -> None:
    """Source, API, length and repetitiveness stand in the load line, and a label on random tokens."""
    assert _load(_of(window, k4_off, **profile)) == words


def test_points_that_differ_are_shown_as_a_range(window: type[Window], k4_off: ArmPair) -> None:
    """The least and the greatest repetitiveness of all points; points that have none are left out."""
    one = window.of(k4_off, speeds={})
    for arm, number in itertools.product(("off", "k4"), (1, 2)):
        one = one.with_point(arm, number, at=1, edit=lambda point: point.model_copy(update={"repetitiveness": 0.3}))
        one = one.with_point(arm, number, at=8, edit=lambda point: point.model_copy(update={"repetitiveness": None}))
    other = one.with_point("k4", 2, at=8, edit=lambda point: point.model_copy(update={"repetitiveness": 0.5}))

    assert _load(one).endswith("(repetitiveness 0.30)")
    assert _load(other).endswith("(repetitiveness 0.30 to 0.50)")


def test_nothing_measured_has_no_repetitiveness(window: type[Window], k4_off: ArmPair) -> None:
    """Before any point ran, nothing is said of it."""
    one = window.of(k4_off, speeds={})
    empty = dataclasses.replace(one, record=one.record.model_copy(update={"boots": ()}))

    assert _load(empty) == "prose prompts of 16 tokens"


def test_random_tokens_are_labelled_wherever_they_matter(window: type[Window], k4_off: ArmPair) -> None:
    """Load line, note of a verdict, caption of the speculation table and failure text say what acceptance is worth."""
    one = _of(window, k4_off, prompts="random").gated(margin=0.5)
    labelled = [line for line in one.lines() if RANDOM_TOKENS in line]

    assert len(labelled) == 3
    assert labelled[1] == f"c1-output_throughput-not_worse: note: {RANDOM_TOKENS}"
    assert labelled[2] == f"speculation, from counter deltas of each point, all rounds pooled; {RANDOM_TOKENS}"
    assert f"    note: {RANDOM_TOKENS}" in one.failure()
    assert not any(RANDOM_TOKENS in line for line in window.of(k4_off, speeds={}).lines())
