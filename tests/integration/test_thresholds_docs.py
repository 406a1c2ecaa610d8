"""The page about thresholds says what the code says: its gates pass, its kinds, options and figures are real."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_specgate import api, option_table, options
from pytest_specgate.core.noise import arm_noise

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

PAGE: Final = Path(__file__).parents[2] / "docs" / "thresholds.md"
MODEL: Final = "fake-model"
SWITCHES: Final = ("--specgate-calibrate", "--specgate-plan")
OPTIONS: Final = {
    "--specgate-baselines",
    "--specgate-budget",
    "--specgate-calibrate",
    "--specgate-calibrate-boots",
    "--specgate-inconclusive",
    "--specgate-plan",
}
KINDS: Final = sorted(
    name
    for name, value in vars(api).items()
    if str(getattr(value, "__annotations__", {}).get("return")).endswith("Threshold")
)
"""The functions of gate files that make a threshold."""


def page() -> str:
    """Return the text of the page."""
    return PAGE.read_text(encoding="utf-8")


def unwrapped() -> str:
    """Return the text of the page with its lines joined, to look for sentences."""
    return " ".join(page().split())


def option_rows() -> list[list[str]]:
    """Return the spellings of each option in the table of the page: flag, environment variable, ini."""
    lines = re.findall(r"^\| (`--specgate-.*) \|$", page(), re.MULTILINE)
    return [[cell.strip("`") for cell in line.split(" | ")[:3]] for line in lines]


def python_blocks() -> tuple[str, str]:
    """Return the code of the page: gates of every kind, and the gate file that its output is about."""
    kinds, build = re.findall(r"^```python\n(.*?)^```$", page(), re.DOTALL | re.MULTILINE)
    return kinds, build


def written(gates: GateFolder, name: str, code: str) -> None:
    """Write code of the page as a gate file, whose servers can be told from those of other tests."""
    assert MODEL in code
    gates.write(name, code.replace(MODEL, gates.model))


@pytest.fixture(scope="module")
def every_kind(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """The gates of every kind, run against the fake vLLM."""
    gates = new_gate_folder()
    written(gates, "test_kinds.py", python_blocks()[0])
    return gates.run()


def test_the_gates_of_every_kind_pass(every_kind: GateRun) -> None:
    """They can be pasted: each of the nine thresholds is judged, and none but PASS is said."""
    outcomes = {name: case.outcome for name, case in every_kind.cases.items()}

    assert len(outcomes) == 9
    assert {name: word for name, word in outcomes.items() if word != "PASS"} == {}, every_kind.output
    assert every_kind.exit_code == 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_explained_and_shown(kind: str, every_kind: GateRun) -> None:
    """Each kind of the vocabulary has its row in the table, its line in the code, and was judged in this run."""
    table = page().partition("| kind |")[2].partition("\n\n")[0]
    judged = [name for name in every_kind.cases if name.endswith(f"-{kind}]")]

    assert f"`{kind}(" in table
    assert re.search(rf"^    {kind}\(.*\),$", python_blocks()[0], re.MULTILINE)
    assert judged


def test_the_kinds_of_the_vocabulary_are_found() -> None:
    """A search that found nothing would make the tests of kinds empty."""
    interval = {"better", "equivalent", "faster_only_up_to", "not_worse"}

    assert set(KINDS) == {*interval, "at_least", "at_most", "outputs_agree"}


def test_every_option_about_verdicts_is_in_the_table_once() -> None:
    """The six options that say what is known, planned and skipped stand there, each in the spellings of the code."""
    known = {
        option.flag: [option.flag, *(("-", "-") if option.act else (option.variable, option.ini))]
        for option in option_table.OPTIONS
    }
    listed = option_rows()

    assert sorted(row[0] for row in listed) == sorted(OPTIONS)
    assert listed == [known[flag] for flag, _, _ in listed]


@pytest.mark.parametrize(("flag", "variable", "ini"), option_rows())
def test_an_option_is_read_in_all_three_spellings(
    flag: str, variable: str, ini: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each spelling is heard: an empty value is refused by the name under which it was given."""
    monkeypatch.delenv(variable, raising=False)
    if flag in SWITCHES:
        assert (variable, ini) == ("-", "-")
        assert options.read_options(pytester.parseconfig(flag), environment={}).given == (flag,)
        return
    given: dict[str, tuple[list[str], dict[str, str]]] = {
        flag: ([f"{flag}="], {}),
        variable: ([], {variable: ""}),
        ini: (["-o", f"{ini}="], {}),
    }
    for spelling, (arguments, environment) in given.items():
        config = pytester.parseconfig(*arguments)
        with pytest.raises(pytest.UsageError, match=rf"^{re.escape(spelling)} is empty"):
            options.read_options(config, environment=environment)


