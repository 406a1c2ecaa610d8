"""Sweeps: one arm for each draft horizon k, and one without speculation, in a window that boots as few as it can.

Off and the longest horizon are its **scouts**: they are booted first, and what the longest one's drafts tell of all
shorter ones decides which of these are booted at all (`pytest_specgate.core.sweep_decision`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError, field_validator, model_validator

from pytest_specgate.core.advice import OBJECTIVES
from pytest_specgate.core.arms import MAXIMUM_ROUNDS, Arm, ArmPair, arms_of, differing_paths
from pytest_specgate.core.declared import declaration, known_keywords
from pytest_specgate.core.errors import RecordError, UsageError, nearest
from pytest_specgate.core.floors import NoiseFloor
from pytest_specgate.core.levels import level_label, rate_per_s
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.profile import RequestProfile, ends_of
from pytest_specgate.core.speculation import LONGEST_HORIZON

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Self

    from pydantic import JsonValue

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import WindowRecord

_SPECULATION: Final = "args.speculative_config"
_HORIZON: Final = f"{_SPECULATION}.num_speculative_tokens"
_FLOORS: Final = TypeAdapter(dict[str, NoiseFloor])
_Reason: TypeAlias = Annotated[str, StringConstraints(strip_whitespace=True, min_length=3)]


@declaration
class ArmSweep:
    """One arm for each draft horizon k, and one without speculation, under one load.

    Attributes:
        off: the arm that does not speculate.
        arms: those that do; they differ from each other in k alone, and from `off` in what speculation brings with it.
        profile: the load.
        rounds: boots of each arm at most; one that is ruled out boots less, or not at all.
        noise: declared noise floors of what horizons are compared by: `decode_rate_p50`, `output_throughput`,
            `ttft_p50`. What has none is told by calibrations, or by the rounds alone.
        allow_engine_differences: of every pair, as `ArmPair` has it.
        most: horizons that are booted besides off and the longest, at most.
    """

    off: Arm = Field(kw_only=True)
    arms: tuple[Arm, ...] = Field(min_length=1, kw_only=True)
    profile: RequestProfile = Field(kw_only=True)
    rounds: int = Field(default=2, ge=1, le=MAXIMUM_ROUNDS, kw_only=True)
    noise: dict[str, NoiseFloor] = Field(default_factory=dict, kw_only=True)
    allow_engine_differences: dict[str, _Reason] = Field(default_factory=dict, kw_only=True)
    # Two, so that neither the best one of a single user nor that of a full server is left out for the other.
    most: int = Field(default=2, ge=2, kw_only=True)

    @field_validator("noise")
    @classmethod
    def _usable_floors(cls, noise: dict[str, NoiseFloor]) -> dict[str, NoiseFloor]:
        compared = tuple(OBJECTIVES.values())
        for name, floor in noise.items():
            if name not in compared:
                known = f"which are {', '.join(compared)}{nearest(name, compared)}"
                raise ValueError(f"noise names {name!r}, which is not among what horizons are compared by, {known}")
            if floor.fraction is None or floor.points:
                raise ValueError(
                    f"noise[{name!r}] is a percentage with its source, as noise_floor('8%', source='...'); leave it "
                    f"out where calibrations are to tell it"
                )
        return noise

    @model_validator(mode="after")
    def _differ_in_k_alone(self) -> Self:
        if self.off.speculates:
            raise ValueError(f"off={self.off.name} speculates: its speculative_config must be left out")
        for arm in self.arms:
            _refuse_horizon(arm)
            _refuse_other_change(self.off, arm)
        for one, other in itertools.combinations(self.arms, 2):
            if one.draft_horizon == other.draft_horizon:
                raise ValueError(f"arms {one.name} and {other.name} have the same k={one.draft_horizon}")
            if more := [path for path in differing_paths(one, other) if path != _HORIZON]:
                raise ValueError(
                    f"arms {one.name} and {other.name} also differ in {', '.join(more)}: those of a sweep differ in "
                    f"num_speculative_tokens alone"
                )
        arms_of(self.pairs)
        return self

    @model_validator(mode="after")
    def _enough_requests(self) -> Self:
        for name, at in self.compared:
            asked, least = self.profile.requests[at], metric(name).minimum_requests
            if asked < least:
                raise ValueError(f"{name} at {level_label(at)} needs {least} requests, and the profile sends {asked}")
        return self

    @property
    def longest(self) -> Arm:
        """The arm of the longest horizon."""
        return max(self.arms, key=horizon_of)

    @property
    def scouts(self) -> tuple[Arm, Arm]:
        """The arms that are booted first: off, and the longest horizon."""
        return (self.off, self.longest)

    @functools.cached_property
    def ends(self) -> tuple[Level, Level]:
        """The lowest and the highest load level that horizons are compared at."""
        return ends_of(self.profile)

    @property
    def compared(self) -> tuple[tuple[str, Level], ...]:
        """What horizons are compared by, each metric with its load level, in the order of `OBJECTIVES`.

        Under arrival rates alone throughput is not among it: there it is what arrives, whatever k is.
        """
        lowest, highest = self.ends
        return tuple(
            (name, lowest if what == "per-user speed" else highest)
            for what, name in OBJECTIVES.items()
            if what != "batch throughput" or rate_per_s(highest) is None
        )

    @functools.cached_property
    def pairs(self) -> tuple[ArmPair, ...]:
        """Each horizon against off, the longest first, so that the scouts are the first arms of a window."""
        others = [arm for arm in self.arms if arm is not self.longest]
        return tuple(self._pair(arm) for arm in (self.longest, *others))

    def _pair(self, arm: Arm) -> ArmPair:
        return ArmPair(
            reference=self.off,
            candidate=arm,
            varies=_SPECULATION,
            profile=self.profile,
            rounds=self.rounds,
            allow_engine_differences=self.allow_engine_differences,
        )

    def with_rounds(self, rounds: int | None) -> ArmSweep:
        """Return the sweep with another number of rounds; `None` changes nothing."""
        return self if rounds is None else dataclasses.replace(self, rounds=rounds)


def horizon_of(arm: Arm) -> int:
    """Return the draft horizon of an arm; 0 without speculation."""
    return arm.draft_horizon or 0


def _refuse_horizon(arm: Arm) -> None:
    if not arm.speculates or arm.draft_horizon is None:
        raise ValueError(f"arm {arm.name} declares no num_speculative_tokens: give it a speculative_config with its k")
    if arm.draft_horizon > LONGEST_HORIZON:
        raise ValueError(f"arm {arm.name} has k={arm.draft_horizon}: write 1 to {LONGEST_HORIZON}")


def _refuse_other_change(off: Arm, arm: Arm) -> None:
    if more := [path for path in differing_paths(off, arm) if not path.startswith(f"{_SPECULATION}.")]:
        raise ValueError(
            f"arm {arm.name} also differs from {off.name} in {', '.join(more)}: a sweep compares speculation alone"
        )


@known_keywords
def arm_sweep(  # noqa: PLR0913  - what a sweep is declared by
    off: Arm,
    vary: Callable[[int], Arm],
    *,
    ks: Collection[int],
    profile: RequestProfile,
    rounds: int = 2,
    noise: Mapping[str, NoiseFloor] | None = None,
    allow_engine_differences: Mapping[str, str] | None = None,
    most: int = 2,
) -> ArmSweep:
    """Declare one arm for each draft horizon, and off, to be measured in one window with as few boots as it needs.

    Args:
        off: the arm without speculation.
        vary: returns the arm of a horizon k, as ``lambda k: OFF.vary(f"k{k}", args={"speculative_config": {...}})``.
        ks: the horizons, as ``(1, 2, 4, 7)``.
        profile: the load; its lowest and its highest level tell one user's speed from that of a full server.
        rounds: boots of each arm at most.
        noise: declared noise floors by metric, as ``{"decode_rate_p50": noise_floor("8%", source="...")}``.
        allow_engine_differences: of every arm against off, as `ArmPair` has it.
        most: horizons that are booted besides off and the longest, at most.

    Raises:
        UsageError: no horizon, one that is no whole number above 0 or is there twice, an arm that declares another k or
            differs from the others in more than its k, a noise floor of something that horizons are not compared by.
    """
    if not callable(vary):
        raise UsageError(f"arm_sweep() takes a function that returns the arm of a k second, got {vary!r}")
    return ArmSweep(
        off=off,
        arms=tuple(_varied(vary, k) for k in _checked(ks)),
        profile=profile,
        rounds=rounds,
        noise=_by_name("noise", noise, '{"decode_rate_p50": noise_floor("8%", source="...")}'),
        allow_engine_differences=_by_name(
            "allow_engine_differences", allow_engine_differences, '{"cache_config.block_size": "why it is harmless"}'
        ),
        most=most,
    )


def _by_name(keyword: str, given: Mapping[str, Any] | None, example: str) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f"arm_sweep() takes {keyword} by name, as {keyword}={example}, got {given!r}")
    return dict(given or {})


def _checked(ks: object) -> tuple[int, ...]:
    found = tuple(ks) if isinstance(ks, tuple | list | range | set | frozenset) else ()
    whole = all(isinstance(k, int) and not isinstance(k, bool) and k >= 1 for k in found)
    if not found or not whole:
        raise UsageError(f"arm_sweep() takes whole numbers above 0 as ks=(1, 2, 4, 7), got {ks!r}")
    twice = next((k for place, k in enumerate(found) if k in found[:place]), None)
    if twice is not None:
        raise UsageError(f"arm_sweep() has k={twice} twice in ks={ks!r}")
    return found


def _varied(vary: Callable[[int], Arm], k: int) -> Arm:
    arm: Any = vary(k)
    if not isinstance(arm, Arm):
        raise UsageError(f"arm_sweep(): vary({k}) returned {arm!r}, which is no Arm")
    if arm.draft_horizon != k:
        raise UsageError(f"arm_sweep(): vary({k}) returned arm {arm.name}, which declares k={arm.draft_horizon}")
    return arm


def stored_sweep(sweep: ArmSweep, *, kept: Collection[str] = ()) -> dict[str, JsonValue]:
    """Return a sweep as JSON; its arms are named, and the record describes them.

    Args:
        sweep: to be stored.
        kept: names of its arms that other tests want whole, so that it must not rule them out.
    """
    whole: list[JsonValue] = [arm.name for arm in sweep.arms if arm.name in kept]
    return {
        "off": sweep.off.name,
        "arms": {f"{horizon_of(arm)}": arm.name for arm in sweep.arms},
        "rounds": sweep.rounds,
        "most": sweep.most,
        "noise": _FLOORS.dump_python(sweep.noise, mode="json"),
        "allow_engine_differences": {**sweep.allow_engine_differences},
        "kept": whole,
    }


def sweeps_of(record: WindowRecord) -> tuple[ArmSweep, ...]:
    """Return the sweeps of a record, as they were declared, without secrets.

    Raises:
        RecordError: a sweep is not of this version, or names an arm that the record has not.
    """
    return tuple(_sweep(stored, record) for stored in record.sweeps)


def never_booted(record: WindowRecord) -> frozenset[str]:
    """Return the names of the arms that sweeps ruled out before their first boot."""
    return frozenset(record.ruled_out) - {boot.arm for boot in record.boots}


def booted_arms(record: WindowRecord) -> dict[str, Arm]:
    """Return the arms of a record by name, without those that sweeps ruled out before their first boot."""
    missing = never_booted(record)
    return {arm.name: arm for arm in record.arms if arm.name not in missing}


def _sweep(stored: Mapping[str, JsonValue], record: WindowRecord) -> ArmSweep:
    arms = {arm.name: arm for arm in record.arms}
    told: dict[str, Any] = {**stored}
    try:
        return ArmSweep(
            off=arms[told["off"]],
            arms=tuple(arms[name] for name in told["arms"].values()),
            profile=record.profile,
            rounds=told["rounds"],
            noise=_FLOORS.validate_json(json.dumps(told["noise"])),
            allow_engine_differences=told["allow_engine_differences"],
            most=told["most"],
        )
    except (KeyError, AttributeError, UsageError, ValidationError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error).splitlines()[0]
        raise RecordError(f"a sweep of the record cannot be read: {why}") from error
