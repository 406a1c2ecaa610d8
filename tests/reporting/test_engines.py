"""Engines as text: one line for each build, and two builds of a pair side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.arms import Arm, ArmPair
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.reporting.engines import build_lines, engine_lines
from pytest_specgate.reporting.messages import window_lines
from tests.reporting.conftest import Window

if TYPE_CHECKING:
    from pytest_specgate.core.records import WindowRecord

BUILD = {
    "distribution": "vllm",
    "version": "0.32.0",
    "record_sha256": "a" * 64,
    "torch": "2.13.0",
    "python": "3.12.1",
    "prefix": "/main",
}
MAIN = Arm("main", model="folder", python="/main/bin/python")
PAIR = ArmPair(
    reference=MAIN,
    candidate=MAIN.vary("next", python="/next/bin/python"),
    varies="engine",
    profile=RequestProfile(input_tokens=16, output_tokens=11, requests={1: 2}),
    rounds=2,
)


def measured(**changes: Any) -> WindowRecord:
    """Return a window of two engines, the second of which differs in some facts."""
    engine = {"main": BUILD, "next": {**BUILD, "prefix": "/next", **changes}}
    return Window.of(PAIR, speeds={}).record.model_copy(update={"engine": engine})


def test_two_builds_are_shown_side_by_side() -> None:
    """A pair of engines names each fact in which the builds differ, with both values, and not where they lie."""
    record = measured(version="0.33.0", record_sha256="b" * 64)

    assert list(build_lines(PAIR, record)) == [
        "engine builds, main -> next: version 0.32.0 -> 0.33.0, record_sha256 aaaaaaaaaaaa -> bbbbbbbbbbbb"
    ]


def test_builds_that_nothing_tells_apart_are_said_to_be() -> None:
    """Development installs of one version may differ in their files, and nobody can say so: the report does."""
    (line,) = build_lines(PAIR, measured())

    assert line.startswith("engine builds, main -> next: nothing that they tell sets them apart")


def test_a_pair_of_one_engine_says_nothing_of_builds() -> None:
    """Where one install serves both arms there is nothing to compare."""
    pair = ArmPair(
        reference=MAIN, candidate=MAIN.vary("eager", args={"x": True}), varies="args.x", profile=PAIR.profile
    )
    record = Window.of(pair, speeds={}).record.model_copy(update={"engine": {"main": BUILD, "eager": BUILD}})

    assert list(build_lines(pair, record)) == []


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (BUILD, "engine: vllm 0.32.0, torch 2.13.0, Python 3.12.1"),
        ({**BUILD, "development": True}, "engine: vllm 0.32.0 (development install), torch 2.13.0, Python 3.12.1"),
        ({**BUILD, "image_digest": "sha256:12"}, "engine: vllm 0.32.0, torch 2.13.0, Python 3.12.1, image sha256:12"),
        ({"command": "serve it"}, "engine: serve it"),
        ({"attached": "http://h:1", "version": "0.31.0"}, "engine: attached at http://h:1, vLLM 0.31.0"),
        (
            {"attached": "http://h:1", "version": None},
            "engine: attached at http://h:1, which does not tell its version",
        ),
    ],
)
def test_an_engine_is_one_line(facts: dict[str, Any], line: str) -> None:
    """Builds, commands and addresses are each named by what identifies them."""
    record = measured().model_copy(update={"engine": {"main": facts, "next": facts}})

    assert list(engine_lines(record)) == [line]


def test_the_summary_of_a_window_shows_the_builds_of_its_pair() -> None:
    """The line stands with the pair, below its table."""
    lines = list(window_lines(measured(torch="2.14.0"), pairs=[PAIR], judged=[], record_path="record.json"))

    assert "engine builds, main -> next: torch 2.13.0 -> 2.14.0" in lines
    assert "engine: vllm 0.32.0, torch 2.14.0, Python 3.12.1 (next)" in lines
