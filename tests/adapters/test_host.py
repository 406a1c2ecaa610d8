"""Facts about the machine, and CPU time that is not ours."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import httptools
import httpx
import psutil
import pytest

from pytest_specgate.adapters import host
from pytest_specgate.adapters.host import LocalHost
from pytest_specgate.core.hosts import (
    STABLE,
    VOLATILE,
    Fact,
    drift,
    facts_of,
    host_class,
    inapplicable,
    known,
)
from pytest_specgate.core.ports import CpuReading

if TYPE_CHECKING:
    from pathlib import Path


class Times(NamedTuple):
    """CPU times of the machine, in the order in which `psutil` gives them on Linux."""

    user: float = 100
    nice: float = 1
    system: float = 20
    idle: float = 9000
    iowait: float = 500
    irq: float = 2
    softirq: float = 3
    steal: float = 4
    guest: float = 30
    guest_nice: float = 1


def machine(root: Path, **files: str) -> LocalHost:
    """Return a machine whose file system has some files: ``__`` in a name is a slash, ``_dot_`` a dot."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return LocalHost(root=root, gpus=dict)


def fact(host_: LocalHost, name: str) -> Fact:
    """Return one fact."""
    return facts_of(host_.facts())[name]


def test_case_87_facts_are_told_apart_by_whether_they_change_by_themselves() -> None:
    """Case 87: clock, free memory, load and host name are recorded; two readings are of one class, without drift."""
    facts = facts_of(LocalHost().facts())
    again = facts_of(LocalHost().facts())

    assert {name for name, fact in facts.items() if not fact.stable} >= {
        "cpu_mhz", "hostname", "load_1m", "memory_free_bytes",
    }  # fmt: skip
    assert set(facts) <= {*STABLE, *VOLATILE}
    assert host_class(again) == host_class(facts)
    assert drift(facts, again) == ()


def test_facts_are_plain_json() -> None:
    """They go into the record as they are."""
    facts = LocalHost().facts()

    assert json.loads(json.dumps(facts, allow_nan=False)) == facts


def test_facts_are_the_machines() -> None:
    """Counts and sizes are those that other tools tell."""
    facts = LocalHost().facts()

    assert facts["cpus"] == os.cpu_count()
    assert facts["cpus_usable"] == len(os.sched_getaffinity(0))
    assert facts["memory_bytes"] == psutil.virtual_memory().total
    assert facts["kernel"] == os.uname().release


def test_facts_of_the_gpus_are_among_them() -> None:
    """They come from a reader of their own, under their own names."""
    facts = LocalHost(gpus=lambda: {"gpus": known(["NVIDIA H200"]), "gpu_throttling": known([""])}).facts()

    assert (facts["gpus"], facts["gpu_throttling"]) == (["NVIDIA H200"], [""])


def test_a_machine_without_the_driver_has_no_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the best reader there is is asked."""
    monkeypatch.setenv("PATH", str(tmp_path))

    assert fact(LocalHost(), "gpus") == inapplicable("no NVIDIA driver")


def test_names_are_read_where_linux_keeps_them(tmp_path: Path) -> None:
    """CPU model, distribution, frequency governor, hyper-threads, memory nodes."""
    host_ = machine(
        tmp_path,
        proc__cpuinfo="processor\t: 0\nmodel name\t: Some CPU\nmodel name\t: Other\n",
        **{"etc__os-release": 'NAME="x"\nPRETTY_NAME="Some Linux 12"\n'},
        sys__devices__system__cpu__cpu0__cpufreq__scaling_governor="performance\n",
        sys__devices__system__cpu__smt__active="1\n",
        sys__devices__system__node__online="0-1\n",
    )
    names = ("cpu_model", "os", "cpu_governor", "smt", "numa_nodes")

    assert [fact(host_, name).value for name in names] == ["Some CPU", "Some Linux 12", "performance", "1", "0-1"]


def test_what_a_machine_does_not_tell_is_not_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown where it must exist, not applicable where the machine may not have it."""
    monkeypatch.setattr(platform, "processor", lambda: "")
    host_ = machine(tmp_path)
    names = ("cpu_model", "os", "virtualisation", "cpu_governor", "smt", "numa_nodes")

    assert [fact(host_, name).state for name in names] == ["unknown"] * 3 + ["not applicable"] * 3


