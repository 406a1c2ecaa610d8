"""Failure texts and the summary of a session: what broke, by how much, how sure we are, and what to run next."""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.baseline_threshold import NOT_WORSE_THAN_BASELINE
from pytest_specgate.core.baselines import BASELINES_OFF, NO_BASELINE
from pytest_specgate.core.confounds import REASON as OTHER_DIFFERENCES
from pytest_specgate.core.confounds import attached_of
from pytest_specgate.core.hosts import describe, facts_of, host_class, troubles
from pytest_specgate.core.judge import identity_of, not_booted, pair_problem
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.quantities import bunched_sends
from pytest_specgate.core.thresholds import LIMITS
from pytest_specgate.core.validity import SPECULATION_INACTIVE
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.reporting.acceptance import acceptance_lines, limit_evidence
from pytest_specgate.reporting.baselines import baseline_lines, baseline_steps, one_line
from pytest_specgate.reporting.differences import differences_in_short, pair_differences
from pytest_specgate.reporting.engines import build_lines, engine_lines
from pytest_specgate.reporting.evidence import counted, evidence_lines, is_undecided, needs_lines, verdict_notes
from pytest_specgate.reporting.gate_names import gate_names
from pytest_specgate.reporting.history import history_lines
from pytest_specgate.reporting.layout import FULL, Detail
from pytest_specgate.reporting.long import boot_table, round_table, server_lines
from pytest_specgate.reporting.outputs import output_lines, outputs_in_short
from pytest_specgate.reporting.prompts import load_text, speculation_caption, temperature_lines
from pytest_specgate.reporting.tables import (
    ArmBoots,
    load_table,
    pair_table,
    point_notes,
    speculation_table,
    usable_points,
)
from pytest_specgate.reporting.window_pairs import no_figures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.reporting.layout import View


_UNFOUNDED: Final = {NO_BASELINE: "without a baseline", BASELINES_OFF: "with baselines off"}
"""Reasons of verdicts that rest on nothing, in words."""


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """A gate with its verdicts, and where it stands in the test run.

    Attributes:
        gate: the claims.
        verdicts: one a threshold, in the same order.
    """

    gate: Gate
    verdicts: tuple[Verdict, ...]


def failure_text(verdict: Verdict, *, gate: Gate, record: WindowRecord, record_path: str, again: str) -> str:
    """Return the whole message of a threshold that did not pass; its first line is the sentence of the verdict."""
    first = verdict.summary if verdict.outcome != Outcome.INVALID else f"INVALID ({verdict.reason}): {verdict.summary}"
    history = history_lines(record, of_limit=verdict.kind in LIMITS)
    said = [*history, *temperature_lines(gate.pair.profile, verdict.at)]
    lines = [one_line(first), *_indented([*said, *_evidence(verdict, gate, record)])]
    lines += _indented(_flag_lines(verdict))
    lines += _indented(_next_steps(verdict, gate, record, record_path=record_path, again=again))
    return "\n".join(lines)


def _evidence(verdict: Verdict, gate: Gate, record: WindowRecord) -> Iterator[str]:
    if verdict.outcome == Outcome.INVALID:
        yield from verdict.detail.splitlines()
        if not gate.pair.alone:
            yield outputs_in_short(gate.pair, record)
        return
    yield identity_of(gate.pair, record).sentence
    yield from evidence_lines(verdict, gate)
    if verdict.kind in {*LIMITS, NOT_WORSE_THAN_BASELINE}:
        yield from limit_evidence(verdict, gate.pair, record)
    if gate.pair.alone:
        return
    yield f"engine-induced differences: {differences_in_short(gate.pair, record)}"
    yield outputs_in_short(gate.pair, record)


def _flag_lines(verdict: Verdict) -> list[str]:
    return [f"note: {flag}" for flag in verdict.flags]


def _next_steps(verdict: Verdict, gate: Gate, record: WindowRecord, *, record_path: str, again: str) -> Iterator[str]:
    yield from _server_steps(gate, record)
    yield f"record: {record_path} (judge it again, anywhere: specgate judge {shlex.quote(record_path)})"
    about = verdict.baseline is not None or verdict.reason == NO_BASELINE
    if about and verdict.outcome != Outcome.INVALID:
        yield from baseline_steps(verdict, record_path=record_path, again=again)
    elif is_undecided(verdict) and any(attached_of(arm.name, record) for arm in gate.pair.own_arms):
        yield f"an attached server gives one round: declare a floor for what it can decide, then {again}"
    elif verdict.reason == "stopped":
        yield from _steps_of_stopped(record, record_path=record_path, again=again)
    elif is_undecided(verdict):
        yield from needs_lines(verdict, again)
    elif verdict.reason == SPECULATION_INACTIVE:
        yield f"the same run once more changes nothing; mend that first, and then: {again}"
    elif verdict.outcome == Outcome.INVALID:
        yield f"run again: {again}"
    else:
        yield f"measure again (a new sample, not a correction): {again}"


