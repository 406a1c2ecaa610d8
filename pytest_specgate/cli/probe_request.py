"""What `specgate probe` is asked to measure, read from its arguments and refused where it cannot be."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pytest_specgate.claims import at_least
from pytest_specgate.core.addresses import address_problem, shown_address
from pytest_specgate.core.arms import MAXIMUM_ROUNDS, Arm
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.metrics import is_metric, metric
from pytest_specgate.core.placing import placed
from pytest_specgate.core.probes import AcceptanceProbe
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.prompt_files import PromptFile

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.placing import EveryLevel

INPUT_TOKENS: Final = 512
BOOTS: Final = 2
_FEWEST_OUTPUT_TOKENS: Final = 2
_K: Final = "num_speculative_tokens"
_SPECULATION: Final = "speculative_config"
_PER_REQUEST: Final = "per_request_spec_decode_metrics"


def probe_of(arguments: argparse.Namespace) -> AcceptanceProbe:
    """Return what is to be measured.

    Raises:
        UsageError: something of it cannot be.
    """
    boots = arguments.boots or (1 if arguments.attach else BOOTS)
    if arguments.boots is not None and arguments.boots < 1:
        raise UsageError(f"--boots={arguments.boots} measures nothing: write 1 or more")
    if arguments.attach and boots > 1:
        raise UsageError(f"--boots={boots}: a server that is attached is not started, so it has one boot: leave it out")
    if boots > MAXIMUM_ROUNDS:
        raise UsageError(f"--boots={boots} is too many: write {MAXIMUM_ROUNDS} or fewer")
    arm = _arm(arguments)
    if arguments.attach and (problem := address_problem(arguments.attach.rstrip("/"), whose=arm.name)):
        raise UsageError(f"--attach {shown_address(arguments.attach)}: {problem}")
    return AcceptanceProbe(arm=arm, profile=_load(arguments), temperatures=_temperatures(arguments), boots=boots)


def _temperatures(arguments: argparse.Namespace) -> tuple[float, ...]:
    found: list[float] = []
    for temperature in arguments.temperature:
        if not 0 <= temperature < math.inf:
            raise UsageError(f"--temperature: a temperature of {temperature:g} cannot be sent: write 0 or more")
        if temperature in found:
            raise UsageError(f"--temperature: temperature {temperature:g} is there twice: give it once")
        found.append(temperature)
    return tuple(found)


def _arm(arguments: argparse.Namespace) -> Arm:
    speculation = _speculation(arguments)
    args = _object("--engine-args", arguments.engine_args, example='{"max_model_len": 4096}')
    names = {name.replace("-", "_") for name in args}
    if _SPECULATION in names:
        raise UsageError(f"--engine-args has a {_SPECULATION}: give it as --speculative-config")
    # What an attached server tells was decided when somebody started it.
    asked = not (arguments.no_per_request or arguments.attach or _PER_REQUEST in names)
    args |= {_SPECULATION: speculation, **({_PER_REQUEST: "detailed"} if asked else {})}
    env = dict(_pairs("--env", arguments.env, example="CUDA_VISIBLE_DEVICES=0"))
    return Arm(f"k{speculation[_K]}", model=arguments.model, args=args, env=env)


def _speculation(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the speculative configuration, with its draft horizon by the name that vLLM has for it."""
    example = '{"method": "ngram", "num_speculative_tokens": 4}'
    config = _object("--speculative-config", arguments.speculative_config, example=example)
    spellings = [name for name in config if name.replace("-", "_") == _K]
    told = [config.pop(name) for name in spellings]
    if arguments.k is not None:
        told = [arguments.k]
    if not told:
        raise UsageError(f"nothing tells the draft horizon: give --k, or {_K} in --speculative-config")
    if len(told) > 1:
        raise UsageError(f"--speculative-config has {' and '.join(spellings)}: give the draft horizon once")
    k = told[0]
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise UsageError(f"a draft horizon of {k!r} is none: write a whole number of 1 or more")
    return {**config, _K: k}


