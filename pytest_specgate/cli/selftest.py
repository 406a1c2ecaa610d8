"""`specgate selftest`: whether a gate on this machine goes red when one arm is slower, and stays green when none is."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pytest_specgate.cli.command import EXIT_INCONCLUSIVE, EXIT_INVALID, EXIT_NOT_PROVED, EXIT_OK, Command, say
from pytest_specgate.cli.selftest_words import percent, sentence
from pytest_specgate.core.errors import RecordError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping

    from pydantic import JsonValue

    from pytest_specgate.core.verdict import Verdict

Expected: TypeAlias = Literal["PASS", "FAIL"]

_SLOWED_BY_DEFAULT: Final = "20%"
_SLOWEST: Final = 10.0
"""Slower than eleven times is a slip of the finger, and would run for minutes."""

_MARGIN: Final = 0.02
_MARGIN_SHARE: Final = 0.5
"""Largest margin as a share of what is slowed: clearly less, so that the gate has to see it."""

_STEP_S: Final = 0.02
"""Long beside what a busy machine delays a timer by, so that the step decides what is measured."""

_METRIC: Final = "tpot_p50"
_KEPT_VARIABLES: Final = ("SPECGATE_STATE_DIR", "SPECGATE_LOCK_WAIT")
"""Of the plugin's: with the lock of this machine, a self-test and a gate wait for each other instead of measuring
each other; every other one would change the gate of the self-test."""

_GATE_FILE: Final = '''\
"""Written by `specgate selftest`. To run it again:

pytest {name} --specgate-engine-command="{engine}"
"""

from pytest_specgate import Arm, ArmPair, RequestProfile, gate, noise_floor, not_worse

USUAL = Arm("usual", model="fake-model", args={{"fake": {{"step_s": {usual_s!r}}}}})
# Arms of a pair must differ in something: the seed draws drafts, and without speculation there are none.
OTHER = USUAL.vary("{other}", args={{"fake": {{"step_s": {other_s!r}, "seed": 1}}}})

LOAD = RequestProfile(input_tokens=16, output_tokens=32, requests={{5: 20}}, warmup_requests=1, request_timeout_s=60)
PAIR = ArmPair(reference=USUAL, candidate=OTHER, varies="args.fake", profile=LOAD, rounds=4)
FLOOR = noise_floor(
    "1%",
    source="the fake engine, steps of 20 ms: 20 rounds of equal arms on two overloaded cores within ±0.7 %, rounded up",
)


@gate(PAIR, not_worse("{metric}", at=5, margin="{margin}%", noise=FLOOR))
def test_selftest():
    """The other arm takes no more time per output token."""
'''


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """One run of a gate whose verdict is known beforehand.

    Attributes:
        option: as it is typed, ``--aa`` or ``--slow 5%``.
        slowed: how much longer the steps of one arm are made, a fraction; 0 for two equal arms.
        margin: of the gate, a fraction.
    """

    option: str
    slowed: float
    margin: float

    @property
    def name(self) -> str:
        """The word for files."""
        return "slow" if self.slowed else "aa"

    @property
    def expected(self) -> Expected:
        """The word that the gate must say."""
        return "FAIL" if self.slowed else "PASS"

    @property
    def usual_s(self) -> float:
        """Step time of the first arm."""
        return _STEP_S

    @property
    def other_s(self) -> float:
        """Step time of the second arm."""
        return round(self.usual_s * (1 + self.slowed), 9)


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """What came of a check.

    Attributes:
        check: what was done.
        exit_code: of pytest.
        verdict: of the gate, `None` when pytest judged nothing.
    """

    check: Check
    exit_code: int
    verdict: Verdict | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the interval of the change, fractions; `None` where nothing was judged."""
        if self.verdict is None or self.verdict.change_low is None or self.verdict.change_high is None:
            return None
        return self.verdict.change_low, self.verdict.change_high

    @property
    def proved(self) -> bool:
        """Whether word, interval and exit code are all three what they must be."""
        if self.verdict is None or self.interval is None or self.verdict.outcome != self.check.expected:
            return False
        low, high = self.interval
        if self.check.expected == "FAIL":
            return low > self.check.margin and self.exit_code == 1
        return high <= self.check.margin and self.exit_code == 0

    @property
    def status(self) -> int:
        """Exit status of the self-test. A green pytest without a PASS is what a self-test is there to find."""
        outcome = None if self.verdict is None else self.verdict.outcome
        if self.proved:
            return EXIT_OK
        if self.exit_code == 0 or outcome in {"PASS", "FAIL"}:
            return EXIT_NOT_PROVED
        return EXIT_INCONCLUSIVE if outcome == "INCONCLUSIVE" else EXIT_INVALID

    def as_json(self) -> dict[str, JsonValue]:
        """Return all of it for programs; changes are fractions, and what there is not is null."""
        return {
            "outcome": None if self.verdict is None else str(self.verdict.outcome),
            "reason": None if self.verdict is None else self.verdict.reason,
            "expected": self.check.expected,
            "slowed": self.check.slowed,
            "metric": _METRIC,
            "margin": self.check.margin,
            "change": None if self.verdict is None else self.verdict.change,
            "interval": None if self.interval is None else list(self.interval),
            "pytest_exit_code": self.exit_code,
            "proved": self.proved,
        }


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--slow",
        metavar="PERCENT",
        help="make every engine step of one arm this much longer, as 5%%: the gate must say FAIL, and pytest must end"
        " with exit status 1",
    )
    parser.add_argument(
        "--aa", action="store_true", help="give both arms the same speed: the gate must say PASS, and pytest must pass"
    )
    parser.add_argument(
        "--keep",
        metavar="FOLDER",
        type=Path,
        help="write gate files, records and server logs into this new folder, and leave them there",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object; changes are fractions, 0.05 is 5%%; where both checks run, it has one object each"
        " under aa and slow, and whether both proved the gate under proved",
    )


