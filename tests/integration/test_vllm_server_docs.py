"""The page about servers says what the code says: its example passes, its options exist, its limits are real."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_specgate import option_table, options
from pytest_specgate.adapters.processes import DEFAULT_LIMITS
from pytest_specgate.core.ports import Server
from pytest_specgate.testing import FakeSettings, fake_vllm

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

PAGE: Final = Path(__file__).parents[2] / "docs" / "servers.md"
MODEL: Final = "/models/llama"
NOT_ABOUT_SERVERS: Final = {
    "--specgate-accept-regression",
    "--specgate-answers",
    "--specgate-baseline",
    "--specgate-baseline-reason",
    "--specgate-baselines",
    "--specgate-budget",
    "--specgate-calibrate",
    "--specgate-calibrate-boots",
    "--specgate-chunk-times",
    "--specgate-host-class",
    "--specgate-html",
    "--specgate-inconclusive",
    "--specgate-json",
    "--specgate-markdown",
    "--specgate-missing-baseline",
    "--specgate-plan",
    "--specgate-report-key",
    "--specgate-require-gates",
    "--specgate-resume",
    "--specgate-rounds",
    "--specgate-strict",
}
"""They say what is measured and judged, whatever serves."""

NGRAM: Final = {"method": "ngram", "num_speculative_tokens": 4}


def page() -> str:
    """Return the text of the page."""
    return PAGE.read_text(encoding="utf-8")


def option_rows() -> list[list[str]]:
    """Return the spellings of each option in the tables of the page: flag, environment variable, ini."""
    lines = re.findall(r"^\| (`--specgate-.*) \|$", page(), re.MULTILINE)
    return [[cell.strip("`") for cell in line.split(" | ")[:3]] for line in lines]


def python_blocks() -> tuple[str, str]:
    """Return the code of the page: tests that share servers, and a gate on servers that run elsewhere."""
    launched, attached = re.findall(r"^```python\n(.*?)^```$", page(), re.DOTALL | re.MULTILINE)
    return launched, attached


def started(text: str) -> list[str]:
    """Return the arms whose servers were started, as lines of the plugin say it."""
    return re.findall(r"^specgate: (plain|k4): starting its server$", text, re.MULTILINE)


@pytest.fixture(scope="module")
def example(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """The example of the page as a test file of its own, run against the fake vLLM."""
    code, _ = python_blocks()
    gates = new_gate_folder()
    assert MODEL in code
    (gates.folder / "test_models.py").write_text(code.replace(MODEL, gates.model), encoding="utf-8")
    return gates.run(engine=gates.recorded_engine())


def test_the_example_passes_with_two_servers(example: GateRun) -> None:
    """It can be pasted: three tests share two servers, one after the other, and none is left."""
    assert (example.exit_code, example.counts) == (0, {"passed": 3})
    assert [word for word, _ in example.lifetimes] == ["began", "ended"] * 2
    assert example.survivors == ()


def test_the_output_on_the_page_is_of_this_example(example: GateRun) -> None:
    """The run that is shown names the tests that run, in their order, with their outcomes."""
    own = page().partition("## 2. ")[0]
    shown = re.findall(r"^test_models\.py::(\w+) PASSED", own, re.MULTILINE)

    assert shown == list(example.cases)
    assert started(own) == started(example.output) == ["plain", "k4"]
    assert all(case.failure is None for case in example.cases.values())


def test_logs_are_where_the_page_says(example: GateRun) -> None:
    """One file a server, named by its number and arm, in a folder named by a process id; nobody else reads it."""
    (folder,) = {log.parent for log in example.logs}

    assert "`specgate-results/servers-PID/server-01-ARM.log`" in page()
    assert re.fullmatch(r"servers-\d+", folder.name)
    assert [log.name for log in example.logs] == ["server-01-plain.log", "server-02-k4.log"]
    assert {log.stat().st_mode & 0o777 for log in example.logs} == {0o600}


def test_every_option_about_servers_is_in_the_table() -> None:
    """Each stands there once; whoever adds an option says here or there what it is about."""
    listed = [flag for flag, _, _ in option_rows()]
    known = {option.flag for option in option_table.OPTIONS}

    assert len(set(listed)) == len(listed)
    assert set(listed) == {flag for flag in known if flag not in NOT_ABOUT_SERVERS}


@pytest.mark.parametrize(("flag", "variable", "ini"), option_rows())
def test_an_option_is_read_in_all_three_spellings(
    flag: str, variable: str, ini: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each spelling is heard: an empty value is refused by the name under which it was given."""
    monkeypatch.delenv(variable, raising=False)
    given: dict[str, tuple[list[str], dict[str, str]]] = {
        flag: ([f"{flag}="], {}),
        variable: ([], {variable: ""}),
        ini: (["-o", f"{ini}="], {}),
    }
    for spelling, (arguments, environment) in given.items():
        config = pytester.parseconfig(*arguments)
        with pytest.raises(pytest.UsageError, match=rf"^{re.escape(spelling)} is empty"):
            options.read_options(config, environment=environment)


