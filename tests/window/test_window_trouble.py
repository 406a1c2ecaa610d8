"""A window in which something goes wrong: what is stopped, what goes on, and what the record says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.errors import ScrapeError, ServerError, ServerStartError, UsageError
from pytest_specgate.core.stored import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue

    from pytest_specgate.core.records import BootRecord, WindowRecord
    from tests.window.conftest import Boot, Declare, World


def raising(error: BaseException) -> Callable[[Boot], None]:
    """Return a step that fails."""

    def fail(_: Boot) -> None:
        raise error

    return fail


def failure_of(record: WindowRecord, arm: str) -> Failure:
    """Return what went wrong in the first boot of an arm."""
    failure = record.boots_of(arm)[0].failure
    assert failure is not None
    return failure


def loads(world: World) -> dict[str, list[str]]:
    """Return the parts that each arm's first boot was sent."""
    sent: dict[str, list[str]] = {}
    for arm, number, part in world.sent:
        if number == 1:
            sent.setdefault(arm, []).append(part)
    return sent


def usable(record: WindowRecord, arm: str) -> list[BootRecord]:
    """Return the boots of an arm that went well."""
    return [boot for boot in record.boots_of(arm) if boot.failure is None and len(boot.points) == 2]


def test_a_server_that_does_not_start_is_recorded(world: World, declare: type[Declare]) -> None:
    """The boot has a reason, the server's last words and no figures; nothing is sent to it."""
    error = ServerStartError(
        "its server left while starting, with exit code 3: boom",
        exit_code=3,
        log_tail="one\nboom",
        command="serve k4 --port 1",
    )
    world.at["k4", 1, "start"] = raising(error)
    record = world.measure(declare.pair(None, 4))
    failure = failure_of(record, "k4")

    assert failure.reason == "server-start"
    assert failure.message == "arm k4: its server left while starting, with exit code 3: boom"
    assert failure.detail == "one\nboom"
    assert (record.boots[1].boot_s, record.boots[1].points) == (None, ())
    assert record.boots[1].command == "serve k4 --port 1"
    assert record.finished


def test_a_pair_with_a_failed_boot_boots_no_more(world: World, declare: type[Declare]) -> None:
    """A pair that can only be invalid does not take up the machine for further rounds."""
    world.at["k4", 1, "start"] = raising(ServerStartError("no"))
    pair = declare.pair(None, 4, rounds=6)
    record = world.measure(pair, gates=[declare.gate(pair)])

    assert world.starts() == ["off"]
    assert [(verdict["outcome"], verdict["reason"]) for verdict in record.verdicts] == [("INVALID", "server-start")]


def test_an_arm_whose_pairs_are_all_broken_is_not_booted(world: World, declare: type[Declare]) -> None:
    """Within a round, too: what can only be invalid is neither started nor announced."""
    world.at["k4", 1, "start"] = raising(ServerStartError("no"))
    pairs = declare.pair(None, 4), declare.pair(4, 7)
    record = world.measure(*pairs, gates=[declare.gate(pair) for pair in pairs])

    assert [boot.arm for boot in record.boots] == ["off", "k4"]
    assert [line for line in world.told if "k7" in line] == []
    assert [(verdict["outcome"], verdict["reason"]) for verdict in record.verdicts] == [("INVALID", "server-start")] * 2
    assert record.finished


def test_an_arm_with_a_healthy_pair_is_booted_on(world: World, declare: type[Declare]) -> None:
    """A shared arm whose one pair broke before it was booted is still measured for the other, in its own place."""
    world.at["off", 1, "start"] = raising(ServerStartError("no"))
    pairs = declare.pair(None, 4), declare.pair(4, 7)
    record = world.measure(*pairs, gates=[declare.gate(pair) for pair in pairs])

    assert [(boot.arm, boot.round, boot.position) for boot in record.boots] == [
        ("off", 1, 0), ("k4", 1, 1), ("k7", 1, 2), ("k7", 2, 0), ("k4", 2, 1),
    ]  # fmt: skip
    assert [verdict["outcome"] for verdict in record.verdicts] == ["INVALID", "PASS"]


def test_a_failed_arm_does_not_stop_another_pair(world: World, declare: type[Declare]) -> None:
    """Case 71: the pair without the failed arm is measured to its end, and its verdict stands."""
    world.at["k7", 1, "start"] = raising(ServerStartError("no"))
    healthy, broken = declare.pair(None, 4), declare.pair(4, 7)
    record = world.measure(healthy, broken, gates=[declare.gate(healthy), declare.gate(broken)])

    assert world.starts() == ["off", "k4", "k4", "off"]
    assert len(usable(record, "off")) == len(usable(record, "k4")) == 2
    assert [verdict["outcome"] for verdict in record.verdicts] == ["PASS", "INVALID"]


