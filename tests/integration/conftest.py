"""A harness for tests through the front door, and the runs that many tests look at.

`pytester` makes one run a test; a measured window costs seconds, so here a gate file is run once, by pytest in a
process of its own, against fake vLLMs over real HTTP, and everything that came of it is kept for all tests.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import subprocess
import sys
import textwrap
import uuid
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import psutil
import pytest

from pytest_specgate.adapters.storage import load_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pytest_specgate.core.records import WindowRecord

FAKE_ENGINE: Final = "python -m pytest_specgate.testing.fake_vllm"
_RUN_LIMIT_S: Final = 120.0
# They do nothing here, and would cost half a second a run.
_WITHOUT_OTHER_PLUGINS: Final = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio")
_HIDDEN_VARIABLES: Final = ("SPECGATE_", "PYTEST_", "HF_", "FORCE_COLOR", "PY_COLORS", "GITHUB_STEP_SUMMARY")

_HEAD: Final = """\
import pytest

from pytest_specgate import *

MODEL = {model!r}


def arm(name, *, k=None, args=None, env=None, **fake):
    speculation = None if k is None else {{"method": "ngram", "num_speculative_tokens": k}}
    own = {{"fake": {{"step_s": 0.002, **fake}}, "speculative_config": speculation}}
    return Arm(name, model=MODEL, args={{**own, **(args or {{}})}}, env=env or {{}})


def load(**changes):
    fields = {{"input_tokens": 16, "output_tokens": 16, "requests": {{1: 2}}, "warmup_requests": 1}}
    return RequestProfile(**{{**fields, **changes}})


def pair(reference, candidate, *, varies="args.fake", profile=load(), rounds=2):
    return ArmPair(reference=reference, candidate=candidate, varies=varies, profile=profile, rounds=rounds)


# Wide, so that the noise of a busy machine does not contradict it.
FLOOR = noise_floor("50%", source="a made-up figure")
SPEED = not_worse("output_throughput", at=1, margin="30%", noise=FLOOR)
UNDECIDABLE = not_worse("output_throughput", at=1, margin="1%", noise=noise_floor("95%", source="a made-up figure"))
"""

_PATIENT: Final = """\
    from pytest_specgate.core import validity

    validity.LAG_S = 60.0  # The machine is shared with other tests: late stamps are no subject here.
    """

_RECORDED_ENGINE: Final = """\
    import os, pathlib, sys, time

    from pytest_specgate.testing.main import main

    def note(word):
        with pathlib.Path("lifetimes.txt").open("a") as file:
            file.write(f"{word} {os.getpid()}\\n")

    note("began")
    try:
        raise SystemExit(main())
    finally:
        note("ended")
    """


@dataclasses.dataclass(frozen=True)
class Case:
    """One test case of a junit report.

    Attributes:
        properties: by name, in the order of the file.
        failure: message and text of its failure or error, `None` when there is none.
    """

    properties: Mapping[str, str]
    failure: str | None

    @property
    def outcome(self) -> str | None:
        """The word of its verdict."""
        return self.properties.get("specgate_outcome")


@dataclasses.dataclass(frozen=True)
class GateRun:
    """What came of one run of pytest.

    Attributes:
        folder: where it ran.
        exit_code: of pytest.
        output: everything that was printed.
        survivors: command lines of servers that still lived afterwards; they have been ended since.
    """

    folder: Path
    exit_code: int
    output: str
    survivors: tuple[str, ...]

    @functools.cached_property
    def cases(self) -> dict[str, Case]:
        """Test cases of the junit report, by name."""
        report = ET.fromstring((self.folder / "junit.xml").read_text(encoding="utf-8"))
        return {case.attrib["name"]: _case(case) for case in report.iter("testcase")}

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of the last line: ``{"passed": 3}``."""
        return pytest.RunResult.parse_summary_nouns(self.output.splitlines())

    @property
    def results(self) -> Path:
        """Folder with the records and logs, where no option named another."""
        return self.folder / "specgate-results"

    @functools.cached_property
    def records(self) -> tuple[WindowRecord, ...]:
        """Records of all windows, oldest first."""
        return tuple(load_record(path) for path in sorted(self.folder.glob("*/*/record.json")))

    @property
    def record(self) -> WindowRecord:
        """The record of the only window."""
        (record,) = self.records
        return record

    @property
    def summary(self) -> str:
        """The part of the terminal output that the plugin writes at the end."""
        return self.output.partition(" specgate ====")[2]

    def table(self, pair_title: str) -> str:
        """Return the summary of one pair: from its title to the next blank line."""
        return self.summary.partition(f"\n{pair_title}")[2].partition("\n\n")[0]

    @property
    def logs(self) -> list[Path]:
        """Logs of servers, in the order of their starts."""
        return sorted(self.folder.glob("*/*/*.log"))

    @property
    def lifetimes(self) -> list[tuple[str, str]]:
        """``began`` and ``ended`` of each server, with its process id, if `GateFolder.recorded_engine` ran them."""
        lines = (self.folder / "lifetimes.txt").read_text(encoding="utf-8").splitlines()
        return [(word, pid) for word, _, pid in (line.partition(" ") for line in lines)]


