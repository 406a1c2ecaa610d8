"""What a resolved configuration says: of declared arguments, and of the accelerators that a server uses."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.core.resolved import (
    argument_path,
    argument_proofs,
    disproved,
    flattened,
    gpus_of,
    unproved_arguments,
)

DATA = Path(__file__).parent / "data"
DECLARED = {"max_model_len": 2048, "enforce_eager": True, "enable_prefix_caching": False}
"""Engine arguments of the captured arms, speculation excepted."""


def captured(arm: str) -> dict[str, Any]:
    """Return a captured configuration, flattened."""
    page = json.loads((DATA / f"{arm}_server_info.json").read_text())
    return flattened(page["vllm_config"], page["vllm_env"])


def _config(device: object, **parallel: object) -> dict[str, Any]:
    return {"device_config": {"device": device}, "parallel_config": parallel}


@pytest.mark.parametrize(
    ("config", "gpus"),
    [
        (_config("cuda", world_size=1, data_parallel_size=1), 1),
        (_config("cuda", world_size=8, data_parallel_size=1), 8),
        (_config("cuda:0", world_size=4, data_parallel_size=2), 8),
        (_config("rocm", world_size=2, data_parallel_size=3), 6),
    ],
)
def test_every_engine_spans_its_devices(config: dict[str, Any], gpus: int) -> None:
    """Tensor and pipeline parallelism make the world of one engine, and data parallelism more engines."""
    assert gpus_of(config) == gpus


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_a_cpu_is_no_accelerator(device: str) -> None:
    """A server on a CPU uses none, whatever its world size."""
    assert gpus_of(_config(device, world_size=2, data_parallel_size=1)) == 0


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"device_config": {"device": "cuda"}},
        {"device_config": None, "parallel_config": {"world_size": 1, "data_parallel_size": 1}},
        {"device_config": "cuda", "parallel_config": {"world_size": 1, "data_parallel_size": 1}},
        _config(None, world_size=1, data_parallel_size=1),
        _config(0, world_size=1, data_parallel_size=1),
        _config("cuda", world_size=1),
        _config("cuda", world_size="1", data_parallel_size=1),
        _config("cuda", world_size=0, data_parallel_size=1),
        _config("cuda", world_size=1, data_parallel_size=1.5),
        {"device_config": {"device": "cuda"}, "parallel_config": "world_size=1"},
    ],
)
def test_what_is_not_told_is_not_guessed(config: dict[str, Any]) -> None:
    """A configuration that lacks a part, or has it in another form, tells no number."""
    assert gpus_of(config) is None


def test_a_configuration_is_flattened_to_dotted_paths() -> None:
    """Lists and empty mappings are values; variables of the engine stand under a part of their own."""
    flat = flattened({"a": {"b": {"c": 1}, "d": [], "e": {}}, "f": None}, {"VLLM_X": "1"})

    assert flat == {"a.b.c": 1, "a.d": [], "a.e": {}, "f": None, "vllm_env.VLLM_X": "1"}


def test_numbers_that_json_cannot_say_are_named() -> None:
    """A page with NaN or infinity can be stored, and equals itself."""
    flat = flattened({"a": {"x": math.nan, "y": [1, -math.inf]}})

    assert flat == {"a.x": "nan", "a.y": [1, "-inf"]}


def test_copies_inside_the_speculation_are_one_value_each() -> None:
    """Four parts of a captured speculation repeat the target's: 279 leaves become 37."""
    flat = captured("ngram_k4")
    own = {path: value for path, value in flat.items() if path.startswith("speculative_config.")}

    assert len(own) == 37
    assert own["speculative_config.target_model_config"] == "(as model_config)"
    assert own["speculative_config.draft_parallel_config"] == "(as parallel_config)"
    assert own["speculative_config.num_speculative_tokens"] == 4
    assert captured("off")["speculative_config"] is None


def test_a_draft_of_its_own_keeps_its_leaves() -> None:
    """Only an exact copy is folded."""
    flat = flattened({"model_config": {"model": "a"}, "speculative_config": {"draft_model_config": {"model": "b"}}})

    assert flat["speculative_config.draft_model_config.model"] == "b"


@pytest.mark.parametrize("arm", ["off", "ngram_k4", "ngram_k7"])
def test_captured_arms_are_as_declared(arm: str) -> None:
    """Every argument and variable of the captured command lines is proved; speculation is proved elsewhere."""
    args: dict[str, Any] = {**DECLARED, "speculative_config": {"method": "other"}}
    env = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1"}
    proofs = argument_proofs(args, captured(arm), env=env)

    assert {proof.argument: proof.state for proof in proofs} == dict.fromkeys(
        (*DECLARED, "env.VLLM_SERVER_DEV_MODE", "env.VLLM_CPU_KVCACHE_SPACE"), "proved"
    )
    assert disproved(args, captured(arm), env=env) == ()
    assert unproved_arguments(args, captured(arm), env=env) == ()


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("max_model_len", "2048"),
        ("max_model_len", "2K"),
        ("max_model_len", -1),
        ("max_model_len", "auto"),
        ("max-num-seqs", 128),
        ("max_num_batched_tokens", "2.048k"),
        ("dtype", "bfloat16"),
        ("dtype", "auto"),
        ("kv_cache_dtype", "auto"),
        ("gpu_memory_utilization", 0.92),
        ("gpu-memory-utilization", "0.92"),
        ("cpu_offload_gb", 0),
        ("seed", 0),
        ("block_size", 128),
        ("tensor_parallel_size", 1),
        ("no_enable_prefix_caching", True),
        ("no-enforce-eager", False),
        ("scheduling_policy", "fcfs"),
        ("optimization_level", 2),
        ("compilation_config", {"mode": "none", "custom_ops": ["all"], "pass_config": {"eliminate_noops": True}}),
        ("compilation_config", {"cudagraph_mode": 0}),
        ("safetensors_prefetch_num_threads", 8),
        ("instance_id", "1795971555959539881"),
    ],
)
def test_a_value_in_other_words_is_proved(argument: str, value: Any) -> None:
    """Numbers by value and as the command line reads them, names with their prefix, ``no_x`` as ``x``, mappings."""
    proofs = argument_proofs({argument: value}, captured("off"))

    assert {proof.state for proof in proofs} == {"proved"}


