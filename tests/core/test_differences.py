"""In what two arms differ besides what was declared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.differences import (
    ABSENT,
    CONFIGURATION,
    LOG,
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
SPECULATION = ("args.speculative_config",)
MIN_P = "log:min_p-and-logit_bias-parameters-won-59abcd"
BUDGET = "scheduler_config.max_num_scheduled_tokens"
DP_SYNC = "parallel_config.disable_nccl_for_dp_synchronization"
ASYNC = "scheduler_config.async_scheduling"


def captured(arm: str, *, log: str | None = None) -> StartUp:
    """Return what is kept of a captured boot."""
    page = json.loads((DATA / f"{arm}_server_info.json").read_text())
    lines = startup_lines((DATA / f"{log or arm}_server.log").read_text())
    return StartUp(flattened(page["vllm_config"], page["vllm_env"]), lines)


def compared(
    left: dict[str, Any] | list[dict[str, Any]],
    right: dict[str, Any] | list[dict[str, Any]],
    *,
    varies: tuple[str, ...] = SPECULATION,
) -> DifferenceReport:
    """Compare configurations, one or several boots of each arm."""
    sides = [side if isinstance(side, list) else [side] for side in (left, right)]
    boots = [[StartUp(config, {}) for config in side] for side in sides]
    return engine_differences(boots[0], boots[1], varies=varies)


def logged(left: dict[str, int], right: dict[str, int], *, varies: tuple[str, ...] = SPECULATION) -> DifferenceReport:
    """Compare logs of one boot each."""
    return engine_differences([StartUp({}, left)], [StartUp({}, right)], varies=varies)


def kinds(report: DifferenceReport) -> list[tuple[str, str]]:
    """Return id and kind of all differences, in order."""
    return [(found.id, found.kind) for found in report.differences]


def test_turning_speculation_on_changes_what_the_captures_show() -> None:
    """Off against k=4: one declared line, three engine-induced differences, one line of the log that misleads."""
    report = engine_differences([captured("off")], [captured("ngram_k4")], varies=SPECULATION)

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
    report = engine_differences([captured("off")], [captured("ngram_k4")], varies=SPECULATION)
    speculation, drafter = report.of("declared")

    assert speculation == Difference("speculative_config", "declared", "none", "ngram, k=4, lookup 2..4")
    assert drafter.line == "INFO [cpu_model_runner.py] Loading drafter model..."


def test_a_line_about_a_setting_that_is_equal_is_not_believed() -> None:
    """Only one arm says that it schedules synchronously, but both do."""
    report = engine_differences([captured("off")], [captured("ngram_k4")], varies=SPECULATION)
    (found,) = report.of("log-only")

    assert found.line.startswith("WARNING [vllm.py] Async scheduling not supported")
    assert found.note == "resolved to false in both arms"


def test_what_changes_at_every_boot_is_dropped() -> None:
    """Names of instances and of shared memory are noise, and named as such."""
    report = engine_differences([captured("off")], [captured("ngram_k4")], varies=SPECULATION)

    assert [found.id for found in report.of("dropped")] == [
        "instance_id",
        "vllm_env.VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME",
    ]


def test_two_horizons_differ_in_nothing_else() -> None:
    """k=4 against k=7 has no confound."""
    report = engine_differences([captured("ngram_k4")], [captured("ngram_k7")], varies=SPECULATION)

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
    """What `varies` does not name is not declared."""
    report = engine_differences([captured("ngram_k4")], [captured("ngram_k7")], varies=("args.max_num_seqs",))

    assert [found.id for found in report.of("engine-induced")] == ["speculative_config.num_speculative_tokens"]


def test_the_order_of_the_arms_turns_every_difference_round() -> None:
    """Reference and candidate change places, and nothing else changes."""
    there = engine_differences([captured("off")], [captured("ngram_k4")], varies=SPECULATION)
    back = engine_differences([captured("ngram_k4")], [captured("off")], varies=SPECULATION)

    assert [(f.id, f.kind, f.reference, f.candidate) for f in there.differences] == [
        (f.id, f.kind, f.candidate, f.reference) for f in back.differences
    ]


def test_an_arm_does_not_differ_from_itself() -> None:
    """The control: another boot's log, the same configuration."""
    report = engine_differences([captured("ngram_k4")], [captured("ngram_k4", log="ngram_k4_again")], varies=())

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
        ([1, 1], [2, 2], "engine-induced"),
        (["a", "b"], ["c", "d"], "dropped"),
        ([1, 2], ["x", "x"], "dropped"),
        ([1, 1], [1, 2], "dropped"),
    ],
)
def test_boots_of_one_arm_show_what_is_noise(left: list[Any], right: list[Any], kind: str) -> None:
    """A value that changes within an arm counts only where the ranges of the two arms do not meet."""
    report = compared([{"x": value} for value in left], [{"x": value} for value in right])

    assert kinds(report) == [("x", kind)]


def test_types_differ_where_values_look_alike() -> None:
    """True is not 1, 2 is 2.0, and an absent path differs from an empty one."""
    report = compared({"a": True, "b": 2, "c": None}, {"a": 1, "b": 2.0})

    assert [(found.id, found.candidate) for found in report.differences] == [("a", 1), ("c", ABSENT)]