def test_failed_requests_stop_the_remaining_points_of_the_boot(world: World, declare: type[Declare]) -> None:
    """Case 71: a point with failures ends its boot; its one scrape, its requests and the server's log are kept."""
    world.failing.add(("off", 1, "c1"))
    record = world.measure(declare.pair(None, 4))
    failure = failure_of(record, "off")

    assert loads(world) == {"off": ["warm-up", "c1"]}
    assert world.diary[world.diary.index("c1: 10 at 1") :] == ["c1: 10 at 1", "counters", "stop off"]
    assert failure.reason == "failed-requests"
    assert failure.message == "arm off at c=1: 1 of 10 requests failed, the first with: HTTP 500: engine died"
    assert failure.detail == "log of off"
    (point,) = record.boots[0].points
    assert (point.concurrency, len(point.requests), len(point.failed)) == (1, 10, 1)
    assert [page.total(counters.GENERATION_TOKENS) / 11 for page in (point.before, point.after)] == [4, 14]


def test_a_failed_warm_up_stops_the_boot(world: World, declare: type[Declare]) -> None:
    """A server that cannot answer its warm-up is not loaded further."""
    world.failing.add(("k4", 1, "warm-up"))
    record = world.measure(declare.pair(None, 4))
    failure = failure_of(record, "k4")

    assert loads(world)["k4"] == ["warm-up"]
    assert (failure.reason, failure.message) == ("warm-up-failed", "arm k4: warm-up failed: HTTP 500: engine died")


@pytest.mark.parametrize(
    ("arm", "resolved", "problem"),
    [
        ("k4", None, "speculation is declared, but the server resolved none"),
        (
            "k4",
            {"num_speculative_tokens": 7},
            "num_speculative_tokens=4 is declared, but the server resolved num_speculative_tokens=7",
        ),
        (
            "k4",
            {"method": "eagle3", "num_speculative_tokens": 4},
            "method='ngram' is declared, but the server resolved method='eagle3'",
        ),
        (
            "off",
            {"num_speculative_tokens": 4},
            "no speculation is declared, but the server runs it: a method that it does not tell, k=4",
        ),
    ],
)
def test_an_arm_that_is_not_as_declared_is_not_loaded(
    world: World, declare: type[Declare], arm: str, resolved: JsonValue, problem: str
) -> None:
    """What the server resolved decides whether it is the arm; if not, no request is sent."""
    world.resolved[arm] = resolved
    record = world.measure(declare.pair(None, 4))
    failure = failure_of(record, arm)

    assert arm not in loads(world)
    assert (failure.reason, failure.message) == ("arm-not-as-declared", f"arm {arm}: {problem}")
    assert record.boots_of(arm)[0].resolved == {"speculative_config": resolved, "gpus": None}


