"""No secret reaches what is kept or committed, wherever it was put: arguments, headers, environment, commands, logs."""

from __future__ import annotations

import dataclasses
import re
import sys
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.conftest import GateFolder, GateRun

_GATES: Final = """\
    ARGS = {
        "api_key": "secret-of-an-argument",
        "ssl_options": {"credentials": {"user": ["secret-in-a-mapping"]}},
        "extra_headers": {"Authorization": "Bearer secret-of-a-header", "X-Api-Key": "secret-of-a-named-header"},
        "header": ["Authorization: Bearer secret-of-a-header-line", "x-api-key: secret-of-a-key-line"],
        "proxy": "http://user:secret-in-an-address@proxy.invalid:3128/",
        "download": "https://models.invalid/x?token=secret-in-a-query",
        "revision": "hf_secretbyitsform00001",
    }
    ENV = {
        "HF_TOKEN": "secret-of-a-variable",
        "HTTPS_PROXY": "http://user:secret-in-a-proxy-variable@proxy.invalid",
        "EXTRA": "--api-key secret-in-a-value",
    }
    BODY = {"api_key": "secret-in-the-body", "metadata": {"auth": {"value": "secret-deep-in-the-body"}}}
    LOAD = load(extra_body=BODY, endpoint="/v1/completions?api_key=secret-in-the-endpoint")
    ONE, TWO = arm("one", args=ARGS, env=ENV), arm("two", args=ARGS, env=ENV, seed=1)
    DEAD = arm("dead", args=ARGS, env={**ENV, "DIE": "1"}, seed=2)


    @gate(
        pair(ONE, TWO, profile=LOAD),
        not_worse("output_throughput", at=1, margin="90%", noise=FLOOR),
        not_worse_than_baseline("output_throughput", at=1, margin="90%", cross_window=FLOOR),
    )
    def test_alive(): pass
    """

_DEAD_GATE: Final = """

    @gate(pair(ONE, DEAD, varies=("args.fake", "env.DIE"), profile=LOAD), SPEED)
    def test_dead(): pass
    """

_ENGINE: Final = """\
    import os
    import sys

    from pytest_specgate.testing.main import main

    told = f"started with {sys.argv} and {dict(os.environ)}"
    print(told, flush=True)
    for name, value in os.environ.items():
        print(f"{name} is {value}", flush=True)
    if "DIE" in os.environ:
        raise SystemExit("RuntimeError: " + " ".join(sys.argv) + "; " + told)
    raise SystemExit(main())
    """

_OPTIONS: Final = (
    "--specgate-engine-args=--hf-token=secret-of-an-option --ssl-password secret-of-a-word",
    "--specgate-engine-env=DB_PASSWORD=secret-of-an-option-variable ADDRESS=https://u:secret-in-an-option@h.invalid",
)
_COMMAND: Final = (
    f"env ENGINE_API_KEY=secret-of-the-command {sys.executable} engine.py --admin-token secret-of-a-command-word"
)
_VARIABLES: Final = {"OPENAI_API_KEY": "secret-of-the-process", "AWS_SECRET_ACCESS_KEY": "secret-of-the-cloud"}
_SECRETS: Final = re.compile(rb"secret-(?:in|of|deep)[a-z-]+|hf_secretbyitsform")


@dataclasses.dataclass(frozen=True)
class Runs:
    """A folder in which arms that carry secrets everywhere were measured, calibrated, and accepted as a baseline.

    Attributes:
        gates: the folder.
        judged: a run with a server that printed all it knew and died.
        accepted: a run that wrote a baseline.
        calibrated: a run that wrote a calibration.
    """

    gates: GateFolder
    judged: GateRun
    accepted: GateRun
    calibrated: GateRun


@pytest.fixture(scope="module")
def runs(new_gate_folder: Callable[[], GateFolder]) -> Runs:
    """Secrets in every place where a user may put one."""
    gates = new_gate_folder()
    gates.write("engine.py", _ENGINE)
    gates.write("test_alive.py", _GATES)
    gates.write("test_dead.py", _GATES.replace("test_alive", "test_also_alive") + _DEAD_GATE)

    def run(*arguments: str) -> GateRun:
        return gates.run(*_OPTIONS, *arguments, engine=_COMMAND, variables=_VARIABLES)

    accepted = run("test_alive.py", "--specgate-baseline=new")
    calibrated = run("test_alive.py", "--specgate-calibrate", "--specgate-calibrate-boots=2")
    return Runs(gates, run("test_dead.py"), accepted, calibrated)


def kept(folder: Path) -> list[Path]:
    """Return all files below a folder but the servers' own logs."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".log")


def test_no_secret_is_in_anything_that_is_kept(runs: Runs) -> None:
    """Records hold arms, commands, settings, failures and log tails of three runs, and none of the secrets in them."""
    files = kept(runs.gates.folder / "specgate-results")

    assert len([path for path in files if path.name == "record.json"]) == 3
    assert {path.name: _leaks(path) for path in files if _leaks(path)} == {}


def test_no_secret_is_in_anything_that_is_committed(runs: Runs) -> None:
    """Baselines hold both arms and what every server was given, calibrations their hashes; neither holds a secret."""
    files = kept(runs.gates.folder / "baselines")

    assert len(files) == 2, runs.accepted.output + runs.calibrated.output
    assert "noise.json" in {path.name for path in files}
    assert {path.name: _leaks(path) for path in files if _leaks(path)} == {}


def test_no_secret_is_printed(runs: Runs) -> None:
    """Neither the terminal nor the junit report has one."""
    printed = [run.output.encode() for run in (runs.judged, runs.accepted, runs.calibrated)]

    assert [_leaks_in(text) for text in [*printed, (runs.gates.folder / "junit.xml").read_bytes()]] == [[]] * 4


def test_the_secrets_were_there_to_be_found(runs: Runs) -> None:
    """The servers were given all of them and printed them into their own logs, which only their owner can read."""
    logs = sorted((runs.gates.folder / "specgate-results").rglob("*.log"))
    named = {word for text in (_GATES, _COMMAND, *_OPTIONS, *_VARIABLES.values()) for word in _leaks_in(text.encode())}
    printed = {word for path in logs for word in _leaks(path)}

    assert {path.stat().st_mode & 0o077 for path in logs} == {0}
    assert {word for word in named if b"body" not in word} <= printed


def test_what_is_told_of_a_dead_server_is_told_all_the_same(runs: Runs) -> None:
    """The log tail is in the record with what stands around the secrets."""
    (boot,) = (boot for record in runs.judged.records for boot in record.boots if boot.failure is not None)

    assert boot.failure is not None
    assert boot.arm == "dead"
    assert "started with" in boot.failure.detail
    assert "[redacted]" in boot.failure.detail


def _leaks(path: Path) -> list[bytes]:
    return _leaks_in(path.read_bytes())


def _leaks_in(text: bytes) -> list[bytes]:
    """Return the secrets in a text: all of ours begin alike."""
    return sorted(set(_SECRETS.findall(text)))
