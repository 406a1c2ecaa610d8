"""A fresh server is the arm that was declared, or says in what it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.errors import ScrapeError
from pytest_specgate.core.proof import proofs_of_state, speculation_of, unproved
from pytest_specgate.core.resolved import flattened
from pytest_specgate.core.stored import Failure

if TYPE_CHECKING:
    from pytest_specgate.core.counters import CounterPage
    from tests.core.conftest import Build, Captured

SPECULATION = (counters.DRAFTS, counters.DRAFT_TOKENS, counters.ACCEPTED_TOKENS)


def _page(build: type[Build], *, positions: int = 0, model: str = "tiny") -> CounterPage:
    """Return the page of a fresh server with a number of draft positions."""
    values = {counters.GENERATION_TOKENS: 0.0}
    if positions:
        values |= dict.fromkeys(SPECULATION, 0.0)
    return build.page(values, positions=(0,) * positions, finished={}, model=model)


def _resolved(k: int | None) -> Any:
    return None if k is None else {"method": "ngram", "num_speculative_tokens": k}


def _told(speculation: Any) -> dict[str, Any]:
    """Return what a server tells of its resolved configuration, as it is kept."""
    return flattened({"speculative_config": speculation})


def _problem(build: type[Build], declared: dict[str, Any], resolved: dict[str, Any], *, counted: int = 4) -> str | None:
    """Return what is said of an arm `x` whose server resolved a configuration and counts some positions."""
    arm = build.arm().vary("x", args={"speculative_config": declared})
    seen = unproved(arm, config=_told(resolved), page=_page(build, positions=counted), model="tiny")
    assert seen is None or seen.reason == "arm-not-as-declared"
    return None if seen is None else seen.message


@pytest.mark.parametrize("k", [None, 4, 7])
def test_an_arm_as_declared_is_proved(build: type[Build], k: int | None) -> None:
    """A server that resolved and counts what was declared raises no doubt."""
    page = _page(build, positions=k or 0)

    assert unproved(build.arm(k), config=_told(_resolved(k)), page=page, model="tiny") is None


DATA = Path(__file__).parent / "data"
DIFFERENT = (("prompt_lookup_max=5", "prompt_lookup_max=7"), ("prompt_lookup_min=2", "prompt_lookup_min=1"))
RUNS = "arm off: no speculation is declared, but the server runs it: "


@pytest.mark.parametrize(
    ("declared", "resolved", "counted", "problem"),
    [
        (4, None, 0, "arm k4: speculation is declared, but the server resolved none"),
        (4, None, 4, "arm k4: speculation is declared, but the server resolved none"),
        (
            4,
            7,
            7,
            "arm k4: num_speculative_tokens=4 is declared, but the server resolved num_speculative_tokens=7",
        ),
        (4, 4, 7, "arm k4: the server resolved k=4, but counts 7 draft positions"),
        (4, 4, 0, "arm k4: the server resolved k=4, but counts 0 draft positions"),
        (None, 4, 4, f"{RUNS}ngram, k=4"),
        (None, 4, 0, f"{RUNS}ngram, k=4"),
        (None, None, 2, "arm off: no speculation is declared, but the server counts drafts"),
    ],
)
def test_an_arm_that_is_not_as_declared(
    build: type[Build], *, declared: int | None, resolved: int | None, counted: int, problem: str
) -> None:
    """What the server resolved and what it counts must both be the declaration, in either direction."""
    page = _page(build, positions=counted)

    seen = unproved(build.arm(declared), config=_told(_resolved(resolved)), page=page, model="tiny")

    assert seen == Failure(reason="arm-not-as-declared", message=problem)


@pytest.mark.parametrize("declared", [4, None])
@pytest.mark.parametrize("config", ["ngram", [{"num_speculative_tokens": 4}], 4, True])
def test_a_resolved_configuration_of_another_form_proves_nothing(
    build: type[Build], config: Any, declared: int | None
) -> None:
    """What the server says of its speculation in a form that cannot be compared proves neither on nor off."""
    arm = build.arm(declared)

    seen = unproved(arm, config=_told(config), page=_page(build, positions=declared or 0), model="tiny")

    assert seen is not None
    assert seen.message == f"arm {arm.name}: the server says of its speculation only {config!r}"


def test_case_53_section_b_of_another_model(build: type[Build], captured: type[Captured]) -> None:
    """Case 53: a page of `other` where Qwen/Qwen3-0.6B is expected is named with both, and the arm is not proved."""
    page = captured.page("sample_b")
    other = [
        one.model_copy(update={"labels": {**one.labels, "model_name": "other"}}) if "model_name" in one.labels else one
        for one in page.samples
    ]
    pages = page, page.model_copy(update={"samples": tuple(other)})

    ours, theirs = (
        unproved(build.arm(4), config=_told(_resolved(4)), page=seen, model="Qwen/Qwen3-0.6B") for seen in pages
    )

    assert ours is None
    words = "arm k4: the server counts for model other, not for Qwen/Qwen3-0.6B"
    assert theirs == Failure(reason="arm-not-as-declared", message=words)


def test_case_53_somebody_elses_model(build: type[Build]) -> None:
    """Case 53: a page that counts for another model is not our server's, and both names are said."""
    page = _page(build, positions=4, model="other")

    seen = unproved(build.arm(4), config=_told(_resolved(4)), page=page, model="tiny")

    assert seen is not None
    assert seen.message == "arm k4: the server counts for model other, not for tiny"


