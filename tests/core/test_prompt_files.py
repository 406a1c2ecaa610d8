"""Prompts out of a user's file: what is read, and which sentence a mistake gets."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.corpus import build_prompts, check_file
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.prompt_files import PromptFile, is_conversation, read_prompts, token_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.corpus import PromptSet
    from pytest_specgate.core.profile import RequestProfile
    from tests.core.conftest import Build

LINES = PromptFile("prompts.jsonl")
TEXT = PromptFile("prompts.txt")
TALK: list[dict[str, JsonValue]] = [{"role": "user", "content": "Why?"}]


def _jsonl(*values: object) -> str:
    return "".join(f"{json.dumps(value)}\n" for value in values)


def _words(prompt: JsonValue) -> Sequence[int]:
    """Return one token a word, or the ids themselves; a conversation has two more."""
    if is_conversation(prompt):
        return [1, *map(hash, str(prompt).split()), 2]
    return token_ids(prompt) or [hash(word) for word in str(prompt).split()]


def _profile(build: type[Build], file: PromptFile = LINES, **changes: object) -> RequestProfile:
    """Return a profile that needs four prompts of a file, one of them for the warm-up."""
    own = {"prompts": file, "requests": {1: 3}, "warmup_requests": 1, "input_tokens": None}
    return build.profile(**{**own, **changes})


def _built(profile: RequestProfile, source: str) -> PromptSet:
    return build_prompts(profile, source=source, source_sha256="abcd", model="tiny", tokenize=_words)


def _sent(made: PromptSet, *, field: str = "prompt") -> list[Any]:
    return [json.loads(body)[field] for body in (*made.warmup, *made.points[1])]


def test_lines_of_json_in_all_forms() -> None:
    """A text, token ids, an object with a prompt of either kind, and a conversation; blank lines are none."""
    lines = ['"One"', "", "[1, 2]", '{"prompt": "Two"}', '{"prompt": [3]}', json.dumps({"messages": TALK})]
    found = read_prompts(LINES, "\n".join(lines))

    assert [prompt.content for prompt in found] == ["One", [1, 2], "Two", [3], TALK]
    assert [prompt.place for prompt in found] == [f"prompts.jsonl:{number}" for number in (1, 3, 4, 5, 6)]


def test_paragraphs_of_a_text() -> None:
    """Blank lines part paragraphs, however many and however they end; the place is that of the first line."""
    found = read_prompts(TEXT, "\ufeffOne\n  two\r\n\r\n \nThree\n")

    assert [(prompt.place, prompt.content) for prompt in found] == [
        ("prompts.txt:1", "One\n  two"),
        ("prompts.txt:5", "Three"),
    ]


def test_line_separators_inside_a_text_part_no_lines() -> None:
    """U+2028 and U+0085 are characters of a JSON text, not ends of lines."""
    text = "a\u2028b\u0085c"

    assert [prompt.content for prompt in read_prompts(LINES, json.dumps(text, ensure_ascii=False))] == [text]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("NaN", "no JSON, which has no NaN"),
        ("7", "no prompt but 7"),
        ("true", "no prompt but true"),
        ('""', "an empty prompt"),
        ("[]", "an empty prompt"),
        ("[1, -2]", "no prompt but [1, -2]"),
        ("[true]", "no prompt but [true]"),
        ("[1.5]", "no prompt but [1.5]"),
        ('["a", "b"]', 'no prompt but ["a", "b"]'),
        (json.dumps(["a" * 99]), 'no prompt but ["' + "a" * 35 + "..."),
        (r'"\ud800"', r'no text but half a character, "\ud800"'),
        ("{}", 'an object without one of "prompt" and "messages"'),
        ('{"prompt": "a", "messages": []}', 'an object without one of "prompt" and "messages"'),
        ('{"prompt": null}', "no prompt but null"),
        ('{"messages": []}', "no conversation but [], where a list of objects with a role belongs"),
        (
            '{"messages": [{"content": "x"}]}',
            'no conversation, for the role of {"content": "x"} is no text',
        ),
        (
            '{"messages": [{"role": 5, "content": "x"}]}',
            'no conversation, for the role of {"role": 5, "content": "x"} is no text',
        ),
        ('{"messages": ["x"]}', 'no conversation but ["x"], where a list of objects with a role belongs'),
        (r'{"messages": [{"role": "user", "content": "\ud83d"}]}', 'no text but half a character, {"messages": [{"'),
        (r'{"messages": [{"role": "user", "\ud83d": "x"}]}', 'no text but half a character, {"messages": [{"'),
        ('{"messages": [{"role": "user", "content": "x", "w": 1e999}]}', "no JSON that can be read, for 1e999 is out"),
        ('{"messages": [{"role": "user", "content": "x", "w": -Infinity}]}', "no JSON, which has no -Infinity"),
        (f"[{'7' * 5000}]", "no JSON"),
        ('{"prompt": "x", "max_tokens": 5}', 'an object with "max_tokens", which is none of the known keys "prompt" '),
        ('{"conversations": []}', 'an object with "conversations", which is none of the known keys "prompt" and "mes'),
        ('{"prompt": "x", "prompt": "y"}', 'an object with "prompt" twice'),
        ('{"messages": [{"role": "user", "content": "x", "content": "y"}]}', 'an object with "content" twice'),
    ],
)
def test_a_line_that_is_no_prompt_is_named(line: str, what: str) -> None:
    """File, line, what is wrong, and what a line should be, in one sentence."""
    with pytest.raises(UsageError) as raised:
        read_prompts(LINES, f'"good"\n{line}\n')

    assert str(raised.value).startswith(f"prompts.jsonl:2 is {what}")
    assert str(raised.value).endswith(
        ': write one prompt a line, as a JSON text, a list of token ids, or an object with "prompt" or "messages"'
    )


@pytest.mark.parametrize(
    "says",
    [
        {},
        {"content": None},
        {"content": 5},
        {"content": []},
        {"content": [5]},
        {"tool_calls": []},
        {"tool_calls": ["f"]},
    ],
)
def test_a_message_that_says_nothing_is_refused(says: dict[str, Any]) -> None:
    """Every server refuses a message without content that calls no tool: it is named before any server runs."""
    with pytest.raises(UsageError) as raised:
        read_prompts(LINES, _jsonl({"messages": [*TALK, {"role": "assistant", **says}]}))

    assert str(raised.value).startswith('prompts.jsonl:1 is no conversation, for {"role": "assistant"')
    assert " has neither content (a text, or a list of its parts) nor tool_calls (a list of objects): " in str(
        raised.value
    )


@pytest.mark.parametrize(
    "says",
    [
        {"content": ""},
        {"content": [{"type": "text", "text": "Why?"}]},
        {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f"}}]},
        {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "f"}}]},
    ],
)
def test_messages_of_all_kinds_are_read(says: dict[str, Any]) -> None:
    """A text, a list of parts, or tool calls in place of a content, with whatever stands beside them."""
    talk = [*TALK, {"role": "assistant", "name": "one", **says}]

    assert [prompt.content for prompt in read_prompts(LINES, _jsonl({"messages": talk}))] == [talk]


@pytest.mark.parametrize("path", ["prompts", "prompts.csv", "prompts.jsonl.gz", ""])
def test_other_kinds_of_files_are_refused(path: str) -> None:
    """Only text and JSON lines are read."""
    with pytest.raises(UsageError) as raised:
        PromptFile(path)

    assert str(raised.value) == f"PromptFile: path={path!r} is neither text (.txt) nor one JSON value a line (.jsonl)"


def test_a_path_may_be_given_as_a_path() -> None:
    """A `pathlib` path is kept as text, so that a record is read anywhere."""
    assert PromptFile(PurePosixPath("data/prompts.txt")) == PromptFile("data/prompts.txt")
    assert PromptFile(PurePosixPath("data/prompts.txt")).name == "data/prompts.txt"


def test_what_is_no_path_is_refused() -> None:
    """A list is no file."""
    with pytest.raises(UsageError, match=r"^PromptFile\.path: input should be a valid string, got \['One'\]$"):
        PromptFile(["One"])  # type: ignore[arg-type]  # the mistake that is tested


def test_prompts_are_taken_in_the_order_of_the_file(build: type[Build]) -> None:
    """Those of the warm-up come first, and what the profile does not need is left."""
    made = _built(_profile(build), _jsonl("a b", "c", [5, 6], {"prompt": "d"}, "left"))

    assert _sent(made) == ["a b", "c", [5, 6], "d"]
    assert made.source_sha256 == "abcd"


def test_paragraphs_are_prompts_as_they_are(build: type[Build]) -> None:
    """A text without a length gives its paragraphs."""
    assert _sent(_built(_profile(build, TEXT), "One two\n\nThree\n\nFour\n\nFive")) == [
        "One two",
        "Three",
        "Four",
        "Five",
    ]


def test_prompts_are_cut_from_the_paragraphs_of_a_text(build: type[Build]) -> None:
    """With a length a text is a corpus like those of the package: any number of prompts is cut from it."""
    made = _built(_profile(build, TEXT, input_tokens=9), "One two three.\n\nFour five six seven.")

    assert {len(str(prompt).split()) for prompt in _sent(made)} == {9}
    assert len(set(_sent(made))) == 4


def test_prompts_of_lines_are_cut_to_a_length(build: type[Build]) -> None:
    """Texts and token ids are cut at their ends; one that has the length already is left alone."""
    made = _built(_profile(build, input_tokens=2), _jsonl("a b c", [5, 6, 7], "d e", "f g h i"))

    assert _sent(made) == ["a b", [5, 6], "d e", "f g"]


def test_a_prompt_too_short_to_be_cut_is_named(build: type[Build]) -> None:
    """The sentence names file, line, both lengths and the ways out."""
    with pytest.raises(UsageError) as raised:
        _built(_profile(build, input_tokens=2), _jsonl("a b c", "d", "e f", "g h"))

    assert str(raised.value) == (
        "prompts.jsonl:2 has no beginning of exactly input_tokens=2 tokens (it has 1): take it out, lower "
        "input_tokens, or set input_tokens=None"
    )


def test_token_ids_too_few_to_be_cut_are_named(build: type[Build]) -> None:
    """Too few ids are refused like too short a text."""
    with pytest.raises(UsageError, match=r"^prompts\.jsonl:3 has no beginning of exactly input_tokens=2 tokens"):
        _built(_profile(build, input_tokens=2), _jsonl("a b c", [1, 2], [3], [4, 5]))


def test_prompts_that_a_cut_makes_alike_are_refused(build: type[Build]) -> None:
    """Two prompts with one beginning would be answered out of the prefix cache."""
    with pytest.raises(
        UsageError, match=r"^prompts\.jsonl:3 is the same prompt as prompts\.jsonl:1, out of the prefix"
    ):
        _built(_profile(build, input_tokens=2), _jsonl("a b c", "d e", "a b d", "g h"))


def test_conversations_go_to_the_chat_api(build: type[Build]) -> None:
    """Messages are sent as they are, a text beside them as one message."""
    talks = [[{"role": "user", "content": f"Question {number}"}] for number in range(3)]
    made = _built(_profile(build, api="chat"), _jsonl(*({"messages": talk} for talk in talks), "Plain"))

    assert _sent(made, field="messages") == [*talks, [{"role": "user", "content": "Plain"}]]


@pytest.mark.parametrize(
    ("changes", "values", "sentence"),
    [
        (
            {},
            ("a", "b", "c"),
            (
                "prompts.jsonl has 3 prompts, and the profile needs 4, 1 of them for the warm-up: add prompts to it, "
                "or lower requests or warmup_requests"
            ),
        ),
        (
            {},
            ("a", "b", "c", "b"),
            "prompts.jsonl:4 is the same prompt as prompts.jsonl:2, out of the prefix cache: take one of the two out",
        ),
        (
            {},
            ("a", "b", {"messages": TALK}, "d"),
            "prompts.jsonl:3 has messages, which only the chat API takes: set api='chat'",
        ),
        (
            {"api": "chat"},
            ("Why?", "b", {"messages": TALK}, "d"),
            "prompts.jsonl:3 is the same prompt as prompts.jsonl:1, out of the prefix cache: take one of the two out",
        ),
        (
            {"api": "chat"},
            ("a", {"messages": TALK}, {"messages": [dict(reversed(TALK[0].items()))]}, "d"),
            "prompts.jsonl:3 is the same prompt as prompts.jsonl:2, out of the prefix cache: take one of the two out",
        ),
        (
            {"api": "chat"},
            ("a", "b", [1], "d"),
            "prompts.jsonl:3 has token ids, which the chat API does not take: set api='completions'",
        ),
        (
            {"api": "chat", "input_tokens": 8},
            ("a", "b", {"messages": TALK}, "d"),
            "prompts.jsonl:3 has messages, which cannot be cut to a length: set input_tokens=None",
        ),
    ],
)
def test_files_that_cannot_be_measured_with_are_refused_beforehand(
    build: type[Build], changes: dict[str, Any], values: tuple[object, ...], *, sentence: str
) -> None:
    """Too few prompts, one twice, or one that the API does not take: refused before any server runs."""
    with pytest.raises(UsageError) as raised:
        check_file(_profile(build, **changes), _jsonl(*values))

    assert str(raised.value) == sentence


def test_what_is_not_taken_is_not_checked(build: type[Build]) -> None:
    """A repeated prompt beyond those that are needed is nobody's trouble."""
    check_file(_profile(build), _jsonl("a", "b", "c", "d", "a"))


def test_an_empty_text_is_no_corpus(build: type[Build]) -> None:
    """There is nothing to cut prompts from."""
    with pytest.raises(UsageError, match=r"^prompts\.txt has 0 prompts, and the profile needs 4"):
        check_file(_profile(build, TEXT, input_tokens=9), "\n\n")


def test_a_text_to_cut_from_needs_one_paragraph(build: type[Build]) -> None:
    """Prompts are cut from it as often as needed, so one paragraph is enough, and it may be there twice."""
    check_file(_profile(build, TEXT, input_tokens=9), "One two.\n\nOne two.")


def test_a_corpus_of_the_package_has_no_file_to_check(build: type[Build]) -> None:
    """Only a user's file is looked at."""
    check_file(build.profile(), "")


def test_prompts_of_a_file_are_part_of_the_profile(build: type[Build]) -> None:
    """Two files are two loads, and a file is not the corpus of its name."""
    prints = {
        build.profile(prompts=source).fingerprint()
        for source in ("prose", LINES, TEXT, PromptFile("other/prompts.txt"))
    }

    assert len(prints) == 4
