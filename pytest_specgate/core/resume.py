"""Going on with a window that died: what of its record may be taken over, or why nothing may.

What is taken over was measured by the same claims, under the same load, of the same builds and on the same machine, as
far as that can be told before anything boots. The rest is proved when it is judged: identity and drift are looked for
among all boots of a record, whoever measured them.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from pytest_specgate.core import validity
from pytest_specgate.core.arms import arms_of
from pytest_specgate.core.continuations import Continuation
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.hosts import drift, facts_of
from pytest_specgate.core.identity import UNSET, shortened
from pytest_specgate.core.judge import not_booted, pair_problem
from pytest_specgate.core.metrics import DEFINITION_VERSION, added_definitions
from pytest_specgate.core.profile import declared_fields, same
from pytest_specgate.core.records import PairRecord
from pytest_specgate.core.redaction import redacted_arm, redacted_profile
from pytest_specgate.core.stopping import open_pairs
from pytest_specgate.core.stored_gates import stored_gate, title_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.baselines import KnownBaseline
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import ArmNoise, BootRecord, WindowRecord
    from pytest_specgate.core.stored import Failure

_ANEW: Final = "measure anew, without --specgate-resume"

_WHY: Final = {
    "gates": "a claim that is changed after figures were seen decides nothing",
    "sweeps": "arms are ruled out by what was declared before figures were seen",
    "pairs": "its looks were planned for what was declared",
    "host": "a window is measured on one machine",
    "host_class": "a window is measured on one machine",
    "engine": "a window is measured with one build of each engine",
    "commit": "the build of its engine does not tell its code",
}
"""Why a field must not change within a window, where its name does not say it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Today:
    """A window as it would be measured now.

    Attributes:
        pairs: all with one profile.
        gates: on these pairs.
        strict: whether engine-induced differences that a pair does not allow make it INVALID.
        settings: what every server of the session is given, without secrets.
        host_class: name of the class of this machine.
        host: facts about it.
        engine: facts about the installs of the engine, by arm.
        commit: of the project that is measured; empty where it is not known.
        client_version: of the load client.
        sweeps: of draft horizons, as records keep them.
    """

    pairs: tuple[ArmPair, ...]
    gates: tuple[Gate, ...]
    strict: bool
    settings: Mapping[str, JsonValue]
    host_class: str
    host: Mapping[str, JsonValue]
    engine: Mapping[str, Mapping[str, JsonValue]]
    commit: str
    client_version: str
    sweeps: tuple[Mapping[str, JsonValue], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """Where a record lies.

    Attributes:
        path: of its file, as a user would type it.
        sha256: of that file.
    """

    path: str
    sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class TakenOver:
    """What a window goes on with.

    Attributes:
        boots: of whole rounds, in the order in which they ran.
        rounds: whole rounds that were measured.
        of: rounds at most.
        left_out: boots of an unfinished round, which are not taken over: the round is the sampling unit.
        noise: calibrations that applied when the window started.
        baselines: what was known of baselines then.
        attempt: the window's number among those of its builds.
        continued: what earlier runs measured of it, oldest first.
        ruled_out: arms that sweeps ruled out by what is taken over, with the reasons.
    """

    boots: tuple[BootRecord, ...]
    rounds: int
    of: int
    left_out: int
    noise: tuple[ArmNoise, ...]
    baselines: tuple[KnownBaseline, ...]
    attempt: int
    continued: tuple[Continuation, ...]
    ruled_out: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """What is done, for a waiting user."""
        were = "round 1" if self.rounds == 1 else f"rounds 1 to {self.rounds}"
        text = f"continues {self.continued[-1].record}: {were} of {self.of} {'was' if self.rounds == 1 else 'were'}"
        boots = f"{self.left_out} boot{'s' if self.left_out > 1 else ''}"
        lost = f"; {boots} of round {self.rounds + 1}, which was not finished, {'are' if self.left_out > 1 else 'is'}"
        return f"{text} measured there{f'{lost} left out' if self.left_out else ''}"


@dataclasses.dataclass(frozen=True, slots=True)
class _Unlike:
    """The first thing in which a window of today is not that of a record; `stage` counts what agreed before."""

    stage: int
    sentence: str


def untold(engine: Mapping[str, JsonValue]) -> bool:
    """Whether facts about an install do not tell its code: it changes under one version, or is a user's command."""
    return bool(engine.get("development") or engine.get("command"))


def taken_over(windows: Sequence[Today], record: WindowRecord, source: Source) -> tuple[int, TakenOver]:
    """Return which window of a session goes on with a record, by its place, and what it takes over.

    Args:
        windows: all of the session.
        record: of a window that died, was interrupted, or was stopped by a time budget.
        source: where the record lies.

    Raises:
        UsageError: there is nothing to go on with, no window fits (the first field that differs is named, of the window
            that comes nearest), or what was measured must not be judged.
    """
    if (problem := _ended(record)) is not None:
        raise _refusal(source, problem)
    unlike = [_first_difference(window, record) for window in windows]
    if None not in unlike:
        nearest = max((found for found in unlike if found is not None), key=lambda found: found.stage)
        raise _refusal(source, f"{nearest.sentence}: {_ANEW}")
    place = unlike.index(None)
    window = windows[place]
    rounds = whole_rounds(window.pairs, window.gates, record)
    if (problem := _unusable(window, record, rounds=rounds)) is not None:
        raise _refusal(source, problem)
    boots = tuple(boot for boot in record.boots if boot.round <= rounds)
    continuation = Continuation(
        created_at=record.created_at, record=source.path, record_sha256=source.sha256, rounds=rounds
    )
    return place, TakenOver(
        boots=boots,
        rounds=rounds,
        of=max(pair.rounds for pair in window.pairs),
        left_out=len(record.boots) - len(boots),
        noise=record.noise,
        baselines=record.baselines,
        attempt=record.attempt,
        continued=(*record.continued, continuation),
        # Arms are ruled out by whole rounds, or in the first one, without which nothing is taken over.
        ruled_out=record.ruled_out,
    )


def _refusal(source: Source, problem: str) -> UsageError:
    return UsageError(f"{source.path} cannot be continued: {problem}")


def whole_rounds(pairs: Sequence[ArmPair], gates: Sequence[Gate], record: WindowRecord) -> int:
    """Return how many rounds of a record were measured to their end.

    All rounds but the last were, or the last would not have begun; that one was if every pair that was still open
    then has a boot of both of its arms.
    """
    last = max((boot.round for boot in record.boots), default=0)
    earlier = record.model_copy(update={"boots": tuple(boot for boot in record.boots if boot.round < last)})
    wanted = open_pairs(pairs, gates, earlier, rounds_done=last - 1) if last else ()
    there = {(boot.arm, title) for boot in record.boots if boot.round == last for title in boot.pairs}
    whole = all((arm.name, pair.title) in there for pair in wanted for arm in pair.arms)
    return last if whole else last - 1


def _ended(record: WindowRecord) -> str | None:
    """Return why no window can go on with a record, whatever is declared."""
    if not record.pairs:
        return "it holds no pair, as that of a calibration, which is run anew"
    if record.finished and not record.stopped:
        return f"it ran to its end, and to measure again is another window: {_ANEW}"
    failed = next((boot for boot in record.boots if boot.failure is not None), None)
    if failed is not None and failed.failure is not None:
        what = f"arm {failed.arm} failed in round {failed.round} ({failed.failure.reason})"
        return f"{what}, and to go on without that boot would be a retry until it is green: {_ANEW}"
    return None if record.boots else _no_round()


def _no_round() -> str:
    return f"not one round of it was measured whole: {_ANEW}"


def _unusable(window: Today, record: WindowRecord, *, rounds: int) -> str | None:
    """Return why what was measured must not be judged, the boots of an unfinished round included."""
    if rounds < 1:
        return _no_round()
    problem = _first_problem(window, record)
    return None if problem is None else f"it is INVALID already ({problem.reason}: {problem.message}): {_ANEW}"


def _first_problem(window: Today, record: WindowRecord) -> Failure | None:
    arms = {arm.name: arm for arm in arms_of(window.pairs)}
    for boot in record.boots:
        found = (validity.point_problem(arms[boot.arm], point, record.profile) for point in boot.points)
        problem = validity.boot_problem(arms[boot.arm], boot, record.profile) or next(filter(None, found), None)
        if problem is not None:
            return problem
    # Differences of servers may be noise that the rounds to come show as such.
    tolerant = record.model_copy(update={"strict": False})
    problems = (pair_problem(pair, tolerant) for pair in window.pairs if not_booted(pair, record) is None)
    return validity.drifted_between(record.boots) or next(filter(None, problems), None)


def _first_difference(window: Today, record: WindowRecord) -> _Unlike | None:
    """Return in what a window is not that of a record; `None` if it is."""
    before, now = _of_record(record, window), _of_today(window, record)
    for stage, name in enumerate(before):
        for path, left, right in _unlike(name, before[name], now[name]):
            values = " there, and ".join(shortened(_text(left), _text(right)))
            why = f" ({_WHY[name]})" if name in _WHY else ""
            return _Unlike(stage, f"{path}: {values} today{why}")
    return None


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) and value else repr(value)


