"""The argument by which vLLM tells of single requests: it exists in speculative arms only."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.arms import Arm, ArmPair, differing_paths, following_paths
from pytest_specgate.core.confounds import declared_between
from pytest_specgate.core.differences import StartUp, engine_differences
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.resolved import flattened

if TYPE_CHECKING:
    from pytest_specgate.core.differences import Difference
    from tests.core.conftest import Build

DATA = Path(__file__).parent / "data"
NAME = "per_request_spec_decode_metrics"
PATH = f"observability_config.{NAME}"
OFF = Arm("off", model="folder")


def _speculating(k: int, **args: Any) -> Arm:
    return OFF.vary(f"k{k}", args={"speculative_config": {"method": "ngram", "num_speculative_tokens": k}, **args})


def _pair(build: type[Build], reference: Arm, candidate: Arm, varies: Any = "args.speculative_config") -> ArmPair:
    return ArmPair(reference=reference, candidate=candidate, varies=varies, profile=build.profile())


@pytest.mark.parametrize("given", ["summary", "detailed", False, ["summary"]])
def test_it_needs_speculation(given: object) -> None:
    """An arm that speculates not and still asks is refused where it is written, as its server would refuse to start."""
    sentence = f"{NAME} needs speculation: leave it out of an arm without speculative_config"
    with pytest.raises(UsageError, match=sentence):
        Arm("off", model="folder", args={NAME: given})
    with pytest.raises(UsageError, match=sentence):
        _speculating(4, **{NAME.replace("_", "-"): given}).vary("off", args={"speculative_config": None})


@pytest.mark.parametrize("given", [None, "none"])
def test_asking_for_nothing_needs_none(given: object) -> None:
    """What vLLM takes as no wish is none here."""
    assert not Arm("off", model="folder", args={NAME: given}).speculates


@pytest.mark.parametrize("level", ["summary", "detailed"])
@pytest.mark.parametrize("off", [{}, {NAME: "none"}])
def test_it_follows_from_speculation(build: type[Build], *, level: str, off: dict[str, Any]) -> None:
    """Between an arm that speculates and one that does not it is no second variable, in either direction."""
    plain, asking = OFF.vary("off", args=off), _speculating(4, **{NAME: level})

    for arms in ((plain, asking), (asking, plain)):
        assert f"args.{NAME}" not in differing_paths(*arms)
        assert following_paths(*arms) == (f"args.{NAME}",)
        assert _pair(build, *arms).paths == ("args.speculative_config",)


def test_it_may_be_named_all_the_same(build: type[Build]) -> None:
    """Whoever lists it in `varies` says nothing false."""
    names = ("args.speculative_config", f"args.{NAME}")

    assert _pair(build, OFF, _speculating(4, **{NAME: "summary"}), names).paths == names
    with pytest.raises(UsageError, match=f"do not differ in args.{NAME}, which `varies` names"):
        _pair(build, OFF, _speculating(4), names)


def test_between_two_speculative_arms_it_is_a_variable(build: type[Build]) -> None:
    """There it could have been set alike, so it has to be declared like any other argument."""
    asking, silent = _speculating(4, **{NAME: "summary"}), _speculating(7)

    assert f"args.{NAME}" in differing_paths(asking, silent)
    assert following_paths(asking, silent) == ()
    with pytest.raises(UsageError, match=f"also differ in args.{NAME}, which `varies` does not name"):
        _pair(build, asking, silent)
    assert _pair(build, asking, _speculating(7, **{NAME: "summary"})).paths == ("args.speculative_config",)


def _start(name: str, **observed: str) -> StartUp:
    page = json.loads((DATA / f"{name}_server_info.json").read_text(encoding="utf-8"))
    config = page["vllm_config"]
    config["observability_config"] |= observed
    return StartUp(flattened(config, page["vllm_env"]), {})


def _difference(arms: tuple[Arm, Arm], starts: tuple[StartUp, StartUp]) -> Difference:
    report = engine_differences([starts[0]], [starts[1]], declared=declared_between(arms, starts))
    found = {one.id: one for one in report.differences}
    return found[PATH]


def test_its_difference_in_real_configurations_counts_as_declared() -> None:
    """In what vLLM 0.32 resolved with and without speculation, the setting is a consequence of the declared one."""
    starts = (_start("off"), _start("ngram_k4", **{NAME: "summary"}))
    found = _difference((OFF, _speculating(4, **{NAME: "summary"})), starts)

    assert (found.kind, found.reference, found.candidate) == ("declared", "none", "summary")
    assert found.note == "follows from args.speculative_config"


def test_a_difference_that_no_arm_declares_is_none_of_its_consequences() -> None:
    """A server that tells of requests though its arm does not ask differs by itself."""
    starts = (_start("off"), _start("ngram_k4", **{NAME: "summary"}))

    assert _difference((OFF, _speculating(4)), starts).kind == "engine-induced"


def test_between_speculative_arms_its_difference_is_the_declared_one() -> None:
    """Named in `varies`, it is declared as any argument is."""
    starts = (_start("ngram_k4", **{NAME: "summary"}), _start("ngram_k4", **{NAME: "detailed"}))
    asking = _speculating(4, **{NAME: "summary"})
    other = dataclasses.replace(_speculating(4, **{NAME: "detailed"}), name="other")
    found = _difference((asking, other), starts)

    assert (found.kind, found.note) == ("declared", "")
