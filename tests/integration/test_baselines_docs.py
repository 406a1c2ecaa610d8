"""The page about baselines says what the code says: its gate file writes, its reasons, options, commands are real."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from pytest_specgate import option_table, options
from pytest_specgate.adapters.baseline_files import BaselineFolder
from pytest_specgate.cli import _parser, main
from pytest_specgate.core.baselines import file_name
from pytest_specgate.core.cross_window import FAIL, PASS, CrossLook, WindowMean, cross_bounds, cross_look
from pytest_specgate.core.verdict_baseline import _REASONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.integration.conftest import GateFolder, GateRun

_ROOT: Final = Path(__file__).parents[2]
_PAGE: Final = (_ROOT / "docs" / "baselines.md").read_text(encoding="utf-8")
_RULE: Final = (_ROOT / "docs" / "decision-rule.md").read_text(encoding="utf-8").partition("## Across windows")[2]
_GATES, _ENGINE = re.findall(r"^```python\n(.*?)^```$", _PAGE, re.DOTALL | re.MULTILINE)
(_INI,) = re.findall(r"^```ini\n(.*?)^```$", _PAGE, re.DOTALL | re.MULTILINE)
_GATE: Final = "test_speed.py::test_k4"

_CODE: Final = "\n".join(
    (_ROOT / "pytest_specgate" / "core" / name).read_text(encoding="utf-8")
    for name in ("baselines.py", "baseline_fit.py", "baseline_case.py", "verdict_baseline.py")
)
"""Where verdicts about baselines get their reasons."""

_CODES: Final = r'^[A-Z_]+: Final = "([a-z]+(?:-[a-z]+)*)"$|reason="([a-z]+(?:-[a-z]+)*)"'
_UNSEEN: Final = {"later"}
"""Of a claim that waits for the end of its window: no report has it."""


def typed(program: str) -> list[str]:
    """Return the commands of a program that the page shows, each once."""
    lines = re.findall(rf"^\$ {program} (.*)$", _PAGE, re.MULTILINE)
    return list(dict.fromkeys(line.strip() for line in lines))


def mentioned() -> list[str]:
    """Return the commands of `specgate` that stand within sentences and tables, without what a reader fills in."""
    return sorted(set(re.findall(r"`specgate ((?:baseline )?[a-z]+)\b", _PAGE)))


def option_rows() -> list[list[str]]:
    """Return the spellings of each option in the table of the page: flag, environment variable, ini."""
    lines = re.findall(r"^\| (`--specgate-.*) \|$", _PAGE, re.MULTILINE)
    return [[cell.strip("`") for cell in line.split(" | ")[:3]] for line in lines]


def rule_rows() -> list[list[float]]:
    """Return the table of what so many windows can decide."""
    lines = re.findall(r"^\| (\d+(?: \| [\d.]+){8}) \|$", _RULE, re.MULTILINE)
    return [[float(cell) for cell in line.split(" | ")] for line in lines]


@pytest.fixture(scope="module")
def first(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """The gate file of the page and its engine, run to write the first window."""
    gates = new_gate_folder()
    gates.write(_GATE.partition("::")[0], _GATES.replace("fake-model", gates.model))
    gates.write("engine.py", _ENGINE)
    gates.write("pytest.ini", _INI)
    return gates.run("-rs", "--specgate-baseline=new", "--specgate-baseline-reason=vLLM 0.32", engine=None)


def test_the_first_run_writes_and_judges_as_the_page_says(first: GateRun) -> None:
    """The claim about the arms passes; those about the baseline are written, not judged, and that is told as shown."""
    assert (first.exit_code, first.counts) == (0, {"passed": 1, "skipped": 2}), first.output
    assert "1 passed, 2 skipped" in _PAGE
    assert first.output.count("written, not judged") >= 2
    assert "1 of 3 thresholds judged: 1 PASS" in first.output
    assert "1 of 3 thresholds judged: 1 PASS" in _PAGE


def test_the_file_lies_where_the_page_says(first: GateRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its class is the declared one, its name that of the page, and it has an entry for each claim that is shown."""
    monkeypatch.chdir(first.folder)
    [(path, file)] = BaselineFolder(Path("baselines")).files()

    assert (str(path), file.gate) == (f"baselines/ci-runner/{file_name(_GATE)}", _GATE)
    assert str(path) in _PAGE
    assert sorted(file.entries) == ["c1-decode_rate_p50", "c4-output_throughput"]
    assert [name for name in file.entries if f"specgate: {name} " not in _PAGE] == []


