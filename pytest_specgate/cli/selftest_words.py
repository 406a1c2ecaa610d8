"""What `specgate selftest` says of a check: what was done to the engine, what the gate said, and what that proves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.cli.command import EXIT_INCONCLUSIVE, EXIT_INVALID, EXIT_NOT_PROVED
from pytest_specgate.core.percent import signed

if TYPE_CHECKING:
    from pytest_specgate.cli.selftest import Finding


def sentence(finding: Finding) -> str:
    """Say what was slowed, what the gate said of it, and whether that proves the gate."""
    check, usual_ms = finding.check, f"{1000 * finding.check.usual_s:g} ms"
    if check.slowed:
        done = f"engine steps of one arm were made {percent(check.slowed)} % longer ({usual_ms} to"
        done += f" {1000 * check.other_s:.6g} ms)"
    else:
        done = f"both arms had the same engine steps ({usual_ms})"
    change = f"changes by {signed(check.slowed)} %" if check.slowed else "stays the same"
    return f"selftest {check.option}: {done}, so TPOT truly {change}; {_said(finding)}."


def _said(finding: Finding) -> str:
    verdict, ended = finding.verdict, f"pytest ended with exit status {finding.exit_code}"
    if verdict is None:
        return f"no gate was judged and {ended}, whose output is above: this proves nothing, and needs mending first"
    if verdict.change is None or finding.interval is None:
        return f"the gate said {verdict.summary.rstrip('.')}, and {ended}: {_conclusion(finding)}"
    low, high = finding.interval
    return (
        f"the gate measured {signed(verdict.change)} % (interval {signed(low)} .. {signed(high)} %) against a"
        f" margin of {percent(finding.check.margin)} %, said {verdict.outcome}, and {ended}: {_conclusion(finding)}"
    )


def _conclusion(finding: Finding) -> str:
    if finding.proved:
        how = "goes red when an arm is slower" if finding.check.slowed else "stays green when no arm is slower"
        return f"proved, a gate here {how}"
    remedies = {
        EXIT_NOT_PROVED: "NOT proved, do not trust gates on this machine before this is explained",
        EXIT_INCONCLUSIVE: "not proved, the measurement did not suffice; free this machine of other work, or slow more",
        EXIT_INVALID: "not proved, nothing may be judged; mend that first",
    }
    return remedies[finding.status]


def percent(fraction: float) -> str:
    """Return a fraction as a percentage without its sign, in plain digits."""
    return f"{100 * fraction:.6f}".rstrip("0").rstrip(".")
