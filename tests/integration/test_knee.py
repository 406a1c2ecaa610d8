"""`specgate knee`: which k, from what a run measured and from counters of other instruments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from pytest_specgate import cli
from pytest_specgate.adapters.storage import write_atomically
from pytest_specgate.core.schemas import published

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

_HORIZONS = """\
    OFF = arm("off", step_s_per_draft_token=0.0001, acceptance=[0.8, 0.7, 0.6, 0.5])
    LOAD = load(requests={1: 10, 4: 12})

    def spec(k):
        return OFF.vary(f"k{k}", args={"speculative_config": {"method": "ngram", "num_speculative_tokens": k}})

    def against(one, other):
        return pair(one, other, varies="args.speculative_config", profile=LOAD)

    @measured(against(OFF, spec(2)), against(spec(2), spec(4)))
    def test_horizons(): pass
    """


@pytest.fixture(scope="module")
def run(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """A window of off, k=2 and k=4, measured and not judged."""
    gates = new_gate_folder()
    gates.write("test_horizons.py", _HORIZONS)
    return gates.run("--specgate-html=page.html", "--specgate-json=out.json", "--specgate-markdown=out.md")


@pytest.fixture(scope="module")
def record(run: GateRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of that window, with times that no other load of the machine can turn."""
    assert run.exit_code == 0, run.output
    (path,) = run.results.glob("*/record.json")
    return Path(changed(path, tmp_path_factory.mktemp("steady"), steady))


@pytest.fixture
def published_curves(tmp_path: Path) -> list[str]:
    """The two published curves, as `specgate counters --json` would print them."""
    curves = {"k7": (60944, (44225, 29747, 19984, 13513, 9086, 6095, 3840)), "k4": (3478, (2508, 1607, 1033, 590))}
    paths = []
    for name, (drafts, positions) in curves.items():
        told = {"valid": True, "speculation": "on", "drafts": drafts, "draft_tokens": drafts * len(positions),
                "accepted_tokens": sum(positions), "accepted_per_position": positions}  # fmt: skip
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps(told), encoding="utf-8")
    return [str(path) for path in paths]


def changed(record: Path, folder: Path, edit: Callable[[dict[str, Any]], None]) -> str:
    """Write a changed copy of a record, and return its path."""
    stored = json.loads(record.read_text(encoding="utf-8"))
    edit(stored)
    write_atomically(folder / "record.json", json.dumps(stored))
    return str(folder / "record.json")


def steady(stored: dict[str, Any]) -> None:
    """Let all requests of an arm take the same time: that of off, or the less of it the longer drafts are."""
    for boot in stored["boots"]:
        share = {"off": 1.0, "k2": 0.7, "k4": 0.5}[boot["arm"]]
        times = {"ttft_s": 0.1, "first_text_s": 0.1, "last_token_s": 1.1, "closed_s": 1.2}
        for request in (one for point in boot["points"] for one in point["requests"]):
            request.update({name: share * time for name, time in times.items()}, sent_s=0.0)


def fail(stored: dict[str, Any]) -> None:
    """Let every boot of a record have failed."""
    for boot in stored["boots"]:
        boot["failure"] = {"reason": "server-died", "message": "it left", "detail": ""}


