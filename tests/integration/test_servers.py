"""Servers of a run: order of boots, one at a time, none left, and the fixture that hands one out."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.integration.conftest import GateFolder, GateRun

_HANDED_OUT = """\
    import httpx
    import psutil

    ONE, TWO = arm("one"), arm("two", seed=2)
    SEEN = {}


    def _models(server):
        return [entry["id"] for entry in httpx.get(f"{server.url}/v1/models", trust_env=False).json()["data"]]


    def test_a_server_answers(vllm_server):
        SEEN["one"] = vllm_server(ONE)
        assert _models(SEEN["one"]) == [MODEL]
        assert SEEN["one"].model == MODEL
        assert SEEN["one"].boot_s > 0
        assert f"--model {MODEL}" in SEEN["one"].command


    def test_the_same_arm_is_the_same_server(vllm_server):
        assert vllm_server(ONE) is SEEN["one"]
        assert vllm_server(arm("one")) is SEEN["one"]


    def test_another_arm_replaces_it(vllm_server):
        before = SEEN["one"].process_ids()
        SEEN["two"] = vllm_server(TWO)
        assert SEEN["two"].url != SEEN["one"].url
        assert before
        assert not any(psutil.pid_exists(pid) for pid in before)
        assert _models(SEEN["two"]) == [MODEL]


    @measured(pair(arm("three", seed=3), arm("four", seed=4)))
    def test_a_window_stops_it(specgate_window):
        assert SEEN["two"].process_ids() == frozenset()
        assert [boot.arm for boot in specgate_window.record.boots] == ["three", "four"]


    def test_a_server_after_the_window(vllm_server):
        SEEN["last"] = vllm_server(ONE)
        assert _models(SEEN["last"]) == [MODEL]


    def test_the_last_one_is_left_running(vllm_server):
        assert SEEN["last"].process_ids()
    """

_FOR_ONE_WORKER = """\
    @gate(pair(arm("a"), arm("b", seed=1)), SPEED, better("request_throughput", at=1, by="1%", noise=FLOOR))
    def test_gate(): pass


    @measured(pair(arm("c"), arm("d", seed=1)))
    def test_look(specgate_window): pass


    def test_one(vllm_server): vllm_server(arm("one"))
    def test_same(vllm_server): vllm_server(arm("one"))
    """

_UNSERVED = """\
    DEAD = arm("dead", exit_at_start=3, exit_message="first line\\nboom")


    def test_dead(vllm_server): vllm_server(DEAD)
    def test_again(vllm_server): vllm_server(arm("dead", exit_at_start=3, exit_message="first line\\nboom"))
    def test_unprepared(vllm_server): vllm_server(Arm("x", model="embedded:nope"))
    """

_ENDED_EARLY = """\
    def test_ends_the_run(vllm_server):
        assert vllm_server(arm("one")).process_ids()
        pytest.exit("enough", 3)


    def test_never_runs(): pass
    """

_UNEQUAL_ROUNDS = """\
    SLOW, FAST, TWIN = arm("slow", step_s=0.02), arm("fast"), arm("twin", seed=1)
    WIDE = not_worse("output_throughput", at=1, margin="90%", noise=FLOOR)


    @gate(pair(SLOW, FAST, rounds=1), SPEED)
    def test_other_pair(): pass


    @gate(pair(FAST, TWIN, rounds=1), WIDE)
    def test_same_pair(): pass


    @measured(pair(FAST, TWIN, rounds=2))
    def test_longest(specgate_window):
        assert len(specgate_window.values("output_throughput", arm="twin", at=1)) == 2
    """


_OF_ONE_NAME = """\
    @gate(pair(arm("off", exit_at_start=3), arm("on", seed={seed})), SPEED)
    def test_gate(): pass
    """


_IN_USE = """\
    import os
    from pathlib import Path

    from pytest_specgate.adapters.locks import MachineLock

    LOCKS = Path(os.environ["SPECGATE_STATE_DIR"]) / "locks"


    def test_in_use(vllm_server):
        with MachineLock(None, folder=LOCKS, wait_s=0, say=print):
            vllm_server(arm("one"))


    def test_free(vllm_server): assert vllm_server(arm("one")).process_ids()
    """


@pytest.fixture(scope="module")
def handed_out(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Tests that ask for servers around a window of one round, whose results have a folder of their own."""
    gates = new_gate_folder()
    gates.write("test_servers.py", _HANDED_OUT)
    return gates.run("--specgate-rounds=1", "--specgate-results=elsewhere", engine=gates.recorded_engine())


