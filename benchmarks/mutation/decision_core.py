"""Say what the tests of the decision core would not notice: one small change of its code at a time, and all its tests.

mutmut makes the changes, in a copy of the tree: `[tool.mutmut]` in pyproject.toml names the modules. Two things that it
leaves alone are changed besides, because they hold the error rates: properties, which the copy has as methods until
their class is complete, and numbers outside functions.

Usage: python benchmarks/mutation/decision_core.py FOLDER [--processes N] [--least PERCENT]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

# Run as a file, it finds the modules beside it by their full names.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.mutation.numbers_outside import survivors_of
from benchmarks.mutation.properties import as_methods
from benchmarks.mutation.scores import Score, markdown

TREE = Path(__file__).resolve().parents[2]
COPIED = ("pytest_specgate", "tests", "docs", "benchmarks", "conftest.py", "pyproject.toml")
LEAST = 90.0
SURVIVING = ("survived", "no tests")
UNFINISHED = ("not checked", "check was interrupted by user", "suspicious", "segfault")
WITHOUT_CHANCE = {**os.environ, "CI": "true"}
"""With CI set, hypothesis draws the same examples every time, and keeps no database of failures."""


def main() -> int:
    """Print the score of every module and what survived, and return how a process ends: 1 below the least score."""
    options = _options()
    folder: Path = options.folder.resolve()
    modules = _copy(folder)
    _mutmut(folder, "run", "--max-children", str(options.processes))
    scores = _scores(folder)
    for path in modules:
        score = scores.setdefault(path.stem, Score())
        tried, survived = survivors_of(path, folder=folder, environment=WITHOUT_CHANCE)
        score.mutants += tried
        score.survivors += survived
    sys.stdout.write(markdown(scores))
    return int(any(score.percent < options.least for score in scores.values()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the copy goes; emptied before")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="mutants tried at the same time")
    parser.add_argument("--least", type=float, default=LEAST, help="score that every module has to reach, in percent")
    return parser.parse_args()


def _copy(folder: Path) -> list[Path]:
    """Copy the tree, write its properties as methods, and return the modules that are changed."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in COPIED:
        source, target = TREE / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    settings = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
    modules = sorted({path for pattern in settings["only_mutate"] for path in folder.glob(pattern)})
    for path in modules:
        path.write_text(as_methods(path.read_text(encoding="utf-8")), encoding="utf-8")
    return modules


def _mutmut(folder: Path, *arguments: str) -> str:
    """Return what mutmut prints.

    Raises:
        SystemExit: it failed.
    """
    command = [sys.executable, "-m", "mutmut", *arguments]
    done = subprocess.run(  # noqa: S603  - our own interpreter, no shell
        command, cwd=folder, env=WITHOUT_CHANCE, text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"mutmut {' '.join(arguments)} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def _scores(folder: Path) -> dict[str, Score]:
    """Return what became of the changes that mutmut made, by module.

    Raises:
        SystemExit: some were not tried to the end.
    """
    scores: dict[str, Score] = {}
    for line in _mutmut(folder, "results", "--all", "true").splitlines():
        name, _, status = line.strip().rpartition(": ")
        if status in UNFINISHED:
            raise SystemExit(f"{name}: {status}")
        score = scores.setdefault(name.split(".")[-2], Score())
        score.mutants += 1
        if status in SURVIVING:
            changed = _mutmut(folder, "show", name).splitlines()
            score.survivors.append("\n".join([f"# {name}: {status}", *(one for one in changed if _is_change(one))]))
    return scores


def _is_change(line: str) -> bool:
    return line.startswith(("-", "+")) and not line.startswith(("---", "+++"))


if __name__ == "__main__":
    sys.exit(main())