def test_defaults_on_the_page_are_the_real_ones(pytester: pytest.Pytester) -> None:
    """What the table says of seconds and of the folder is what an unconfigured session has."""
    told = dict(re.findall(r"^\| `--specgate-([\w-]+)` .* default: `?([\w-]+)`? \|$", page(), re.MULTILINE))
    found = options.read_options(pytester.parseconfig(), environment={})

    seconds = [float(told[name]) for name in ("start-limit", "stop-limit", "lock-wait")]
    assert seconds == [found.start_limit_s, found.stop_limit_s, found.lock_wait_s]
    assert told["results"] == found.results.name


def test_the_steps_of_an_end_take_as_long_as_the_page_says() -> None:
    """The table of steps has the limits of the code, in their order."""
    limits = DEFAULT_LIMITS
    steps = [limits.interrupt_s, limits.terminate_s, *3 * [limits.follow_s], limits.kill_s]
    told = re.findall(r"^\| .* \| (\d+) s \|$", page(), re.MULTILINE)

    assert [float(text) for text in told] == [*steps, limits.port_s, limits.memory_s]
    assert f"with {limits.abandoned_s:g} seconds at most for each\nbefore the kill" in page()


def test_the_steps_of_an_end_scale_as_the_page_says() -> None:
    """Half of the limit for the last kill and the port, a tenth between, three times as long for the memory."""
    limits = DEFAULT_LIMITS.scaled(60.0)

    assert "half of it after SIGTERM and for\nthe last kill, a tenth for each step between, half for the port" in page()
    assert (limits.terminate_s, limits.kill_s, limits.port_s) == (30.0, 30.0, 30.0)
    assert (limits.follow_s, limits.memory_s, limits.abandoned_s) == (6.0, 180.0, DEFAULT_LIMITS.abandoned_s)


def test_everything_of_a_server_is_in_the_table() -> None:
    """The table has what a server offers a test, and nothing else."""
    table = page().partition("| of a server | meaning |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)", table, re.MULTILINE)
    known = {name for name in vars(Server) if not name.startswith("_")}

    assert len(set(listed)) == len(listed)
    assert set(listed) == known


def test_the_gate_on_attached_servers_can_be_pasted(gate_folder: GateFolder) -> None:
    """It passes on two servers that somebody else has started, and its report has the lines that the page shows."""
    _, code = python_blocks()
    gate_folder.write("test_k4.py", code)
    fast = FakeSettings(step_s=0.002)
    with fake_vllm(fast, model="llama") as off, fake_vllm(fast, model="llama", speculative_config=NGRAM) as k4:
        run = gate_folder.run(f"--specgate-attach=off={off.url} k4={k4.url}")
    shown = page().replace("http://127.0.0.1:8001", off.url).replace("http://127.0.0.1:8002", k4.url)
    lines = [line for line in run.output.splitlines() if line.startswith(("boots:", "engine:", "off was attached"))]

    assert run.exit_code == 0, run.output
    assert len(lines) == 4
    assert [line for line in lines if line not in shown] == []
