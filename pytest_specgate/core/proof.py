"""Proof that a server runs as its arm declares, before anything is measured on it.

Every engine argument that has a place in the resolved configuration is compared by value. Where the values differ, two
cases are told apart. A *disproof* is a value that vLLM keeps as it was given, or a switch that came out the other way:
the server does not run the arm. *Told otherwise* is a value that vLLM may have put in its own words (the commit of a
branch, a path it fetched something to, the class of a name, a size it rounded): both are shown, and people decide. What
is which was read in `EngineArgs.create_engine_config` and `SpeculativeConfig.__post_init__` of vLLM 0.32.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pytest_specgate.core import counters
from pytest_specgate.core.profile import same
from pytest_specgate.core.resolved import (
    ENUM_NUMBERS,
    ENVIRONMENT,
    KEPT_PATHS,
    LOOSE_PATHS,
    METHOD,
    PLACES,
    REVISIONS,
    SPECULATION,
    agree,
    is_commit,
    leaves,
    place_of,
    read_number,
    spelt,
)
from pytest_specgate.core.stored import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.counters import CounterPage

ProofState: TypeAlias = Literal["proved", "disproved", "told otherwise", "unproved"]

NOT_AS_DECLARED: Final = "arm-not-as-declared"

UNSEEN: Final = (
    "the command, arguments and environment it was started with",
    "the machine it runs on, and what else runs there",
    "its noise from boot to boot, since it was not booted for this window",
)
"""What nobody can prove of a server that was attached instead of started."""

UNNAMED: Final = "that its counters are those of its model, since they name none"
"""What is not proved of an attached server whose series carry no model name."""

_REDIRECTED: Final = f"{ENVIRONMENT}.VLLM_MODEL_REDIRECT_PATH"
_SWITCHES: Final = {"1": True, "true": True, "0": False, "false": False}


@dataclasses.dataclass(frozen=True, slots=True)
class ArgumentProof:
    """What a server's resolved configuration says of one declared argument.

    Attributes:
        argument: its name; dotted for a part of a mapping, ``env.NAME`` for an environment variable.
        declared: its value.
        state: ``proved``, ``disproved`` (resolved to what contradicts it), ``told otherwise`` (resolved to another
            value, which may be the same thing in the server's words), or ``unproved`` (the server does not tell).
        path: where the server tells it; `None` if it does not.
        resolved: what stands there.
    """

    argument: str
    declared: JsonValue
    state: ProofState
    path: str | None = None
    resolved: JsonValue = None

    @property
    def sentence(self) -> str:
        """What is to be said of it; of speculation by the names that it is declared by."""
        declared = f"{_short(self.argument)}={_quoted(self.declared)} is declared"
        if self.path is None:
            return f"{declared}, which this server does not tell"
        joint = "but" if self.state == "disproved" else "and"
        return f"{declared}, {joint} the server resolved {_short(self.path)}={_quoted(self.resolved)}"

    @property
    def contrast(self) -> str:
        """Both values in few words: ``declared revision=main, the server says 5f3c...``."""
        alike = self.path is not None and self.path.rpartition(".")[2] == self.argument.rpartition(".")[2]
        place = "" if alike or self.path is None else f"{self.path}="
        return f"declared {self.argument}={_plainly(self.declared)}, the server says {place}{_plainly(self.resolved)}"


def _short(name: str) -> str:
    return name.removeprefix(f"{SPECULATION}.")


def _quoted(value: JsonValue) -> str:
    """Return a value as Python writes it, cut where it would bury the sentence it stands in."""
    return _cut(repr(value), 200)


def _plainly(value: JsonValue) -> str:
    text = "none" if value is None else value if isinstance(value, str) else json.dumps(value)
    return _cut(text, 100)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} ..."


def untold(why: str) -> str:
    """Name what an attached server hides by not telling its resolved configuration."""
    return f"its resolved configuration ({why}; start it with VLLM_SERVER_DEV_MODE=1)"


def unproved(
    arm: Arm, *, config: Mapping[str, JsonValue] | None, page: CounterPage, model: str, launched: bool = True
) -> Failure | None:
    """Say why a server is not the arm that was declared, `None` if it is.

    Args:
        arm: the declaration, without secrets: its values stand in the message.
        config: what the server resolved, flattened and without secrets; `None` when it does not tell, and only its
            counters are left to go by.
        page: counters before any traffic.
        model: name under which the model should be served.
        launched: whether it was started for this window, under that name; its counters must carry it then.
    """
    if strangers := page.models() - {model}:
        problem: str | None = f"the server counts for model {', '.join(sorted(strangers))}, not for {model}"
    elif launched and not page.models():
        problem = f"the counters of the server name no model, so nobody can say that they are those of {model}"
    elif config is None:
        problem = _uncounted(arm, page)
    else:
        problem = _switched(arm, config, page) or _unresolved(arm, config, page)
    return Failure(reason=NOT_AS_DECLARED, message=f"arm {arm.name}: {problem}") if problem else None


def speculation_of(config: Mapping[str, JsonValue]) -> JsonValue:
    """Return what is kept of the speculation that a server resolved: method, model and k; `None` when it is off.

    Args:
        config: flattened, without secrets.
    """
    names = ("method", "model", "num_speculative_tokens")
    told = {name: config[f"{SPECULATION}.{name}"] for name in names if f"{SPECULATION}.{name}" in config}
    return told or config.get(SPECULATION)


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


def _switched(arm: Arm, config: Mapping[str, JsonValue], page: CounterPage) -> str | None:
    """Say whether speculation is on where it is declared off, or the other way round."""
    whole = config.get(SPECULATION)
    if whole is not None and whole != {}:
        return f"the server says of its speculation only {_quoted(whole)}"
    runs = whole == {} or any(path.startswith(f"{SPECULATION}.") for path in config)
    if arm.speculates:
        return None if runs else "speculation is declared, but the server resolved none"
    if runs:
        return f"no speculation is declared, but the server runs it: {_in_words(config)}"
    return _uncounted(arm, page)


def _in_words(config: Mapping[str, JsonValue]) -> str:
    """Describe the speculation of a flattened configuration: ``ngram, k=4``."""
    method, model, k = (config.get(f"{SPECULATION}.{name}") for name in ("method", "model", "num_speculative_tokens"))
    name = str(method or model or "a method that it does not tell").rstrip("/").rpartition("/")[2]
    return name if k is None else f"{name}, k={k}"


def _unresolved(arm: Arm, config: Mapping[str, JsonValue], page: CounterPage) -> str | None:
    """Compare what an arm declares with what its server resolved, and k with what it counts."""
    if found := proofs_of_state("disproved", arm.args, config, env=arm.env):
        return "; ".join(proof.sentence for proof in found)
    k, positions = config.get(f"{SPECULATION}.num_speculative_tokens"), len(page.speculation)
    if not arm.speculates or k == positions:
        return None
    return f"the server resolved k={k}, but counts {positions} draft positions"


def _uncounted(arm: Arm, page: CounterPage) -> str | None:
    """Compare what an arm declares of its speculation with what the server counts, which is all that is known."""
    counts = any(page.has(name) for name in counters.SPECULATION)
    if not arm.speculates:
        return "no speculation is declared, but the server counts drafts" if counts else None
    if not counts:
        return "speculation is declared, but the server counts no drafts"
    k, positions = arm.draft_horizon, len(page.speculation)
    return None if k in {None, positions} else f"k={k} is declared, but the server counts {positions} draft positions"


def argument_proofs(
    args: Mapping[str, JsonValue], config: Mapping[str, JsonValue], *, env: Mapping[str, str] | None = None
) -> tuple[ArgumentProof, ...]:
    """Compare every declared argument with what a server resolved, those of speculation included.

    Args:
        args: engine arguments of an arm.
        config: flattened.
        env: environment variables of the arm; those of vLLM are compared.
    """
    own = {name: value for name, value in (env or {}).items() if name.startswith("VLLM_")}
    settings = [_proof(name, value, config) for name, value in _declared(args)]
    return (*settings, *(_variable_proof(name, value, config) for name, value in own.items()))


def proofs_of_state(
    state: ProofState,
    args: Mapping[str, JsonValue],
    config: Mapping[str, JsonValue],
    *,
    env: Mapping[str, str] | None = None,
) -> tuple[ArgumentProof, ...]:
    """Return the declared arguments of which a server's configuration says one thing; see `argument_proofs`."""
    return tuple(proof for proof in argument_proofs(args, config, env=env) if proof.state == state)


def _declared(args: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Yield arguments by their plain name, mappings in parts, ``no_x=True`` as ``x=False``.

    What is `None` declares nothing, nor does the model of n-gram look-up, which loads none.
    """
    for given, value in args.items():
        name = given.replace("-", "_")
        if isinstance(value, dict):
            parts = leaves(name, value)
            if str(parts.get(METHOD)).strip("[]").startswith("ngram"):
                parts.pop(f"{SPECULATION}.model", None)
            yield from ((path, part) for path, part in parts.items() if part is not None)
        elif name.startswith("no_") and isinstance(value, bool):
            yield name.removeprefix("no_"), not value
        elif value is not None:
            yield name, value


def _proof(argument: str, declared: JsonValue, config: Mapping[str, JsonValue]) -> ArgumentProof:
    path = place_of(argument, config)
    if path is None or path not in config:
        return _proof_by_nothing(argument, declared, path, config)
    resolved = config[path]
    if agree(path, declared, resolved) or _spread(path, declared, config):
        return ArgumentProof(argument, declared, "proved", path, resolved)
    state: ProofState = "disproved" if _contradicts(argument, path, declared, config) else "told otherwise"
    return ArgumentProof(argument, declared, state, path, resolved)


def _proof_by_nothing(
    argument: str, declared: JsonValue, path: str | None, config: Mapping[str, JsonValue]
) -> ArgumentProof:
    """Return the proof of an argument that has no value there; `None` for a whole mapping contradicts its parts."""
    parent = path
    while parent and parent not in config:
        parent = parent.rpartition(".")[0]
    if not parent or config[parent] is not None:
        return ArgumentProof(argument, declared, "unproved")
    contradicted = "." in argument and argument.partition(".")[0] not in LOOSE_PATHS
    return ArgumentProof(argument, declared, "disproved" if contradicted else "told otherwise", parent)


def _contradicts(argument: str, path: str, declared: JsonValue, config: Mapping[str, JsonValue]) -> bool:
    """Whether another value cannot be what was declared, in whatever words."""
    head, resolved = argument.partition(".")[0], config[path]
    if head == SPECULATION:
        # The name of a backend becomes the path of its class.
        return not (path.endswith(".attention_backend") and isinstance(resolved, str))
    if path in ENUM_NUMBERS or head in LOOSE_PATHS:
        return path in ENUM_NUMBERS
    if isinstance(declared, bool) and isinstance(resolved, bool):
        return True
    return argument in KEPT_PATHS and not _reworded(path, declared, config)


def _reworded(path: str, declared: JsonValue, config: Mapping[str, JsonValue]) -> bool:
    """Whether vLLM may have replaced the value of an argument that it else keeps as given.

    It pins a branch or a tag to its commit, fetches what has an address, follows a table of redirected models, and has
    no executor in the process of the server (``uni``) on a CPU.
    """
    resolved = config[path]
    if path in REVISIONS:
        return is_commit(resolved) and not is_commit(declared)
    if path in PLACES:
        return "://" in str(declared) or bool(config.get(_REDIRECTED))
    return path == "parallel_config.distributed_executor_backend" and (declared, resolved) == ("uni", "mp")


def _spread(path: str, declared: JsonValue, config: Mapping[str, JsonValue]) -> bool:
    """Whether a synthetic acceptance length stands there as the rates by position that vLLM makes of it."""
    rates = config.get(f"{SPECULATION}.synthetic_acceptance_rates")
    if path != f"{SPECULATION}.synthetic_acceptance_length" or not isinstance(rates, list):
        return False
    told = [rate for rate in rates if isinstance(rate, int | float)]
    return isinstance(declared, int | float) and math.isclose(1 + math.fsum(told), declared, abs_tol=1e-6)


def _variable_proof(name: str, declared: str, config: Mapping[str, JsonValue]) -> ArgumentProof:
    """Compare an environment variable; only a switch or a number that came out otherwise is a disproof.

    A text may have been read in some way: vLLM completes paths, and replaces ``fork`` where that would fail.
    """
    argument, path = f"env.{name}", f"{ENVIRONMENT}.{name}"
    if path not in config:
        return ArgumentProof(argument, declared, "unproved")
    resolved = config[path]
    read = _read(declared, resolved)
    state: ProofState = "told otherwise" if isinstance(read, str | list) else "disproved"
    return ArgumentProof(argument, declared, "proved" if same(read, resolved) else state, path, resolved)


def _read(declared: str, resolved: JsonValue) -> JsonValue:
    """Read the text of a variable as the kind of value that the server has of it."""
    if isinstance(resolved, bool):
        return _SWITCHES.get(declared.strip().lower(), declared)
    if isinstance(resolved, int | float):
        return read_number(declared)
    if isinstance(resolved, list):
        return [item.strip() for item in declared.split(",")]
    return resolved if isinstance(resolved, str) and spelt(resolved) == spelt(declared) else declared
