"""The devices of a job: its servers see no others, and a wrong name is said before anything starts."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.adapters import job_devices
from pytest_specgate.adapters.job_devices import JobDevices
from pytest_specgate.core.arms import Arm
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.hosts import inapplicable, known

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SHOWN = "CUDA_VISIBLE_DEVICES"


def devices_of(
    named: str | None = None, *, given: Mapping[str, str] | None = None, inherited: Mapping[str, str] | None = None
) -> JobDevices:
    """Return the devices of a job: by its option, by that for variables, and by its own environment."""
    return JobDevices(named, variables=given or {}, environment=inherited or {}, say=print)


def arm(name: str = "k4", **env: str) -> Arm:
    """Return an arm with variables."""
    return Arm(name, model="tiny", env=env)


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """NVIDIA's library on a machine with two GPUs."""
    library = types.ModuleType("pynvml")
    functions: dict[str, Any] = {
        "Init": lambda: None,
        "Shutdown": lambda: None,
        "DeviceGetCount": lambda: 2,
        "DeviceGetHandleByIndex": lambda index: index,
        "DeviceGetUUID": ["GPU-1234abcd", "GPU-5678abcd"].__getitem__,
        "DeviceGetHandleByUUID": {}.__getitem__,
        "DeviceGetName": lambda _: "NVIDIA H200",
    }
    vars(library).update({f"nvml{name}": value for name, value in functions.items()}, NVMLError=KeyError)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    return library


@pytest.mark.parametrize(
    ("devices", "names"),
    [
        (devices_of(), None),
        (devices_of("0, 1,0"), ("0", "1")),
        (devices_of("1", given={SHOWN: "1"}, inherited={SHOWN: "0"}), ("1",)),
        (devices_of(given={SHOWN: "1"}, inherited={SHOWN: "0"}), ("1",)),
        (devices_of(inherited={SHOWN: "0,GPU-12"}), ("0", "GPU-12")),
        (devices_of(inherited={SHOWN: "1,-1,0"}), ("1",)),
        (devices_of(inherited={SHOWN: ""}), ()),
        (devices_of(inherited={SHOWN: "NoDevFiles"}), ()),
    ],
    ids=["machine", "option", "option-wins", "variables-win", "inherited", "cut", "hidden", "no-name"],
)
def test_the_option_names_them_or_what_servers_would_see_anyway(
    devices: JobDevices, names: tuple[str, ...] | None
) -> None:
    """Without the option servers see what the environment shows, up to the first word that names no device."""
    assert devices.names == names


def test_servers_are_shown_what_the_option_names() -> None:
    """Numbers mean to CUDA what they mean to the check of memory, which counts by the bus."""
    assert devices_of("1,0").variables == {SHOWN: "1,0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert devices_of(inherited={SHOWN: "0"}).variables == {}


def test_servers_on_the_other_make_are_shown_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the variable of CUDA restricts nothing."""
    monkeypatch.setattr(job_devices, "_AMD_DRIVER", tmp_path)

    assert devices_of("1").variables["HIP_VISIBLE_DEVICES"] == "1"


@pytest.mark.parametrize(
    ("devices", "env"),
    [
        (devices_of(), {SHOWN: "3", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}),
        (devices_of("0,1"), {}),
        (devices_of("0,1"), {SHOWN: "1"}),
        (devices_of("0,1"), {SHOWN: "1,0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        (devices_of("0,1"), {SHOWN: ""}),
        (devices_of("0,1", given={SHOWN: "0"}), {SHOWN: "1"}),
        (devices_of(inherited={SHOWN: "0"}), {"HIP_VISIBLE_DEVICES": "0"}),
    ],
)
def test_an_arm_may_use_a_part_of_the_devices(devices: JobDevices, env: Mapping[str, str]) -> None:
    """Or all, in any order; where the job has the machine, whatever it likes."""
    devices.check([arm(**env)])


@pytest.mark.parametrize("variable", [SHOWN, "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"])
@pytest.mark.parametrize(
    ("devices", "own"),
    [
        (devices_of("0"), "0"),
        (devices_of(inherited={SHOWN: "0"}), "0"),
        (devices_of(inherited={SHOWN: ""}), "it has none"),
    ],
    ids=["option", "inherited", "none"],
)
def test_an_arm_that_shows_other_devices_is_refused(devices: JobDevices, own: str, variable: str) -> None:
    """They would be neither locked nor checked, and another job's."""
    with pytest.raises(UsageError) as caught:
        devices.check([arm("off"), arm("k4", **{variable: "0,3"} if own == "0" else {variable: "3"})])

    value = "0,3" if own == "0" else "3"
    assert str(caught.value) == (
        f"arm k4 sets {variable}={value}, and 3 is no device of this job ({own}): "
        f"name all of them, in the same way, with --specgate-devices"
    )


def test_variables_of_every_server_that_show_other_devices_are_refused() -> None:
    """The option that names devices is what other jobs go by."""
    with pytest.raises(UsageError, match=rf"^--specgate-engine-env sets {SHOWN}=1, and 1 is no device of this job"):
        devices_of("0", given={SHOWN: "1"}).check([arm()])


def test_another_order_of_devices_is_refused() -> None:
    """Number 0 would be locked and checked, and another one used."""
    with pytest.raises(UsageError, match=r"^arm k4 sets CUDA_DEVICE_ORDER=FASTEST_FIRST, but --specgate-"):
        devices_of("0").check([arm(CUDA_DEVICE_ORDER="FASTEST_FIRST")])


@pytest.mark.parametrize("name", ["gpu0", "cuda:0", "-1", "0;1"])
def test_what_names_no_device_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA ignores such a word and all after it: also where nobody can tell which devices there are."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(UsageError) as caught:
        devices_of(f"0,{name}").check([arm()])

    assert str(caught.value) == (
        f"--specgate-devices has {name!r}, which names no device: write 0 or GPU-1b2c, as CUDA does"
    )


@pytest.mark.parametrize("name", ["7", "GPU-99", "MIG-1"])
def test_a_device_that_is_not_there_is_refused(name: str) -> None:
    """Where the library of the driver works it is known which there are."""
    with pytest.raises(UsageError) as caught:
        devices_of(f"0,{name}").check([arm()])

    assert str(caught.value) == f"--specgate-devices=0,{name}: this machine has no device {name}, only 0, 1"


def test_ids_may_be_cut_short() -> None:
    """CUDA takes any beginning that means one device."""
    devices_of("GPU-12,GPU-5678").check([arm()])


def test_nothing_is_asked_of_servers_that_run_elsewhere() -> None:
    """Their devices are not of this machine."""
    devices_of("7").check([])


def test_facts_are_of_the_devices_of_the_job() -> None:
    """Each job beside others tells of its own; a job that has none tells that."""
    assert devices_of("1").facts()["gpu_devices"] == known(["1"])
    assert devices_of().facts()["gpus"] == known(["NVIDIA H200"] * 2)
    assert devices_of(inherited={SHOWN: ""}).facts() == {"gpus": inapplicable("none for this job")}


def test_facts_of_a_machine_without_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not applicable, and not unknown."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert devices_of("0").facts() == {"gpus": inapplicable("no NVIDIA driver")}