class GateFolder:
    """A folder with gate files. Its servers are told from all others by the name of their model.

    Args:
        folder: an empty one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = f"fake-{uuid.uuid4().hex[:12]}"
        self.write("pytest.ini", "[pytest]\n")

    def write(self, name: str, text: str) -> Path:
        """Write a file; a gate file (``test_*.py``) gets the vocabulary of all gate files here at its top."""
        head = _HEAD.format(model=self.model) if name.startswith("test_") else ""
        if head:
            self.write("conftest.py", _PATIENT)
        path = self.folder / name
        path.write_text(head + "\n\n" + textwrap.dedent(text) if head else textwrap.dedent(text), encoding="utf-8")
        return path

    def recorded_engine(self) -> str:
        """Return a command of the fake vLLM that also notes when each of its processes begins and ends."""
        self.write("engine.py", _RECORDED_ENGINE)
        return "python engine.py"

    def command(self, *arguments: str, engine: str | None = FAKE_ENGINE) -> list[str]:
        """Return the command that runs pytest here."""
        engine_option = [] if engine is None else [f"--specgate-engine-command={engine}"]
        general = ["-v", "--color=no", "--junitxml=junit.xml", *_WITHOUT_OTHER_PLUGINS]
        return [sys.executable, "-m", "pytest", *general, *engine_option, *arguments]

    def environment(self, variables: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a run: that of this process, without what would steer pytest or the plugin."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_HIDDEN_VARIABLES)}
        # Tests that run side by side must neither wait for each other nor write into anybody's home.
        apart = {"SPECGATE_STATE_DIR": str(self.folder / "state")}
        return {**kept, **apart, "COLUMNS": "200", "PY_COLORS": "0", **(variables or {})}

    def run(
        self,
        *arguments: str,
        engine: str | None = FAKE_ENGINE,
        variables: Mapping[str, str] | None = None,
    ) -> GateRun:
        """Run pytest here and wait for its end."""
        try:
            done = subprocess.run(
                self.command(*arguments, engine=engine),
                cwd=self.folder,
                env=self.environment(variables),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=_RUN_LIMIT_S,
            )
        finally:
            survivors = self.end_servers()
        return GateRun(self.folder, done.returncode, done.stdout, survivors)

    def end_servers(self) -> tuple[str, ...]:
        """End the servers of this folder that still live, and return their command lines."""
        survivors = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if self.model in words:
                survivors.append(" ".join(words))
                process.kill()
        return tuple(survivors)


def _case(element: ET.Element) -> Case:
    properties = {entry.attrib["name"]: entry.attrib["value"] for entry in element.iter("property")}
    problems = [found for kind in ("failure", "error") for found in element.iter(kind)]
    texts = [f"{found.attrib.get('message')}\n{found.text}" for found in problems]
    return Case(properties, "\n".join(texts) or None)


@pytest.fixture(scope="session")
def new_gate_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], GateFolder]]:
    """A function that makes a new folder for gate files; servers that outlive the session's tests are ended."""
    folders: list[GateFolder] = []

    def make() -> GateFolder:
        folders.append(GateFolder(tmp_path_factory.mktemp("gates")))
        return folders[-1]

    yield make
    for folder in folders:
        folder.end_servers()


@pytest.fixture
def gate_folder(new_gate_folder: Callable[[], GateFolder]) -> GateFolder:
    """A folder for the gate files of one test."""
    return new_gate_folder()


_HEALTHY_GATES = """\
    ARGS = {"step_s": 0.004, "acceptance": [0.95]}
    LOAD = load(requests={1: 10, 2: 10}, output_tokens=32)
    OFF, K4, K7 = arm("off", **ARGS), arm("k4", k=4, **ARGS), arm("k7", k=7, **ARGS)
    K4_OFF = pair(OFF, K4, varies="args.speculative_config", profile=LOAD)
    K7_K4 = pair(K4, K7, varies="args.speculative_config", profile=LOAD)


    @gate(
        K4_OFF,
        better("decode_rate_p50", at=1, by="20%", noise=FLOOR),
        not_worse("output_throughput", at=2, margin="30%", noise=FLOOR),
        not_worse("e2e_p50", at=2, margin="30%", noise=FLOOR),
    )
    def test_k4():
        pass


    @gate(K7_K4, not_worse("output_throughput", at=2, margin="90%", noise=FLOOR))
    def test_k7(specgate_window):
        assert specgate_window.record.finished


    @measured(K4_OFF)
    def test_window(specgate_window):
        record = specgate_window.record
        values = specgate_window.values("tokens_per_step", arm="k4", at=1)
        times = specgate_window.values("ttft_p50", arm="off", at=2)
        assert [boot.arm for boot in record.boots] == ["off", "k4", "k7", "k7", "k4", "off"]
        assert len(values) == len(times) == 2
        assert all(found.value > 2 for found in values)
        assert all(0.004 < found.value < 10 for found in times)
        with pytest.raises(UsageError, match="has no arm 'of'; did you mean 'off'"):
            specgate_window.values("ttft_p50", arm="of", at=1)
    """


