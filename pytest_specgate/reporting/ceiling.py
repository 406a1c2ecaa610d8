"""Ceilings as text: how fast one stream is, could be, and what a target speed needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.levels import level_label
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.figures import number, two_digits
from pytest_specgate.reporting.layout import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.ceiling import ArmCeiling, Ceiling, Ceilings, TargetNeeds


def ceilings_lines(found: Ceilings) -> Iterator[str]:
    """Return what is told of ceilings, and below it what it does not say; of a record as a table."""
    if found.record is not None:
        yield from _cut_off(found)
        yield one_line(f"record: {found.record}")
        yield from map(one_line, found.identity)
    shown = [(one, one.ceiling) for one in found.ceilings if one.ceiling is not None]
    if found.record is None:
        for _, figures in shown:
            yield from _one(figures)
    elif shown:
        yield from _table(shown)
    yield from _refused(found.ceilings)
    yield from (one_line(f"note: {note}") for note in found.notes)


def _cut_off(found: Ceilings) -> Iterator[str]:
    """Say first that there would have been more to read."""
    if found.stopped:
        yield one_line(f"the window was stopped before its last round: {found.stopped}")
    elif found.finished is False:
        yield "the window did not run to its end"


def _one(found: Ceiling) -> Iterator[str]:
    step = f"{found.tokens_per_step:.4f} tokens in a step of {_milliseconds(found.step_time_s)} ms"
    rows = [
        ("speed now", f"{number(found.speed_tokens_per_s)} tokens/s: {step}"),
        (
            f"ceiling of k={found.k}",
            f"{number(found.ceiling_tokens_per_s)} tokens/s: {found.k + 1} tokens in every step (perfect acceptance)",
        ),
        ("share of it", f"{_percent(found.share_of_ceiling)} %"),
    ]
    if found.target is not None:
        first, *others = _needs(found, found.target)
        rows += [(_target(found.target), first), *(("", other) for other in others)]
    width = max(len(name) for name, _ in rows)
    yield from (f"{name.ljust(width)}  {text}" for name, text in rows)


def _target(needs: TargetNeeds) -> str:
    return f"target {needs.speed_tokens_per_s:g} tokens/s"


def _needs(found: Ceiling, needs: TargetNeeds) -> Iterator[str]:
    """Yield what a target needs: by tokens, by step time, and by the horizon."""
    possible, tokens = f"{found.k + 1} are possible", f"{needs.tokens_per_step:.2f} tokens per step at this step time"
    step = f"a step time of {_milliseconds(needs.step_time_s)} ms at this acceptance"
    horizon = f"{_horizon_words(needs)} would do"
    if needs.reachable:
        reached = "is reached now; it needs" if needs.reached else "needs"
        yield f"{reached} {tokens} ({possible}):"
        yield _accepted(needs)
        yield f"or {step}"
        yield horizon
        return
    at_ceiling = f"of {_milliseconds(needs.step_time_at_ceiling_s)} ms at perfect acceptance"
    yield f"is out of reach of any acceptance, by {two_digits(_beyond(needs))} %:"
    yield f"it needs {tokens}, and {possible}"
    yield f"left is a faster step: {step}, {at_ceiling}"
    yield f"or a longer horizon: {horizon}, were the step time the same"


def _accepted(needs: TargetNeeds) -> str:
    if not needs.acceptance_rate:
        return "without any draft token accepted"
    return (
        f"{_percent(needs.acceptance_rate)} % of all draft tokens accepted, "
        f"or {needs.conditional_acceptance:.3f} at each position given those before"
    )


def _horizon_words(needs: TargetNeeds) -> str:
    if not needs.k_at_perfect_acceptance:
        return "no speculation at this step time"
    return f"perfect acceptance at k={needs.k_at_perfect_acceptance}"


def _beyond(needs: TargetNeeds) -> float:
    """Return by how many percent a target is above what perfect acceptance gives."""
    return 100 * (needs.tokens_per_step / needs.most_tokens_per_step - 1)


def _table(shown: Sequence[tuple[ArmCeiling, Ceiling]]) -> Iterator[str]:
    """Return speeds and ceilings of a record, and a second table on the target where there is one."""
    seldom = any(one.drafts_seldom for one, _ in shown)
    headers = ["arm", "load", "k", "boots", "step time [ms]", "tokens per step"]
    headers += [*["steps with a draft"] * seldom, "speed [tokens/s]", "ceiling [tokens/s]", "share of it"]
    rows = tuple(tuple(_figures(one, figures, seldom=seldom)) for one, figures in shown)
    yield Table(tuple(headers), ("left", *["right"] * (len(headers) - 1)), rows).text()
    targets = [(one, figures, figures.target) for one, figures in shown if figures.target is not None]
    if targets:
        headers = ["arm", "load", "reached now", "tokens per step", "acceptance length (now)", "draft tokens accepted"]
        headers += ["at each position", "or step time [ms]", "at perfect acceptance"]
        yield f"\n{_target(targets[0][2])}, by acceptance at this step time, or by a step time at this acceptance"
        align = ("left", *["right"] * (len(headers) - 1))
        yield Table(tuple(headers), align, tuple(tuple(_wanted(*one)) for one in targets)).text()
        yield from _left(targets)


def _left(targets: Sequence[tuple[ArmCeiling, Ceiling, TargetNeeds]]) -> Iterator[str]:
    """Say what is left for targets that no acceptance reaches."""
    beyond = [one for one, _, needs in targets if not needs.reachable]
    if any(one.drafts_seldom for one in beyond):
        yield (
            "out of reach of any acceptance where it drafts now: what is left is a drafter that proposes more often, "
            "a longer horizon where one is named, or a faster step"
        )
    elif beyond:
        yield "out of reach of any acceptance: what is left is a longer horizon, or a faster step"


def _figures(one: ArmCeiling, figures: Ceiling, *, seldom: bool) -> Iterator[str]:
    yield from _place(one)
    yield f"{figures.k}"
    yield f"{len(one.step_times_s)}"
    yield _milliseconds(figures.step_time_s)
    yield f"{figures.tokens_per_step:.4f}"
    if seldom:
        yield "-" if one.drafted_share is None else f"{_percent(one.drafted_share)} %"
    yield number(figures.speed_tokens_per_s)
    yield number(figures.ceiling_tokens_per_s)
    yield f"{_percent(figures.share_of_ceiling)} %"


def _wanted(one: ArmCeiling, figures: Ceiling, needs: TargetNeeds) -> Iterator[str]:
    yield from _place(one)
    yield "yes" if needs.reached else "no"
    most = needs.most_tokens_per_step
    yield f"{needs.tokens_per_step:.2f} of {figures.k + 1 if most == figures.k + 1 else f'{most:.2f}'}"
    now = "-" if one.acceptance_length is None else f"{one.acceptance_length:.3f}"
    if needs.acceptance_length is None or needs.acceptance_rate is None:
        yield from (f"- ({now})", f"out of reach by {two_digits(_beyond(needs))} %", "-")
    else:
        yield f"{needs.acceptance_length:.3f} ({now})"
        yield from (f"{_percent(needs.acceptance_rate)} %", f"{needs.conditional_acceptance:.3f}")
    yield _milliseconds(needs.step_time_s)
    yield _horizon(needs.k_at_perfect_acceptance)


def _horizon(k: int | None) -> str:
    """Return a horizon, as reports name it."""
    if k is None:
        return "none"
    return f"k={k}" if k else "off"


def _place(one: ArmCeiling) -> tuple[str, str]:
    return one_line(one.arm or "-"), "-" if one.at is None else level_label(one.at)


def _refused(found: Sequence[ArmCeiling]) -> Iterator[str]:
    """Say why some have no figures; what keeps an arm from all of them is said once."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for one in found:
        if not one.valid:
            arm, load = _place(one)
            message = f"{one.message}".removeprefix(f"arm {one.arm} at {load}: ")
            places.setdefault((arm, f"{one.reason}", message), []).append(load)
    for (arm, reason, message), loads in places.items():
        yield one_line(f"INVALID ({reason}): {arm} at {', '.join(loads)}: {message}")


def _milliseconds(seconds: float) -> str:
    return number(1000 * seconds)


def _percent(share: float) -> str:
    """Return a share in percent; what falls short of all of it is not rounded to all of it."""
    return f"{min(100 * share, 99.9) if share < 1 else 100 * share:.1f}"
