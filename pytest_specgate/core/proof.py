"""Proof that a server runs as its arm declares, before anything is measured on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_specgate.core.profile import same
from pytest_specgate.core.records import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.counters import CounterPage

NOT_AS_DECLARED: Final = "arm-not-as-declared"

UNSEEN: Final = (
    "the command, arguments and environment it was started with",
    "the machine it runs on, and what else runs there",
    "its noise from boot to boot, since it was not booted for this window",
)
"""What nobody can prove of a server that was attached instead of started."""


def untold(why: str) -> str:
    """Name what an attached server hides by not telling its resolved configuration."""
    return f"its resolved configuration ({why}; start it with VLLM_SERVER_DEV_MODE=1)"


def unproved(arm: Arm, *, config: Mapping[str, JsonValue] | None, page: CounterPage, model: str) -> Failure | None:
    """Say why a server is not the arm that was declared, `None` if it is.

    Args:
        arm: the declaration.
        config: what the server resolved, from ``/server_info``; `None` when it does not tell, and only its counters
            are left to go by.
        page: counters before any traffic.
        model: name under which the model should be served.
    """
    if strangers := page.models() - {model}:
        problem: str | None = f"the server counts for model {', '.join(sorted(strangers))}, not for {model}"
    elif config is None:
        problem = _uncounted(arm, positions=len(page.speculation))
    else:
        problem = _unresolved(arm, config.get("speculative_config"), page)
    return Failure(reason=NOT_AS_DECLARED, message=f"arm {arm.name}: {problem}") if problem else None


def other_build(arm: Arm, facts: Mapping[str, JsonValue], *, version: str | None) -> Failure | None:
    """Say why a server does not run the install that its arm names, `None` if its version is the install's.

    Args:
        arm: the declaration.
        facts: about the install.
        version: as the running server tells it; `None` where it does not.
    """
    installed = facts.get("version")
    if not isinstance(installed, str) or version is None or facts.get("development"):
        return None
    if _release(installed) == _release(version):
        return None
    text = f"arm {arm.name}: the server says that it is vLLM {version}, but {installed} is installed for it"
    return Failure(reason=NOT_AS_DECLARED, message=text)


def _release(version: str) -> str:
    """Return a version without its local part, which packages leave out of their code."""
    return version.partition("+")[0]


def _unresolved(arm: Arm, resolved: JsonValue, page: CounterPage) -> str | None:
    """Compare what an arm declares of its speculation with what the server resolved; `None` means that it is off."""
    if not isinstance(resolved, dict | None):
        return f"the server says of its speculation only {resolved!r}"
    if arm.speculates:
        return _speculation_unproved(arm, resolved, positions=len(page.speculation))
    if resolved is None and not page.speculation:
        return None
    return f"no speculation is declared, but the server runs it: {page.speculation if resolved is None else resolved}"


def _uncounted(arm: Arm, *, positions: int) -> str | None:
    """Compare what an arm declares of its speculation with what the server counts, which is all that is known."""
    if not arm.speculates:
        return "no speculation is declared, but the server counts drafts" if positions else None
    if not positions:
        return "speculation is declared, but the server counts no drafts"
    k = arm.draft_horizon
    return None if k in {None, positions} else f"k={k} is declared, but the server counts {positions} draft positions"


def _speculation_unproved(arm: Arm, resolved: dict[str, JsonValue] | None, *, positions: int) -> str | None:
    """Compare what an arm declares of its speculation with what the server resolved and counts."""
    declared = arm.args["speculative_config"]
    if resolved is None:
        return "speculation is declared, but the server resolved none"
    for name, value in declared.items() if isinstance(declared, dict) else ():
        # A path to a draft model may be spelt anew; everything else is kept as given.
        if name != "model" and name in resolved and not same(_plain(name, value), _plain(name, resolved[name])):
            return f"{name}={value} is declared, but the server resolved {name}={resolved[name]}"
    k = resolved.get("num_speculative_tokens")
    return None if k == positions else f"the server resolved k={k}, but counts {positions} draft positions"


def _plain(name: str, value: JsonValue) -> JsonValue:
    """Return a value under the one name that vLLM keeps of several: ``[ngram]``, ``deepseek_mtp``."""
    if name != "method" or not isinstance(value, str):
        return value
    return "mtp" if value.endswith("mtp") else value.strip("[]")
