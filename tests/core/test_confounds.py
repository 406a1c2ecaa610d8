"""What a window kept of its servers' starts, made whole again and compared."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pytest_specgate.core.confounds import differences_of, starts_of, unlisted_differences, unproved_of
from pytest_specgate.core.differences import StartUp, compacted
from pytest_specgate.core.judge import judge
from pytest_specgate.core.records import StartUpRecord
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specgate.core.records import BootRecord, WindowRecord
    from tests.core.conftest import Build

OFF = StartUp({"model_config.max_model_len": 64, "scheduler_config.policy": "fcfs"}, {"ready": 1, "plain": 1})
K4 = StartUp({"model_config.max_model_len": 64, "scheduler_config.policy": "priority"}, {"ready": 1})


def _with_starts(build: type[Build], starts: Mapping[str, StartUp]) -> WindowRecord:
    """Return a window of two rounds whose boots kept these starts, all but the first as what differs."""
    pair = build.pair(rounds=2)
    record = build.window(pair, [1.0] * 2, [1.0] * 2)
    first = starts[record.boots[0].arm]

    def kept(place: int, boot: BootRecord) -> BootRecord:
        whole = starts[boot.arm]
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
