"""The whole path on real vLLM and a real model: needs the `cpu` extra and ``specgate prepare-model``."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Final

import psutil
import pytest

from pytest_specgate.adapters.storage import load_record
from pytest_specgate.core import counters, validity
from pytest_specgate.core.acceptance_samples import curve_of, request_samples
from pytest_specgate.core.arrivals import arrival_times_s
from pytest_specgate.core.metrics import METRICS, measure
from pytest_specgate.core.speculation import pool

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_specgate import WindowRecord

pytestmark = pytest.mark.real_vllm

_RUN_LIMIT_S: Final = 1200.0
_LOOK_S: Final = 1.0
_PATIENCE_S: Final = 60.0
PATIENT = f"""
from pytest_specgate.core import validity

validity.LAG_S = {_PATIENCE_S}  # The machine may stand still now and then: late stamps are no subject here.
"""

GATES = """
from pytest_specgate import EMBEDDED_MODEL, Arm, ArmPair, RequestProfile, better, gate, noise_floor, not_worse

OFF = Arm(
    "off",
    model=EMBEDDED_MODEL,
    args={"max_model_len": 1024, "enforce_eager": True, "enable_prefix_caching": False},
    env={"VLLM_CPU_KVCACHE_SPACE": "1"},
)
K4 = OFF.vary(
    "k4",
    args={
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4},
        "per_request_spec_decode_metrics": "detailed",
    },
)
POINTS = {1: 10, 8: 16, "1 T=0.8": 10, "3/s": 12}
LOAD = RequestProfile(prompts="code", input_tokens=96, output_tokens=24, requests=POINTS, warmup_requests=2)
PAIR = ArmPair(reference=OFF, candidate=K4, varies="args.speculative_config", profile=LOAD, rounds=2)
FLOOR = noise_floor("30%", source="a busy two-core host")


@gate(
    PAIR,
    not_worse("output_throughput", at=1, margin="90%", noise=FLOOR),
    not_worse("output_throughput", at=8, margin="90%", noise=FLOOR),
)
def test_gate():
    pass
"""

BROKEN = """
from pytest_specgate import EMBEDDED_MODEL, Arm

BROKEN = Arm("broken", model=EMBEDDED_MODEL, args={"max_model_len": 1024, "no_such_flag_exists": 7})


def test_start(vllm_server):
    vllm_server(BROKEN)
"""


DYING = """
from pytest_specgate import EMBEDDED_MODEL, Arm, ArmPair, RequestProfile, gate, noise_floor, not_worse

SMALL = {"VLLM_CPU_KVCACHE_SPACE": "1"}
OFF = Arm("off", model=EMBEDDED_MODEL, args={"max_model_len": 512, "enforce_eager": True}, env=SMALL)
BAD = OFF.vary("bad", args={"speculative_config": {
    "method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4,
    "rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.65,
}})
LOAD = RequestProfile(prompts="code", input_tokens=64, output_tokens=16, requests={1: 10}, warmup_requests=1)
PAIR = ArmPair(reference=BAD, candidate=OFF, varies="args.speculative_config", profile=LOAD, rounds=1)


@gate(PAIR, not_worse("output_throughput", at=1, margin="90%", noise=noise_floor("30%", source="a busy host")))
def test_gate():
    pass
