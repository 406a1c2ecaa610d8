"""A regression gate for LLM serving: the vocabulary of gate files.

Names are loaded when they are first used, so that a `pytest` run without gates pays nothing for this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_specgate.adapters.models import EMBEDDED_MODEL
    from pytest_specgate.api import (
        at_least,
        at_most,
        better,
        equivalent,
        faster_only_up_to,
        gate,
        measured,
        noise_floor,
        not_worse,
        not_worse_than_baseline,
        outputs_agree,
        probe,
    )
    from pytest_specgate.core.added_metrics import AddedMetric
    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.errors import SpecgateError, UsageError
    from pytest_specgate.core.measured import MeasuredWindow
    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.probes import AcceptanceProbe
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.prompt_files import PromptFile
    from pytest_specgate.core.records import PointRecord, WindowRecord
    from pytest_specgate.core.sweeps import ArmSweep, arm_sweep
    from pytest_specgate.core.verdict import Outcome, Verdict

__all__ = [
    "EMBEDDED_MODEL",
    "AcceptanceProbe",
    "AddedMetric",
    "Arm",
    "ArmPair",
    "ArmSweep",
    "MeasuredWindow",
    "Outcome",
    "PointRecord",
    "PromptFile",
    "RequestProfile",
    "Server",
    "SpecgateError",
    "UsageError",
    "Verdict",
    "WindowRecord",
    "arm_sweep",
    "at_least",
    "at_most",
    "better",
    "equivalent",
    "faster_only_up_to",
    "gate",
    "measured",
    "noise_floor",
    "not_worse",
    "not_worse_than_baseline",
    "outputs_agree",
    "probe",
]

_HOMES = {
    "EMBEDDED_MODEL": "adapters.models",
    "AcceptanceProbe": "core.probes",
    "AddedMetric": "core.added_metrics",
    "Arm": "core.arms",
    "ArmPair": "core.arms",
    "ArmSweep": "core.sweeps",
    "MeasuredWindow": "core.measured",
    "Outcome": "core.verdict",
    "PointRecord": "core.records",
    "PromptFile": "core.prompt_files",
    "RequestProfile": "core.profile",
    "Server": "core.ports",
    "SpecgateError": "core.errors",
    "UsageError": "core.errors",
    "Verdict": "core.verdict",
    "WindowRecord": "core.records",
    "arm_sweep": "core.sweeps",
    "at_least": "api",
    "at_most": "api",
    "better": "api",
    "equivalent": "api",
    "faster_only_up_to": "api",
    "gate": "api",
    "measured": "api",
    "noise_floor": "api",
    "not_worse": "api",
    "not_worse_than_baseline": "api",
    "outputs_agree": "api",
    "probe": "api",
}


def __getattr__(name: str) -> object:
    """Load a public name on first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
