"""Facts about the machine, and the clock of the wall."""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import httptools
import httpx
import psutil

from pytest_specgate.adapters.nvml import gpu_facts
from pytest_specgate.core.hosts import inapplicable, known, stored, unknown
from pytest_specgate.core.ports import CpuReading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import JsonValue

    from pytest_specgate.core.hosts import Fact

_CLIENT: Final = "specgate client 2"
"""Changes when the load client measures otherwise: figures of different clients are never compared."""

_NO_LIMIT_BYTES: Final = 2**60
"""What version 1 of the control groups calls a limit of memory where there is none is more than this."""

_CONTROL_GROUP: Final = re.compile(r"^\d+:([^:\n]*):(.*)$", re.MULTILINE)


class LocalHost:
    """Port `Host`: this machine.

    Args:
        root: where its file system starts.
        gpus: reads the facts of its GPUs, or of those that a job has; all of them by default.
    """

    def __init__(self, *, root: Path = Path("/"), gpus: Callable[[], Mapping[str, Fact]] = gpu_facts) -> None:
        self._root = root
        self._gpus = gpus

    def facts(self) -> dict[str, JsonValue]:
        """Return the facts about this machine as `hosts.stored` writes them; `hosts.facts_of` reads them."""
        return stored({**self._processor(), **self._memory(), **self._system(), **self._gpus()})

    def _processor(self) -> dict[str, Fact]:
        process = psutil.Process()
        return {
            "cpu_model": self._cpu_model(),
            "cpus": _or_unknown(os.cpu_count()),
            "cpus_usable": known(len(process.cpu_affinity())) if hasattr(process, "cpu_affinity") else inapplicable(),
            "cpu_limit": self._cpu_limit(),
            "cpu_governor": self._line("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            "smt": self._line("sys/devices/system/cpu/smt/active"),
            "numa_nodes": self._line("sys/devices/system/node/online"),
            "cpu_mhz": _cpu_mhz(),
            "load_1m": known(round(os.getloadavg()[0], 2)),
        }

    def _memory(self) -> dict[str, Fact]:
        memory = psutil.virtual_memory()
        return {
            "memory_bytes": known(memory.total),
            "memory_free_bytes": known(memory.available),
            "memory_limit_bytes": self._memory_limit(),
        }

    def _system(self) -> dict[str, Fact]:
        return {
            "kernel": known(platform.release()),
            "system": known(platform.system()),
            "machine": known(platform.machine()),
            "os": self._os(),
            "virtualisation": self._virtualisation(),
            "hostname": known(platform.node()),
        }

    def _cpu_model(self) -> Fact:
        lines = (self._text("proc/cpuinfo") or "").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        return _or_unknown(names[0] if names else platform.processor() or None)

    def _os(self) -> Fact:
        lines = (self._text("etc/os-release") or "").splitlines()
        names = [line.partition("=")[2].strip("\"'") for line in lines if line.startswith("PRETTY_NAME=")]
        return _or_unknown(names[0] if names else None)

    def _virtualisation(self) -> Fact:
        """Hint at what lies between this process and the hardware; nothing found is no proof of bare metal."""
        cpu = self._text("proc/cpuinfo")
        if cpu is None:
            return unknown("no /proc/cpuinfo")
        words = (
            ["container"] if any((self._root / name).exists() for name in (".dockerenv", "run/.containerenv")) else []
        )
        if any(line.startswith("flags") and " hypervisor" in line for line in cpu.splitlines()):
            product = (self._text("sys/class/dmi/id/product_name") or "").strip()
            words.append(f"virtual machine ({product})" if product else "virtual machine")
        return known(" on ".join(words) or "none found")

    def _cpu_limit(self) -> Fact:
        """Return how many CPUs the control groups of this process grant: the smallest quota on the way up."""
        grants = [_share(*text.split()[:2]) for text in self._controls("cpu.max") if len(text.split()) >= 2]
        quotas, periods = self._controls("cpu.cfs_quota_us"), self._controls("cpu.cfs_period_us")
        grants += [_share(quota, period) for quota, period in zip(quotas, periods, strict=False)]
        limits = [grant for grant in grants if grant is not None]
        return known(min(limits)) if limits else inapplicable("no limit")

    def _memory_limit(self) -> Fact:
        texts = [text.strip() for name in ("memory.max", "memory.limit_in_bytes") for text in self._controls(name)]
        limits = [int(text) for text in texts if text.isdecimal() and int(text) < _NO_LIMIT_BYTES]
        return known(min(limits)) if limits else inapplicable("no limit")

    def _controls(self, name: str) -> list[str]:
        """Return a file of every control group of this process, from its own up to the root."""
        texts = []
        for controllers, path in _CONTROL_GROUP.findall(self._text("proc/self/cgroup") or ""):
            own = PurePosixPath(path.strip("/"))
            places = [f"sys/fs/cgroup/{controllers}/{group}/{name}" for group in (own, *own.parents)]
            texts += [text for place in places if (text := self._text(place)) is not None]
        return texts

    def _line(self, path: str) -> Fact:
        """Return the text of a file of one line; where there is none, the machine has no such thing."""
        text = self._text(path)
        return inapplicable() if text is None else known(text.strip())

    def _text(self, path: str) -> str | None:
        try:
            return (self._root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def now(self) -> str:
        """Return the wall-clock time in ISO 8601 with zone."""
        return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")

    def clock_s(self) -> float:
        """Return the time of a clock that never goes back, in seconds."""
        return time.monotonic()

    def other_cpu(self, ours: frozenset[int]) -> CpuReading | None:
        """Read the CPU time that everything but `ours` and this process has used since boot."""
        times = psutil.cpu_times()
        busy = sum(times) - times.idle - getattr(times, "iowait", 0.0)
        # Guest time is part of user time and would count twice.
        busy -= getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
        own = sum(_cpu_seconds(pid) for pid in {*ours, os.getpid()}) + _ended_children_seconds()
        return CpuReading(at_s=time.monotonic(), used_s=busy - own)

    def client_version(self) -> str:
        """Return the version of the load client."""
        return f"{_CLIENT}, httpx {httpx.__version__}, httptools {httptools.__version__}"


def _ended_children_seconds() -> float:
    """Return the CPU time of children that have left, such as processes of load: it is in their parent's account."""
    times = psutil.Process().cpu_times()
    return float(times.children_user + times.children_system)


def _cpu_seconds(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def _cpu_mhz() -> Fact:
    """Return the current clock, where this system tells one: it may answer nothing, or not know the question."""
    try:
        return known(round(psutil.cpu_freq().current))
    except (AttributeError, NotImplementedError, OSError):
        return unknown()


def _or_unknown(value: JsonValue) -> Fact:
    return unknown() if value is None else known(value)


def _share(quota: str, period: str) -> float | None:
    """Return a quota of CPU time in CPUs, `None` where there is no limit."""
    if not (quota.strip().isdecimal() and period.strip().isdecimal()) or int(period) == 0:
        return None
    return round(int(quota) / int(period), 2)
