"""Faults of adapters that were found and mended: each stays a test."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters import server
from pytest_specgate.adapters.client import HttpLoadDriver
from pytest_specgate.adapters.processes import Child, ended_by_signals
from pytest_specgate.core.arms import Arm
from pytest_specgate.core.errors import ServerStartError
from pytest_specgate.core.profile import RequestProfile

if TYPE_CHECKING:
    from pathlib import Path

    from tests.adapters.conftest import MakeEngine, Stub

PROFILE = RequestProfile(input_tokens=8, output_tokens=2, requests={1: 1})


def test_a_part_of_a_token_is_no_part_of_a_refusal(stub: Stub) -> None:
    """A long refusal is redacted before it is cut, so that no half of a token is left."""
    message = "x" * 285 + " hf_abcdefghijklmnopqrstuvwxyz"
    stub.on("/v1/completions", stub.json({"error": {"message": message}}, status=401))
    (record,) = HttpLoadDriver().run_point(stub.target, [b"{}"], at=1, profile=PROFILE).requests

    assert "hf_abc" not in str(record.error)


def test_a_part_of_a_token_is_no_part_of_an_error_event(stub: Stub) -> None:
    """A long error event is redacted before it is cut, wherever the cut falls."""
    messages = ["x " * (1_980 + number) + "hf_abcdefghijklmnopqrstuvwxyz" for number in range(40)]
    events = [f"data: {json.dumps({'error': {'message': message}})}\n\n".encode() for message in messages]
    stub.on("/v1/completions", *[stub.stream(event) for event in events])
    records = HttpLoadDriver().run_point(stub.target, [b"{}"] * 40, at=1, profile=PROFILE).requests

    assert not [record.error for record in records if "hf_" in str(record.error)]


def test_model_ids_that_are_numbers_mean_another_model(
    stub: Stub, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of models whose ids are no texts names another model, and breaks nothing."""
    monkeypatch.setattr(server, "_free_port", lambda: stub.server_address[1])
    stub.on("/v1/models", stub.json({"data": [{"id": 5}]}))
    engine = make_engine("import time; time.sleep(600)")

    with pytest.raises(ServerStartError, match="serves 5, not tiny"), engine.start(Arm("off", model="tiny")):
        pass


def test_a_program_is_looked_up_where_it_will_be_started(tmp_path: Path, make_engine: MakeEngine) -> None:
    """The check before the start looks along the arm's own PATH."""
    tool = tmp_path / "bin" / "own-serve"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nexit 3\n")
    tool.chmod(0o755)
    engine = make_engine(("own-serve",))
    arm = Arm("off", model="tiny", env={"PATH": f"{tool.parent}:{os.environ['PATH']}"})

    engine.check(arm)
    with pytest.raises(ServerStartError, match="exit code 3"), engine.start(arm):
        pass


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """Under ``nohup`` the end of the terminal does not end the run."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals():
            signal.raise_signal(signal.SIGHUP)

            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_progress_bars_do_not_hide_the_cause(tmp_path: Path) -> None:
    """Megabytes of lines that end with a carriage return alone do not push the last message out."""
    script = "import sys; sys.stdout.write('Loading\\r' * 600_000 + 'the cause')"
    child = Child([sys.executable, "-S", "-c", script], environment=os.environ, log=tmp_path / "log")
    child._process.wait(20)

    assert child.log_tail().endswith("the cause")
