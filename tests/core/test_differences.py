"""In what two arms differ besides what was declared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.arms import Arm
from pytest_specgate.core.confounds import declared_between
from pytest_specgate.core.differences import (
    ABSENT,
    CONFIGURATION,
    LOG,
    NOISE,
    Difference,
    StartUp,
    compacted,
    engine_differences,
    restored,
    speculation_words,
)
from pytest_specgate.core.resolved import flattened
from pytest_specgate.core.startup_log import startup_lines

if TYPE_CHECKING:
    from pytest_specgate.core.differences import DifferenceReport

DATA = Path(__file__).parent / "data"
OFF = Arm("off", model="m")
K4, K7 = (
    OFF.vary(f"k{k}", args={"speculative_config": {"method": "ngram", "num_speculative_tokens": k}}) for k in (4, 7)
)
SPECULATION = (OFF, K4)
MIN_P = "log:min_p-and-logit_bias-parameters-won-59abcd"
BUDGET = "scheduler_config.max_num_scheduled_tokens"
DP_SYNC = "parallel_config.disable_nccl_for_dp_synchronization"
ASYNC = "scheduler_config.async_scheduling"


def captured(arm: str, *, log: str | None = None, more: str = "", changes: dict[str, Any] | None = None) -> StartUp:
    """Return what is kept of a captured boot, with another line in its log, or other settings."""
    page = json.loads((DATA / f"{arm}_server_info.json").read_text())
    printed = (DATA / f"{log or arm}_server.log").read_text()
    lines = startup_lines(f"{more}\n{printed}")
    return StartUp({**flattened(page["vllm_config"], page["vllm_env"]), **(changes or {})}, lines)


def differing(left: list[StartUp], right: list[StartUp], *, arms: tuple[Arm, Arm] = SPECULATION) -> DifferenceReport:
    """Compare the boots of two arms."""
    return engine_differences(left, right, declared=declared_between(arms, (left[0], right[0])))


def varying(name: str, values: tuple[Any, Any]) -> tuple[Arm, Arm]:
    """Return two arms that differ in an argument, or in an environment variable."""
    kind, _, plain = name.partition(".")
    parts = plain.split(".")
    given: list[Any] = [{kind: {parts[0]: {parts[1]: value} if len(parts) == 2 else value}} for value in values]
    one, other = (Arm(arm, model="m", **part) for arm, part in zip(("a", "b"), given, strict=True))
    return one, other


def compared(
    left: dict[str, Any] | list[dict[str, Any]],
    right: dict[str, Any] | list[dict[str, Any]],
    *,
    arms: tuple[Arm, Arm] = SPECULATION,
) -> DifferenceReport:
    """Compare configurations, one or several boots of each arm."""
    sides = [side if isinstance(side, list) else [side] for side in (left, right)]
    boots = [[StartUp(config, {}) for config in side] for side in sides]
    return differing(boots[0], boots[1], arms=arms)


def logged(left: dict[str, int], right: dict[str, int], *, arms: tuple[Arm, Arm] = SPECULATION) -> DifferenceReport:
    """Compare logs of one boot each."""
    return differing([StartUp({}, left)], [StartUp({}, right)], arms=arms)


def kinds(report: DifferenceReport) -> list[tuple[str, str]]:
    """Return id and kind of all differences, in order."""
    return [(found.id, found.kind) for found in report.differences]


def test_turning_speculation_on_changes_what_the_captures_show() -> None:
    """Off against k=4: one declared line, three engine-induced differences, one line of the log that misleads."""
    report = differing([captured("off")], [captured("ngram_k4")])

    assert [found.id for found in report.of("engine-induced")] == [BUDGET, DP_SYNC, MIN_P]
    budget, synchronisation, min_p = report.of("engine-induced")
    assert (budget.reference, budget.candidate, budget.note) == (None, 2048, "effective 2048 in both")
    assert budget.line.startswith("WARNING [vllm.py] max_num_scheduled_tokens is set to 2048")
    assert (synchronisation.reference, synchronisation.candidate) == (True, False)
    assert synchronisation.note == "no effect at data_parallel_size 1"
    assert (min_p.reference, min_p.candidate) == (0, 1)
    assert report.unread == ()


def test_the_declared_variation_is_one_line() -> None:
    """The speculation's leaves are one difference; that the drafter is loaded is expected."""
    report = differing([captured("off")], [captured("ngram_k4")])
    speculation, drafter = report.of("declared")

    assert speculation == Difference("speculative_config", "declared", "none", "ngram, k=4, lookup 2..4")
    assert drafter.line == "INFO [cpu_model_runner.py] Loading drafter model..."


