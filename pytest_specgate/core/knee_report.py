"""The JSON report on draft horizons: what `specgate knee --json` prints, and a window's part of the report of a run.

Keys of figures end with their units as everywhere; what has none is a number of things, or a fraction. An end of an
interval is null where nothing tells how sure a figure is.

History of the schema:

1. first version
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from pytest_specgate.core.stored import Stored

SCHEMA_VERSION: Final = 1


class ReportedRate(Stored):
    """A rate by position, with its 95 % interval.

    Attributes:
        position: in the draft, from 1.
        rate: accepted / drafts.
        rate_low: lower end of its interval.
        rate_high: upper end.
    """

    position: int
    rate: float
    rate_low: float | None
    rate_high: float | None


class ReportedAcceptance(Stored):
    """Acceptance by position of one horizon at one load level.

    Attributes:
        k: the horizon.
        load: level, as ``c=8``; `None` where it is not told.
        basis: what intervals are taken over: ``prompts``, ``boots`` or ``drafts``.
        samples: how many of these.
        drafts: verify steps that had a draft.
        draft_tokens: tokens proposed.
        accepted_tokens: tokens accepted.
        acceptance_length: 1 + accepted / drafts.
        acceptance_length_low: lower end of its interval.
        acceptance_length_high: upper end.
        rates: by position.
        last_position: last one whose rate reaches the cut; 0 where none does.
        last_position_least: the same by the lower ends of the intervals.
        last_position_most: the same by their upper ends; k where a longer horizon has to tell.
    """

    k: int
    load: str | None
    basis: str
    samples: int
    drafts: int
    draft_tokens: int
    accepted_tokens: int
    acceptance_length: float
    acceptance_length_low: float | None
    acceptance_length_high: float | None
    rates: tuple[ReportedRate, ...]
    last_position: int
    last_position_least: int
    last_position_most: int


class ReportedHorizon(Stored):
    """What a horizon gives and costs at one load level.

    Attributes:
        k: the horizon; 0 without speculation.
        load: level, as ``c=8``; `None` where it is not told.
        measured: whether the horizon itself was.
        tokens_per_step: output tokens of a decode step.
        tokens_per_step_low: lower end of its interval.
        tokens_per_step_high: upper end.
        tokens_from: where that comes from: ``measured``, ``from the curve``, ``extrapolated``.
        curve_k: horizon of the curve that tells it.
        step_time_s: seconds of a decode step; `None` where nothing tells.
        step_time_low_s: lower end of its interval.
        step_time_high_s: upper end.
        step_from: where that comes from: ``measured``, ``interpolated``, ``extrapolated``; `None` likewise.
        speed_tokens_per_s: of one stream, tokens per step / step time; `None` likewise.
        speed_low_tokens_per_s: lower end of its interval.
        speed_high_tokens_per_s: upper end.
    """

    k: int
    load: str | None
    measured: bool
    tokens_per_step: float
    tokens_per_step_low: float | None
    tokens_per_step_high: float | None
    tokens_from: str
    curve_k: int
    step_time_s: float | None
    step_time_low_s: float | None
    step_time_high_s: float | None
    step_from: str | None
    speed_tokens_per_s: float | None
    speed_low_tokens_per_s: float | None
    speed_high_tokens_per_s: float | None


class ReportedSource(Stored):
    """One drafter in one window, or one file of counters.

    Attributes:
        source: where the file lies.
        drafter: its name; `None` for counters, which do not tell it.
        identity: whether all boots got the same requests, as a sentence; `None` for counters.
        arms: name of each horizon's arm, by k.
        drafted_only: whether tokens per step are those of steps that drafted, since no others were counted.
        curves: acceptance by position.
        horizons: what each gives and costs.
        ruled_out: why a sweep booted an arm no more, or never, by its name.
        unfinished: why its window ended early, as a sentence; `None` where it ran to its end.
        unproved: what nobody can prove of arms that were attached, as sentences.
    """

    source: str
    drafter: str | None
    identity: str | None
    arms: dict[str, str]
    drafted_only: bool
    curves: tuple[ReportedAcceptance, ...]
    horizons: tuple[ReportedHorizon, ...]
    ruled_out: dict[str, str]
    unfinished: str | None
    unproved: tuple[str, ...]


class ReportedDuel(Stored):
    """Two horizons that met in a window.

    Attributes:
        source: where the record lies.
        load: level, as ``c=8``.
        first: horizon whose mean is better.
        second: the other one.
        values: geometric means of both, with the unit at the end of their names.
        change: raw change from the second to the first, a fraction.
        change_low: lower end of its interval; those of all duels of one objective hold together, at 95 %.
        change_high: upper end.
        rounds: in which both were booted.
        decided: whether the first is better by more than the noise.
    """

    source: str
    load: str
    first: int
    second: int
    values: dict[str, float]
    change: float
    change_low: float | None
    change_high: float | None
    rounds: int
    decided: bool


class ReportedDifferences(Stored):
    """In what the servers of two horizons that met differ besides what was declared and allowed.

    Attributes:
        first: the shorter horizon; 0 is speculation off.
        second: the longer one.
        ids: of the differences.
    """

    first: int
    second: int
    ids: str


class ReportedChange(Stored):
    """A measurement that would change advice.

    Attributes:
        kind: what is missing now: ``strangers``, ``contradiction``, ``undecided``, ``noise``, ``promising``,
            ``unpredicted``, ``curves``, ``rate`` or ``nothing``.
        ks: horizons to be measured in one window.
        load: level; `None` where none was looked at.
        rounds: about how many are needed; `None` where no number is enough, or nobody can tell.
        sentence: the same in words.
    """

    kind: str
    ks: tuple[int, ...]
    load: str | None
    rounds: int | None
    sentence: str


class ReportedAdvice(Stored):
    """Which k to run for one objective.

    Attributes:
        drafter: its name; `None` for curves of counters alone, which do not tell it.
        objective: ``per-user speed``, ``batch throughput`` or ``latency``.
        metric: key in the metric table.
        load: level; `None` where no load was compared.
        words: the advice in few words: ``k=3 to 4``, ``off or k=3``, ``nothing tells``.
        ks: horizons that are left, rising; 0 is speculation off; none where nothing tells.
        or_longer: whether longer horizons than these may do as well.
        best: the one with the best mean among them, where all of them met.
        basis: ``measured``, ``cut`` or ``nothing``.
        tells: whether any horizon was ruled out.
        duels: what it rests on.
        differences: of the servers of horizons that met, where there are any.
        noise: what is known of the noise of its metric, in words, with the source of a declared floor.
        would_change: what would change it.
    """

    drafter: str | None
    objective: str
    metric: str
    load: str | None
    words: str
    ks: tuple[int, ...]
    or_longer: bool
    best: int | None
    basis: str
    tells: bool
    duels: tuple[ReportedDuel, ...]
    differences: tuple[ReportedDifferences, ...]
    noise: tuple[str, ...]
    would_change: tuple[ReportedChange, ...]


class LeftOut(Stored):
    """Something that was not looked at.

    Attributes:
        source: where the file lies.
        reason: code of the reason, as ``server-died``.
        message: why, as one sentence.
    """

    source: str
    reason: str
    message: str


class KneeReport(Stored):
    """What curves and windows tell of draft horizons.

    Attributes:
        schema_version: of this format.
        cut: rate by position below which a position is taken for waste.
        sources: what was looked at.
        left_out: what was not, and why.
        advice: by drafter and objective.
        notes: what a reader should know besides.
    """

    schema_version: Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    cut: float
    sources: tuple[ReportedSource, ...]
    left_out: tuple[LeftOut, ...]
    advice: tuple[ReportedAdvice, ...]
    notes: tuple[str, ...]
