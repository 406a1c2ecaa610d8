"""`specgate counters` and `specgate stream`: what pages and streams captured anywhere say, from the command line."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


DATA = Path(__file__).parents[1] / "core" / "data"
WARM, AFTER = str(DATA / "ngram_k4_after_warmup.txt"), str(DATA / "ngram_k4_after_c1.txt")
LABELS = '{engine="0",model_name="m"}'


def page(*, drafts: float = 0, draft_tokens: float = 0, positions: Sequence[float] = (), tokens: float = 0) -> str:
    """Return a page with speculation counters and, where they are given, generated tokens."""
    by_position = 'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="%d"} %s'
    lines = [
        f"vllm:spec_decode_num_drafts_total{LABELS} {drafts}",
        f"vllm:spec_decode_num_draft_tokens_total{LABELS} {draft_tokens}",
        f"vllm:spec_decode_num_accepted_tokens_total{LABELS} {sum(positions)}",
        *(by_position % entry for entry in enumerate(positions)),
    ]
    if tokens:
        lines.append(f"vllm:generation_tokens_total{LABELS} {tokens}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def pages(tmp_path: Path) -> Callable[[str, str], list[str]]:
    """Write two pages and return their paths."""

    def write(before: str, after: str) -> list[str]:
        paths = [tmp_path / "before.txt", tmp_path / "after.txt"]
        for path, text in zip(paths, (before, after), strict=True):
            path.write_text(text, encoding="utf-8")
        return [str(path) for path in paths]

    return write


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run a command and return its exit status and what it printed."""
    status = cli.main(arguments)
    return status, capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run a command with ``--json``."""
    status, text = told(capsys, *arguments, "--json")
    return status, json.loads(text)


PUBLISHED = [
    pytest.param(
        60944, 426608, (44225, 29747, 19984, 13513, 9086, 6095, 3840),
        ["draft tokens 426608, 7.0000 a draft", "accepted tokens 126490, 29.65 % of them", "acceptance length 3.0755",
         "1 44225 72.57 %", "2 29747 48.81 %", "3 19984 32.79 %", "4 13513 22.17 %", "5 9086 14.91 %",
         "6 6095 10.00 %", "7 3840 6.30 %"],
        id="k7",
    ),
    pytest.param(
        3478, 13912, (2507, 1607, 1033, 591),
        ["draft tokens 13912, 4.0000 a draft", "accepted tokens 5738, 41.24 % of them", "acceptance length 2.6498",
         "1 2507 72.08 %", "2 1607 46.20 %", "3 1033 29.70 %", "4 591 16.99 %"],
        id="k4",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("drafts", "draft_tokens", "positions", "expected"), PUBLISHED)
def test_published_figures_come_out_to_every_digit(  # noqa: PLR0913  - one published window
    pages: Callable[[str, str], list[str]],
    capsys: pytest.CaptureFixture[str],
    *,
    drafts: int,
    draft_tokens: int,
    positions: tuple[int, ...],
    expected: list[str],
) -> None:
    """The counters of the finding that this project began with give the shares it printed."""
    files = pages(
        page(positions=[0] * len(positions)), page(drafts=drafts, draft_tokens=draft_tokens, positions=positions)
    )
    status, text = told(capsys, "counters", *files)
    shown = [" ".join(line.split()) for line in text.splitlines()]

    assert status == 0
    assert [line for line in expected if line not in shown] == []
    assert text.count('position (1 is vLLM\'s position="0")') == 1


def test_a_real_window_is_analysed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Eight requests of 64 tokens on a real server with n-gram drafts, which drafted in 43 % of its steps."""
    status, found = as_json(capsys, "counters", WARM, AFTER)

    assert (status, found["valid"], found["speculation"], found["requests"]) == (0, True, "on", {"length": 8})
    assert (found["generation_tokens"], found["first_tokens"], found["decode_steps"]) == (512, 8, 316)
    assert found["tokens_per_step"] == pytest.approx(504 / 316)
    assert found["tokens_per_step"] == pytest.approx(
        1 + found["drafted_share"] * (found["acceptance_length"] - 1) - found["cut_tokens"] / found["decode_steps"]
    )
    assert found["prefix_hit_rate"] is None, "these pages do not count it"


def test_pages_around_nothing_source_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Two pages with no traffic between them have no figures, and the exit status says so."""
    status, text = told(capsys, "counters", WARM, WARM)
    again, found = as_json(capsys, "counters", WARM, WARM)

    assert (status, again) == (4, 4)
    assert text.startswith("INVALID (no-traffic): nothing was served between the two pages")
    assert (found["valid"], found["reason"]) == (False, "no-traffic")
    assert {found[name] for name in ("drafts", "acceptance_rate", "tokens_per_step", "generation_tokens")} == {None}


def test_case_46_a_counter_that_went_back_has_no_figures(
    pages: Callable[[str, str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 46: drafts 100 before and 40 after is a counter reset, and no number."""
    status, text = told(capsys, "counters", *pages(page(drafts=100, positions=(9,)), page(drafts=40, positions=(9,))))

    assert status == 4
    assert "counter reset: vllm:spec_decode_num_drafts_total fell from 100 to 40" in text
    assert "%" not in text