def test_a_line_about_a_setting_that_is_equal_is_not_believed() -> None:
    """Only one arm says that it schedules synchronously, but both do."""
    report = differing([captured("off")], [captured("ngram_k4")])
    (found,) = report.of("log-only")

    assert found.line.startswith("WARNING [vllm.py] Async scheduling not supported")
    assert found.note == "resolved to false in both arms"


def test_what_changes_at_every_boot_is_dropped() -> None:
    """Names of instances and of shared memory are noise, and named as such."""
    report = differing([captured("off")], [captured("ngram_k4")])

    assert [found.id for found in report.of("dropped")] == [
        "instance_id",
        "vllm_env.VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME",
    ]


def test_two_horizons_differ_in_nothing_else() -> None:
    """k=4 against k=7 has no confound."""
    report = differing([captured("ngram_k4")], [captured("ngram_k7")], arms=(K4, K7))

    assert report.of("engine-induced") == report.of("log-only") == ()
    assert report.of("declared") == (
        Difference(
            "speculative_config",
            "declared",
            "ngram, k=4, lookup 2..4",
            "ngram, k=7, lookup 2..4",
            "differs in num_speculative_tokens",
        ),
    )


def test_an_undeclared_speculation_is_engine_induced() -> None:
    """What the arms do not differ in is not declared, whatever their servers do."""
    report = differing([captured("ngram_k4")], [captured("ngram_k7")], arms=(K4, K4))

    assert [found.id for found in report.of("engine-induced")] == ["speculative_config.num_speculative_tokens"]


def test_the_order_of_the_arms_turns_every_difference_round() -> None:
    """Reference and candidate change places, and nothing else changes."""
    there = differing([captured("off")], [captured("ngram_k4")])
    back = differing([captured("ngram_k4")], [captured("off")], arms=(K4, OFF))

    assert [(f.id, f.kind, f.reference, f.candidate) for f in there.differences] == [
        (f.id, f.kind, f.candidate, f.reference) for f in back.differences
    ]


def test_an_arm_does_not_differ_from_itself() -> None:
    """The control: another boot's log, the same configuration."""
    report = differing([captured("ngram_k4")], [captured("ngram_k4", log="ngram_k4_again")], arms=(K4, K4))

    assert report.differences == ()


def test_asynchronous_scheduling_is_told_first() -> None:
    """Nothing else changes an engine as much; then the scheduler's budget and compilation, then the rest."""
    left: dict[str, Any] = {ASYNC: True, BUDGET: None, "a": 1, "compilation_config.mode": 3}
    right: dict[str, Any] = {ASYNC: False, BUDGET: 512, "a": 2, "compilation_config.mode": 0}
    batch = {"scheduler_config.max_num_batched_tokens": 2048}
    report = compared({**left, **batch}, {**right, **batch})

    assert [found.id for found in report.differences] == [ASYNC, BUDGET, "compilation_config.mode", "a"]
    assert report.differences[0].note == "one arm schedules while the device computes, the other does not"
    assert report.differences[1].note == "effective 2048 -> 512"


