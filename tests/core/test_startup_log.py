"""Start-up logs without what changes from boot to boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specgate.core.startup_log import READY, startup_lines

DATA = Path(__file__).parent / "data"


def captured(name: str) -> dict[str, int]:
    """Return the normalised lines of a captured log."""
    return startup_lines((DATA / f"{name}_server.log").read_text())


def test_two_boots_of_one_arm_have_the_same_lines() -> None:
    """The control of every comparison: pids, times, ports, durations and free memory are not compared."""
    assert captured("ngram_k4") == captured("ngram_k4_again")
    assert captured("ngram_k4") == captured("ngram_k7")


def test_what_follows_the_start_is_not_looked_at() -> None:
    """Requests are no part of a start-up."""
    lines = captured("off")

    assert lines["INFO: Application startup complete."] == 1
    assert not any("GET /health" in line for line in lines)


def test_a_log_without_the_last_line_is_read_to_its_end() -> None:
    """Another server may not print it."""
    assert startup_lines("INFO:     one\nINFO:     two\n") == {"INFO: one": 1, "INFO: two": 1}


def test_lines_are_sorted_and_counted() -> None:
    """Several processes write to one file, in any order; how often a line was printed is kept."""
    assert list(startup_lines("b\na\r\nb\n\n").items()) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        ("\x1b[1;36m(EngineCore_DP0 pid=12)\x1b[0;0m INFO 11-29 16:59:22 [core.py:133] text", "INFO [core.py] text"),
        ("WARNING 01-02 03:04:05.678 [a/b.py:1] text", "WARNING [a/b.py] text"),
        ("[W1129 16:59:28.685317291 utils.cpp:68] Warning: text", "W [utils.cpp] Warning: text"),
        ("/venv/lib/python3.11/site-packages/vllm/x.py:24: FutureWarning: y", "vllm/x.py: FutureWarning: y"),
        ("INFO:     Started server process [25185]", "INFO: Started server process [<n>]"),
        ("server on http://127.0.0.1:8221", "server on http://127.0.0.1:<port>"),
        ("listens on 0.0.0.0:80, 'port': 8221, master_port=5", "listens on 0.0.0.0:<port>, 'port': <port>, master_port=<port>"),  # noqa: E501  - one line of a log
        ("method=file:///run/vllm_dist_2acb9e backend", "method=file:///run/vllm_dist_<hex> backend"),
        ("at 0x7f3a, run 123e4567-e89b-12d3-a456-426614174000", "at <hex>, run <hex>"),
        ("cache /c/torch_compile_cache/2a6fb8/rank_0_0 for it", "cache /c/torch_compile_cache/<hex> for it"),
        ("key deadbeef0123", "key <hex>"),
        ("took 6.58 s and 12 seconds, 3ms, 2 minutes", "took <n> s and <n> seconds, <n> ms, <n> minutes"),
        ("Free (78.6/79.11 GiB), total (79.11GiB), 71,2 MB", "Free (<n> GiB), total (<n> GiB), <n> MB"),
        ("Explicitly set (2.0/10.84) GiB for it", "Explicitly set (<n>) GiB for it"),
        ("difference 11.1% of 3 blocks", "difference <n>% of 3 blocks"),
        (
            "GPU KV cache size: 446,544 tokens, concurrency for 2,048 tokens per request: 13.63x",
            "GPU KV cache size: <n> tokens, concurrency for 2,048 tokens per request: <n>x",
        ),
        ("# GPU blocks: 27909, # CPU blocks: 12", "# GPU blocks: <n>, # CPU blocks: <n>"),
        ("[a.py:1] non-default args: {'port': 1}", "[a.py:1] non-default args: (as declared)"),
        (
            "Initializing a V1 LLM engine (v0.32.0) with config: model='x', seed=0",
            "Initializing a V1 LLM engine (<version>) with config: (as resolved)",
        ),
        ("CUDA graph sizes [1, 2, 4], max_num_seqs 256", "CUDA graph sizes [1, 2, 4], max_num_seqs 256"),
    ],
)  # fmt: skip
def test_what_changes_by_itself_is_not_kept(raw: str, kept: str) -> None:
    """Everything else of a line stays, figures included."""
    assert startup_lines(raw) == {kept: 1}


@pytest.mark.parametrize(
    "raw",
    [
        "DEBUG 11-29 16:59:22 [core.py:133] text",
        "INFO 11-29 16:59:15 [api_utils.py:347]  ▄▄ ▄█ █  version 0.32.0",
        "INFO 11-29 16:59:37 [launcher.py:195] Route: /docs, Methods: GET, HEAD",
        "   ",
    ],
    ids=["diagnostics", "logo", "route", "blank"],
)
def test_lines_that_tell_nothing_are_left_out(raw: str) -> None:
    """Diagnostics, the logo, and routes, whose methods come in any order."""
    assert startup_lines(raw) == {}


def test_a_progress_bar_is_one_line() -> None:
    """However often it was drawn: a terminal's bar returns to the start of its line."""
    bars = "Capturing CUDA graphs (decode, FULL):   0%|          | 0/2 [00:00<?, ?it/s]\r"
    bars += "Capturing CUDA graphs (decode, FULL): 100%|██████████| 2/2 [00:00<00:00, 16.5it/s]\n"
    shards = "(Worker pid=1) Loading shards: 100% Completed | 1/1 [00:00<00:00,  1.42it/s]\n"

    assert startup_lines(bars + shards) == {
        "Capturing CUDA graphs (decode, FULL): (progress)": 1,
        "Loading shards: (progress)": 1,
    }


def test_long_lines_that_differ_at_their_end_still_differ() -> None:
    """A line is cut, but what was cut off is not forgotten."""
    one, two = (next(iter(startup_lines("x " * 400 + end))) for end in ("a", "b"))

    assert one != two
    assert len(one) == len(two) < 320


def test_a_line_may_be_very_long() -> None:
    """A dump of a megabyte without a blank is read in time that grows with its length."""
    assert len(startup_lines("a" * 1_000_000 + "\n" + READY)) == 2
