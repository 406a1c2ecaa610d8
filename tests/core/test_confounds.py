"""What a window kept of its servers' starts, made whole again and compared."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specgate.core.arms import Arm, ArmPair
from pytest_specgate.core.confounds import (
    declared_between,
    difference_lines,
    differences_of,
    starts_of,
    told,
    unlisted_differences,
    unproved_of,
)
from pytest_specgate.core.differences import (
    ABSENT,
    NOISE,
    Difference,
    DifferenceReport,
    StartUp,
    compacted,
    engine_differences,
)
from pytest_specgate.core.judge import judge, needs_more_rounds
from pytest_specgate.core.records import StartUpRecord, WindowRecord
from pytest_specgate.core.resolved import flattened
from pytest_specgate.core.startup_log import startup_lines
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specgate.core.records import BootRecord
    from pytest_specgate.core.verdict import Verdict
    from tests.core.conftest import Build

DATA = Path(__file__).parent / "data"
OFF = StartUp({"model_config.max_model_len": 64, "scheduler_config.policy": "fcfs"}, {"ready": 1, "plain": 1})
K4 = StartUp({"model_config.max_model_len": 64, "scheduler_config.policy": "priority"}, {"ready": 1})


def _with_starts(
    build: type[Build], starts: Mapping[str, StartUp | Sequence[StartUp]], *, rounds: int = 2
) -> WindowRecord:
    """Return a window whose boots kept these starts, of an arm or round by round, all but the first as what differs."""
    pair = build.pair(rounds=rounds)
    record = build.window(pair, [1.0] * rounds, [1.0] * rounds)

    def started(boot: BootRecord) -> StartUp:
        given = starts[boot.arm]
        return given if isinstance(given, StartUp) else given[boot.round - 1]

    first = started(record.boots[0])

    def kept(place: int, boot: BootRecord) -> BootRecord:
        whole = started(boot)
        start = whole if place == 0 else compacted(whole, first=first)
        stored = StartUpRecord(config=dict(start.config), lines=dict(start.lines))
        return boot.model_copy(update={"startup": stored})

    return record.model_copy(update={"boots": tuple(kept(place, boot) for place, boot in enumerate(record.boots))})


def test_starts_come_back_whole(build: type[Build]) -> None:
    """All boots but the first store what differs from it, and are read as if they had stored everything."""
    record = _with_starts(build, {"off": OFF, "k4": K4})

    assert starts_of(record) == {("off", 1): OFF, ("off", 2): OFF, ("k4", 1): K4, ("k4", 2): K4}


def test_what_differs_besides_the_declaration_is_found(build: type[Build]) -> None:
    """A setting that only one arm resolved otherwise is engine-induced, and a line that only one printed."""
    report = differences_of(build.pair(rounds=2), _with_starts(build, {"off": OFF, "k4": K4}))

    assert report is not None
    ids = [found.id for found in report.of("engine-induced")]
    assert ids[0] == "scheduler_config.policy"
    assert len(ids) == 2


def test_equal_starts_differ_in_nothing(build: type[Build]) -> None:
    """Two arms with one start have no engine-induced difference."""
    report = differences_of(build.pair(rounds=2), _with_starts(build, {"off": OFF, "k4": OFF}))

    assert report is not None
    assert report.of("engine-induced") == ()


def test_without_starts_nothing_is_said(build: type[Build]) -> None:
    """A record whose boots kept no start, or only one arm's, tells nothing of differences."""
    pair = build.pair(rounds=2)
    bare = build.window(pair, [1.0] * 2, [1.0] * 2)
    half = _with_starts(build, {"off": OFF, "k4": K4})
    half = half.model_copy(update={"boots": tuple(boot for boot in half.boots if boot.arm == "off")})

    assert differences_of(pair, bare) is None
    assert differences_of(pair, half) is None
    assert unproved_of(pair.reference, bare) == ()


def test_arguments_that_no_server_told_are_named(build: type[Build]) -> None:
    """`max_model_len` is told by the configuration; an argument that is nowhere in it is not proved."""
    record = _with_starts(build, {"off": OFF, "k4": K4})
    arguments: dict[str, Any] = {"max_model_len": 64, "some_new_flag": 3}
    arm = build.arm().vary("off", args=arguments)

    assert unproved_of(arm, record) == ("some_new_flag",)


def test_strictness_wants_every_difference_listed(build: type[Build]) -> None:
    """Under strict a difference that nobody has allowed makes the pair INVALID, and is named; listed ones do not."""
    record = _with_starts(build, {"off": OFF, "k4": K4}).model_copy(update={"strict": True})
    plain = build.pair(rounds=2)
    induced = differences_of(plain, record)
    assert induced is not None
    reasons = {found.id: "looked at" for found in induced.of("engine-induced")}
    listed = dataclasses.replace(plain, allow_engine_differences=reasons)

    [strict] = judge(build.gate(plain, build.threshold()), record)
    [lenient] = judge(build.gate(plain, build.threshold()), record.model_copy(update={"strict": False}))
    [allowed] = judge(build.gate(listed, build.threshold()), record)

    assert (strict.outcome, strict.reason) == (Outcome.INVALID, "engine-differences")
    assert strict.summary.startswith("servers of k4 against off also differ in scheduler_config.policy, log:")
    assert strict.summary.endswith(": list in allow_engine_differences what is harmless")
    assert (lenient.outcome, allowed.outcome) == (Outcome.PASS, Outcome.PASS)


