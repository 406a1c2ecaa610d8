"""Options: three places, one order of precedence, and what each of them changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.processes import DEFAULT_LIMITS
from pytest_specgate.adapters.storage import load_record
from pytest_specgate.options import read_options
from pytest_specgate.wiring import LocalWiring

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_specgate.core.records import WindowRecord
    from tests.integration.conftest import GateFolder, GateRun

_FAKE_ENGINE = "python -m pytest_specgate.testing.fake_vllm"
_GATE = """\
    @gate(pair(arm("off"), arm("on", seed=1)), SPEED)
    def test_gate(): pass
    """

_PROXIES = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9", "ALL_PROXY": "socks5://127.0.0.1:9"}

_LOOK = """\
    SECRET_LOAD = load(extra_body={"api_key": "secret-of-the-body"})


    @measured(pair(arm("off"), arm("on", seed=1), profile=SECRET_LOAD, rounds=2))
    def test_look(specgate_window):
        assert specgate_window.path.endswith("record.json")
    """


@pytest.mark.parametrize(
    ("places", "chosen"),
    [
        (("flag", "variable", "ini"), "flag"),
        (("variable", "ini"), "variable"),
        (("ini",), "ini"),
    ],
)
def test_the_command_line_beats_the_environment_beats_the_ini_file(
    places: tuple[str, ...], chosen: str, gate_folder: GateFolder
) -> None:
    """Of several values the one nearest to the user counts."""
    values = {place: str(gate_folder.folder / place / "python") for place in places}
    gate_folder.write("test_gate.py", _GATE)
    if "ini" in values:
        gate_folder.write("pytest.ini", f"[pytest]\nspecgate_engine_python = {values['ini']}\n")
    variables = {"SPECGATE_ENGINE_PYTHON": values["variable"]} if "variable" in values else {}
    arguments = [f"--specgate-engine-python={values['flag']}"] if "flag" in values else []
    run = gate_folder.run(*arguments, engine=None, variables=variables)

    assert run.exit_code == 4
    assert f"engine python {values[chosen]} does not exist" in run.output


@pytest.fixture(scope="module")
def configured(new_gate_folder: Callable[[], GateFolder]) -> tuple[GateRun, Path]:
    """Rounds from the ini file, results in a folder from the environment, proxies that must not be used, secrets."""
    gates = new_gate_folder()
    elsewhere = gates.folder / "far" / "away"
    gates.write("pytest.ini", "[pytest]\nspecgate_rounds = 1\n")
    gates.write("test_look.py", _LOOK)
    engine = f"{_FAKE_ENGINE} --api-key secret-of-the-command"
    return gates.run(engine=engine, variables={"SPECGATE_RESULTS": str(elsewhere), **_PROXIES}), elsewhere


def _stored(results: Path) -> WindowRecord:
    (path,) = results.glob("*/record.json")
    return load_record(path)


def test_rounds_of_the_session_override_the_gate_file(configured: tuple[GateRun, Path]) -> None:
    """The pair declares two rounds, the session asks for one: each arm is booted once."""
    run, elsewhere = configured
    record = _stored(elsewhere)

    assert run.exit_code == 0
    assert [boot.arm for boot in record.boots] == ["off", "on"]
    assert [pair.rounds for pair in record.pairs] == [1]


def test_results_go_where_they_are_asked_to(configured: tuple[GateRun, Path]) -> None:
    """Records and logs are in the named folder, one folder a window, and the default one is not made."""
    run, elsewhere = configured
    (window,) = elsewhere.iterdir()

    names = ["attempt.json", "record.json", "server-01-off.log", "server-02-on.log"]
    assert sorted(path.name for path in window.iterdir()) == names
    assert f"record: far/away/{window.name}/record.json" in run.summary
    assert not run.results.exists()


def test_proxies_of_the_environment_are_not_asked(configured: tuple[GateRun, Path]) -> None:
    """Case 24: readiness, load and counters reach the server on loopback whatever proxy is set."""
    run, elsewhere = configured
    boots = _stored(elsewhere).boots

    assert (run.exit_code, run.counts) == (0, {"passed": 1})
    assert all(request.error is None for boot in boots for request in boot.points[0].requests)


@pytest.mark.parametrize("secret", ["secret-of-the-command", "secret-of-the-body"])
def test_secrets_of_engine_command_and_body_are_kept(secret: str, configured: tuple[GateRun, Path]) -> None:
    """A key in `--specgate-engine-command` or in the extra body is neither printed nor stored."""
    run, elsewhere = configured
    (path,) = elsewhere.glob("*/record.json")

    assert run.exit_code == 0
    assert secret not in run.output
    assert secret not in path.read_text(encoding="utf-8")
    assert "--api-key '[redacted]'" in run.summary


def test_a_server_that_is_not_ready_in_time_is_given_up(gate_folder: GateFolder) -> None:
    """The start limit ends the wait, and the message has the last answer and the option that raises the limit."""
    gate_folder.write("test_gate.py", _GATE.replace('arm("off")', 'arm("off", ready_after_s=600.0)'))
    run = gate_folder.run("--specgate-start-limit=1.5", "--specgate-rounds=1")
    case = run.cases["test_gate[c1-output_throughput-not_worse]"]

    assert (case.outcome, case.properties["specgate_reason"]) == ("INVALID", "server-start")
    assert re.search(
        r"its server was not ready within 1\.5 s, .*HTTP 503: .* \(raise --specgate-start-limit\)\n", str(case.failure)
    )
    assert run.survivors == ()


@pytest.mark.parametrize(("text", "seconds"), [(None, 20.0), ("60", 60.0)])
def test_engines_are_wired_with_the_limits_and_records_of_the_session(
    pytester: pytest.Pytester, text: str | None, seconds: float
) -> None:
    """All steps of an end follow the one option; windows and the fixture share lock, notes and leftovers."""
    config = pytester.parseconfig(*([] if text is None else [f"--specgate-stop-limit={text}"]))
    environment = {"SPECGATE_STATE_DIR": str(pytester.path / "state")}
    wiring = LocalWiring(read_options(config, environment={}), root=pytester.path, say=print, environment=environment)
    first, second = (wiring._launcher(pytester.path)._options for _ in range(2))

    assert first.limits == DEFAULT_LIMITS.scaled(seconds)
    assert (first.limits.interrupt_s, first.limits.memory_s) == (seconds, 3 * seconds)
    assert first.notes is not None
    assert first.notes._limits == first.limits
    assert first.memory is not None
    assert first.lock is second.lock is not None
    assert first.leftovers is second.leftovers


@pytest.mark.parametrize(
    ("option", "text", "sentence"),
    [
        ("lock-wait", "-1", "--specgate-lock-wait=-1 is not a number of at least 0"),
        ("lock-wait", "nan", "--specgate-lock-wait=nan is not a number of at least 0"),
        ("stop-limit", "0", "--specgate-stop-limit=0 is not a number above 0"),
    ],
)
def test_numbers_out_of_range_are_refused(pytester: pytest.Pytester, option: str, text: str, sentence: str) -> None:
    """The sentence has the option, the value and the range."""
    config = pytester.parseconfig(f"--specgate-{option}={text}")
    with pytest.raises(pytest.UsageError, match=re.escape(sentence)):
        read_options(config, environment={})


def test_the_engine_command_is_part_of_the_record(healthy: GateRun) -> None:
    """What was started instead of vLLM is told in summary and record."""
    assert "engine: python engine.py" in healthy.summary
    assert {facts["command"] for facts in healthy.record.engine.values()} == {"python engine.py"}
