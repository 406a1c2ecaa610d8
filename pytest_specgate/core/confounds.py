"""In what the servers of a pair differ besides what was declared, from what a window has kept of their starts."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.arms import differing_paths, following_paths
from pytest_specgate.core.differences import (
    ABSENT,
    ENGINE,
    NOISE,
    STARTED_AS,
    Declared,
    DifferenceReport,
    StartUp,
    engine_differences,
    restored,
)
from pytest_specgate.core.proof import proofs_of_state
from pytest_specgate.core.records import PairRecord
from pytest_specgate.core.resolved import ENVIRONMENT, SPECULATION, argument_path
from pytest_specgate.core.startup_log import line_text
from pytest_specgate.core.stored import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.differences import Difference, Kind
    from pytest_specgate.core.records import BootRecord, WindowRecord

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

CHANGED_COMMAND: Final = "changed_command"
"""Fact of an engine: what the project makes of the command that starts it."""

CHANGED_COMMANDS: Final = "changed_commands"
"""Setting of a window: the same of every arm that has it, by name."""

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

_SPECULATION_FOLLOWS: Final = {
    "draft_tensor_parallel_size": ("draft_parallel_config",),
    "model": ("method", "draft_model_config"),
    "prompt_lookup_max": ("prompt_lookup_min",),
    "prompt_lookup_min": ("prompt_lookup_max",),
}
"""The same inside speculation, where both arms speculate by one method."""

_DRAFT_PARTS: Final = ("draft_model_config", "draft_parallel_config", "draft_load_config")

_HEADS: Final[tuple[tuple[str, Kind], ...]] = (
    ("declared", "declared"),
    ("undeclared", "undeclared"),
    ("engine-induced", "engine-induced"),
    ("log only", "log-only"),
    ("dropped (noise)", "dropped"),
)
ONE_BOOT: Final = "one boot of each arm: what changes from boot to boot cannot be told from what differs"
_NAMED: Final = 5
_LINE_WIDTH: Final = 100
_VALUE_WIDTH: Final = 60
_BEFORE: Final = 20


def differences_of(pair: ArmPair, record: WindowRecord) -> DifferenceReport | None:
    """Return the differences of a pair's servers; `None` when a side has no boot whose start was kept.

    An arm alone has no other side.
    """
    if pair.alone:
        return None
    starts = starts_of(record)
    reference, candidate = (
        [starts[boot.arm, boot.round] for boot in boots if (boot.arm, boot.round) in starts]
        for boots in record.boots_for(pair)
    )
    if not reference or not candidate:
        return None
    return engine_differences(reference, candidate, declared=declared_between(pair.arms, (reference[0], candidate[0])))


def declared_between(arms: tuple[Arm, Arm], starts: tuple[StartUp, StartUp]) -> Declared:
    """Return in what two arms differ by themselves, under the names and with the values that their servers tell.

    Args:
        arms: reference and candidate.
        starts: one of each.
    """
    known = {**starts[0].config, **starts[1].config}
    differing = differing_paths(*arms)
    flats = [arm.flat() for arm in arms]
    paths = {f"{ENVIRONMENT}.{path.removeprefix('env.')}": "" for path in differing if path.startswith("env.")}
    spoken: dict[str, list[JsonValue]] = {}
    following = following_paths(*arms)
    for given in (path for path in (*differing, *following) if path.startswith("args.")):
        values = [flat[given] for flat in flats if given in flat]
        name, values = _plain(given.removeprefix("args."), values)
        own = _resolved_paths(name, known, both=all(arm.speculates for arm in arms))
        if given in following:
            own = dict.fromkeys(own, f"follows from args.{SPECULATION}")
        paths |= {path: note for path, note in own.items() if path not in paths}
        resolved = [
            start.config[path] for path, note in own.items() if not note for start in starts if path in start.config
        ]
        spoken.setdefault(name, []).extend([*values, *resolved])
    return Declared(paths, spoken, engines="engine" in differing)


def _plain(given: str, values: Sequence[JsonValue]) -> tuple[str, list[JsonValue]]:
    """Return an argument by its plain name, with its values: ``no-x=True`` is ``x=False``."""
    head, dot, rest = given.partition(".")
    head = head.replace("-", "_")
    if head.startswith("no_") and not dot:
        return head.removeprefix("no_"), [not value if isinstance(value, bool) else value for value in values]
    return f"{head}{dot}{rest}", list(values)


def _resolved_paths(name: str, known: Mapping[str, JsonValue], *, both: bool) -> dict[str, str]:
    """Return where a server tells an argument and what plainly follows from it, and what to say of each."""
    head, _, rest = name.partition(".")
    if head != SPECULATION:
        path = argument_path(name, known)
        return {
            **({} if path is None else {path: ""}),
            **dict.fromkeys(_FOLLOWS.get(name, ()), f"follows from args.{name}"),
        }
    # Speculation that only one arm has, or another method of it, is declared as a whole.
    if not both or rest in {"", "method"}:
        return {SPECULATION: ""}
    parts = [rest, *_SPECULATION_FOLLOWS.get(rest, ()), *(f"{part}.{rest}" for part in _DRAFT_PARTS)]
    return {f"{SPECULATION}.{part}": "" for part in parts}


def told(pairs: Sequence[ArmPair], record: WindowRecord) -> tuple[PairRecord, ...]:
    """Return the pairs of a record with the differences of their servers, to be stored with it."""
    reports = [differences_of(pair, record) for pair in pairs]
    found = [None if report is None else tuple(map(dataclasses.asdict, report.differences)) for report in reports]
    return tuple(
        PairRecord.of(pair).model_copy(update={"differences": differences})
        for pair, differences in zip(pairs, found, strict=True)
    )


def unlisted_differences(pair: ArmPair, record: WindowRecord) -> Failure | None:
    """Return why a pair must not be judged strictly: something differs that nobody has allowed; `None` if nothing does.

    What could not be read counts as a difference: nobody can say that there is none. The details are all that is
    known, so that a reader can decide what is harmless.
    """
    if pair.alone:
        return None
    report = differences_of(pair, record)
    if report is None:
        return Failure(reason=REASON, message=f"nothing is known of the starts of the servers of {pair.title}")
    found = [difference.id for difference in report.unlisted(pair.allow_engine_differences)]
    found += [f"{part} (could not be read)" for part in report.unread]
    if not found:
        return None
    text = (
        f"servers of {pair.title} also differ in {ids_text(found)}: list in allow_engine_differences what is harmless"
    )
    lines = difference_lines(report, allowed=pair.allow_engine_differences, whole=True)
    alone = [ONE_BOOT] if len(record.rounds_of(pair)) < 2 else []
    return Failure(reason=REASON, message=text, detail="\n".join([*lines, *alone]))


def other_start(pair: ArmPair, record: WindowRecord) -> Failure | None:
    """Return why a pair must not be judged at all: the project starts its arms otherwise, and nobody has allowed it.

    That is a second variable, which whoever wrote the hook has set, and no consequence of the declared one.
    """
    kept = (boot.startup.config for boot in record.boots if boot.startup is not None)
    # Asked before every figure: most projects change no command, and pay for no comparison.
    report = differences_of(pair, record) if any(STARTED_AS in config for config in kept) else None
    if report is None:
        return None
    found = [one for one in report.unlisted(pair.allow_engine_differences) if one.id == STARTED_AS]
    if not found:
        return None
    text = (
        f"the project starts the servers of {pair.title} in two ways, which the pair does not declare: change the "
        f"commands of both arms alike, or list {STARTED_AS} in allow_engine_differences"
    )
    lines = difference_lines(DifferenceReport(tuple(found)), whole=True)
    return Failure(reason=REASON, message=text, detail="\n".join(lines[:1]))


def undecided(failure: Failure, pair: ArmPair, record: WindowRecord) -> bool:
    """Whether differences may still turn out to be noise: there is one boot of each arm, and another is planned."""
    more = len(record.rounds_of(pair)) < min(2, pair.rounds)
    return failure.reason == REASON and more and other_start(pair, record) is None


def ids_text(ids: Sequence[str]) -> str:
    """Return the first of some ids, and how many more there are."""
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(ids[:_NAMED]) + more


def difference_lines(
    report: DifferenceReport, *, allowed: Mapping[str, str] | None = None, whole: bool = False
) -> tuple[str, ...]:
    """Return the differences of a pair, group by group; groups without any are left out, engine-induced ones never are.

    Args:
        report: what was found.
        allowed: reason by id, for those that the user has listed.
        whole: whether values and lines of the log are told to their end.
    """
    lines: list[str] = []
    for head, kind in _HEADS:
        found = report.of(kind)
        volatile = [one.id for one in found if one.kind == "dropped" and one.note != NOISE]
        texts = [", ".join(volatile)] if volatile else []
        shown = (one for one in found if one.id not in volatile)
        texts += [text for one in shown for text in _texts(one, report, allowed or {}, whole=whole)]
        if kind == "engine-induced":
            texts += _unknown(report) or ([] if found else ["none"])
        counted = f"{head} ({len(found)})" if kind == "engine-induced" and not (report.unread and not found) else head
        lines += [f"{counted if place == 0 else '':<19} {text}" for place, text in enumerate(texts)]
    return tuple(lines)


def _unknown(report: DifferenceReport) -> list[str]:
    return [f"not known: there is no {' and no '.join(report.unread)} of both arms"] if report.unread else []


def _texts(found: Difference, report: DifferenceReport, allowed: Mapping[str, str], *, whole: bool) -> Iterator[str]:
    yield " ".join([_what(found, whole=whole), *_remarks(found, report, allowed)])
    if whole and found.line and found.kind == "engine-induced" and not found.id.startswith("log:"):
        yield f'    log: "{found.line}"'


def _what(found: Difference, *, whole: bool) -> str:
    """Return a setting with both values, or a log line and where it was printed."""
    if not found.id.startswith("log:"):
        values = [_value(found, value, whole=whole) for value in (found.reference, found.candidate)]
        if values[0] == values[1] and found.id != ENGINE:
            values = _apart(*(_value(found, value, whole=True) for value in (found.reference, found.candidate)))
        return f"{found.id}: {' -> '.join(values)}"
    text = _cut(line_text(found.line), None if whole else _LINE_WIDTH)
    return f'"{text}"' if found.kind == "log-only" else f'log: "{text}"'


def _remarks(found: Difference, report: DifferenceReport, allowed: Mapping[str, str]) -> Iterator[str]:
    warned = not found.id.startswith("log:") and found.line.startswith("WARNING")
    notes = [note for note in (_printed(found), found.note, "the engine warns of it" if warned else "") if note]
    if notes:
        yield f"({'; '.join(notes)})"
    if found.kind not in {"undeclared", "engine-induced"}:
        return
    if found.id.startswith("log:"):
        yield f"[{found.id}]"
    if found not in report.unlisted(allowed):
        reasons = [reason for prefix, reason in allowed.items() if found not in report.unlisted([prefix])]
        yield f"allowed: {reasons[0]}"


def _printed(found: Difference) -> str:
    if not found.id.startswith("log:"):
        return ""
    if found.reference and found.candidate:
        return f"printed {found.reference} and {found.candidate} times"
    return "candidate only" if found.candidate else "reference only"


def _value(found: Difference, value: JsonValue, *, whole: bool) -> str:
    """Return a value as it stands in a configuration file; no value is ``none``."""
    if (found.id == SPECULATION and isinstance(value, str)) or value == ABSENT:
        return str(value)
    if found.id == ENGINE and isinstance(value, dict):
        named = [f"{name}={json.dumps(item, ensure_ascii=False)}" if whole else name for name, item in value.items()]
        return f"{len(value)} ({', '.join(named)})" if value else "0"
    text = "none" if value is None else json.dumps(value, ensure_ascii=False)
    return _cut(text, None if whole else _VALUE_WIDTH)


def _apart(one: str, other: str) -> list[str]:
    """Return two long texts from shortly before the place where they differ."""
    pairs = enumerate(zip(one, other, strict=False))
    place = next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))
    start = max(place - _BEFORE, 0)
    return [f"...{_cut(text[start:], _VALUE_WIDTH - 3)}" for text in (one, other)]


def _cut(text: str, width: int | None) -> str:
    return text if width is None or len(text) <= width else f"{text[: width - 3]}..."


def attached_of(arm: str, record: WindowRecord) -> tuple[str, ...]:
    """Return what nobody can prove of an arm whose server was attached; empty for one that was started."""
    return tuple(dict.fromkeys(phrase for boot in record.boots_of(arm) for phrase in boot.unproved))


def attached_sentence(arm: str, record: WindowRecord) -> str | None:
    """Say what nobody can prove of an attached arm, `None` for one that was started."""
    unproved = attached_of(arm, record)
    return f"{arm} was attached, so this is not proved: {'; '.join(unproved)}" if unproved else None


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
    config = _config_of(arm, record)
    return (
        tuple(proof.argument for proof in proofs_of_state("unproved", arm.args, config, env=arm.env)) if config else ()
    )


def contradicted_of(arm: Arm, record: WindowRecord) -> tuple[str, ...]:
    """Return which declared arguments of an arm its servers tell otherwise, with both values.

    ``declared attention_backend=FLASH_ATTN, the server says attention_config.backend=none``: vLLM may have put the same
    thing in its own words, or not have heeded it. What cannot be the same thing made the arm INVALID before.
    """
    config = _config_of(arm, record)
    told = proofs_of_state("told otherwise", arm.args, config, env=arm.env) if config else ()
    return tuple(proof.contrast for proof in told)


def _config_of(arm: Arm, record: WindowRecord) -> Mapping[str, JsonValue]:
    """Return what the first server of an arm that tells it resolved; empty if none does."""
    starts = starts_of(record)
    own = (starts[boot.arm, boot.round] for boot in record.boots_of(arm.name) if (boot.arm, boot.round) in starts)
    return next((start.config for start in own), {})


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