def _server_steps(gate: Gate, record: WindowRecord) -> Iterator[str]:
    """Say how the servers of a gate were started, and where to read on about those that failed."""
    for arm in gate.pair.own_arms:
        boots = [boot for boot in record.boots_of(arm.name) if boot.command]
        if boots:
            yield f"server of {arm.name}: {boots[-1].command}"
    failed = dict.fromkeys(boot.arm for boots in record.boots_for(gate.pair) for boot in boots if boot.failure)
    for name in failed:
        if not attached_of(name, record):
            yield f"whole log of {name}: beside the record, as server-*-{name}.log"


def _steps_of_stopped(record: WindowRecord, *, record_path: str, again: str) -> Iterator[str]:
    """Say what to run next where nothing more was measured: the time was up, or another threshold had failed."""
    if record.stopped:
        yield f"go on with what was measured: the same run once more, and --specgate-resume={shlex.quote(record_path)}"
        yield f"measure it whole, with more time or without a budget: {_without_budget(again)}"
    else:
        yield "a gate stops where one of its thresholds fails, also when another one is run alone:"
        yield f"mend what failed, or give this claim a gate of its own, and then: {again}"


def _without_budget(again: str) -> str:
    """Return a command without the option that cut the run short."""
    words = [word for word in shlex.split(again) if not word.startswith("--specgate-budget")]
    return shlex.join(words)


def _indented(lines: Iterator[str] | Sequence[str]) -> list[str]:
    """Return lines that stand below another; text of a server neither steers a terminal nor starts one."""
    return [f"    {one_line(part.expandtabs())}" for line in lines for part in line.splitlines() or [""]]


def window_lines(
    record: WindowRecord,
    *,
    pairs: Sequence[ArmPair],
    judged: Sequence[Judged],
    record_path: str,
    view: View = FULL,
) -> Iterator[str]:
    """Return the summary of a window: identity first, then figures, then what they rest on."""
    short, columns = view.detail < Detail.NORMAL, view.columns
    yield from map(one_line, _short_head(record) if short else _window_head(record))
    doubtful: list[ArmPair] = []
    for pair in pairs:
        verdicts = [verdict for entry in judged if entry.gate.pair == pair for verdict in entry.verdicts]
        problem = None if not_booted(pair, record) else pair_problem(pair, record)
        if problem or any(verdict.outcome != Outcome.PASS for verdict in verdicts):
            doubtful.append(pair)
        yield ""
        yield from _pair_lines(pair, record, verdicts, view)
    yield from _knee_lines(record, record_path=record_path, view=view)
    # Who wants little sees what stands beside the figures where these were not good enough.
    readable = _readable_boots(doubtful if short else pairs, record)
    if speculation := speculation_table(readable, record, columns=columns):
        yield from ("", speculation_caption(record.profile), speculation)
    if load := load_table(readable, record, columns=columns):
        yield from ("", "load and client, mean over boots", load)
    if view.detail >= Detail.LONG:
        names = [entry.arm.name for entry in readable]
        if boots := boot_table(record, arms=names, columns=columns):
            yield from ("", "boots in their order", boots)
        yield from server_lines(record)
    yield ""
    yield from map(one_line, _window_foot(record, pairs, readable, record_path=record_path, short=short))


def _knee_lines(record: WindowRecord, *, record_path: str, view: View) -> Iterator[str]:
    from pytest_specgate.reporting.window_knee import knee_section  # noqa: PLC0415  - it brings scipy

    yield from knee_section(record, record_path, view=view)


def _pair_lines(pair: ArmPair, record: WindowRecord, verdicts: Sequence[Verdict], view: View) -> Iterator[str]:
    yield one_line(f"{pair.title} alone" if pair.alone else f"{pair.title} ({', '.join(pair.paths)} varies)")
    problem = pair_problem(pair, record)
    if problem is not None:
        yield one_line(no_figures(problem))
        yield from _indented(problem.detail.splitlines() if problem.reason == "profile-mismatch" else [])
        yield from map(one_line, pair_differences(pair, record) if problem.reason == OTHER_DIFFERENCES else ())
        return
    yield identity_of(pair, record).sentence
    if pair.alone:
        yield from acceptance_lines(pair, record, verdicts, columns=view.columns)
    else:
        yield pair_table(pair, record, verdicts, columns=view.columns)
    yield from point_notes(pair, record)
    against = [verdict for verdict in verdicts if verdict.kind == NOT_WORSE_THAN_BASELINE]
    yield from baseline_lines(against, names=gate_names(against), columns=view.columns)
    told = verdicts
    if view.detail < Detail.NORMAL:
        told = [verdict for verdict in verdicts if verdict.outcome != Outcome.PASS]
    yield from map(one_line, verdict_notes(told, among=verdicts))
    if told or view.detail >= Detail.NORMAL:
        yield from map(one_line, (*build_lines(pair, record), *pair_differences(pair, record)))
    long = view.detail >= Detail.LONG and not pair.alone
    if long and (table := round_table(pair, record, verdicts, columns=view.columns)):
        yield from ("", f"{pair.title}, by round", table)


