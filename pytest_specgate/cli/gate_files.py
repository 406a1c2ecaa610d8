"""Gates of a gate file, for commands: pytest reads it in a process of its own, since it alone knows how."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

EXPORTER: Final = "pytest_specgate.gate_export"
_NOTHING_COLLECTED: Final = 5


def export_words(file: Path) -> list[str]:
    """Return the words with which pytest writes what it collected and calibrated into a file."""
    return ["-p", EXPORTER, f"--specgate-export={file}"]


def refuse_missing(gates: str, *, options: Sequence[str]) -> None:
    """Refuse a gate file that is not there, before pytest starts and says so at length.

    Raises:
        UsageError: there is no such file or folder.
    """
    path = gates.partition("::")[0]
    if "--pyargs" not in options and not Path(path).exists():
        raise UsageError(f"{path}: there is no such file or folder: name a gate file, a folder or a test id")


def collected_gates(gates: str, *, options: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return all gates of a file, folder or test id, as `core.gate_exports.exported` describes them.

    Args:
        gates: as pytest takes it.
        options: further options for pytest.

    Raises:
        UsageError: pytest refuses the file, whose own words are shown first; or there is no gate in it.
    """
    refuse_missing(gates, options=options)
    with tempfile.TemporaryDirectory(prefix="specgate-gates-") as folder:
        file = Path(folder) / "gates.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *export_words(file), *options, gates]
        done = subprocess.run(  # noqa: S603  - our own interpreter, no shell
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            encoding="utf-8", errors="replace",
        )  # fmt: skip
        if done.returncode not in {0, _NOTHING_COLLECTED}:
            sys.stderr.write(done.stdout)
            raise UsageError(f"pytest cannot collect the gates of {gates}: its words stand above")
        found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["gates"]
    if not found:
        raise UsageError(f"{gates} has no gate: name a gate file, a folder or a test id, as pytest takes it")
    return found
