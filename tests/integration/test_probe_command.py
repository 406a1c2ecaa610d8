"""`specgate probe`: one speculative arm is measured without a gate file, and what came of it is kept as one."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import runpy
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jsonschema
import pytest

from pytest_specgate import AcceptanceProbe, Arm, RequestProfile, cli
from pytest_specgate.adapters.storage import RECORD_NAME, load_record, stable_text, write_atomically
from pytest_specgate.cli import probe_result
from pytest_specgate.cli.probe_result import ProbeRun
from pytest_specgate.core.acceptance_report import AcceptanceReport
from pytest_specgate.names import GATE_MARK
from pytest_specgate.testing import ENGINE_COMMAND, FakeSettings, fake_vllm

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN: Final = "hf_abcdefghijklmnop1234"
KEY: Final = "words-of-a-secret"
NGRAM: Final = '{"method": "ngram", "num_speculative_tokens": 4}'
ARM: Final = ("--model", "fake-model", "--speculative-config", NGRAM)
LOAD: Final = ("--input-tokens", "16", "--output-tokens", "32", "--requests", "1=4")
# The machine is shared with other tests: late stamps are no subject here.
PATIENT: Final = "from pytest_specgate.core import validity\n\nvalidity.LAG_S = 60.0\n"
SCHEMA: Final = Path(__file__).parents[2] / "docs" / "schema" / "acceptance-1.json"
QUICK: Final = tuple(f"--option=-p{name}" for name in ("patient", "no:hypothesispytest", "no:anyio"))


@dataclasses.dataclass(frozen=True)
class Ran:
    """What came of the command.

    Attributes:
        folder: where it ran.
        status: with which it ended.
        out: what it printed.
        err: what it printed beside that.
    """

    folder: Path
    status: int
    out: str
    err: str

    @property
    def window(self) -> Path:
        """The folder of the only window."""
        (record,) = self.folder.glob(f"*/*/{RECORD_NAME}")
        return record.parent


@contextlib.contextmanager
def own_place(folder: Path) -> Iterator[None]:
    """Run what is inside in a folder of its own, apart from everybody's settings."""
    folder.mkdir(exist_ok=True)
    plugins = folder.parent / "plugins"
    plugins.mkdir(exist_ok=True)
    (plugins / "patient.py").write_text(PATIENT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setattr(tempfile, "tempdir", str(folder))
        patched.setenv("SPECGATE_STATE_DIR", str(folder / "state"))
        patched.setenv("PYTHONPATH", str(plugins))
        # What is meant for the user's own gates does not steer the probe.
        patched.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary.md"))
        patched.setenv("SPECGATE_ROUNDS", "1")
        patched.setenv("PYTEST_ADDOPTS", "--collect-only")
        yield


def ran(folder: Path, *arguments: str) -> Ran:
    """Run the command in a folder."""
    out, err = io.StringIO(), io.StringIO()
    with own_place(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main(["probe", *ARM, *LOAD, *QUICK, *arguments])
    return Ran(folder, status, out.getvalue(), err.getvalue())


def started(folder: Path, *arguments: str, **fake: Any) -> Ran:
    """Run the command on a fake engine with some settings."""
    args = json.dumps({"fake": {"step_s": 0.001, **fake}, "api_key": KEY})
    return ran(folder, f"--engine-command={ENGINE_COMMAND}", "--engine-args", args, *arguments)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A probe of two boots whose limits are kept, with secrets among its settings."""
    return started(
        tmp_path_factory.mktemp("kept"), "--env", f"HF_TOKEN={TOKEN}", "PLAIN=1", "--at-least", "acceptance_length=1.2",
        "acceptance_rate_position_1=10%", acceptance=[0.9, 0.8], draft_lengths=[4, 4, 2],
    )  # fmt: skip


def told_of(kept: Ran, *, as_json: bool = False, exit_code: int = 0) -> int:
    """Tell once more of what was measured."""
    run = ProbeRun(exit_code, ["what pytest printed"], {"windows": [{"record": str(kept.window / RECORD_NAME)}]})
    return probe_result.tell_measured(run, as_json=as_json, again="", secrets=())


def test_a_probe_shows_acceptance_and_what_to_do_next(kept: Ran) -> None:
    """Identity comes first, then acceptance at both temperatures, the limits, the record and the next commands."""
    place = kept.window.relative_to(kept.folder)

    assert kept.status == 0, kept.err
    assert kept.out.startswith("probe: measuring 2 boots of k4\n")
    assert "fields identical\nacceptance of k4, 2 boots pooled" in kept.out
    assert "intervals: 95 %, over 4 prompts\n" in kept.out
    assert "c=1 T=0.8" in kept.out
    assert "4 of 4 thresholds judged: 4 PASS" in kept.out
    assert f"record: {place}/record.json" in kept.out
    assert f"    specgate knee {place}/record.json\n    specgate ceiling {place}/record.json\n" in kept.out
    assert "specgate: round 2 of 2: k4: starting its server\n" in kept.err


def test_the_gate_file_beside_the_record_measures_the_same(kept: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept is a whole gate file that declares the probe that was measured."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("PROBE_API_KEY", KEY)
    found = runpy.run_path(str(kept.window / "acceptance_probe.py"))
    args = {
        "fake": {"step_s": 0.001, "acceptance": [0.9, 0.8], "draft_lengths": [4, 4, 2]},
        "api_key": KEY,
        "speculative_config": json.loads(NGRAM),
        "per_request_spec_decode_metrics": "detailed",
    }
    arm = Arm("k4", model="fake-model", args=args, env={"HF_TOKEN": TOKEN, "PLAIN": "1"})
    profile = RequestProfile(input_tokens=16, output_tokens=32, requests={1: 4})
    (mark,) = (mark for mark in found["test_acceptance"].pytestmark if mark.name == GATE_MARK)

    assert found["PROBE"] == AcceptanceProbe(arm=arm, profile=profile, temperatures=(0.0, 0.8), boots=2)
    assert [threshold.id for threshold in mark.args[1:]] == [
        "c1-acceptance_length-at_least", "c1-t0.8-acceptance_length-at_least",
        "c1-acceptance_rate_position_1-at_least", "c1-t0.8-acceptance_rate_position_1-at_least",
    ]  # fmt: skip
    assert f"pytest {kept.window.relative_to(kept.folder)}/acceptance_probe.py " in kept.out


def test_no_secret_reaches_a_file_or_the_terminal(kept: Ran) -> None:
    """Secrets among arguments and variables are taken from the environment, and stand nowhere in clear."""
    files = [path for path in kept.folder.rglob("*") if path.is_file()]
    found = [path for path in files if any(secret.encode() in path.read_bytes() for secret in (TOKEN, KEY))]

    assert found == []
    assert not any(secret in text for secret in (TOKEN, KEY) for text in (kept.out, kept.err))
    assert "it takes secrets from the environment: PROBE_API_KEY, HF_TOKEN" in kept.out


def test_nothing_is_left_where_it_ran(kept: Ran) -> None:
    """The folder that pytest ran in is gone; results stand where they always do, and no job gets a summary of it."""
    assert {path.name for path in kept.folder.iterdir()} == {"specgate-results", "state"}


def test_as_json_every_figure_has_its_interval(kept: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    """One object holds the record, each level with its counts and intervals, and the limits."""
    with own_place(kept.folder):
        status = told_of(kept, as_json=True)
    printed = capsys.readouterr().out
    jsonschema.validate(json.loads(printed), json.loads(SCHEMA.read_text(encoding="utf-8")))
    report = AcceptanceReport.model_validate_json(printed)
    greedy, sampled = (level.figures for level in report.levels)

    assert (status, report.valid, report.k, report.boots) == (0, True, 4, 2)
    assert [(level.load, level.temperature) for level in report.levels] == [("c=1", 0.0), ("c=1 T=0.8", 0.8)]
    assert greedy is not None
    assert sampled is not None
    assert (greedy.basis, greedy.samples) == ("prompts", 4)
    assert greedy.acceptance_length == pytest.approx(1 + greedy.accepted_tokens / greedy.drafts)
    assert greedy.short_draft_tokens == 4 * greedy.drafts - greedy.draft_tokens > 0
    assert greedy.tokens_per_step_low < greedy.tokens_per_step < greedy.tokens_per_step_high  # type: ignore[operator]
    assert [one.position for one in sampled.positions] == [1, 2, 3, 4]
    assert all(one.rate_low <= one.rate <= one.rate_high for one in greedy.positions)  # type: ignore[operator]
    assert all(one.of_proposed_low == one.of_proposed_high >= one.rate for one in greedy.positions)
    assert [limit["outcome"] for limit in report.limits] == ["PASS"] * 4
    assert (kept.folder / report.record).is_file()  # type: ignore[operator]
    assert (kept.folder / report.gate_file).is_file()  # type: ignore[operator]


def test_a_pytest_that_failed_for_another_reason_is_no_success(kept: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    """Where all limits are kept and pytest was red all the same, its words are shown and nothing is proved."""
    with own_place(kept.folder):
        status = told_of(kept, exit_code=3)

    assert status == 4
    assert capsys.readouterr().err == "what pytest printed\nspecgate: pytest ended with exit status 3: see above\n"


@pytest.mark.parametrize("whole", [1, 0])
def test_a_window_that_was_cut_short_is_not_the_whole_answer(
    kept: Ran, tmp_path: Path, whole: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was measured until a budget was spent is shown, and the exit status says that it is not all."""
    record = load_record(kept.window / RECORD_NAME)
    boots = record.boots[:whole]
    part = record.model_copy(update={"stopped": "the budget was spent", "boots": boots, "verdicts": (), "gates": ()})
    write_atomically(tmp_path / RECORD_NAME, stable_text(part))
    run = ProbeRun(0, [], {"windows": [{"record": str(tmp_path / RECORD_NAME)}]})
    status = probe_result.tell_measured(run, as_json=True, again="", secrets=())

    assert status == 3
    assert json.loads(capsys.readouterr().out)["stopped"] == "the budget was spent"


def test_a_broken_limit_is_told(tmp_path: Path) -> None:
    """A limit that a boot does not reach ends with 1, and the boots after it are not run."""
    limits = ("--at-least", "acceptance_rate=90%", "acceptance_length=4.9")
    run = started(tmp_path, *limits, "--temperature", "0.8", "--no-per-request", acceptance=[0.1])
    record = load_record(run.window / RECORD_NAME)

    assert run.status == 1, run.err
    assert "FAIL (at least 90 %)" in run.out
    assert "32 output tokens at temperature 0.8, 4 requests at c=1\n" in run.out
    assert run.out.count("\nFAIL acceptance_probe.py::test_acceptance c1-acceptance_") == 2
    assert len(record.boots) == 1
    assert "per_request_spec_decode_metrics" not in record.arms[0].args
    assert "specgate knee" in run.out


def test_an_arm_that_never_drafts_sources_nothing(tmp_path: Path) -> None:
    """Readings without a draft between them have no acceptance: as JSON no figure, the reason, and exit status 4."""
    run = started(tmp_path, "--temperature", "0", "--boots", "1", "--json", never_draft=True)
    report = AcceptanceReport.model_validate_json(run.out)

    assert run.status == 4, run.err
    assert not report.valid
    assert [level.figures for level in report.levels] == [None]
    assert (report.reason, report.levels[0].reason) == ("speculation-inactive", "speculation-inactive")
    assert report.message == report.levels[0].message
    assert (report.message or "").startswith("arm k4 at c=1: speculation did not run: ")
    assert (run.window / "acceptance_probe.py").read_text(encoding="utf-8").count("@measured(PROBE)") == 1


def test_a_server_that_does_not_start_ends_with_4(tmp_path: Path) -> None:
    """The summary says why, no next command is named, and an engine that is too old for a flag gets its remedy."""
    words = f"error: unrecognized arguments: --per-request-spec-decode-metrics detailed {TOKEN}"
    run = started(tmp_path, "--boots", "1", exit_at_start=2, exit_message=words)

    assert run.status == 4
    assert "no figures (server-start): arm k4: its server left while starting, with exit code 2" in run.out
    assert "what may not be read sources nothing" in run.out
    assert "specgate knee" not in run.out
    assert "does not know --per-request-spec-decode-metrics: leave it out with --no-per-request" in run.out
    assert TOKEN not in run.out


def test_an_attached_server_is_measured_once_and_left_running(tmp_path: Path) -> None:
    """Nothing is started, what cannot be proved is said, and the server still answers."""
    with fake_vllm(FakeSettings(step_s=0.001), speculative_config=json.loads(NGRAM)) as server:
        run = ran(tmp_path, "--attach", server.url, "--temperature", "0", "--results", "here")
        server.metrics()

    assert run.status == 0, run.err
    assert run.out.startswith("probe: measuring 1 boot of k4\n")
    assert "k4 was attached, so this is not proved: the command, arguments and environment" in run.out
    assert "too narrow" in run.out
    assert run.window.parent.name == "here"
    assert f"--specgate-attach=k4={server.url}" in run.out


@pytest.mark.parametrize("environment", [{}, {"VLLM_SERVER_DEV_MODE": "1"}])
def test_an_attached_server_of_another_horizon_is_told_with_its_own(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """Whether it tells its configuration or only counts, the option that would be right is named."""
    config = json.loads(NGRAM)
    with fake_vllm(FakeSettings(step_s=0.001), speculative_config=config, environment=environment) as server:
        run = ran(tmp_path, "--attach", server.url, "--k", "7")

    assert run.status == 4, run.err
    assert "no figures (arm-not-as-declared): arm k7: " in run.out
    assert "\nthe attached server has k=4: give --k 4\n" in run.out


def test_what_pytest_refuses_is_a_usage_error(tmp_path: Path) -> None:
    """A setting that pytest refuses ends with 2 and its sentence; as JSON there is an object without figures."""
    run = ran(tmp_path, "--option=--specgate-lock-wait=long", "--json")

    assert run.status == 2
    assert AcceptanceReport.model_validate_json(run.out).record is None
    assert "specgate: nothing was measured: --specgate-lock-wait=long is not a number" in run.err


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ({}, "pytest ended with exit status 3, and its output is above"),
        ({"unmeasured": [{"message": "this machine is in use"}]}, "this machine is in use"),
        ({"broken": [{"message": "no such import"}]}, "no such import"),
    ],
)
def test_why_nothing_was_measured_is_told(
    report: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason that pytest wrote down is told, and its output where it wrote none."""
    arm = Arm("k4", model="m", args={"speculative_config": json.loads(NGRAM)})
    status = probe_result.tell_unmeasured(arm, ProbeRun(3, ["its output"], report), as_json=False)

    assert status == 4
    assert capsys.readouterr().err == f"its output\nspecgate: nothing was measured: {words}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--speculative-config", "{}"], "nothing tells the draft horizon: give --k, or num_speculative_tokens in"),
        (["--speculative-config", "{}", "--k", "0"], "a draft horizon of 0 is none"),
        (["--speculative-config", '{"num_speculative_tokens": true}'], "a draft horizon of True is none"),
        (
            ["--speculative-config", '{"num_speculative_tokens": 1, "num-speculative-tokens": 2}'],
            "--speculative-config has num_speculative_tokens and num-speculative-tokens: give",
        ),
        (["--speculative-config", "ngram"], "--speculative-config is no JSON (Expecting value"),
        (["--speculative-config", "[4]"], '--speculative-config is a JSON object, as \'{"method"'),
        (["--engine-args", '{"speculative-config": null}'], "--engine-args has a speculative_config: give it as"),
        (["--engine-args", '{"port": 1}'], "port is set by the gate itself"),
        (["--engine-args", '{"x": NaN}'], "input should be a finite number"),
        (["--env", TOKEN], "--env takes names with their values, as CUDA_VISIBLE_DEVICES=0; one has no '='"),
        (["--env", "A=1", "A=2"], "--env has A twice"),
        (["--at-least", "acceptance_lenght=2"], "did you mean 'acceptance_length'"),
        (
            ["--at-least", "acceptance_rate=0.6"],
            "--at-least acceptance_rate=0.6: limit='0.6' has no unit: write limit='60%'",
        ),
        (["--at-least", "acceptance_rate_position_5=1%"], "is about draft position 5, and k4 drafts 4 tokens"),
        (
            ["--at-least", "tpot_p50=1ms"],
            "--at-least tpot_p50=1ms: less of it is better: claim at_most('tpot_p50', ...)",
        ),
        (["--at-least", "acceptance_length=9"], "no boot can reach: acceptance length of k4 lies between 1 and 5"),
        (["--requests", "8"], "--requests 8 is no load level with its number of requests: write 8=32"),
        (["--requests", "8=4"], "--requests: point c=8 has 4 requests; each of its 8 workers needs at least one"),
        (["--requests", "1=4", "1=8"], "--requests has 1 twice"),
        (["--requests", "1 T=1=4"], "has a temperature of its own: every level is measured at each of --temperature"),
        (["--temperature", "0,0.8"], "'0,0.8' is no number: write them apart, as --temperature 0 0.8"),
        (["--temperature", "-1"], "--temperature: a temperature of -1 cannot be sent: write 0 or more"),
        (["--temperature", "nan"], "--temperature: a temperature of nan cannot be sent: write 0 or more"),
        (["--temperature", "0", "0.0"], "--temperature: temperature 0 is there twice: give it once"),
        (["--output-tokens", "1"], "--output-tokens 1: the first token of an answer is none of a draft: write 2 or"),
        (["--input-tokens", "0"], "--input-tokens 0: a prompt has at least one token: write 1 or more"),
        (["--boots", "41"], "--boots=41 is too many: write 40 or fewer"),
        (["--attach", "foo"], "--attach foo: the base address of a server is wanted, as http://10.0.0.5:8000"),
        (["--attach", f"http://me:{TOKEN}@h:1"], "--attach http://h:1: the address of k4 has a user name"),
        (["--requests", "x=4"], "--requests: 'x' is no load level: write a concurrency as 8"),
        (["--prompts", "random"], "--prompts random: whether random tokens are accepted tells nothing"),
        (["--prompts", "mine.txt"], "--prompts mine.txt: there is no such file, and it is neither prose nor code"),
        (["--boots", "0"], "--boots=0 measures nothing"),
        (["--boots", "2", "--attach", "http://h.invalid"], "--boots=2: a server that is attached is not started"),
        (["--option=--specgate-rounds=4"], "--option=--specgate-rounds=4: this command has --boots for that"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each mistake is one sentence and exit status 2, and no secret is repeated in it."""
    monkeypatch.setattr("pytest_specgate.cli.child.listened_pytest", None)
    status = cli.main(["probe", *ARM, *arguments])
    shown = capsys.readouterr()

    assert (status, shown.out) == (2, "")
    assert words in shown.err
    assert shown.err.count("\n") == 1
    assert TOKEN not in shown.err
