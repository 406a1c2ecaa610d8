"""The engine configuration that a server resolved, as ``/server_info?config_format=json`` tells it.

What an arm declares is proved by it: every engine argument that has a place there is compared by value.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pytest_specgate.core.profile import same

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import JsonValue

ENVIRONMENT: Final = "vllm_env"
"""First part of the paths of the engine's environment variables."""

SPECULATION: Final = "speculative_config"
"""First part of the paths of speculation."""

ProofState: TypeAlias = Literal["proved", "disproved", "unproved"]

_UNDER: Final = {
    "model_config": (
        "dtype enforce_eager max_model_len quantization seed trust_remote_code max_logprobs logprobs_mode "
        "disable_sliding_window enable_prompt_embeds skip_tokenizer_init tokenizer_mode use_fp64_gumbel"
    ),
    "cache_config": (
        "block_size enable_prefix_caching gpu_memory_utilization kv_cache_memory_bytes kv_offloading_size "
        "kv_sharing_fast_prefill num_gpu_blocks_override prefix_caching_hash_algo"
    ),
    "parallel_config": (
        "tensor_parallel_size pipeline_parallel_size data_parallel_size decode_context_parallel_size "
        "prefill_context_parallel_size disable_custom_all_reduce enable_dbo enable_eplb enable_expert_parallel"
    ),
    "scheduler_config": (
        "async_scheduling disable_hybrid_kv_cache_manager enable_chunked_prefill long_prefill_token_threshold "
        "max_num_batched_tokens max_num_scheduled_tokens max_num_seqs stream_interval"
    ),
    "load_config": "load_format",
    "lora_config": "max_loras max_lora_rank",
}

_PATHS: Final = {
    **{name: f"{part}.{name}" for part, names in _UNDER.items() for name in names.split()},
    "cpu_offload_gb": "offload_config.uva.cpu_offload_gb",
    "kv_cache_dtype": "cache_config.cache_dtype",
    "linear_backend": "kernel_config.linear_backend",
    "moe_backend": "kernel_config.moe_backend",
    "optimization_level": "optimization_level",
    "performance_mode": "performance_mode",
    "scheduling_policy": "scheduler_config.policy",
}
"""Where vLLM puts an argument and keeps its value as given (`EngineArgs.create_engine_config`)."""

_LOOSE_PATHS: Final = {
    "attention_backend": "attention_config.backend",
    "attention_config": "attention_config",
    "compilation_config": "compilation_config",
    "cudagraph_capture_sizes": "compilation_config.cudagraph_capture_sizes",
    "hf_overrides": "model_config.hf_overrides",
    "kernel_config": "kernel_config",
    "max_cudagraph_capture_size": "compilation_config.max_cudagraph_capture_size",
    "override_generation_config": "model_config.override_generation_config",
}
"""Where vLLM may keep an argument in other words: an equal value proves it, another one disproves nothing."""

_ENUM_NUMBERS: Final[dict[str, dict[str, JsonValue]]] = {
    "compilation_config.mode": {"NONE": 0, "STOCK_TORCH_COMPILE": 1, "DYNAMO_TRACE_ONCE": 2, "VLLM_COMPILE": 3},
    "compilation_config.cudagraph_mode": {
        "NONE": 0,
        "PIECEWISE": 1,
        "FULL": 2,
        "FULL_DECODE_ONLY": [2, 0],
        "FULL_AND_PIECEWISE": [2, 1],
    },
}
"""Names that a user writes, where the page has numbers."""

_DTYPES: Final = {"half": "float16", "float": "float32"}
_READABLE: Final = re.compile(r"(?P<number>-?\d+(?:\.\d+)?)(?P<unit>[kKmMgGtT]?)")
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SWITCHES: Final = {"1": True, "true": True, "0": False, "false": False}


