"""Two result files of ``vllm bench serve``, one against the other."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.baselines import BaselineValues
from pytest_specgate.core.bench_serve import UNPROVED, figures, identity_fields, problem_of
from pytest_specgate.core.comparison import (
    MISMATCH,
    SAME_TWICE,
    Cell,
    Comparison,
    chunk_problem,
    counted,
    differences,
    missing,
    refused,
)
from pytest_specgate.core.comparison_rule import compared
from pytest_specgate.core.errors import UsageError, nearest
from pytest_specgate.core.metrics import METRICS, Measured
from pytest_specgate.core.redaction import redacted
from pytest_specgate.core.stored import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.bench_serve import BenchResult
    from pytest_specgate.core.comparison_claims import Claims

OTHER_WORK: Final = "other-work"

WORK_SHARE: Final = 0.01
"""Relative difference in output tokens above which answers are other work: no gain of that size is a gain in speed."""

_WINDOWS: Final = ("reference", "candidate")
_ABSENT: Final = Measured(None, "it does not stand in the file")


def compare_results(
    reference: BenchResult, candidate: BenchResult, claims: Claims, *, varies: Sequence[str] = (), twice: bool = False
) -> Comparison:
    """Compare two result files.

    Args:
        reference: compared against.
        candidate: the one judged.
        claims: what is claimed of it.
        varies: names of metadata in which the two may differ.
        twice: whether both are the same file.

    Raises:
        UsageError: `varies` names no metadata of either.
    """
    _check_varies(varies, {**reference.metadata, **candidate.metadata})
    both = (reference, candidate)
    detailed = all(result.input_lens is not None for result in both)
    fields = [_identity(result, varies, detailed=detailed) for result in both]
    found = tuple(differences(*fields))
    identity = f"load: {counted(*fields)}, as far as the files tell"
    problem = _problem(reference, candidate)
    if problem is None and found:
        problem = Failure(reason=MISMATCH, message="the files are of two loads: measure both with the same options")
    problem = problem or _other_work(reference, candidate)
    if problem is not None:
        return refused(problem, identity=identity, unproved=UNPROVED, found=found)
    cells = _cells(figures(reference), figures(candidate), claims)
    notes = _notes(reference, candidate, varies=varies, twice=twice)
    return compared(list(cells), claims, identity=identity, unproved=UNPROVED, notes=list(notes))


def _check_varies(varies: Sequence[str], metadata: Mapping[str, JsonValue]) -> None:
    for name in varies:
        if name not in metadata:
            if not metadata:
                raise UsageError(f"--varies {name}: `--metadata` of neither file has that name, since neither has any")
            known = f"it is one of {', '.join(metadata)}{nearest(name, metadata)}"
            raise UsageError(f"--varies {name}: `--metadata` of neither file has that name: {known}")


def _identity(result: BenchResult, varies: Sequence[str], *, detailed: bool) -> dict[str, JsonValue]:
    allowed = {f"metadata.{name}" for name in varies}
    fields = {name: value for name, value in identity_fields(result).items() if name not in allowed}
    return {**fields, "input_lens": list(result.input_lens or ())} if detailed else fields


def _problem(*both: BenchResult) -> Failure | None:
    """Return why no figure of one of two files may be read, `None` if they may: failures make other fields differ."""
    for window, result in zip(_WINDOWS, both, strict=True):
        if (problem := problem_of(result)) is not None:
            return problem.model_copy(update={"message": f"in the {window} file {problem.message}"})
    return None


def _other_work(*both: BenchResult) -> Failure | None:
    """Return that answers are so much longer in one file that no figure means the same, `None` if they are not."""
    tokens = [result.total_output_tokens for result in both]
    if max(tokens) <= min(tokens) * (1 + WORK_SHARE):
        return None
    text = f"answers have {tokens[0]} and {tokens[1]} tokens in all, which is other work: measure with --ignore-eos"
    return Failure(reason=OTHER_WORK, message=text)


def _cells(reference: Mapping[str, Measured], candidate: Mapping[str, Measured], claims: Claims) -> Iterator[Cell]:
    """Yield what stands in one file or both, and what is claimed by name though it stands in none."""
    chunks = [side.get("tokens_per_chunk", _ABSENT).value for side in (reference, candidate)]
    for name, row in METRICS.items():
        sides = [side.get(name, _ABSENT) for side in (reference, candidate)]
        if sides == [_ABSENT, _ABSENT] and name not in claims.margins:
            continue
        cell = Cell("", "absolute", name)
        known = [
            BaselineValues(window="", reference=(), candidate=(side.value,)) for side in sides if side.value is not None
        ]
        if len(known) < len(sides):
            # What neither file has is not lost between them: only a claim by name misses it.
            lost = bool(known) or name in claims.margins
            yield dataclasses.replace(cell, problem=missing([side.missing for side in sides]), claimed=lost)
            continue
        apart = chunk_problem(chunks, hint=" (--save-detailed keeps them)") if row.per_chunk else None
        yield dataclasses.replace(cell, reference=known[0], candidate=known[1], apart=apart)


def _notes(reference: BenchResult, candidate: BenchResult, *, varies: Sequence[str], twice: bool) -> Iterator[str]:
    if twice:
        yield SAME_TWICE
    for name in varies:
        values = [redacted(result.metadata.get(name, "(unset)"), name=name) for result in (reference, candidate)]
        yield f"{name} may differ: {values[0]} and {values[1]}"
    tokens = [result.total_output_tokens for result in (reference, candidate)]
    if tokens[0] != tokens[1]:
        yield f"answers have {tokens[0]} and {tokens[1]} tokens in all: --ignore-eos would make them equal"
    drafted = [result.spec_decode_draft_tokens is not None for result in (reference, candidate)]
    if drafted[0] != drafted[1]:
        window = _WINDOWS[drafted.index(True)]
        yield f"only the {window} file counts drafts: the other run had none, or its counters could not be read"
