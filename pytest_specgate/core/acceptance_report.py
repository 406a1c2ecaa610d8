"""The JSON report on the acceptance of one arm: what `specgate probe --json` prints.

Keys of figures end with their units as everywhere; what has none is a number of things, or a fraction. An end of an
interval is null where nothing tells how sure a figure is, and a figure is null where it may not be read.

History of the schema:

1. first version
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from pytest_specgate.core.declared import FreeJson
from pytest_specgate.core.stored import Stored

SCHEMA_VERSION: Final = 1


class PositionAcceptance(Stored):
    """Acceptance at one draft position.

    Attributes:
        position: in the draft, from 1.
        accepted_tokens: drafts whose token at the position was accepted.
        rate: that / drafts.
        rate_low: lower end of its 95 % interval.
        rate_high: upper end.
        of_proposed_low: least share of the drafts that reached the position in which it was accepted.
        of_proposed_high: greatest one; the same where the engine tells the length of each draft.
    """

    position: int
    accepted_tokens: int
    rate: float
    rate_low: float | None
    rate_high: float | None
    of_proposed_low: float
    of_proposed_high: float


class AcceptanceFigures(Stored):
    """Acceptance at one load level, all boots pooled.

    Attributes:
        k: draft horizon.
        basis: what intervals are taken over: ``prompts``, ``boots`` or ``drafts``.
        samples: how many of these.
        drafts: verify steps that had a draft.
        draft_tokens: tokens proposed.
        accepted_tokens: tokens accepted.
        short_draft_tokens: tokens that were missing from drafts of fewer than k.
        draft_length: draft tokens / drafts.
        acceptance_length: 1 + accepted tokens / drafts.
        acceptance_length_low: lower end of its 95 % interval.
        acceptance_length_high: upper end.
        acceptance_rate: accepted tokens / draft tokens.
        acceptance_rate_low: lower end of its 95 % interval.
        acceptance_rate_high: upper end.
        tokens_per_step: output tokens of a decode step, drafted or not; `None` where the server does not count steps.
        tokens_per_step_low: lower end of its 95 % interval.
        tokens_per_step_high: upper end.
        positions: by draft position.
    """

    k: int
    basis: str
    samples: int
    drafts: int
    draft_tokens: int
    accepted_tokens: int
    short_draft_tokens: int
    draft_length: float
    acceptance_length: float
    acceptance_length_low: float | None
    acceptance_length_high: float | None
    acceptance_rate: float
    acceptance_rate_low: float | None
    acceptance_rate_high: float | None
    tokens_per_step: float | None
    tokens_per_step_low: float | None
    tokens_per_step_high: float | None
    positions: tuple[PositionAcceptance, ...]


class AcceptanceLevel(Stored):
    """One load level.

    Attributes:
        load: the level, as ``c=8`` or ``c=8 T=0.8``.
        temperature: that its requests were sent with.
        valid: whether its figures may be read.
        reason: code of the reason why not; `None` where they may.
        message: that reason, as one sentence.
        figures: `None` where they may not.
    """

    load: str
    temperature: float
    valid: bool
    reason: str | None
    message: str | None
    figures: AcceptanceFigures | None


class AcceptanceReport(Stored):
    """What came of the probe of one arm.

    Attributes:
        schema_version: of this format.
        valid: whether all figures may be read.
        reason: code of the reason why none may, of the first level where each has its own; `None` where some may.
        message: that reason, as one sentence.
        arm: its name.
        k: draft horizon that it declares.
        record: where all that was measured lies; `None` where nothing was measured.
        gate_file: the probe as a gate file; `None` likewise.
        boots: of the arm.
        finished: whether the window ran to its end.
        stopped: why it ended before its last boot; empty when nothing stopped it.
        identity: whether all boots got the same requests, as a sentence; `None` where none may be read.
        unproved: what nobody can prove of a server that was attached, as a sentence; `None` for one that was started.
        levels: by load level; none where no figure may be read.
        limits: verdicts, as `specgate judge --json` prints them.
    """

    schema_version: Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    valid: bool
    reason: str | None
    message: str | None
    arm: str
    k: int
    record: str | None
    gate_file: str | None
    boots: int
    finished: bool
    stopped: str
    identity: str | None
    unproved: str | None
    levels: tuple[AcceptanceLevel, ...]
    limits: tuple[dict[str, FreeJson], ...]
