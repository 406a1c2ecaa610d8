"""What ``/server_info`` tells: a resolved configuration with plausible leaves."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING, Any

from pytest_specgate.testing.exposition import KV_CACHE_TOKENS
from pytest_specgate.testing.messages import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specgate.testing.arguments import ServerArguments


def server_information(arguments: ServerArguments, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the body of ``/server_info?config_format=json``.

    The programmed behaviour is not in it: a server that is slower than it should be does not say so either.
    """
    variables = {name: value for name, value in environment.items() if name.startswith("VLLM_") and "KEY" not in name}
    return {
        "vllm_config": vllm_config(arguments),
        "vllm_env": {name: variables[name] for name in sorted(variables)},
        "system_env": {
            "torch_version": None,
            "os": platform.platform(),
            "python_version": sys.version,
            "is_cuda_available": False,
            "nvidia_driver_version": None,
            "nvidia_gpu_models": None,
            "vllm_version": VERSION,
            "env_vars": "".join(f"{name}={value}\n" for name, value in sorted(variables.items())),
        },
    }


def vllm_config(arguments: ServerArguments) -> dict[str, Any]:
    """Return the resolved configuration: the fake's own, and flags it ignores where a leaf has their name."""
    sections: dict[str, Any] = {
        "model_config": _model_config(arguments),
        "cache_config": cache_config(arguments),
        "parallel_config": _parallel_config(arguments),
        "scheduler_config": _scheduler_config(arguments),
        "device_config": {"device": "cpu"},
        "load_config": {"load_format": "auto"},
    }
    for name, section in sections.items():
        sections[name] = _with_flags(section, arguments)
    return {
        **sections,
        "speculative_config": _speculative_config(arguments),
        "observability_config": _observability_config(arguments),
    }


def cache_config(arguments: ServerArguments) -> dict[str, Any]:
    """Return the leaves of the cache configuration."""
    leaves = {
        "block_size": arguments.block_size,
        "gpu_memory_utilization": 0.92,
        "cache_dtype": "auto",
        "num_gpu_blocks_override": None,
        "sliding_window": None,
        "enable_prefix_caching": arguments.prefix_caching,
        "prefix_caching_hash_algo": "sha256",
        "num_gpu_blocks": KV_CACHE_TOKENS // arguments.block_size,
        "num_cpu_blocks": None,
        "kv_cache_size_tokens": KV_CACHE_TOKENS,
        "kv_cache_max_concurrency": KV_CACHE_TOKENS / arguments.max_model_len,
    }
    return _with_flags(leaves, arguments)


def _model_config(arguments: ServerArguments) -> dict[str, Any]:
    return {
        "model": arguments.model,
        "tokenizer": arguments.model,
        "dtype": "torch.bfloat16",
        "seed": 0,
        "revision": None,
        "tokenizer_revision": None,
        "max_model_len": arguments.max_model_len,
        "quantization": None,
        "enforce_eager": False,
        "served_model_name": arguments.served_name,
        "generation_config": "auto",
    }


def _parallel_config(arguments: ServerArguments) -> dict[str, Any]:
    return {
        "pipeline_parallel_size": 1,
        "tensor_parallel_size": 1,
        "data_parallel_size": arguments.data_parallel_size,
        "data_parallel_rank": 0,
        "enable_expert_parallel": False,
        "distributed_executor_backend": "uni",
        "world_size": 1,
        "rank": 0,
    }


def _scheduler_config(arguments: ServerArguments) -> dict[str, Any]:
    return {
        "runner_type": "generate",
        "max_num_batched_tokens": 2048,
        "max_num_scheduled_tokens": None,
        "max_num_seqs": arguments.max_num_seqs,
        "enable_chunked_prefill": True,
        "policy": "fcfs",
        "async_scheduling": arguments.speculation is None or not arguments.fake.sync_under_speculation,
        "stream_interval": 1,
    }


def _speculative_config(arguments: ServerArguments) -> dict[str, Any] | None:
    speculation = arguments.speculation
    if speculation is None:
        return None
    claimed = arguments.fake.report_k or speculation.num_speculative_tokens
    leaves = {"model": speculation.method, "method": None, "draft_tensor_parallel_size": None}
    return {**leaves, **speculation.as_given(), "num_speculative_tokens": claimed}


def _observability_config(arguments: ServerArguments) -> dict[str, Any]:
    leaves = {
        "show_hidden_metrics_for_version": None,
        "otlp_traces_endpoint": None,
        "collect_detailed_traces": None,
        "per_request_spec_decode_metrics": arguments.request_metrics,
        "kv_cache_metrics": False,
        "enable_mfu_metrics": False,
    }
    return _with_flags(leaves, arguments)


def _with_flags(leaves: dict[str, Any], arguments: ServerArguments) -> dict[str, Any]:
    return {name: arguments.other.get(name, value) for name, value in leaves.items()}