def test_the_command_tells_which_k(record: Path) -> None:
    """Identity first, then acceptance, horizons, and advice that names what it rests on."""
    command = [sys.executable, "-m", "pytest_specgate", "knee", str(record.parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    lines = done.stdout.splitlines()

    assert done.returncode == 0, done.stderr
    assert lines[0] == f"window: {record}"
    assert lines[1].startswith("request profile: ")
    assert "drafter: ngram; arms: off (off), k2 (k=2), k4 (k=4)" in lines
    assert "acceptance by position at c=1, accepted / drafts" in lines
    assert any(line.startswith("per-user speed (decode rate p50 at c=1): ") for line in lines)
    assert any(line.startswith("rests on: ") for line in lines)


def test_every_report_of_the_run_has_it(run: GateRun, record: Path) -> None:
    """Terminal, page, Markdown, and JSON by its published schema; the record tells the same afterwards."""
    whole = json.loads((run.folder / "out.json").read_text(encoding="utf-8"))
    page = (run.folder / "page.html").read_text(encoding="utf-8")

    jsonschema.validate(whole, published("report"))
    (window,) = whole["windows"]
    assert "which k" in run.summary
    assert "Which k</h3>" in page
    assert "#### Which k" in (run.folder / "out.md").read_text(encoding="utf-8")
    assert [one["objective"] for one in window["knee"]["advice"]] == ["per-user speed", "batch throughput", "latency"]
    assert {one["k"] for one in window["knee"]["sources"][0]["horizons"]} == {0, 1, 2, 3, 4}
    assert record.exists()


def test_json_is_valid_by_its_schema(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All loads, or those that were asked for."""
    statuses = [
        cli.main(["knee", str(record), "--json", *more]) for more in ([], ["--at", "c=4", "--at", "4", "--at=c4"])
    ]
    text = capsys.readouterr().out
    first, second = (json.loads(part) for part in (text[: text.index("\n}\n") + 2], text[text.index("\n}\n") + 3 :]))

    assert statuses == [0, 0]
    for one in (first, second):
        jsonschema.validate(one, published("knee"))
    assert [{curve["load"] for curve in one["sources"][0]["curves"]} for one in (first, second)] == [
        {"c=1", "c=4"}, {"c=4"},
    ]  # fmt: skip


def test_the_published_curves_say_k3_to_4(published_curves: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing for a batch and for latency; each is told where it crosses the cut."""
    status = cli.main(["knee", *published_curves])
    lines = capsys.readouterr().out.splitlines()

    assert status == 0
    assert "k=7 falls under 20 % between positions 4 and 5" in lines
    assert "k=4 falls under 20 % between positions 3 and 4" in lines
    assert [line for line in lines if line.startswith(("per-user", "batch", "latency"))] == [
        "per-user speed (by the cut alone): k=3 to 4",
        "batch throughput (output throughput): nothing tells",
        "latency (TTFT p50): nothing tells",
    ]


def test_another_cut_and_longer_horizons(published_curves: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A cut of 40 % as a share or in percent; beyond what was measured it is extrapolated, and says so."""
    statuses = [cli.main(["knee", *published_curves, "--cut", cut, "--up-to", "9"]) for cut in ("0.4", "40%")]
    first, second = capsys.readouterr().out.split("latency (TTFT p50): nothing tells\n")[:2]

    assert statuses == [0, 0]
    assert "per-user speed (by the cut alone): k=2\n" in first
    assert "k=9" in first
    assert "extrapolated from k=7" in first
    assert "would change it: curves alone do not tell what a position costs: a window of k=2 against off" in second


def test_floors_come_with_their_source(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A declared floor replaces what the record tells, and is quoted."""
    floors = ["--noise", "decode_rate_p50=3%", "--noise-source", "six A/A windows"]
    status = cli.main(["knee", str(record), *floors])
    text = capsys.readouterr().out

    assert status == 0
    assert "noise: floor of 3 % (six A/A windows)" in text
    assert "noise: told by the rounds alone" in text


def test_a_file_given_twice_counts_once(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Else a window would be its own witness."""
    status = cli.main(["knee", str(record), str(record.parent)])
    told = capsys.readouterr()

    assert status == 0
    assert sum(line.startswith("window: ") for line in told.out.splitlines()) == 1
    assert "given twice: it counts once" in told.err


def test_exit_statuses_tell_what_cannot_be_told(
    record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """4 where no window may be read, and the reason; 3 where nothing tells; curves beside a broken window do tell."""
    dead, plain = tmp_path / "dead", tmp_path / "plain"
    for folder in (dead, plain):
        folder.mkdir()

    def without_drafts(stored: dict[str, Any]) -> None:
        stored["pairs"] = []
        stored["arms"] = [one for one in stored["arms"] if one["name"] == "off"]
        stored["boots"] = [one for one in stored["boots"] if one["arm"] == "off"]

    invalid, nothing = changed(record, dead, fail), changed(record, plain, without_drafts)

    assert cli.main(["knee", invalid]) == 4
    assert capsys.readouterr().out.startswith(f"left out: {invalid}: the window holds no boot that served")
    assert cli.main(["knee", nothing]) == 3
    assert capsys.readouterr().out.startswith(f"left out: {nothing}: no arm that speculates was booted, so nothing is")
    assert cli.main(["knee", invalid, str(record)]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cut", "2"], "--cut='2' is no share between 0 and 1: write 0.2 or 20%"),
        (["--cut", "many"], "--cut='many' is no share"),
        (["--up-to", "0"], "'0' is no draft horizon"),
        (["--up-to", "65"], "horizons up to k=65: write 1 to 64"),
        (["--noise", "output_throughput=8%"], "a noise floor is a measured figure"),
        (["--noise-source", "six A/A windows"], "a noise floor is a measured figure"),
        (["--noise", "output_throughput=8%", "--noise-source", "?"], "a noise floor is a measured figure"),
        (
            ["--noise", "tpot=5%", "--noise-source", "six A/A windows"],
            "by decode_rate_p50, output_throughput, ttft_p50: write one of these, as --noise decode_rate_p50=5%",
        ),
        (["--noise", "8%", "--noise-source", "six A/A windows"], "write one of these, as --noise decode_rate_p50=8%"),
        (
            ["--noise", "ttft_p50=5%", "--noise", "ttft_p50=7%", "--noise-source", "six A/A windows"],
            "--noise='ttft_p50=7%': ttft_p50 has a floor already: give each metric one",
        ),
        (["--noise", "ttft_p50=0%", "--noise-source", "six A/A windows"], "is no floor"),
        (["--at", "9"], "nothing was measured at c=9: load levels are c=1, c=4"),
        (["--at", "often"], "--at: 'often' is no load level"),
        (["--at", "c0"], "--at: a concurrency of 0 sends nothing"),
        (["--k", "4"], "--k names the horizon that --snippet pins"),
        (["--drafter", "ngram"], "--drafter names the drafter that --snippet pins"),
        (["--snippet", "-", "--k", "3"], "--snippet: no window has both off and k=3: with off there are k=2, k=4"),
        (["--snippet", "-", "--drafter", "eagle"], "--drafter eagle: no window has it and off; there is ngram"),
        (["--snippet", "missing/test_k.py", "--k", "2"], "--snippet missing/test_k.py: there is no folder missing"),
    ],
)
def test_wrong_words_are_refused(
    record: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence that names thing and remedy, and exit status 2."""
    status = cli.main(["knee", str(record), *words])
    error = capsys.readouterr().err

    assert status == 2
    assert error.startswith("specgate: ")
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[1]", "is neither a window record nor what `specgate counters BEFORE AFTER --json` prints"),
        ('{"valid": true, "drafts": 4.5}', "is neither a window record"),
        ('{"valid": true, "surprise": 1}', "is neither a window record"),
        ('{"valid": false, "reason": "no-traffic", "message": "nothing was served"}', "can source nothing"),
        ('{"valid": true, "speculation": "off"}', "tells of no draft"),
        ('{"schema_version": 3}', "is no window record"),
    ],
)
def test_files_that_source_nothing_are_refused(
    tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with its name; counters are read strictly."""
    (tmp_path / "file.json").write_text(text, encoding="utf-8")
    status = cli.main(["knee", str(tmp_path / "file.json")])
    error = capsys.readouterr().err

    assert status == 2
    assert f"{tmp_path / 'file.json'}" in error
    assert message in error


def test_a_report_is_told_from_an_old_record(
    run: GateRun, record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both have a schema version; who gives what a command printed is told what it is, and what is wanted."""
    assert cli.main(["knee", str(record), "--json"]) == 0
    printed = tmp_path / "knee.json"
    printed.write_text(capsys.readouterr().out, encoding="utf-8")
    probed = tmp_path / "probe.json"
    probed.write_text(json.dumps(dict.fromkeys(published("acceptance")["required"])), encoding="utf-8")
    wanted = "and no window record: give the record.json of a window"

    for path, what in (
        (run.folder / "out.json", "the report of a run"),
        (printed, "what `specgate knee --json` prints"),
        (probed, "what `specgate probe --json` prints"),
    ):
        assert cli.main(["knee", str(path)]) == 2
        assert capsys.readouterr().err == f"specgate: {path} is {what}, {wanted}\n"


def test_a_gate_that_cannot_be_read_is_named(record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its floors would be missing, so the record is refused."""
    broken = changed(record, tmp_path, lambda stored: stored.update(gates=[{"id": "a", "reference": "x"}]))

    assert cli.main(["knee", broken]) == 2
    assert capsys.readouterr().err.startswith(f"specgate: {broken}: ")


def faster(stored: dict[str, Any], *, times: float = 20.0, arms: tuple[str, ...] = ("k2", "k4")) -> None:
    """Let the requests of some arms take so many times less time."""
    for boot in stored["boots"]:
        for point in boot["points"] if boot["arm"] in arms else ():
            for request in point["requests"]:
                for name in ("ttft_s", "first_text_s", "last_token_s", "closed_s"):
                    request[name] /= times


def test_a_horizon_is_pinned_by_a_gate_file(record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It compiles, says what it pins and how it is run, and replaces no file."""
    target = tmp_path / "test pinned.py"
    fast = changed(record, tmp_path, faster)
    statuses = [cli.main(["knee", fast, "--snippet", str(target), "--k", "4"]) for _ in range(2)]
    told = capsys.readouterr()
    text = target.read_text(encoding="utf-8")

    assert statuses == [0, 2]
    first, *ruled = told.out.splitlines()
    assert first == f"{target} pins k=4 against off, as measured by {fast}; run it: pytest '{target}'"
    assert all(line.startswith("the pinned k=4 is ruled out for ") for line in ruled)
    assert "it is there already" in told.err
    compile(text, str(target), "exec")
    assert "def test_k4_against_off() -> None:" in text


def test_without_k_the_advice_is_pinned_where_off_is_beaten(
    record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Printed, the file is all that is printed; a declared floor is written into it."""
    words = ["--noise", "decode_rate_p50=3%", "--noise-source", "six A/A windows", "--snippet", "-"]
    fast = changed(record, tmp_path, lambda stored: faster(stored, arms=("k2",)))
    status = cli.main(["knee", fast, *words, "--drafter", "ngram"])
    text = capsys.readouterr().out

    assert status == 0
    assert text.startswith("# k=2, as it was measured against speculation off")
    assert '"decode_rate_p50": noise_floor("3%", source="six A/A windows"),' in text
    compile(text, "test_pinned.py", "exec")


def test_who_pins_what_another_horizon_beats_is_told(
    record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under the command that runs the file, and in the file; whoever names a k has it pinned all the same."""
    words = ["--noise-source", "six A/A windows"]
    for name in ("decode_rate_p50", "output_throughput", "ttft_p50"):
        words += ["--noise", f"{name}=3%"]

    def both(stored: dict[str, Any]) -> None:
        faster(stored)
        faster(stored, arms=("k2",))

    target = tmp_path / "test_k4.py"
    status = cli.main(["knee", changed(record, tmp_path, both), *words, "--snippet", str(target), "--k", "4"])
    _, note = capsys.readouterr().out.splitlines()
    text = target.read_text(encoding="utf-8")

    assert status == 0
    assert note.startswith("the pinned k=4 is ruled out for per-user speed at c=1 by k=2")
    assert "\n# the pinned k=4 is ruled out for per-user speed at c=1 by k=2" in text
    assert '    better("decode_rate_p50", at=1, by="' in text


def test_where_nothing_has_beaten_off_a_horizon_has_to_be_named(
    record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And one that has lost everything is not pinned even then."""
    words = ["--snippet", "-"]
    for name in ("decode_rate_p50", "output_throughput", "ttft_p50"):
        words += ["--noise", f"{name}=3%"]
    words += ["--noise-source", "six A/A windows"]
    slow = changed(record, tmp_path, lambda stored: faster(stored, times=1 / 20))
    statuses = [cli.main(["knee", slow, *words, *more]) for more in ([], ["--k", "2"])]
    first, second = capsys.readouterr().err.splitlines()

    assert statuses == [2, 2]
    assert first.startswith("specgate: --snippet: no measured k is to be pinned (per-user speed: off; ")
    assert first.endswith("): name the one that is with --k")
    assert second.startswith("specgate: no gate file pins k=2, of which nothing can be claimed against off: ")


def test_two_drafters_are_not_guessed_between(record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is pinned when it is named."""

    def other(stored: dict[str, Any]) -> None:
        faster(stored)
        for arm in stored["arms"]:
            if arm["name"] == "k4":
                arm["args"]["speculative_config"]["method"] = "suffix"

    both = changed(record, tmp_path, other)
    statuses = [cli.main(["knee", both, "--snippet", "-", *more]) for more in ([], ["--drafter", "ngram", "--k", "2"])]
    told = capsys.readouterr()

    assert statuses == [2, 0]
    assert "--snippet: ngram, suffix were measured: name the one to be pinned with --drafter" in told.err
    assert "def test_k2_against_off() -> None:" in told.out


def test_no_gate_file_comes_of_an_invalid_window(
    record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 4 and the reason; standard output is the file's, and stays empty."""
    status = cli.main(["knee", changed(record, tmp_path, fail), "--snippet", "-"])
    told = capsys.readouterr()

    assert status == 4
    assert told.out == ""
    assert told.err.startswith("specgate: left out: ")


def test_folders_without_a_record_are_named_and_left_out(
    record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results hold logs of servers, too, which `*` names; where there is nothing else that is an error."""
    logs = tmp_path / "servers-1"
    logs.mkdir()
    statuses = [cli.main(["knee", str(logs), *more]) for more in ([str(record)], [])]
    told = capsys.readouterr()

    assert statuses[0] in {0, 3}
    assert statuses[1] == 2
    assert f"window: {record}" in told.out
    assert f"specgate: {logs} has no record.json, so it is left out" in told.err
    assert f"specgate: {logs} has no record.json: name the folder of one window" in told.err