def _readable_boots(pairs: Sequence[ArmPair], record: WindowRecord) -> list[ArmBoots]:
    """Return the arms whose figures may be shown, with the boots of those of their pairs that are valid."""
    found: dict[str, ArmBoots] = {}
    for pair in pairs:
        if pair_problem(pair, record) is None:
            for arm, boots in zip(pair.arms, record.boots_for(pair), strict=True):
                known = found.get(arm.name)
                merged = {boot.round: boot for boot in (*(known.boots if known else ()), *boots)}
                found[arm.name] = ArmBoots(arm, tuple(merged.values()))
    return list(found.values())


def _short_head(record: WindowRecord) -> Iterator[str]:
    """Say what no reader may miss, however little he wants to see."""
    if not record.finished or record.stopped:
        yield _boots_line(record)
    yield from history_lines(record)
    yield from _troubles(record)


def _troubles(record: WindowRecord) -> Iterator[str]:
    after = [trouble for boot in record.boots for trouble in troubles(facts_of(boot.host_after))]
    yield from dict.fromkeys(f"host: {trouble}" for trouble in [*troubles(facts_of(record.host)), *after])


def _boots_line(record: WindowRecord) -> str:
    rounds: dict[int, list[str]] = {}
    for boot in sorted(record.boots, key=lambda boot: (boot.round, boot.position)):
        rounds.setdefault(boot.round, []).append(boot.arm)
    order = " / ".join(" ".join(arms) for arms in rounds.values()) or "none"
    state = "" if record.finished else ", UNFINISHED"
    return f"boots: {len(record.boots)} in {counted(len(rounds), 'round')} ({order}){state}"


def _window_head(record: WindowRecord) -> Iterator[str]:
    yield _boots_line(record)
    yield from history_lines(record)
    yield f"load: {load_text(record)}"
    host = facts_of(record.host)
    own = host_class(host)
    declared = f", declared; by its facts {own}" if record.host_class not in {"", own} else ""
    yield f"host: {describe(host)} (class {record.host_class or own}{declared})"
    yield from _troubles(record)
    yield from engine_lines(record)


def _window_foot(
    record: WindowRecord, pairs: Sequence[ArmPair], readable: Sequence[ArmBoots], *, record_path: str, short: bool
) -> Iterator[str]:
    if not short:
        yield from _cpu_line(record)
        yield from _rhythm(record, readable)
    compared = [pair for pair in pairs if not pair.alone]
    if compared:
        yield from output_lines([pair for pair in compared if pair_problem(pair, record) is None], record)
    yield f"record: {record_path}"


def _cpu_line(record: WindowRecord) -> Iterator[str]:
    shares = [
        point.other_cpu_share for boot in record.boots for point in boot.points if point.other_cpu_share is not None
    ]
    if shares:
        yield (
            f"CPU used by other processes while measuring: {min(shares):.2f} to {max(shares):.2f} "
            f"of {record.host.get('cpus')} CPUs"
        )


def _rhythm(record: WindowRecord, readable: Sequence[ArmBoots]) -> Iterator[str]:
    """Say how bunched the sends were, since TTFT in a closed loop follows from it."""
    texts = []
    for at in record.profile.points:
        points = {entry.arm.name: usable_points(entry, record, at=at) for entry in readable}
        shares = {
            arm: [share for point in found if (share := bunched_sends(point)) is not None]
            for arm, found in points.items()
        }
        known = [f"{arm} {100 * sum(found) / len(found):.0f} %" for arm, found in shares.items() if found]
        if known:
            texts.append(f"{level_label(at)} {', '.join(known)}")
    if texts:
        why = ": where arms differ, so does their TTFT" if len(readable) > 1 else ""
        yield f"sends in bunches after the first wave ({'; '.join(texts)}){why}"


def outcome_line(verdicts: Sequence[Verdict], *, collected: int) -> str:
    """Count the outcomes of a session: ``5 of 6 thresholds judged: 3 PASS, 2 FAIL (1 of them expected)``.

    Verdicts that rest on nothing, since there is no baseline, stand behind those that count as judged:
    ``2 of 5 thresholds judged: 2 PASS; 3 without a baseline (INCONCLUSIVE)``.
    """
    judged = [verdict for verdict in verdicts if verdict.reason not in _UNFOUNDED]
    texts = []
    for word in Outcome:
        found = [verdict for verdict in judged if verdict.outcome == word]
        expected = sum(verdict.expected and verdict.accepted for verdict in found)
        if found:
            texts.append(f"{len(found)} {word}{f' ({expected} of them expected)' if expected else ''}")
    line = f"{len(judged)} of {counted(collected, 'threshold')} judged{': ' if texts else ''}{', '.join(texts)}"
    return "; ".join([line, *_unfounded(verdicts)])


def _unfounded(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Count the verdicts that rest on nothing, with their word, which may be in the table of outcomes, too."""
    for reason, words in _UNFOUNDED.items():
        found = [verdict for verdict in verdicts if verdict.reason == reason]
        expected = sum(verdict.expected and verdict.accepted for verdict in found)
        outcomes = dict.fromkeys(verdict.outcome for verdict in found)
        if found:
            yield f"{len(found)} {words} ({', '.join([*outcomes, *([f'{expected} expected'] if expected else [])])})"
