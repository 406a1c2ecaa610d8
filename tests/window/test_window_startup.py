"""What a window keeps of the start of every server, and what it refuses because of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.core import judge, proof, validity
from pytest_specgate.core.confounds import starts_of
from pytest_specgate.core.hosts import known, stored

if TYPE_CHECKING:
    from pydantic import JsonValue

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
