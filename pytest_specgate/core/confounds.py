"""In what the servers of a pair differ besides what was declared, from what a window has kept of their starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_specgate.core.differences import DifferenceReport, StartUp, engine_differences, restored
from pytest_specgate.core.records import Failure
from pytest_specgate.core.resolved import unproved_arguments

REASON: Final = "engine-differences"

BUILD: Final = (
    "version",
    "distribution",
    "record_sha256",
    "install",
    "source",
    "torch",
    "torch_commit",
    "cuda",
    "hip",
    "transformers",
    "python",
)
"""Facts about an install that belong to its build, wherever it lies."""

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.records import BootRecord, WindowRecord


def differences_of(pair: ArmPair, record: WindowRecord) -> DifferenceReport | None:
    """Return the differences of a pair's servers; `None` when a side has no boot whose start was kept."""
    starts = starts_of(record)
    reference, candidate = (
        [starts[boot.arm, boot.round] for boot in boots if (boot.arm, boot.round) in starts]
        for boots in record.boots_for(pair)
    )
    return engine_differences(reference, candidate, varies=pair.paths) if reference and candidate else None


def unlisted_differences(pair: ArmPair, record: WindowRecord) -> Failure | None:
    """Return why a pair must not be judged strictly: something differs that nobody has allowed; `None` if nothing does.

    What could not be read counts as a difference: nobody can say that there is none.
    """
    report = differences_of(pair, record)
    if report is None:
        return Failure(reason=REASON, message=f"nothing is known of the starts of the servers of {pair.title}")
    found = [difference.id for difference in report.unlisted(pair.allow_engine_differences)]
    found += [f"{part} (could not be read)" for part in report.unread]
    if not found:
        return None
    text = (
        f"servers of {pair.title} also differ in {', '.join(found)}: list in allow_engine_differences what is harmless"
    )
    return Failure(reason=REASON, message=text)


def attached_of(arm: str, record: WindowRecord) -> tuple[str, ...]:
    """Return what nobody can prove of an arm whose server was attached; empty for one that was started."""
    return tuple(dict.fromkeys(phrase for boot in record.boots_of(arm) for phrase in boot.unproved))


def build_differences(pair: ArmPair, record: WindowRecord) -> dict[str, tuple[JsonValue, JsonValue]]:
    """Return in which facts the builds of a pair's engines differ, with both values; empty if in none."""
    reference, candidate = (record.engine.get(arm.name, {}) for arm in pair.arms)
    return differing(reference, candidate)


def differing(
    reference: Mapping[str, JsonValue], candidate: Mapping[str, JsonValue]
) -> dict[str, tuple[JsonValue, JsonValue]]:
    """Return the facts in which two builds differ, of those that both tell, with both values."""
    told = (name for name in BUILD if name in reference and name in candidate)
    return {name: (reference[name], candidate[name]) for name in told if reference[name] != candidate[name]}


def unproved_of(arm: Arm, record: WindowRecord) -> tuple[str, ...]:
    """Return the declared arguments of an arm that its servers do not tell: nobody can say that they were heeded."""
    starts = starts_of(record)
    own = next(
        (starts[boot.arm, boot.round] for boot in record.boots_of(arm.name) if (boot.arm, boot.round) in starts), None
    )
    if own is None:
        return ()
    return tuple(proof.argument for proof in unproved_arguments(arm.args, own.config, env=arm.env))


def starts_of(record: WindowRecord) -> dict[tuple[str, int], StartUp]:
    """Return what was kept of every boot's start, whole again, by arm and round."""
    kept: list[BootRecord] = [boot for boot in record.boots if boot.startup is not None]
    whole: dict[tuple[str, int], StartUp] = {}
    first: StartUp | None = None
    for boot in kept:
        assert boot.startup is not None, "filtered above"
        stored = StartUp(boot.startup.config, boot.startup.lines)
        start = stored if first is None else restored(stored, first=first)
        first = first or start
        whole[boot.arm, boot.round] = start
    return whole