def test_a_cpu_that_linux_does_not_name_is_named_by_the_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other architectures have no model name in that file."""
    monkeypatch.setattr(platform, "processor", lambda: "riscv")

    assert fact(machine(tmp_path, proc__cpuinfo="isa: rv64\n"), "cpu_model").value == "riscv"


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        ({"proc__cpuinfo": "flags : fpu\n"}, "none found"),
        ({"proc__cpuinfo": "flags : fpu hypervisor sse\n"}, "virtual machine"),
        (
            {
                "proc__cpuinfo": "flags : hypervisor\n",
                "sys__class__dmi__id__product_name": "KVM\n",
                "_dot_dockerenv": "",
            },
            "container on virtual machine (KVM)",
        ),
        ({"proc__cpuinfo": "", "run___dot_containerenv": ""}, "container"),
    ],
)
def test_virtualisation_is_a_hint(tmp_path: Path, files: dict[str, str], hint: str) -> None:
    """Containers by their marks, virtual machines by the CPU's flag."""
    assert fact(machine(tmp_path, **files), "virtualisation").value == hint


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({"proc__self__cgroup": "0::/a/b\n", "sys__fs__cgroup__a__b__cpu_dot_max": "150000 100000\n"}, 1.5),
        (
            {
                "proc__self__cgroup": "0::/a/b\n",
                "sys__fs__cgroup__a__b__cpu_dot_max": "max 100000\n",
                "sys__fs__cgroup__a__cpu_dot_max": "200000 100000\n",
                "sys__fs__cgroup__cpu_dot_max": "300000 100000\n",
            },
            2.0,
        ),
        (
            {
                "proc__self__cgroup": "4:memory:/x\n1:cpu:/x\n",
                "sys__fs__cgroup__cpu__cpu_dot_cfs_quota_us": "50000\n",
                "sys__fs__cgroup__cpu__cpu_dot_cfs_period_us": "100000\n",
            },
            0.5,
        ),
        (
            {
                "proc__self__cgroup": "1:cpu:/\n",
                "sys__fs__cgroup__cpu__cpu_dot_cfs_quota_us": "-1\n",
                "sys__fs__cgroup__cpu__cpu_dot_cfs_period_us": "100000\n",
            },
            None,
        ),
        ({"proc__self__cgroup": "0::/\n", "sys__fs__cgroup__cpu_dot_max": "max 100000\n"}, None),
        ({"proc__self__cgroup": "0::/\n", "sys__fs__cgroup__cpu_dot_max": "100000 0\n"}, None),
        ({"proc__self__cgroup": "0::/\n", "sys__fs__cgroup__cpu_dot_max": "garbage\n"}, None),
        ({"proc__self__cgroup": "garbage\n"}, None),
        ({}, None),
    ],
    ids=["own", "smallest", "version-1", "version-1-free", "free", "no-period", "garbage", "no-groups", "nothing"],
)
def test_a_quota_of_the_control_groups_limits_the_cpus(
    tmp_path: Path, files: dict[str, str], cpus: float | None
) -> None:
    """The smallest on the way up to the root, in both versions of the interface; none is no limit."""
    found = fact(machine(tmp_path, **files), "cpu_limit")

    assert found == (inapplicable("no limit") if cpus is None else known(cpus))


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        (
            {
                "proc__self__cgroup": "0::/a\n",
                "sys__fs__cgroup__a__memory_dot_max": "8589934592\n",
                "sys__fs__cgroup__memory_dot_max": "max\n",
            },
            8 * 2**30,
        ),
        (
            {
                "proc__self__cgroup": "4:memory:/a\n",
                "sys__fs__cgroup__memory__a__memory_dot_limit_in_bytes": "4294967296\n",
                "sys__fs__cgroup__memory__memory_dot_limit_in_bytes": "9223372036854771712\n",
            },
            4 * 2**30,
        ),
        ({"proc__self__cgroup": "0::/a\n", "sys__fs__cgroup__a__memory_dot_max": "max\n"}, None),
    ],
    ids=["version-2", "version-1", "free"],
)
def test_memory_may_be_limited_too(tmp_path: Path, files: dict[str, str], limit: int | None) -> None:
    """The number that version 1 has for no limit is none."""
    found = fact(machine(tmp_path, **files), "memory_limit_bytes")

    assert found == (inapplicable("no limit") if limit is None else known(limit))


