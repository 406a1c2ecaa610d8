"""A real browser for tests: headless Chromium, driven over its debugging pipe with the standard library alone."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Theme: TypeAlias = Literal["light", "dark"]

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")

_FLAGS: Final = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-sandbox",
)


class BrowserError(Exception):
    """The browser refused a command, or left."""


def installed() -> str | None:
    """Return the path of a browser, `None` where there is none; the environment's CHROMIUM wins."""
    names = (os.environ.get("CHROMIUM"), *NAMES)
    return next((found for name in names if name and (found := shutil.which(name))), None)


class Browser:
    """A running browser with one page.

    Attributes:
        events: what the page and its browser told besides answers, oldest first.
    """

    def __init__(self, process: subprocess.Popen[bytes], *, requests: int, answers: int) -> None:
        self.events: list[dict[str, Any]] = []
        self._process, self._requests, self._answers = process, requests, answers
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._unread = b""

    def open_tab(self) -> None:
        """Open an empty page, and listen to all that it tells."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Run a command of the debugging protocol, and return its result.

        Raises:
            BrowserError: the browser refused it, or left.
        """
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._requests, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != number:
            self.events.append(answer)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            chunk = os.read(self._answers, 1 << 16)
            if not chunk:
                raise BrowserError(f"the browser left with exit status {self._process.wait(10)}")
            self._unread += chunk
        message, _, self._unread = self._unread.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def look(self, width: int, theme: Theme, *, media: str = "") -> None:
        """Choose the width of the screen, in CSS pixels, and what the reader prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def show(self, page: Path) -> None:
        """Load a file, and wait until it is whole."""
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page.

        Raises:
            BrowserError: it threw.
        """
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise BrowserError(found["exceptionDetails"]["exception"].get("description", script))
        return found["result"].get("value")

    def screenshot(self, to: Path, *, whole: bool = True) -> None:
        """Write what the page looks like, down to its end, as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1} if whole else None
        options = {} if clip is None else {"clip": clip, "captureBeyondViewport": True}
        to.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", **options)["data"]))

    def complaints(self) -> list[str]:
        """Return errors and warnings of the console, and exceptions, since the page was loaded."""
        found = []
        for event in self.events:
            method, told = event.get("method"), event.get("params", {})
            if method == "Log.entryAdded":
                found.append(told["entry"]["text"])
            elif method == "Runtime.consoleAPICalled":
                found.append(json.dumps(told["args"]))
            elif method == "Runtime.exceptionThrown":
                found.append(told["exceptionDetails"]["text"])
        return found

    def fetched(self) -> list[str]:
        """Return the addresses of everything that was asked for since the page was loaded, the page included."""
        sent = (event for event in self.events if event.get("method") == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]


@contextlib.contextmanager
def browser(binary: str, profile: Path) -> Iterator[Browser]:
    """Start a browser with an empty profile, and end it.

    Args:
        binary: to start.
        profile: folder of its own.
    """
    ours, theirs = os.pipe(), os.pipe()
    # The browser reads commands from 3 and writes answers to 4, whatever numbers these have here.
    start = f'exec "$@" 3</proc/self/fd/{ours[0]} 4>/proc/self/fd/{theirs[1]}'
    process = subprocess.Popen(
        ["/bin/sh", "-c", start, "sh", binary, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
        pass_fds=(ours[0], theirs[1]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(ours[0])
    os.close(theirs[1])
    try:
        one = Browser(process, requests=ours[1], answers=theirs[0])
        one.open_tab()
        yield one
    finally:
        os.close(ours[1])
        process.terminate()
        process.wait(20)
        os.close(theirs[0])
