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

pytestmark = pytest.mark.alone

PAGE: Final = Path(__file__).parents[2] / "docs" / "thresholds.md"
MODEL: Final = "fake-model"
SWITCHES: Final = ("--specgate-accept-regression", "--specgate-calibrate", "--specgate-plan")
TYPED: Final = {*SWITCHES, "--specgate-baseline-reason", "--specgate-resume"}
"""Options that an ini file and an environment may not hold."""

OPTIONS: Final = {
    "--specgate-accept-regression",
    "--specgate-baseline",
    "--specgate-baseline-reason",
    "--specgate-baselines",
    "--specgate-budget",
    "--specgate-calibrate",
    "--specgate-calibrate-boots",
    "--specgate-host-class",
    "--specgate-inconclusive",
    "--specgate-missing-baseline",
    "--specgate-plan",
    "--specgate-resume",
}
KINDS: Final = sorted(
    name
    for name, value in vars(api).items()
    if str(getattr(value, "__annotations__", {}).get("return")).endswith("Threshold")
)
"""The functions of gate files that make a threshold."""

WRITTEN: Final = "test_build[c4-output_throughput-not_worse_than_baseline]"
"""The claim of the page about a baseline: its first run writes what later ones are judged by."""


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
    """The gates of every kind, run against the fake vLLM for the first time."""
    gates = new_gate_folder()
    written(gates, "test_kinds.py", python_blocks()[0])
    return gates.run("--specgate-baseline=new")


def test_the_gates_of_every_kind_pass(every_kind: GateRun) -> None:
    """They can be pasted: nine thresholds are judged, and none but PASS is said; the tenth writes its baseline."""
    outcomes = {name: case.outcome for name, case in every_kind.cases.items()}

    assert len(outcomes) == 10
    assert {name: word for name, word in outcomes.items() if word != "PASS"} == {WRITTEN: None}, every_kind.output
    assert (every_kind.exit_code, every_kind.counts) == (0, {"passed": 9, "skipped": 1})
    assert "nine claims pass, and the tenth is skipped, as written and not judged" in unwrapped()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_explained_and_shown(kind: str, every_kind: GateRun) -> None:
    """Each kind of the vocabulary has its row in the table, its line in the code, and an item in this run."""
    table = page().partition("| kind |")[2].partition("\n\n")[0]
    items = [name for name in every_kind.cases if name.endswith(f"-{kind}]")]

    assert f"`{kind}(" in table
    assert re.search(rf"^    {kind}\(.*\),$", python_blocks()[0], re.MULTILINE)
    assert items


def test_the_kinds_of_the_vocabulary_are_found() -> None:
    """A search that found nothing would make the tests of kinds empty."""
    interval = {"better", "equivalent", "faster_only_up_to", "not_worse", "not_worse_than_baseline"}

    assert set(KINDS) == {*interval, "at_least", "at_most", "outputs_agree"}


def test_every_option_about_verdicts_is_in_the_table_once() -> None:
    """The options that say what is known, planned, accepted and skipped stand there, in the spellings of the code."""
    known = {
        option.flag: [option.flag, *(("-", "-") if option.flag in TYPED else (option.variable, option.ini))]
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
    given: dict[str, tuple[list[str], dict[str, str]]] = {flag: ([f"{flag}="], {})}
    if flag not in TYPED:
        given |= {variable: ([], {variable: ""}), ini: (["-o", f"{ini}="], {})}
    for spelling, (arguments, environment) in given.items():
        config = pytester.parseconfig(*arguments)
        with pytest.raises(pytest.UsageError, match=rf"^{re.escape(spelling)} is empty"):
            options.read_options(config, environment=environment)


@pytest.mark.parametrize("flag", sorted(TYPED))
def test_what_is_typed_each_time_is_refused_elsewhere(flag: str, pytester: pytest.Pytester) -> None:
    """Left in an ini file or an environment, it would judge nothing or accept anything for ever: both are refused."""
    name = flag.removeprefix("--").replace("-", "_")
    ini = pytester.parseconfig("-o", f"{name}=yes")
    for config, environment in ((ini, {}), (pytester.parseconfig(), {name.upper(): "yes"})):
        with pytest.raises(pytest.UsageError, match="is typed each time"):
            options.read_options(config, environment=environment)


def test_defaults_in_the_table_are_the_real_ones(pytester: pytest.Pytester) -> None:
    """What the table says of boots, folder, baselines and undecided thresholds is what an unconfigured session has."""
    told = dict(re.findall(r"^\| `--specgate-([\w-]+)` .* default: `?([\w-]+)`?(?:,.*)? \|$", page(), re.MULTILINE))
    plain = options.read_options(pytester.parseconfig(), environment={})
    calibrating = options.read_options(pytester.parseconfig("--specgate-calibrate"), environment={})

    assert int(told["calibrate-boots"]) == calibrating.calibrate
    assert told["baselines"] == plain.baselines.name
    assert (told["inconclusive"], told["missing-baseline"], told["baseline"]) == ("fail", "fail", plain.baseline)
    assert (plain.skip_inconclusive, plain.skip_missing_baseline, plain.accept_regression) == (False, False, False)
    assert (plain.calibrate, plain.plan, plain.budget_s) == (None, False, None)


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
