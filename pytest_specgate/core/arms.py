"""Arms, arm pairs and the order in which their servers are booted."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from pydantic import Field, JsonValue, StringConstraints, field_validator, model_validator

from pytest_specgate.core.declared import FreeJson, declaration, known_keywords
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.profile import RequestProfile, same, sha256_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self

    # `JsonValue` is invariant in the eyes of a type checker: a plain dict of strings would be refused as a value.
    EngineArguments: TypeAlias = dict[str, Any]
else:
    EngineArguments: TypeAlias = dict[str, FreeJson]


MAXIMUM_ROUNDS: Final = 40
"""More rounds than this cannot be asked for: the margin is at fault then."""

_OURS: Final = frozenset({"model", "host", "port", "served_model_name"})
_SPECULATION: Final = "speculative_config"
_TELLS_REQUESTS: Final = "per_request_spec_decode_metrics"
_ARGUMENT: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_Reason: TypeAlias = Annotated[str, StringConstraints(strip_whitespace=True, min_length=3)]


@declaration
class Arm:
    """One server configuration.

    Attributes:
        name: short name in tables and files, unique within a window.
        model: folder or hub id given to the engine, or ``embedded:NAME`` for the model that
            ``specgate prepare-model`` makes.
        args: engine arguments by their Python name (dashes become underscores): ``True`` gives ``--x``, ``False``
            gives ``--no-x``, a mapping gives JSON, a list repeats its values, ``None`` leaves the argument out.
        env: further environment variables of the server.
        python: interpreter of another install of the engine; `None` is the session's.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=40)
    model: str = Field(min_length=1, kw_only=True)
    args: EngineArguments = Field(default_factory=dict, kw_only=True)
    env: dict[str, str] = Field(default_factory=dict, kw_only=True)
    python: str | None = Field(default=None, kw_only=True)

    @field_validator("args")
    @classmethod
    def _own_arguments(cls, args: EngineArguments) -> EngineArguments:
        plain = _plain_names({name: value for name, value in args.items() if value is not None})
        for name in plain:
            _refuse_name(name)
        if (config := plain.get(_SPECULATION)) is not None:
            plain[_SPECULATION] = _speculation(config)
        elif plain.get(_TELLS_REQUESTS) not in (None, "none"):
            raise ValueError(f"{_TELLS_REQUESTS} needs speculation: leave it out of an arm without {_SPECULATION}")
        return plain

    @known_keywords
    def vary(
        self,
        name: str,
        *,
        args: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        model: str | None = None,
        python: str | None = None,
    ) -> Arm:
        """Return another arm that differs in what is given; `args` and `env` are merged key by key.

        An argument set to ``None`` is removed. A mapping as value (``speculative_config``) replaces the old one whole.
        """
        for given, what in ((args, "args"), (env, "env")):
            if not isinstance(given, dict | None):
                raise UsageError(f"vary({name!r}): {what} is a dict by argument name, got {given!r}")
        changed = {given.replace("-", "_") for given in args or {}}
        kept = {known: value for known, value in self.args.items() if known not in changed}
        return Arm(
            name,
            model=model or self.model,
            args={**kept, **(args or {})},
            env={**self.env, **(env or {})},
            python=python or self.python,
        )

    @property
    def draft_horizon(self) -> int | None:
        """Number of speculative tokens k that the arm declares; `None` when speculation is off."""
        config = self.args.get(_SPECULATION)
        k = config.get("num_speculative_tokens") if isinstance(config, dict) else None
        return k if isinstance(k, int) else None

    @property
    def speculates(self) -> bool:
        """Whether the arm declares speculation at all."""
        return self.args.get(_SPECULATION) is not None

    @property
    def key(self) -> str:
        """A text that two arms share only if they are the same to the letter: `True` is not 1."""
        return sha256_of({"name": self.name, **self.flat()})

    def flat(self) -> dict[str, JsonValue]:
        """Return what two arms are compared by: dotted path to value, without the name."""
        return {
            "model": self.model,
            "engine": self.python,
            **_leaves("args", self.args),
            **{f"env.{name}": value for name, value in self.env.items()},
        }


