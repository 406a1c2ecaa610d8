"""`specgate selftest`: real gates that go red and stay green, and what is said of gates that do neither."""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_specgate import cli
from pytest_specgate.adapters.storage import load_record
from pytest_specgate.cli import selftest, selftest_words
from pytest_specgate.core.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.alone

JSON_KEYS = {
    "outcome", "reason", "expected", "slowed", "metric", "margin", "change", "interval", "pytest_exit_code", "proved",
}  # fmt: skip

# The machine is shared with other tests: late stamps are no subject here.
PATIENT = "from pytest_specgate.core import validity\n\nvalidity.LAG_S = 60.0\n"

GREEN_WITHOUT_A_GATE = "def test_selftest():\n    pass\n"
INTERRUPTED = """\
import os, time

def test_selftest(capfd):
    with capfd.disabled():
        os.write(1, b"\\npid %d\\n" % os.getpid())
        time.sleep(600)
"""

Said = tuple[int, str, tuple[float, float] | None]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep temporary folders and the lock of the machine apart from everybody's; give the place of the former."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("SPECGATE_STATE_DIR", str(tmp_path / "state"))
    return place


@pytest.fixture
def gate_says(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that lets the gates of a self-test say what they are told to, one after another, without running."""

    def prepare(*said: Said) -> None:
        codes, verdicts = iter([code for code, _, _ in said]), iter(said)

        def stated(folder: Path) -> Verdict | None:
            _, outcome, interval = next(verdicts)
            return verdict_of(outcome, interval=interval) if outcome else None

        monkeypatch.setattr(selftest, "_pytest", lambda *_, **__: (next(codes), ["= specgate =", "the tables"]))
        monkeypatch.setattr(selftest, "_verdict", stated)

    return prepare


def verdict_of(outcome: str, *, interval: tuple[float, float] | None) -> Verdict:
    """Return a verdict with nothing of interest but its outcome and interval."""
    low, high = interval or (None, None)
    return Verdict(
        gate="g", threshold="t", pair="p", metric="tpot_p50", at=5, kind="not_worse", limit=0.02, claim="c",
        outcome=Outcome(outcome), reason="r", summary=f"{outcome}: told so", change_low=low, change_high=high,
        change=sum(interval) / 2 if interval else None,
    )  # fmt: skip


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """Run the command with ``--json`` and return its exit status and the only thing that it printed."""
    status = cli.main(["selftest", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_case_138_a_slowed_arm_turns_the_gate_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 138: steps 50 % longer are a FAIL beyond the margin, and pytest's exit status 1; files can be kept."""
    monkeypatch.setattr(selftest, "_GATE_FILE", PATIENT + selftest._GATE_FILE)
    # What a user sets for gates of their own must not reach this one.
    monkeypatch.setenv("SPECGATE_ROUNDS", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    status, found = as_json(capsys, "--slow", "50%", "--keep", str(tmp_path / "kept"))
    (record_path,) = tmp_path.glob("kept/slow/specgate-results/*/record.json")
    usual, slowed = load_record(record_path).arms

    assert (status, found["proved"]) == (0, True)
    assert found.keys() == JSON_KEYS
    assert (found["outcome"], found["expected"], found["pytest_exit_code"]) == ("FAIL", "FAIL", 1)
    assert found["interval"][0] > found["margin"] == 0.02
    assert found["interval"][0] <= found["change"] <= found["interval"][1]
    assert usual.args["fake"] == {"step_s": 0.02}
    assert slowed.args["fake"] == {"step_s": 0.03, "seed": 1}
    assert (tmp_path / "kept" / "slow" / "test_slow.py").is_file()


def test_equal_arms_leave_the_gate_green(
    own_folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two equal arms are a PASS; the plugin's summary is shown, one sentence ends it, and no file is left."""
    monkeypatch.setattr(selftest, "_GATE_FILE", PATIENT + selftest._GATE_FILE)
    # Wide, so that tests beside this one cannot make it undecided.
    monkeypatch.setattr(selftest, "_MARGIN", 0.2)
    status = cli.main(["selftest", "--aa"])
    lines = capsys.readouterr().out.splitlines()

    assert status == 0
    assert lines[0].startswith("--aa: running a gate against the fake engine")
    assert lines[1].strip("=") == " specgate "
    assert "1 of 1 threshold judged: 1 PASS" in lines
    assert lines[-1].startswith(
        "selftest --aa: both arms had the same engine steps (20 ms), so TPOT truly stays the same; the gate measured"
    )
    assert lines[-1].endswith(
        "said PASS, and pytest ended with exit status 0: proved, a gate here stays green when no arm is slower."
    )
    assert list(own_folders.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "said", "status", "words"),
    [
        pytest.param("--slow=5%", (1, "FAIL", (0.03, 0.06)), 0, "proved, a gate here goes red", id="red"),
        pytest.param("--slow=5%", (0, "PASS", (-0.01, 0.01)), 1, "NOT proved", id="blind"),
        pytest.param("--slow=5%", (0, "FAIL", (0.03, 0.06)), 1, "NOT proved", id="red-word-green-exit"),
        pytest.param("--slow=5%", (1, "FAIL", (0.01, 0.06)), 1, "NOT proved", id="red-within-the-margin"),
        pytest.param("--slow=5%", (1, "INCONCLUSIVE", (0.01, 0.06)), 3, "did not suffice", id="undecided"),
        pytest.param("--slow=5%", (0, "INCONCLUSIVE", (0.01, 0.06)), 1, "NOT proved", id="undecided-green"),
        pytest.param("--slow=5%", (1, "INVALID", None), 4, "said INVALID: told so, and", id="invalid"),
        pytest.param("--slow=5%", (2, "", None), 4, "no gate was judged", id="nothing"),
        pytest.param("--aa", (0, "PASS", (-0.01, 0.01)), 0, "proved, a gate here stays green", id="green"),
        pytest.param("--aa", (1, "PASS", (-0.01, 0.01)), 1, "NOT proved", id="green-word-red-exit"),
        pytest.param("--aa", (1, "FAIL", (0.03, 0.06)), 1, "NOT proved", id="false-alarm"),
        pytest.param("--aa", (0, "INVALID", None), 1, "NOT proved", id="invalid-green"),
    ],
)
def test_word_interval_and_exit_code_must_all_fit(  # noqa: PLR0913  - one row, and two fixtures
    gate_says: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    *,
    option: str,
    said: Said,
    status: int,
    words: str,
) -> None:
    """Only the expected word with its interval and pytest's own exit status prove the gate; all else has its status."""
    gate_says(said, said)
    left = cli.main(["selftest", option])
    sentence = capsys.readouterr().out.splitlines()[-1]
    cli.main(["selftest", option, "--json"])
    quiet = capsys.readouterr()
    found = json.loads(quiet.out)

    assert left == status
    assert words in sentence
    assert quiet.err.endswith("" if found["proved"] else sentence + "\n")
    assert found["proved"] is (status == 0)


def test_a_change_of_nothing_has_no_minus() -> None:
    """What is rounded to 0 is no change, and no end of an interval is a negative zero."""
    verdict = verdict_of("PASS", interval=(-0.0004, -0.0002))
    told = selftest_words.sentence(selftest.Finding(selftest.Check("--aa", 0.0, 0.02), 0, verdict))

    assert "the gate measured +0.0 % (interval +0.0 .. +0.0 %)" in told


def test_without_options_both_are_done_with_one_margin(
    gate_says: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A bare `selftest` is equal arms, then one slowed by 20 %, judged by the same margin."""
    gate_says((0, "PASS", (-0.01, 0.01)), (1, "FAIL", (0.17, 0.22)))
    status, found = as_json(capsys)

    assert status == 0
    assert list(found) == ["aa", "slow", "proved"]
    assert found["aa"].keys() == found["slow"].keys() == JSON_KEYS
    assert (found["aa"]["slowed"], found["slow"]["slowed"], found["proved"]) == (0.0, 0.2, True)
    assert found["aa"]["margin"] == found["slow"]["margin"] == 0.02


def test_one_failure_of_two_decides(gate_says: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    """Where one check proves the gate and the other does not, the worse one is the exit status."""
    gate_says((1, "INCONCLUSIVE", (-0.01, 0.03)), (0, "PASS", (-0.01, 0.01)))
    status, found = as_json(capsys, "--aa", "--slow", "3%")

    assert (status, found["proved"]) == (1, False)
    assert found["aa"]["margin"] == found["slow"]["margin"] == 0.015


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--slow", "5"], "--slow='5' is not a percentage"),
        (["--slow", ""], "--slow is empty: give it a value or leave it out"),
        (["--slow", "0%"], "--slow='0%' cannot be tested: name more than 0% and at most 1000%"),
        (["--slow", "5000%"], "--slow='5000%' cannot be tested"),
        (["--keep", "full"], "--keep full is not empty: name a new folder"),
        (["--keep", "full/file"], "--keep full/file cannot be used: File exists: name a new folder"),
    ],
)
def test_wrong_usage_starts_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    arguments: list[str],
    sentence: str,
) -> None:
    """A percentage without its unit or of nothing, and a folder that holds something, are refused in one sentence."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    status = cli.main(["selftest", *arguments])
    shown = capsys.readouterr()

    assert (status, shown.out) == (2, "")
    assert sentence in shown.err


def test_a_green_run_that_judged_nothing_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A test file that passes without any gate is the very thing that a self-test must not call proved."""
    monkeypatch.setattr(selftest, "_GATE_FILE", GREEN_WITHOUT_A_GATE)
    status, found = as_json(capsys, "--slow", "5%")

    assert (status, found["outcome"], found["pytest_exit_code"], found["proved"]) == (1, None, 0, False)
    assert found["interval"] is None


def test_what_a_broken_run_printed_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gate file that cannot be read judges nothing; pytest's own words say why, on stderr beside JSON."""
    monkeypatch.setattr(selftest, "_GATE_FILE", "import no_such_module\n")
    told = cli.main(["selftest", "--aa"]), capsys.readouterr()
    quiet = cli.main(["selftest", "--aa", "--json"]), capsys.readouterr()

    assert (told[0], quiet[0]) == (4, 4)
    assert "No module named 'no_such_module'" in told[1].out
    assert told[1].out.splitlines()[-1].endswith("this proves nothing, and needs mending first.")
    assert json.loads(quiet[1].out)["outcome"] is None
    assert "No module named 'no_such_module'" in quiet[1].err


def test_an_interrupt_ends_pytest_and_leaves_no_files(
    own_folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An interrupted self-test leaves neither the pytest that it started nor its folder."""
    heard: list[str] = []

    def interrupt(line: str) -> str:
        if line.startswith("pid "):
            heard.append(line.removeprefix("pid "))
            raise KeyboardInterrupt
        return line

    monkeypatch.setattr(selftest, "_GATE_FILE", INTERRUPTED)
    monkeypatch.setattr(selftest, "_heard", interrupt)
    status = cli.main(["selftest", "--aa"])

    assert status == 130
    assert not psutil.pid_exists(int(heard[0]))
    assert list(own_folders.iterdir()) == []


def test_a_wait_for_other_gates_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """While another gate measures here, the self-test says for whom it waits, beside what a program reads."""
    lines = ["specgate: waiting up to 3600 s for this machine, in use by pid 1", "specgate: round 1 of 4"]

    assert [selftest._heard(line) for line in lines] == lines
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", lines[0] + "\n")


def test_only_the_lock_is_taken_over_from_the_user() -> None:
    """Variables that steer pytest or gates are not for the gate of the self-test, except where the lock is."""
    given = {
        "PATH": "/bin", "PYTEST_ADDOPTS": "-x", "SPECGATE_ROUNDS": "1", "SPECGATE_ATTACH": "usual=http://h",
        "SPECGATE_STATE_DIR": "/s", "SPECGATE_LOCK_WAIT": "5", "GITHUB_STEP_SUMMARY": "/job/summary.md",
    }  # fmt: skip

    assert set(selftest._environment(given)) == {"PATH", "SPECGATE_STATE_DIR", "SPECGATE_LOCK_WAIT"}
