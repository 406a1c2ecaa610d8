"""Engine-induced differences as a reader sees them."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_specgate.core.differences import ABSENT, Difference, DifferenceReport, StartUp, engine_differences
from pytest_specgate.core.resolved import flattened
from pytest_specgate.core.startup_log import startup_lines
from pytest_specgate.reporting.differences import difference_lines

DATA = Path(__file__).parent.parent / "core" / "data"


def captured(arm: str) -> StartUp:
    """Return what is kept of a captured boot."""
    page = json.loads((DATA / f"{arm}_server_info.json").read_text())
    lines = startup_lines((DATA / f"{arm}_server.log").read_text())
    return StartUp(flattened(page["vllm_config"], page["vllm_env"]), lines)


def test_the_captured_pair_is_told_group_by_group() -> None:
    """Declared, engine-induced with their ids, what only the log says, and noise."""
    report = engine_differences([captured("off")], [captured("ngram_k4")], varies=["args.speculative_config"])

    assert "\n".join(difference_lines(report)) == (
        "declared            speculative_config: none -> ngram, k=4, lookup 2..4\n"
        '                    log: "Loading drafter model..." (candidate only; expected)\n'
        "engine-induced (3)  scheduler_config.max_num_scheduled_tokens: none -> 2048 "
        "(effective 2048 in both; the engine warns of it)\n"
        "                    parallel_config.disable_nccl_for_dp_synchronization: true -> false "
        "(no effect at data_parallel_size 1)\n"
        '                    log: "min_p and logit_bias parameters won\'t work with speculative decoding." '
        "(candidate only) [log:min_p-and-logit_bias-parameters-won-59abcd]\n"
        'log only            "Async scheduling not supported with ngram-based speculative decoding and will be '
        'disabled." (candidate only; resolved to false in both arms)\n'
        "dropped (noise)     instance_id, vllm_env.VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME"
    )


def test_no_difference_is_said_too() -> None:
    """Two horizons: the group that matters is never left out."""
    report = engine_differences([captured("ngram_k4")], [captured("ngram_k7")], varies=["args.speculative_config"])

    assert "\n".join(difference_lines(report)[:2]) == (
        "declared            speculative_config: ngram, k=4, lookup 2..4 -> ngram, k=7, lookup 2..4 "
        "(differs in num_speculative_tokens)\n"
        "engine-induced (0)  none"
    )


def test_what_was_not_read_is_not_called_none() -> None:
    """A server that tells nothing of itself is no clean one; what was found elsewhere still counts."""
    nothing = DifferenceReport((), ("resolved configuration", "start-up log"))
    half = DifferenceReport((Difference("a", "engine-induced", 1, 2),), ("start-up log",))

    assert difference_lines(nothing) == (
        "engine-induced      not known: there is no resolved configuration and no start-up log of both arms",
    )
    assert difference_lines(half) == (
        "engine-induced (1)  a: 1 -> 2",
        "                    not known: there is no start-up log of both arms",
    )


def test_allowed_differences_bear_the_reason() -> None:
    """Listed by id or by part of the path."""
    found = (Difference("a.b", "engine-induced", 1, 2), Difference("c", "engine-induced", 1, 2))
    lines = difference_lines(DifferenceReport(found), allowed={"x": "no", "a": "one rank only"})

    assert lines == ("engine-induced (2)  a.b: 1 -> 2 allowed: one rank only", "                    c: 1 -> 2")


def test_long_texts_are_cut() -> None:
    """A list of a hundred sizes, or a warning of a paragraph, does not fill the page."""
    found = (
        Difference("sizes", "engine-induced", list(range(100)), ABSENT),
        Difference("log:x", "engine-induced", 1, 0, line="WARNING [a.py] " + "word " * 100),
    )
    lines = difference_lines(DifferenceReport(found))

    assert lines[0].endswith("... -> (absent)")
    assert max(map(len, lines)) < 160
    assert lines[1].endswith('..." (reference only) [log:x]')


def test_a_line_printed_more_often_says_how_often() -> None:
    """Both arms print it."""
    (line,) = difference_lines(DifferenceReport((Difference("log:x", "engine-induced", 1, 3, line="text"),)))

    assert line == 'engine-induced (1)  log: "text" (printed 1 and 3 times) [log:x]'
