"""How long boots took, read from what earlier windows have kept: what a plan's minutes rest on."""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING

from pytest_specgate.core.redaction import redacted_arm

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.records import BootRecord, WindowRecord


def boot_seconds(arms: Iterable[Arm], record: WindowRecord) -> dict[str, float] | None:
    """Return the mean time of a boot, from before its start to after its end, by arm.

    Args:
        arms: all of which the window must have booted without failure, as they are declared now.
        record: of an earlier window.

    Returns:
        Seconds; `None` when the window does not tell of every arm.
    """
    known = {arm.name: arm.key for arm in record.arms}
    # What a record keeps of an arm has no secrets.
    found: dict[str, float] = {}
    for arm in arms:
        times = [seconds_of(boot) for boot in record.boots_of(arm.name) if boot.failure is None and boot.ended_at]
        if known.get(arm.name) != redacted_arm(arm).key or not times:
            return None
        found[arm.name] = math.fsum(times) / len(times)
    return found


def seconds_of(boot: BootRecord) -> float:
    """Return how long a boot took that has told its end, from before its start to after its end."""
    began, ended = (dt.datetime.fromisoformat(text) for text in (boot.started_at, boot.ended_at))
    return (ended - began).total_seconds()
