"""Engine-induced differences: in what two arms differ besides what was declared.

Turning speculation on may remove a fused kernel, change the scheduler's budget or switch asynchronous scheduling off.
The resolved configurations of both arms and their start-up logs tell it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pytest_specgate.core.profile import same, sha256_of_text
from pytest_specgate.core.resolved import ENVIRONMENT, SPECULATION, argument_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pydantic import JsonValue

Kind: TypeAlias = Literal["declared", "engine-induced", "log-only", "dropped"]

ABSENT: Final = "(absent)"
"""Stands for the value of a path that one configuration has and the other has not."""

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

_FOLLOWS: Final = {
    "block_size": ("cache_config.user_specified_block_size", "cache_config.effective_attention_block_size"),
    "max_model_len": ("cache_config.kv_cache_max_concurrency",),
    "max_num_batched_tokens": (
        "scheduler_config.max_num_encoder_input_tokens",
        "scheduler_config.encoder_cache_size",
        "compilation_config.compile_ranges_endpoints",
    ),
    "num_gpu_blocks_override": (
        "cache_config.num_gpu_blocks",
        "cache_config.kv_cache_size_tokens",
        "cache_config.kv_cache_max_concurrency",
    ),
    "pipeline_parallel_size": ("parallel_config.world_size",),
    "tensor_parallel_size": ("parallel_config.world_size",),
}
"""What vLLM derives from an argument without a decision of its own."""

_SAID: Final = (
    (re.compile(r"Async scheduling"), _ASYNC),
    (re.compile(r"max_num_scheduled_tokens is set to"), _BUDGET),
    (re.compile(r"NCCL for DP synchronization"), _DP_SYNC),
    (re.compile(r"(?i)cudagraph_mode"), "compilation_config.cudagraph_mode"),
)
"""Log lines about a setting: the resolved value is believed, not the line, which may stand in one arm only."""

_NOISE: Final = "changes from boot to boot of one arm"
_EXPECTED: Final = re.compile(r"Loading drafter model")
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
        kind: ``declared`` (or a plain consequence), ``engine-induced``, ``log-only`` (a line about a setting that
            both arms resolved alike), or ``dropped`` (changes from boot to boot of one arm).
        reference: value in the first boot of the reference; for a line, how often it was printed.
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
        """Return the engine-induced differences that a user has not allowed: by id, or by a part of the path."""
        listed = tuple(allowed)
        return tuple(
            found for found in self.of("engine-induced") if not any(_within(found.id, prefix) for prefix in listed)
        )

    def unused(self, allowed: Iterable[str]) -> tuple[str, ...]:
        """Return the ids that a user has allowed, but that do not occur."""
        induced = self.of("engine-induced")
        return tuple(prefix for prefix in allowed if not any(_within(found.id, prefix) for found in induced))


def engine_differences(
    reference: Sequence[StartUp], candidate: Sequence[StartUp], *, varies: Sequence[str]
) -> DifferenceReport:
    """Find in what the boots of two arms differ, and what of it was declared.

    With more than one boot of an arm, what changes among them is noise: it counts as a difference only where the
    values of the two arms lie apart.

    Args:
        reference: all boots of the reference, at least one.
        candidate: all boots of the candidate, at least one.
        varies: dotted paths in which the arms are declared to differ.
    """
    sides = (reference, candidate)
    configs = [[boot.config for boot in side if boot.config] for side in sides]
    logs = [[boot.lines for boot in side if boot.lines] for side in sides]
    unread = tuple(name for name, found in ((CONFIGURATION, configs), (LOG, logs)) if not all(found))
    settings = list(_settings(configs, varies)) if all(configs) else []
    lines = list(_lines(logs, varies)) if all(logs) else []
    known = {**configs[0][0], **configs[1][0]} if all(configs) else {}
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


def _settings(configs: Sequence[Sequence[Mapping[str, JsonValue]]], varies: Sequence[str]) -> Iterator[Difference]:
    """Yield the differences of resolved configurations; speculation, and another engine's settings, as one."""
    first, second = (side[0] for side in configs)
    declared = _declared_paths(varies, {**first, **second})
    engines = "engine" in varies
    speculation, strangers = [], []
    for path in sorted({path for side in configs for config in side for path in config}):
        left, right = ([config.get(path, ABSENT) for config in side] for side in configs)
        if all(same(left[0], value) for value in (*left, *right)):
            continue
        if SPECULATION in declared and _within(path, SPECULATION):
            speculation.append(path)
        elif engines and ABSENT in {str(left[0]), str(right[0])}:
            strangers.append(path)
        else:
            yield _setting(path, (left, right), (first, second), declared)
    if speculation:
        yield _speculation(speculation, first, second)
    if strangers:
        counts = [sum(path in config for path in strangers) for config in (first, second)]
        note = "settings that only one of the two engines has"
        yield Difference("engine", "declared", counts[0], counts[1], note)