def test_strictness_does_not_take_ignorance_for_equality(build: type[Build]) -> None:
    """Under strict nothing is known of unread starts, so nothing is judged."""
    pair = build.pair(rounds=2)
    bare = build.window(pair, [1.0] * 2, [1.0] * 2)
    unread = _with_starts(build, {"off": OFF, "k4": StartUp(OFF.config, {})})

    assert "nothing is known" in str(unlisted_differences(pair, bare))
    assert "could not be read" in str(unlisted_differences(pair, unread))


def _blocks(*counts: int) -> list[StartUp]:
    """Return one start for each number of blocks that memory profiling found."""
    return [StartUp({"cache_config.num_gpu_blocks": count}, {"ready": 1}) for count in counts]


def _strictly(
    build: type[Build], starts: Mapping[str, Sequence[StartUp]], *, seen: int, planned: int = 4, final: bool = False
) -> Verdict:
    """Judge a window of a pair by its first rounds, under strict."""
    record = _with_starts(build, starts, rounds=seen).model_copy(update={"strict": True})
    pair = build.pair(rounds=planned)
    [verdict] = judge(build.gate(pair, build.threshold()), record, final=final)
    return verdict


def test_one_boot_of_each_arm_decides_nothing(build: type[Build]) -> None:
    """What differs after one round may be noise: the pair stays open, and a second round shows that it is none."""
    starts = {"off": _blocks(27812, 27810), "k4": _blocks(27809, 27813)}
    first = _strictly(build, starts, seen=1)
    second = _strictly(build, starts, seen=2)

    assert needs_more_rounds([first])
    assert "cache_config.num_gpu_blocks" in first.summary
    assert second.reason != "engine-differences"


def test_a_second_round_settles_what_differs(build: type[Build]) -> None:
    """Values that lie apart in two boots of each arm are a difference, and no further round is booted."""
    starts = {"off": _blocks(27812, 27810), "k4": _blocks(25409, 25413)}

    assert needs_more_rounds([_strictly(build, starts, seen=1)])
    assert _strictly(build, starts, seen=2).reason == "engine-differences"
    assert not needs_more_rounds([_strictly(build, starts, seen=2)])


def test_at_the_end_one_round_has_to_do(build: type[Build]) -> None:
    """With one round planned, or a window that ended after one, what was found counts; that it is one boot is said."""
    starts = {"off": _blocks(27812), "k4": _blocks(27809)}
    planned = _strictly(build, starts, seen=1, planned=1)
    ended = _strictly(build, starts, seen=1, final=True)

    assert [verdict.reason for verdict in (planned, ended)] == ["engine-differences"] * 2
    assert "one boot of each arm" in planned.detail
    assert "one boot of each arm" not in _strictly(build, {"off": _blocks(1, 1), "k4": _blocks(2, 2)}, seen=2).detail


def test_nothing_unlisted_needs_no_second_round(build: type[Build]) -> None:
    """A pair that differs in nothing is judged by its first round as without strict."""
    starts = {"off": _blocks(7), "k4": _blocks(7)}
    verdict = _strictly(build, starts, seen=1)

    assert (verdict.rounds, verdict.change) == (1, 0.0)


def test_the_evidence_of_a_strict_verdict_is_complete(build: type[Build]) -> None:
    """Both values and the whole line of the log stand in its details, with what was declared."""
    line = "WARNING [vllm.py] " + "all of this matters " * 12
    starts = {"off": OFF, "k4": StartUp(K4.config, {"ready": 1, "plain": 1, line: 2})}
    record = _with_starts(build, starts).model_copy(update={"strict": True})
    pair = dataclasses.replace(build.pair(rounds=2), allow_engine_differences={"scheduler_config.x": "not there"})
    failure = unlisted_differences(pair, record)

    assert failure is not None
    assert 'engine-induced (2)  scheduler_config.policy: "fcfs" -> "priority"' in failure.detail
    assert (
        f'log: "{line.removeprefix("WARNING [vllm.py] ")}" (candidate only) [log:all-of-this-matters' in failure.detail
    )


def test_many_differences_are_named_in_short(build: type[Build]) -> None:
    """The sentence names the first; the details have all."""
    starts = {"off": StartUp({f"x{place}": 1 for place in range(8)}, {"a": 1})}
    starts["k4"] = StartUp(dict.fromkeys(starts["off"].config, 2), {"a": 1})
    failure = unlisted_differences(build.pair(rounds=2), _with_starts(build, starts))

    assert failure is not None
    assert "also differ in x0, x1, x2, x3, x4 and 3 more: list" in failure.message
    assert "x7: 1 -> 2" in failure.detail