def _plain_names(args: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return arguments by their Python names; the engine knows them with either, and takes the last of two.

    Raises:
        ValueError: an argument is there twice, as ``a-b`` and ``a_b``, or as ``x`` and ``no_x``.
    """
    seen: dict[str, str] = {}
    plain: dict[str, JsonValue] = {}
    for given, value in args.items():
        name = given.replace("-", "_")
        switch = name.removeprefix("no_") if isinstance(value, bool) else name
        if switch in seen:
            raise ValueError(f"{switch} is given twice, as {seen[switch]!r} and as {given!r}; give it once")
        seen[switch], plain[name] = given, value
    return plain


def _refuse_name(name: str) -> None:
    """Refuse an argument that the gate sets, or one whose spelling would hide from the proof what it declares."""
    if name in _OURS:
        raise ValueError(f"{name} is set by the gate itself")
    if name != _SPECULATION and (
        name.startswith("spec_") or (_SPECULATION.startswith(name) and name.startswith("spe"))
    ):
        raise ValueError(f"{name}: declare speculation as {_SPECULATION}, a dict, so that it can be proved")
    if not _ARGUMENT.fullmatch(name):
        text = "without dashes in front, and with a dict for its parts: {'compilation_config': {'mode': 3}}"
        raise ValueError(f"an engine argument is named as in Python, {text}; got {name!r}")


def _speculation(config: JsonValue) -> JsonValue:
    """Return a speculative configuration by the names that vLLM keeps, if what it declares can be proved."""
    if not isinstance(config, dict):
        raise ValueError(f"{_SPECULATION} is a dict, so that what it declares can be proved; got {config!r}")  # noqa: TRY004  - pydantic wants ValueError
    plain = _plain_names(config)
    k = plain.get("num_speculative_tokens")
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        raise ValueError(f"num_speculative_tokens is a whole number above 0, got {k!r}")
    return plain


def _plain_path(path: str) -> str:
    """Return a path of `varies` by the names that arms have: ``args.max-model-len`` is ``args.max_model_len``."""
    head, *names = path.split(".")
    depth = 2 if names and names[0].replace("-", "_") == _SPECULATION else 1
    plain = [name.replace("-", "_") for name in names[:depth]]
    return ".".join([head, *plain, *names[depth:]]) if head == "args" else path


def differing_paths(reference: Arm, candidate: Arm) -> tuple[str, ...]:
    """Return the dotted paths in which two arms differ by themselves, sorted; without `following_paths`."""
    following = following_paths(reference, candidate)
    return tuple(path for path in _unlike_paths(reference, candidate) if path not in following)


def following_paths(reference: Arm, candidate: Arm) -> tuple[str, ...]:
    """Return the paths in which two arms differ only because one of them speculates and the other does not."""
    following = {f"args.{_TELLS_REQUESTS}"} if reference.speculates != candidate.speculates else set[str]()
    return tuple(path for path in _unlike_paths(reference, candidate) if path in following)


def _unlike_paths(reference: Arm, candidate: Arm) -> tuple[str, ...]:
    left, right = reference.flat(), candidate.flat()
    return tuple(sorted(path for path in {*left, *right} if not _agree(path, left, right)))


def _agree(path: str, left: dict[str, JsonValue], right: dict[str, JsonValue]) -> bool:
    return path in left and path in right and same(left[path], right[path])


def _leaves(path: str, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Flatten mappings to dotted paths; an empty mapping inside is a leaf of its own."""
    leaves: dict[str, JsonValue] = {}
    for name, value in values.items():
        place = f"{path}.{name}" if "." not in name else f"{path}.{name!r}"
        leaves |= _leaves(place, value) if isinstance(value, dict) and value else {place: value}
    return leaves


@declaration
class ArmPair:
    """A reference arm and a candidate arm, the load both are put under, and in what they differ.

    Attributes:
        reference: the arm compared against.
        candidate: the arm judged.
        varies: dotted paths in which the two may, and must, differ: ``"args.speculative_config"``, ``"engine"``.
        profile: the load.
        rounds: boots of each arm at most (n_max), 6 by default: 1, 2, 3 or an even number.
        allow_engine_differences: engine-induced differences that are known, by their id in reports or the beginning of
            its path, with the reason why they do no harm: ``{"scheduler_config.async_scheduling": "off on a CPU"}``.
            Others make the pair INVALID under ``--specgate-strict``.
    """

    reference: Arm = Field(kw_only=True)
    candidate: Arm = Field(kw_only=True)
    varies: str | tuple[str, ...] | list[str] = Field(kw_only=True)
    profile: RequestProfile = Field(kw_only=True)
    rounds: int = Field(default=6, ge=1, le=MAXIMUM_ROUNDS, kw_only=True)
    allow_engine_differences: dict[str, _Reason] = Field(default_factory=dict, kw_only=True)

    @field_validator("varies", mode="before")
    @classmethod
    def _as_tuple(cls, varies: object) -> object:
        names = list(varies) if isinstance(varies, list | tuple) else [varies]
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"varies names dotted paths, as 'args.speculative_config', got {varies!r}")
        plain = tuple(_plain_path(str(name)) for name in names)
        return plain[0] if isinstance(varies, str) else plain

    @field_validator("rounds")
    @classmethod
    def _even(cls, rounds: int) -> int:
        if rounds > 3 and rounds % 2:
            raise ValueError(f"rounds={rounds}: 1, 2, 3 or an even number keeps the boot order balanced")
        return rounds

    @field_validator("allow_engine_differences")
    @classmethod
    def _whole_names(cls, allowed: dict[str, str]) -> dict[str, str]:
        for name in allowed:
            if not name or name != name.strip().strip("."):
                text = "an id as reports show it, or whole names from its beginning, as 'scheduler_config'"
                raise ValueError(f"allow_engine_differences has {name!r}, which matches nothing: write {text}")
        return allowed

    @model_validator(mode="after")
    def _differ_as_declared(self) -> Self:
        if self.alone:
            return self
        if self.reference.name == self.candidate.name:
            raise ValueError(f"both arms are called {self.reference.name!r}; give each its own name")
        if self.reference.model != self.candidate.model:
            raise ValueError(
                f"arms {self.title} serve two models; the model is part of the request profile, so both must serve one"
            )
        revisions = [arm.args.get("revision") for arm in self.arms]
        if not same(*revisions):
            raise ValueError(
                f"arms {self.title} serve the revisions {revisions[0]!r} and {revisions[1]!r}; the revision is part of "
                "the request profile, so both must serve one"
            )
        actual = set(differing_paths(self.reference, self.candidate))
        undeclared = sorted(path for path in actual if not any(_covers(allowed, path) for allowed in self.paths))
        unlike = actual.union(following_paths(self.reference, self.candidate))
        idle = sorted(allowed for allowed in self.paths if not any(_covers(allowed, path) for path in unlike))
        if undeclared:
            raise ValueError(f"arms {self.title} also differ in {', '.join(undeclared)}, which `varies` does not name")
        if idle:
            raise ValueError(f"arms {self.title} do not differ in {', '.join(idle)}, which `varies` names")
        return self

    @property
    def paths(self) -> tuple[str, ...]:
        """`varies` as a tuple."""
        return (self.varies,) if isinstance(self.varies, str) else tuple(self.varies)

    @property
    def title(self) -> str:
        """Candidate against reference, by name: ``k4 against off``."""
        return f"{self.candidate.name} against {self.reference.name}"

    @property
    def alone(self) -> bool:
        """Whether it is one arm by itself, in the place of both: there is nothing to compare it with."""
        return False

    @property
    def arms(self) -> tuple[Arm, Arm]:
        """Reference, then candidate."""
        return (self.reference, self.candidate)

    @property
    def own_arms(self) -> tuple[Arm, ...]:
        """Its arms, each once."""
        return self.arms

    @property
    def key(self) -> str:
        """A text that two pairs share only if they are the same to the letter."""
        arms: list[JsonValue] = [arm.key for arm in self.arms]
        allowed: dict[str, JsonValue] = {**self.allow_engine_differences}
        return sha256_of([arms, list(self.paths), self.profile.fingerprint(), self.rounds, allowed])

    def with_rounds(self, rounds: int | None) -> ArmPair:
        """Return the pair with another number of rounds; `None` changes nothing."""
        return self if rounds is None else dataclasses.replace(self, rounds=rounds)