def test_no_effect_is_claimed_only_where_it_is_known() -> None:
    """With several data-parallel engines, how they synchronise matters."""
    size = {"parallel_config.data_parallel_size": 2}
    report = compared({DP_SYNC: True, **size}, {DP_SYNC: False, **size})

    assert [found.note for found in report.differences] == [""]


@pytest.mark.parametrize(
    "arms",
    [
        (OFF, K4),
        (OFF, OFF.vary("k4", args={"speculative-config": {"method": "ngram", "num_speculative_tokens": 4}})),
        (OFF.vary("off", args={"seed": 1}), K4.vary("k4", args={"seed": 2})),
    ],
)
def test_only_what_the_arms_differ_in_decides(arms: tuple[Arm, Arm]) -> None:
    """However a pair's `varies` may be written, the speculation is one declared difference."""
    report = differing([captured("off")], [captured("ngram_k4")], arms=arms)

    assert report.of("declared")[0].id == "speculative_config"
    assert [found.id for found in report.of("engine-induced")] == [BUDGET, DP_SYNC, MIN_P]


@pytest.mark.parametrize(
    "path",
    [
        "instance_id",
        "kv_transfer_config.instance_id",
        "vllm_env.VLLM_X_SHM_NAME",
        "parallel_config.master_port",
        "parallel_config._data_parallel_master_port_list",
        "vllm_env.VLLM_NIXL_SIDE_CHANNEL_PORT",
        "compilation_config.cache_dir",
        "compilation_config.local_cache_dir",
        "compilation_config.compilation_time",
    ],
)
def test_volatile_paths_are_dropped(path: str) -> None:
    """Each rule has a reason, which is told."""
    (found,) = compared({path: "a"}, {path: "b"}).differences

    assert found.kind == "dropped"
    assert found.note


@pytest.mark.parametrize(
    "path", ["report.x", "parallel_config.portal", "kv_instance_ids", "compilation_config.cache_directory"]
)
def test_rules_catch_no_more_than_they_name(path: str) -> None:
    """A path that merely sounds alike is compared."""
    assert kinds(compared({path: 1}, {path: 2})) == [(path, "engine-induced")]


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        ([900, 904], [800, 803], "engine-induced"),
        ([800, 803], [900, 904], "engine-induced"),
        ([900, 904], [903, 905], "dropped"),
        ([27812, 27810], [27809, 27807], "dropped"),
        ([900], [903, 905], "dropped"),
        ([1, 1], [2, 2], "engine-induced"),
        ([1], [2], "engine-induced"),
        ([1, 2], ["x", "x"], "engine-induced"),
        ([1, 1], [1, 2], "dropped"),
        (["FLASH", "FLASH"], ["TRITON", "FLEX"], "engine-induced"),
        (["FLASH", "FLASH"], ["FLASH", "FLEX"], "dropped"),
        (["a", "b", "a"], ["c", "d", "e"], "engine-induced"),
        (["a"], ["b", "c"], "engine-induced"),
        ([[1], [1]], [[2], [3]], "engine-induced"),
        (["shm-a", "shm-b"], ["shm-c", "shm-d"], "dropped"),
        ([True, False], [None, None], "engine-induced"),
        ([True, False], [False, False], "dropped"),
    ],
)
def test_boots_of_one_arm_show_what_is_noise(left: list[Any], right: list[Any], kind: str) -> None:
    """A value that changes within an arm counts where it tells the arm: numbers far apart, words of one arm only."""
    report = compared([{"x": value} for value in left], [{"x": value} for value in right])

    assert kinds(report) == [("x", kind)]


def test_types_differ_where_values_look_alike() -> None:
    """True is not 1, 2 is 2.0, and an absent path differs from an empty one."""
    report = compared({"a": True, "b": 2, "c": None}, {"a": 1, "b": 2.0})

    assert [(found.id, found.candidate) for found in report.differences] == [("a", 1), ("c", ABSENT)]


