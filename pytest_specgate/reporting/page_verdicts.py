"""Verdicts as a page shows them: a card each, with the picture of its claim and, where it did not pass, what to do."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import shlex
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.baseline_threshold import NOT_WORSE_THAN_BASELINE
from pytest_specgate.core.baseline_values import View
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.statistics import raw_change
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.thresholds import FASTER_ONLY_UP_TO, LIMITS, OUTPUTS_AGREE
from pytest_specgate.core.units import amount_text, measured_text
from pytest_specgate.core.verdict import Outcome, change_words
from pytest_specgate.core.verdict_parts import invalid
from pytest_specgate.reporting.baselines import level_text, one_line
from pytest_specgate.reporting.evidence import counted, evidence_lines
from pytest_specgate.reporting.figures import percent, span, unit_text, value_text
from pytest_specgate.reporting.messages import failure_text
from pytest_specgate.reporting.page_strips import Claim, Row, Step, by_round, strip, waterfall
from pytest_specgate.reporting.session_report import ReportedVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.reporting.session_report import ReportedWindow, Unjudged

NOT_JUDGED: Final = "not-judged"
"""Reason code of a threshold that has no verdict."""

EXPECTED: Final = "expected"
"""Tone of an outcome other than PASS that its test accepts."""

ARROW: Final = " \N{RIGHTWARDS ARROW} "

_COMMAND: Final = re.compile(r"(?P<what>.*?)(?::| then) (?P<command>(?:pytest|specgate) .*)")
_INTERVALS: Final = frozenset({"not_worse", "better", "equivalent", NOT_WORSE_THAN_BASELINE})


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """Something to run, or that was run.

    Attributes:
        what: for.
        text: as it is typed; empty where there are only words.
    """

    what: str
    text: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Why:
    """What stands behind an outcome that is not PASS.

    Attributes:
        evidence: what the verdict rests on, line by line; for an INVALID one what was found, ends of logs included.
        steps: what to run next; none where the outcome is accepted.
    """

    evidence: tuple[str, ...]
    steps: tuple[Command, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Card:
    """One threshold.

    Attributes:
        name: unique in its page: the anchor, and the beginning of the names of its pictures.
        reported: the verdict with its place in the run.
        title: metric and load level.
        figure: what was found, in words of direction; empty for an INVALID one.
        aside: its interval, and the values of both arms.
        strip: picture of the claim; empty where nothing can be drawn.
        why: for those that are not PASS.
    """

    name: str
    reported: ReportedVerdict
    title: str
    figure: str
    aside: tuple[str, ...]
    strip: str
    why: Why | None

    @property
    def verdict(self) -> Verdict:
        """What was judged."""
        return self.reported.verdict

    @property
    def summary(self) -> str:
        """Its sentence, without the outcome, which stands beside it."""
        return self.verdict.summary.removeprefix(f"{self.verdict.outcome}: ")

    @property
    def tone(self) -> str:
        """The class of its outcome: its colour, with its word always beside it."""
        verdict = self.verdict
        if verdict.outcome == Outcome.PASS:
            return "pass" if verdict.accepted else "fail"
        return EXPECTED if verdict.accepted else verdict.outcome.lower()

    @property
    def word(self) -> str:
        """The outcome, and what the run made of it."""
        if self.verdict.reason == NOT_JUDGED:
            return "NOT JUDGED"
        if self.tone == EXPECTED:
            return f"{self.verdict.outcome}, expected"
        if self.verdict.outcome == Outcome.PASS and not self.verdict.accepted:
            return "PASS, not expected"
        return f"{self.verdict.outcome}{', skipped' if self.reported.skipped else ''}"


def card(reported: ReportedVerdict, window: ReportedWindow | None, *, name: str) -> Card:
    """Return the card of a verdict.

    Args:
        reported: the verdict.
        window: that it was judged by; `None` for one that nothing measured could have changed.
        name: unique in its page.
    """
    verdict = reported.verdict
    gate = _gate(verdict, window)
    claim = claim_of(verdict)
    title = title_of(verdict)
    picture = (
        "" if claim is None else strip(claim, name=f"{name}-strip", title=f"{title}: what was found against the claim")
    )
    return Card(
        name=name,
        reported=reported,
        title=title,
        figure=_figure(verdict),
        aside=tuple(_aside(verdict, gate)),
        strip=picture,
        why=_why(reported, gate, window),
    )


def unjudged_card(left: Unjudged, *, name: str) -> Card:
    """Return the card of a threshold that has no verdict.

    Args:
        left: the threshold.
        name: unique in its page.
    """
    verdict = invalid(left.gate, left.threshold, Failure(reason=NOT_JUDGED, message=left.message))
    reported = ReportedVerdict(verdict, left.node_id)
    return Card(name, reported, title_of(verdict), figure="", aside=(), strip="", why=None)


def _gate(verdict: Verdict, window: ReportedWindow | None) -> Gate | None:
    gates = () if window is None else window.gates
    return next((gate for gate in gates if gate.id == verdict.gate), None)


def title_of(verdict: Verdict) -> str:
    """Return what a threshold is about: metric and load level."""
    if verdict.kind == OUTPUTS_AGREE:
        return f"equal answers at {level_label(verdict.at)}"
    if verdict.kind == FASTER_ONLY_UP_TO:
        return f"{metric(verdict.metric).label} over all load levels"
    against = ", against its baseline" if verdict.kind == NOT_WORSE_THAN_BASELINE else ""
    return f"{metric(verdict.metric).label} at {level_label(verdict.at)}{against}"


def change_text(value: float, *, points: bool = False) -> str:
    """Return a change with its sign and no more digits than it has: ``+39.2 %``, ``-40 %``, ``0 %``."""
    shown = round(100 * value, 1 if abs(value) >= 0.01 else 2)
    return f"{f'{shown:+.10g}' if shown else '0'} {'points' if points else '%'}"


def _figure(verdict: Verdict) -> str:
    """Return what was found, in a few words."""
    if verdict.outcome == Outcome.INVALID:
        return ""
    if verdict.kind == OUTPUTS_AGREE:
        return f"{100 * min(verdict.shares):.4g} % equal" if verdict.shares else ""
    if verdict.kind in LIMITS and verdict.candidate is not None:
        return measured_text(metric(verdict.metric).unit, verdict.candidate)
    if verdict.change is None:
        return ""
    return change_words(verdict.change, metric_name=verdict.metric, points=verdict.points)


def _aside(verdict: Verdict, gate: Gate | None) -> Iterator[str]:
    """Yield what stands below a figure: its interval, and what it was found between."""
    if verdict.outcome == Outcome.INVALID:
        return
    if verdict.kind in LIMITS:
        yield f"worst of {counted(len(verdict.values), 'boot')}"
    elif verdict.kind == OUTPUTS_AGREE:
        yield f"worst of {counted(len(verdict.shares), 'round')}"
    elif verdict.change_low is not None:
        yield f"interval {span(verdict.change_low, verdict.change_high, points=verdict.points)}"
    elif verdict.change is not None:
        yield "no interval: its noise is not known"
    yield from _sides(verdict, gate)


def _sides(verdict: Verdict, gate: Gate | None) -> Iterator[str]:
    if (found := verdict.baseline) is not None:
        view = View(verdict.metric, found.mode, verdict.points)
        levels = [level_text(view, value) for value in (found.level, found.today)]
        yield f"{ARROW.join(levels)} (baseline of {counted(len(found.windows), 'window')})"
    elif gate is not None and verdict.reference is not None and verdict.candidate is not None:
        row = metric(verdict.metric)
        values = [value_text(row, value) for value in (verdict.reference, verdict.candidate)]
        told = [f"{arm.name} {value}" for arm, value in zip(gate.pair.arms, values, strict=True)]
        yield f"{ARROW.join(told)} {unit_text(row)}"


def claim_of(verdict: Verdict) -> Claim | None:
    """Return a verdict as its picture needs it; `None` where nothing can be drawn: an INVALID one has no figures."""
    if verdict.outcome == Outcome.INVALID:
        return None
    if verdict.kind in LIMITS:
        return _of_limit(verdict)
    if verdict.kind == OUTPUTS_AGREE:
        rows = (Row(dots=verdict.shares),) if verdict.shares else ()
        text = lambda share: f"{100 * share:.4g} %"  # noqa: E731  - a form of numbers
        return (
            Claim(rows, verdict.limit, None, None, higher_is_better=True, text=text, mark="at least") if rows else None
        )
    if verdict.kind == FASTER_ONLY_UP_TO:
        return _of_curve(verdict)
    return _of_change(verdict) if verdict.change is not None else None


def _of_limit(verdict: Verdict) -> Claim | None:
    row, limit = metric(verdict.metric), verdict.limit
    if not verdict.values or limit is None:
        return None
    least, most = (limit, None) if verdict.kind == "at_least" else (None, limit)
    return Claim(
        (Row(dots=verdict.values),), least, most, None,
        higher_is_better=row.higher_is_better, text=functools.partial(measured_text, row.unit), mark="limit",
        tick=functools.partial(amount_text, row.unit),
    )  # fmt: skip


def _of_curve(verdict: Verdict) -> Claim | None:
    higher = metric(verdict.metric).higher_is_better
    rows = tuple(
        Row(
            point.change, point.change_low, point.change_high,
            tuple(raw_change(ratio, higher_is_better=higher) for ratio in point.ratios), level_label(point.at),
        )
        for point in verdict.curve
    )  # fmt: skip
    return Claim(rows, None, None, 0.0, higher_is_better=higher, text=change_text) if rows else None


def _of_change(verdict: Verdict) -> Claim:
    higher, limit = metric(verdict.metric).higher_is_better, verdict.limit
    least, most = (limit, None) if higher else (None, limit)
    if verdict.kind == "equivalent" and limit is not None:
        least, most = -abs(limit), abs(limit)
    dots = rounds_of(verdict)
    if verdict.baseline is not None:
        level = verdict.baseline.level
        dots = tuple(one - level if verdict.points else one / level - 1 for one in verdict.baseline.windows if level)
    return Claim(
        rows=(Row(verdict.change, verdict.change_low, verdict.change_high, dots),),
        least=least,
        most=most,
        zero=0.0,
        higher_is_better=higher,
        text=functools.partial(change_text, points=verdict.points),
        mark="asked for" if verdict.kind == "better" else "margin",
    )


def rounds_of(verdict: Verdict) -> tuple[float, ...]:
    """Return the rounds of a verdict as raw changes."""
    higher = metric(verdict.metric).higher_is_better
    if verdict.points:
        return tuple(ratio if higher else -ratio for ratio in verdict.ratios)
    return tuple(raw_change(ratio, higher_is_better=higher) for ratio in verdict.ratios)


def _why(reported: ReportedVerdict, gate: Gate | None, window: ReportedWindow | None) -> Why | None:
    verdict = reported.verdict
    if verdict.outcome == Outcome.PASS and verdict.accepted:
        return None
    if gate is None or window is None:
        return Why(tuple(verdict.detail.splitlines()), steps=tuple(_commands(reported.text.splitlines()[1:])))
    judged = verdict.outcome != Outcome.INVALID
    evidence = tuple(evidence_lines(verdict, gate)) if judged else tuple(verdict.detail.splitlines())
    steps = () if verdict.accepted else tuple(_commands(_last_lines(reported, gate, window)))
    return Why(evidence, steps)


def servers_of(pair: ArmPair, record: WindowRecord) -> Iterator[Command]:
    """Yield the commands of both arms of a pair, as far as servers were started."""
    for arm in pair.own_arms:
        commands = [boot.command for boot in record.boots_of(arm.name) if boot.command]
        if commands:
            yield Command(arm.name, commands[-1])


def _last_lines(reported: ReportedVerdict, gate: Gate, window: ReportedWindow) -> Sequence[str]:
    """Return the lines of the whole message that follow the place of the record: what to run next.

    Nothing before it is looked at: the end of a server's log may read like a command of ours.
    """
    text = reported.text or failure_text(
        reported.verdict, gate=gate, record=window.record, record_path=window.path,
        again=f"pytest {shlex.quote(gate.id)}",
    )  # fmt: skip
    lines = [line.strip() for line in text.splitlines()]
    start = f"record: {one_line(window.path)} "
    place = next((place for place in reversed(range(len(lines))) if lines[place].startswith(start)), len(lines))
    return [f"judge it again, anywhere: specgate judge {shlex.quote(window.path)}", *lines[place + 1 :]]


def _commands(lines: Sequence[str]) -> Iterator[Command]:
    """Tell the words of a line from the command that they introduce."""
    for line in lines:
        match = _COMMAND.fullmatch(line.strip())
        if match is None:
            yield Command(line.strip())
        else:
            yield Command(match["what"], match["command"])


@dataclasses.dataclass(frozen=True, slots=True)
class Details:
    """The larger pictures of a judged threshold.

    Attributes:
        title: metric and load level, and the kind of its claim.
        rounds: its rounds one after the other; empty where it has none.
        factors: the factors of its speed; empty where it has none.
        words: figures of the factors, one text each.
    """

    title: str
    rounds: str
    factors: str
    words: tuple[str, ...]


def details(verdict: Verdict, *, name: str) -> Details | None:
    """Return the larger pictures of a verdict; `None` where there is nothing to draw."""
    claim = claim_of(verdict)
    if claim is None or verdict.kind not in _INTERVALS - {NOT_WORSE_THAN_BASELINE} or not verdict.ratios:
        return None
    title = f"{title_of(verdict)}, {verdict.kind.replace('_', ' ')}"
    rounds = by_round(claim, name=f"{name}-rounds", title=f"{title}: round by round")
    steps = steps_of(verdict)
    factors = waterfall(steps, name=f"{name}-factors", title=f"{title}: factors of the speed") if steps else ""
    return Details(title, rounds, factors, tuple(f"{step.name} {step.text}" for step in steps))


def steps_of(verdict: Verdict) -> tuple[Step, ...]:
    """Return the factors of a speed and what they add up to; none where it has no factors, or none was told."""
    if not verdict.factors or verdict.residual is None:
        return ()
    found = [
        Step(factor.name, math.log1p(factor.change), _factor_text(factor.change), shown=factor.moved)
        for factor in verdict.factors
    ]
    found.append(Step("residual", verdict.residual, _factor_text(math.expm1(verdict.residual)), shown=False))
    total = math.fsum(step.change for step in found)
    row = metric(verdict.metric)
    label = row.label if row.higher_is_better else f"1 / {row.label}"
    return (*found, Step(label, total, _factor_text(math.expm1(total)), total=True))


def _factor_text(change: float) -> str:
    return percent(change) if round(1000 * change) else "0.0 %"