def _load(arguments: argparse.Namespace) -> RequestProfile:
    prompts = _prompts(arguments.prompts)
    own = arguments.input_tokens
    if own is not None and own < 1:
        raise UsageError(f"--input-tokens {own}: a prompt has at least one token: write 1 or more")
    if arguments.output_tokens < _FEWEST_OUTPUT_TOKENS:
        why = "the first token of an answer is none of a draft"
        raise UsageError(f"--output-tokens {arguments.output_tokens}: {why}: write {_FEWEST_OUTPUT_TOKENS} or more")
    requests = _requests(arguments.requests or ["1=16"])
    try:
        return RequestProfile(
            input_tokens=INPUT_TOKENS if own is None and isinstance(prompts, str) else own,
            output_tokens=arguments.output_tokens,
            requests=requests,
            prompts=prompts,
        )
    except UsageError as error:
        # What is left to be wrong are levels and their counts.
        raise UsageError(f"--requests: {str(error).removeprefix('RequestProfile: ')}") from error


def _prompts(source: str) -> Literal["prose", "code"] | PromptFile:
    match source:
        case "prose" | "code":
            return source
        case "random":
            raise UsageError(
                "--prompts random: whether random tokens are accepted tells nothing: name prose, code or a file"
            )
    path = Path(source)
    if not path.is_file():
        raise UsageError(f"--prompts {source}: there is no such file, and it is neither prose nor code")
    # Whole, since pytest looks for it from where the gate file lies.
    return PromptFile(str(path.absolute()))


def _requests(texts: Sequence[str]) -> dict[Level, int]:
    found: dict[Level, int] = {}
    for text in texts:
        load, equals, count = text.rpartition("=")
        if not equals or not load or not count.isdecimal():
            raise UsageError(f"--requests {text} is no load level with its number of requests: write 8=32 or 4/s=200")
        level: Level = int(load) if load.isdecimal() else load
        if "=" in load:
            raise UsageError(
                f"--requests {text} has a temperature of its own: every level is measured at each of --temperature"
            )
        if level in found:
            raise UsageError(f"--requests has {load} twice: give each load level once")
        found[level] = int(count)
    return found


def _pairs(flag: str, texts: Sequence[str], *, example: str) -> list[tuple[str, str]]:
    """Read names with their values, each name once.

    Raises:
        UsageError: one has no value, or is there twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            # Not quoted: what was meant for a secret may have been typed here.
            raise UsageError(f"{flag} takes names with their values, as {example}; one has no '='")
        if name in found:
            raise UsageError(f"{flag} has {name} twice: give it once")
        found[name] = value
    return list(found.items())


def _object(flag: str, text: str, *, example: str) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        UsageError: it is none.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{flag} is no JSON ({error}): write an object, as '{example}'") from error
    if not isinstance(found, dict):
        raise UsageError(f"{flag} is a JSON object, as '{example}'")
    return found


def limits_of(arguments: argparse.Namespace, probe: AcceptanceProbe) -> list[tuple[str, str]]:
    """Return the limits of a probe: metric and least value, as a gate file has them.

    Raises:
        UsageError: one can never be judged.
    """
    limits = _pairs("--at-least", arguments.at_least, example="acceptance_length=2.5")
    if limits:
        claims = [_claim(name, limit) for name, limit in limits]
        Gate("probe", probe.pair, placed(claims, probe.pair.profile)).check()
    return limits


def _claim(name: str, limit: str) -> EveryLevel:
    if is_metric(name) and metric(name).better == "lower":
        cure = f"claim at_most({name!r}, ...) in the gate file that is kept"
        raise UsageError(f"--at-least {name}={limit}: less of it is better: {cure}")
    try:
        return at_least(name, limit)
    except UsageError as error:
        raise UsageError(f"--at-least {name}={limit}: {error}") from error
