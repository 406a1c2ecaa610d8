"""`specgate ceiling`: how fast one stream can be at a draft horizon, and what a target speed needs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_specgate.cli.command import EXIT_INVALID, EXIT_OK, Command, say
from pytest_specgate.cli.horizon_arguments import horizon, levels_of
from pytest_specgate.core.errors import UsageError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.ceiling import Ceilings
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import WindowRecord

_FIGURES: Final = {"--step-time": "step_time", "--tokens-per-step": "tokens_per_step", "--k": "k"}
_CHOICES: Final = {"--arm": "arm", "--at": "at"}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "record", metavar="RECORD", type=Path, nargs="?",
        help="record.json of a window, or its folder: step time, tokens per step and k are taken from it",
    )  # fmt: skip
    parser.add_argument("--step-time", metavar="TIME", help="without a record: time of a decode step, as 23.38ms")
    parser.add_argument(
        "--tokens-per-step", metavar="N", type=_number, help="likewise: output tokens of a decode step, from 1 to k + 1"
    )
    parser.add_argument("--k", metavar="K", type=horizon, help="likewise: draft horizon")
    parser.add_argument(
        "--arm", metavar="NAME", action="append", default=[],
        help="of a record: a speculative arm, instead of all of them; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--at", metavar="LOAD", action="append", default=[],
        help="of a record: a load level, as 1, 4/s or '8 T=0.8', instead of all of them; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--target", metavar="SPEED", help="a wanted speed of one stream, as '200 tokens/s': what it needs"
    )
    parser.add_argument(
        "--json", action="store_true",
        help='print one JSON object; times in seconds, shares as fractions; what is INVALID has "valid": false, its'
        " reason and no figures",
    )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    from pytest_specgate.reporting.ceiling import ceilings_lines  # noqa: PLC0415  - see the package's docstring

    _check_form(arguments)
    target = None if arguments.target is None else _speed(arguments.target)
    found = _given(arguments, target) if arguments.record is None else _measured(arguments, target)
    say(found.model_dump_json(indent=2) if arguments.json else "\n".join(ceilings_lines(found)))
    return EXIT_OK if found.valid else EXIT_INVALID


def _check_form(arguments: argparse.Namespace) -> None:
    """Refuse figures beside a record, and what is left when neither is whole.

    Raises:
        UsageError: it is so.
    """
    given = [flag for flag, name in _FIGURES.items() if getattr(arguments, name) is not None]
    lacking = [flag for flag in _FIGURES if flag not in given]
    choices = [flag for flag, name in _CHOICES.items() if getattr(arguments, name)]
    if arguments.record is not None:
        if given:
            raise UsageError(f"a record tells {_listed(given)} itself: give one or the other")
        return
    if choices:
        raise UsageError(f"a record is missing for {_listed(choices)} to choose from: name one")
    if not given:
        raise UsageError(f"nothing tells how fast a stream is: name a window record, or {_listed([*_FIGURES])}")
    if lacking:
        verb = "tells" if len(given) == 1 else "tell"
        raise UsageError(
            f"{_listed(given)} alone {verb} no speed: add {_listed(lacking)}, or name a window record instead"
        )


def _listed(flags: Sequence[str]) -> str:
    *most, last = flags
    return f"{', '.join(most)} and {last}" if most else last


def _speed(text: str) -> float:
    """Read a speed with its unit, or the bare number of tokens per second.

    Raises:
        UsageError: it is none.
    """
    from pytest_specgate.core.ceiling import check_target  # noqa: PLC0415  - likewise
    from pytest_specgate.core.units import amount_of  # noqa: PLC0415  - likewise

    for spelling in (text, f"{text} tokens/s"):
        try:
            found = amount_of("--target", spelling, "tokens/s")
            break
        except UsageError:
            continue
    else:
        raise UsageError(f"--target={text!r} is no speed: write tokens per second, as '200 tokens/s'")
    _checked("--target", text, lambda: check_target(found))
    return found


def _checked(flag: str, text: object, check: Callable[[], None]) -> None:
    """Run a check, and name the option in its refusal.

    Raises:
        UsageError: the value is refused.
    """
    try:
        check()
    except UsageError as error:
        raise UsageError(f"{flag} {text}: {error}") from error


def _number(text: str) -> float:
    """Read a plain number.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        return float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no number: write tokens per step as 2.65") from error


