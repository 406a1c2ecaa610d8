"""The JSON report of a run: what it holds, for programs that read it.

Keys of figures end with their units as everywhere: ``_s``, ``_tokens_per_s``; what has none is a number of things or a
fraction (0.05 is 5 %).

History of the schema:

1. first version
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import Field

from pytest_specgate.core.acceptance_report import AcceptanceLevel
from pytest_specgate.core.declared import FreeJson
from pytest_specgate.core.knee_report import KneeReport
from pytest_specgate.core.metric_definitions import MetricDefinition
from pytest_specgate.core.stored import Stored

SCHEMA_VERSION: Final = 1

Figure: TypeAlias = int | float | tuple[float, ...]
"""One value, or one by round or boot, in the order in which they ran."""


class CurvePoint(Stored):
    """What one load level shows of a claim about the whole curve.

    Attributes:
        load: the level, as ``c=8`` or ``4/s``.
        shown: ``better``, ``worse`` or ``not shown``.
        change: raw change of the candidate against the reference, a fraction.
        change_low: lower end of its interval.
        change_high: upper end of its interval.
    """

    load: str
    shown: str
    change: float | None
    change_low: float | None
    change_high: float | None


class ReportedThreshold(Stored):
    """One threshold and its verdict.

    Attributes:
        threshold: its id within the gate, as ``c32-output_throughput-not_worse``.
        node_id: of the test item, as a user would type it; the id of the gate where a record is reported alone.
        valid: whether there are figures that may be read.
        outcome: ``PASS``, ``FAIL``, ``INCONCLUSIVE`` or ``INVALID``; `None` where it was not judged.
        reason: code of the reason, as ``profile-mismatch``; ``not-judged`` where it was not.
        accepted: whether the outcome is PASS, or one that the test declared with `verdict.expect`.
        expected: whether the test declared outcomes of its own.
        expected_outcomes: these; none where it declared none.
        skipped: whether it was reported as skipped, since it could not be decided; it has not passed.
        metric: key in the metric table, or ``outputs_agree``.
        kind: of the claim, as ``not_worse``.
        load: level, as ``c=8`` or ``4/s``.
        concurrency: workers of a closed loop; `None` for an open one.
        rate_per_s: arrival rate of an open loop; `None` for a closed one.
        temperature: that the requests of the load level are sent with, its own or that of the profile.
        points: whether changes are in points of a share (as fractions) instead of relative to the reference.
        claim: what was to be shown, in words.
        summary: the verdict as one sentence.
        detail: further lines, of what is INVALID.
        text: the whole message with the next steps, where it was not accepted; empty where it was.
        noise: what the interval rests on, in words.
        notes: what a reader should know besides.
        baseline: file that the claim is about; `None` where it is about none.
        curve: what each load level shows, of a claim about all of them.
        figures: by name, with the unit at its end; what was not measured is left out. `None` where nothing may be read.
            Of a claim about a baseline ``change`` is that against the baseline, and ``arm_change_by_round`` that
            between the arms today, round by round; of others both are between the arms (``change_by_round``).
    """

    threshold: str
    node_id: str
    valid: bool
    outcome: str | None
    reason: str
    accepted: bool
    expected: bool
    expected_outcomes: tuple[str, ...]
    skipped: bool
    metric: str
    kind: str
    load: str
    concurrency: int | None
    rate_per_s: float | None
    points: bool
    claim: str
    summary: str
    detail: str
    text: str
    noise: str
    notes: tuple[str, ...]
    baseline: str | None
    curve: tuple[CurvePoint, ...]
    figures: dict[str, Figure] | None
    temperature: float | None = None


class ReportedGate(Stored):
    """A gate with its thresholds.

    Attributes:
        gate: file path, qualified name and parameters of the test function.
        pair: candidate against reference, by name.
        thresholds: those that were collected.
    """

    gate: str
    pair: str
    thresholds: tuple[ReportedThreshold, ...]


class ReportedIdentity(Stored):
    """Whether both arms of a pair got the same requests.

    Attributes:
        fields: that were compared.
        identical: how many of them agree.
        differing: names of the others.
    """

    fields: int
    identical: int
    differing: tuple[str, ...]


class Readable(Stored):
    """Something that may have to be left unread.

    Attributes:
        valid: whether its figures may be read; where not, it has a reason and no figures.
        reason: code of the reason, as ``server-died``.
        message: why, as one sentence.
        detail: further lines.
    """

    valid: bool
    reason: str | None = None
    message: str | None = None
    detail: str | None = None


class ReportedPair(Readable):
    """A pair of a window.

    Attributes:
        valid: whether its figures may be read; where not, it has a reason and no points.
        reason: code of the reason, as ``profile-mismatch``.
        message: why, as one sentence.
        detail: further lines.
        pair: candidate against reference, by name; of an arm that was measured alone its own.
        reference: name of that arm; null where the candidate was measured alone.
        candidate: name of that arm.
        varies: paths in which the arms were declared to differ.
        identity: whether both got the same requests.
        rounds: that both arms ran.
        points: by load level (``c8``, ``r4``), whether it may be read.
        acceptance: of a speculative arm that was measured alone, with intervals, as `specgate probe --json` prints it;
            left out of all others.
    """

    pair: str
    reference: str | None
    candidate: str
    varies: tuple[str, ...]
    identity: ReportedIdentity
    rounds: int
    points: dict[str, Readable] | None = None
    acceptance: tuple[AcceptanceLevel, ...] | None = None


class ReportedPoint(Readable):
    """A load level of an arm.

    Attributes:
        valid: whether its figures may be read; where not, it has a reason and no values.
        reason: code of the reason, as ``client-saturated``.
        message: why, as one sentence.
        detail: further lines.
        values: of every metric, boot by boot in the unit that its key names; null for a boot that has none.
    """

    values: dict[str, tuple[float | None, ...]] | None = None


class ReportedArm(Readable):
    """An arm of a window.

    Attributes:
        valid: whether its figures may be read; where not, it has a reason and no points.
        reason: code of the reason, as ``server-start``.
        message: why, as one sentence.
        detail: further lines.
        arm: its name.
        boots: how many are shown.
        points: by load level (``c8``, ``r4``).
    """

    arm: str
    boots: int | None = None
    points: dict[str, ReportedPoint] | None = None


class ReportedWindow(Stored):
    """A window that was measured.

    Attributes:
        record: where all that was measured lies.
        created_at: wall-clock time of its start, ISO 8601 with zone.
        finished: whether it ran to its end.
        stopped: why it ended before its last round; empty when nothing stopped it.
        strict: whether unlisted engine-induced differences make a pair INVALID.
        attempt: how many windows were measured of this pair of builds with this load, this one included.
        continued: what earlier runs measured of it, as the record has that.
        commit: of the project that was measured; empty where it is not known.
        host_class: class of the machine.
        engine: facts about the installs of the engine, by arm.
        profile: fingerprint of the load.
        temperatures: that requests were sent with, by load level (``c8``, ``r4``).
        added_metrics: metrics of the project's own, as the record defines them.
        pairs: what was compared with what.
        arms: what was measured of each.
        ruled_out: why a sweep booted an arm no more, or never, by its name; a pair that was never booted is left
            unread for the reason ``not-booted``, which is no fault.
        knee: what it tells of draft horizons; left out where no two of them met.
        knee_problem: why it tells nothing of horizons that met, as one sentence; left out where it does.
    """

    record: str
    created_at: str
    finished: bool
    stopped: str
    strict: bool
    attempt: int
    continued: tuple[dict[str, FreeJson], ...]
    commit: str
    host_class: str
    engine: dict[str, dict[str, FreeJson]]
    profile: str
    added_metrics: tuple[MetricDefinition, ...]
    pairs: tuple[ReportedPair, ...]
    arms: tuple[ReportedArm, ...]
    temperatures: dict[str, float] = Field(default_factory=dict)
    ruled_out: dict[str, str] = Field(default_factory=dict)
    knee: KneeReport | None = None
    knee_problem: str | None = None


class UnmeasuredWindow(Stored):
    """A window that could not be measured.

    Attributes:
        pairs: that it was to measure.
        gates: that have no verdict for it.
        message: why, as one sentence.
    """

    pairs: tuple[str, ...]
    gates: tuple[str, ...]
    message: str


class BrokenTest(Stored):
    """Something that failed for another reason than a verdict.

    Attributes:
        node_id: of the test item, as a user would type it; of what could not be collected; ``pytest`` for the run.
        kind: ``test`` of a gate or of a measured pair, or its ``setup`` or ``teardown``; ``collection`` of a file;
            ``run`` for what stopped pytest itself: a usage error, say.
        message: first line of its failure.
    """

    node_id: str
    kind: str
    message: str


class ReportedCalibration(Stored):
    """A/A windows that were run instead of judging.

    Attributes:
        arms: whose noise is known from them, by name.
        record: where all that was measured lies.
        calibrations: file that the noise was added to.
        problems: why nothing can be told of other arms, one sentence each.
    """

    arms: tuple[str, ...]
    record: str
    calibrations: str
    problems: tuple[str, ...]


class Counts(Stored):
    """How many thresholds there are of each kind.

    ``judged``, ``without_baseline`` and ``without_verdict`` make up ``collected``; the outcomes make up the first two.

    Attributes:
        collected: all of them.
        judged: those with a verdict that rests on something.
        without_baseline: those whose verdict rests on nothing, since there is no baseline or none was to be read.
        without_verdict: those that were not judged at all.
        accepted: those whose outcome is PASS, or another one that the test declared.
        expected: those of the accepted ones whose test declared outcomes of its own.
        skipped: those that could not be decided and were reported as skipped.
        outcomes: how many have each of the four words.
    """

    collected: int
    judged: int
    without_baseline: int
    without_verdict: int
    accepted: int
    expected: int
    skipped: int
    outcomes: dict[str, int]


class RunReport(Stored):
    """What came of a run, or of a record alone.

    Attributes:
        schema_version: of this format.
        passed: whether every collected threshold has a verdict that was accepted, and nothing else went wrong; false
            where nothing was collected.
        summary: the outcomes, counted, as one line.
        exit_status: of pytest, as it stood when this was written; `None` where a record is reported alone.
        shortage: that fewer gates were judged than were required, as one sentence; empty where enough were.
        counts: of thresholds.
        gates: that were collected, each with its thresholds.
        windows: that were measured, in the order in which they ran.
        unmeasured: windows that could not be measured.
        broken: what failed though no verdict did: tests of gates, what could not be collected, pytest itself.
        other_failures: how many tests failed that no gate and no measured pair has to do with.
        calibrated: A/A windows, of a run that measures noise and judges nothing.
    """

    schema_version: Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    passed: bool
    summary: str
    exit_status: int | None
    shortage: str
    counts: Counts
    gates: tuple[ReportedGate, ...]
    windows: tuple[ReportedWindow, ...]
    unmeasured: tuple[UnmeasuredWindow, ...]
    broken: tuple[BrokenTest, ...]
    other_failures: int
    calibrated: tuple[ReportedCalibration, ...]