@pytest.mark.parametrize("name", ["calibrate", "plan"])
def test_what_keeps_gates_from_being_judged_is_typed_each_time(name: str, pytester: pytest.Pytester) -> None:
    """Left in an ini file or an environment, it would end with 0 for ever: both places are refused."""
    ini = pytester.parseconfig("-o", f"specgate_{name}=yes")
    for config, environment in ((ini, {}), (pytester.parseconfig(), {f"SPECGATE_{name.upper()}": "yes"})):
        with pytest.raises(pytest.UsageError, match="is typed each time"):
            options.read_options(config, environment=environment)


def test_defaults_in_the_table_are_the_real_ones(pytester: pytest.Pytester) -> None:
    """What the table says of boots, folder and undecided thresholds is what an unconfigured session has."""
    told = dict(re.findall(r"^\| `--specgate-([\w-]+)` .* default: `?([\w-]+)`?(?:,.*)? \|$", page(), re.MULTILINE))
    plain = options.read_options(pytester.parseconfig(), environment={})
    calibrating = options.read_options(pytester.parseconfig("--specgate-calibrate"), environment={})

    assert int(told["calibrate-boots"]) == calibrating.calibrate
    assert told["baselines"] == plain.baselines.name
    assert told["inconclusive"] == "fail"
    assert (plain.calibrate, plain.plan, plain.budget_s, plain.skip_inconclusive) == (None, False, None, False)


def test_the_plan_of_the_page_is_that_of_its_gate_file(gate_folder: GateFolder) -> None:
    """What is quoted of the plan without a calibration is what its gate file gives, and nothing is started."""
    written(gate_folder, "test_build.py", python_blocks()[1])
    run = gate_folder.run("--specgate-plan")
    quoted = re.search(r"Before the calibration it said `(.*?)` and `(.*?)`\.", unwrapped())

    assert run.exit_code == 0, run.output
    assert quoted is not None
    assert [text for text in quoted.groups() if text not in run.output] == []
    assert not run.results.exists()


def test_a_margin_too_fine_is_told_and_refused_as_the_page_says(gate_folder: GateFolder) -> None:
    """The sentence of the page comes before any boot; under strict it is all that comes, with the status of misuse."""
    code = python_blocks()[1].replace("import Arm", "import noise_floor, Arm")
    floor = 'margin="3%", noise=noise_floor("9%", source="made up")'
    written(gate_folder, "test_build.py", code.replace('"ttft_p50", at=1, margin="3%"', f'"ttft_p50", at=1, {floor}'))
    runs = [gate_folder.run("--specgate-plan", *options) for options in ([], ["--specgate-strict"])]
    sentence = re.search(r"test_build\.py::test_first_token: the margin .* smallest usable one is ", page())

    assert sentence is not None
    assert [sentence[0] in run.output for run in runs] == [True, True]
    assert [run.exit_code for run in runs] == [0, 4]
    assert ["nothing was started" in run.output for run in runs] == [True, False]


def test_degrees_of_freedom_on_the_page_are_the_real_ones() -> None:
    """What windows of so many boots are worth is what the code makes of them."""
    told = re.search(r"Windows of ([\d, ]+) boots are worth ([\d., ]+) degrees of freedom", unwrapped())

    assert told is not None
    boots, worth = ([float(text) for text in part.split(", ")] for part in told.groups())
    assert len(boots) == len(worth) == 6
    assert worth == [pytest.approx(arm_noise([[0.0] * int(count)]).df, abs=0.051) for count in boots]