"""


@dataclasses.dataclass(frozen=True)
class Run:
    """One pytest run in a folder of its own.

    Attributes:
        folder: where it ran.
        exit_code: of pytest.
        output: everything that was printed.
        family: every process that was seen below it, and what it called itself last.
    """

    folder: Path
    exit_code: int
    output: str
    family: Mapping[psutil.Process, str]

    @property
    def record(self) -> WindowRecord:
        """The only record of the run."""
        [path] = self.folder.glob("specgate-results/*/record.json")
        return load_record(path)


def run_pytest(folder: Path, text: str, *args: str) -> Run:
    """Run pytest on one gate file."""
    (folder / "conftest.py").write_text(PATIENT, encoding="utf-8")
    (folder / "test_gates.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "test_gates.py", *args]
    family: dict[psutil.Process, str] = {}
    deadline_s = time.monotonic() + _RUN_LIMIT_S
    with (
        (folder / "output.txt").open("wb") as stream,
        subprocess.Popen(command, cwd=folder, stdout=stream, stderr=subprocess.STDOUT) as run,
    ):
        try:
            while run.poll() is None:
                assert time.monotonic() < deadline_s, "the run does not end"
                look_at(run.pid, family)
                time.sleep(_LOOK_S)
        finally:
            run.terminate()
    output = (folder / "output.txt").read_text(encoding="utf-8", errors="replace")
    sys.stdout.write(output)
    return Run(folder, run.returncode, output, family)


def look_at(pid: int, family: dict[psutil.Process, str]) -> None:
    """Add the processes below one: what names itself, as engine cores do, has no environment to be found by later."""
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                family[process] = " ".join(process.cmdline()) or family.get(process, "")


def lives(process: psutil.Process) -> bool:
    """Whether a process runs: one that waits for its parent to ask does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two arms measured and judged, two rounds."""
    return run_pytest(tmp_path_factory.mktemp("gate"), GATES, "--junitxml=junit.xml")


def test_both_thresholds_are_judged(run: Run) -> None:
    """Real vLLM gives verdicts, never INVALID; with a margin of 90 % none can be FAIL."""
    verdicts = [(verdict["threshold"], verdict["outcome"]) for verdict in run.record.verdicts]

    assert [threshold for threshold, _ in verdicts] == [
        "c1-output_throughput-not_worse",
        "c8-output_throughput-not_worse",
    ]
    assert {outcome for _, outcome in verdicts} <= {"PASS", "INCONCLUSIVE"}, run.output
    assert run.exit_code == (0 if all(outcome == "PASS" for _, outcome in verdicts) else 1)


def test_identity_stands_before_figures(run: Run) -> None:
    """The profiles of the real servers agree in every field, and the report says so before its table."""
    identity = run.output.index("fields identical")

    assert identity < run.output.index("tokens/s")
    assert "0 of" not in run.output[identity - 40 : identity]


def test_arms_are_booted_in_reversed_rounds(run: Run) -> None:
    """Each arm boots once a round, and the second round reverses the order."""
    boots = [(boot.round, boot.arm, boot.failure) for boot in run.record.boots]

    assert boots == [(1, "off", None), (1, "k4", None), (2, "k4", None), (2, "off", None)]


def test_arms_run_as_declared(run: Run) -> None:
    """The resolved configuration and the counters of the real servers tell the arms apart."""
    horizons = {}
    for boot in run.record.boots:
        resolved = boot.resolved["speculative_config"]
        horizons[boot.arm] = resolved["num_speculative_tokens"] if isinstance(resolved, dict) else None
    positions = {boot.arm: len(boot.points[0].after.speculation) for boot in run.record.boots}

    assert horizons == {"off": None, "k4": 4}
    assert positions == {"off": 0, "k4": 4}


def test_server_and_client_count_the_same(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens of the counters equal those of the answers at every point, and every prompt has its exact length."""
    monkeypatch.setattr(validity, "LAG_S", _PATIENCE_S)
    arms = {arm.name: arm for arm in run.record.arms}
    for boot in run.record.boots:
        for point in boot.points:
            ours = sum(request.output_tokens or 0 for request in point.requests)

            assert validity.point_problem(arms[boot.arm], point, run.record.profile) is None
            assert point.counters.total(counters.GENERATION_TOKENS) == ours
            assert {request.prompt_tokens for request in point.requests} == {96}
            # Each decode step of a sequence is one chunk: the identity that tokens per step rests on. An API server
            # that is late, on a machine that stands still now and then, puts what it has of several steps into one.
            chunks, steps = sum(request.token_events for request in point.requests), point.counters.decode_steps()
            assert 0.3 * (steps + len(point.requests)) <= chunks <= steps + len(point.requests)
            measured = measure("tokens_per_step", point, run.record.profile).value
            assert measured == (ours - len(point.requests)) / steps


