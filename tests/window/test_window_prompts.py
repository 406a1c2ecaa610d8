"""Prompts of a window: as chat, out of a file, and what the record says of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.profile import sha256_of_text
from pytest_specgate.core.prompt_files import PromptFile
from tests.window.conftest import World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from tests.window.conftest import Declare

TOKENS_OF_A_CHAT = 90


def _sent(world: World, part: str = "c1", *, arm: str = "off", number: int = 1) -> list[dict[str, Any]]:
    return [json.loads(body) for body in world.sent[arm, number, part]]


def _file(count: int = 30) -> str:
    return "".join(f"{json.dumps(f'Question {number}?')}\n" for number in range(count))


def test_chat_prompts_have_the_exact_length_through_the_template(world: World, declare: type[Declare]) -> None:
    """The length of a chat prompt is that of the whole conversation, as the server's template makes it."""
    extra = {"chat_template_kwargs": {"thinking": False}}
    record = world.measure(declare.pair(None, 4, api="chat", input_tokens=TOKENS_OF_A_CHAT, extra_body=extra))
    lengths = {
        len(world.tokenize_chat(_any_boot(world, declare), body["messages"], body)) for body in _sent(world, "c8")
    }

    assert lengths == {TOKENS_OF_A_CHAT}
    assert record.boots[0].profile["api"] == "chat"


def _any_boot(world: World, declare: type[Declare]) -> Any:
    """Return a running server."""
    with world.start(declare.arm()) as boot:
        return boot


class _Begins(World):
    """A world whose tokenizer begins every text with a special token, unless a request wants none."""

    def tokenize(self, server: Any, text: str, extra: Mapping[str, JsonValue] | None = None) -> list[int]:
        """Return one token a byte, behind the one that begins a text."""
        wanted = (extra or {}).get("add_special_tokens", True)
        return [*([256] if wanted else []), *super().tokenize(server, text)]


@pytest.mark.parametrize(("extra", "length"), [({}, 23), ({"add_special_tokens": False}, 24)])
def test_prompts_are_counted_with_the_special_tokens_that_they_get(
    declare: type[Declare], extra: dict[str, Any], length: int
) -> None:
    """A prompt of 24 tokens has 24 bytes where requests ask for no special token, and one fewer where they get one."""
    world = _Begins()
    world.measure(declare.pair(None, 4, extra_body=extra))

    assert {len(body["prompt"]) for body in _sent(world, "c8")} == {length}


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_the_chat_template_is_part_of_the_profile(world: World, declare: type[Declare], api: str) -> None:
    """What the template makes of a probe is hashed; completions use no template."""
    record = world.measure(declare.pair(None, 4, api=api, input_tokens=TOKENS_OF_A_CHAT))
    found = [boot.profile["chat_template_sha256"] for boot in record.boots]

    assert len(set(map(str, found))) == 1
    assert (found[0] is None) == (api == "completions")


def test_prompts_out_of_a_file(world: World, declare: type[Declare]) -> None:
    """Every arm gets the prompts of the file in its order, after those of the warm-up; source and hash are recorded."""
    world.files["mine.jsonl"] = _file()
    record = world.measure(declare.pair(None, 4, prompts=PromptFile("mine.jsonl"), input_tokens=None))
    profile = record.boots[0].profile

    assert [body["prompt"] for body in _sent(world)] == [f"Question {number}?" for number in range(4, 14)]
    assert world.sent["off", 1, "c8"] == world.sent["k4", 2, "c8"]
    assert profile["prompt_source"] == "file mine.jsonl"
    assert profile["prompt_source_sha256"] == sha256_of_text(_file())
    assert profile["input_tokens"] is None
    assert "making prompts from file mine.jsonl" in world.told


def test_token_ids_out_of_a_file(world: World, declare: type[Declare]) -> None:
    """Token ids go out as they are, and no server is asked what tokens they are."""
    world.files["ids.jsonl"] = "".join(f"{[number, 2, 3, 4, 5]}\n" for number in range(30))
    record = world.measure(declare.pair(None, 4, prompts=PromptFile("ids.jsonl"), input_tokens=None))

    assert [body["prompt"] for body in _sent(world)] == [[number, 2, 3, 4, 5] for number in range(4, 14)]
    assert [point.repetitiveness for boot in record.boots for point in boot.points] == [0.0] * 8


def test_each_point_tells_how_repetitive_its_prompts_are(world: World, declare: type[Declare]) -> None:
    """The figure is a number between 0 and 1, the same for every arm and round."""
    record = world.measure(declare.pair(None, 4))
    found = [[point.repetitiveness for point in boot.points] for boot in record.boots]

    assert all(row == found[0] for row in found)
    assert all(value is not None and 0 <= value <= 1 for value in found[0])