@dataclasses.dataclass(frozen=True, slots=True)
class ArgumentProof:
    """What a server's resolved configuration says of one declared argument.

    Attributes:
        argument: its name; dotted for a part of a mapping, ``env.NAME`` for an environment variable.
        declared: its value.
        state: ``proved``, ``disproved`` (resolved otherwise), or ``unproved`` (the server does not tell).
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
        """What is to be said of it."""
        declared = f"{self.argument}={self.declared!r} is declared"
        if self.path is None:
            return f"{declared}, which this server does not tell"
        joint = "but" if self.state == "disproved" else "and"
        return f"{declared}, {joint} the server resolved {self.path}={self.resolved!r}"


def flattened(
    config: Mapping[str, JsonValue], environment: Mapping[str, JsonValue] | None = None
) -> dict[str, JsonValue]:
    """Return a resolved configuration as dotted paths and their values.

    Lists and empty mappings are values. Copies of the target's configuration inside that of the speculation are one
    value each: ``(as model_config)``.

    Args:
        config: ``vllm_config`` of the page.
        environment: ``vllm_env`` of the page; its names stand under ``vllm_env``.
    """
    flat = _leaves("", {name: value for name, value in config.items() if name != SPECULATION})
    speculation = config.get(SPECULATION)
    folded = {name: _folded(value, config) for name, value in _inside(config, SPECULATION).items()}
    flat |= _leaves("", {SPECULATION: folded or speculation} if SPECULATION in config else {})
    return flat | _leaves("", {ENVIRONMENT: dict(environment)} if environment else {})


def _folded(value: JsonValue, config: Mapping[str, JsonValue]) -> JsonValue:
    """Return the name of the part of a configuration that a mapping is a copy of, anything else as it is."""
    copied = [name for name, part in config.items() if isinstance(value, dict) and value and same(part, value)]
    return f"(as {copied[0]})" if copied else value


def _leaves(path: str, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    leaves: dict[str, JsonValue] = {}
    for name, value in values.items():
        place = f"{path}.{name}" if path else name
        leaves |= _leaves(place, value) if isinstance(value, dict) and value else {place: _storable(value)}
    return leaves


def _storable(value: JsonValue) -> JsonValue:
    """Return a value that JSON can say: NaN and infinity as their names."""
    if isinstance(value, list):
        return [_storable(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def argument_path(argument: str, config: Mapping[str, JsonValue]) -> str | None:
    """Return where a resolved configuration keeps an engine argument; `None` if it does not.

    An argument that no table knows is looked for by its name, and found where only one place bears it.

    Args:
        argument: its Python name, dotted for a part of a mapping.
        config: flattened.
    """
    head, _, rest = argument.partition(".")
    place = _PATHS.get(head) or _LOOSE_PATHS.get(head) or _only_place(head, config)
    path = f"{place}.{rest}" if rest else place
    return path if path is not None and (path in config or _has_parts(path, config)) else None


def _only_place(name: str, config: Mapping[str, JsonValue]) -> str | None:
    """Return the one path outside speculation and environment that ends with a name, or the part so called."""
    if _has_parts(name, config):
        return name
    own = (path for path in config if path.partition(".")[0] not in {SPECULATION, ENVIRONMENT})
    places = [path for path in own if path.rpartition(".")[2] == name]
    return places[0] if len(places) == 1 else None


def _has_parts(path: str, config: Mapping[str, JsonValue]) -> bool:
    return any(known.startswith(f"{path}.") for known in config)


def argument_proofs(
    args: Mapping[str, JsonValue], config: Mapping[str, JsonValue], *, env: Mapping[str, str] | None = None
) -> tuple[ArgumentProof, ...]:
    """Compare every declared argument with what a server resolved, ``speculative_config`` excepted.

    Speculation has a proof of its own, which looks at the counters, too.

    Args:
        args: engine arguments of an arm.
        config: flattened.
        env: environment variables of the arm; those of vLLM are compared.
    """
    own = {name: value for name, value in (env or {}).items() if name.startswith("VLLM_")}
    settings = [_proof(name, value, config) for name, value in _declared(args)]
    return (*settings, *(_variable_proof(name, value, config) for name, value in own.items()))


def disproved(
    args: Mapping[str, JsonValue], config: Mapping[str, JsonValue], *, env: Mapping[str, str] | None = None
) -> tuple[ArgumentProof, ...]:
    """Return the declared arguments that a server resolved otherwise; see `argument_proofs`."""
    return tuple(proof for proof in argument_proofs(args, config, env=env) if proof.state == "disproved")


def unproved_arguments(
    args: Mapping[str, JsonValue], config: Mapping[str, JsonValue], *, env: Mapping[str, str] | None = None
) -> tuple[ArgumentProof, ...]:
    """Return the declared arguments that a server does not tell of; see `argument_proofs`."""
    return tuple(proof for proof in argument_proofs(args, config, env=env) if proof.state == "unproved")


def _declared(args: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Yield arguments by their plain name, mappings in parts, ``no_x=True`` as ``x=False``."""
    for given, value in args.items():
        name = given.replace("-", "_")
        if name == SPECULATION or value is None:
            continue
        if isinstance(value, dict):
            yield from _leaves(name, value).items()
        elif name.startswith("no_") and isinstance(value, bool):
            yield name.removeprefix("no_"), not value
        else:
            yield name, value


