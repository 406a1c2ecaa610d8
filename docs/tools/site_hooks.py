"""Hooks of the site's build: a site that would fetch something from elsewhere is not built.

Readers of a documentation tell nobody else that they read it. Links may lead anywhere; what a browser loads by itself
(scripts, styles, fonts, pictures, frames) comes from the site.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig

_LOADING: Final = {
    "audio": "src", "embed": "src", "form": "action", "iframe": "src", "image": "href", "img": "src", "input": "src",
    "link": "href", "object": "data", "script": "src", "source": "src", "track": "src", "use": "href", "video": "src",
}  # fmt: skip
"""Elements that load what one of their attributes names."""

_ELSEWHERE: Final = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_OF_STYLES: Final = re.compile(r"(?:url\(\s*|@import\s+)[\"']?\s*((?:[a-z][a-z0-9+.-]*:)?//[^\"')\s]+)", re.IGNORECASE)
_ONLY_NAMED: Final = {"canonical", "alternate", "next", "prev", "license", "author"}


class _Loaded(HTMLParser):
    """Collects what a page loads from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at one element."""
        given = {name: value or "" for name, value in attrs}
        if tag == "link" and set(given.get("rel", "").split()) <= _ONLY_NAMED:
            return
        addresses = [given.get(_LOADING.get(tag, ""), ""), *given.get("srcset", "").split(",")]
        self.found += [address.strip() for address in addresses if _ELSEWHERE.match(address)]
        self.found += _OF_STYLES.findall(given.get("style", ""))


def loaded_from_elsewhere(text: str) -> list[str]:
    """Return the addresses on other hosts that a page, or a style sheet, makes a browser load."""
    page = _Loaded()
    page.feed(text)
    return [*page.found, *_OF_STYLES.findall(text)]


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site that loads something from elsewhere.

    Raises:
        PluginError: it does; the message names the files and the addresses.
    """
    from mkdocs.exceptions import PluginError  # noqa: PLC0415  - tests of this file do without mkdocs

    found = list(_of_folder(Path(config.site_dir)))
    if found:
        raise PluginError("the site loads from elsewhere:\n" + "\n".join(found))


def _of_folder(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".html", ".css", ".svg"}:
            for address in loaded_from_elsewhere(path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(folder)}: {address}"
