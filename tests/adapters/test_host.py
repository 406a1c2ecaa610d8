"""Facts about the machine: only those that tell machines apart; and CPU time that is not ours."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import httptools
import httpx
import psutil
import pytest

from pytest_specgate.adapters import host
from pytest_specgate.adapters.host import LocalHost
from pytest_specgate.core.ports import CpuReading


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


def install_tool(folder: Path, monkeypatch: pytest.MonkeyPatch, *, script: str) -> None:
    """Put a program that plays the GPU tool first on the path."""
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_case_87_facts_are_those_that_do_not_change_by_themselves() -> None:
    """Case 87: no clock speed, free memory, load or host name is among them; two readings are equal."""
    facts = LocalHost().facts()

    assert set(facts) == {
        "cpu_model", "cpus", "cpus_usable", "memory_bytes", "kernel", "system", "machine", "gpus",
    }  # fmt: skip
    assert LocalHost().facts() == facts


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


def test_a_cpu_that_is_not_named_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not name its CPU, what the platform says is used, and nothing is made up."""

    def unreadable(*_: object, **__: object) -> str:
        raise PermissionError("/proc/cpuinfo")

    monkeypatch.setattr(Path, "read_text", unreadable)

    assert LocalHost().facts()["cpu_model"] == (platform.processor() or None)


def test_gpus_are_listed_one_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, driver, memory and power limit of every GPU, as the driver's own tool says; nothing volatile is asked."""
    install_tool(
        tmp_path, monkeypatch, script='echo "$@" > "$0.asked"; echo "GPU A, 580.1, 100 MiB, 700 W"; echo; echo "GPU B"'
    )

    assert LocalHost().facts()["gpus"] == ["GPU A, 580.1, 100 MiB, 700 W", "GPU B"]
    assert (tmp_path / "nvidia-smi.asked").read_text().strip() == (
        "--query-gpu=name,driver_version,memory.total,power.limit --format=csv,noheader"
    )


@pytest.mark.parametrize("script", ["exit 9", "echo 'driver not loaded'; exit 1"])
def test_a_gpu_tool_that_fails_lists_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A tool without a driver is as good as none; its complaint is no GPU."""
    install_tool(tmp_path, monkeypatch, script=script)

    assert LocalHost().facts()["gpus"] == []


def test_a_machine_without_the_tool_has_no_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tool, no list, no error."""
    monkeypatch.setenv("PATH", str(tmp_path))

    assert LocalHost().facts()["gpus"] == []


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
    reading = LocalHost().other_cpu(frozenset({11, 12}))

    assert reading is not None
    assert reading.used_s == (100 + 1 + 20 + 2 + 3 + 4) - (7 + 20 + 30)


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
