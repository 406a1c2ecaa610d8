"""Two window records, one against the other.

The change between two arms then and now is compared (``relative``: the level of the machine cancels), and the level of
each arm (``absolute``: it does not, so an arm that was not to change is watched as well).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from pytest_specgate.core import validity
from pytest_specgate.core.baseline_offer import commands_of, observed_profile, shortened_profile, window_id
from pytest_specgate.core.baselines import BaselineValues as Values
from pytest_specgate.core.comparison import (
    MISMATCH,
    OTHER_DEFINITION,
    SAME_TWICE,
    Cell,
    Comparison,
    Guard,
    chunk_problem,
    counted,
    differences,
    missing,
    redefinition,
    refused,
)
from pytest_specgate.core.comparison_rule import compared
from pytest_specgate.core.confounds import attached_sentence, differing
from pytest_specgate.core.decode_figures import arm_problem
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.hosts import facts_of, host_class
from pytest_specgate.core.judge import first_point_problem, pair_problem
from pytest_specgate.core.metric_definitions import redefined
from pytest_specgate.core.metrics import measure, metric, rows
from pytest_specgate.core.profile import declared_fields
from pytest_specgate.core.redaction import redacted_arm, redacted_text
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.stored_gates import compared_pairs
from pytest_specgate.core.sweeps import booted_arms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypeAlias

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.comparison import FieldDifference, Mode
    from pytest_specgate.core.comparison_claims import Claims
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.metrics import Metric
    from pytest_specgate.core.records import BootRecord, PointRecord, WindowRecord

    _Round: TypeAlias = tuple[PointRecord, ...]
    """The point of an arm, or those of reference and candidate arm."""

FOREIGN_HOST: Final = "foreign-host"
UNFINISHED: Final = "unfinished"
NOTHING_IN_COMMON: Final = "nothing-in-common"

_WINDOWS: Final = ("reference", "candidate")


def compare_windows(
    reference: WindowRecord, candidate: WindowRecord, claims: Claims, *, mode: Mode | None = None, twice: bool = False
) -> Comparison:
    """Compare two windows.

    Args:
        reference: compared against.
        candidate: the one judged.
        claims: what is claimed of it.
        mode: what is judged: ``relative`` or ``absolute``; `None` takes the first where both have a pair in common.
        twice: whether both are the same file.

    Raises:
        UsageError: ``relative`` is asked for, and the windows have no pair in common.
    """
    both = _Both(reference, candidate)
    if (refusal := _refusal(both)) is not None:
        return refusal
    if mode == "relative" and not both.pairs:
        raise UsageError("the windows have no pair of arms in common, whose change could be compared: --mode absolute")
    if mode is None and not both.pairs and any(compared_pairs(record) for record in both.windows):
        raise UsageError(
            "the windows have no pair of arms in common: --mode absolute compares the levels of their arms"
        )
    judged: Mode = mode or ("relative" if both.pairs else "absolute")
    cells = [cell for pairs in both.pairs for cell in _pair_cells(both, pairs, claims)]
    cells += [cell for arms in both.arms for cell in _arm_cells(both, arms, claims)]
    return compared(
        [
            *(dataclasses.replace(cell, claimed=cell.claimed and cell.mode == judged) for cell in cells),
            *_lost(both, claimed=claims.floor is not None),
        ],
        claims,
        identity=_loads_compared(both)[0],
        mode=judged,
        unproved=_unproved(both),
        notes=list(_notes(both, mode=judged, twice=twice)),
    )


def _lost(both: _Both, *, claimed: bool) -> Iterator[Cell]:
    """Yield what the reference window has and the candidate window has not: no comparison of the rest hides that."""
    reference, candidate = both.windows
    titles, names = ({pair.title for pair in compared_pairs(candidate)}, booted_arms(candidate))
    failure = Failure(reason="not-measured", message="the candidate window has not measured it")
    for pair in compared_pairs(reference):
        if pair.title not in titles:
            yield Cell(pair.title, "relative", "", problem=failure, claimed=claimed)
    for name in booted_arms(reference):
        if name not in names:
            yield Cell(name, "absolute", "", problem=failure, claimed=claimed)


class _Both:
    """Two windows, and what they have in common.

    Attributes:
        windows: reference window, then candidate window.
        pairs: pairs of the same name, as either window declares them.
        arms: arms of the same name, likewise.
        redefined: names of added metrics that the two define otherwise.
    """

    def __init__(self, reference: WindowRecord, candidate: WindowRecord) -> None:
        self.windows = (reference, candidate)
        self.redefined = redefined(reference.added_metrics, candidate.added_metrics)
        titles = [{pair.title: pair for pair in compared_pairs(record)} for record in self.windows]
        names = [booted_arms(record) for record in self.windows]
        self.pairs = [(titles[0][title], titles[1][title]) for title in titles[0] if title in titles[1]]
        self.arms = [(names[0][name], names[1][name]) for name in names[0] if name in names[1]]

    @property
    def points(self) -> tuple[Level, ...]:
        """Load levels, which are those of both once their loads are known to be the same."""
        return self.windows[0].profile.points

    def guards_of(self, arm: str) -> tuple[str, ...]:
        """Return the arms that one is compared against in both windows."""
        return tuple(pair.reference.name for pair, _ in self.pairs if pair.candidate.name == arm)

    def rebuilt(self, arm: str) -> bool:
        """Whether the engine of an arm is another build in the candidate window, as far as both tell."""
        installs = [one.flat().get("engine") for arms in self.arms for one in arms if one.name == arm]
        builds = differing(*(record.engine.get(arm, {}) for record in self.windows))
        return bool(builds) or any(one != installs[0] for one in installs)

    def watched(self, arm: str) -> bool:
        """Whether an arm is there for others to be compared against, and never compared itself."""
        return not self.guards_of(arm) and any(pair.reference.name == arm for pair, _ in self.pairs)

    def loads(self) -> list[list[dict[str, JsonValue]]]:
        """Return the load of both windows as it was put on each arm; as it was declared where none had all of it."""
        found = []
        for arm, _ in self.arms:
            boots = [_whole_boot(record, arm.name) for record in self.windows]
            found.append([observed_profile(boot) for boot in boots if boot is not None])
        whole = [profiles for profiles in found if len(profiles) == len(self.windows)]
        return whole or [[shortened_profile(declared_fields(record.profile)) for record in self.windows]]


def _whole_boot(record: WindowRecord, arm: str) -> BootRecord | None:
    """Return a boot that was put under the whole load."""
    boots = (boot for boot in record.boots_of(arm) if boot.failure is None)
    return next((boot for boot in boots if all(boot.point(at) is not None for at in record.profile.points)), None)


def _refusal(both: _Both) -> Comparison | None:
    """Return why no figure of two windows may be compared, `None` if they may."""
    for window, record in zip(_WINDOWS, both.windows, strict=True):
        if not record.finished:
            return refused(Failure(reason=UNFINISHED, message=f"the {window} window did not run to its end"))
    classes = [record.host_class or host_class(facts_of(record.host)) for record in both.windows]
    if classes[0] != classes[1]:
        text = f"the windows were measured on two machines, {classes[0]} and {classes[1]}: measure both on one"
        return refused(Failure(reason=FOREIGN_HOST, message=text))
    if not both.arms:
        names = [", ".join(arm.name for arm in record.arms) for record in both.windows]
        text = f"the windows have no arm in common: one has {names[0]}, the other {names[1]}"
        return refused(Failure(reason=NOTHING_IN_COMMON, message=text))
    if found := tuple(differences(*(_definitions(both, side) for side in (0, 1)))):
        text = "arms of one name are not the same in both windows: give another arm another name, and measure again"
        return refused(Failure(reason=OTHER_DEFINITION, message=text), found=found)
    identity_line, found = _loads_compared(both)
    if found:
        text = "the windows are of two loads: measure both with one request profile"
        return refused(Failure(reason=MISMATCH, message=text), identity=identity_line, found=found)
    return None


def _loads_compared(both: _Both) -> tuple[str, tuple[FieldDifference, ...]]:
    """Return how many fields of the load are identical, in words, and those of the first arm that are not."""
    loads = both.loads()
    found = [tuple(differences(*profiles)) for profiles in loads]
    place = next((place for place, fields in enumerate(found) if fields), 0)
    return f"request profile: {counted(*loads[place])}", found[place]


def _definitions(both: _Both, side: int) -> dict[str, JsonValue]:
    """Return what arms and pairs of both windows are in one of them; installs of the engine are left out."""
    arms = {arms[side].name: _flat(arms[side]) for arms in both.arms}
    varies: dict[str, JsonValue] = {pairs[side].title: list(pairs[side].paths) for pairs in both.pairs}
    settings = commands_of(both.windows[side].settings, {name: name for name in arms})
    return {"arm": arms, "varies": varies, "settings": settings}


def _flat(arm: Arm) -> JsonValue:
    return {path: value for path, value in redacted_arm(arm).flat().items() if path != "engine"}


def _pair_cells(both: _Both, pairs: tuple[ArmPair, ArmPair], claims: Claims) -> Iterator[Cell]:
    """Yield how the change between two arms changed."""
    windows = list(zip(pairs, both.windows, strict=True))
    whole = Cell(pairs[0].title, "relative", "")
    if (problem := _first(pair_problem(pair, record) for pair, record in windows)) is not None:
        yield dataclasses.replace(whole, problem=problem)
        return
    for at in both.points:
        cell = dataclasses.replace(whole, at=at)
        if (problem := _first(first_point_problem(pair, record, at=at) for pair, record in windows)) is not None:
            yield dataclasses.replace(cell, problem=problem)
            continue
        rounds = [
            [tuple(_point(boot, at) for boot in boots) for boots in record.rounds_of(pair)] for pair, record in windows
        ]
        for found in _metric_cells(both, cell, rounds, claims):
            yield _guarded(both, found, [pairs[0].reference.name])


def _arm_cells(both: _Both, arms: tuple[Arm, Arm], claims: Claims) -> Iterator[Cell]:
    """Yield how the level of an arm changed; one that is judged is held against the arms that it is compared with."""
    name = arms[0].name
    guards = both.guards_of(name)
    whole = Cell(name, "absolute", "", claimed=not both.watched(name))
    readable = [one for one in both.arms if one[0].name in (name, *guards)]
    if (
        problem := _first(_arms_problem([one[side] for one in readable], both.windows[side]) for side in (0, 1))
    ) is not None:
        yield dataclasses.replace(whole, problem=problem)
        return
    for at in both.points:
        cell = dataclasses.replace(whole, at=at)
        problems = (_points_problem([one[side] for one in readable], both.windows[side], at=at) for side in (0, 1))
        if (problem := _first(problems)) is not None:
            yield dataclasses.replace(cell, problem=problem)
            continue
        for found in _metric_cells(both, cell, _alone(both, name, at=at), claims):
            yield _guarded(both, found, guards)


def _guarded(both: _Both, cell: Cell, arms: Sequence[str]) -> Cell:
    """Return a figure with those of the arms that it is held against."""
    assert cell.at is not None, "figures of windows belong to a load"
    guards = tuple(_guards(both, arms, row=metric(cell.metric), at=cell.at))
    return dataclasses.replace(cell, guards=guards, rebuilt=any(both.rebuilt(arm) for arm in arms))


def _guards(both: _Both, arms: Sequence[str], *, row: Metric, at: Level) -> Iterator[Guard]:
    """Yield the figures of the arms that a level is held against, of those that have the metric."""
    for arm in arms:
        reference, candidate = _values(both, _alone(both, arm, at=at), row)
        if isinstance(reference, Values) and isinstance(candidate, Values):
            yield Guard(arm, reference, candidate)


def _point(boot: BootRecord, at: Level) -> PointRecord:
    point = boot.point(at)
    assert point is not None, "boot_problem() refuses boots without the point"
    return point


def _alone(both: _Both, arm: str, *, at: Level) -> list[list[_Round]]:
    """Return the points of a single arm, round by round, of both windows."""
    return [[(_point(boot, at),) for boot in record.boots_of(arm)] for record in both.windows]


def _first(problems: Iterable[Failure | None]) -> Failure | None:
    """Return the first of the problems of both windows, and say in which of them it is."""
    for window, problem in zip(_WINDOWS, problems, strict=False):
        if problem is not None:
            texts = {name: redacted_text(getattr(problem, name)) for name in ("message", "detail")}
            return problem.model_copy(update={**texts, "message": f"in the {window} window {texts['message']}"})
    return None


def _arms_problem(arms: Sequence[Arm], record: WindowRecord) -> Failure | None:
    """Return why the boots of some arms of a window cannot be judged, `None` if they can."""
    return next((found for arm in arms if (found := arm_problem(record, arm))), None)


def _points_problem(arms: Sequence[Arm], record: WindowRecord, *, at: Level) -> Failure | None:
    found = (
        validity.point_problem(arm, _point(boot, at), record.profile)
        for arm in arms
        for boot in record.boots_of(arm.name)
    )
    return next((problem for problem in found if problem is not None), None)


def _metric_cells(both: _Both, cell: Cell, rounds: Sequence[Sequence[_Round]], claims: Claims) -> Iterator[Cell]:
    """Yield the figures of both windows that stand in either, and those that are claimed by name.

    Args:
        both: the windows.
        cell: to be filled.
        rounds: of both windows, the points of one or two arms in each.
        claims: what is claimed.
    """
    profile = both.windows[0].profile
    chunks = [measure("tokens_per_chunk", point, profile).value for one in rounds for points in one for point in points]
    for name, row in rows().items():
        if cell.mode == "relative" and (not row.gated or row.unit == "events"):
            continue
        found = _values(both, rounds, row)
        known = [one for one in found if isinstance(one, Values)]
        if not known and name not in claims.margins:
            continue
        filled = dataclasses.replace(cell, metric=name)
        if len(known) < len(found) or name in both.redefined:
            reasons = [None if isinstance(one, Values) else one for one in found]
            problem = redefinition(name) if name in both.redefined else missing(reasons)
            yield dataclasses.replace(filled, problem=problem)
            continue
        apart = chunk_problem(chunks) if row.per_chunk else None
        if apart is not None and cell.mode == "relative":
            # The change between two arms would compare their chunks already; the level of each arm stands elsewhere.
            if name in claims.margins:
                yield dataclasses.replace(filled, problem=apart)
            continue
        yield dataclasses.replace(filled, reference=known[0], candidate=known[1], apart=apart)


def _values(both: _Both, rounds: Sequence[Sequence[_Round]], row: Metric) -> list[Values | str]:
    """Return the figures of both windows, or why there are none."""
    return [_window_values(one, row, record) for one, record in zip(rounds, both.windows, strict=True)]


def _window_values(rounds: Sequence[_Round], row: Metric, record: WindowRecord) -> Values | str:
    found = [[measure(row.name, point, record.profile) for point in points] for points in rounds]
    for measured in (one for points in found for one in points):
        if measured.value is None or measured.value < 0:
            return measured.missing or f"its value is {measured.value}"
    sides = [tuple(one.value for one in arm if one.value is not None) for arm in zip(*found, strict=True)]
    return Values(window=window_id(record), reference=sides[0] if len(sides) > 1 else (), candidate=sides[-1])


def _unproved(both: _Both) -> list[str]:
    """Say what attached servers cannot prove."""
    return [
        f"in the {window} window {sentence}"
        for window, record in zip(_WINDOWS, both.windows, strict=True)
        for arm, _ in both.arms
        if (sentence := attached_sentence(arm.name, record)) is not None
    ]


def _notes(both: _Both, *, mode: Mode, twice: bool) -> Iterator[str]:
    if twice or len({*map(window_id, both.windows)}) == 1:
        yield SAME_TWICE
    common = {arm.name for arm, _ in both.arms}
    for window, record in zip(_WINDOWS, both.windows, strict=True):
        if arms := [name for name in booted_arms(record) if name not in common]:
            yield f"only in the {window} window: {', '.join(arms)}"
    yield from _builds(both)
    if any(len(record.boots_of(arm.name)) == 1 for record in both.windows for arm, _ in both.arms):
        yield "a window of one round has no spread of its own"
    if mode == "absolute":
        free = [arm.name for arm, _ in both.arms if not both.guards_of(arm.name) and not both.watched(arm.name)]
        yield from (f"{arm} is held against no other arm: nothing tells whether the machine moved" for arm in free)


def _builds(both: _Both) -> Iterator[str]:
    """Say where the engine is another one: that is what windows are compared for, more often than not."""
    texts: dict[str, list[str]] = {}
    for arm, _ in both.arms:
        builds = differing(*(record.engine.get(arm.name, {}) for record in both.windows))
        text = ", ".join(f"{name} {left} -> {right}" for name, (left, right) in builds.items())
        texts.setdefault(text, []).append(arm.name)
    for text, names in texts.items():
        if text:
            yield f"engine of {', '.join(names)}: {redacted_text(text)}"
    told = [any(record.engine.get(arm.name) for arm, _ in both.arms) for record in both.windows]
    if told[0] != told[1]:
        yield f"only the {_WINDOWS[told.index(True)]} window tells the build of its engine: it may be another one"
