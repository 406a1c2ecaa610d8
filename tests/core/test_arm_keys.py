"""Keys of arms and pairs: the same only for what is the same to the letter."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.arms import Arm, ArmPair
from pytest_specgate.core.records import WindowRecord

if TYPE_CHECKING:
    from tests.core.conftest import Build

BASE = Arm("off", model="folder", args={"x": {"a": 1, "b": [True]}, "seed": 0}, env={"A": "1"})
OTHER: dict[str, Any] = {
    "name": "on",
    "model": "other",
    "args": {"x": {"a": 1, "b": [True]}},
    "env": {"A": "2"},
    "python": "venv/bin/python",
}


def _with_args(args: dict[str, Any]) -> Arm:
    return dataclasses.replace(BASE, args=args)


@pytest.mark.parametrize("field", sorted(OTHER))
def test_the_key_of_an_arm_covers_every_field(field: str) -> None:
    """Arms that differ in any single field have two keys, the name included."""
    assert dataclasses.replace(BASE, **{field: OTHER[field]}).key != BASE.key
    assert set(OTHER) == {known.name for known in dataclasses.fields(BASE)}


def test_the_key_of_an_arm_ignores_the_order_of_writing() -> None:
    """Two arms whose arguments were written in another order, or with an argument left out by `None`, are one."""
    other = _with_args({"seed": 0, "dtype": None, "x": {"b": [True], "a": 1}})

    assert (other.key, other) == (BASE.key, BASE)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"x": True}, {"x": 1}),
        ({"x": False}, {"x": 0}),
        ({"x": 1}, {"x": 1.0}),
        ({"x": 1}, {"x": "1"}),
        ({"x": [1, 2]}, {"x": [2, 1]}),
        ({"x": {"a": True}}, {"x": {"a": 1}}),
        ({"x": [True]}, {"x": [1]}),
        ({"x": {"a.b": 1}}, {"x": {"a": {"b": 1}}}),
        ({"x": {}}, {}),
        ({"x": []}, {"x": {}}),
        ({"x": {"a": None}}, {"x": {}}),
    ],
)
def test_the_key_of_an_arm_is_exact_in_types(left: dict[str, Any], right: dict[str, Any]) -> None:
    """Arguments that give another command line give another key, also where Python calls them equal."""
    assert _with_args(left).key != _with_args(right).key


def test_an_argument_is_not_an_environment_variable() -> None:
    """The same name and value as an argument and in the environment are two arms."""
    argument, variable = Arm("x", model="m", args={"A": "1"}), Arm("x", model="m", env={"A": "1"})

    assert argument.key != variable.key


def _pair(build: type[Build], **changes: Any) -> ArmPair:
    fields: dict[str, Any] = {
        "reference": BASE,
        "candidate": BASE.vary("new", args={"seed": 1}),
        "varies": "args.seed",
        "profile": build.profile(),
        "rounds": 6,
    }
    return ArmPair(**{**fields, **changes})


def test_the_key_of_a_pair_covers_every_field(build: type[Build]) -> None:
    """Pairs that differ in an arm, in what varies, the load, the rounds or what they allow have keys of their own."""
    changes: dict[str, Any] = {
        "reference": dataclasses.replace(BASE, name="base"),
        "candidate": BASE.vary("new", args={"seed": 2}),
        "varies": "args",
        "profile": build.profile(temperature=0.5),
        "rounds": 4,
        "allow_engine_differences": {"scheduler_config.policy": "looked at"},
    }

    keys = {_pair(build).key, *(_pair(build, **{field: value}).key for field, value in changes.items())}

    assert len(keys) == 1 + len(changes)
    assert set(changes) == {known.name for known in dataclasses.fields(_pair(build))}


def test_the_key_of_a_pair_tells_reference_from_candidate(build: type[Build]) -> None:
    """A pair turned round claims something else, and has another key."""
    pair = _pair(build)

    assert dataclasses.replace(pair, reference=pair.candidate, candidate=pair.reference).key != pair.key


def test_the_key_of_a_pair_is_exact_in_types(build: type[Build]) -> None:
    """Pairs whose arms differ in `True` and 1 only are equal to Python, but have two keys."""
    flag, number = (
        _pair(build, reference=arm, candidate=arm.vary("new", args={"seed": 1}))
        for arm in (_with_args({"x": value, "seed": 0}) for value in (True, 1))
    )

    assert flag == number
    assert flag.key != number.key


@pytest.mark.parametrize("varies", ["args.seed", ("args.seed",), ["args.seed"]])
def test_the_key_of_a_pair_ignores_how_its_paths_were_written(build: type[Build], varies: Any) -> None:
    """One path as a text, in a tuple or in a list is one pair."""
    assert _pair(build, varies=varies).key == _pair(build).key


def test_keys_survive_storage(build: type[Build]) -> None:
    """An arm read back from a record has the key that it had when it was declared."""
    pair = _pair(build)
    record = WindowRecord.model_validate_json(
        json.dumps(json.loads(build.window(pair, [1.0], [1.0]).model_dump_json()))
    )

    assert [arm.key for arm in record.arms] == [arm.key for arm in pair.arms]