def _unlike(path: str, left: JsonValue, right: JsonValue) -> Iterator[tuple[str, JsonValue, JsonValue]]:
    """Yield each place in which two JSON values differ, with both values."""
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for place, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _unlike(f"{path}.{place}", one, other)
    elif isinstance(left, dict) and isinstance(right, dict):
        for name in dict.fromkeys([*left, *right]):
            yield from _unlike(f"{path}.{name}", left.get(name, UNSET), right.get(name, UNSET))
    elif not same(left, right):
        yield path, left, right


def _of_record(record: WindowRecord, window: Today) -> dict[str, JsonValue]:
    """Return what must not change within a window, as a record has it: what is declared, then what it ran on."""
    first = record.boots[0].profile
    changed = drift(facts_of(record.host), facts_of(window.host))
    return {
        **_declared(record.pairs, record.arms, record.profile),
        "gates": {str(gate.get("id")): dict(gate) for gate in record.gates},
        "sweeps": [dict(sweep) for sweep in record.sweeps],
        "strict": record.strict,
        "settings": dict(record.settings),
        "host": {found.name: found.before.words for found in changed},
        "host_class": record.host_class,
        "engine": {name: dict(facts) for name, facts in record.engine.items()},
        "commit": record.commit if _compares_commits(record, window) else None,
        "client_version": first.get("client_version"),
        "metric_definition_version": first.get("metric_definition_version"),
        "added_metrics": {one.name: one.model_dump(mode="json") for one in record.added_metrics},
    }


