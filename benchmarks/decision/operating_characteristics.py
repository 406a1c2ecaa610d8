"""Simulate the shipped decision rule, print its operating characteristics, and compare them with the published ones.

Usage: python benchmarks/decision/operating_characteristics.py [--samples N] [--seed S] [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

# Run as a file, it finds the modules beside it by their full names.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.decision import gates, scenarios, tables
from benchmarks.decision.compare import count_published, disagreements
from benchmarks.decision.simulation import Draws

SAMPLES = 200_000
SEED = 20261201
GATE_SHARE, SCENARIO_SHARE = 0.1, 0.3
LEGEND = "Normal rounds, sigma = 0.4 %. Cells are PASS % / FAIL %, mean rounds; the rest is INCONCLUSIVE.\n"


def main() -> int:
    """Print all tables, and return how a process ends: 1 when a published figure is not reproduced."""
    options = _options()
    draws = Draws(options.samples, options.seed)
    found = []
    report = [f"{draws.samples} samples a cell, seed {draws.seed}.\n", LEGEND]
    for table in tables.all_tables(draws):
        _say(table.name)
        found.append(table)
        report.append(table.markdown())
    _say("gates")
    report.append(gates.markdown(draws.share(GATE_SHARE)))
    _say("scenarios")
    report += scenarios.markdown(draws.share(SCENARIO_SHARE))
    wrong = list(disagreements(found))
    report.append(_verdict(wrong))
    text = "\n".join(report)
    sys.stdout.write(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--samples", type=int, default=SAMPLES, help="runs a cell; the comparison wants 100,000 at least"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of everything")
    parser.add_argument("--out", type=Path, default=None, help="file that gets the tables, too")
    return parser.parse_args()


def _verdict(wrong: list[str]) -> str:
    total = count_published()
    if not wrong:
        return f"All {total} published figures are reproduced.\n"
    lines = "".join(f"- {one}\n" for one in wrong)
    return f"{len(wrong)} of {total} published figures are not reproduced:\n\n{lines}"


def _say(what: str) -> None:
    sys.stderr.write(f"simulating: {what}\n")


if __name__ == "__main__":
    sys.exit(main())