@pytest.fixture(scope="module")
def unserved(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Tests that ask for a server that dies at its start, and for one of a model that is not prepared."""
    gates = new_gate_folder()
    gates.write("test_unserved.py", _UNSERVED)
    return gates.run(engine=gates.recorded_engine())


def _one_by_one(servers: Sequence[str]) -> list[tuple[str, str]]:
    return [(word, pid) for pid in servers for word in ("began", "ended")]


def test_each_arm_is_booted_once_a_round_in_reversed_order(healthy: GateRun) -> None:
    """Two pairs that share an arm need three boots a round; the second round runs backwards."""
    boots = [(boot.round, boot.position, boot.arm) for boot in healthy.record.boots]

    assert boots == [(1, 0, "off"), (1, 1, "k4"), (1, 2, "k7"), (2, 0, "k7"), (2, 1, "k4"), (2, 2, "off")]
    assert [log.name for log in healthy.logs] == [
        f"server-{number:02d}-{arm}.log" for number, (_, _, arm) in enumerate(boots, start=1)
    ]


@pytest.mark.parametrize("run", ["healthy", "handed_out"])
def test_lifetimes_of_servers_never_overlap(run: str, request: pytest.FixtureRequest) -> None:
    """Each server's process ends before the next one begins."""
    seen = request.getfixturevalue(run).lifetimes
    servers = [pid for word, pid in seen if word == "began"]

    assert len(servers) >= 5
    assert seen == _one_by_one(servers)


def test_boots_follow_each_other_in_the_record(healthy: GateRun) -> None:
    """A boot starts after the one before it had become ready."""
    boots = healthy.record.boots

    for before, after in itertools.pairwise(boots):
        ready = dt.datetime.fromisoformat(before.started_at) + dt.timedelta(seconds=before.boot_s or 0)
        assert ready < dt.datetime.fromisoformat(after.started_at)


@pytest.mark.parametrize("run", ["healthy", "slowed", "handed_out"])
def test_nothing_survives_the_run(run: str, request: pytest.FixtureRequest) -> None:
    """No server is left when pytest has ended."""
    assert request.getfixturevalue(run).survivors == ()


def test_a_server_is_handed_out_reused_and_replaced(handed_out: GateRun) -> None:
    """The gate file's own assertions on the fixture hold: same arm same server, another arm or a window ends it."""
    assert {name: case.failure for name, case in handed_out.cases.items() if case.failure} == {}
    assert (handed_out.exit_code, handed_out.counts) == (0, {"passed": 6})


def test_handed_out_servers_are_booted_only_when_needed(handed_out: GateRun) -> None:
    """Six tests need five servers: two by name, two for the window, one again."""
    assert len(handed_out.lifetimes) == 10


def test_a_run_that_ends_early_leaves_no_server(gate_folder: GateFolder) -> None:
    """`pytest.exit` in a test that holds a server stops that server, too."""
    gate_folder.write("test_early.py", _ENDED_EARLY)
    run = gate_folder.run(engine=gate_folder.recorded_engine())

    assert run.exit_code == 3
    assert [word for word, _ in run.lifetimes] == ["began", "ended"]
    assert run.survivors == ()


def test_pairs_that_share_an_arm_may_have_other_numbers_of_rounds(gate_folder: GateFolder) -> None:
    """A pair is judged by its own rounds, also when its arms are booted more often for another pair."""
    gate_folder.write("test_unequal.py", _UNEQUAL_ROUNDS)
    run = gate_folder.run()
    judged = [run.cases[f"{test}[c1-output_throughput-not_worse]"] for test in ("test_other_pair", "test_same_pair")]

    assert [(case.outcome, case.properties["specgate_rounds"]) for case in judged] == [("PASS", "1")] * 2
    assert {arm: len(run.record.boots_of(arm)) for arm in ("slow", "fast", "twin")} == {"slow": 1, "fast": 2, "twin": 2}
    assert (run.exit_code, run.counts) == (0, {"passed": 3})


def test_two_arms_of_one_name_do_not_share_a_window(gate_folder: GateFolder) -> None:
    """Pairs of one load whose arms share a name but not their arguments are measured in windows of their own."""
    for seed in (1, 2):
        gate_folder.write(f"test_seed{seed}.py", _OF_ONE_NAME.format(seed=seed))
    run = gate_folder.run()
    arms = [{arm.name: arm.args["fake"] for arm in record.arms} for record in run.records]

    assert [found["on"] for found in arms] == [{"step_s": 0.002, "seed": seed} for seed in (1, 2)]
    assert [[boot.arm for boot in record.boots] for record in run.records] == [["off"]] * 2
    assert (run.exit_code, run.counts) == (1, {"failed": 2})


def test_two_workers_start_no_server(gate_folder: GateFolder) -> None:
    """Under `-n 2` tests that need a server end the run with the sentence that says what to do, and none is started."""
    gate_folder.write("test_two.py", _FOR_ONE_WORKER)
    run = gate_folder.run("-n", "2", engine=gate_folder.recorded_engine())

    assert run.exit_code == 4
    assert run.output.count("gates cannot run on 2 xdist workers: servers would share the machine; use -n 0") == 1
    assert not run.results.exists()
    assert not (gate_folder.folder / "lifetimes.txt").exists()
    assert [text for text in ("Traceback", "During handling of the above") if text in run.output] == []


@pytest.mark.parametrize("test", ["test_dead", "test_again"])
def test_a_server_that_dies_for_the_fixture_is_one_sentence_with_its_log(test: str, unserved: GateRun) -> None:
    """`vllm_server(DEAD)` fails with exit code and log tail, for every test that asks for it."""
    failure = str(unserved.cases[test].failure)

    assert "its server left while starting, with exit code 3: boom\n" in failure
    assert "\nfirst line\nboom" in failure


def test_a_dead_arm_is_not_started_again_for_the_next_test(unserved: GateRun) -> None:
    """Asking for an arm equal to one that died is answered at once."""
    assert [word for word, _ in unserved.lifetimes] == ["began", "ended"]


def test_a_machine_in_use_is_no_death_of_an_arm(gate_folder: GateFolder) -> None:
    """Who is refused for the sake of another job is served as soon as that one has left."""
    gate_folder.write("test_in_use.py", _IN_USE)
    run = gate_folder.run("--specgate-lock-wait=0")
    failure = str(run.cases["test_in_use"].failure)

    assert "this machine was in use for 0 s by pid " in failure
    assert failure.partition("\n")[0].endswith(": run it later, or raise --specgate-lock-wait")
    assert run.cases["test_free"].failure is None


def test_a_start_for_the_fixture_is_told(handed_out: GateRun) -> None:
    """Who waits for a large model knows for what."""
    told = [line for line in handed_out.output.splitlines() if line.endswith(": starting its server")]

    assert [line.removeprefix("specgate: ").partition(":")[0] for line in told if "round" not in line] == [
        "one", "two", "one",
    ]  # fmt: skip


def test_an_unprepared_model_for_the_fixture_is_one_sentence(unserved: GateRun) -> None:
    """What stops an arm before its start is told as it is for a gate."""
    assert "UsageError: no embedded model is called 'nope'; known: " in str(unserved.cases["test_unprepared"].failure)


def test_the_fixture_shows_neither_our_code_nor_the_environment(unserved: GateRun) -> None:
    """No traceback of the plugin, which would print the variables of the session, comes with these sentences."""
    inside = ("def _wait_ready", "fixtures.py", "environ({", "During handling of the above")

    assert [text for text in inside if text in unserved.output] == []
    assert (unserved.exit_code, unserved.counts) == (1, {"failed": 3})