def _of_today(window: Today, record: WindowRecord) -> dict[str, JsonValue]:
    """Return the same of a window of today, in the same order."""
    profile = window.pairs[0].profile
    changed = drift(facts_of(record.host), facts_of(window.host))
    return {
        **_declared(tuple(map(PairRecord.of, window.pairs)), arms_of(window.pairs), profile),
        "gates": {gate.id: stored_gate(gate) for gate in window.gates},
        "sweeps": [dict(sweep) for sweep in window.sweeps],
        "strict": window.strict,
        "settings": dict(window.settings),
        "host": {found.name: found.after.words for found in changed},
        "host_class": window.host_class,
        "engine": {name: dict(facts) for name, facts in window.engine.items()},
        "commit": window.commit if _compares_commits(record, window) else None,
        "client_version": window.client_version,
        "metric_definition_version": DEFINITION_VERSION,
        "added_metrics": {one.name: one.model_dump(mode="json") for one in added_definitions()},
    }


def _declared(pairs: Sequence[PairRecord], arms: Sequence[Arm], profile: RequestProfile) -> dict[str, JsonValue]:
    """Return pairs, arms and load as they are declared, without secrets."""
    names: list[JsonValue] = [arm.name for arm in arms]
    kept = {title_of(pair): pair.model_dump(mode="json", exclude={"differences"}) for pair in pairs}
    return {
        "arms": ", ".join(map(str, names)),
        "pairs": {**kept},
        "profile": declared_fields(redacted_profile(profile)),
        "arm": {arm.name: redacted_arm(arm).flat() for arm in arms},
    }


def _compares_commits(record: WindowRecord, window: Today) -> bool:
    """Whether the commit belongs to the build: it is known on both sides, and an engine does not tell its code."""
    return bool(record.commit and window.commit) and any(map(untold, window.engine.values()))
