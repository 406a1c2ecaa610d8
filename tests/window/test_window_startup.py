"""What a window keeps of the start of every server, and what it refuses because of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core import judge, proof, validity
from pytest_specgate.core.confounds import contradicted_of, starts_of, unproved_of
from pytest_specgate.core.hosts import known, stored
from tests.window.conftest import Boot

if TYPE_CHECKING:
    from pydantic import JsonValue

    from pytest_specgate.core.counters import CounterPage
    from tests.window.conftest import Declare, World


def test_every_boot_keeps_its_start_the_first_one_whole(world: World, declare: type[Declare]) -> None:
    """The first boot stores configuration and log, the others what differs; read again, all are whole."""
    record = world.measure(declare.pair(None, 4, rounds=2))
    sizes = [len(boot.startup.config) for boot in record.boots if boot.startup is not None]
    starts = starts_of(record)

    assert len(sizes) == len(record.boots) == 4
    assert starts["off", 1] == starts["off", 2]
    assert starts["k4", 1].config["speculative_config.num_speculative_tokens"] == 4
    assert list(starts["off", 1].lines) == ["INFO [x.py] Application startup complete."]


def test_an_argument_that_was_resolved_otherwise_stops_the_boot(world: World, declare: type[Declare]) -> None:
    """An arm whose server runs with another value than declared is not measured, and both values are named."""
    world.config = {"model_config": {"max_model_len": 32}}
    plain = declare.pair(None, 4, rounds=2)
    arms = [arm.vary(arm.name, args={"max_model_len": 64}) for arm in plain.arms]
    record = world.measure(dataclasses.replace(plain, reference=arms[0], candidate=arms[1]))
    failure = record.boots[0].failure

    assert failure is not None
    assert failure.reason == proof.NOT_AS_DECLARED
    assert "max_model_len" in failure.message
    assert "64" in failure.message
    assert "32" in failure.message
    assert record.boots[0].points == ()


def test_secrets_that_a_server_tells_are_stored_nowhere(world: World, declare: type[Declare]) -> None:
    """A token of the hub stands in every model's configuration that a server tells: the record has none of them."""
    model: dict[str, JsonValue] = {"hf_token": "topsecretvalue", "max_model_len": 64}
    speculation: dict[str, JsonValue] = {
        "method": "ngram", "num_speculative_tokens": 4, "model": "https://me:topsecretvalue@host/x",
        "target_model_config": model, "draft_model_config": {**model, "max_model_len": 32},
    }  # fmt: skip
    world.config = {"model_config": model}
    world.resolved = {"k4": speculation}
    record = world.measure(declare.pair(None, 4, rounds=1))
    world.resolved = {"off": speculation}
    lying = world.measure(declare.pair(None, 4, rounds=1))
    [off], [k4] = lying.boots_of("off"), record.boots_of("k4")

    assert off.failure is not None
    assert off.failure.message == "arm off: no speculation is declared, but the server runs it: ngram, k=4"
    assert k4.failure is None
    assert k4.resolved["speculative_config"] == {
        "method": "ngram", "num_speculative_tokens": 4, "model": "https://[redacted]@host/x",
    }  # fmt: skip
    assert "topsecretvalue" not in record.model_dump_json() + lying.model_dump_json()
    assert [line for line in world.told if "topsecretvalue" in line] == []


@pytest.mark.parametrize("told", [{"value": "abcsecret"}, ["abcsecret"], {"a": [{"b": "abcsecret"}]}])
def test_a_secret_deep_inside_is_stored_nowhere(world: World, declare: type[Declare], told: JsonValue) -> None:
    """What lies inside a mapping that is called a secret stays one when the configuration is made flat."""
    connector: dict[str, JsonValue] = {"kv_connector": "X", "kv_connector_extra_config": {"api_key": told}}
    plain = declare.pair(None, 4, rounds=1)
    arms = [arm.vary(arm.name, args={"kv_transfer_config": connector}) for arm in plain.arms]
    world.config = {"kv_transfer_config": connector}
    record = world.measure(dataclasses.replace(plain, reference=arms[0], candidate=arms[1]))

    assert [boot.failure for boot in record.boots] == [None, None]
    assert "abcsecret" not in record.model_dump_json()


def test_secrets_of_an_arm_stay_out_of_the_sentence_that_disproves_it(world: World, declare: type[Declare]) -> None:
    """Declared and resolved values are told without what is secret in them."""
    plain = declare.pair(None, 4, rounds=1)
    args = {"generation_config": "https://me:hunter2@host/one"}
    arms = [arm.vary(arm.name, args=args) for arm in plain.arms]
    world.config = {"model_config": {"generation_config": "https://me:hunter3@host/two", "max_model_len": 64}}
    record = world.measure(dataclasses.replace(plain, reference=arms[0], candidate=arms[1]))
    failure = record.boots[0].failure

    assert failure is not None
    assert failure.message == (
        "arm off: generation_config='https://[redacted]@host/one' is declared, but the server resolved "
        "model_config.generation_config='https://[redacted]@host/two'"
    )
    assert "hunter" not in record.model_dump_json()