def _given(arguments: argparse.Namespace, target: float | None) -> Ceilings:
    from pytest_specgate.core import ceiling as core  # noqa: PLC0415  - likewise
    from pytest_specgate.core.declared import seconds_of  # noqa: PLC0415  - likewise

    k, tokens, time = arguments.k, arguments.tokens_per_step, seconds_of("--step-time", arguments.step_time)
    _checked("--k", k, lambda: core.check_horizon(k))
    _checked("--step-time", arguments.step_time, lambda: core.check_step_time(time))
    _checked("--tokens-per-step", f"{tokens:g}", lambda: core.check_tokens(tokens, k=k))
    figures = core.ceiling(step_time_s=time, tokens_per_step=tokens, k=k, target_tokens_per_s=target)
    return core.ceilings((core.ArmCeiling(ceiling=figures),))


def _measured(arguments: argparse.Namespace, target: float | None) -> Ceilings:
    from pytest_specgate.cli.records import record_at  # noqa: PLC0415  - likewise
    from pytest_specgate.core.ceiling import ceilings, record_ceiling  # noqa: PLC0415  - likewise
    from pytest_specgate.core.confounds import attached_sentence  # noqa: PLC0415  - likewise

    record, path = record_at(arguments.record)
    arms, levels = _arms(record, arguments.arm), _levels(record, arguments.at)
    found = tuple(record_ceiling(record, arm, at, target_tokens_per_s=target) for arm in arms for at in levels)
    return ceilings(
        found,
        record=str(path),
        finished=record.finished,
        stopped=record.stopped,
        identity=tuple(line for arm in arms if (line := _identity(record, arm))),
        unproved=tuple(line for line in (attached_sentence(arm.name, record) for arm in arms) if line is not None),
    )


def _identity(record: WindowRecord, arm: Arm) -> str:
    """Say whether the boots of an arm were put under one load; empty where there is but one."""
    from pytest_specgate.core.identity import compare  # noqa: PLC0415  - likewise

    report = compare(record.boots_of(arm.name), arms=1)
    return f"{arm.name}, {len(record.boots_of(arm.name))} boots: {report.sentence}" if report.fields else ""


def _arms(record: WindowRecord, names: Sequence[str]) -> list[Arm]:
    """Return the speculative arms of a record that are asked for, each once.

    Raises:
        UsageError: there is none, or one that is named does not speculate or is not there.
    """
    drafting = {arm.name: arm for arm in record.arms if arm.speculates}
    if not drafting:
        raise UsageError("no arm of the record speculates, so none has a ceiling of drafts")
    for name in names:
        if name not in drafting:
            known = any(arm.name == name for arm in record.arms)
            why = "does not speculate, so it has no ceiling of drafts" if known else "is no arm of the record"
            # A single name needs no guess beside it.
            meant = nearest(name, drafting) if len(drafting) > 1 else ""
            raise UsageError(f"--arm {name}: {name} {why}: name {_listed([*drafting])}{meant}")
    return [drafting[name] for name in dict.fromkeys(names or drafting)]


def _levels(record: WindowRecord, texts: Sequence[str]) -> list[Level]:
    """Return the load levels of a record that are asked for, each once.

    Raises:
        UsageError: one that is named is not there.
    """
    points = record.profile.points
    asked = levels_of(texts)
    if missing := [at for at in asked if at not in points]:
        there = ", ".join(f"{at}" for at in points)
        raise UsageError(f"--at {missing[0]}: the window has no such load level; it has {there}")
    return asked or list(points)


COMMAND = Command(
    name="ceiling",
    summary="how fast one stream can be at a draft horizon, and what acceptance or step time a target speed needs",
    description="Say how fast one stream is (tokens per step / step time), how fast it would be if every draft token"
    " were accepted ((k + 1) / step time), and what a target speed needs: so many accepted tokens, or so fast a step."
    " The figures are those of a window record, of each speculative arm at each load level and pooled over boots, or"
    " those that are given. Step time rises with k and with load, so the ceiling of another k is another one; and one"
    " stream's speed is not throughput. Exit status: 0 shown, whether a target can be reached or not; 2 wrong usage or"
    " a broken record; 4 no figure of the record may be read.",
    add_arguments=_add_arguments,
    run=_run,
    example="specgate ceiling --step-time 23.38ms --tokens-per-step 2.6498 --k 4 --target '200 tokens/s'",
)
