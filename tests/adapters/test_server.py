"""The life of servers that the engine adapter starts: the fake vLLM, and small programs that misbehave."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

from pytest_specgate.adapters import asking, listeners, readiness
from pytest_specgate.adapters import server as adapter
from pytest_specgate.adapters.asking import Answer, Asker
from pytest_specgate.adapters.processes import StopLimits
from pytest_specgate.adapters.server import VllmEngine
from pytest_specgate.core.arms import Arm
from pytest_specgate.core.errors import ServerDiedError, ServerStartError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.adapters.conftest import MakeEngine, Reply, Stub

PATIENCE_S = 20.0
COMPLETIONS = "/v1/completions"
MODELS = "/v1/models"
SLEEPS = "import time; time.sleep(600)"
TOKEN = "hf_abcdefghijklmnopqrst"
STUBS = Path(__file__).parent / "stubs"
SERVES, HOLDS = ((STUBS / f"{name}.py").read_text(encoding="utf-8") for name in ("serves", "holds"))


def start_error(engine: VllmEngine, arm: Arm) -> ServerStartError:
    """Start an arm that cannot start, and return what is said about it."""
    with pytest.raises(ServerStartError) as caught, engine.start(arm):
        pass
    return caught.value


def tiny(name: str = "off", **fields: Any) -> Arm:
    """Return an arm of a model that no folder holds."""
    return Arm(name, **{"model": "tiny", **fields})


def test_case_73_an_offline_host_is_left_offline(make_engine: MakeEngine) -> None:
    """Case 73: the variable reaches the server unchanged, and the server's own words come first in the error."""
    source = (
        "import os, sys; print('HF_HUB_OFFLINE=' + os.environ['HF_HUB_OFFLINE']); sys.exit('offline mode is enabled')"
    )
    error = start_error(make_engine(source, HF_HUB_OFFLINE="1"), tiny(model="org/tiny"))

    assert str(error) == "its server left while starting, with exit code 1: offline mode is enabled"
    assert error.log_tail.splitlines() == ["HF_HUB_OFFLINE=1", "offline mode is enabled"]


@pytest.mark.parametrize("command", [(), SLEEPS], ids=["default", "python"])
def test_case_53_an_answer_of_another_process_is_not_taken_for_ours(
    stub: Stub, posing: MakeEngine, tmp_path: Path, command: tuple[str, ...] | str
) -> None:
    """What answers on the port must belong to the tree that was started, else its figures would be a stranger's."""
    python = tmp_path / "python"
    facts = '{"distribution": "vllm", "prefix": "/"}'
    python.write_text(f"""#!/bin/sh\nif [ "$1" = -m ]; then echo bound; exec sleep 600; fi; echo '{facts}'\n""")
    python.chmod(0o755)
    error = start_error(posing(command, python=str(python)), tiny())

    assert str(error) == f"another process answers on port {stub.server_address[1]}: process {os.getpid()}"
    assert error.command.startswith("VLLM_SERVER_DEV_MODE=1 ")


