"""Whatever somebody wrote: in Markdown it is shown, and does nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.markup import code, fenced, folded, prose, row

HOSTILE = (
    "a | b", "\\| c", "\\\\|", "`x`", "``` y", "<script>alert(1)</script>", "</details>", "<!-- -->", "&lt;b&gt;",
    "&#124;", "@org/team", "#12", "!34", "[text](http://h)", "![i](x)", "http://h/x", "www.h.org", "me@h.org", "*a*",
    "_b_", "__c__", "~~d~~", "$e$", "a\nb", "a\r\nb", "\x1b[31m", "\u2028", "\u202e", "\x00", "\ud800", "| --- |",
    "# h", "- i", "1. j", "> k",
)  # fmt: skip
_TEXTS = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(HOSTILE), max_size=5).map(" ".join))
_BLANKS = re.compile(r"\s+")


class _Reader(HTMLParser):
    """Reads HTML as a browser does: which elements there are, and which text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002  - given by the base
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:  # noqa: ARG002  - likewise
        self.tags.append("comment")


def read(markdown: str) -> _Reader:
    """Render Markdown as GitHub does (tables, strikethrough, links of bare addresses), and read it."""
    reader = _Reader()
    reader.feed(MarkdownIt("gfm-like", {"linkify": False}).render(markdown))
    reader.close()
    return reader


def shown(text: str) -> str:
    """Return a text as a reader sees it: without blanks of no width, and runs of blanks are one."""
    return _BLANKS.sub(" ", text.replace("\u200b", "")).strip()


@settings(max_examples=60)
@given(cells=st.lists(_TEXTS, min_size=2, max_size=4), typed=st.booleans())
@example(cells=[" ".join(HOSTILE), "end"], typed=False)
@example(cells=[" ".join(HOSTILE), "end"], typed=True)
def test_a_row_stays_one_row(cells: list[str], typed: bool) -> None:
    """Each cell shows its text, letter by letter; no cell, row, element or link comes of it."""
    put, count = (code if typed else prose), len(cells)
    line = row([f"x{put(cell)}x" for cell in cells])
    found = read("\n".join([row(["h"] * count), row(["---"] * count), line]))
    words = ["h"] * count + [f"x{shown(one_line(cell))}x" for cell in cells]

    assert [tag for tag in found.tags if tag != "code"] == [
        "table", "thead", "tr", *["th"] * count, "tbody", "tr", *["td"] * count
    ]  # fmt: skip
    assert found.tags.count("code") == (count if typed else 0)
    assert "".join(shown(found.text).split()) == "".join("".join(words).split())
    assert not re.search(r"://|www\.", line, re.IGNORECASE)


@settings(max_examples=60)
@given(_TEXTS)
@example(" ".join(HOSTILE))
def test_a_sentence_is_one_sentence(text: str) -> None:
    """Below a list item it makes no element of its own, and no line break."""
    found = read(f"* host: {prose(text)}")

    assert "\n" not in prose(text)
    assert found.tags == ["ul", "li"]
    assert shown(found.text) == shown(f"host: {one_line(text)}")


@settings(max_examples=60)
@given(_TEXTS)
@example("```\n````\n~~~\n</code></pre>")
def test_a_block_ends_where_it_is_ended(text: str) -> None:
    """Runs of backticks in it are shorter than its fence, and what looks like HTML is text."""
    found = read(folded("title", fenced(text)) + "\n\nafter")

    assert found.tags == ["details", "summary", "pre", "code", "p"]
    assert shown(found.text).endswith("after")


@pytest.mark.parametrize("put", [prose, code])
def test_nobody_is_called_upon(put: object) -> None:
    """Between the sign and the name stands a blank of no width, which makes it no mention."""
    assert callable(put)
    text = put("@octocat me@h.org")

    assert not re.search(r"@\w", text)
    assert "@&#8203;octocat" in text


def test_references_are_none() -> None:
    """Numbers of issues and merge requests in a log link nothing."""
    assert prose("#12 !34 %5") == "#&#8203;12 !&#8203;34 %&#8203;5"
    assert prose("-15 %, c=8, 4/s") == "-15 %, c=8, 4/s"


def test_what_is_harmless_stays_readable() -> None:
    """Names of tests and metrics are as they were written: whoever looks at the file itself can read them."""
    assert code("tests/test_k4.py::test_k4") == "<code>tests/test_k4.py::test_k4</code>"
    assert prose("output throughput at c=8: better +17.8 %, interval +1.0 .. +2.0 %") == (
        "output throughput at c=8: better +17.8 %, interval +1.0 .. +2.0 %"
    )
    assert prose("_private_ and __init__") == "&#95;private&#95; and &#95;&#95;init&#95;&#95;"