def test_an_arm_that_declares_no_horizon_takes_the_servers(build: type[Build]) -> None:
    """Where an arm leaves k to the server, any k proves it that the server also counts, and no other."""
    declared, resolved = {"method": "mtp"}, {"method": "mtp", "num_speculative_tokens": 3}

    assert _problem(build, declared, resolved, counted=3) is None
    assert _problem(build, declared, resolved, counted=2) == (
        "arm x: the server resolved k=3, but counts 2 draft positions"
    )


def test_a_server_that_resolves_no_horizon_proves_nothing(build: type[Build]) -> None:
    """A configuration without k agrees with no number of counted positions, 0 included."""
    for counted in (0, 4):
        assert _problem(
            build, {"method": "ngram", "num_speculative_tokens": 4}, {"method": "ngram"}, counted=counted
        ) == (f"arm x: the server resolved k=None, but counts {counted} draft positions")


@pytest.mark.parametrize(
    ("name", "declared", "resolved"),
    [
        ("method", "ngram", "eagle"),
        ("method", "eagle", "eagle3"),
        ("method", "mtp", "ngram"),
        ("method", "deepseek_mtp", "eagle"),
        ("method", "[ngram]", "suffix"),
        ("method", "ngram", None),
        ("model", "drafts/eagle", "ngram"),
        ("model", "drafts/eagle", "drafts/other"),
        ("model", "drafts/eagle", None),
        ("model", "a/eagle", "/cache/models--b--eagle3/snapshots/1"),
        ("prompt_lookup_max", 5, 4),
        ("prompt_lookup_min", 2, 2.5),
        ("disable_padded_drafter_batch", True, False),
        ("disable_padded_drafter_batch", True, 1),
        ("rejection_sample_method", "[a]", "a"),
        ("rejection_sample_method", "a_mtp", "mtp"),
        ("attention_backend", "FLASH_ATTN", None),
        ("synthetic_acceptance_length", 2.5, None),
        ("draft_tensor_parallel_size", 2, None),
    ],
)
def test_every_declared_key_is_compared(build: type[Build], *, name: str, declared: Any, resolved: Any) -> None:
    """A key of the speculative configuration that the server resolved to another value is named with both."""
    common = {"num_speculative_tokens": 4}

    seen = _problem(build, {**common, name: declared}, {**common, name: resolved})

    assert seen == f"arm x: {name}={declared!r} is declared, but the server resolved {name}={resolved!r}"


def test_parts_of_a_declared_mapping_are_compared(build: type[Build]) -> None:
    """A mapping inside the speculative configuration is compared part by part; the server fills in the rest."""
    common = {"num_speculative_tokens": 4}
    declared = {**common, "draft_load_config": {"load_format": "dummy", "order": [1, 2]}}
    told = {**common, "draft_load_config": {"load_format": "dummy", "order": [2, 1], "device": None}}
    text = "draft_load_config.order=[1, 2] is declared, but the server resolved draft_load_config.order=[2, 1]"

    assert _problem(build, declared, told) == f"arm x: {text}"


def test_a_part_that_is_a_copy_of_the_targets_is_compared_there(build: type[Build]) -> None:
    """A draft's way of loading that equals the target's is kept as its name, and proved or disproved all the same."""
    loading: dict[str, Any] = {"load_format": "dummy", "device": None}
    config = flattened(
        {"load_config": loading, "speculative_config": {"num_speculative_tokens": 4, "draft_load_config": loading}}
    )

    def seen(load_format: str) -> Failure | None:
        declared = {"num_speculative_tokens": 4, "draft_load_config": {"load_format": load_format}}
        arm = build.arm().vary("x", args={"max_model_len": None, "speculative_config": declared})
        return unproved(arm, config=config, page=_page(build, positions=4), model="tiny")

    assert config["speculative_config.draft_load_config"] == "(as load_config)"
    assert seen("dummy") is None
    assert "load_format='gguf' is declared, but the server resolved load_config.load_format='dummy'" in str(
        seen("gguf")
    )


