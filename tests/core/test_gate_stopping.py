"""Which rounds a gate is judged by, when it wants another one, and what it says when it stops."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.judge import identity_of, judge, needs_more_rounds
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.core.verdict_parts import OPEN

if TYPE_CHECKING:
    from pytest_specgate.core.records import PointRecord, WindowRecord
    from tests.core.conftest import Build, Speed

STEADY = (1.0, 1.001, 1.0, 0.999, 1.0, 1.0)
DIED = Failure(reason="server-died", message="it died")


def _for_another_pair(record: WindowRecord, *, after: int) -> WindowRecord:
    """Return the window with boots of later rounds, all of them failed, that ran for another pair."""
    changes = {"pairs": ("k7 against off",), "failure": DIED, "points": ()}
    boots = [boot.model_copy(update=changes) if boot.round > after else boot for boot in record.boots]
    return record.model_copy(update={"boots": tuple(boots)})


def test_half_a_round_is_not_judged(build: type[Build]) -> None:
    """A window that ended in the middle of a round is judged by the rounds that both arms have."""
    pair = build.pair()
    gate = build.gate(pair, build.threshold())

    longer, plain = build.window(pair, STEADY[:3], STEADY[:2]), build.window(pair, STEADY[:2], STEADY[:2])

    assert judge(gate, longer) == judge(gate, plain)


@pytest.mark.parametrize(("reference", "candidate"), [(4, 2), (4, 4)], ids=str)
def test_rounds_after_a_pair_was_decided_do_not_matter(build: type[Build], *, reference: int, candidate: int) -> None:
    """Boots that ran for other pairs only, once a pair was decided, are not its own, even where they failed."""
    pair = build.pair()
    gate = build.gate(pair, build.threshold())
    plain = build.window(pair, STEADY[:2], STEADY[:2])

    longer = _for_another_pair(build.window(pair, STEADY[:reference], STEADY[:candidate]), after=2)

    assert judge(gate, longer) == judge(gate, plain)
    assert identity_of(pair, longer) == identity_of(pair, plain)


def test_a_boot_for_several_pairs_counts_for_each(build: type[Build]) -> None:
    """A boot that served two pairs at once is judged for both of them."""
    pair = build.pair()
    record = build.window(pair, STEADY[:2], STEADY[:2])
    shared = [boot.model_copy(update={"pairs": ("k7 against off", pair.title)}) for boot in record.boots]

    [verdict] = judge(build.gate(pair, build.threshold()), record.model_copy(update={"boots": tuple(shared)}))

    assert (verdict.outcome, verdict.rounds) == (Outcome.PASS, 2)


@pytest.mark.parametrize(("rounds", "judged"), [(2, 2), (3, 2), (4, 4), (5, 4), (6, 6)])
def test_a_window_that_ends_between_looks_keeps_the_last_look(build: type[Build], *, rounds: int, judged: int) -> None:
    """A verdict is that of the last look that the rounds reached, with its figures, when the window ends."""
    pair = build.pair()
    gate = build.gate(pair, build.threshold(), build.threshold("ttft_p50", floor=None))
    record = build.window(pair, STEADY[:rounds], [0.98] * rounds)
    at_the_look = build.window(pair, STEADY[:judged], [0.98] * judged)

    verdict, _ = judge(gate, record)

    assert (verdict.outcome, verdict.rounds, len(verdict.ratios)) == (Outcome.PASS, judged, judged)
    assert verdict == judge(gate, at_the_look)[0]


def test_the_last_look_knows_only_its_own_boots(build: type[Build]) -> None:
    """Neither the boot order nor the rhythm of a round after the last look enters the verdict of that look."""
    pair = build.pair()
    gate = build.gate(pair, build.threshold("ttft_p50", 8, margin=0.01, floor=None))
    speeds = [math.exp(ratio) for ratio in (0.0098, -0.0102, 0.01, -0.0097, 0.0)]
    at_the_look = build.window(pair, [1.0] * 4, speeds[:4])

    def spread(point: PointRecord) -> PointRecord:
        requests = [request.model_copy(update={"sent_s": float(request.index)}) for request in point.requests]
        return point.model_copy(update={"requests": tuple(requests)})

    longer = build.edited(
        build.window(pair, [1.0] * 5, speeds),
        arm="off",
        number=5,
        edit=lambda boot: boot.model_copy(update={"points": tuple(map(spread, boot.points))}),
    )
    [verdict] = judge(gate, longer)

    assert verdict.order_effect is not None
    assert "in bunches: reference 100 %" in " ".join(verdict.flags)
    assert (verdict,) == judge(gate, at_the_look)


def test_a_fail_of_the_last_look_is_kept_too(build: type[Build]) -> None:
    """Two rounds that fail are not outweighed by a third one after which nothing is judged."""
    pair = build.pair()
    record = build.window(pair, [1.0] * 3, [0.8, 0.8, 1.2])

    [verdict] = judge(build.gate(pair, build.threshold()), record)

    assert (verdict.outcome, verdict.rounds) == (Outcome.FAIL, 2)
    assert verdict.candidate == pytest.approx(0.8 * (verdict.reference or 0))


def test_nothing_is_judged_between_looks_while_a_window_runs(build: type[Build]) -> None:
    """A threshold that passed a look is open again in the round before its next one."""
    pair = build.pair()
    gate = build.gate(pair, build.threshold())

    [running] = judge(gate, build.window(pair, STEADY[:3], STEADY[:3]), final=False)

    assert (running.outcome, running.reason, running.rounds) == (Outcome.INCONCLUSIVE, OPEN, 3)
    assert running.summary.endswith(": next look at 4 rounds")


def test_a_look_that_decided_nothing_is_stopped_between_looks(build: type[Build]) -> None:
    """A threshold that its last look left open, and that ends before the next, was stopped at that look."""
    pair = build.pair()
    record = build.window(pair, STEADY[:3], [0.957] * 3)

    [verdict] = judge(build.gate(pair, build.threshold()), record)

    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "stopped")
    assert verdict.summary.endswith("stopped at round 2 of 6, worse -4.3 % until then: the window ended")


def test_a_round_after_the_last_look_must_be_sound(build: type[Build]) -> None:
    """A failed request in a round that no look sees is invalid all the same."""
    pair = build.pair()
    record = build.window(pair, STEADY[:3], STEADY[:3])

    def fail(point: PointRecord) -> PointRecord:
        requests = [request.model_copy(update={"error": "HTTP 500"}) for request in point.requests]
        return point.model_copy(update={"requests": tuple(requests)})

    broken = build.edited(
        record,
        arm="k4",
        number=3,
        edit=lambda boot: boot.model_copy(update={"points": tuple(map(fail, boot.points))}),
    )
    [verdict] = judge(build.gate(pair, build.threshold()), broken)

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "failed-requests")


def test_more_rounds_than_planned_are_judged_by_the_plan(build: type[Build]) -> None:
    """A record with more rounds than a gate plans, booted for another, is judged by those it plans."""
    pair = build.pair(rounds=2)
    gate = build.gate(pair, build.threshold())
    record = build.window(pair, [1.0] * 3, [1.0, 1.0, 0.1])

    for final in (True, False):
        [verdict] = judge(gate, record, final=final)

        assert (verdict.outcome, verdict.rounds, verdict.ratios) == (Outcome.PASS, 2, (0.0, 0.0))
    assert [len(boots) for boots in record.boots_for(pair)] == [2, 2]


def test_a_threshold_is_open_until_its_first_look(build: type[Build]) -> None:
    """While a window runs, a threshold that the next look may decide is open and asks for another round."""
    pair = build.pair()
    gate = build.gate(pair, build.threshold(floor=None))
    record = build.window(pair, STEADY[:2], STEADY[:2])

    running = judge(gate, record, final=False)

    assert [(verdict.outcome, verdict.reason) for verdict in running] == [(Outcome.INCONCLUSIVE, OPEN)]
    assert needs_more_rounds(running)


def test_a_window_that_ended_leaves_open_thresholds_stopped(build: type[Build]) -> None:
    """A threshold that is still open when the window ends says at which round it was stopped."""
    pair = build.pair()
    record = build.window(pair, STEADY[:2], STEADY[:2])

    [verdict] = judge(build.gate(pair, build.threshold(floor=None)), record)

    claim = "output throughput at c=1 not worse by more than 5 %"
    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "stopped")
    assert (
        verdict.summary == f"INCONCLUSIVE: {claim}: stopped at round 2 of 6, equal 0.0 % until then: the window ended"
    )


def test_an_open_threshold_names_who_stopped_it(build: type[Build]) -> None:
    """A failure stops its gate, and the thresholds that were still open name it."""
    pair = build.pair()
    gate = build.gate(pair, build.threshold(floor=None), build.threshold("ttft_p50"))
    record = build.window(pair, STEADY[:2], [0.5, 0.5])

    stopped, failed = judge(gate, record)

    assert (failed.outcome, stopped.reason) == (Outcome.FAIL, "stopped")
    assert stopped.summary.endswith("stopped at round 2 of 6, worse -50.0 % until then: c1-ttft_p50-not_worse is FAIL")
    assert not needs_more_rounds(judge(gate, record, final=False))


def test_decided_gates_need_no_more_rounds(build: type[Build]) -> None:
    """A gate of passes, also beside a threshold that gave up, boots no more."""
    pair = build.pair(rounds=2)
    record = build.window(pair, [1.0, 1.0], [0.95, 0.95])
    gate = build.gate(pair, build.threshold(margin=0.05), build.threshold("ttft_p50", margin=0.2))

    verdicts = judge(gate, record, final=False)

    assert [verdict.outcome for verdict in verdicts] == [Outcome.INCONCLUSIVE, Outcome.PASS]
    assert not needs_more_rounds(verdicts)


def test_an_open_threshold_keeps_a_gate_of_passes_going(build: type[Build]) -> None:
    """One open threshold is enough for another round, and a pass is not sticky meanwhile."""
    pair = build.pair()
    record = build.window(pair, STEADY[:2], STEADY[:2])
    gate = build.gate(pair, build.threshold(), build.threshold("ttft_p50", floor=None))

    verdicts = judge(gate, record, final=False)

    assert [verdict.outcome for verdict in verdicts] == [Outcome.PASS, Outcome.INCONCLUSIVE]
    assert needs_more_rounds(verdicts)


def test_other_arms_of_the_window_do_not_matter(build: type[Build]) -> None:
    """A pair is judged by its own boots only, also when another arm of the window failed."""
    pair, other = build.pair(), build.pair(candidate=7)
    stranger = build.boot(other.candidate, other.profile, speed=0.1)
    stranger = stranger.model_copy(update={"pairs": (other.title,), "failure": DIED})
    record = build.window(pair, STEADY[:2], STEADY[:2])
    both = record.model_copy(update={"boots": (*record.boots, stranger)})

    assert judge(build.gate(pair, build.threshold()), both) == judge(build.gate(pair, build.threshold()), record)


def test_rounds_are_paired_whatever_the_order_of_the_boots(build: type[Build]) -> None:
    """Boots are paired by their round, not by their place in the record."""
    pair = build.pair()
    record = build.window(pair, [1.0, 2.0], [1.0, 2.0])
    shuffled = record.model_copy(update={"boots": tuple(reversed(record.boots))})

    [verdict] = judge(build.gate(pair, build.threshold()), shuffled)

    assert verdict.ratios == (0.0, 0.0)


def test_a_futile_threshold_is_judged_again_beside_an_open_one(build: type[Build]) -> None:
    """One that could hardly be decided any more ends no gate that another keeps going: the next look has both."""
    pair = build.pair(rounds=8)
    gate = build.gate(pair, build.threshold(margin=0.03), build.threshold("ttft_p50", 8, floor=None))
    speeds: list[Speed] = [{1: 0.97, 8: 0.955 if number % 2 else 1.006} for number in range(6)]

    running = judge(gate, build.window(pair, [1.0] * 4, speeds[:4]), final=False)
    last = judge(gate, build.window(pair, [1.0] * 6, speeds))

    assert [verdict.reason for verdict in running] == ["futile", OPEN]
    assert needs_more_rounds(running)
    assert [verdict.rounds for verdict in last] == [6, 6]