def _run(arguments: argparse.Namespace) -> int:
    checks = _checks(slow=arguments.slow, aa=arguments.aa)
    findings = []
    with _folder(arguments.keep) as folder:
        for check in checks:
            if not arguments.json:
                after = "" if arguments.keep else "; its files are deleted afterwards (--keep FOLDER keeps them)"
                say(f"{check.option}: running a gate against the fake engine, 10 to 40 seconds{after}")
            findings.append(_checked(check, folder / check.name, quiet=arguments.json))
    if arguments.json:
        say(json.dumps(_answer(findings)))
        sys.stderr.writelines(sentence(finding) + "\n" for finding in findings if not finding.proved)
    else:
        say("\n".join(["", *map(sentence, findings)]))
    statuses = {finding.status for finding in findings}
    return next((found for found in (EXIT_NOT_PROVED, EXIT_INVALID, EXIT_INCONCLUSIVE) if found in statuses), EXIT_OK)


def _checks(*, slow: str | None, aa: bool) -> tuple[Check, ...]:
    """Return what is to be done, equal arms first: with both, both gates have the same margin."""
    from pytest_specgate.core.declared import fraction_of  # noqa: PLC0415  - see the package's docstring

    if slow is None and not aa:
        slow, aa = _SLOWED_BY_DEFAULT, True
    slowed = 0.0 if slow is None else fraction_of("--slow", slow)
    if slow is not None and not 0 < slowed <= _SLOWEST:
        raise UsageError(
            f"--slow={slow!r} cannot be tested: name more than 0% and at most {100 * _SLOWEST:g}%, as --slow 5%"
        )
    margin = min(_MARGIN, _MARGIN_SHARE * slowed) if slowed else _MARGIN
    equal = [Check("--aa", slowed=0.0, margin=margin)] if aa else []
    return (*equal, *([Check(f"--slow {percent(slowed)}%", slowed=slowed, margin=margin)] if slowed else []))


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        # A server that is still being stopped may write its log while the folder goes.
        with tempfile.TemporaryDirectory(prefix="specgate-selftest-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        full = any(keep.iterdir())
    except OSError as error:
        raise UsageError(f"--keep {keep} cannot be used: {error.strerror or error}: name a new folder") from error
    if full:
        raise UsageError(f"--keep {keep} is not empty: name a new folder")
    yield keep.absolute()


def _checked(check: Check, folder: Path, *, quiet: bool) -> Finding:
    """Run the gate in a folder that is made for it, and read what the plugin wrote there."""
    from pytest_specgate.testing import ENGINE_COMMAND  # noqa: PLC0415  - see the package's docstring

    name = f"test_{check.name}.py"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / name).write_text(_gate_text(check, name=name, engine=ENGINE_COMMAND), encoding="utf-8")
    exit_code, lines = _pytest(name, f"--specgate-engine-command={ENGINE_COMMAND}", folder=folder)
    finding = Finding(check, exit_code, _verdict(folder))
    shown = lines if finding.verdict is None else _summary(lines)
    if not quiet:
        say("\n".join(shown))
    elif finding.verdict is None:
        sys.stderr.write("\n".join(shown) + "\n")
    return finding


