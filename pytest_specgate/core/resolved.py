"""The engine configuration that a server resolved, as ``/server_info?config_format=json`` tells it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.profile import same

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

ENVIRONMENT: Final = "vllm_env"
"""First part of the paths of the engine's environment variables."""

SPECULATION: Final = "speculative_config"
"""First part of the paths of speculation."""

_UNDER: Final = {
    "model_config": (
        "dtype enforce_eager max_model_len quantization seed trust_remote_code max_logprobs logprobs_mode "
        "disable_sliding_window enable_prompt_embeds skip_tokenizer_init tokenizer_mode use_fp64_gumbel "
        "code_revision config_format convert generation_config hf_config_path io_processor_plugin model_impl "
        "renderer_num_workers revision runner tokenizer tokenizer_revision"
    ),
    "cache_config": (
        "block_size enable_prefix_caching gpu_memory_utilization kv_cache_memory_bytes kv_offloading_size "
        "kv_sharing_fast_prefill num_gpu_blocks_override prefix_caching_hash_algo"
    ),
    "parallel_config": (
        "tensor_parallel_size pipeline_parallel_size data_parallel_size decode_context_parallel_size "
        "prefill_context_parallel_size disable_custom_all_reduce enable_dbo enable_eplb enable_expert_parallel "
        "data_parallel_backend distributed_executor_backend nnodes node_rank worker_cls worker_extension_cls"
    ),
    "scheduler_config": (
        "async_scheduling disable_hybrid_kv_cache_manager enable_chunked_prefill long_prefill_token_threshold "
        "max_num_batched_tokens max_num_scheduled_tokens max_num_seqs stream_interval "
        "max_num_active_seqs max_num_queued_reqs max_num_queued_tokens prefill_schedule_interval watermark"
    ),
    "load_config": "download_dir load_format safetensors_prefetch_block_size safetensors_prefetch_num_threads",
    "lora_config": "max_loras max_lora_rank",
}

KEPT_PATHS: Final = {
    **{name: f"{part}.{name}" for part, names in _UNDER.items() for name in names.split()},
    "cpu_offload_gb": "offload_config.uva.cpu_offload_gb",
    "kv_cache_dtype": "cache_config.cache_dtype",
    "linear_backend": "kernel_config.linear_backend",
    "moe_backend": "kernel_config.moe_backend",
    "optimization_level": "optimization_level",
    "performance_mode": "performance_mode",
    "scheduling_policy": "scheduler_config.policy",
}
"""Where vLLM puts an argument and keeps its value as given, but for `_reworded`."""

LOOSE_PATHS: Final = {
    "attention_backend": "attention_config.backend",
    "attention_config": "attention_config",
    "compilation_config": "compilation_config",
    "cudagraph_capture_sizes": "compilation_config.cudagraph_capture_sizes",
    "hf_overrides": "model_config.hf_overrides",
    "kernel_config": "kernel_config",
    "max_cudagraph_capture_size": "compilation_config.max_cudagraph_capture_size",
    "override_generation_config": "model_config.override_generation_config",
}
"""Where vLLM may keep an argument in other words: an equal value proves it, another one disproves nothing.

A backend becomes the path of its class, compilation passes that cannot run are switched off, sizes are cut to fit.
"""


PLACES: Final = frozenset({"model_config.tokenizer", "model_config.hf_config_path", f"{SPECULATION}.model"})
"""Names of models or folders: the same thing may lie at another path there."""

REVISIONS: Final = frozenset({"model_config.revision", "model_config.tokenizer_revision"})
"""Where vLLM may put the commit that a branch or tag stands for."""

METHOD: Final = f"{SPECULATION}.method"
"""Where a server tells the method of its speculation."""

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_EMBEDDED: Final = "embedded:"
"""Before the name of a model that `specgate prepare-model` makes."""

_SHORT_COMMIT: Final = 7
"""Digits of a commit that are enough to name it."""

