"""What a resolved configuration says: of declared arguments, and of the accelerators that a server uses."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.core.proof import argument_proofs, proofs_of_state
from pytest_specgate.core.resolved import argument_path, flattened, gpus_of

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
    """Every argument and variable of the captured command lines is proved, those of speculation included."""
    k = {"off": None, "ngram_k4": 4, "ngram_k7": 7}[arm]
    speculation = {"method": "ngram", "num_speculative_tokens": k, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
    args: dict[str, Any] = {**DECLARED, **({"speculative_config": speculation} if k else {})}
    env = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1"}
    proofs = argument_proofs(args, captured(arm), env=env)

    parts = [f"speculative_config.{name}" for name in speculation] if k else []
    assert {proof.argument: proof.state for proof in proofs} == dict.fromkeys(
        (*DECLARED, *parts, "env.VLLM_SERVER_DEV_MODE", "env.VLLM_CPU_KVCACHE_SPACE"), "proved"
    )


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
        ("load_format", "AUTO"),
        ("prefix_caching_hash_algo", "SHA256"),
        ("distributed_executor_backend", "mp"),
        ("generation_config", "auto"),
        ("tokenizer", "SmolLM2-135M-Instruct"),
        ("tokenizer", "org/SmolLM2-135M-Instruct/"),
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
        ("revision", "abc", "model_config.revision"),
        ("tokenizer_revision", "main", "model_config.tokenizer_revision"),
        ("code_revision", "main", "model_config.code_revision"),
        ("tokenizer", "other", "model_config.tokenizer"),
        ("generation_config", "vllm", "model_config.generation_config"),
        ("distributed_executor_backend", "ray", "parallel_config.distributed_executor_backend"),
        ("worker_cls", "foo.Worker", "parallel_config.worker_cls"),
        ("model_impl", "transformers", "model_config.model_impl"),
        ("nnodes", 2, "parallel_config.nnodes"),
        ("use_tqdm_on_load", False, "load_config.use_tqdm_on_load"),
        ("no_swa_bounded_replay", True, "cache_config.swa_bounded_replay"),
        ("kv_transfer_config", {"kv_connector": "X"}, "kv_transfer_config"),
        ("speculative_config", {"method": "ngram"}, "speculative_config"),
    ],
)
def test_an_argument_that_was_resolved_otherwise_is_disproved(argument: str, value: Any, path: str) -> None:
    """What a server made of it is told with the place."""
    found = proofs_of_state("disproved", {argument: value}, captured("off"))

    assert [proof.path for proof in found] == [path]
    assert f"but the server resolved {path}=" in found[0].sentence


def test_refined_names_are_the_same_thing() -> None:
    """The engine serves ``gptq`` by a kernel of its own, and picks the format of ``fp8``."""
    config = {"model_config.quantization": "gptq_marlin", "cache_config.cache_dtype": "fp8_e4m3"}

    assert proofs_of_state("disproved", {"quantization": "gptq", "kv_cache_dtype": "fp8"}, config) == ()
    assert len(proofs_of_state("disproved", {"quantization": "awq", "kv_cache_dtype": "fp8_e5m2"}, config)) == 2


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"api_server_count": 2}, "api_server_count=2 is declared, which this server does not tell"),
        ({"backend": "x"}, "backend='x' is declared, which this server does not tell"),
        ({"scheduler_config": 3}, "scheduler_config=3 is declared, which this server does not tell"),
    ],
    ids=["nowhere", "ambiguous", "a-part"],
)
def test_what_a_server_does_not_tell_is_unproved(args: dict[str, Any], sentence: str) -> None:
    """It is no disproof, but it is named, so that it can be shown."""
    found = argument_proofs(args, captured("off"))

    assert [(proof.state, proof.sentence) for proof in found] == [("unproved", sentence)]


@pytest.mark.parametrize(
    ("args", "contrast"),
    [
        (
            {"attention_backend": "FLASH_ATTN"},
            "declared attention_backend=FLASH_ATTN, the server says attention_config.backend=none",
        ),
        ({"max_loras": 2}, "declared max_loras=2, the server says lora_config=none"),
        ({"data_parallel_rpc_port": 5}, "declared data_parallel_rpc_port=5, the server says 29550"),
        ({"distributed_executor_backend": "uni"}, "declared distributed_executor_backend=uni, the server says mp"),
        ({"tokenizer": "s3://bucket/x"}, "declared tokenizer=s3://bucket/x, the server says /models/SmolLM2-135M-Inst"),
        (
            {"compilation_config": {"pass_config": {"fuse_attn_quant": True}}},
            "declared compilation_config.pass_config.fuse_attn_quant=true, the server says false",
        ),
        ({"pt_load_map_location": "cuda:0"}, "declared pt_load_map_location=cuda:0, the server says cpu"),
    ],
)
def test_what_a_server_tells_otherwise_is_told_with_both_values(args: dict[str, Any], contrast: str) -> None:
    """Where vLLM may have put the same thing in its own words nobody alarms, and nobody says that it is not told."""
    [found] = argument_proofs(args, captured("off"))

    assert found.state == "told otherwise"
    assert found.contrast.startswith(contrast)
    assert " is declared, and the server resolved " in found.sentence


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("declared", "resolved", "state"),
    [
        ("main", "main", "proved"),
        (COMMIT, COMMIT, "proved"),
        (COMMIT[:7], COMMIT, "proved"),
        ("main", COMMIT, "told otherwise"),
        ("v1", "main", "disproved"),
        ("main", None, "disproved"),
        (COMMIT, COMMIT[::-1], "disproved"),
    ],
)
def test_a_branch_may_be_pinned_to_its_commit(declared: str, resolved: str | None, state: str) -> None:
    """Of a branch or tag vLLM may tell the commit; another commit, another branch or none is a contradiction."""
    [found] = argument_proofs({"revision": declared}, {"model_config.revision": resolved})

    assert found.state == state


@pytest.mark.parametrize(
    ("declared", "resolved", "state"),
    [
        ("org/tiny", "/cache/models--org--tiny/snapshots/0123", "proved"),
        ("org/tiny", "/cache/models--org--other/snapshots/0123", "disproved"),
        ("org/tiny", "/srv/tiny/", "proved"),
        ("org/tiny", None, "disproved"),
    ],
)
def test_a_tokenizer_may_lie_elsewhere(declared: str, resolved: str | None, state: str) -> None:
    """A path is another spelling of the same thing if it ends alike, or is its folder in the cache of the hub."""
    config: dict[str, Any] = {"model_config.tokenizer": resolved}
    [found] = argument_proofs({"tokenizer": declared}, config)
    [redirected] = argument_proofs(
        {"tokenizer": declared}, {**config, "vllm_env.VLLM_MODEL_REDIRECT_PATH": "/etc/redirects"}
    )

    assert found.state == state
    assert redirected.state == ("proved" if state == "proved" else "told otherwise")


def test_values_that_are_long_do_not_bury_the_sentence() -> None:
    """What a server resolved is told in some two hundred characters, however much it is."""
    [found] = argument_proofs({"generation_config": "vllm"}, {"model_config.generation_config": "x" * 5000})

    assert len(found.sentence) < 400
    assert len(found.contrast) < 300


def test_arguments_that_declare_nothing_need_no_proof() -> None:
    """`None` leaves an argument out, and an empty mapping sets nothing."""
    assert argument_proofs({"dtype": None, "compilation_config": {}}, captured("off")) == ()


@pytest.mark.parametrize(
    ("declared", "resolved", "state"),
    [
        ("1", True, "proved"),
        ("False", False, "proved"),
        ("0", True, "disproved"),
        ("perhaps", True, "told otherwise"),
        ("2", 2, "proved"),
        ("2", 4, "disproved"),
        ("many", 4, "told otherwise"),
        ("debug", "debug", "proved"),
        ("debug", "DEBUG", "proved"),
        ("DEBUG", "INFO", "told otherwise"),
        ("~/Cache", "/home/user/cache", "told otherwise"),
        ("/Cache", "/cache", "told otherwise"),
        ("a, b", ["a", "b"], "proved"),
        ("a,b", ["b", "a"], "told otherwise"),
    ],
)
def test_variables_are_compared_as_far_as_they_can_be(declared: str, resolved: Any, state: str) -> None:
    """A switch or a number that came out otherwise is a disproof; a text may have been read in some way."""
    proofs = argument_proofs({}, {"vllm_env.VLLM_X": resolved}, env={"VLLM_X": declared})

    assert [proof.state for proof in proofs] == [state]


def test_a_variable_that_is_not_told_is_unproved() -> None:
    """Another version of the engine may not know it."""
    found = proofs_of_state("unproved", {}, {}, env={"VLLM_X": "1"})

    assert [proof.argument for proof in found] == ["env.VLLM_X"]


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