def _setting(
    path: str,
    values: tuple[Sequence[JsonValue], Sequence[JsonValue]],
    configs: tuple[Mapping[str, JsonValue], Mapping[str, JsonValue]],
    declared: Mapping[str, str],
) -> Difference:
    left, right = values
    reasons = [note for prefix, note in declared.items() if _within(path, prefix)]
    volatile = [reason for pattern, reason in _VOLATILE if pattern.search(path)]
    if reasons:
        return Difference(path, "declared", left[0], right[0], reasons[0])
    if volatile:
        return Difference(path, "dropped", left[0], right[0], volatile[0])
    if not _apart(left, right):
        return Difference(path, "dropped", left[0], right[0], _NOISE)
    return Difference(path, "engine-induced", left[0], right[0], _note(path, *configs))


def _declared_paths(varies: Sequence[str], config: Mapping[str, JsonValue]) -> dict[str, str]:
    """Return the resolved paths that a variation names, or that plainly follow from it, and what to say of each."""
    paths: dict[str, str] = {}
    for varied in varies:
        kind, _, name = varied.partition(".")
        if kind == "env":
            paths[f"{ENVIRONMENT}.{name}"] = ""
        elif name.partition(".")[0] == SPECULATION:
            paths[SPECULATION] = ""
        elif kind == "args":
            plain = name.replace("-", "_")
            paths |= dict.fromkeys(_FOLLOWS.get(plain, ()), f"follows from {varied}")
            if (path := argument_path(plain, config)) is not None:
                paths[path] = ""
    return paths


def _apart(left: Sequence[JsonValue], right: Sequence[JsonValue]) -> bool:
    """Whether the values of two arms lie apart: each constant, or two ranges of numbers that do not meet."""
    if all(same(side[0], value) for side in (left, right) for value in side):
        return True
    numbers = [[value for value in side if isinstance(value, int | float)] for side in (left, right)]
    if any(len(found) < len(side) for found, side in zip(numbers, (left, right), strict=True)):
        return False
    return max(numbers[0]) < min(numbers[1]) or max(numbers[1]) < min(numbers[0])


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
    own = {path.removeprefix(f"{SPECULATION}."): value for path, value in config.items() if _within(path, SPECULATION)}
    if own.get("num_speculative_tokens") is None:
        return "none"
    method, model, sampling = own.get("method"), own.get("model"), own.get("rejection_sample_method")
    words = [str(model if method is None else method), f"k={own['num_speculative_tokens']}"]
    if str(words[0]).startswith("ngram"):
        words.append(f"lookup {own.get('prompt_lookup_min')}..{own.get('prompt_lookup_max')}")
    elif model is not None and model != words[0]:
        words.append(f"model {str(model).rstrip('/').rpartition('/')[2]}")
    if sampling not in {None, "standard"}:
        words.append(f"{sampling} rejection sampling")
    return ", ".join(words)


def _lines(logs: Sequence[Sequence[Mapping[str, int]]], varies: Sequence[str]) -> Iterator[Difference]:
    """Yield the differences of start-up logs."""
    for line in sorted({line for side in logs for lines in side for line in lines}):
        left, right = ([lines.get(line, 0) for lines in side] for side in logs)
        if {*left, *right} == {left[0]}:
            continue
        found = Difference(_line_id(line), "engine-induced", left[0], right[0], line=line)
        if not _apart(left, right):
            yield dataclasses.replace(found, kind="dropped", note=_NOISE)
        elif _expected(line, varies):
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


def _expected(line: str, varies: Sequence[str]) -> bool:
    """Whether a line only repeats what was declared: the drafter is loaded; ``Using max model len 4096``."""
    names = [name.partition(".")[2].partition(".")[0].replace("-", "_") for name in varies if name.startswith("args.")]
    spoken = any(name in line or name.replace("_", " ") in line for name in names)
    return (SPECULATION in names and bool(_EXPECTED.search(line))) or (line.startswith("INFO") and spoken)


def _line_id(line: str) -> str:
    """Name a line by its first words and a hash of its text without figures, the same in every version of vLLM."""
    text = re.sub(r"^\w+ \[[^\]]*\] ", "", line)
    words = re.findall(r"[A-Za-z_]+", text)
    return f"log:{'-'.join(words[:5])}-{sha256_of_text(' '.join(words))[:6]}"


def _rank(found: Difference) -> tuple[int, int, str]:
    prefixes = [place for place, prefix in enumerate(_FIRST) if found.id.startswith(prefix)]
    return (int(found.id.startswith("log:")), min(prefixes, default=len(_FIRST)), found.id)


def _within(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}.")