def test_reading_commands_show_what_the_page_shows(
    first: GateRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`show` and `history` of the first window have the titles and columns that are quoted."""
    monkeypatch.chdir(first.folder)
    told = []
    for command in ("show", "history"):
        assert main(["baseline", command]) == 0
        told.append(capsys.readouterr().out)
    title = "c4-output_throughput: output throughput at c=4, candidate / reference; more is better"

    assert [title in text for text in told] == [True, True]
    assert _PAGE.count(f"{title}\n") == 2
    columns = next(line for line in told[0].splitlines() if line.startswith("window") and "/ reference" in line)
    assert re.sub(r"\s+", " ", columns).strip() in re.sub(r" +", " ", _PAGE)


def test_every_reason_is_in_the_table_once() -> None:
    """The table has each code that a verdict about a baseline may have, and no other."""
    found = {code for pair in re.findall(_CODES, _CODE, re.MULTILINE) for code in pair}
    table = _PAGE.partition("| reason | outcome |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)

    assert len(found) > 10
    assert len(set(listed)) == len(listed)
    assert set(listed) == (found | set(_REASONS.values())) - {""} - _UNSEEN


def test_every_option_of_the_table_has_its_spellings() -> None:
    """All options about baselines stand there once, as the code spells them; typed acts have no other place."""
    known = {
        option.flag: [option.flag, *(("-", "-") if option.act and not option.acts else (option.variable, option.ini))]
        for option in option_table.OPTIONS
    }
    listed = [flag for flag, _, _ in option_rows()]

    assert option_rows() == [known[flag] for flag in listed]
    assert sorted(listed) == sorted(
        flag for flag in known if re.search("baseline|host-class|accept-regression", flag) is not None
    )


def test_every_option_that_is_mentioned_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is one of pytest or of `specgate baseline`: one that was renamed would stand on the page for ever."""
    of_pytest = {option.flag for option in option_table.OPTIONS}
    of_commands: set[str] = set()
    for command in ("show", "diff", "accept", "prune", "history"):
        with pytest.raises(SystemExit):
            main(["baseline", command, "--help"])
        of_commands |= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    named = set(re.findall(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*", _PAGE)) - {"--fake", "--cached"}

    assert len(named) > 10
    assert named - of_pytest - of_commands == set()


@pytest.mark.parametrize("line", typed("specgate"))
def test_a_command_of_the_page_can_be_typed(line: str) -> None:
    """Each is parsed whole: nothing of it is unknown, and something would be run."""
    found, unknown = _parser().parse_known_args(shlex.split(line))

    assert unknown == []
    assert callable(found.run)


@pytest.mark.parametrize("line", typed("pytest"))
def test_a_run_of_the_page_can_be_typed(line: str, pytester: pytest.Pytester) -> None:
    """Each is read by pytest and by the plugin."""
    words = shlex.split(line)
    read = options.read_options(pytester.parseconfig(*words), environment={})

    assert [word for word in words if word.startswith("--specgate")] == [word.replace("'", "") for word in read.given]


@pytest.mark.parametrize("words", mentioned())
def test_a_command_that_is_mentioned_explains_itself(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each has a help of its own."""
    with pytest.raises(SystemExit) as ended:
        main([*words.split(), "--help"])

    assert ended.value.code == 0
    assert f"usage: specgate {words}" in capsys.readouterr().out


def test_commands_were_found() -> None:
    """A search that found nothing would make the tests above empty."""
    commands = " ".join([*typed("specgate"), *mentioned()])

    assert [name for name in ("show", "diff", "accept", "prune", "history") if f"baseline {name}" not in commands] == []
    assert len(typed("pytest")) >= 2


def test_names_of_files_are_made_as_the_page_says() -> None:
    """A hostile parameter stays in its folder, a long id keeps its end, and ten digits of a hash tell names apart."""
    hostile = file_name("test_a.py::test_b[../../x]")
    long = file_name(f"{'a' * 200}.py::test_{'b' * 60}")

    assert "/" not in hostile
    assert re.fullmatch(r"[A-Za-z0-9._-]+-[0-9a-f]{10}\.json", hostile)
    assert len(long) == 80 + len("-0123456789.json")
    assert "the last 80 characters" in _PAGE


def test_links_lead_somewhere() -> None:
    """Each page exists, and has the heading that is linked to."""
    links = re.findall(r"\]\(([\w./-]+)(?:#([\w-]+))?\)", _PAGE)

    assert links
    for name, heading in links:
        path = _ROOT / "docs" / name
        assert path.is_file(), name
        headings = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE) if heading else []
        slugs = {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}
        assert not heading or heading in slugs, f"{name}#{heading}"


def apart(count: int) -> CrossLook:
    """Return a look at a window equal to the mean of so many, which lie one standard deviation apart."""
    spaced = np.linspace(-1, 1, count) / np.linspace(-1, 1, count).std(ddof=1)
    return cross_look(WindowMean(0, 4), [WindowMean(float(value), 4) for value in spaced], delta=1)


def test_the_table_of_the_rule_has_the_smallest_margins_of_the_code() -> None:
    """What a report calls the smallest usable margin is what the table has; the page quotes two of its rows."""
    told = {int(row[0]): row[1] for row in rule_rows()}
    real = {count: apart(count).smallest_margin for count in told}

    assert list(told) == [3, 4, 5, 8, 12]
    assert told == {count: pytest.approx(margin, abs=0.051) for count, margin in real.items()}
    assert f"is {told[3]} standard deviations of a window, with\neight {told[8]}" in _PAGE


def test_the_table_of_the_rule_has_the_error_rates_of_the_code() -> None:
    """Simulated anew with fewer draws: four standard errors and the rounding are tolerated."""
    draws, many = np.random.default_rng(1), 20_000

    def rate(row: Sequence[float], margin: float, effect: float, word: int, *, family: int = 1) -> float:
        today, windows = draws.normal(effect, 1, many), draws.normal(0, 1, (many, int(row[0])))
        return 100 * float((cross_bounds(today, windows, delta=margin, family=family).decision == word).mean())

    for row in rule_rows():
        passed = [rate(row, margin, 0, PASS) for margin in (apart(int(row[0])).smallest_margin or 0, 2, 3, 4, 6)]
        failed = [rate(row, 4, -8, FAIL, family=family) for family in (1, 4)]

        assert row[2:] == pytest.approx([*passed, *failed], abs=2)


def test_floors_decide_the_margins_that_the_pages_say() -> None:
    """A single window decides margins of 1.5 floors, two of 1.3; a floor is 2.8 standard deviations of a window."""
    margins = [
        cross_look(WindowMean(0, 4), [WindowMean(0, 4)] * count, delta=1, declared=0.05).smallest_margin or 0
        for count in (1, 2)
    ]
    floor = np.expm1(np.sqrt(2) * 1.959964 * 0.01)

    assert [f"{margin / np.log1p(0.05):.1f}" for margin in margins] == ["1.5", "1.3"]
    assert "A single window so decides margins of 1.5 floors or more, two of 1.3." in _RULE
    assert f"the floor is {100 * floor:.1f} times that" in _PAGE
