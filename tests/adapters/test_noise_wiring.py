"""Which calibrations a session uses: those of servers that it boots itself, started as it starts them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.arms import Arm
from pytest_specgate.core.calibration import CalibrationWindow
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.options import GateOptions
from pytest_specgate.wiring import LocalWiring

if TYPE_CHECKING:
    from pathlib import Path

OFF = Arm("off", model="tiny")
K4 = OFF.vary("k4", args={"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}})
LOAD = RequestProfile(input_tokens=16, output_tokens=16, requests={1: 10})
WINDOW = CalibrationWindow(
    measured_at="2026-11-29T12:00:00+00:00", engine={}, values={"c1": {"tpot_p50": (0.1, 0.11, 0.1)}}
)


def _wiring(folder: Path, **options: Any) -> LocalWiring:
    fields: dict[str, Any] = {"engine_python": sys.executable, "engine_command": (), "rounds": None, **options}
    found = GateOptions(results=folder / "results", start_limit_s=20.0, baselines=folder / "baselines", **fields)
    return LocalWiring(found, root=folder, say=lambda _: None, environment={"SPECGATE_STATE_DIR": str(folder)})


def _calibrated(folder: Path, **options: Any) -> None:
    """Keep a calibration of both arms, made with some options."""
    wiring = _wiring(folder, **options)
    book = wiring._noise_file.load()
    for arm in (OFF, K4):
        book = book.with_window(arm, LOAD, WINDOW, settings=wiring._settings)
    wiring._noise_file.save(book)


def _known(folder: Path, **options: Any) -> list[str]:
    return [noise.arm for noise in _wiring(folder, **options).noise((OFF, K4), LOAD)]


@pytest.mark.parametrize("attached", ["off", "k4"])
def test_an_attached_arm_has_no_calibration_beside_it(tmp_path: Path, attached: str) -> None:
    """What was calibrated here says nothing of a server that runs elsewhere, and half of a pair is not enough."""
    _calibrated(tmp_path)

    assert _known(tmp_path) == ["off", "k4"]
    assert _known(tmp_path, attach={attached: "http://10.0.0.5:8000"}) == []


@pytest.mark.parametrize(
    "options",
    [
        {"engine_args": ("--max-num-seqs=1",)},
        {"engine_env": {"VLLM_USE_V1": "1"}},
        {"engine_command": ("python", "-m", "another.engine")},
    ],
    ids=["arguments", "environment", "command"],
)
def test_a_calibration_is_of_servers_that_start_alike(tmp_path: Path, options: dict[str, Any]) -> None:
    """Calibrated without an option of the session it says nothing of servers with it, nor the other way round."""
    _calibrated(tmp_path)

    assert _known(tmp_path, **options) == []
    _calibrated(tmp_path, **options)
    assert _known(tmp_path, **options) == _known(tmp_path) == ["off", "k4"]


def test_secrets_of_the_session_make_no_other_server(tmp_path: Path) -> None:
    """A committed hash must not depend on a token, so another one finds the same calibration."""
    _calibrated(tmp_path, engine_env={"HF_TOKEN": "one"}, engine_args=("--api-key", "one"))

    assert _known(tmp_path, engine_env={"HF_TOKEN": "two"}, engine_args=("--api-key", "two")) == ["off", "k4"]