def test_a_strict_verdict_can_be_repeated_from_the_record_alone(build: type[Build]) -> None:
    """The record keeps what its pair allows, and the differences themselves."""
    reasons = {"scheduler_config.policy": "looked at", "log": "never matches"}
    pair = dataclasses.replace(build.pair(rounds=2), allow_engine_differences=reasons)
    record = _with_starts(build, {"off": OFF, "k4": StartUp(K4.config, OFF.lines)})
    record = record.model_copy(update={"strict": True, "pairs": told([pair], record)})
    read = WindowRecord.model_validate_json(record.model_dump_json())
    [stored] = read.pairs
    arms = {arm.name: arm for arm in read.arms}
    again = ArmPair(
        reference=arms[stored.reference],
        candidate=arms[stored.candidate],
        varies=stored.varies,
        profile=read.profile,
        rounds=stored.rounds,
        allow_engine_differences=stored.allow_engine_differences,
    )

    assert [verdict.outcome for verdict in judge(build.gate(again, build.threshold()), read)] == [Outcome.PASS]
    assert stored.differences is not None
    assert [found["id"] for found in stored.differences] == ["scheduler_config.policy"]
    assert [found["candidate"] for found in stored.differences] == ["priority"]


def test_a_record_without_starts_keeps_no_differences(build: type[Build]) -> None:
    """Unknown is not none."""
    pair = build.pair(rounds=2)
    [stored] = told([pair], build.window(pair, [1.0] * 2, [1.0] * 2))

    assert stored.differences is None


def _captured_pair(reference: str, candidate: str, *, arms: tuple[Arm, Arm]) -> DifferenceReport:
    """Compare two captured boots."""
    pages = [json.loads((DATA / f"{name}_server_info.json").read_text()) for name in (reference, candidate)]
    logs = [startup_lines((DATA / f"{name}_server.log").read_text()) for name in (reference, candidate)]
    first, second = (
        StartUp(flattened(page["vllm_config"], page["vllm_env"]), lines)
        for page, lines in zip(pages, logs, strict=True)
    )
    return engine_differences([first], [second], declared=declared_between(arms, (first, second)))


def test_the_captured_pair_is_told_group_by_group(build: type[Build]) -> None:
    """Declared, engine-induced with their ids, what only the log says, and noise."""
    report = _captured_pair("off", "ngram_k4", arms=(build.arm(), build.arm(4)))

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


def test_no_difference_is_said_too(build: type[Build]) -> None:
    """Two horizons: the group that matters is never left out."""
    report = _captured_pair("ngram_k4", "ngram_k7", arms=(build.arm(4), build.arm(7)))

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


def test_long_values_are_shown_from_where_they_differ() -> None:
    """Two that look alike where they are cut would tell nobody what to look for."""
    values = [f"{'word ' * 30}{end} {'more ' * 30}" for end in ("one", "two")]
    (_, line) = difference_lines(DifferenceReport((Difference("started_as", "undeclared", *values),)))[::-1]

    assert line.startswith("undeclared          started_as: ...word ")
    assert "word one more" in line
    assert "word two more" in line


def test_a_line_printed_more_often_says_how_often() -> None:
    """Both arms print it."""
    (line,) = difference_lines(DifferenceReport((Difference("log:x", "engine-induced", 1, 3, line="text"),)))

    assert line == 'engine-induced (1)  log: "text" (printed 1 and 3 times) [log:x]'


def test_nothing_is_cut_where_all_of_it_is_asked_for() -> None:
    """The line that tells of a setting stands below it, whole."""
    line = "WARNING [a.py] " + "word " * 100
    lines = difference_lines(DifferenceReport((Difference("a", "engine-induced", 1, 2, line=line),)), whole=True)

    assert lines == (
        "engine-induced (1)  a: 1 -> 2 (the engine warns of it)",
        f'{"":<19}     log: "{line}"',
    )


def test_what_several_boots_make_noise_is_told_with_values() -> None:
    """Names that are random by rule are only listed."""
    found = (Difference("instance_id", "dropped", "x", "y", "new"), Difference("blocks", "dropped", 7, 8, NOISE))

    assert difference_lines(DifferenceReport(found))[1:] == (
        "dropped (noise)     instance_id",
        f"{'':<19} blocks: 7 -> 8 (changes from boot to boot of one arm)",
    )


def test_settings_of_one_engine_are_named() -> None:
    """In short by name, in full with their values."""
    report = DifferenceReport((Difference("engine", "declared", {}, {"new": 1, "newer": None}, "only one has"),))

    assert difference_lines(report)[0] == f"{'declared':<19} engine: 0 -> 2 (new, newer) (only one has)"
    assert difference_lines(report, whole=True)[0].endswith("engine: 0 -> 2 (new=1, newer=null) (only one has)")
