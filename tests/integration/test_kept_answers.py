"""What a record keeps of the answers, through the front door: the time of every chunk, and no word where told so."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.chunk_times import decode
from pytest_specgate.testing.answers import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_specgate.core.records import RequestRecord, WindowRecord
    from tests.integration.conftest import GateFolder, GateRun

SPOKEN = re.compile(f"(?:{'|'.join(WORDS)}){{4}}")
"""Four words in a row as the fake model says them; no prompt and no report says that."""

_GATES = """\
    LOAD = load(requests={1: 4}, output_tokens=32)
    OFF, OTHER = arm("off"), arm("other", seed=1, altered_answers=0.5)


    @gate(pair(OFF, OTHER, profile=LOAD), outputs_agree(at=1, at_least="100%"))
    def test_same(): pass


    @gate(pair(OFF, OTHER, profile=LOAD), SPEED)
    def test_speed(): pass
    """


@pytest.fixture(scope="module")
def bare(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Two arms of which one gives other answers to some prompts; no answers are kept, but all times of their chunks."""
    gates = new_gate_folder()
    gates.write("test_bare.py", _GATES)
    return gates.run("--specgate-answers=drop", "--specgate-chunk-times")


def requests(record: WindowRecord) -> Iterator[RequestRecord]:
    """Yield all requests of a window."""
    for boot in record.boots:
        for point in boot.points:
            yield from point.requests


def files(run: GateRun) -> list[Path]:
    """Return what the run has written, without the logs of its servers."""
    return [path for path in (run.folder / "junit.xml", *run.results.rglob("*")) if path.is_file()]


def test_the_time_of_every_chunk_is_in_the_record(bare: GateRun) -> None:
    """Decoded, the times of each request agree with its first and its last one, and with their number."""
    found = list(requests(bare.record))

    assert len(found) == 2 * 2 * 4
    for request in found:
        times_s = decode(request.chunk_times or "")
        assert len(times_s) == request.token_events >= 32
        assert times_s[0] == pytest.approx(request.ttft_s, abs=1e-6)
        assert times_s[-1] == pytest.approx(request.last_token_s, abs=1e-6)
        assert all(one <= other for one, other in itertools.pairwise(times_s))


def test_without_the_option_no_times_are_kept(healthy: GateRun) -> None:
    """By default a record has the summary of the gaps, and the answers."""
    found = list(requests(healthy.record))

    assert {request.chunk_times for request in found} == {None}
    assert all(request.text and SPOKEN.search(request.text) for request in found)


def test_no_word_of_an_answer_is_in_any_file(bare: GateRun, healthy: GateRun) -> None:
    """Where answers are dropped, nothing that the model said is in the record, the junit report or the output."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in files(bare) if path.suffix != ".log"}

    assert texts.keys() >= {"junit.xml", "record.json"}
    assert [name for name, text in texts.items() if SPOKEN.search(text)] == []
    assert SPOKEN.search(bare.output) is None
    assert any(SPOKEN.search(path.read_text(encoding="utf-8")) for path in files(healthy) if path.suffix != ".log")


def test_dropped_answers_are_compared_by_their_hashes(bare: GateRun) -> None:
    """Other answers are found all the same; the report says why it cannot show where they differ."""
    same = bare.cases["test_same[c1-outputs_agree]"]
    found = [request.text for request in requests(bare.record)]

    assert set(found) == {None}
    assert same.outcome == "FAIL"
    assert bare.cases["test_speed[c1-output_throughput-not_worse]"].outcome == "PASS"
    assert "where they differ is not known, as their texts were not kept (the first is request " in bare.summary
    assert "where they differ is not known, as their texts were not kept (the first is request " in str(same.failure)
    assert "off with itself across rounds: 4 of 4" in bare.summary
