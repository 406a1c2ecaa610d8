"""Facts about the machine, and the clock of the wall."""

from __future__ import annotations

import datetime as dt
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httptools
import httpx
import psutil

from pytest_specgate.core.ports import CpuReading

if TYPE_CHECKING:
    from pydantic import JsonValue

_CLIENT: Final = "specgate client 2"
"""Changes when the load client measures otherwise: figures of different clients are never compared."""

_GPU_QUERY: Final = "name,driver_version,memory.total,power.limit"


class LocalHost:
    """Port `Host`: this machine."""

    def facts(self) -> dict[str, JsonValue]:
        """Return what tells machines apart; what cannot be found out is `None`."""
        return {
            "cpu_model": _cpu_model(),
            "cpus": os.cpu_count(),
            "cpus_usable": len(psutil.Process().cpu_affinity() or ())
            if hasattr(psutil.Process, "cpu_affinity")
            else None,
            "memory_bytes": psutil.virtual_memory().total,
            "kernel": platform.release(),
            "system": platform.system(),
            "machine": platform.machine(),
            "gpus": list(_gpus()),
        }

    def now(self) -> str:
        """Return the wall-clock time in ISO 8601 with zone."""
        return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")

    def other_cpu(self, ours: frozenset[int]) -> CpuReading | None:
        """Read the CPU time that everything but `ours` and this process has used since boot."""
        times = psutil.cpu_times()
        busy = sum(times) - times.idle - getattr(times, "iowait", 0.0)
        # Guest time is part of user time and would count twice.
        busy -= getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
        own = sum(_cpu_seconds(pid) for pid in {*ours, os.getpid()})
        return CpuReading(at_s=time.monotonic(), used_s=busy - own)

    def client_version(self) -> str:
        """Return the version of the load client."""
        return f"{_CLIENT}, httpx {httpx.__version__}, httptools {httptools.__version__}"


def _cpu_seconds(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _gpus() -> tuple[str, ...]:
    """Name, driver, memory and power limit of every NVIDIA GPU; empty where there is no such tool."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    command = [tool, f"--query-gpu={_GPU_QUERY}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in answer.stdout.splitlines() if line.strip())