def test_a_system_without_a_clock_speed_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may answer nothing, or not have the file."""

    def refuses() -> None:
        raise NotImplementedError

    for answer in (lambda: None, refuses):
        monkeypatch.setattr(psutil, "cpu_freq", answer)

        assert fact(LocalHost(gpus=dict), "cpu_mhz").state == "unknown"


def test_a_system_without_affinity_has_no_usable_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every system binds processes to CPUs."""
    monkeypatch.delattr(psutil.Process, "cpu_affinity")

    assert fact(LocalHost(gpus=dict), "cpus_usable").state == "not applicable"


def test_the_time_has_a_zone() -> None:
    """Wall-clock times in records can be compared across machines."""
    before = dt.datetime.now(dt.UTC).replace(microsecond=0)
    told = dt.datetime.fromisoformat(LocalHost().now())

    assert told.utcoffset() == dt.timedelta(0)
    assert before <= told <= dt.datetime.now(dt.UTC)


def test_the_client_is_named_with_its_version() -> None:
    """A change of the client is a change of the request profile."""
    version = LocalHost().client_version()

    assert version == f"specgate client 2, httpx {httpx.__version__}, httptools {httptools.__version__}"


def test_cpu_time_of_others_is_what_is_busy_and_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle and waiting time is not busy, guest time is part of user time, and our own processes are taken off."""
    monkeypatch.setattr(psutil, "cpu_times", Times)
    monkeypatch.setattr(host, "_cpu_seconds", {os.getpid(): 7.0, 11: 20.0, 12: 30.0}.__getitem__)
    monkeypatch.setattr(host, "_ended_children_seconds", lambda: 5.0)
    reading = LocalHost().other_cpu(frozenset({11, 12}))

    assert reading is not None
    assert reading.used_s == (100 + 1 + 20 + 2 + 3 + 4) - (7 + 20 + 30) - 5


def test_a_child_that_has_left_was_ours() -> None:
    """Processes of load are gone when the second reading is taken, and their time is not that of others."""
    before = host._ended_children_seconds()
    subprocess.run([sys.executable, "-S", "-c", "sum(range(3_000_000))"], check=True)

    assert host._ended_children_seconds() > before


def test_a_process_that_is_gone_has_used_nothing() -> None:
    """A server that died between two readings does not break the second one."""
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        process.wait()
    reading = LocalHost().other_cpu(frozenset({process.pid}))

    assert reading is not None


@pytest.mark.parametrize(
    ("earlier", "later", "share"),
    [
        (CpuReading(10.0, 100.0), CpuReading(14.0, 106.0), 1.5),
        (CpuReading(10.0, 100.0), CpuReading(14.0, 99.0), 0.0),
        (CpuReading(10.0, 100.0), CpuReading(10.0, 100.0), 0.0),
    ],
    ids=["busy", "never-negative", "no-time-passed"],
)
def test_the_share_of_others_is_in_cpus(earlier: CpuReading, later: CpuReading, share: float) -> None:
    """CPU seconds over elapsed seconds; rounding of two sources never makes it negative."""
    assert later.share_since(earlier) == share