@pytest.mark.parametrize(
    ("argument", "value", "path"),
    [
        ("max_model_len", 4096, "model_config.max_model_len"),
        ("max_model_len", "4k", "model_config.max_model_len"),
        ("max_model_len", "long", "model_config.max_model_len"),
        ("enforce_eager", False, "model_config.enforce_eager"),
        ("enforce_eager", 1, "model_config.enforce_eager"),
        ("no_enable_chunked_prefill", True, "scheduler_config.enable_chunked_prefill"),
        ("dtype", "half", "model_config.dtype"),
        ("quantization", "fp8", "model_config.quantization"),
        ("kv_cache_dtype", "fp8", "cache_config.cache_dtype"),
        ("gpu_memory_utilization", 0.9, "cache_config.gpu_memory_utilization"),
        ("seed", "-1", "model_config.seed"),
        ("async_scheduling", True, "scheduler_config.async_scheduling"),
        ("compilation_config", {"cudagraph_mode": "FULL_AND_PIECEWISE"}, "compilation_config.cudagraph_mode"),
    ],
)
def test_an_argument_that_was_resolved_otherwise_is_disproved(argument: str, value: Any, path: str) -> None:
    """What a server made of it is told with the place."""
    found = disproved({argument: value}, captured("off"))

    assert [proof.path for proof in found] == [path]
    assert f"but the server resolved {path}=" in found[0].sentence


def test_refined_names_are_the_same_thing() -> None:
    """The engine serves ``gptq`` by a kernel of its own, and picks the format of ``fp8``."""
    config = {"model_config.quantization": "gptq_marlin", "cache_config.cache_dtype": "fp8_e4m3"}

    assert disproved({"quantization": "gptq", "kv_cache_dtype": "fp8"}, config) == ()
    assert len(disproved({"quantization": "awq", "kv_cache_dtype": "fp8_e5m2"}, config)) == 2


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"api_server_count": 2}, "api_server_count=2 is declared, which this server does not tell"),
        ({"backend": "x"}, "backend='x' is declared, which this server does not tell"),
        ({"scheduler_config": 3}, "scheduler_config=3 is declared, which this server does not tell"),
        ({"max_loras": 2}, "max_loras=2 is declared, which this server does not tell"),
        (
            {"attention_backend": "FLASH_ATTN"},
            "attention_backend='FLASH_ATTN' is declared, and the server resolved attention_config.backend=None",
        ),
        (
            {"use_tqdm_on_load": False},
            "use_tqdm_on_load=False is declared, and the server resolved load_config.use_tqdm_on_load=True",
        ),
    ],
    ids=["nowhere", "ambiguous", "a-part", "no-such-part", "in-other-words", "not-tabled"],
)
def test_what_a_server_does_not_tell_is_unproved(args: dict[str, Any], sentence: str) -> None:
    """It is no disproof, but it is named, so that it can be shown."""
    found = unproved_arguments(args, captured("off"))

    assert [proof.sentence for proof in found] == [sentence]
    assert disproved(args, captured("off")) == ()


def test_arguments_that_declare_nothing_need_no_proof() -> None:
    """`None` leaves an argument out, and an empty mapping sets nothing."""
    assert argument_proofs({"dtype": None, "compilation_config": {}}, captured("off")) == ()


@pytest.mark.parametrize(
    ("declared", "resolved", "state"),
    [
        ("1", True, "proved"),
        ("False", False, "proved"),
        ("0", True, "disproved"),
        ("perhaps", True, "unproved"),
        ("2", 2, "proved"),
        ("2", 4, "disproved"),
        ("many", 4, "unproved"),
        ("debug", "debug", "proved"),
        ("debug", "DEBUG", "unproved"),
        ("a,b", ["a", "b"], "unproved"),
    ],
)
def test_variables_are_compared_as_far_as_they_can_be(declared: str, resolved: Any, state: str) -> None:
    """A switch or a number that came out otherwise is a disproof; a text may have been read in some way."""
    proofs = argument_proofs({}, {"vllm_env.VLLM_X": resolved}, env={"VLLM_X": declared})

    assert [proof.state for proof in proofs] == [state]


def test_a_variable_that_is_not_told_is_unproved() -> None:
    """Another version of the engine may not know it."""
    assert [proof.argument for proof in unproved_arguments({}, {}, env={"VLLM_X": "1"})] == ["env.VLLM_X"]


@pytest.mark.parametrize(
    ("argument", "path"),
    [
        ("max_model_len", "model_config.max_model_len"),
        ("compilation_config", "compilation_config"),
        ("compilation_config.mode", "compilation_config.mode"),
        ("max_num_seqs", None),
        ("policy", None),
        ("scheduler", "parts.scheduler"),
    ],
)
def test_the_place_of_an_argument(argument: str, path: str | None) -> None:
    """By table, by part, or by a name that only one place bears; never a guess."""
    config = {
        "model_config.max_model_len": 1,
        "compilation_config.mode": 0,
        "a.policy": 1,
        "b.policy": 2,
        "parts.scheduler": 3,
        "speculative_config.scheduler": 4,
    }

    assert argument_path(argument, config) == path
