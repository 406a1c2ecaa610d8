"""What a page says, read from its HTML: elements, their texts, and the order of both."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Iterator

VOID: Final = frozenset({"meta", "link", "br", "wbr"})

PICTURE: Final = re.compile(r"<svg\b.*?</svg>", re.DOTALL)


@dataclasses.dataclass
class Tag:
    """An element with everything in it, in the order of the page."""

    name: str
    attributes: dict[str, str]
    children: list[Tag | str] = dataclasses.field(default_factory=list)

    def walk(self) -> Iterator[Tag]:
        """Yield this element and all in it, in the order of the page."""
        yield self
        for child in self.children:
            if isinstance(child, Tag):
                yield from child.walk()

    def having(self, name: str) -> list[Tag]:
        """Return the elements in it that have a class."""
        return [one for one in self.walk() if name in one.attributes.get("class", "").split()]

    def named(self, *names: str) -> list[Tag]:
        """Return the elements in it with a name."""
        return [one for one in self.walk() if one.name in names]

    def by_id(self, name: str) -> Tag:
        """Return the element in it with an id."""
        return next(one for one in self.walk() if one.attributes.get("id") == name)

    @property
    def text(self) -> str:
        """All its text, but for the style sheet."""
        parts = (child if isinstance(child, str) else child.text for child in self.children if self.name != "style")
        return " ".join(" ".join(parts).split())

    @property
    def raw(self) -> str:
        """The text directly in it, with its line breaks."""
        return "".join(child for child in self.children if isinstance(child, str))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Tag("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        one = Tag(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(one)
        if tag not in VOID:
            self.open.append(one)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Tag(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> ends <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(page: str) -> Tag:
    """Return a page as elements; every element that begins must end, in its place."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert [one.name for one in reader.open] == [""], "an element was not closed"
    return reader.open[0]


def pictures(page: str) -> list[ET.Element]:
    """Return the pictures of a page that have a meaning of their own."""
    return [found for text in PICTURE.findall(page) if (found := ET.fromstring(text)).get("role") == "img"]
