"""Engine-induced differences: in what two arms differ besides what was declared.

Turning speculation on may remove a fused kernel, change the scheduler's budget or switch asynchronous scheduling off.
The resolved configurations of both arms and their start-up logs tell it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeGuard

from pytest_specgate.core.profile import same
from pytest_specgate.core.resolved import SPECULATION
from pytest_specgate.core.startup_log import line_id, repeats

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pydantic import JsonValue

Kind: TypeAlias = Literal["declared", "undeclared", "engine-induced", "log-only", "dropped"]

ABSENT: Final = "(absent)"
"""Stands for the value of a path that one configuration has and the other has not."""

STARTED_AS: Final = "started_as"
"""Path under which stands what the project makes of the command that starts a server."""

ENGINE: Final = "engine"
"""Id of the one difference that stands for the settings which only one of two engines has."""

CONFIGURATION: Final = "resolved configuration"
LOG: Final = "start-up log"

_ASYNC: Final = "scheduler_config.async_scheduling"
_BUDGET: Final = "scheduler_config.max_num_scheduled_tokens"
_BATCH: Final = "scheduler_config.max_num_batched_tokens"
_DP_SYNC: Final = "parallel_config.disable_nccl_for_dp_synchronization"

_VOLATILE: Final = (
    (re.compile(r"(^|\.)instance_id$"), "new at each boot"),
    (re.compile(r"(^|[._])SHM_\w*NAME$"), "a random name at each boot"),
    (re.compile(r"(?i)(^|[._])ports?(_list)?$"), "a free port at each boot"),
    (re.compile(r"^compilation_config\.(local_)?cache_dir$"), "named after a hash of everything else"),
    (re.compile(r"^compilation_config\.(encoder_)?compilation_time$"), "a duration"),
)
"""Paths that change from boot to boot of one arm, and why."""

_SAID: Final = (
    (re.compile(r"Async scheduling"), _ASYNC),
    (re.compile(r"max_num_scheduled_tokens is set to"), _BUDGET),
    (re.compile(r"NCCL for DP synchronization"), _DP_SYNC),
)
"""Log lines about a setting: the resolved value is believed, not the line, which may stand in one arm only.

Only settings that are final in the API server, whose copy of the configuration is what is told. Others are decided
later, in the engine, as the mode of CUDA graphs by the attention backend: there the line is all that tells it.
"""

NOISE: Final = "changes from boot to boot of one arm"
"""Note of what is dropped because several boots of one arm differ in it as much as the arms do."""

_SPREADS: Final = 5
"""Two ranges of numbers lie apart when the gap between them is more than so many times the wider one.

Of two boots each of one and the same arm, 33 of 100 ranges do not meet, and 1 of 100 has such a gap.
"""

_DRAFTER: Final = re.compile(r"INFO \[[^\]]*\] Loading drafter model\W*")
_FIRST: Final = (_ASYNC, _BUDGET, "compilation_config.")
"""What changes how an engine works stands first in the list."""


@dataclasses.dataclass(frozen=True, slots=True)
class StartUp:
    """What is kept of one boot's start: all that its differences from another one are found by.

    Attributes:
        config: resolved configuration, flattened; empty when it could not be had.
        lines: normalised start-up lines and how often each was printed; empty when there was no log.
    """

    config: Mapping[str, JsonValue]
    lines: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which the boots of two arms differ.

    Attributes:
        id: stable name, to be listed as allowed: the dotted path, or ``log:`` with the first words of a line.
        kind: ``declared`` (or a plain consequence), ``undeclared`` (the project itself starts the arms otherwise),
            ``engine-induced``, ``log-only`` (a line about a setting that both arms resolved alike), or ``dropped``
            (changes from boot to boot of one arm).
        reference: value in the first boot of the reference; for a line, how often it was printed; for `ENGINE`, the
            settings that the other engine does not have.
        candidate: value in the first boot of the candidate, likewise.
        note: what to know about it.
        line: log line that tells it, or that it is.
    """

    id: str
    kind: Kind
    reference: JsonValue
    candidate: JsonValue
    note: str = ""
    line: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class DifferenceReport:
    """All differences of a pair.

    Attributes:
        differences: the most telling first.
        unread: what was missing on at least one side, so that nothing is known of it.
    """

    differences: tuple[Difference, ...]
    unread: tuple[str, ...] = ()

    def of(self, kind: Kind) -> tuple[Difference, ...]:
        """Return the differences of one kind."""
        return tuple(found for found in self.differences if found.kind == kind)

    def unlisted(self, allowed: Iterable[str]) -> tuple[Difference, ...]:
        """Return the differences besides declared ones that a user has not allowed: by id, or by a part of the path."""
        listed = tuple(allowed)
        return tuple(found for found in self._besides() if not any(within(found.id, prefix) for prefix in listed))

    def unused(self, allowed: Iterable[str]) -> tuple[str, ...]:
        """Return the ids that a user has allowed, but that do not occur."""
        besides = self._besides()
        return tuple(prefix for prefix in allowed if not any(within(found.id, prefix) for found in besides))

    def _besides(self) -> tuple[Difference, ...]:
        return (*self.of("undeclared"), *self.of("engine-induced"))


