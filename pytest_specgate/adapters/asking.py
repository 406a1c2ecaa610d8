"""Questions to a server that may die, hang or never answer while it is asked."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import select
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pytest_specgate.core.errors import ServerStartError
from pytest_specgate.core.profile import ENDPOINT

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue

ASK_S: Final = 5.0
_LOOK_S: Final = 0.2
_MODELS: Final = "/v1/models"
_PASSING: Final = frozenset({408, 425, 429})
"""Refusals that time may cure: time-out, too early, too many requests."""

_NO_KEY: Final = frozenset({401, 403})
NO_ANSWER: Final = (OSError, http.client.HTTPException)
"""What `Asker.ask` raises where there is no answer."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered."""

    status: int
    text: str

    @property
    def good(self) -> bool:
        """Whether it is what was asked for."""
        return self.status in range(200, 300)

    @property
    def final(self) -> bool:
        """Whether it is a refusal that no waiting cures."""
        return self.status in range(400, 500) and self.status not in _PASSING


class Asker:
    """Asks one server, without proxies and keys.

    Args:
        url: base address of the server.
        whose: begins sentences about it, as "its server".
        gone: is asked again and again while an answer is waited for; once it says yes, there is none.
        cleaned: takes secrets out of what the server says.
        silence_s: how long it may take to connect, and to go on with an answer that has begun.
    """

    def __init__(
        self,
        url: str,
        *,
        whose: str,
        gone: Callable[[], bool],
        cleaned: Callable[[str], str],
        silence_s: float = ASK_S,
    ) -> None:
        self._address = urlsplit(url)
        self._silence_s = silence_s
        self._whose = whose
        self._gone = gone
        self._cleaned = cleaned

    def models(self) -> list[str]:
        """Return the models that the server lists; none while it answers with an error that may pass.

        Raises:
            ServerStartError: it refuses to tell, for good.
            OSError, http.client.HTTPException: it does not answer.
            ValueError, KeyError, TypeError: what it answers is no list of models.
        """
        answer = self.ask(_MODELS)
        if answer.final:
            raise self._refused("to list its models", answer)
        return [str(entry["id"]) for entry in json.loads(answer.text)["data"]] if answer.good else []

    def refusal(self, model: str, *, deadline: float) -> str | None:
        """Ask for one token; return why it did not come, `None` when it did.

        Raises:
            ServerStartError: it was refused for good.
        """
        body: JsonValue = {"model": model, "prompt": "Hello", "max_tokens": 1, "temperature": 0}
        try:
            answer = self.ask(ENDPOINT, body=body, limit_s=max(ASK_S, deadline - time.monotonic()))
        except NO_ANSWER as error:
            return f"a completion ended with {type(error).__name__}"
        if answer.good:
            return None
        if answer.final:
            raise self._refused("a completion", answer)
        return f"a completion was answered with {self._said(answer)}"

    def _refused(self, what: str, answer: Answer) -> ServerStartError:
        remedy = " (requests carry no key: leave out --api-key, and unset VLLM_API_KEY)"
        why = f"{self._said(answer)}{remedy if answer.status in _NO_KEY else ''}"
        return ServerStartError(f"{self._whose} refuses {what} with {why}")

    def _said(self, answer: Answer) -> str:
        return f"HTTP {answer.status}: {self._cleaned(answer.text)[:200]}"

    def ask(self, path: str, *, body: JsonValue = None, limit_s: float = ASK_S) -> Answer:
        """Ask for a page, or post a body.

        Args:
            path: of the page.
            body: sent as JSON; `None` for a plain question.
            limit_s: longest wait for the answer to begin.

        Raises:
            OSError, http.client.HTTPException: there is none: no connection, a broken one, silence, no HTTP.
        """
        connection = http.client.HTTPConnection(self._address.netloc, timeout=self._silence_s)
        with contextlib.closing(connection):
            if body is None:
                connection.request("GET", path)
            else:
                connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            self._await(connection, limit_s)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read().decode("utf-8", "replace"))

    def _await(self, connection: http.client.HTTPConnection, limit_s: float) -> None:
        """Wait until the answer begins: whoever else holds the sockets of a dead server keeps them open, in silence."""
        deadline_s = time.monotonic() + limit_s
        poll = select.poll()
        poll.register(connection.sock, select.POLLIN)
        while not poll.poll(min(_LOOK_S, limit_s) * 1e3):
            if self._gone():
                raise ConnectionAbortedError("the server is gone")
            if time.monotonic() >= deadline_s:
                raise TimeoutError(f"the server was silent for {limit_s:g} s")