def test_case_53_a_process_of_another_user_is_not_taken_for_ours(
    stub: Stub, posing: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can see whose its sockets are; ours would be seen, so it is none of ours."""
    connections = listeners._connections
    monkeypatch.setattr(listeners, "_connections", lambda: [one._replace(pid=None) for one in connections()])
    error = start_error(posing(SLEEPS), tiny())

    assert str(error) == (
        f"another process answers on port {stub.server_address[1]}: a process that cannot be seen from here"
    )


def test_a_command_that_hands_on_to_a_container_need_not_listen_itself(posing: MakeEngine) -> None:
    """What it starts is nobody's descendant here: only a Python program is known to serve itself."""
    with posing(("/bin/sh", "-c", "exec sleep 600")).start(tiny()) as server:
        server.ensure_alive()


def test_case_65_an_early_death_is_told_with_code_and_log(make_engine: MakeEngine) -> None:
    """Case 65: a server that leaves is an error at once, with its exit code and what it printed."""
    error = start_error(make_engine("import sys; print('boom'); sys.exit(3)", start_limit_s=600), tiny())

    assert (error.exit_code, error.log_tail) == (3, "boom")
    assert str(error) == "its server left while starting, with exit code 3: boom"
    silent = start_error(make_engine("import os; os.abort()"), tiny())
    assert str(silent) == "its server left while starting, with exit code -6, having printed nothing"


@pytest.mark.parametrize(
    ("command", "code"),
    [((sys.executable, "-S", "-c", "raise SystemExit(3)"), 3), (("no-such-program", "serve"), None)],
)
def test_a_start_that_failed_names_its_command(
    make_engine: MakeEngine, command: tuple[str, ...], code: int | None
) -> None:
    """What was started can be tried by hand, also when it never ran; secrets are not in it."""
    arm = tiny(args={"max_model_len": 64, "api_key": "my key"}, env={"VLLM_X": "a b"})
    error = start_error(make_engine(command), arm)

    assert error.exit_code == code
    assert f" 'VLLM_X=a b' {shlex.join(command)} --model tiny --served-model-name tiny " in error.command
    assert error.command.endswith(" --max-model-len 64 --api-key '[redacted]'")


@pytest.mark.parametrize("program", ["no-such-program", "{folder}/text"])
def test_a_program_that_cannot_be_run_is_a_start_error(make_engine: MakeEngine, tmp_path: Path, program: str) -> None:
    """The system's own words and the program are one sentence, without a traceback."""
    (tmp_path / "text").write_text("text")
    program = program.format(folder=tmp_path)
    error = start_error(make_engine((program,)), tiny())

    assert re.fullmatch(
        rf"its server cannot be started: \[Errno \d+\] (No such file or directory|Permission denied): '{program}'",
        str(error),
    )
    assert (error.exit_code, error.log_tail) == (None, "")


def test_secrets_of_an_arm_are_cut_out_of_what_its_server_prints(make_engine: MakeEngine) -> None:
    """Whatever form they have, the values of secret settings are in neither the log's tail nor the message."""
    script = "import os, sys; print(sys.argv[-1], os.environ['OWN_TOKEN'], sys.argv[-3]); sys.exit(1)"
    arm = tiny(args={"max_model_len": 64, "api_key": "open sesame"}, env={"OWN_TOKEN": "sesame"})
    error = start_error(make_engine(script), arm)

    assert error.log_tail == "[redacted] [redacted] 64"
    assert str(error) == "its server left while starting, with exit code 1: [redacted] [redacted] 64"


def test_secrets_of_a_session_are_cut_out_of_what_its_servers_print(make_engine: MakeEngine) -> None:
    """Keys among the arguments of every server, and in the environment that servers inherit, are shown nowhere."""
    script = "import os, sys; print(*sys.argv[-3:], os.environ['OWN_API_KEY'], os.environ['A_KEY']); sys.exit(1)"
    engine = make_engine(script, OWN_API_KEY="inherited", A_KEY="short")
    arguments = ("--api-key", "open sesame", "second")
    error = start_error(VllmEngine(dataclasses.replace(engine._options, arguments=arguments)), tiny())

    assert error.log_tail == "--api-key [redacted] [redacted] [redacted] short"
    assert error.command.endswith(" --api-key '[redacted]' '[redacted]'")


def test_a_silent_server_is_given_up_and_ended(make_engine: MakeEngine, tmp_path: Path) -> None:
    """A server that is not ready within the limit is an error that names the option, and does not live on."""
    script = f"echo $$ > {tmp_path}/pid; echo loading; exec sleep 600"
    error = start_error(make_engine(("/bin/sh", "-c", script), start_limit_s=0.5), tiny())

    assert str(error) == (
        "its server was not ready within 0.5 s, it does not list its models (raise --specgate-start-limit)"
    )
    assert (error.exit_code, error.log_tail) == (None, "loading")
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


@pytest.fixture
def posing(stub: Stub, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> MakeEngine:
    """A function that makes an engine of a command in place of whose servers the stub answers."""
    port = int(stub.target.url.rpartition(":")[2])
    monkeypatch.setattr(adapter, "_free_port", lambda: port)
    # The stub goes on answering when the server is gone.
    monkeypatch.setattr(adapter, "require_free", lambda *_, **__: None)
    stub.on(MODELS, stub.json({"data": [{"id": "tiny"}]}))
    stub.on(COMPLETIONS, stub.json({}))
    return make_engine


@pytest.fixture
def posed(posing: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> MakeEngine:
    """A function that makes an engine whose servers only sleep, and nobody minds that the stub answers for them."""
    monkeypatch.setattr(adapter, "_refuse_stranger", lambda *_: None)
    return functools.partial(posing, SLEEPS)


@pytest.mark.parametrize(
    ("path", "reply", "reason"),
    [
        ("/v1/models", lambda stub: stub.text("loading"), "it does not list its models"),
        ("/v1/models", lambda stub: stub.json({"data": []}), "it lists no model"),
        ("/v1/models", lambda stub: stub.text("loading", status=503), "it lists no model"),
        (COMPLETIONS, lambda stub: stub.stream(end="cut"), "a completion ended with RemoteDisconnected"),
        (
            COMPLETIONS,
            lambda stub: stub.text(f"no {TOKEN}", status=503),
            "a completion was answered with HTTP 503: no [redacted]",
        ),
    ],
    ids=["no-list", "empty-list", "busy-list", "cut", "busy"],
)
def test_what_a_server_lacked_at_the_limit_is_told(
    stub: Stub, posed: MakeEngine, path: str, reply: Callable[[Stub], Reply], reason: str
) -> None:
    """The last thing that kept a server from being ready stands in the error, without what looks like a token."""
    stub.on(path, reply(stub))
    error = start_error(posed(start_limit_s=0.01), tiny())

    assert str(error) == f"its server was not ready within 0.01 s, {reason} (raise --specgate-start-limit)"


def test_the_first_completion_is_waited_for_until_the_limit(
    stub: Stub, posed: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that compiles for minutes may do so, but no longer than the start limit says."""
    waits_s: list[float] = []
    ask = Asker.ask

    def note(asker: Asker, path: str, *, limit_s: float = 0.0, **options: Any) -> Answer:
        waits_s.extend([limit_s] if path == COMPLETIONS else [])
        return ask(asker, path, **options)

    monkeypatch.setattr(Asker, "ask", note)
    stub.on(COMPLETIONS, stub.stream(end="cut"), stub.json({}))
    with posed(start_limit_s=600).start(tiny()):
        pass

    assert len(waits_s) == 2
    assert 600 > waits_s[0] > waits_s[1] > 500


def test_a_completion_that_never_comes_is_given_up_at_the_limit(stub: Stub, posed: MakeEngine) -> None:
    """A server that takes a request and stays silent holds nobody longer than the start limit, or a short while."""
    stub.on(COMPLETIONS, stub.stream(end="silence"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(asking, "ASK_S", 0.1)
        error = start_error(posed(start_limit_s=0.01), tiny())

    assert "a completion ended with TimeoutError" in str(error)


def test_case_65_a_death_is_noticed_though_the_port_stays_open(make_engine: MakeEngine) -> None:
    """Case 65: whoever inherited the socket keeps its connections silent; the exit code is told all the same."""
    error = start_error(make_engine(HOLDS, start_limit_s=600), tiny())

    assert (error.exit_code, error.log_tail) == (3, "boom")


def test_a_long_start_is_told_with_the_last_words_of_the_log(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for a large model sees how far it is; a server that says nothing is told, too."""
    said: list[str] = []
    monkeypatch.setattr(readiness, "_TELL_S", 0.0)
    engine = make_engine(("/bin/sh", "-c", "echo shards: 25%; exec sleep 600"), start_limit_s=1)
    start_error(VllmEngine(dataclasses.replace(engine._options, say=said.append)), tiny())

    assert said[-1].startswith("off: still starting after ")
    assert said[-1].endswith(" s: shards: 25%")


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_completion_that_is_refused_for_good_ends_the_start(stub: Stub, posed: MakeEngine, status: int) -> None:
    """A mistake that waiting does not cure is told at once, in the server's words."""
    stub.on(COMPLETIONS, stub.text(f"no {TOKEN}", status=status))
    error = start_error(posed(), tiny())

    key = " (requests carry no key: leave out --api-key, and unset VLLM_API_KEY)" if status == 401 else ""
    assert str(error) == f"its server refuses a completion with HTTP {status}: no [redacted]{key}"
    assert len(stub.posted()) == 1


def test_a_list_of_models_that_is_refused_for_good_ends_the_start(stub: Stub, posed: MakeEngine) -> None:
    """A server that wants a key is told at once, and what to do about it."""
    stub.on(MODELS, stub.text("Unauthorized", status=401))
    error = start_error(posed(start_limit_s=600), tiny())

    assert str(error) == (
        "its server refuses to list its models with HTTP 401: Unauthorized (requests carry no key: leave out "
        "--api-key, and unset VLLM_API_KEY)"
    )


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_a_completion_that_is_refused_for_now_is_asked_for_again(stub: Stub, posed: MakeEngine, status: int) -> None:
    """A server that is busy or still loading is ready as soon as it answers."""
    stub.on(COMPLETIONS, stub.text("later", status=status), stub.json({}))
    with posed().start(tiny()):
        asked = len(stub.posted())

    assert asked == 2


def test_case_53_a_server_of_another_model_is_refused(make_engine: MakeEngine) -> None:
    """Case 53: who answers with other models is not ours, and both names are told."""
    error = start_error(make_engine(SERVES, STUB_MODELS='["other", "more"]'), tiny())

    assert str(error) == "its server serves other, more, not tiny"


@pytest.mark.parametrize(
    "text", ["not yet", "[]", "null", '{"data": null}', '{"data": [{"name": "tiny"}]}', '{"data": []}']
)
def test_an_odd_list_of_models_means_not_yet(make_engine: MakeEngine, text: str) -> None:
    """Whatever else the page says, it is asked for again: this server leaves when it is asked for the fourth time."""
    error = start_error(make_engine(SERVES, STUB_ODD_LIST=text, STUB_PATIENCE="3"), tiny())

    assert error.exit_code == 7


def test_case_69_listed_models_are_not_enough(make_engine: MakeEngine) -> None:
    """Case 69: a server whose completions are refused is asked again and again: three lists, two completions."""
    error = start_error(make_engine(SERVES, STUB_REFUSED="[503, 503, 503]", STUB_PATIENCE="5"), tiny())

    assert error.exit_code == 7
    assert error.log_tail.splitlines()[-4:] == ["flood", *["x" * 1023] * 3]


def test_case_69_a_server_is_ready_when_it_has_answered_a_completion(make_engine: MakeEngine) -> None:
    """Case 69: the fake vLLM lists its model before it completes; the block runs after the first completion."""
    arm = tiny(model="fake-model", args={"fake": {"ready_after_s": 0.3}})
    with make_engine().start(arm) as server:
        server.ensure_alive()
        log = server.child.log.read_text()
        tail = server.log_tail()
        ids = server.process_ids()
    answers = re.findall(r'"POST /v1/completions HTTP/1.1" (\d+)', log)

    assert answers[-1] == "200"
    assert set(answers[:-1]) == {"503"}
    assert tail.splitlines()[-1].endswith('"POST /v1/completions HTTP/1.1" 503 Service Unavailable')
    assert (server.arm, server.model) == ("off", "fake-model")
    assert server.url.startswith("http://127.0.0.1:")
    assert server.boot_s > 0
    assert server.child.pid in ids
    assert not any(map(psutil.pid_exists, ids))


def test_case_64_a_talkative_server_does_not_stop(make_engine: MakeEngine) -> None:
    """Case 64: 240 KB at the start and 1 KB a request fill no pipe; the end of the log is told when it dies."""
    with make_engine(SERVES).start(tiny()) as server:
        for _ in range(100):
            assert httpx.post(f"{server.url}/v1/completions", json={}, trust_env=False).is_success
        server.ensure_alive()
        os.kill(server.child.pid, signal.SIGKILL)
        server.child.wait(PATIENCE_S)
        with pytest.raises(ServerDiedError) as caught:
            server.ensure_alive()

    assert str(caught.value) == f"its server left with exit code -9: {'x' * 200}"
    assert caught.value.exit_code == -9
    assert caught.value.log_tail.splitlines() == ["x" * 1023] * 30
    assert server.child.log.stat().st_size > 340_000


def test_case_71_a_server_that_dies_in_use_is_told(make_engine: MakeEngine) -> None:
    """Case 71: after its death, code and last words are told, and the block still ends quietly."""
    arm = tiny(model="fake-model", args={"fake": {"die_after_requests": 1}})
    body = {"model": "fake-model", "prompt": "Hello", "max_tokens": 4}
    with make_engine().start(arm) as server:
        with pytest.raises(httpx.HTTPError):
            httpx.post(f"{server.url}/v1/completions", json=body, trust_env=False)
        server.child.wait(PATIENCE_S)
        with pytest.raises(ServerDiedError, match=r"left with exit code 1: FATAL: .*as programmed") as caught:
            server.ensure_alive()

    assert "FATAL:    the fake server dies as programmed" in caught.value.log_tail


def test_a_server_without_its_supervising_process_counts_as_dead(make_engine: MakeEngine) -> None:
    """A deaf server lives on, but if this process were killed, too, nobody would end it: that is told, and ends it."""
    arm = tiny(model="fake-model", args={"fake": {"ignore_sigterm": True, "ignore_sigint": True}})
    engine = make_engine()
    engine = VllmEngine(dataclasses.replace(engine._options, limits=StopLimits(0.1, 0.1, 0.1)))
    with engine.start(arm) as server:
        os.kill(server.child.supervisor_pid, signal.SIGKILL)
        with pytest.raises(ServerDiedError) as caught:
            server.ensure_alive(wait_s=PATIENCE_S)

    assert str(caught.value) == (
        "the process that supervises its server left with exit code -9, so the server is ended"
    )
    assert server.process_ids() == frozenset()


def test_a_failing_block_leaves_no_server(make_engine: MakeEngine) -> None:
    """An error, or an interrupt, in the block passes through, and the server is gone."""
    with pytest.raises(KeyboardInterrupt), make_engine(SERVES).start(tiny()) as server:
        raise KeyboardInterrupt

    assert not psutil.pid_exists(server.child.pid)


def test_a_cancelled_run_leaves_no_server(make_engine: MakeEngine, harmless: signal.Signals) -> None:
    """A signal that would end this process at once ends the block, and the server with it."""
    with pytest.raises(KeyboardInterrupt), make_engine(SERVES).start(tiny()) as server:
        signal.raise_signal(harmless)

    assert not psutil.pid_exists(server.child.pid)


def test_every_start_has_a_log_of_its_own(make_engine: MakeEngine, tmp_path: Path) -> None:
    """A second boot of an arm does not overwrite what the first one printed."""
    engine = make_engine("print('boom')")
    for name in ("off", "k4", "off"):
        start_error(engine, tiny(name))

    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [
        "server-01-off.log", "server-02-k4.log", "server-03-off.log",
    ]  # fmt: skip