@pytest.mark.parametrize(
    ("arms", "path", "kind"),
    [
        (varying("args.max_model_len", (1, 2)), "model_config.max_model_len", "declared"),
        (varying("args.max-model-len", (1, 2)), "model_config.max_model_len", "declared"),
        (varying("args.max_model_len", (1, 2)), "cache_config.kv_cache_max_concurrency", "declared"),
        (varying("args.max_model_len", (1, 2)), "cache_config.block_size", "engine-induced"),
        (varying("args.tensor-parallel-size", (1, 2)), "parallel_config.world_size", "declared"),
        (varying("args.compilation_config.mode", (0, 3)), "compilation_config.mode", "declared"),
        (varying("args.compilation_config.mode", (0, 3)), "compilation_config.cudagraph_mode", "engine-induced"),
        (varying("args.compilation_config.mode", (0, 3)), "compilation_config.pass_config.fuse", "engine-induced"),
        (varying("args.no_enable_prefix_caching", (True, None)), "cache_config.enable_prefix_caching", "declared"),
        (
            varying("args.no-enable-chunked-prefill", (True, None)),
            "scheduler_config.enable_chunked_prefill",
            "declared",
        ),
        (varying("args.enable_prefix_caching", (True, False)), "cache_config.enable_prefix_caching", "declared"),
        (varying("args.unheard_of", (1, 2)), "model_config.seed", "engine-induced"),
        (varying("env.VLLM_X", ("1", "2")), "vllm_env.VLLM_X", "declared"),
        (varying("env.VLLM_X", ("1", "2")), "vllm_env.VLLM_XY", "engine-induced"),
        ((OFF, K4), "model_config.seed", "engine-induced"),
    ],
)
def test_a_variation_declares_its_own_place_and_what_plainly_follows(
    arms: tuple[Arm, Arm], path: str, kind: str
) -> None:
    """Everything else is the engine's doing, also what lies beside it in one mapping."""
    report = compared({path: 1, "x": 1}, {path: 2, "x": 1}, arms=arms)

    assert kinds(report) == [(path, kind)]


def test_a_consequence_names_its_cause() -> None:
    """What follows from an argument says so."""
    path = "cache_config.kv_cache_max_concurrency"
    (found,) = compared({path: 1}, {path: 2}, arms=varying("args.max-model-len", (1, 2))).differences

    assert found.note == "follows from args.max_model_len"


def test_another_setting_of_two_speculations_is_engine_induced() -> None:
    """Between k=4 and k=7 only the horizon is declared, and not whatever else a server changes in its speculation."""
    other = {
        "speculative_config.rejection_sample_method": "synthetic",
        "speculative_config.enforce_eager": True,
        "speculative_config.draft_model_config": "none of the target's",
    }
    report = differing([captured("ngram_k4")], [captured("ngram_k7", changes=other)], arms=(K4, K7))

    assert [found.id for found in report.unlisted(())] == sorted(other)
    assert [found.note for found in report.of("declared")] == ["differs in num_speculative_tokens"]


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"method": "eagle"}, "draft_model_config.hidden_size"),
        ({"model": "drafts/other"}, "draft_model_config.hidden_size"),
        ({"model": "drafts/other"}, "method"),
        ({"prompt_lookup_max": 5}, "prompt_lookup_min"),
        ({"quantization": "fp8"}, "draft_model_config.quantization"),
        ({"draft_tensor_parallel_size": 2}, "draft_parallel_config.tensor_parallel_size"),
    ],
)
def test_a_part_of_speculation_declares_what_plainly_follows(given: dict[str, Any], path: str) -> None:
    """Another draft model has another configuration; another setting of the same draft has not."""
    other = K4.vary("other", args={"speculative_config": {**K4.args["speculative_config"], **given}})
    at = f"speculative_config.{path}"

    assert kinds(compared({at: 1}, {at: 2}, arms=(K4, other))) == [("speculative_config", "declared")]
    assert kinds(compared({at: 1}, {at: 2}, arms=(K4, K7))) == [(at, "engine-induced")]


