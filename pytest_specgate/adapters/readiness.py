"""Whether a server can be used: its model is listed, and it has answered a completion."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import httpx

from pytest_specgate.adapters.processes import FIRST_ERROR, wait_until
from pytest_specgate.core.errors import ServerStartError
from pytest_specgate.core.profile import ENDPOINT
from pytest_specgate.core.records import redacted_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.adapters.processes import Child

_POLL_S: Final = 0.1
_NOTE_S: Final = 1.0
_ASK_S: Final = 5.0
_PASSING: Final = frozenset({408, 425, 429})
"""Refusals that time may cure: time-out, too early, too many requests."""


def wait_ready(child: Child, *, url: str, model: str, limit_s: float, note: Callable[[], object]) -> None:
    """Return when the model is listed and has answered one tiny completion.

    Args:
        child: the server.
        url: its base address.
        model: the name that it has to list.
        limit_s: how long this may take.
        note: called now and then meanwhile, and once the server is ready.

    Raises:
        ServerStartError: the child left, serves another model, refuses completions, or was not ready in time.
    """
    deadline = time.monotonic() + limit_s
    note_at = 0.0
    with httpx.Client(base_url=url, trust_env=False, timeout=_ASK_S) as client:
        while (unready := _unready(client, model, deadline=deadline)) is not None:
            code = child.exit_code()
            if code is not None:
                tail = child.log_tail()
                message = f"its server left while starting, with exit code {code}{last_words(tail)}"
                raise ServerStartError(message, exit_code=code, log_tail=tail)
            if not wait_until(deadline, pause_s=_POLL_S):
                message = f"its server was not ready within {limit_s:g} s, {unready} (raise --specgate-start-limit)"
                raise ServerStartError(message, log_tail=child.log_tail())
            if time.monotonic() >= note_at:
                # A boot can be killed, too.
                note()
                note_at = time.monotonic() + _NOTE_S
    note()


def _unready(client: httpx.Client, model: str, *, deadline: float) -> str | None:
    """Return why a server cannot be used yet, `None` once it can."""
    try:
        names = served_models(client)
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return "it does not list its models"
    if names and model not in names:
        raise ServerStartError(f"its server serves {', '.join(names)}, not {model}")
    return refusal(client, model, deadline=deadline) if names else "it lists no model"


def served_models(client: httpx.Client) -> list[str]:
    """Return the models that a server lists; none while it answers with an error.

    Raises:
        httpx.HTTPError: it does not answer.
        ValueError, KeyError, TypeError: what it answers is no list of models.
    """
    answer = client.get("/v1/models")
    return [str(entry["id"]) for entry in answer.json()["data"]] if answer.is_success else []


def refusal(client: httpx.Client, model: str, *, deadline: float) -> str | None:
    """Ask for one token; return why it did not come, `None` when it did.

    Raises:
        ServerStartError: it was refused for good.
    """
    body = {"model": model, "prompt": "Hello", "max_tokens": 1, "temperature": 0}
    try:
        answer = client.post(ENDPOINT, json=body, timeout=max(_ASK_S, deadline - time.monotonic()))
    except httpx.HTTPError as error:
        return f"a completion ended with {type(error).__name__}"
    if answer.is_success:
        return None
    said = f"HTTP {answer.status_code}: {redacted_text(answer.text)[:200]}"
    if answer.is_client_error and answer.status_code not in _PASSING:
        raise ServerStartError(f"its server refuses a completion with {said}")
    return f"a completion was answered with {said}"


def last_words(tail: str) -> str:
    """Return the last line of a log, or the first error where that line only points to it, as the end of a sentence."""
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    if not lines:
        return ", having printed nothing"
    pointed = "root cause above" in lines[-1] and lines[0].startswith(FIRST_ERROR)
    return f": {lines[0].removeprefix(FIRST_ERROR)[:300] if pointed else lines[-1][:200]}"
