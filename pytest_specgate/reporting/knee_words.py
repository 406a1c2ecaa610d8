"""What every report says of draft horizons, in words: crossings, duels, advice, and what would change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_specgate.core.advice import OBJECTIVES, horizon_words, rulings
from pytest_specgate.core.levels import level_label, rate_per_s
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.planning import MOST_ROUNDS
from pytest_specgate.core.statistics import raw_change
from pytest_specgate.core.verdict import change_words
from pytest_specgate.reporting.basis_words import basis_sentences, short_drafts_sentence
from pytest_specgate.reporting.evidence import counted
from pytest_specgate.reporting.figures import number, span, unit_text, value_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_specgate.core.acceptance import Estimate
    from pytest_specgate.core.advice import Advice, Duel, Objective
    from pytest_specgate.core.horizon import Crossing, Horizon
    from pytest_specgate.core.knee import Knee, KneeCurve, KneeSource, LevelHorizons, ObjectiveAdvice
    from pytest_specgate.core.knee_changes import Change

ASSUMED: Final = (
    "a prediction assumes that the same share of tokens comes from steps that draft as in the measured horizon, that "
    "what a position gives does not depend on how many follow it (its interval also holds that it depends on how long "
    "the drafter has been right, where that can give such rates), and that step times between measured horizons lie on "
    "a line, those between off and a draft on it or above; one of throughput also that its ratio to the speed of a "
    "stream is that of the nearest measured k that drafts"
)
RHYTHM: Final = (
    "TTFT of a closed loop is also the rhythm of an arm: where answers end one by one, fewer prompts are prefilled at "
    "once"
)
LOADS: Final = "the windows were measured under more than one load: their request profiles differ"
HOSTS: Final = "the windows were measured on more than one class of machine"
BUILDS: Final = "the windows were served by more than one build of the engine"
DRAFTED: Final = "no decode steps are counted: tokens per step are those of steps that drafted"


def k_text(k: int) -> str:
    """Return a horizon in words."""
    return f"k={k}" if k else "off"


def place_text(one: LevelHorizons | KneeCurve) -> str:
    """Return a load level behind its preposition; empty where it is not told."""
    return "" if one.at is None else f" at {level_label(one.at)}"


def arms_words(source: KneeSource) -> str:
    """Return the drafter of a window, and the arm of each of its horizons."""
    arms = ", ".join(f"{name} ({k_text(k)})" for k, name in sorted(source.arms.items()))
    return f"drafter: {source.drafter}; arms: {arms}"


def estimate_text(found: Estimate | None, *, scale: float = 1.0) -> str:
    """Return a figure with its interval, where it has one that is not the figure itself."""
    if found is None:
        return "-"
    value = number(scale * found.value)
    if found.low is None or found.high is None or found.low == found.high:
        return value
    return f"{value} [{number(scale * found.low)} .. {number(scale * found.high)}]"


def crossing_words(found: Crossing) -> str:
    """Return where a curve falls under a cut."""
    if found.is_beyond and found.least == found.measured:
        return f"not within its {counted(found.measured, 'position')}: a longer horizon has to tell"
    if found.is_beyond:
        return f"after position {found.least}, perhaps not within its {counted(found.measured, 'position')}"
    if found.least == 0:
        return f"before position {found.most + 1}"
    return f"between positions {found.least} and {found.most + 1}"


def crossing_sentence(one: KneeCurve) -> str:
    """Return where a curve falls under the cut, as a sentence."""
    head, under = f"{k_text(one.k)}{place_text(one)}", f"under {100 * one.crossing.cut:g} %"
    words = crossing_words(one.crossing)
    verb = "does not fall" if words.startswith("not ") else "falls"
    return f"{head} {verb} {under} {words.removeprefix('not ')}"


def crossing_sentences(curves: Sequence[KneeCurve]) -> Iterator[str]:
    """Yield where the curves of one load fall under the cut; of those that do not, only the longest tells anything."""
    longest = max((one.k for one in curves), default=0)
    within = (one for one in curves if one.k == longest or one.crossing.least < one.crossing.measured)
    yield from map(crossing_sentence, within)


def basis_words(curves: Sequence[KneeCurve]) -> Iterator[str]:
    """Yield what the intervals of some curves are taken over, each basis once."""
    yield from basis_sentences(((k_text(one.k), one.curve) for one in curves), link="of")
    yield from (short_drafts_sentence(k_text(one.k), one.curve) for one in curves if one.curve.short_drafts)


def origin_words(row: Horizon, level: LevelHorizons) -> str:
    """Return where the tokens per step of a horizon come from."""
    if row.tokens_from == "from the curve":
        return f"curve of k={level.told_by(row.k)}"
    return row.tokens_from if row.tokens_from != "extrapolated" else f"extrapolated from k={level.curves[-1]}"


def speed_words(row: Horizon) -> str:
    """Return how a speed is known."""
    if row.speed_tokens_per_s is None:
        return "-"
    if row.is_measured:
        return "measured"
    return "extrapolated" if "extrapolated" in {row.tokens_from, row.step_from} else "predicted"


def advice_head(one: ObjectiveAdvice) -> str:
    """Return an objective with its advice: ``per-user speed (decode rate at c=1): k=4``."""
    found = one.advice
    load = "" if found.at is None else f" at {level_label(found.at)}"
    label = "by the cut alone" if found.basis == "cut" else f"{metric(found.metric).label}{load}"
    best = ""
    if found.best is not None and len(found.ks) > 1:
        best = f" (the best mean has {k_text(found.best)})"
    open_ = "" if one.tells or not found.ks else "; no horizon is ruled out"
    return f"{found.objective} ({label}): {one.words}{best}{open_}"


def evidence_lines(one: ObjectiveAdvice) -> Iterator[str]:
    """Yield what the duels of an advice rest on: their common level, their servers, and their noise."""
    count = len(one.advice.duels)
    if count > 1 and any(duel.gain is not None for duel in one.advice.duels):
        yield f"intervals: 95 % for all {count} comparisons together"
    alike: dict[tuple[int, str], list[str]] = {}
    for first, second, ids in one.differences:
        alike.setdefault((first, ids), []).append(k_text(second))
    for (first, ids), others in alike.items():
        cleaner = "" if first else ": k against k is the cleaner comparison"
        yield f"the servers of {k_text(first)} and of {', '.join(others)} also differ in {ids}{cleaner}"
    yield from (f"noise: {words}" for words in one.noise)


def duel_sentence(duel: Duel, *, named: bool = True) -> str:
    """Return what came of two horizons in a window.

    Args:
        duel: the two.
        named: whether the window is named.
    """
    row = metric(duel.metric)
    values = " against ".join(value_text(row, value) for value in duel.values)
    low, high = duel_interval(duel)
    shown = "" if duel.is_decided else "no change shown, "
    interval = f"interval {span(low, high)}" if duel.gain is not None else "its noise is not known"
    where = f", in {duel.window}" if named else ""
    return (
        f"{k_text(duel.first)} against {k_text(duel.second)}: {shown}"
        f"{change_words(duel.change, metric_name=duel.metric)} ({values} {unit_text(row)}), {interval}, "
        f"{counted(duel.rounds, 'round')}{where}"
    )


def duel_interval(duel: Duel) -> tuple[float | None, float | None]:
    """Return the interval of the raw change from the second horizon to the first, the lower end first."""
    if duel.gain is None:
        return None, None
    higher = metric(duel.metric).higher_is_better
    ends = sorted(raw_change(end, higher_is_better=higher) for end in (duel.gain.low, duel.gain.high))
    return ends[0], ends[1]


def change_sentence(change: Change, objective: Objective) -> str:
    """Return which measurement would change advice, and why."""
    if change.kind == "promising":
        return _promise_sentence(change, objective)
    if change.kind == "unpredicted":
        return _unpredicted_sentence(change)
    at = "" if change.at is None else f" at {level_label(change.at)}"
    both, against = " and ".join(map(k_text, change.ks)), _against(change.ks)
    rounds = f"{MOST_ROUNDS} rounds would not" if change.rounds is None else f"about {change.rounds} rounds would"
    return {
        "nothing": f"no two horizons have this figure in one window: one of two or more, off included, at the "
        f"{'lowest' if objective == 'per-user speed' else 'highest'} load would tell",
        "curves": f"curves alone do not tell what a position costs: a window of {against} would tell",
        "strangers": f"{both} never met in one window: a window of {against}{at} would tell",
        "contradiction": f"windows say the opposite of each other of {both}{at}: another window of "
        f"{'both' if len(change.ks) == 2 else 'all of them'} would tell",
        "rate": "under an arrival rate throughput is what arrives, whatever k is: a window of two or more horizons at "
        "a concurrency would tell",
        "noise": f"nothing tells the noise of {both}{at}: a second round, or a noise floor with its source, would tell",
        "undecided": f"{both} are within the noise{at}: a window of {rounds} tell",
    }[change.kind]


def _promise_sentence(change: Change, objective: Objective) -> str:
    first, *more = change.promises
    named = ", ".join(
        f"{k_text(one.k)} ({speed_words(one.horizon)} {estimate_text(one.figure)})" for one in change.promises
    )
    figure, best = f"the {estimate_text(first.against)} tokens/s", k_text(first.best)
    may = {
        "per-user speed": f"may be as fast as {figure} a stream of {best}",
        "batch throughput": f"may reach {figure} of throughput of {best}",
    }[objective]
    return f"{named} {'were' if more else 'was'} not measured and {may}: {_promise_window(change, objective)}"


def _promise_window(change: Change, objective: Objective) -> str:
    """Return which window would tell whether a promise is kept, and in how many rounds."""
    first, at = change.promises[0], "" if change.at is None else f" at {level_label(change.at)}"
    pair = f"{k_text(first.k)} against {k_text(first.best)}{at}"
    tell = f"would tell{' first' if change.promises[1:] else ''}"
    if not change.is_noise_known:
        return f"a window of {pair} {tell}"
    predicted = change_words(first.change, metric_name=OBJECTIVES[objective])
    rounds = f"{MOST_ROUNDS} rounds" if change.rounds is None else f"about {change.rounds} rounds"
    tell = "would not tell" if change.rounds is None else tell
    return f"a window of {rounds} of {pair} {tell}, if {k_text(first.k)} is as predicted ({predicted})"


def _unpredicted_sentence(change: Change) -> str:
    were = "was" if len(change.ks) == 1 else "were"
    dropped = f" (a sweep ruled out {horizon_words(change.dropped)} by speed alone)" if change.dropped else ""
    return f"{horizon_words(change.ks)} {were} not measured{dropped}, and TTFT is not predicted: a window would tell"


def _against(ks: Sequence[int]) -> str:
    """Return the outer ones of some horizons as a pair; a single one is measured against off."""
    first = ks[0] if len(ks) > 1 else 0
    return f"{k_text(ks[-1])} against {k_text(first)}" if ks else ""


def notes(knee: Knee) -> Iterator[str]:
    """Yield what a reader of advice should know besides."""
    if knee.loads:
        yield LOADS
    if knee.hosts:
        yield HOSTS
    if knee.builds:
        yield BUILDS
    told = [one.advice for found in knee.advice.values() for one in found]
    if any(one.objective == "latency" and one.at is not None and rate_per_s(one.at) is None for one in told):
        yield RHYTHM


def short_lines(knee: Knee) -> Iterator[str]:
    """Yield the section in short, of one window: where curves fall under the cut, and the advice."""
    several = len(knee.advice) > 1
    for source in knee.sources:
        head = f"{source.drafter}: " if several else ""
        for level in source.at(None):
            yield from (f"{head}{sentence}" for sentence in crossing_sentences(source.curves_at(level.at)))
    for drafter, found in knee.advice.items():
        head = f"{drafter}: " if several else ""
        for one in found:
            yield f"{head}{advice_head(one)}"
            yield from (f"would change it: {sentence}" for sentence in change_sentences(one))
    # What nobody can prove of attached arms stands with the pairs of the same report.
    yield from ruled_out_lines(knee.sources)


def source_notes(sources: Sequence[KneeSource]) -> Iterator[str]:
    """Yield what nobody can prove of arms that were attached, and why a sweep did without others, each once."""
    yield from dict.fromkeys(sentence for source in sources for sentence in source.unproved)
    yield from ruled_out_lines(sources)


def change_sentences(one: ObjectiveAdvice) -> Iterator[str]:
    """Yield which measurements would change an advice."""
    return (change_sentence(change, one.advice.objective) for change in one.changes)


def pin_note(told: Iterable[Advice], k: int) -> str:
    """Return which objectives rule a horizon out that a gate file is to pin, and what beats it there; else nothing.

    Args:
        told: advice, one an objective.
        k: the horizon.
    """
    ruled = []
    for one, better in rulings(told, k):
        at = "" if one.at is None else f" at {level_label(one.at)}"
        ruled.append(f"for {one.objective}{at} by {' and '.join(map(k_text, better))}")
    return f"the pinned {k_text(k)} is ruled out {', and '.join(ruled)}" if ruled else ""


def ruled_out_lines(sources: Sequence[KneeSource]) -> Iterator[str]:
    """Yield why a sweep booted some arms no more, or never, each reason once."""
    yield from dict.fromkeys(f"{arm}: {why}" for source in sources for arm, why in source.ruled_out.items())