def test_a_part_that_only_one_server_has_is_one_setting() -> None:
    """None against an object is a change of value; it is declared where the arm declares something in it."""
    left: dict[str, Any] = {"quant_config": None, "kv_transfer_config": None}
    right = {"quant_config.name": "fp8", "quant_config.kv": True, "kv_transfer_config.kv_role": "both"}
    arms = (OFF, OFF.vary("b", args={"kv_transfer_config": {"kv_role": "both"}}))
    report = compared(left, right, arms=arms)

    assert kinds(report) == [("kv_transfer_config", "declared"), ("quant_config", "engine-induced")]
    assert report.differences[1].candidate == {"name": "fp8", "kv": True}


ENGINES = (OFF, OFF.vary("b", python="/other/python"))


def test_another_engines_own_settings_are_one_difference() -> None:
    """Two versions of vLLM do not have the same settings: both sides are kept; one that both have is compared."""
    left = {"old": 1, "both": 1}
    report = compared(left, {"new": 1, "newer": None, "both": 2}, arms=ENGINES)

    assert kinds(report) == [("both", "engine-induced"), ("engine", "declared")]
    assert report.differences[1].reference == {"old": 1}
    assert report.differences[1].candidate == {"new": 1, "newer": None}


def test_what_another_engine_fills_in_is_no_setting_of_its_own() -> None:
    """A part that is none in one engine and an object in the other is in both: its change is engine-induced."""
    report = compared({"quant_config": None}, {"quant_config.name": "fp8", "quant_config.kv": True}, arms=ENGINES)

    assert kinds(report) == [("quant_config", "engine-induced")]


def test_lines_are_compared_with_how_often_they_were_printed() -> None:
    """A line of one arm only, and one printed more often, are engine-induced where nothing explains them."""
    report = logged({"same": 1, "more": 1}, {"same": 1, "more": 2, "WARNING [a.py] New thing, 5 times": 1})

    assert [(found.reference, found.candidate) for found in report.of("engine-induced")] == [(0, 1), (1, 2)]
    assert report.unread == (CONFIGURATION,)


def test_what_the_engine_decides_after_the_page_was_made_is_believed() -> None:
    """The page is the API server's copy; the mode of CUDA graphs is resolved later, and only the log tells it."""
    line = (
        "(EngineCore pid=5) WARNING 11-29 10:00:00 [compilation.py:1405] CUDAGraphMode.FULL_AND_PIECEWISE is not "
        "supported with spec-decode for attention backend FlashInferBackend; setting cudagraph_mode=PIECEWISE"
    )
    report = differing([captured("off")], [captured("off", more=line)])

    assert [(found.kind, found.candidate) for found in report.differences] == [("engine-induced", 1)]
    assert len(report.unlisted(())) == 1


def test_a_line_about_an_unknown_setting_is_believed() -> None:
    """Without a configuration to look at, the line is all that there is."""
    report = logged({"x": 1}, {"x": 1, "WARNING [v.py] Async scheduling is off": 1})

    assert [found.kind for found in report.differences] == ["engine-induced"]


def test_what_is_noise_says_so() -> None:
    """The note tells it from names that are random by rule."""
    (found,) = compared([{"x": 1}, {"x": 2}], [{"x": 1}, {"x": 1}]).differences

    assert (found.kind, found.note) == ("dropped", NOISE)


def test_a_line_that_not_every_boot_prints_is_noise() -> None:
    """The first boot compiles, the others find it in the cache."""
    first = StartUp({}, {"compiling": 1, "x": 1})
    others = StartUp({}, {"x": 1})
    report = differing([first, others], [others, others])

    assert [(found.line, found.kind) for found in report.differences] == [("compiling", "dropped")]