@pytest.mark.parametrize(
    ("varied", "path", "kind"),
    [
        ("args.max_model_len", "model_config.max_model_len", "declared"),
        ("args.max-model-len", "model_config.max_model_len", "declared"),
        ("args.max_model_len", "cache_config.kv_cache_max_concurrency", "declared"),
        ("args.max_model_len", "cache_config.block_size", "engine-induced"),
        ("args.tensor_parallel_size", "parallel_config.world_size", "declared"),
        ("args.compilation_config.mode", "compilation_config.mode", "declared"),
        ("args.compilation_config", "compilation_config.mode", "declared"),
        ("args.compilation_config.backend", "compilation_config.mode", "engine-induced"),
        ("args.speculative_config.num_speculative_tokens", "model_config.seed", "engine-induced"),
        ("args.unheard_of", "model_config.seed", "engine-induced"),
        ("env.VLLM_X", "vllm_env.VLLM_X", "declared"),
        ("env.VLLM_X", "vllm_env.VLLM_XY", "engine-induced"),
    ],
)
def test_a_variation_declares_its_own_place_and_what_plainly_follows(varied: str, path: str, kind: str) -> None:
    """Everything else is the engine's doing."""
    report = compared({path: 1}, {path: 2}, varies=(varied,))

    assert kinds(report) == [(path, kind)]


def test_a_consequence_names_its_cause() -> None:
    """What follows from an argument says so."""
    path = "cache_config.kv_cache_max_concurrency"
    (found,) = compared({path: 1}, {path: 2}, varies=("args.max_model_len",)).differences

    assert found.note == "follows from args.max_model_len"


def test_another_engines_own_settings_are_one_line() -> None:
    """Two versions of vLLM do not have the same settings; where both have one, its value is compared."""
    report = compared({"old": 1, "both": 1}, {"new": 1, "newer": None, "both": 2}, varies=("engine",))

    assert kinds(report) == [("both", "engine-induced"), ("engine", "declared")]
    assert (report.differences[1].reference, report.differences[1].candidate) == (1, 2)


def test_lines_are_compared_with_how_often_they_were_printed() -> None:
    """A line of one arm only, and one printed more often, are engine-induced where nothing explains them."""
    report = logged({"same": 1, "more": 1}, {"same": 1, "more": 2, "WARNING [a.py] New thing, 5 times": 1})

    assert [(found.reference, found.candidate) for found in report.of("engine-induced")] == [(0, 1), (1, 2)]
    assert report.unread == (CONFIGURATION,)


def test_a_line_about_an_unknown_setting_is_believed() -> None:
    """Without a configuration to look at, the line is all that there is."""
    report = logged({"x": 1}, {"x": 1, "WARNING [v.py] Async scheduling is off": 1})

    assert [found.kind for found in report.differences] == ["engine-induced"]


def test_a_line_that_not_every_boot_prints_is_noise() -> None:
    """The first boot compiles, the others find it in the cache."""
    first = StartUp({}, {"compiling": 1, "x": 1})
    others = StartUp({}, {"x": 1})
    report = engine_differences([first, others], [others, others], varies=SPECULATION)

    assert [(found.line, found.kind) for found in report.differences] == [("compiling", "dropped")]


@pytest.mark.parametrize(
    ("line", "varied", "kind"),
    [
        ("INFO [model.py] Using max model len 4096", "args.max_model_len", "declared"),
        ("INFO [model.py] max_model_len is 4096", "args.max-model-len", "declared"),
        ("WARNING [model.py] max_model_len is 4096, which is long", "args.max_model_len", "engine-induced"),
        ("INFO [model.py] Using max model len 4096", "args.seed", "engine-induced"),
        ("INFO [x.py] Loading drafter model...", "args.seed", "engine-induced"),
        ("INFO [x.py] Loading drafter model...", "args.speculative_config.method", "declared"),
        ("INFO [x.py] engine", "engine", "engine-induced"),
    ],
)
def test_a_line_that_repeats_the_declaration_is_declared(line: str, varied: str, kind: str) -> None:
    """Information only: a warning is never explained away."""
    report = logged({"x": 1}, {"x": 1, line: 1}, varies=(varied,))

    assert [found.kind for found in report.differences] == [kind]


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
    assert engine_differences([left], [right], varies=SPECULATION).unread == unread


def test_a_boot_without_a_page_does_not_hide_the_others() -> None:
    """One boot's missing configuration is no difference."""
    report = compared([{}, {"a": 1}], [{"a": 2}, {}])

    assert kinds(report) == [("a", "engine-induced")]
    assert report.unread == (LOG,)


def test_differences_are_allowed_by_id_or_by_part() -> None:
    """A list names them whole or by the part of the configuration; what does not occur is told, too."""
    report = engine_differences([captured("off")], [captured("ngram_k4")], varies=SPECULATION)
    allowed = [MIN_P, "parallel_config", "scheduler_config.max_num", "speculative_config"]

    assert [found.id for found in report.unlisted(allowed)] == [BUDGET]
    assert report.unused(allowed) == ("scheduler_config.max_num", "speculative_config")


@pytest.mark.parametrize(
    ("leaves", "words"),
    [
        ({}, "none"),
        ({"num_speculative_tokens": 3, "method": "eagle3", "model": "/m/Draft-1B/"}, "eagle3, k=3, model Draft-1B"),
        ({"num_speculative_tokens": 1, "method": "mtp", "model": None}, "mtp, k=1"),
        ({"num_speculative_tokens": 1, "method": None, "model": "ngram"}, "ngram, k=1, lookup None..None"),
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
