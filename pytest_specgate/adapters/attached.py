"""Servers that run elsewhere: measured where they stand, and neither started nor ended."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING, Final

import httpx

from pytest_specgate.adapters.asking import NO_ANSWER, Asker
from pytest_specgate.adapters.models import served_name
from pytest_specgate.adapters.processes import wait_until
from pytest_specgate.core.errors import ServerDiedError, ServerStartError, UsageError, nearest
from pytest_specgate.core.redaction import redacted_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from pydantic import JsonValue

    from pytest_specgate.adapters.server import VllmEngine
    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.ports import Server

_ASK_S: Final = 5.0
_PAUSE_S: Final = 0.2


@dataclasses.dataclass(frozen=True, slots=True)
class AttachedServer:
    """Port `Server`: a server that somebody else started."""

    arm: str
    url: str
    model: str

    @property
    def attached(self) -> bool:
        """Yes: its process is not ours."""
        return True

    @property
    def command(self) -> str:
        """No command is known; what a user typed to have it measured stands in its place."""
        return f"--specgate-attach={self.arm}={self.url}"

    @property
    def boot_s(self) -> None:
        """Nobody saw it start."""
        return

    def ensure_alive(self, *, wait_s: float = 0.0) -> None:
        """Raise `ServerDiedError` if it does not answer, or stops answering within `wait_s` seconds."""
        deadline = time.monotonic() + wait_s
        while (silence := self._silence()) is None:
            if time.monotonic() >= deadline:
                return
            wait_until(deadline, pause_s=_PAUSE_S)
        raise ServerDiedError(f"the attached server at {self.url} no longer answers: {silence}")

    def _silence(self) -> str | None:
        """Return why it does not answer, `None` when it does."""
        try:
            answer = httpx.get(f"{self.url}/health", timeout=_ASK_S, trust_env=False)
        except httpx.HTTPError as error:
            return f"{type(error).__name__} {error}".strip()
        return None if answer.is_success else f"/health answered HTTP {answer.status_code}"

    def log_tail(self) -> str:
        """Return nothing: its log is elsewhere."""
        return ""

    def startup_log(self) -> str:
        """Return nothing: its log is elsewhere."""
        return ""

    def process_ids(self) -> frozenset[int]:
        """Return none: its processes are not ours, and may be on another machine."""
        return frozenset()

    def cleaned(self, text: str) -> str:
        """Return what the server said without secrets that show by their form: others are not known of it."""
        return redacted_text(text)


class AttachingEngine:
    """Port `Engine`: arms that are attached are taken where they run, all others are launched.

    Args:
        addresses: base address by name of the arm.
        launcher: starts the others.
        wait_s: how long an attached server may take to answer.
        before: raises what stops measuring before each server.
    """

    def __init__(
        self,
        addresses: Mapping[str, str],
        *,
        launcher: VllmEngine,
        wait_s: float,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self._addresses = addresses
        self._launcher = launcher
        self._wait_s = wait_s
        self._before = before

    def intent(self, arm: Arm) -> str:
        """Say whether an arm's server is started, or where it runs."""
        url = self._addresses.get(arm.name)
        return self._launcher.intent(arm) if url is None else f"attached at {url}"

    def facts(self, arm: Arm) -> dict[str, JsonValue]:
        """Return what an attached server tells of its install, which is its version."""
        url = self._addresses.get(arm.name)
        if url is None:
            return self._launcher.facts(arm)
        return {"attached": url, "version": _version(url)}

    def check(self, arm: Arm) -> None:
        """Find out what would stop an arm from being launched; an attached one is asked when its turn comes.

        Raises:
            UsageError: see `VllmEngine.check`.
        """
        if arm.name not in self._addresses:
            self._launcher.check(arm)

    def check_pair(self, pair: ArmPair) -> None:
        """Refuse a pair that cannot be what it claims.

        Raises:
            UsageError: see `VllmEngine.check_pair`.
        """
        if not any(arm.name in self._addresses for arm in pair.arms):
            self._launcher.check_pair(pair)

    def changed_command(self, arm: Arm) -> str:
        """Return what the project makes of the command of an arm; empty for an attached one, which is not started."""
        return "" if arm.name in self._addresses else self._launcher.changed_command(arm)

    @contextlib.contextmanager
    def start(self, arm: Arm) -> Iterator[Server]:
        """Use an arm's server: an attached one must answer, another is launched, and stopped at the end.

        Raises:
            ServerStartError: it does not answer, serves another model, or could not be launched.
        """
        self._before()
        url = self._addresses.get(arm.name)
        if url is None:
            with self._launcher.start(arm) as server:
                yield server
        else:
            yield self._attached(arm, url)

    def _attached(self, arm: Arm, url: str) -> AttachedServer:
        whose = f"the attached server at {url}"
        asker = Asker(url, whose=whose, gone=lambda: False, cleaned=redacted_text)
        try:
            names = asker.models()
        except (*NO_ANSWER, ValueError, KeyError, TypeError) as error:
            raise ServerStartError(f"{whose} does not list its models: {type(error).__name__} {error}") from error
        known = [name for name in (arm.model, served_name(arm.model)) if name in names]
        if not known:
            found = ", ".join(names) or "no model"
            raise ServerStartError(f"{whose} serves {found}, not {arm.model}")
        if (refused := asker.refusal(known[0], deadline=time.monotonic() + self._wait_s)) is not None:
            raise ServerStartError(f"{whose} cannot be used: {refused}")
        return AttachedServer(arm.name, url, known[0])


def check_addresses(addresses: Mapping[str, str], *, arms: Collection[str], say: Callable[[str], None]) -> None:
    """Refuse addresses of arms that nobody declares, and one address for two arms.

    Args:
        addresses: by name of the arm.
        arms: names of the arms of the collected gates.
        say: is told of names that only gates that were not collected may have.

    Raises:
        UsageError: no collected gate has any of the arms, or two arms would be one server.
    """
    strangers = [name for name in addresses if name not in arms]
    for name in strangers:
        text = f"--specgate-attach names arm {name!r}, which no collected gate has: there are {', '.join(sorted(arms))}"
        if len(strangers) == len(addresses) and arms:
            raise UsageError(f"{text}{nearest(name, arms)}")
        say(text)
    for url in addresses.values():
        same = [name for name, other in addresses.items() if other == url]
        if len(same) > 1:
            raise UsageError(f"--specgate-attach gives {url} for {' and '.join(same)}: one server cannot be two arms")


def _version(url: str) -> str | None:
    try:
        told = httpx.get(f"{url}/version", timeout=_ASK_S, trust_env=False).json().get("version")
    except (httpx.HTTPError, ValueError, AttributeError):
        return None
    return told if isinstance(told, str) else None