def test_a_line_that_only_one_arm_prints_is_no_noise() -> None:
    """It may print it once or twice: the other never does."""
    boots = [StartUp({}, {"x": 1, "WARNING [a.py] slow": count}) for count in (1, 2)]
    report = differing([StartUp({}, {"x": 1})] * 2, boots)

    assert [found.kind for found in report.differences] == ["engine-induced"]


@pytest.mark.parametrize(
    ("line", "arms", "kind"),
    [
        ("INFO [model.py] Using max model len 4096", varying("args.max_model_len", (2048, 4096)), "declared"),
        ("INFO [model.py] max_model_len is 4,096.", varying("args.max-model-len", (2048, 4096)), "declared"),
        ("INFO [cfg.py] mode=3 of compilation", varying("args.compilation_config.mode", (0, 3)), "declared"),
        ("INFO [model.py] Using max model len 512", varying("args.max_model_len", (2048, 4096)), "engine-induced"),
        ("WARNING [model.py] max_model_len is 4096", varying("args.max_model_len", (2048, 4096)), "engine-induced"),
        ("INFO [model.py] Using max model len 4096", varying("args.seed", (0, 4096)), "engine-induced"),
        ("INFO [x.py] Loading drafter model...", varying("args.seed", (0, 1)), "engine-induced"),
        ("INFO [x.py] Loading drafter model...", (OFF, K4), "declared"),
        ("WARNING [x.py] Loading drafter model...", (OFF, K4), "engine-induced"),
        ("INFO [x.py] Loading drafter model failed, using none", (OFF, K4), "engine-induced"),
        ("INFO [x.py] engine", ENGINES, "engine-induced"),
        (
            "INFO [cuda.py] Cannot use FLASH_ATTN backend with kv_cache_dtype fp8; falling back to XFORMERS.",
            varying("args.kv_cache_dtype", ("auto", "fp8")),
            "engine-induced",
        ),
        (
            "INFO [m.py] No kernel for quantization fp8 on this device: falling back to a weight-only kernel",
            varying("args.quantization", (None, "fp8")),
            "engine-induced",
        ),
        (
            "INFO [x.py] prefix caching disabled: block size 64 is unsupported",
            varying("args.block_size", (16, 64)),
            "engine-induced",
        ),
        (
            "INFO [x.py] CUDA graphs are off, seeding 7 requests one by one",
            varying("args.seed", (0, 7)),
            "engine-induced",
        ),
        ("INFO [x.py] Falling back to eager for the speculative config", (OFF, K4), "engine-induced"),
    ],
)
def test_a_line_that_repeats_the_declaration_is_declared(line: str, arms: tuple[Arm, Arm], kind: str) -> None:
    """It names argument and value and is mere information: what the engine does about it is never explained away."""
    report = logged({"x": 1}, {"x": 1, line: 1}, arms=arms)

    assert [found.kind for found in report.differences] == [kind]


def test_a_line_may_repeat_the_resolved_value() -> None:
    """An arm that declares nothing has the default of the engine, which the line tells."""
    path, line = "model_config.max_model_len", "INFO [model.py] Using max model len {}"
    boots = [StartUp({path: length}, {line.format(length): 1}) for length in (2048, 512)]
    report = differing([boots[0]], [boots[1]], arms=varying("args.max_model_len", (None, 512)))

    assert {found.kind for found in report.differences} == {"declared"}
    assert len(report.differences) == 3


def test_the_id_of_a_line_does_not_depend_on_figures_or_place() -> None:
    """What a user has allowed stays allowed when a file is renamed or a budget is another."""
    ids = {
        logged({"x": 1}, {"x": 1, line: 1}).differences[0].id
        for line in ("WARNING [vllm.py] budget is 2048 tokens now", "WARNING [other.py] budget is 512 tokens now")
    }

    assert len(ids) == 1
    assert ids.pop().startswith("log:budget-is-tokens-now-")