@pytest.fixture(scope="session")
def healthy(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Three healthy arms in two pairs, speculation faster than none: everything passes."""
    gates = new_gate_folder()
    gates.write("test_speculation.py", _HEALTHY_GATES)
    return gates.run(engine=gates.recorded_engine())


_SLOWED_GATES = """\
    LOAD = load(requests={1: 4})
    FAST, SLOW = arm("fast", step_s=0.003), arm("slow", step_s=0.025)
    TWIN = arm("twin", step_s=0.003, seed=1)
    DOWN, UP, EVEN = pair(FAST, SLOW, profile=LOAD), pair(SLOW, FAST, profile=LOAD), pair(FAST, TWIN, profile=LOAD)

    @gate(DOWN, SPEED)
    def test_bare(): pass

    @gate(DOWN, SPEED)
    def test_accepted(verdict):
        assert verdict.outcome is Outcome.FAIL
        verdict.expect(Outcome.FAIL, Outcome.INCONCLUSIVE)

    @gate(DOWN, SPEED)
    def test_other_outcome(verdict): verdict.expect(Outcome.PASS, Outcome.INCONCLUSIVE)

    @gate(DOWN, SPEED)
    def test_expects_invalid(verdict): verdict.expect(Outcome.INVALID)

    @gate(DOWN, SPEED)
    def test_swallows(verdict):
        with pytest.raises(AssertionError):
            verdict.expect(Outcome.PASS)

    @gate(DOWN, SPEED)
    def test_skips(): pytest.skip("not today")

    @gate(DOWN, SPEED)
    def test_gives_up(): pytest.xfail("known")

    @gate(DOWN, SPEED)
    def test_marks_itself(request): request.applymarker(pytest.mark.xfail)

    @pytest.mark.skip(reason="not today")
    @gate(DOWN, SPEED)
    def test_never_runs(): pass

    @gate(UP, SPEED)
    def test_own_assertion(): assert "this" == "that"

    @gate(UP, SPEED)
    class TestFaster:
        def test_method(self): pass

    @gate(EVEN, UNDECIDABLE)
    def test_even(): pass
    """


@pytest.fixture(scope="session")
def slowed(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """One arm eight times slower than its reference, one equal to it within a floor that is far too wide."""
    gates = new_gate_folder()
    gates.write("test_slow.py", _SLOWED_GATES)
    return gates.run()


_FAULTY_GATES = """\
    ARGS = {"api_key": "words-of-a-secret", "long_prefill_token_threshold": 2048}
    SECRET = {"env": {"HF_TOKEN": "hf_abcdefghijklmnop1234"}, "args": ARGS}
    LAST_WORDS = "starting: {'api_key': ['words-of-a-secret']}\\nbo\\x1b[31mom\\x00 hf_abcdefghijklmnop1234"
    LOAD = load(requests={1: 2, 2: 2})
    CLAIMS = [not_worse("output_throughput", at=at, margin="90%", noise=FLOOR) for at in (1, 2)]
    GOOD, OTHER = arm("good", **SECRET), arm("other", seed=1, **SECRET)
    DEAD = arm("dead", exit_at_start=3, exit_message=LAST_WORDS, **SECRET)
    DIES, ERRS = arm("dies", die_after_requests=5, **SECRET), arm("errs", error_after_requests=3, **SECRET)

    @gate(pair(GOOD, DEAD, profile=LOAD), *CLAIMS)
    def test_dead(): pass

    @gate(pair(GOOD, DIES, profile=LOAD), *CLAIMS)
    def test_dies(): pass

    @gate(pair(GOOD, ERRS, profile=LOAD), *CLAIMS)
    def test_errs(): pass

    @gate(pair(GOOD, OTHER, profile=LOAD), *CLAIMS)
    def test_other(): pass
    """


@pytest.fixture(scope="session")
def faulty(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Arms that die at the start or under load or answer with errors, beside two healthy ones; warnings are errors."""
    gates = new_gate_folder()
    gates.write("test_faults.py", _FAULTY_GATES)
    return gates.run("-W", "error")
