"""What reports say of the load: prompts and how repetitive they are, a label on random tokens, and the temperature."""

from __future__ import annotations

import dataclasses
import html
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.flags import RANDOM_TOKENS
from pytest_specgate.core.prompt_files import PromptFile
from pytest_specgate.reporting.markdown import markdown
from pytest_specgate.reporting.page import html_page
from pytest_specgate.reporting.properties import properties
from pytest_specgate.reporting.session_json import session_json_text
from tests.reporting.reports import reported, run_of

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.levels import Level
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


@pytest.mark.parametrize(
    ("requests", "temperature", "sent"),
    [
        ({8: 16}, 0.0, "11 output tokens, 16 requests at c=8"),
        ({8: 16}, 0.8, "11 output tokens at temperature 0.8, 16 requests at c=8"),
        ({8: 16, "8 T=0": 16}, 0.8, "11 output tokens at temperature 0.8 where a level names none, 16 requests at c=8"),
        ({"8 T=0": 16}, 0.8, "11 output tokens, 16 requests at c=8 T=0"),
    ],
)
def test_the_load_line_tells_the_temperature_of_the_profile(
    window: type[Window], k4_off: ArmPair, requests: dict[Level, int], temperature: float, *, sent: str
) -> None:
    """Where it is not 0, and any level is sent at it; the terminal and the page say the same."""
    one = _of(window, k4_off, requests=requests, temperature=temperature)
    (line,) = [line for line in one.lines() if line.startswith("load: ")]
    page = html.unescape(html_page(run_of(reported(one))))

    assert line.partition("), ")[2].startswith(sent)
    assert line.removeprefix("load: ") in page


def test_what_tells_of_a_threshold_tells_its_temperature(window: type[Window], k4_off: ArmPair) -> None:
    """A red claim at temperature 0.8 is not taken for a greedy one, in failure text, Markdown, junit and JSON."""
    warm = _of(window, k4_off, temperature=0.8, requests={1: 10, "1 T=0": 10})
    warm = warm.gated(margin=0.01, floor=0.9).gated("ttft_p50", at="1 T=0", margin=0.01, floor=0.9)
    run = run_of(reported(warm))
    texts, rows = [one.text for one in run.verdicts], markdown(run).splitlines()
    told = [gate["thresholds"][0] for gate in json.loads(session_json_text(run))["gates"]]

    assert ["    c=1 is sent at temperature 0.8, which is that of the profile\n" in text for text in texts] == [
        True,
        False,
    ]
    assert [any(f"| {load} |" in row for row in rows) for load in ("c=1 (temperature 0.8)", "c=1 T=0")] == [True, True]
    assert [(one["load"], one["temperature"]) for one in told] == [("c=1", 0.8), ("c=1 T=0", 0.0)]
    assert dict(properties(run.verdicts[0].verdict, temperature=0.8))["specgate_temperature"] == 0.8
    assert "is sent at temperature" not in "".join(window.of(k4_off, speeds={}).gated(margin=0.01, floor=0.9).failure())


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
