"""The gate file of `specgate knee --snippet`: which horizon it pins, by which window, and where it is written."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_specgate.cli.command import say
from pytest_specgate.cli.records import opened_record
from pytest_specgate.core.errors import UsageError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_specgate.core.advice import Advice
    from pytest_specgate.core.floors import NoiseFloor
    from pytest_specgate.core.knee import Knee, KneeSource

_STDOUT: Final = "-"


def write_snippet(
    knee: Knee, target: str, *, k: int | None, drafter: str | None, floors: Mapping[str, NoiseFloor]
) -> None:
    """Write the gate file that pins a horizon against off, from the first window in which the two met.

    Args:
        knee: what was read.
        target: file that is not there yet, or ``-`` to print it.
        k: the horizon; `None` for that of the advice.
        drafter: its name; `None` where there is but one.
        floors: noise floors by metric, which replace what the record tells.

    Raises:
        UsageError: no window has both, several drafters may be meant, no k is to be pinned, or the file cannot be
            made.
    """
    from pytest_specgate.reporting.knee_words import pin_note  # noqa: PLC0415  - see the package's docstring
    from pytest_specgate.reporting.snippet import gate_snippet  # noqa: PLC0415  - likewise

    sources = _of_one_drafter(_with_off(knee), k=k, drafter=drafter)
    told = [one.advice for one in knee.advice.get(sources[0].drafter or "", ())]
    pinned = _pinned(told) if k is None else k
    source = next((one for one in sources if pinned in one.arms), None)
    if source is None:
        raise _missing(pinned, sources)
    with opened_record(Path(source.source)) as (record, path):
        text = gate_snippet(record, told, k=pinned, path=str(path), arm=source.arms[pinned], floors=floors)
    _write(target, text)
    if target != _STDOUT:
        say(f"{target} pins k={pinned} against off, as measured by {path}; run it: pytest {shlex.quote(target)}")
        if note := pin_note(told, pinned):
            say(note)


def _with_off(knee: Knee) -> list[KneeSource]:
    return [one for one in knee.sources if one.drafter is not None and 0 in one.arms and len(one.arms) > 1]


def _of_one_drafter(sources: Sequence[KneeSource], *, k: int | None, drafter: str | None) -> list[KneeSource]:
    """Return the windows of the drafter that is meant, in which a horizon met off."""
    names = _names(sources)
    if drafter is not None and drafter not in names:
        raise UsageError(
            f"--drafter {drafter}: no window has it and off; there {'is' if len(names) == 1 else 'are'} "
            f"{', '.join(names) or 'none'}{nearest(drafter, names)}"
        )
    own = [one for one in sources if drafter in (None, one.drafter)]
    found = [one for one in own if k is None or k in one.arms]
    if not found:
        raise _missing(k, own)
    if len(several := _names(found)) > 1:
        raise UsageError(f"--snippet: {', '.join(several)} were measured: name the one to be pinned with --drafter")
    return found


def _names(sources: Iterable[KneeSource]) -> list[str]:
    return list(dict.fromkeys(one.drafter or "" for one in sources))


def _missing(k: int | None, sources: Iterable[KneeSource]) -> UsageError:
    there = sorted({own for one in sources for own in one.arms if own})
    if not there:
        return UsageError("--snippet: no window has both off and a horizon, so nothing can be held to it")
    ks = ", ".join(f"k={own}" for own in there)
    return UsageError(
        f"--snippet: no window has both off and k={k}: with off there {'are' if there[1:] else 'is'} {ks}"
    )


def _pinned(told: Sequence[Advice]) -> int:
    """Return the horizon that advice comes down to.

    Raises:
        UsageError: nothing has beaten off, or what has was not measured.
    """
    from pytest_specgate.core.advice import pinned  # noqa: PLC0415  - likewise

    found = pinned(told)
    if found is None:
        words = "; ".join(f"{one.objective}: {one.words}" for one in told)
        raise UsageError(f"--snippet: no measured k is to be pinned ({words}): name the one that is with --k")
    return found


def _write(target: str, text: str) -> None:
    """Print a gate file, or write it where none is.

    Raises:
        UsageError: something is there already, or no folder.
    """
    if target == _STDOUT:
        say(text.rstrip("\n"))
        return
    from pytest_specgate.adapters.storage import write_atomically  # noqa: PLC0415  - likewise

    path = Path(target)
    if path.exists() or not path.parent.is_dir():
        why = "it is there already" if path.exists() else f"there is no folder {path.parent}"
        raise UsageError(f"--snippet {path}: {why}: name a file that can be made")
    write_atomically(path, text)
