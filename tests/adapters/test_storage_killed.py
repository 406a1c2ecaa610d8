"""A process that is killed while it writes leaves the file that was there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.storage import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

_WRITER = """
import os
import sys
from pathlib import Path

from pytest_specgate.adapters.storage import write_atomically

owner, name = {place}


def stop_here(*_):
    # The parent kills this process; nothing below this line runs.
    print("inside", flush=True)
    sys.stdin.read()


setattr(owner, name, stop_here)
write_atomically(Path(sys.argv[1]), "new" * 100_000)
"""


@pytest.mark.parametrize("place", ['os, "fsync"', 'os, "fchmod"', 'Path, "replace"'])
def test_a_writer_killed_inside_leaves_the_old_file_whole(tmp_path: Path, place: str) -> None:
    """SIGKILL before the text, after it, or before it takes its place: the old text stands, and can be replaced."""
    path = tmp_path / "record.json"
    write_atomically(path, "old")
    command = [sys.executable, "-c", _WRITER.format(place=place), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None, "it was asked for"
        told = writer.stdout.readline()
        half_written = sorted(entry.name for entry in tmp_path.iterdir())
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()

    assert (told, writer.returncode) == ("inside\n", -signal.SIGKILL)
    assert len(half_written) == 2, "it was killed with its temporary file beside the old one"
    assert path.read_text() == "old"
    write_atomically(path, "newer")
    assert path.read_text() == "newer"


def test_a_file_left_by_a_killed_writer_is_no_record(tmp_path: Path) -> None:
    """What is left half-written has a hidden name that no pattern for records matches."""
    command = [sys.executable, "-c", _WRITER.format(place='Path, "replace"'), str(tmp_path / "record.json")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None, "it was asked for"
        writer.stdout.readline()
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()

    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".record.json.")
    assert list(tmp_path.glob("record.json")) == list(tmp_path.glob("*.json")) == []