@dataclasses.dataclass(frozen=True, slots=True)
class Declared:
    """In what two arms are declared to differ, as their servers tell it.

    Attributes:
        paths: resolved paths that the variation names, or that plainly follow from it, and what to say of each.
        spoken: by plain name, the values that a log line may repeat: as declared, and as resolved.
        engines: whether the arms run two installs of the engine.
    """

    paths: Mapping[str, str]
    spoken: Mapping[str, Sequence[JsonValue]]
    engines: bool

    def note(self, path: str, *, folded: bool) -> str | None:
        """Return what to say of a declared path, `None` if it is not declared.

        A part that one server has and the other has not at all is declared with any setting inside it.
        """
        notes = (note for name, note in self.paths.items() if within(path, name) or (folded and within(name, path)))
        return next(notes, None)


def engine_differences(
    reference: Sequence[StartUp], candidate: Sequence[StartUp], *, declared: Declared
) -> DifferenceReport:
    """Find in what the boots of two arms differ, and what of it was declared.

    With more than one boot of an arm, what changes among them is noise: it counts as a difference only where the
    values of the two arms lie apart.

    Args:
        reference: all boots of the reference, at least one.
        candidate: all boots of the candidate, at least one.
        declared: in what the arms differ by themselves.
    """
    sides = (reference, candidate)
    configs = [[boot.config for boot in side if boot.config] for side in sides]
    logs = [[boot.lines for boot in side if boot.lines] for side in sides]
    unread = tuple(name for name, found in ((CONFIGURATION, configs), (LOG, logs)) if not all(found))
    known = {**configs[0][0], **configs[1][0]} if all(configs) else {}
    settings = list(_settings(configs, declared)) if all(configs) else []
    lines = list(_lines(logs, declared)) if all(logs) else []
    told = {_subject(found.line): found.line for found in lines}
    settings = [dataclasses.replace(found, line=told.get(found.id, "")) for found in settings]
    ids = {found.id for found in settings}
    rest = [_believed(found, known) for found in lines if _subject(found.line) not in ids]
    return DifferenceReport(tuple(sorted([*settings, *rest], key=_rank)), unread)


def compacted(start: StartUp, *, first: StartUp) -> StartUp:
    """Return what to store of a boot beside the first one of its window: what differs, and what is gone.

    A path that is gone has the value `ABSENT`, a line that is gone was printed 0 times.
    """
    base, config = first.config, start.config
    changed = {path: value for path, value in config.items() if path not in base or not same(base[path], value)}
    counts = {line: start.lines.get(line, 0) for line in sorted({*first.lines, *start.lines})}
    lines = {line: count for line, count in counts.items() if count != first.lines.get(line, 0)}
    return StartUp({**changed, **{path: ABSENT for path in base if path not in config}}, lines)


def restored(stored: StartUp, *, first: StartUp) -> StartUp:
    """Return the boot that `compacted` was given."""
    config = {path: value for path, value in {**first.config, **stored.config}.items() if value != ABSENT}
    return StartUp(config, {line: count for line, count in {**first.lines, **stored.lines}.items() if count})