def test_what_a_server_tells_otherwise_is_found_in_the_record(world: World, declare: type[Declare]) -> None:
    """An argument in the server's own words stops nothing; both values can be shown, and what is not told by name."""
    plain = declare.pair(None, 4, rounds=1)
    args: dict[str, JsonValue] = {"attention_backend": "FLASH_ATTN", "max_model_len": None, "some_new_flag": 3}
    arms = [arm.vary(arm.name, args=args) for arm in plain.arms]
    world.config = {"attention_config": {"backend": None}}
    record = world.measure(dataclasses.replace(plain, reference=arms[0], candidate=arms[1]))
    contrast = "declared attention_backend=FLASH_ATTN, the server says attention_config.backend=none"

    assert [boot.failure for boot in record.boots] == [None, None]
    assert [contradicted_of(arm, record) for arm in arms] == [(contrast,)] * 2
    assert [unproved_of(arm, record) for arm in arms] == [("some_new_flag",)] * 2
    assert contradicted_of(arms[0], record.model_copy(update={"boots": ()})) == ()


@pytest.mark.parametrize("attached", [True, False])
def test_counters_that_name_no_model(
    world: World, declare: type[Declare], monkeypatch: pytest.MonkeyPatch, *, attached: bool
) -> None:
    """They are not those of a server that was started here; of an attached one they are taken, and it is said."""
    world.attached = attached
    monkeypatch.setattr(Boot, "page", lambda boot, honest=Boot.page: without_model(honest(boot)))
    boot = world.measure(declare.pair(None, 4, rounds=1)).boots[0]

    if attached:
        assert boot.failure is None
        assert proof.UNNAMED in boot.unproved
    else:
        assert boot.failure is not None
        assert "the counters of the server name no model" in boot.failure.message


def without_model(page: CounterPage) -> CounterPage:
    """Return a page whose series name no model."""
    bare = [
        sample.model_copy(
            update={"labels": {name: label for name, label in sample.labels.items() if name != "model_name"}}
        )
        for sample in page.samples
    ]
    return page.model_copy(update={"samples": tuple(bare)})


def test_a_machine_that_changed_under_a_boot_is_no_measurement(world: World, declare: type[Declare]) -> None:
    """A stable fact that is another after the boot makes it INVALID; volatile ones may change."""
    pair = declare.pair(None, 4, rounds=2)
    boot = world.measure(pair).boots[0]
    before = stored({"gpu_driver": known("570"), "load_1m": known(0.1)})
    after = stored({"gpu_driver": known("580"), "load_1m": known(9.9)})
    drifted = boot.model_copy(update={"host_before": before, "host_after": after})
    steady = boot.model_copy(update={"host_before": before, "host_after": {**after, "gpu_driver": "570"}})

    found = validity.boot_problem(pair.reference, drifted, pair.profile)
    assert found is not None
    assert found.reason == "host-drift"
    assert "570" in found.message
    assert "580" in found.message
    assert validity.boot_problem(pair.reference, steady, pair.profile) is None


def test_a_machine_that_changed_between_two_boots_is_no_measurement(world: World, declare: type[Declare]) -> None:
    """What is stable must be the same for all boots that are compared, not only before and after each."""
    pair = declare.pair(None, 4, rounds=2)
    record = world.measure(pair)
    facts = [stored({"gpu_driver": known(driver)}) for driver in ("570", "570", "580", "580")]
    boots = [
        boot.model_copy(update={"host_before": fact, "host_after": fact})
        for boot, fact in zip(record.boots, facts, strict=True)
    ]
    problem = judge.pair_problem(pair, record.model_copy(update={"boots": tuple(boots)}))

    assert problem is not None
    assert problem.reason == "host-drift"
    assert problem.message == (
        "the machine changed between k4, round 1, and k4, round 2: gpu_driver was 570, and is now 580"
    )


def test_a_server_of_another_version_than_its_install_is_not_the_arm(declare: type[Declare]) -> None:
    """What answers must be what was installed for it; a local part of a version is no difference."""
    pair = declare.pair(None, 4)
    cases: tuple[tuple[dict[str, JsonValue], str | None], ...] = (
        ({"version": "0.32.0"}, "0.31.0"),
        ({"version": "0.32.0"}, "0.32.0+cpu"),
        ({"version": "0.32.1.dev3", "development": True}, "0.32.0"),
        ({"command": "serve"}, "0.31.0"),
        ({"version": "0.32.0"}, None),
    )
    seen = [proof.other_build(pair.reference, facts, version=version) for facts, version in cases]

    assert seen[1:] == [None] * 4
    assert seen[0] is not None
    assert seen[0].message == "arm off: the server says that it is vLLM 0.31.0, but 0.32.0 is installed for it"