def _proof(argument: str, declared: JsonValue, config: Mapping[str, JsonValue]) -> ArgumentProof:
    path = argument_path(argument, config)
    if path is None or path not in config:
        return ArgumentProof(argument, declared, "unproved")
    resolved = config[path]
    agree = _agree(path, declared, resolved)
    strict = argument in _PATHS or path in _ENUM_NUMBERS
    state: ProofState = "proved" if agree else "disproved" if strict else "unproved"
    return ArgumentProof(argument, declared, state, path, resolved)


def _agree(path: str, declared: JsonValue, resolved: JsonValue) -> bool:
    """Whether a resolved value is what was declared, in the words of the page."""
    if declared == "auto" or (path == "model_config.max_model_len" and declared in {-1, "-1"}):
        return True
    if isinstance(declared, str):
        if isinstance(resolved, str):
            return _same_word(path, declared, resolved)
        named = _ENUM_NUMBERS.get(path, {}).get(declared.upper(), declared)
        return same(_number(declared) if named is declared else named, resolved)
    return same(declared, resolved)


def _same_word(path: str, declared: str, resolved: str) -> bool:
    """Compare two texts by what vLLM makes of them: ``half``, ``gptq`` for ``gptq_marlin``."""
    if path == "model_config.dtype":
        return resolved.removeprefix("torch.") == _DTYPES.get(declared, declared).removeprefix("torch.")
    refined = path in {"model_config.quantization", "cache_config.cache_dtype"}
    return declared == resolved or (refined and resolved.startswith(f"{declared}_"))


def _number(text: str) -> JsonValue:
    """Read a number as vLLM's command line does (``4k`` is 4000, ``4K`` is 4096); anything else stays a text."""
    match = _READABLE.fullmatch(text.strip())
    if match is None:
        return text
    number, unit = match.groups()
    base = 1024 if unit.isupper() else 1000
    power: int = base ** _POWERS[unit.lower()]
    return float(number) * power if "." in number else int(number) * power


def _variable_proof(name: str, declared: str, config: Mapping[str, JsonValue]) -> ArgumentProof:
    """Compare an environment variable; only a switch or a number that came out otherwise is a disproof."""
    argument, path = f"env.{name}", f"{ENVIRONMENT}.{name}"
    if path not in config:
        return ArgumentProof(argument, declared, "unproved")
    resolved = config[path]
    read: JsonValue = declared
    if isinstance(resolved, bool):
        read = _SWITCHES.get(declared.lower(), declared)
    elif isinstance(resolved, int | float):
        read = _number(declared)
    state: ProofState = "unproved" if isinstance(read, str) else "disproved"
    return ArgumentProof(argument, declared, "proved" if same(read, resolved) else state, path, resolved)


def gpus_of(config: Mapping[str, JsonValue]) -> int | None:
    """Return how many accelerators all engines of a server use together; 0 on a CPU, `None` where it is not told.

    One engine spans ``world_size`` devices (tensor times pipeline parallelism), and there are ``data_parallel_size``
    engines.

    Args:
        config: ``vllm_config`` of the page.
    """
    device = _inside(config, "device_config").get("device")
    if isinstance(device, str) and device.split(":")[0] == "cpu":
        return 0
    parallel = _inside(config, "parallel_config")
    sizes = [parallel.get("world_size"), parallel.get("data_parallel_size")]
    counts = [size for size in sizes if isinstance(size, int) and size > 0]
    return counts[0] * counts[1] if isinstance(device, str) and len(counts) == len(sizes) else None


def _inside(config: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    part = config.get(name)
    return part if isinstance(part, dict) else {}
