"""Attempts: windows of the same builds are counted when they start, without reading a record."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.adapters.attempts import NOTE_NAME, Subject, continued_in, note_attempt, note_continuation
from pytest_specgate.core.arms import Arm, ArmPair
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.thresholds import NoiseFloor, Threshold

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OFF = Arm("off", model="tiny", env={"HF_TOKEN": "one"})
LOAD = RequestProfile(input_tokens=16, output_tokens=16, requests={1: 10})
BUILD: dict[str, Any] = {"version": "0.32.0", "development": False, "prefix": "venvs/one"}
SHA = "a" * 64


def _pair(k: int = 4, **changes: Any) -> ArmPair:
    on = OFF.vary(f"k{k}", args={"speculative_config": {"method": "ngram", "num_speculative_tokens": k}})
    fields: dict[str, Any] = {"varies": "args.speculative_config", "profile": LOAD, **changes}
    return ArmPair(reference=OFF, candidate=on, **fields)


def _gate(name: str, pair: ArmPair, *, margin: float = 0.05) -> Gate:
    floor = NoiseFloor(0.01, "a made-up figure")
    return Gate(f"test_gate.py::{name}", pair, (Threshold("e2e_p50", 1, "not_worse", margin, floor),))


def _subject(*gates: Gate, pairs: tuple[ArmPair, ...] = (), **changes: Any) -> Subject:
    found = pairs or tuple(gate.pair for gate in gates) or (_pair(),)
    engine = {arm.name: BUILD for pair in found for arm in pair.arms}
    subject = Subject(pairs=found, gates=gates, engine=engine, settings={"args": []}, commit="c0ffee")
    return dataclasses.replace(subject, **changes)


@pytest.fixture
def starts(tmp_path: Path) -> Callable[[Subject], int]:
    """A function that starts a window of a subject, and tells which attempt it is."""
    folders = iter(range(100))
    return lambda subject: note_attempt(tmp_path, tmp_path / f"window-{next(folders):02d}", subject)


def test_windows_of_one_subject_are_counted(starts: Callable[[Subject], int]) -> None:
    """The first one is attempt 1, whatever else was measured in between."""
    one, other = _subject(_gate("one", _pair())), _subject(_gate("one", _pair(7)))

    assert [starts(subject) for subject in (one, one, other, one, other)] == [1, 2, 1, 3, 2]


_SAME: dict[str, Callable[[], Subject]] = {
    "margin": lambda: _subject(_gate("one", _pair(), margin=0.06)),
    "rounds": lambda: _subject(_gate("one", _pair(rounds=8))),
    "place": lambda: _subject(_gate("one", _pair()), engine={arm: {**BUILD, "prefix": "2"} for arm in ("off", "k4")}),
    "commit": lambda: _subject(_gate("one", _pair()), commit="another"),
    "more gates": lambda: _subject(_gate("one", _pair()), _gate("two", _pair(7))),
    "secret": lambda: _subject(
        _gate("one", dataclasses.replace(
            _pair(), reference=OFF.vary("off", env={"HF_TOKEN": "two"}),
            candidate=_pair().candidate.vary("k4", env={"HF_TOKEN": "two"}),
        ))
    ),
}  # fmt: skip


@pytest.mark.parametrize("again", _SAME.values(), ids=_SAME)
def test_what_is_no_other_subject(starts: Callable[[Subject], int], again: Callable[[], Subject]) -> None:
    """Neither another margin nor more rounds begin anew, nor does the same build in another place."""
    starts(_subject(_gate("one", _pair())))

    assert starts(again()) == 2


_OTHER: dict[str, Callable[[], Subject]] = {
    "gate": lambda: _subject(_gate("two", _pair())),
    "arm": lambda: _subject(_gate("one", _pair(7))),
    "load": lambda: _subject(_gate("one", _pair(profile=dataclasses.replace(LOAD, seed=7)))),
    "build": lambda: _subject(_gate("one", _pair()), engine={"off": BUILD, "k4": {**BUILD, "version": "0.33.0"}}),
    "settings": lambda: _subject(_gate("one", _pair()), settings={"args": ["--dtype=half"]}),
    "no gate": _subject,
}


@pytest.mark.parametrize("other", _OTHER.values(), ids=_OTHER)
def test_what_is_another_subject(starts: Callable[[Subject], int], other: Callable[[], Subject]) -> None:
    """Other builds, arms, loads and gates are other questions."""
    starts(_subject(_gate("one", _pair())))

    assert starts(other()) == 1


@pytest.mark.parametrize("facts", [{**BUILD, "development": True}, {"command": "python engine.py"}])
def test_the_commit_tells_builds_apart_that_do_not_tell_their_code(
    starts: Callable[[Subject], int], facts: dict[str, Any]
) -> None:
    """An editable install has one version for all that was ever changed in it."""
    engine = dict.fromkeys(("off", "k4"), facts)
    subjects = [_subject(_gate("one", _pair()), engine=engine, commit=commit) for commit in ("one", "two", "two")]

    assert [starts(subject) for subject in subjects] == [1, 1, 2]


def test_a_gate_that_is_measured_alone_counts_on(starts: Callable[[Subject], int]) -> None:
    """The usual way to try again is by the id of the test that failed, whose window has fewer gates."""
    one, two = _gate("one", _pair()), _gate("two", _pair(7))

    assert [starts(_subject(one, two)), starts(_subject(two)), starts(_subject(one)), starts(_subject(one, two))] == [
        1, 2, 2, 3,
    ]  # fmt: skip


def test_pairs_without_gates_are_counted_too(starts: Callable[[Subject], int]) -> None:
    """A test that reads a window may fail as a gate does."""
    assert [starts(_subject()), starts(_subject())] == [1, 2]


def test_a_continuation_is_no_attempt_of_its_own(tmp_path: Path, starts: Callable[[Subject], int]) -> None:
    """It carries the number on, also when the folder of the window that died is thrown away."""
    subject = _subject(_gate("one", _pair()))
    attempts = [starts(subject), starts(subject)]
    note_continuation(tmp_path / "window-50", subject, attempt=2, continues=SHA)
    for folder in ("window-00", "window-01"):
        (tmp_path / folder / NOTE_NAME).unlink()

    assert attempts == [1, 2]
    assert starts(subject) == 3


def test_who_went_on_with_a_record_is_found(tmp_path: Path) -> None:
    """By the hash of its file, and only if the window came to have a record itself."""
    subject = _subject(_gate("one", _pair()))
    note_attempt(tmp_path, tmp_path / "first", subject)
    note_continuation(tmp_path / "second", subject, attempt=1, continues=SHA)
    before = continued_in(tmp_path, SHA)
    (tmp_path / "second" / "record.json").write_text("{}", encoding="utf-8")

    assert before is None
    assert continued_in(tmp_path, SHA) == tmp_path / "second" / "record.json"
    assert continued_in(tmp_path, "b" * 64) is None
    assert continued_in(tmp_path / "never", SHA) is None


@pytest.mark.parametrize("text", ["", "{", '{"schema_version": 2, "attempts": {}}', '{"attempts": {"x": 0}}', "[]"])
def test_a_broken_note_is_passed_over(tmp_path: Path, starts: Callable[[Subject], int], text: str) -> None:
    """It is a note, and no reason to fail a gate."""
    subject = _subject(_gate("one", _pair()))
    starts(subject)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / NOTE_NAME).write_text(text, encoding="utf-8")

    assert starts(subject) == 2


def test_a_note_holds_hashes_only(tmp_path: Path) -> None:
    """Results are kept by CI systems, and a note beside them tells nothing of a server."""
    note_attempt(tmp_path, tmp_path / "first", _subject(_gate("one", _pair())))
    text = (tmp_path / "first" / NOTE_NAME).read_text(encoding="utf-8")
    note = json.loads(text)

    assert (note["schema_version"], note["continues"], list(note["attempts"].values())) == (1, "", [1])
    assert all(len(key) == 64 for key in note["attempts"])
    assert "HF_TOKEN" not in text
