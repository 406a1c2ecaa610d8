"""The devices of this job: what its servers see, what is locked, checked and described are the same ones."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_specgate.adapters.devices import NvidiaMemory
from pytest_specgate.adapters.nvml import gpu_reader
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.hosts import inapplicable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_specgate.adapters.nvml import GpuReader
    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.hosts import Fact

_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_VISIBLE_TOO: Final = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_ORDER: Final = "CUDA_DEVICE_ORDER"
_BY_BUS: Final = "PCI_BUS_ID"
_OPTION: Final = "--specgate-devices"
_NAME: Final = re.compile(r"\d+|GPU-[0-9a-fA-F-]+|MIG-\S+")
_AMD_DRIVER = Path("/dev/kfd")


class JobDevices:
    """The devices of this job: those that the option names, else those that its servers would see anyway.

    Args:
        named: what the option says; `None` for the whole machine.
        variables: further environment variables of every server.
        environment: of this process, which servers inherit.
        say: shows a line to the user.
    """

    def __init__(
        self,
        named: str | None,
        *,
        variables: Mapping[str, str],
        environment: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        self._named = None if named is None else _split(named)
        self._given = variables
        seen = {**environment, **variables}.get(_VISIBLE)
        self.names = self._named if self._named is not None or seen is None else _seen(seen)
        self.memory = NvidiaMemory(self.names, say=say)

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that show a server these devices and no others; empty where none are named."""
        if self._named is None:
            return {}
        names = ",".join(self._named)
        # CUDA counts the fastest first unless it is told to count as NVML does, by which they are checked.
        return {_VISIBLE: names, _ORDER: _BY_BUS, **({_VISIBLE_TOO[0]: names} if _AMD_DRIVER.exists() else {})}

    def check(self, arms: Iterable[Arm]) -> None:
        """Make sure that the devices exist, and that no server sees others.

        Args:
            arms: those whose servers are started here.

        Raises:
            UsageError: there is no device of a name, or an arm or the option for variables shows others.
        """
        local = list(arms)
        if not local:
            return
        self._require_names()
        self._refuse_others(self._given, whose="--specgate-engine-env")
        for arm in local:
            self._refuse_others(arm.env, whose=f"arm {arm.name}")

    def facts(self) -> Mapping[str, Fact]:
        """Return the facts of these devices."""
        if self.names is not None and not self.names:
            return {"gpus": inapplicable("none for this job")}
        return self._reader.read() if self._reader is not None else {"gpus": inapplicable("no NVIDIA driver")}

    @functools.cached_property
    def _reader(self) -> GpuReader | None:
        """One for the session: it tells what has happened since it was last asked."""
        return gpu_reader(self.names)

    def _require_names(self) -> None:
        if self._named is None:
            return
        for name in self._named:
            if not _NAME.fullmatch(name):
                raise UsageError(f"{_OPTION} has {name!r}, which names no device: write 0 or GPU-1b2c, as CUDA does")
        wrong = self.memory.unknown_device()
        if wrong is not None:
            raise UsageError(f"{_OPTION}={','.join(self._named)}: {wrong}")

    def _refuse_others(self, variables: Mapping[str, str], *, whose: str) -> None:
        if self.names is None:
            return
        for variable in (_VISIBLE, *_VISIBLE_TOO):
            others = [name for name in _seen(variables.get(variable, "")) if name not in self.names]
            if others:
                raise UsageError(
                    f"{whose} sets {variable}={variables[variable]}, and {', '.join(others)} is no device of this job "
                    f"({', '.join(self.names) or 'it has none'}): name all of them, in the same way, with {_OPTION}"
                )
        if self._named is not None and variables.get(_ORDER, _BY_BUS) != _BY_BUS:
            raise UsageError(
                f"{whose} sets {_ORDER}={variables[_ORDER]}, but {_OPTION} counts devices by {_BY_BUS}: leave it out"
            )


def _split(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _seen(text: str) -> tuple[str, ...]:
    """Return the devices that a variable shows: CUDA reads it up to the first word that is no name."""
    words = [word.strip() for word in text.split(",")]
    end = next((place for place, word in enumerate(words) if not _NAME.fullmatch(word)), len(words))
    return tuple(dict.fromkeys(words[:end]))
