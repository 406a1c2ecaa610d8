"""The page of a run in a real browser: nothing is fetched, nothing is cut off, nothing covers anything else."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, get_args

import pytest

from pytest_specgate.reporting.page import html_page
from tests.browser.chromium import Theme, browser, installed
from tests.reporting.page_runs import RUNS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.browser.chromium import Browser

ASKED: Final = "SPECGATE_TEST_BROWSER"
WIDTHS: Final = (375, 1280)

pytestmark = [
    pytest.mark.skipif(not os.environ.get(ASKED), reason="tests in a browser have an environment: tox run -e browser"),
    pytest.mark.skipif(installed() is None, reason="no Chromium here: install your system's package chromium"),
]

BEYOND: Final = """
[...document.body.querySelectorAll('*')]
  .filter(one => !one.closest('.scroll, pre, .definitions'))
  .filter(one => one.getBoundingClientRect().width && one.getBoundingClientRect().right > innerWidth + 0.5)
  .map(one => one.outerHTML.slice(0, 120))
"""
"""What sticks out of the screen, but for what scrolls inside its own box."""

COVERED: Final = """
[...document.querySelectorAll('svg.plot, svg.strip')].flatMap(picture => {
  const frame = picture.getBoundingClientRect();
  const boxes = [...picture.querySelectorAll('text')].map(one => [one.textContent, one.getBoundingClientRect()]);
  const inside = box => box.left >= frame.left - 1 && box.right <= frame.right + 1
    && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
  const apart = (a, b) => a.right < b.left || b.right < a.left || a.bottom - 2 < b.top || b.bottom - 2 < a.top;
  const cut = boxes.filter(([, box]) => !inside(box)).map(([text]) => `cut off: ${text}`);
  const met = boxes.flatMap(([text, box], place) => boxes.slice(place + 1)
    .filter(([, other]) => !apart(box, other)).map(([other]) => `${text} on ${other}`));
  return [...cut, ...met].map(found => `${picture.querySelector('title').textContent}: ${found}`);
})
"""
"""Texts of pictures that are cut off, or lie on one another."""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A running browser."""
    found = installed()
    assert found is not None, "skipped where there is none"
    with browser(found, tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture(scope="module", params=RUNS)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run of each kind."""
    path = tmp_path_factory.mktemp("page") / f"{request.param}.html"
    path.write_text(html_page(RUNS[request.param]()), encoding="utf-8")
    return path


@pytest.mark.parametrize("theme", get_args(Theme))
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_is_whole_on_every_screen(chromium: Browser, page: Path, width: int, theme: Theme) -> None:
    """No error, nothing fetched, no sideways scrolling, every heading and picture has a size, no label on another."""
    chromium.look(width, theme)
    chromium.show(page)
    sizes = chromium.evaluate(
        "[...document.querySelectorAll('h1, h2, h3, h4, .identity, svg.plot, svg.strip, .badge')]"
        ".map(one => one.getBoundingClientRect()).filter(box => !box.width || !box.height).length"
    )

    assert chromium.complaints() == []
    assert chromium.fetched() == [page.as_uri()]
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width
    assert chromium.evaluate(BEYOND) == []
    assert sizes == 0
    assert chromium.evaluate(COVERED) == []


def test_a_page_follows_the_theme(chromium: Browser, page: Path) -> None:
    """Its ground is bright for readers who prefer light, and dark for those who prefer dark."""
    bright = {}
    for theme in get_args(Theme):
        chromium.look(1280, theme)
        chromium.show(page)
        found = chromium.evaluate("getComputedStyle(document.body).backgroundColor")
        bright[theme] = sum(map(int, re.findall(r"\d+", found)[:3])) / 3

    assert bright["dark"] < 60
    assert bright["light"] > 200


def test_what_others_wrote_is_text(chromium: Browser, page: Path) -> None:
    """No element comes from a text: there is no script, no image, and no picture outside the ones that are drawn."""
    chromium.look(1280, "light")
    chromium.show(page)

    assert chromium.evaluate("document.querySelectorAll('script, img, iframe, object, [onerror]').length") == 0
    assert chromium.evaluate("[...document.querySelectorAll('[style]')].length") == 0


def test_everything_is_printed(chromium: Browser, page: Path) -> None:
    """On paper what was folded is open, and no box scrolls."""
    chromium.look(800, "light", media="print")
    chromium.show(page)
    folded = chromium.evaluate(
        "[...document.querySelectorAll('details > *:not(summary)')]"
        ".filter(one => !one.getBoundingClientRect().height).length"
    )
    chromium.look(800, "light")

    assert folded == 0