ENUM_NUMBERS: Final[dict[str, dict[str, JsonValue]]] = {
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
    flat = leaves("", {name: value for name, value in config.items() if name != SPECULATION})
    speculation = config.get(SPECULATION)
    folded = {name: _folded(value, config) for name, value in _inside(config, SPECULATION).items()}
    flat |= leaves("", {SPECULATION: folded or speculation} if SPECULATION in config else {})
    return flat | leaves("", {ENVIRONMENT: dict(environment)} if environment else {})


def _folded(value: JsonValue, config: Mapping[str, JsonValue]) -> JsonValue:
    """Return the name of the part of a configuration that a mapping is a copy of, anything else as it is."""
    copied = [name for name, part in config.items() if isinstance(value, dict) and value and same(part, value)]
    return f"(as {copied[0]})" if copied else value


def leaves(path: str, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a mapping as dotted paths below one, empty for its own beginning, and their values."""
    found: dict[str, JsonValue] = {}
    for name, value in values.items():
        place = f"{path}.{name}" if path else name
        found |= leaves(place, value) if isinstance(value, dict) and value else {place: _storable(value)}
    return found


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
    path = place_of(argument, config)
    return path if path is not None and (path in config or _has_parts(path, config)) else None


def place_of(argument: str, config: Mapping[str, JsonValue]) -> str | None:
    """Return where an argument would stand; what is folded in the speculation stands in the part it is a copy of."""
    head, _, rest = argument.partition(".")
    place = KEPT_PATHS.get(head) or LOOSE_PATHS.get(head) or _only_place(head, config)
    path = f"{place}.{rest}" if rest and place else place
    part, _, name = rest.partition(".")
    copied = config.get(f"{SPECULATION}.{part}") if head == SPECULATION and name else None
    return f"{copied[4:-1]}.{name}" if isinstance(copied, str) and copied.startswith("(as ") else path


def _only_place(name: str, config: Mapping[str, JsonValue]) -> str | None:
    """Return the one path outside speculation and environment that ends with a name, or the part so called."""
    if name in config or _has_parts(name, config):
        return name
    own = (path for path in config if path.partition(".")[0] not in {SPECULATION, ENVIRONMENT})
    places = [path for path in own if path.rpartition(".")[2] == name]
    return places[0] if len(places) == 1 else None


def _has_parts(path: str, config: Mapping[str, JsonValue]) -> bool:
    return any(known.startswith(f"{path}.") for known in config)


def is_commit(value: JsonValue) -> bool:
    """Whether a value is the full name of a commit."""
    return isinstance(value, str) and bool(_COMMIT.fullmatch(value))


def agree(path: str, declared: JsonValue, resolved: JsonValue) -> bool:
    """Whether a resolved value is what was declared, in the words of the page."""
    if declared == "auto" or (path == "model_config.max_model_len" and declared in (-1, "-1")):
        return True
    if isinstance(declared, str):
        if isinstance(resolved, str):
            return _same_word(path, declared, resolved)
        named = ENUM_NUMBERS.get(path, {}).get(declared.upper(), declared)
        return same(read_number(declared) if named is declared else named, resolved)
    return same(declared, resolved)


def _same_word(path: str, declared: str, resolved: str) -> bool:
    """Compare two texts by what vLLM makes of them: ``half``, ``gptq`` for ``gptq_marlin``, ``deepseek_mtp``."""
    if path == "model_config.dtype":
        return resolved.removeprefix("torch.") == _DTYPES.get(declared, declared).removeprefix("torch.")
    if path in PLACES:
        return _same_place(declared, resolved)
    if path in REVISIONS and is_commit(resolved):
        return resolved.startswith(declared) and len(declared) >= _SHORT_COMMIT
    if path == METHOD:
        return _method(declared) == _method(resolved)
    refined = path in {"model_config.quantization", "cache_config.cache_dtype"}
    return spelt(declared) == spelt(resolved) or (refined and resolved.startswith(f"{declared}_"))


def spelt(word: str) -> str:
    """Return a word as vLLM folds it, ``flashinfer-cutlass`` as ``FLASHINFER_CUTLASS``; a path as it is."""
    return word if "/" in word else word.casefold().replace("-", "_")


def _method(name: str) -> str:
    """Return the one name that vLLM keeps of several."""
    return "mtp" if name.endswith("mtp") else name.strip("[]")


def _same_place(declared: str, resolved: str) -> bool:
    """Whether two names are of one model: by the last part of their paths, or by its folder in a cache of the hub.

    An embedded model is served from a folder of its name.
    """
    places = (declared.removeprefix(_EMBEDDED), resolved)
    names = [place.rstrip("/").rpartition("/")[2].strip("[]") for place in places]
    return names[0] == names[1] or f"models--{declared.replace('/', '--')}" in resolved.split("/")


def read_number(text: str) -> JsonValue:
    """Read a number as vLLM's command line does (``4k`` is 4000, ``4K`` is 4096); anything else stays a text."""
    match = _READABLE.fullmatch(text.strip())
    if match is None:
        return text
    number, unit = match.groups()
    base = 1024 if unit.isupper() else 1000
    power: int = base ** _POWERS[unit.lower()]
    return float(number) * power if "." in number else int(number) * power


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