def test_case_48_speculation_that_did_not_run(
    pages: Callable[[str, str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 48: tokens flowed and nothing was drafted: acceptance is neither 0 nor 1, there is none."""
    files = pages(page(positions=(0, 0), tokens=1), page(positions=(0, 0), tokens=501))
    status, found = as_json(capsys, "counters", *files)

    assert (status, found["reason"], found["speculation"]) == (4, "speculation-inactive", "on but inactive")
    assert found["acceptance_rate"] is None


@pytest.mark.parametrize(
    ("drafts", "draft_tokens", "positions", "options", "identity"),
    [
        (100, 400, (60, 70, 70, 50), [], "accepted tokens rise with the position"),
        (100, 200, (90, 70, 50, 20), [], "230 tokens accepted of 200 drafted"),
        (100, 500, (90, 70, 50, 20), [], "500 draft tokens in 100 drafts of at most 4"),
        (100, 300, (90, 70, 50), ["--k", "4"], "3 draft positions are counted, not 4"),
    ],
)
def test_case_55_broken_identities_have_no_figures(  # noqa: PLR0913  - one broken page
    pages: Callable[[str, str], list[str]],
    capsys: pytest.CaptureFixture[str],
    *,
    drafts: int,
    draft_tokens: int,
    positions: tuple[int, ...],
    options: list[str],
    identity: str,
) -> None:
    """Case 55: counters that contradict each other are named, and no figure of them is shown."""
    files = pages(
        page(positions=[0] * len(positions)), page(drafts=drafts, draft_tokens=draft_tokens, positions=positions)
    )
    status, text = told(capsys, "counters", *files, *options)

    assert (status, text.count("\n")) == (4, 1)
    assert f"INVALID (counter-identity): impossible counters: {identity}" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["counters", "nowhere.txt", AFTER], "specgate: nowhere.txt cannot be read: No such file or directory\n"),
        (["counters", __file__, AFTER], "/metrics has no vllm: series"),
        (
            ["counters", WARM, AFTER, "--model", "other"],
            "the pages count for model SmolLM2-135M-Instruct, not for other",
        ),
        (["stream", __file__], "test_cli_offline.py, line 1: not a read of the form"),
        (["stream", "nowhere.jsonl"], "specgate: nowhere.jsonl cannot be read: No such file or directory\n"),
    ],
)
def test_broken_input_is_one_sentence(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is missing or something else is named with what it should be, in one line and exit status 2."""
    status = cli.main(arguments)
    error = capsys.readouterr().err

    assert status == 2
    assert sentence in error
    assert error.count("\n") == 1


def test_case_53_pages_of_two_servers_are_refused(
    pages: Callable[[str, str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 53: pages that count for two models are no pair, and both models are named."""
    status = cli.main(["counters", *pages(page(), page(drafts=3).replace('"m"', '"other"'))])

    assert status == 2
    assert "the pages count for two models, m and other" in capsys.readouterr().err


def test_a_real_stream_is_analysed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """The first token event of this answer is a part of a character: the first visible text comes later."""
    status, found = as_json(capsys, "stream", str(DATA / "completions_c8_14.jsonl"))
    _, text = told(capsys, "stream", str(DATA / "completions_c8_14.jsonl"))

    assert (status, found["valid"], found["output_tokens"], found["finish_reason"]) == (0, True, 64, "length")
    assert found["ttft_s"] < found["first_text_s"] < found["last_token_s"] <= found["closed_s"]
    assert found["tpot_s"] == pytest.approx((found["last_token_s"] - found["ttft_s"]) / 63)
    assert found["tokens_per_chunk"] == pytest.approx(64 / found["token_events"])
    assert found["chunk_tokens"] is None
    assert text.startswith("answer: complete, finish reason length\n")
    assert f"TTFT                {1000 * found['ttft_s']:.1f} ms" in text


def test_a_stream_that_broke_off_is_invalid(capsys: pytest.CaptureFixture[str]) -> None:
    """An answer of a killed server has times, but counts in no statistic, and the exit status says so."""
    status, text = told(capsys, "stream", str(DATA / "sigkill_server.jsonl"))

    assert status == 4
    assert text.startswith("INVALID: truncated: the stream ended after")


def test_continuous_usage_tells_the_tokens_of_each_event(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a running count in every event, the tokens of each are its rise; nothing else tells them."""
    capture = tmp_path / "answer.jsonl"
    lines = []
    for at_ms, count in ((10, 1), (20, 5), (30, 6)):
        body = {"choices": [{"text": "x", "finish_reason": "length"}], "usage": {"completion_tokens": count}}
        data = base64.b64encode(f"data: {json.dumps(body)}\n\n".encode()).decode()
        lines.append(json.dumps({"t_ms": at_ms, "bytes_b64": data}))
    capture.write_text("\n".join(lines), encoding="utf-8")
    status, text = told(capsys, "stream", str(capture))

    assert status == 0
    assert "tokens by event     1 4 1" in text