@pytest.mark.parametrize(
    ("declared", "resolved", "told"),
    [
        ({"model": "drafts/eagle"}, {"method": "ngram", "model": "ngram"}, "model='drafts/eagle' is declared, but"),
        ({"method": "eagle3"}, {"method": "draft_model", "model": "x"}, "method='eagle3' is declared, but"),
        ({"method": "eagle3", "model": "drafts/eagle"}, {"method": "eagle3", "model": "/srv/drafts/eagle"}, None),
        ({"model": "embedded:Tiny"}, {"method": "draft_model", "model": "/cache/models/Tiny"}, None),
        ({"model": "embedded:Tiny"}, {"method": "draft_model", "model": "/cache/models/Large"}, "'embedded:Tiny' is"),
        ({"method": "ngram", "model": "whatever"}, {"method": "ngram", "model": "ngram"}, None),
        ({"model": "[ngram]"}, {"method": "ngram", "model": "[ngram]"}, None),
    ],
)
def test_a_draft_that_runs_something_else_is_no_proof(
    build: type[Build], *, declared: dict[str, Any], resolved: dict[str, Any], told: str | None
) -> None:
    """A declared draft model must be there, by the last part of its path; n-gram look-up loads none."""
    k = {"num_speculative_tokens": 4}

    seen = _problem(build, {**k, **declared}, {**k, **resolved})

    assert seen is None if told is None else told in str(seen)


def test_what_a_server_does_not_tell_of_its_speculation_is_listed(build: type[Build]) -> None:
    """A declared method, model or setting that does not stand there is no disproof, but it is not proved either."""
    k = {"num_speculative_tokens": 4}
    speculation: dict[str, Any] = {**k, "method": "eagle3", "model": "drafts/eagle", "not_a_setting": 7}

    assert _problem(build, speculation, k) is None
    assert [proof.argument for proof in proofs_of_state("unproved", {"speculative_config": speculation}, _told(k))] == [
        f"speculative_config.{name}" for name in ("method", "model", "not_a_setting")
    ]


@pytest.mark.parametrize(
    ("name", "declared", "resolved"),
    [
        ("model", "drafts/tiny", "/srv/drafts/tiny"),
        ("method", "[ngram]", "ngram"),
        ("method", "ngram", "[ngram]"),
        ("method", "deepseek_mtp", "mtp"),
        ("method", "mtp", "mtp"),
        ("prompt_lookup_max", 5, 5.0),
        ("prompt_lookup_max", "5", 5),
        ("moe", {"a": 1, "b": [True]}, {"b": [True], "a": 1}),
        ("moe", {"a": 1}, {"a": 1, "b": 2}),
        ("draft_tensor_parallel_size", None, None),
        ("draft_tensor_parallel_size", None, 1),
        ("method", None, "ngram"),
        ("model", "org/tiny", "/cache/models--org--tiny/snapshots/0"),
        ("moe_backend", "Flashinfer-Cutlass", "flashinfer_cutlass"),
        ("attention_backend", "FLASH_ATTN", "vllm.v1.attention.backends.flash_attn.FlashAttentionBackend"),
    ],
)
def test_other_spellings_of_one_value_agree(build: type[Build], *, name: str, declared: Any, resolved: Any) -> None:
    """The draft model's place, aliases of a method and numbers of one value are no difference."""
    common = {"num_speculative_tokens": 4}

    assert _problem(build, {**common, name: declared}, {**common, name: resolved}) is None


def test_what_the_server_adds_or_leaves_out_is_no_difference(build: type[Build]) -> None:
    """Defaults that the server filled in are not declared, and a key that it does not show cannot be compared."""
    declared = {"num_speculative_tokens": 4, "prompt_lookup_max": 5}
    resolved = {"num_speculative_tokens": 4, "method": "ngram", "prompt_lookup_min": 2}

    assert _problem(build, declared, resolved) is None


@pytest.mark.parametrize(("rates", "proved"), [([1.0, 0.65, 0.0, 0.0], True), ([1.0, 0.5, 0.0, 0.0], False)])
def test_a_synthetic_length_is_proved_by_its_rates(build: type[Build], rates: list[float], *, proved: bool) -> None:
    """The engine replaces an acceptance length by rates by position, whose sum is that length less one."""
    common = {"num_speculative_tokens": 4, "rejection_sample_method": "synthetic"}
    told = {**common, "synthetic_acceptance_rates": rates, "synthetic_acceptance_length": None}

    seen = _problem(build, {**common, "synthetic_acceptance_length": 2.65}, told)

    assert (seen is None) == proved