def _folded(configs: Sequence[Sequence[Mapping[str, JsonValue]]]) -> list[list[Mapping[str, JsonValue]]]:
    """Return configurations in which a part that one of them has not, but tells as a value (none), is a value in all.

    So ``quant_config: none`` against ``quant_config.method: fp8`` is one setting that changed, not two that came and
    went.
    """
    paths = {path for side in configs for config in side for path in config}
    parts = {above for path in paths for above in _above(path) if above in paths}
    return [[_with_parts(config, parts) for config in side] for side in configs]


def _with_parts(config: Mapping[str, JsonValue], parts: set[str]) -> dict[str, JsonValue]:
    """Return a configuration whose settings below some paths are one mapping each."""
    whole: dict[str, JsonValue] = {}
    for path, value in config.items():
        part = next((above for above in _above(path) if above in parts), None)
        if part is None:
            whole[path] = value
        else:
            inside = whole.setdefault(part, {})
            assert isinstance(inside, dict), "a configuration has a path, or paths below it"
            inside[path.removeprefix(f"{part}.")] = value
    return whole


def _above(path: str) -> list[str]:
    """Return the paths that a path lies below, the shortest first."""
    parts = path.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def within(path: str, part: str) -> bool:
    """Whether a dotted path is a part of a configuration, or lies below it."""
    return path == part or path.startswith(f"{part}.")


def _settings(configs: Sequence[Sequence[Mapping[str, JsonValue]]], declared: Declared) -> Iterator[Difference]:
    """Yield the differences of resolved configurations; speculation, and another engine's settings, as one."""
    first, second = (side[0] for side in configs)
    known = {path for side in configs for config in side for path in config}
    speculation: list[str] = []
    strangers: list[str] = []
    sides = _folded(configs)
    for path in sorted({path for side in sides for config in side for path in config}):
        left, right = ([config.get(path, ABSENT) for config in side] for side in sides)
        if all(same(left[0], value) for value in (*left, *right)):
            continue
        note = declared.note(path, folded=any(within(name, path) for name in known if name != path))
        if path == STARTED_AS:
            yield Difference(path, "undeclared", left[0], right[0])
        elif note is not None and within(path, SPECULATION):
            speculation.append(path)
        elif declared.engines and not all(any(path in config for config in side) for side in sides):
            strangers.append(path)
        else:
            yield _setting(path, (left, right), (first, second), note)
    if speculation:
        yield _speculation(speculation, first, second)
    if strangers:
        own = [{path: config[path] for path in strangers if path in config} for config in (first, second)]
        yield Difference(ENGINE, "declared", own[0], own[1], "settings that only one of the two engines has")


def _setting(
    path: str,
    values: tuple[Sequence[JsonValue], Sequence[JsonValue]],
    configs: tuple[Mapping[str, JsonValue], Mapping[str, JsonValue]],
    declared: str | None,
) -> Difference:
    left, right = values
    volatile = [reason for pattern, reason in _VOLATILE if pattern.search(path)]
    if declared is not None:
        return Difference(path, "declared", left[0], right[0], declared)
    if volatile:
        return Difference(path, "dropped", left[0], right[0], volatile[0])
    if not _apart(left, right):
        return Difference(path, "dropped", left[0], right[0], NOISE)
    return Difference(path, "engine-induced", left[0], right[0], _note(path, *configs))


def _apart(left: Sequence[JsonValue], right: Sequence[JsonValue]) -> bool:
    """Whether the values of two arms lie apart, so that a boot tells its arm.

    Each constant; two ranges of numbers with a gap that is wide beside them; other values of which none is in both,
    unless every boot has one of its own, as a random name is.
    """
    if all(same(side[0], value) for side in (left, right) for value in side):
        return True
    numbers = [[value for value in side if _is_number(value)] for side in (left, right)]
    if all(len(found) == len(side) for found, side in zip(numbers, (left, right), strict=True)):
        gap = max(min(numbers[0]) - max(numbers[1]), min(numbers[1]) - max(numbers[0]))
        return gap > _SPREADS * max(max(side) - min(side) for side in numbers)
    if any(same(one, other) for one in left for other in right):
        return False
    boots = [*left, *right]
    repeated = any(same(one, other) for place, one in enumerate(boots) for other in boots[:place])
    return repeated or min(len(left), len(right)) == 1


