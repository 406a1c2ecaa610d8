"""Which machines are of one class, and what has changed on one between two readings."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from pytest_specgate.core import hosts
from pytest_specgate.core.hosts import (
    Fact,
    describe,
    drift,
    facts_of,
    failed,
    host_class,
    inapplicable,
    known,
    stored,
    troubles,
    unknown,
)

GPU_HOST: dict[str, Any] = {
    "cpu_model": "Intel(R) Xeon(R) Platinum 8480C",
    "cpus": 16,
    "cpus_usable": 8,
    "memory_bytes": 128 * 2**30,
    "kernel": "6.8.0",
    "gpus": ["NVIDIA H200"],
    "gpu_driver": "570.86",
    "gpu_memory_bytes": [150_754_820_096],
    "gpu_power_limit_w": [700],
    "gpu_ecc": {"state": "not applicable", "why": "not supported"},
    "cpu_mhz": 3000,
    "hostname": "runner-1",
    "load_1m": 0.2,
    "memory_free_bytes": 100 * 2**30,
}
REST = "8 of 16 CPUs Intel(R) Xeon(R) Platinum 8480C; 128 GiB memory; kernel 6.8.0"
CPU_HOST: dict[str, Any] = {
    "cpu_model": "AMD EPYC 7763 64-Core Processor",
    "cpus": 4,
    "cpus_usable": 2,
    "gpus": {"state": "not applicable", "why": "no NVIDIA driver"},
}


def changed(**changes: Any) -> dict[str, Fact]:
    """Return the facts of the GPU host with changes."""
    return facts_of({**GPU_HOST, **changes})


def test_the_name_of_a_class_is_readable() -> None:
    """The devices by name and number, then what tells classes of the same devices apart."""
    assert re.fullmatch(r"h200x1-[0-9a-f]{8}", host_class(facts_of(GPU_HOST)))
    assert re.fullmatch(r"cpu-epyc-7763-2c-[0-9a-f]{8}", host_class(facts_of(CPU_HOST)))


@pytest.mark.parametrize(
    ("gpus", "start"),
    [
        (["NVIDIA A100-SXM4-80GB"] * 8, "a100-sxm4-80gbx8-"),
        (["NVIDIA GeForce RTX 4090", "Tesla T4", "Tesla T4"], "rtx-4090x1-t4x2-"),
        (["../../NVIDIA"], "unknownx1-"),
        (["GPU/" + "x" * 99], "gpu-xxxxxxxxxxxxxxxxxxxxxxxxxxxxx1-"),
    ],
)
def test_any_device_makes_a_folder_name(gpus: list[str], start: str) -> None:
    """Short, and without anything that a file system or a shell would stumble over."""
    name = host_class(changed(gpus=gpus))

    assert name.startswith(start)
    assert re.fullmatch(r"[a-z0-9][a-z0-9.-]+", name)


@pytest.mark.parametrize(
    ("facts", "start"),
    [
        ({}, "cpu-unknown-somec-"),
        ({"cpu_model": "Intel(R) Xeon(R) CPU @ 2.20GHz", "cpus_usable": 2, "gpus": []}, "cpu-xeon-2c-"),
        ({"cpu_model": None, "cpus_usable": None}, "cpu-unknown-somec-"),
    ],
)
def test_a_machine_that_tells_little_has_a_name_too(facts: dict[str, Any], start: str) -> None:
    """What is not known is said in the name."""
    assert host_class(facts_of(facts)).startswith(start)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cpu_mhz", 2996),
        ("hostname", "runner-2"),
        ("memory_free_bytes", 2**30),
        ("load_1m", 7.5),
        ("gpu_temperatures_c", [81]),
        ("gpu_throttling", ["power cap"]),
        ("gpu_processes", [2]),
        ("gpu_devices", ["1"]),
        ("gpu_reader", "nvidia-smi"),
        ("gpu_throttled_s", [{"power": 3.5}]),
        ("fact_of_a_later_version", 1),
        ("memory_bytes", 128 * 2**30 - 2**20),
    ],
)
def test_case_87_volatile_facts_do_not_make_another_class(name: str, value: Any) -> None:
    """Case 87: clock, host name, free memory and load are recorded, never compared; sizes count in GiB."""
    facts = changed(**{name: value})

    assert host_class(facts) == host_class(facts_of(GPU_HOST))
    assert drift(facts_of(GPU_HOST), facts) == ()
    assert facts[name].value == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cpu_model", "Intel(R) Xeon(R) Platinum 8490H"),
        ("cpus_usable", 16),
        ("memory_bytes", 64 * 2**30),
        ("kernel", "6.8.1"),
        ("gpus", ["NVIDIA H200", "NVIDIA H200"]),
        ("gpu_driver", "580.1"),
        ("gpu_power_limit_w", [350]),
        ("gpu_memory_bytes", [85_899_345_920]),
        ("gpu_ecc", [True]),
        ("gpu_driver", {"state": "error", "why": "driver lost"}),
        ("gpu_driver", None),
    ],
    ids=["cpu", "usable", "memory", "kernel", "gpus", "driver", "power", "gpu-memory", "ecc", "error", "unknown"],
)
def test_case_87_a_stable_fact_makes_another_class_and_is_drift(name: str, value: Any) -> None:
    """Case 87, variant: another CPU model is another machine; within a window any change is drift."""
    facts = changed(**{name: value})

    assert host_class(facts) != host_class(facts_of(GPU_HOST))
    assert [found.name for found in drift(facts_of(GPU_HOST), facts)] == [name]


def test_case_87_the_engine_is_no_part_of_the_class() -> None:
    """Case 87, variant: a version of vLLM is a build, and baselines cross builds."""
    facts = changed(vllm="0.33.0", image_digest="sha256:1", torch="2.14")

    assert host_class(facts) == host_class(facts_of(GPU_HOST))


def test_the_order_of_facts_does_not_matter() -> None:
    """A class is a set of facts."""
    assert host_class(facts_of(dict(reversed(GPU_HOST.items())))) == host_class(facts_of(GPU_HOST))


def test_a_reason_does_not_make_another_class() -> None:
    """Two machines that cannot tell a fact are alike in it, whatever they say about it."""
    one, two = (changed(gpu_ecc={"state": "error", "why": why}) for why in ("timeout", "no permission"))

    assert host_class(one) == host_class(two)


def test_drift_says_what_happened() -> None:
    """Both values, and why there is none any more."""
    one = drift(facts_of(GPU_HOST), changed(gpu_power_limit_w=[500]))
    two = drift(facts_of(GPU_HOST), changed(gpus={"state": "error", "why": "GPU is lost"}))

    assert [found.sentence for found in one] == ["gpu_power_limit_w was 700, and is now 500"]
    assert [found.sentence for found in two] == ["gpus was NVIDIA H200, and is now error (GPU is lost)"]


def test_a_fact_that_is_no_longer_read_is_drift() -> None:
    """A GPU that vanished takes its facts along."""
    after = {name: fact for name, fact in facts_of(GPU_HOST).items() if name != "gpu_driver"}

    assert [found.sentence for found in drift(facts_of(GPU_HOST), after)] == [
        "gpu_driver was 570.86, and is now unknown (not read)"
    ]


@pytest.mark.parametrize("state", ["unknown", "error", "not applicable"])
def test_a_fact_that_only_the_second_reading_has_is_drift(state: str) -> None:
    """Nobody knows what it was: a first reading that failed must not switch the comparison off."""
    before = changed(gpu_ecc={"state": state, "why": "timed out"})

    assert [found.sentence for found in drift(before, changed(gpu_ecc=[True]))] == [
        f"gpu_ecc was {state} (timed out), and is now True"
    ]
    assert drift(before, before) == ()


def test_a_fact_that_appears_is_drift() -> None:
    """A GPU that was not there brings its facts along."""
    before = {name: fact for name, fact in facts_of(GPU_HOST).items() if name != "gpu_driver"}

    assert [found.sentence for found in drift(before, facts_of(GPU_HOST))] == [
        "gpu_driver was unknown (not read), and is now 570.86"
    ]
    assert drift({}, facts_of({"hostname": "runner-1"})) == ()


def test_facts_survive_being_stored() -> None:
    """Values stand in a record as they are, everything else with its state."""
    facts = {
        "cpus": known(2),
        "gpus": inapplicable("no NVIDIA driver"),
        "kernel": unknown(),
        "gpu_ecc": failed("no permission"),
        "hostname": Fact("value", "a", stable=False),
        "odd": Fact("value", {"state": "solid"}, stable=False),
    }
    record = stored(facts)

    assert record["cpus"] == 2
    assert facts_of(json.loads(json.dumps(record))) == facts


def test_no_fact_is_both_stable_and_volatile() -> None:
    """Both lists are sorted, so that a reader finds a name."""
    assert not set(hosts.STABLE) & set(hosts.VOLATILE)
    assert list(hosts.STABLE) == sorted(hosts.STABLE)
    assert list(hosts.VOLATILE) == sorted(hosts.VOLATILE)


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (
            GPU_HOST,
            f"1 x NVIDIA H200; power limit 700 W; driver 570.86; {REST}",
        ),
        (
            {**GPU_HOST, "gpus": ["A", "B", "A"], "gpu_power_limit_w": [300, 400, 300]},
            f"2 x A, 1 x B; power limit 300, 400 W; driver 570.86; {REST}",
        ),
        (CPU_HOST, "2 of 4 CPUs AMD EPYC 7763 64-Core Processor; unknown memory; kernel unknown"),
        (
            {"gpus": {"state": "error", "why": "driver lost"}},
            "GPUs error (driver lost); unknown of unknown CPUs unknown; unknown memory; kernel unknown",
        ),
    ],
    ids=["gpu", "mixed", "cpu", "lost"],
)  # fmt: skip
def test_a_machine_in_one_line(facts: dict[str, Any], line: str) -> None:
    """Devices, what limits them, and what is not known."""
    assert describe(facts_of(facts)) == line


def test_troubles_are_named() -> None:
    """Throttled and shared devices, and facts that could not be read."""
    facts = changed(
        gpu_throttling=["", "power cap, hardware thermal slowdown"],
        gpu_processes=[3, 0],
        gpu_ecc={"state": "error", "why": "no permission"},
    )

    assert troubles(facts) == (
        "GPU 1 is throttled: power cap, hardware thermal slowdown",
        "GPU 0 is in use by other processes (3)",
        "gpu_ecc could not be read: no permission",
    )
    assert troubles(facts_of(GPU_HOST)) == ()


def test_troubles_name_devices_as_their_job_does() -> None:
    """A job beside others has not the first device of its machine."""
    facts = changed(
        gpus=["NVIDIA H200"] * 2,
        gpu_devices=["3", "GPU-12ab"],
        gpu_throttling=["power brake", ""],
        gpu_processes=[0, 1],
    )

    assert troubles(facts) == ("GPU 3 is throttled: power brake", "GPU-12ab is in use by other processes (1)")


def test_clocks_that_were_held_down_under_load_are_a_trouble() -> None:
    """For a second or more, by whatever reason; how long exactly is in the record, so that the line is said once."""
    facts = changed(
        gpu_throttled_s=[{"power": 2.5, "temperature": 0.9}, {"power": 1.0, "temperature": 61.0}, {"power": 0.0}]
    )

    assert troubles(facts) == (
        "GPU 0 was throttled while it worked: power",
        "GPU 1 was throttled while it worked: power, temperature",
    )
    assert troubles(changed(gpu_throttled_s=["odd", {"power": "odd"}])) == ()