def test_an_arm_without_speculation_has_no_series_of_it(build: type[Build]) -> None:
    """Any series of speculation says that it is on, whether or not positions are counted or anything else is told."""
    off, on = build.arm(), build.arm(4)
    values = {counters.GENERATION_TOKENS: 0.0, counters.DRAFTS: 0.0}
    page = build.page(values, finished={})

    for config in (_told(None), None):
        seen = unproved(off, config=config, page=page, model="tiny")
        assert seen is not None
        assert seen.message == "arm off: no speculation is declared, but the server counts drafts"
    assert unproved(on, config=None, page=_page(build, positions=4), model="tiny") is None
    assert "counts 0 draft positions" in str(unproved(on, config=None, page=page, model="tiny"))
    assert "counts no drafts" in str(unproved(on, config=None, page=_page(build), model="tiny"))


def test_counters_without_a_name_are_not_those_of_a_launched_server(build: type[Build]) -> None:
    """A server that was started for the window counts under the name it was given; of an attached one nobody knows."""
    named = _page(build)
    bare = [sample.model_copy(update={"labels": {"engine": "0"}}) for sample in named.samples]
    page = named.model_copy(update={"samples": tuple(bare)})
    arm, config = build.arm(), _told(None)

    seen = unproved(arm, config=config, page=page, model="tiny")

    assert seen is not None
    assert seen.message == (
        "arm off: the counters of the server name no model, so nobody can say that they are those of tiny"
    )
    assert unproved(arm, config=config, page=page, model="tiny", launched=False) is None


@pytest.mark.parametrize("name", ["ngram_k4", "ngram_k7"])
def test_what_runs_undeclared_is_told_in_few_words(build: type[Build], name: str) -> None:
    """The real configuration of speculation has eight thousand characters; a sentence has method and k."""
    page = json.loads((DATA / f"{name}_server_info.json").read_text())
    arm = build.arm().vary("off", args={"max_model_len": None})

    seen = unproved(arm, config=flattened(page["vllm_config"]), page=_page(build, positions=4), model="tiny")

    assert seen is not None
    assert seen.message == f"{RUNS}ngram, k={name[-1]}"


@pytest.mark.parametrize(
    ("speculation", "words"),
    [
        ({"method": "eagle"}, "eagle"),
        ({"model": "/srv/drafts/tiny/", "num_speculative_tokens": 2}, "tiny, k=2"),
        ({"num_speculative_tokens": 2}, "a method that it does not tell, k=2"),
        ({}, "a method that it does not tell"),
    ],
)
def test_speculation_in_few_words(build: type[Build], speculation: dict[str, Any], words: str) -> None:
    """Method, else the model by its last name, and k as far as the server tells them."""
    seen = unproved(build.arm(), config=_told(speculation), page=_page(build), model="tiny")

    assert seen is not None
    assert seen.message == f"{RUNS}{words}"


@pytest.mark.parametrize(
    ("speculation", "kept"),
    [
        (None, None),
        ("ngram", "ngram"),
        (
            {"method": "ngram", "num_speculative_tokens": 4, "model": None, "target_model_config": {"hf_token": "x"}},
            {"method": "ngram", "num_speculative_tokens": 4, "model": None},
        ),
    ],
)
def test_what_is_kept_of_a_resolved_speculation(speculation: Any, kept: Any) -> None:
    """Method, model and k; nothing of the two models' own configurations."""
    assert speculation_of(_told(speculation)) == kept


def test_all_keys_that_differ_are_named(build: type[Build]) -> None:
    """Of several keys that differ all are named, in the order of their declaration, those that agree are not."""
    declared = {"num_speculative_tokens": 4, "method": "ngram", "prompt_lookup_max": 5, "prompt_lookup_min": 2}

    seen = _problem(build, declared, {**declared, "prompt_lookup_min": 1, "prompt_lookup_max": 7})

    texts = (f"{name} is declared, but the server resolved {told}" for name, told in DIFFERENT)
    assert seen == f"arm x: {'; '.join(texts)}"


def test_positions_that_are_no_numbers_are_unreadable(build: type[Build]) -> None:
    """A page whose draft positions cannot be read proves no arm; the error is the page's."""
    samples = _page(build, positions=1).samples
    odd = [sample.model_copy(update={"labels": {**sample.labels, "position": "x"}}) for sample in samples]
    page = _page(build).model_copy(update={"samples": tuple(odd)})

    with pytest.raises(ScrapeError, match="draft positions that are no numbers"):
        unproved(build.arm(1), config=_told(_resolved(1)), page=page, model="tiny")