@declaration
class LonePair(ArmPair):
    """One arm by itself, so that it is booted, judged and stored as pairs are: every round is one boot of it."""

    varies: str | tuple[str, ...] | list[str] = Field(default=(), kw_only=True)

    @classmethod
    def of(cls, arm: Arm, *, profile: RequestProfile, rounds: int) -> LonePair:
        """Return an arm as a pair that has no other arm.

        Args:
            arm: in the place of both.
            profile: the load.
            rounds: boots of it.
        """
        return cls(reference=arm, candidate=arm, profile=profile, rounds=rounds)

    @field_validator("rounds")
    @classmethod
    def _even(cls, rounds: int) -> int:
        # No order of boots has to be balanced.
        return rounds

    @model_validator(mode="after")
    def _one_arm(self) -> Self:
        if self.reference.key != self.candidate.key or self.paths:
            raise ValueError(f"{self.candidate.name} alone has no second arm, and nothing that varies")
        return self

    @property
    def alone(self) -> bool:
        """Always."""
        return True

    @property
    def title(self) -> str:
        """Name of the arm."""
        return self.candidate.name

    @property
    def own_arms(self) -> tuple[Arm, ...]:
        """The arm."""
        return (self.candidate,)


def _covers(allowed: str, path: str) -> bool:
    return path == allowed or path.startswith(f"{allowed}.")


def arms_of(pairs: Sequence[ArmPair]) -> tuple[Arm, ...]:
    """Return each arm of some pairs once, in the order of first mention, references first.

    Raises:
        UsageError: two different arms share a name.
    """
    arms: dict[str, Arm] = {}
    for arm in (arm for pair in pairs for arm in pair.arms):
        paths = differing_paths(arms.setdefault(arm.name, arm), arm)
        if paths:
            text = ", ".join(paths)
            raise UsageError(f"two arms of one window are called {arm.name!r} but differ in {text}; rename one")
    return tuple(arms.values())


def boot_order(arms: Sequence[Arm], round_number: int) -> tuple[Arm, ...]:
    """Return the order of boots in a round (from 1): as given in odd rounds, reversed in even ones."""
    return tuple(arms) if round_number % 2 else tuple(reversed(arms))