def test_lines_with_the_same_beginning_have_their_own_ids() -> None:
    """The first words are for people, the hash tells lines apart."""
    report = logged({"x": 1}, {"x": 1, "a b c d e f": 1, "a b c d e g": 1})

    assert len({found.id for found in report.differences}) == 2


@pytest.mark.parametrize(
    ("left", "right", "unread"),
    [
        (StartUp({}, {}), StartUp({"a": 1}, {"x": 1}), (CONFIGURATION, LOG)),
        (StartUp({"a": 1}, {"x": 1}), StartUp({"a": 2}, {}), (LOG,)),
        (StartUp({"a": 1}, {"x": 1}), StartUp({}, {"x": 2}), (CONFIGURATION,)),
    ],
)
def test_what_could_not_be_read_is_said(left: StartUp, right: StartUp, unread: tuple[str, ...]) -> None:
    """Nothing found is not the same as nothing looked at."""
    assert differing([left], [right]).unread == unread


def test_a_boot_without_a_page_does_not_hide_the_others() -> None:
    """One boot's missing configuration is no difference."""
    report = compared([{}, {"a": 1}], [{"a": 2}, {}])

    assert kinds(report) == [("a", "engine-induced")]
    assert report.unread == (LOG,)


def test_differences_are_allowed_by_id_or_by_part() -> None:
    """A list names them whole or by the part of the configuration; what does not occur is told, too."""
    report = differing([captured("off")], [captured("ngram_k4")])
    allowed = [MIN_P, "parallel_config", "scheduler_config.max_num", "speculative_config"]

    assert [found.id for found in report.unlisted(allowed)] == [BUDGET]
    assert report.unused(allowed) == ("scheduler_config.max_num", "speculative_config")


@pytest.mark.parametrize(
    ("leaves", "words"),
    [
        ({}, "none"),
        ({"num_speculative_tokens": 3, "method": "eagle3", "model": "/m/Draft-1B/"}, "eagle3, k=3, model Draft-1B"),
        ({"num_speculative_tokens": 1, "method": "mtp", "model": None}, "mtp, k=1"),
        ({"num_speculative_tokens": 1, "method": None, "model": "ngram"}, "ngram, k=1"),
        (
            {"num_speculative_tokens": 2, "method": "x", "model": "x", "rejection_sample_method": "synthetic"},
            "x, k=2, synthetic rejection sampling",
        ),
    ],
)  # fmt: skip
def test_speculation_in_words(leaves: dict[str, Any], words: str) -> None:
    """Method, horizon, and what the method works with."""
    config = {f"speculative_config.{name}": value for name, value in leaves.items()}

    assert speculation_words(config) == words
    assert speculation_words({**config, "speculative_configuration.method": 1}) == words


def test_further_boots_are_stored_in_a_few_bytes() -> None:
    """Beside the first boot's configuration and log, only what differs is kept, and the whole can be had back."""
    off, k4, k7 = captured("off"), captured("ngram_k4"), captured("ngram_k7")
    kept = compacted(k4, first=off)

    assert restored(kept, first=off) == k4
    assert len(json.dumps([dict(kept.config), dict(kept.lines)])) < 3000
    assert (
        len(json.dumps([dict(part) for part in (compacted(k7, first=k4).config, compacted(k7, first=k4).lines)])) < 200
    )
    assert compacted(off, first=k4).config["speculative_config.method"] == ABSENT
    assert compacted(k4, first=k4) == StartUp({}, {})


CONFIGS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([None, True, 1, 1.5, "x", [], [1]]))
LINES = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 3))
STARTS = st.builds(StartUp, CONFIGS, LINES)


@given(STARTS, STARTS)
def test_what_is_stored_can_be_restored(first: StartUp, start: StartUp) -> None:
    """For any two boots, to the type."""
    again = restored(compacted(start, first=first), first=first)

    assert again == start
    assert {name: type(value) for name, value in again.config.items()} == {
        name: type(value) for name, value in start.config.items()
    }