def _is_number(value: JsonValue) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _note(path: str, first: Mapping[str, JsonValue], second: Mapping[str, JsonValue]) -> str:
    """Return what is known about the effect of a setting."""
    configs = (first, second)
    if path == _ASYNC:
        return "one arm schedules while the device computes, the other does not"
    if path == _BUDGET:
        limits = [config.get(_BATCH) if config.get(path) is None else config.get(path) for config in configs]
        return f"effective {limits[0]} in both" if same(*limits) else f"effective {limits[0]} -> {limits[1]}"
    if path == _DP_SYNC and all(config.get("parallel_config.data_parallel_size") == 1 for config in configs):
        return "no effect at data_parallel_size 1"
    return ""


def _speculation(paths: Sequence[str], first: Mapping[str, JsonValue], second: Mapping[str, JsonValue]) -> Difference:
    """Return the declared difference in speculation as one: method, k, look-up, draft model."""
    both = all(speculation_words(config) != "none" for config in (first, second))
    note = "differs in " + ", ".join(path.removeprefix(f"{SPECULATION}.") for path in paths) if both else ""
    return Difference(SPECULATION, "declared", speculation_words(first), speculation_words(second), note)


def speculation_words(config: Mapping[str, JsonValue]) -> str:
    """Describe the speculation of a flattened configuration: ``ngram, k=4, lookup 2..4``, or ``none``."""
    own = {path.removeprefix(f"{SPECULATION}."): value for path, value in config.items() if within(path, SPECULATION)}
    if own.get("num_speculative_tokens") is None:
        return "none"
    method, model, sampling = own.get("method"), own.get("model"), own.get("rejection_sample_method")
    words = [str(model if method is None else method), f"k={own['num_speculative_tokens']}"]
    if str(words[0]).startswith("ngram") and own.get("prompt_lookup_max") is not None:
        words.append(f"lookup {own.get('prompt_lookup_min')}..{own.get('prompt_lookup_max')}")
    elif model is not None and not str(words[0]).startswith("ngram") and model != words[0]:
        words.append(f"model {str(model).rstrip('/').rpartition('/')[2]}")
    if sampling not in {None, "standard"}:
        words.append(f"{sampling} rejection sampling")
    return ", ".join(words)


def _lines(logs: Sequence[Sequence[Mapping[str, int]]], declared: Declared) -> Iterator[Difference]:
    """Yield the differences of start-up logs."""
    for line in sorted({line for side in logs for lines in side for line in lines}):
        left, right = ([lines.get(line, 0) for lines in side] for side in logs)
        if {*left, *right} == {left[0]}:
            continue
        found = Difference(line_id(line), "engine-induced", left[0], right[0], line=line)
        if max(left) >= min(right) and max(right) >= min(left):
            yield dataclasses.replace(found, kind="dropped", note=NOISE)
        elif _expected(line, declared):
            yield dataclasses.replace(found, kind="declared", note="expected")
        else:
            yield found


def _subject(line: str) -> str | None:
    """Return the path of the setting that a line is about, `None` if it is about none that is known."""
    return next((path for pattern, path in _SAID if pattern.search(line)), None)


def _believed(found: Difference, config: Mapping[str, JsonValue]) -> Difference:
    """Believe the resolved value where a line of one arm is about a setting that both arms resolved alike."""
    subject = _subject(found.line)
    if found.kind != "engine-induced" or subject is None or subject not in config:
        return found
    return dataclasses.replace(found, kind="log-only", note=f"resolved to {json.dumps(config[subject])} in both arms")


def _expected(line: str, declared: Declared) -> bool:
    """Whether a line only repeats what was declared: the drafter is loaded; ``Using max model len 4096``."""
    if _DRAFTER.fullmatch(line):
        return any(within(path, SPECULATION) for path in declared.paths)
    return any(repeats(line, name=name, values=values) for name, values in declared.spoken.items())


def _rank(found: Difference) -> tuple[int, int, str]:
    prefixes = [place for place, prefix in enumerate(_FIRST) if found.id.startswith(prefix)]
    return (int(found.id.startswith("log:")), min(prefixes, default=len(_FIRST)), found.id)