def test_requests_tell_what_they_drafted(run: Run) -> None:
    """What each request drafted adds up to the counters, draft by draft, so acceptance has intervals over prompts."""
    for boot in run.record.boots_of("k4"):
        for point in boot.points:
            told = request_samples(point)

            assert told.problem == ""
            assert point.counters.speculation() == pool(told.samples)
            assert told.proposed is not None
    curve = curve_of([boot.points[0] for boot in run.record.boots_of("k4")])

    assert curve.basis == "prompts"


def test_one_boot_samples_at_two_temperatures(run: Run) -> None:
    """Greedy answers are kept and equal in both rounds; those that are drawn at 0.8 are none to be compared."""
    greedy, sampled = (
        [[request.text for request in point.requests] for boot in boots if (point := boot.point(at)) is not None]
        for boots in [run.record.boots_of("off")]
        for at in (1, "1 T=0.8")
    )

    assert len(greedy) == len(sampled) == 2
    assert greedy[0] == greedy[1]
    assert None not in greedy[0]
    assert {text for boot in sampled for text in boot} == {None}


def test_an_open_loop_sends_when_requests_are_due(run: Run) -> None:
    """Requests of a rate are sent at their times, never before, and at the same times in every boot."""
    points = [point for boot in run.record.boots if (point := boot.point("3/s")) is not None]
    due = {tuple(request.due_s for request in point.requests) for point in points}

    assert len(points) == 4
    assert due == {arrival_times_s(3.0, 12, burstiness=1.0, seed=0)}
    assert all(request.sent_s >= (request.due_s or 0) for point in points for request in point.requests)


def test_every_metric_has_a_value_or_a_reason(run: Run) -> None:
    """On real points no metric is infinite, and what is missing says why."""
    for boot in run.record.boots:
        for point in boot.points:
            for name in METRICS:
                found = measure(name, point, run.record.profile)

                assert (found.value is None) == bool(found.missing), name
                # What is drawn at T=0.8 repeats nothing, so that of all drafts there not one token may be accepted.
                can_be_none = METRICS[name].unit in {"events", "share"}
                assert found.value is None or 0 < found.value < float("inf") or (can_be_none and not found.value), name


def test_junit_carries_the_figures(run: Run) -> None:
    """Every threshold is a test case with its figures as properties."""
    cases = ET.parse(run.folder / "junit.xml").iter("testcase")
    names = {
        str(case.get("name")): {str(entry.get("name")): entry.get("value") for entry in case.iter("property")}
        for case in cases
    }

    assert set(names) == {"test_gate[c1-output_throughput-not_worse]", "test_gate[c8-output_throughput-not_worse]"}
    for properties in names.values():
        assert float(str(properties["specgate_reference_tokens_per_s"])) > 0
        assert float(str(properties["specgate_candidate_tokens_per_s"])) > 0


def test_no_process_is_left(run: Run) -> None:
    """Engine cores, and whatever else was started, end with their servers."""
    engine_cores = [name for name in run.family.values() if "EngineCore" in name]

    assert run.record.finished
    assert len(engine_cores) == len(run.record.boots)
    assert {process.pid: name for process, name in run.family.items() if lives(process)} == {}


def test_what_speculation_changes_besides_is_shown(run: Run) -> None:
    """The real off and k4 servers differ in more than was declared: it is found, stored and shown with the pair."""
    differences = run.output[run.output.index("differences of the servers of k4 against off") :]

    assert re.search(r"^engine-induced \([1-9]\d*\) ", differences, re.MULTILINE)
    assert "scheduler_config.max_num_scheduled_tokens" in differences
    assert all(boot.startup is not None and boot.host_after for boot in run.record.boots)


def test_an_engine_that_dies_of_an_option_is_invalid_with_its_own_words(tmp_path: Path) -> None:
    """The CPU sampler cannot do synthetic acceptance, and the engine dies of its first draft: INVALID, and why."""
    run = run_pytest(tmp_path, DYING)

    assert run.exit_code == 1
    assert "INVALID (server-" in run.output
    assert "Synthetic acceptance not supported" in run.output


def test_dead_server_is_named(tmp_path: Path) -> None:
    """A server that refuses its arguments is reported with its exit code and its own message."""
    run = run_pytest(tmp_path, BROKEN)

    assert run.exit_code == 1
    assert "left while starting, with exit code 2" in run.output
    assert "no-such-flag-exists" in run.output
