"""Gates as pytest items: what a decorated function declares, how its items are called, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from pytest_specgate.core.arms import ArmPair
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.sweeps import ArmSweep
from pytest_specgate.names import GATE_MARK, PAIRS_MARK, SERVER_FIXTURE, THRESHOLD_FIXTURE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_specgate.core.thresholds import AnyThreshold
    from pytest_specgate.options import GateOptions


def threshold_of(item: pytest.Item) -> AnyThreshold | None:
    """Return the threshold that an item judges, `None` for other tests."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get(THRESHOLD_FIXTURE)


def parametrize(metafunc: pytest.Metafunc, options: GateOptions) -> None:
    """Turn each threshold of a gate into one parameter of its test function.

    Raises:
        UsageError: the gate can never give a verdict, is decorated twice, or asks for a second server.
    """
    function = metafunc.definition
    try:
        gate = _declared_gate(metafunc, options)
    except UsageError as error:
        file, line, name = function.location
        raise UsageError(f"{file}:{(line or 0) + 1}: {name}: {error}") from None
    ids = [threshold.id for threshold in gate.thresholds]
    metafunc.parametrize(THRESHOLD_FIXTURE, gate.thresholds, ids=ids, indirect=True)


def _declared_gate(metafunc: pytest.Metafunc, options: GateOptions) -> Gate:
    marks = list(metafunc.definition.iter_markers(GATE_MARK))
    if len(marks) > 1:
        raise UsageError(f"{len(marks)} @gate decorators; write one gate a function")
    if SERVER_FIXTURE in metafunc.fixturenames:
        raise UsageError("a gate cannot ask for vllm_server, because two servers would run at once")
    gate = gate_from(marks[0], options, gate_id=metafunc.definition.name)
    gate.check()
    if options.calibrate is None and not options.has_calibrations:
        # With calibrations this depends on the machine, and is found out when they have been read.
        gate.check_decidable(attached=options.attached_of(gate.pair))
    return gate


def pairs_of(item: pytest.Item, options: GateOptions) -> tuple[ArmPair, ...]:
    """Return the pairs that an item needs measured."""
    found: list[ArmPair] = []
    for arg in _declared(item):
        found += [_planned(arg, options)] if isinstance(arg, ArmPair) else _planned_sweep(arg, options).pairs
    return tuple(found)


def sweeps_of(item: pytest.Item, options: GateOptions) -> tuple[ArmSweep, ...]:
    """Return the sweeps that an item needs measured."""
    return tuple(_planned_sweep(arg, options) for arg in _declared(item) if isinstance(arg, ArmSweep))


def asked_of(item: pytest.Item) -> frozenset[str]:
    """Return the names of the arms that an item asks for by pairs, and so wants whole."""
    return frozenset(arm.name for arg in _declared(item) if isinstance(arg, ArmPair) for arm in arg.arms)


def _declared(item: pytest.Item) -> list[ArmPair | ArmSweep]:
    marks = [mark for name in (GATE_MARK, PAIRS_MARK) for mark in item.iter_markers(name)]
    return [arg for mark in marks for arg in mark.args if isinstance(arg, ArmPair | ArmSweep)]


def gate_of(item: pytest.Item, options: GateOptions) -> Gate | None:
    """Return the gate that an item belongs to, `None` for other tests."""
    threshold, mark = threshold_of(item), item.get_closest_marker(GATE_MARK)
    if threshold is None or mark is None:
        return None
    return gate_from(mark, options, gate_id=gate_id_of(item, threshold))


def gate_from(mark: pytest.Mark, options: GateOptions, *, gate_id: str) -> Gate:
    """Return the gate that a mark declares."""
    pair, *thresholds = mark.args
    return Gate(gate_id, _planned(pair, options), tuple(thresholds))


def _planned(pair: ArmPair, options: GateOptions) -> ArmPair:
    return pair.with_rounds(options.rounds_of(arm.name for arm in pair.arms))


def _planned_sweep(sweep: ArmSweep, options: GateOptions) -> ArmSweep:
    return sweep.with_rounds(options.rounds_of(arm.name for arm in (sweep.off, *sweep.arms)))


def gate_id_of(item: pytest.Item, threshold: AnyThreshold) -> str:
    """Return file path, names and further parameters: a name that outlives reordering and is unique."""
    function = cast("pytest.Function", item)
    others = _without(function.callspec.id, threshold.id)
    return f"{function_id(function)}{f'[{others}]' if others else ''}"


def gate_ids_of(nodes: Iterable[object]) -> Iterator[str]:
    """Yield the ids of the gates among what was collected, parameters included; a gate has one item a threshold."""
    for node in nodes:
        if isinstance(node, pytest.Function) and (threshold := threshold_of(node)) is not None:
            yield gate_id_of(node, threshold)


def function_id(function: pytest.Function) -> str:
    """Return file path and names of a test function, from the root folder."""
    path = Path(os.path.relpath(function.path, function.config.rootpath)).as_posix()
    classes = [node.name for node in function.listchain() if isinstance(node, pytest.Class)]
    return "::".join([path, *classes, function.originalname])


def as_typed(item: pytest.Item) -> str:
    """Return the node id of an item as a user would type it in the folder where pytest was started."""
    path = os.path.relpath(item.path, item.config.invocation_params.dir)
    # Not its node id: xdist adds names of groups there.
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    return "::".join([path, *classes, item.name])


def _without(parameters: str, own: str) -> str:
    """Take a threshold's id out of an item's parameter id, and nothing else."""
    if parameters == own:
        return ""
    if parameters.startswith(f"{own}-"):
        return parameters.removeprefix(f"{own}-")
    if parameters.endswith(f"-{own}"):
        return parameters.removesuffix(f"-{own}")
    return parameters.replace(f"-{own}-", "-", 1)


def refuse_strange_gate(item: pytest.Item) -> None:
    """Refuse gates that could not fail: not parametrised, or excused by an xfail mark."""
    if item.get_closest_marker(GATE_MARK) is None:
        return
    if threshold_of(item) is None:
        raise UsageError(f"{item.nodeid}: a gate is a plain function, or a method of a plain class")
    if item.get_closest_marker("xfail") is not None:
        raise UsageError(f"{item.nodeid}: xfail would excuse what was not measured; use verdict.expect(Outcome.FAIL)")