def test_case_53_a_server_that_counts_for_another_model_is_not_loaded(
    world: World, declare: type[Declare], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 53: counters that carry another model's name are somebody else's."""
    honest = world.counters
    monkeypatch.setattr(
        world, "counters", lambda server: honest(server).model_validate(
            {"samples": [{**dict(sample), "labels": {"model_name": "other"}} for sample in honest(server).samples]},
            strict=False,
        ),
    )  # fmt: skip
    record = world.measure(declare.pair(None, 4))

    assert loads(world) == {}
    assert failure_of(record, "off").message == "arm off: the server counts for model other, not for tiny"


@pytest.mark.parametrize("step", ["counters", "config", "settled"])
def test_a_page_that_cannot_be_read_ends_the_boot(world: World, declare: type[Declare], step: str) -> None:
    """While the server lives, an unreadable page is what went wrong; the pair without this arm goes on."""
    world.at["off", 1, step] = raising(ScrapeError("/page answered HTTP 404: 'Not Found'"))
    record = world.measure(declare.pair(None, 4), declare.pair(4, 7))
    failure = failure_of(record, "off")

    assert (failure.reason, failure.message) == ("page-unreadable", "arm off: /page answered HTTP 404: 'Not Found'")
    assert (failure.detail, record.boots[0].command) == ("", "serve off")
    assert world.starts() == ["off", "k4", "k7", "k7", "k4"]
    assert len(usable(record, "k4")) == len(usable(record, "k7")) == 2


@pytest.mark.parametrize("step", ["counters", "settled"])
def test_a_page_that_died_with_its_server_is_the_servers_death(world: World, declare: type[Declare], step: str) -> None:
    """When the server has left, its exit code and last words are told, not the refused connection."""
    world.at["off", 1, step] = world.leave_with_pages
    record = world.measure(declare.pair(None, 4))
    failure = failure_of(record, "off")

    assert (failure.reason, failure.detail) == ("server-died", "last words")
    assert failure.message == "arm off: its server left with exit code 9"


@pytest.mark.parametrize(
    ("part", "failing", "told", "kept"),
    [
        ("warm-up", True, "1 of 4 requests at c=1 failed", []),
        ("c1", True, "1 of 10 requests at c=1 failed", []),
        ("c8", True, "1 of 16 requests at c=8 failed", [1]),
        ("c8", False, "0 of 16 requests at c=8 failed", [1]),
    ],
)
def test_a_server_that_dies_under_load_is_told(  # noqa: PLR0913  - four parameters and two fixtures
    world: World, declare: type[Declare], *, part: str, failing: bool, told: str, kept: list[int]
) -> None:
    """Case 71: a death under load is told with the requests that it cost; points before it are kept."""
    world.at["off", 1, part] = world.leave
    world.failing |= {("off", 1, part)} if failing else set()
    record = world.measure(declare.pair(None, 4))
    failure = failure_of(record, "off")

    assert (failure.reason, failure.detail) == ("server-died", "last words")
    assert failure.message == f"arm off: its server left with exit code 9; {told}"
    assert [point.concurrency for point in record.boots[0].points] == kept
    assert world.starts() == ["off"]


@pytest.mark.parametrize("number", [1, 2])
def test_case_125_a_server_that_cannot_be_ended_did_start(world: World, declare: type[Declare], number: int) -> None:
    """Case 125: a boot whose server outlived it is kept with what it measured, and is not called a failed start."""
    message = "processes 12 of the server could not be ended"
    world.at["k4", number, "stop"] = raising(ServerError(message, log_tail="deaf"))
    pair = declare.pair(None, 4)
    record = world.measure(pair, gates=[declare.gate(pair)])
    boot = record.boots_of("k4")[number - 1]

    assert boot.failure == Failure(reason="server-not-stopped", message=f"arm k4: {message}", detail="deaf")
    assert (boot.command, boot.boot_s) == ("serve k4", 30.0)
    assert [point.concurrency for point in boot.points] == [1, 8]
    assert [(verdict["outcome"], verdict["reason"]) for verdict in record.verdicts] == [
        ("INVALID", "server-not-stopped")
    ]


@pytest.mark.parametrize("step", ["start", "config", "warm-up", "c8", "settled"])
def test_case_74_an_interrupt_leaves_an_unfinished_record_and_no_server(
    world: World, declare: type[Declare], step: str
) -> None:
    """Case 74: Ctrl-C passes through; the boots before it are stored, and the running server is stopped."""
    world.at["k4", 1, step] = raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        world.measure(declare.pair(None, 4))

    assert [boot.arm for boot in world.saved[-1].boots] == ["off"]
    assert not world.saved[-1].finished
    assert [line.split()[0] for line in world.diary if line.startswith(("start", "stop"))] == (
        ["start", "stop"] if step == "start" else ["start", "stop"] * 2
    )


def test_prompts_that_cannot_be_cut_are_a_usage_error(
    world: World, declare: type[Declare], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other arm would do better: the window ends with one sentence, its server is stopped, the record unfinished."""
    monkeypatch.setattr(world, "tokenize", lambda *_: [1] * 5)
    with pytest.raises(UsageError, match="input_tokens"):
        world.measure(declare.pair(None, 4))

    assert world.diary[-1] == "stop off"
    assert not world.saved[-1].finished


def test_failures_are_told_while_the_window_runs(world: World, declare: type[Declare]) -> None:
    """A user who watches sees at once that an arm failed, and why."""
    world.at["off", 1, "start"] = raising(ServerStartError("its server left while starting, with exit code 3"))
    world.measure(declare.pair(None, 4))

    assert world.told == [
        "round 1 of 2: off: starting its server",
        "arm off: its server left while starting, with exit code 3",
    ]


def test_case_58_counters_that_never_agree_are_left_to_the_judge(world: World, declare: type[Declare]) -> None:
    """Case 58: somebody else's traffic does not end a boot; the point is kept, and judged INVALID with both numbers."""

    def stranger(boot: Boot) -> None:
        boot.answered += 1

    world.at["k4", 1, "c8"] = stranger
    pair = declare.pair(None, 4)
    record = world.measure(pair, gates=[declare.gate(pair)])

    assert world.diary.count("never agreed: 187, not 176") == 1
    assert [boot.failure for boot in record.boots] == [None, None]
    assert [(verdict["outcome"], verdict["reason"]) for verdict in record.verdicts] == [("INVALID", "foreign-traffic")]
    assert record.verdicts[0]["summary"] == (
        "arm k4 at c=8: the server generated 187 tokens, our requests received 176"
    )
