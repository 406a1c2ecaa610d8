"""Gates beside every plugin at once, under one xdist worker: what is judged, and what each of them writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

for _name in ("xdist", "pytest_rerunfailures", "pytest_timeout", "pytest_randomly", "pytest_html", "pytest_benchmark"):
    pytest.importorskip(_name, reason="needs all of the plugins: tox run -e plugins")
pytest.importorskip("pytest_cov.plugin", reason="needs all of the plugins: tox run -e plugins")

_ENGINE: Final = """\
    import os, sys

    from pytest_specgate.testing.main import main

    if '"seed": 9' in " ".join(sys.argv):
        os.write(1, b"first \\x1b[31mred\\x00 \\xef\\xbf\\xbe \\xed\\xa0\\x80 last words\\n")
        raise SystemExit(3)
    raise SystemExit(main())
    """

_TESTS: Final = """\
    OFF, LOUD = arm("off"), arm("loud", seed=9)
    CLEAR = pair(arm("slow", step_s=0.05), OFF, profile=load(requests={1: 4}), rounds=1)
    BAD = "\\x1b[31mred\\x00 \\ufffe"
    SAID = not_worse("request_throughput", at=1, margin="1%", noise=noise_floor("95%", source=f"heard {BAD} said"))


    @pytest.mark.timeout(0)
    @gate(CLEAR, SPEED)
    def test_better(): pass


    @gate(CLEAR, SAID)
    def test_said():
        print(BAD + "\\ud800")


    @gate(pair(OFF, LOUD, rounds=1), SPEED)
    def test_loud(): pass


    @gate(CLEAR, SPEED)
    def test_body():
        raise UsageError(f"half a character: {BAD} \\ud800")


    def test_server(vllm_server):
        with pytest.raises(pytest.fail.Exception, match="last words"):
            vllm_server(LOUD)


    def test_benchmark(benchmark):
        benchmark(int)
    """


@pytest.fixture(scope="module")
def together(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Gates of each kind, a server, a benchmark, all plugins active; warnings are errors."""
    gates = new_gate_folder()
    gates.write("engine.py", _ENGINE)
    gates.write("test_together.py", _TESTS)
    html, limits = ("--html=report.html", "--self-contained-html"), ("--timeout=100", "--reruns=1")
    others = ("--cov=.", "--cov-report=xml", "--benchmark-disable", "--randomly-seed=5", "-W", "error")
    return gates.run("-n", "1", *html, *limits, *others, engine="python engine.py")


def _case(run: GateRun, name: str) -> tuple[str | None, str]:
    (found,) = [case for known, case in run.cases.items() if known.partition("[")[0] == name]
    return found.outcome, str(found.failure)


def test_each_gate_has_its_verdict(together: GateRun) -> None:
    """Outcomes, exit status and summary are those of a run without any of them."""
    assert (together.exit_code, together.counts) == (1, {"failed": 2, "passed": 4, "rerun": 2})
    assert _case(together, "test_better") == ("PASS", "None")
    assert [_case(together, name)[0] for name in ("test_said", "test_loud")] == ["PASS", "INVALID"]
    assert "4 of 4 thresholds judged: 3 PASS, 1 INVALID\n" in together.summary
    assert [word for word in ("INTERNALERROR", "Warning") if word in together.output] == []


def test_control_characters_leave_the_report_readable(together: GateRun) -> None:
    """Case 132: escapes, NUL, U+FFFE and halves of characters, in a log, a property and a text: the XML is read."""
    report = ET.parse(together.folder / "junit.xml")
    (said,) = [case for name, case in together.cases.items() if name.startswith("test_said")]

    assert report.getroot().tag == "testsuites"
    assert "last words" in _case(together, "test_loud")[1]
    assert "half a character: " in _case(together, "test_body")[1]
    assert said.properties["specgate_noise_source"].endswith(" said)")


def test_the_page_of_pytest_html_has_the_verdicts(together: GateRun) -> None:
    """The page holds every test, and the sentence of each verdict that did not pass, without control characters."""
    page = (together.folder / "report.html").read_text(encoding="utf-8")

    assert [name for name in ("test_better", "test_said", "test_loud", "test_server") if name not in page] == []
    assert "INVALID (server-start): arm loud: its server left while starting, with exit code 3" in page
    assert not {"\x1b", "\x00", "\ufffe"} & set(page)


def test_coverage_is_measured_beside_gates(together: GateRun) -> None:
    """pytest-cov writes its report of the code that tests ran."""
    names = {found.attrib["filename"] for found in ET.parse(together.folder / "coverage.xml").iter("class")}

    assert "test_together.py" in names