def _gate_text(check: Check, *, name: str, engine: str) -> str:
    return _GATE_FILE.format(
        name=name,
        engine=engine,
        usual_s=check.usual_s,
        other="slowed" if check.slowed else "twin",
        other_s=check.other_s,
        metric=_METRIC,
        margin=percent(check.margin),
    )


def _pytest(*arguments: str, folder: Path) -> tuple[int, list[str]]:
    """Run pytest as a user would, and return its exit status and what it printed."""
    from pytest_specgate.cli.child import listened_pytest  # noqa: PLC0415  - see the package's docstring

    general = ("-p", "no:cacheprovider", "--color=no", "--specgate-results=specgate-results")
    return listened_pytest((*general, *arguments), folder=folder, environment=_environment(os.environ), heard=_heard)


def _heard(line: str) -> str:
    """Pass on at once why nothing happens; all else is shown at the end."""
    if line.startswith("specgate: waiting"):
        sys.stderr.write(line + "\n")
    return line


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without what steers pytest or the plugin: they are meant for the user's own gates."""
    steering = ("PYTEST_", "SPECGATE_", "GITHUB_STEP_SUMMARY")
    return {name: value for name, value in given.items() if name in _KEPT_VARIABLES or not name.startswith(steering)}


def _verdict(folder: Path) -> Verdict | None:
    """Read the only verdict from the only record; `None` when there is none."""
    from pytest_specgate.adapters.storage import load_record  # noqa: PLC0415  - see the package's docstring
    from pytest_specgate.core.verdict import Verdict  # noqa: PLC0415  - likewise

    try:
        (path,) = folder.glob("specgate-results/*/record.json")
        (verdict,) = load_record(path).verdicts
    except (ValueError, RecordError):
        return None
    return Verdict.model_validate_json(json.dumps(verdict))


def _summary(lines: Iterable[str]) -> list[str]:
    """Return what pytest printed from the plugin's summary on; all of it where there is none."""
    printed = list(lines)
    start = next((place for place, line in enumerate(printed) if line.strip("=") == " specgate "), 0)
    return printed[start:]


def _answer(findings: list[Finding]) -> dict[str, JsonValue]:
    if len(findings) == 1:
        return findings[0].as_json()
    both: dict[str, JsonValue] = {finding.check.name: finding.as_json() for finding in findings}
    return {**both, "proved": all(finding.proved for finding in findings)}


COMMAND = Command(
    name="selftest",
    summary="prove that a gate here goes red when one arm is slower, and stays green when none is",
    description="A gate that never fails looks like a gate that always passes. This command writes a small gate file,"
    " runs pytest on it with a fake engine in place of vLLM (no GPU, no model, 10 to 40 seconds a check), and compares"
    " what the gate said with what was really done to the engine: with --slow one of its two arms is slower, and the"
    " gate must be red; with --aa both are alike, and it must be green. Without options it does both, --aa and then"
    f" --slow {_SLOWED_BY_DEFAULT}. It says whether gates work on this machine, and nothing of your server or your"
    " thresholds. It waits for gates that are running here, as they wait for it. Exit status: 0 the gate behaved as it"
    " must, 1 it did not, 2 wrong usage, 3 the measurement did not suffice to tell, 4 nothing could be judged.",
    add_arguments=_add_arguments,
    run=_run,
)
