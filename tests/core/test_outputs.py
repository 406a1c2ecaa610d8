"""Answers of two arms, compared request by request: information by default, a verdict where one is asked for."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core import outputs
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.judge import judge, needs_more_rounds
from pytest_specgate.core.outputs import Divergence, _parting
from pytest_specgate.core.plan import Plan
from pytest_specgate.core.thresholds import OutputsThreshold
from pytest_specgate.core.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import BootRecord, PointRecord, RequestRecord, WindowRecord
    from tests.core.conftest import Build

    Strange: TypeAlias = Mapping[tuple[str, int, Level], Sequence[int]]


def _said(request: RequestRecord, text: str, *, kept: bool = True) -> RequestRecord:
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    return request.model_copy(update={"text": text if kept else None, "text_sha256": sha256})


def _window(
    build: type[Build],
    pair: ArmPair,
    *,
    rounds: int = 2,
    other: Strange | None = None,
    kept: bool = True,
) -> WindowRecord:
    """Return a window whose answers are equal, but for some requests by arm, round and point."""

    def spoken(boot: BootRecord) -> BootRecord:
        return boot.model_copy(update={"points": tuple(point(boot, one) for one in boot.points)})

    def point(boot: BootRecord, one: PointRecord) -> PointRecord:
        strange = (other or {}).get((boot.arm, boot.round, one.at), ())
        requests = [
            _said(
                request, f"answer {request.index}{' or so' if request.index in strange else ', of course'}", kept=kept
            )
            for request in one.requests
        ]
        return one.model_copy(update={"requests": tuple(requests)})

    record = build.window(pair, [1.0] * rounds, [1.0] * rounds)
    return record.model_copy(update={"boots": tuple(map(spoken, record.boots))})


def _judged(build: type[Build], record: WindowRecord, pair: ArmPair, *, share: float = 0.9, at: Level = 8) -> Verdict:
    [verdict] = judge(build.gate(pair, OutputsThreshold(at, share)), record)
    return verdict


def test_equal_answers_are_counted_over_rounds_and_points(build: type[Build]) -> None:
    """Two rounds of ten and sixteen requests are 52 pairs of answers, and 26 of each arm with itself."""
    pair = build.pair()
    found = outputs.of_pair(pair, _window(build, pair), points=(1, 8))

    assert (found.arms.words, found.reference.words, found.candidate.words) == ("52 of 52", "26 of 26", "26 of 26")
    assert found.arms.first is None
    assert found.arms.share == 1


def test_case_86_texts_that_differ_are_information(build: type[Build]) -> None:
    """Case 86: 2 of 10 answers differ though greedy: told, with the first of them; no verdict turns on it."""
    pair = build.pair()
    record = _window(build, pair, other={("k4", 1, 1): (3, 7), ("k4", 2, 1): (3, 7)})
    [verdict] = judge(build.gate(pair, build.threshold(margin=0.5)), record)
    found = outputs.of_pair(pair, record, points=(1,))

    assert verdict.outcome is Outcome.PASS
    assert found.arms.words == "16 of 20"
    assert found.candidate.words == "10 of 10"
    assert found.arms.first == Divergence(at=1, round=1, index=3, character=9)
    assert found.arms.first.words == "first difference at character 9 of request 3 at c=1, round 1"


def test_an_arm_is_compared_with_its_own_first_round(build: type[Build]) -> None:
    """What differs between the rounds of one arm is its own, and the other arm's rounds are untouched by it."""
    pair = build.pair()
    record = _window(build, pair, rounds=4, other={("off", 3, 8): (0,)})
    found = outputs.of_pair(pair, record, points=(1, 8))

    assert (found.reference.words, found.candidate.words) == ("77 of 78", "78 of 78")
    assert found.reference.first == found.arms.first == Divergence(at=8, round=3, index=0, character=9)


def test_only_the_points_asked_for_are_compared(build: type[Build]) -> None:
    """Points that cannot be judged are left out by who asks, and a point that was not measured counts nothing."""
    pair = build.pair()
    record = _window(build, pair, other={("k4", 1, 1): (0,)})

    assert outputs.of_pair(pair, record, points=(8, 64)).arms.words == "32 of 32"


def test_failed_and_missing_answers_are_not_compared(build: type[Build]) -> None:
    """Only pairs of complete answers count: a failed one has none, and one without a counterpart neither."""
    pair = build.pair()
    record = _window(build, pair)

    def edit(point: PointRecord) -> PointRecord:
        failed = point.requests[0].model_copy(update={"error": "HTTP 500"})
        return point.model_copy(update={"requests": (failed, *point.requests[1:-1])})

    edited = build.edited_point(record, arm="k4", at=1, edit=edit)

    assert outputs.of_pair(pair, edited, points=(1,)).arms.words == "18 of 18"


def test_answers_that_were_not_kept_are_compared_by_their_hashes(build: type[Build]) -> None:
    """Without the texts it is known that two answers differ, and not where."""
    pair = build.pair()
    found = outputs.of_pair(pair, _window(build, pair, other={("k4", 1, 1): (5,)}, kept=False), points=(1,)).arms

    assert found.words == "19 of 20"
    assert found.first is not None
    assert found.first.words == (
        "where they differ is not known, as their texts were not kept (the first is request 5 at c=1, round 1)"
    )


def test_answers_that_differ_in_a_secret_alone_are_told(build: type[Build]) -> None:
    """Texts are kept without secrets: two that are equal then have other hashes, and a place in no text."""
    pair = build.pair()
    record = build.edited_point(
        _window(build, pair),
        arm="k4",
        at=1,
        edit=lambda point: point.model_copy(
            update={
                "requests": tuple(one.model_copy(update={"text_sha256": "f" * 64}) for one in point.requests),
            }
        ),
    )
    found = outputs.of_pair(pair, record, points=(1,)).arms.first

    assert found is not None
    assert found.kept
    assert found.words == "first difference in request 0 at c=1, round 1"


@given(common=st.text(max_size=8), rests=st.tuples(st.text(max_size=4), st.text(max_size=4)))
def test_answers_part_after_their_common_beginning(build: type[Build], common: str, rests: tuple[str, str]) -> None:
    """The first differing character is the one after the longest common beginning; equal texts part nowhere."""
    one, other = (build.request(text=common + rest) for rest in rests)
    found = _parting(one, other)

    if rests[0] == rests[1]:
        assert found is None
    else:
        assert found is not None
        left, right = common + rests[0], common + rests[1]
        assert left[: found - 1] == right[: found - 1]
        assert left[:found] != right[:found]


def test_sampled_answers_are_not_comparable(build: type[Build]) -> None:
    """Above temperature 0 each answer is drawn by chance, and the reason says so."""
    assert outputs.incomparable(build.profile()) is None
    assert outputs.incomparable(build.profile(temperature=0.8)) == (
        "outputs cannot be compared: at temperature 0.8 every answer is drawn by chance"
    )


def test_a_claim_on_answers_passes_when_every_round_agrees(build: type[Build]) -> None:
    """One of sixteen answers differs in one round: 93.75 % in the worst round, which 90 % allows."""
    pair = build.pair()
    verdict = _judged(build, _window(build, pair, other={("k4", 2, 8): (0,)}), pair)

    assert (verdict.outcome, verdict.reason, verdict.shares) == (Outcome.PASS, "outputs-agree", (1.0, 0.9375))
    assert verdict.summary == (
        "PASS: 15 of 16 answers at c=8 equal (93.75 %), in the worst of 2 rounds, asked for at least 90 %"
    )
    assert (verdict.metric, verdict.kind, verdict.limit, verdict.threshold) == (
        "outputs_agree",
        "outputs_agree",
        0.9,
        "c8-outputs_agree",
    )
    assert (verdict.rounds, verdict.samples, verdict.change, verdict.flags) == (2, 16, None, ())


def test_a_claim_on_answers_fails_when_one_round_does_not_agree(build: type[Build]) -> None:
    """Two of sixteen answers differ in one round: 87.5 % is less than 90 %, whatever the other round says.

    Each arm changes one answer from round to round, another one each, so both repeat themselves well enough.
    """
    pair = build.pair()
    verdict = _judged(build, _window(build, pair, other={("k4", 2, 8): (0,), ("off", 2, 8): (1,)}), pair)

    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, "outputs-differ")
    assert verdict.claim == "answers at c=8 equal in at least 90 % of each round"


def test_a_claim_on_answers_looks_at_its_own_point_only(build: type[Build]) -> None:
    """Answers that differ at c=1 are nothing to a claim at c=8."""
    pair = build.pair()
    record = _window(build, pair, other={("k4", 1, 1): range(10)})

    assert _judged(build, record, pair, share=1.0).outcome is Outcome.PASS


@pytest.mark.parametrize(("arm", "shares"), [("off", ("14", "87.5", "16", "100")), ("k4", ("16", "100", "14", "87.5"))])
def test_an_arm_that_does_not_repeat_itself_decides_nothing(
    build: type[Build], arm: str, shares: tuple[str, ...]
) -> None:
    """Where an arm differs from itself by more than is allowed, the other cannot be held to it: no FAIL, no PASS."""
    pair = build.pair()
    verdict = _judged(build, _window(build, pair, other={(arm, 2, 8): (0, 1)}), pair)

    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "outputs-not-repeatable")
    assert verdict.summary == (
        "INCONCLUSIVE: 14 of 16 answers at c=8 equal (87.5 %), in the worst of 2 rounds, asked for at least 90 %: no "
        "arm can be held to more than it repeats of its own answers, off with itself {} of 16 ({} %), k4 with itself "
        "{} of 16 ({} %)".format(*shares)
    )
    assert (verdict.shares, verdict.flags) == ((1.0, 0.875), ())


def test_one_odd_round_among_many_is_not_hidden_by_the_others(build: type[Build]) -> None:
    """The floor is the worst round as well: 14 of 16 once in five is fewer than asked for, 78 of 80 would not be."""
    pair = build.pair()
    verdict = _judged(build, _window(build, pair, rounds=6, other={("off", 4, 8): (0, 1)}), pair)

    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "outputs-not-repeatable")


def test_arms_that_repeat_themselves_and_differ_fail(build: type[Build]) -> None:
    """Two answers differ in every round alike: both arms repeat themselves, so the difference is between them."""
    pair = build.pair()
    record = _window(build, pair, other={("k4", 1, 8): (0, 1), ("k4", 2, 8): (0, 1)})
    verdict = _judged(build, record, pair)

    assert (verdict.outcome, verdict.reason, verdict.flags) == (Outcome.FAIL, "outputs-differ", ())


def test_arms_that_agree_without_repeating_themselves_pass_with_a_note(build: type[Build]) -> None:
    """Both arms change two answers in one round alike: they agree, and the verdict has a note."""
    pair = build.pair()
    record = _window(build, pair, other={(arm, 2, 8): (0, 1) for arm in ("off", "k4")})
    verdict = _judged(build, record, pair)

    assert (verdict.outcome, verdict.shares) == (Outcome.PASS, (1.0, 1.0))
    [flag] = verdict.flags
    assert flag == (
        "the arms repeat their own answers less than is asked for: off with itself 14 of 16 (87.5 %), k4 with itself "
        "14 of 16 (87.5 %)"
    )


def test_arms_that_do_not_repeat_themselves_ask_for_no_more_rounds(build: type[Build]) -> None:
    """The worst round stays the worst: nothing that follows could decide it."""
    pair = build.pair(rounds=6)
    record = _window(build, pair, rounds=2, other={("off", 2, 8): (0, 1)})
    verdicts = judge(build.gate(pair, OutputsThreshold(8, 0.9)), record, final=False)

    assert [verdict.reason for verdict in verdicts] == ["outputs-not-repeatable"]
    assert not needs_more_rounds(verdicts)


def test_one_round_tells_nothing_of_the_floor(build: type[Build]) -> None:
    """A single round is judged, and says that nobody knows whether the reference repeats itself."""
    pair = build.pair()
    verdict = _judged(build, _window(build, pair, rounds=1), pair)

    assert verdict.summary == "PASS: 16 of 16 answers at c=8 equal (100 %), asked for at least 90 %"
    assert verdict.flags == ("off ran once, so whether it repeats its own answers is not known",)


def test_one_round_that_differs_fails(build: type[Build]) -> None:
    """What is not known of the floor saves nobody: a single round that differs fails, with the same note."""
    pair = build.pair()
    verdict = _judged(build, _window(build, pair, rounds=1, other={("k4", 1, 8): (0, 1)}), pair)

    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, "outputs-differ")
    assert verdict.flags == ("off ran once, so whether it repeats its own answers is not known",)


def test_points_that_cannot_be_judged_are_invalid_here_too(build: type[Build]) -> None:
    """A failed request makes a claim on answers invalid, as it does any other."""
    pair = build.pair()

    def edit(point: PointRecord) -> PointRecord:
        return point.model_copy(update={"requests": (build.failed(), *point.requests[1:])})

    verdict = _judged(build, build.edited_point(_window(build, pair), arm="k4", at=8, edit=edit), pair)

    assert (verdict.outcome, verdict.reason, verdict.shares) == (Outcome.INVALID, "failed-requests", ())


def test_sampled_answers_are_invalid(build: type[Build]) -> None:
    """A record of sampled answers, judged by a claim on them, is invalid: there is nothing to compare."""
    pair = build.pair(temperature=0.8)
    verdict = _judged(build, _window(build, pair), pair)

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "not-comparable")


@pytest.mark.parametrize(("planned", "ran", "more"), [(6, 1, True), (6, 2, False), (1, 1, False)])
def test_a_claim_on_answers_asks_for_two_rounds(build: type[Build], *, planned: int, ran: int, more: bool) -> None:
    """A second round shows how far the arms repeat themselves; it asks for no third, and for none unplanned."""
    pair = build.pair(rounds=planned)
    record = _window(build, pair, rounds=ran, other={("k4", 1, 8): range(16)} if more else None)
    gate = build.gate(pair, OutputsThreshold(8, 0.9))

    assert needs_more_rounds(judge(gate, record, final=False)) is more


def test_a_claim_on_answers_takes_no_share_of_the_error_rates(build: type[Build]) -> None:
    """The family of a gate counts the thresholds that rest on an interval, and no others."""
    known = build.threshold()
    gate = build.gate(build.pair(), known, OutputsThreshold(8, 0.9), build.threshold("ttft_p50", 8))

    assert gate.plan(known) == Plan((2, 4, 6), family=2)
    gate.check()


def test_a_claim_on_sampled_answers_is_refused(build: type[Build]) -> None:
    """It can never be judged, so it is a mistake of the gate file."""
    gate = build.gate(build.pair(temperature=0.8), OutputsThreshold(8, 0.9))

    with pytest.raises(UsageError) as raised:
        gate.check()

    assert str(raised.value) == (
        "threshold c8-outputs_agree compares answers, and at temperature=0.8 each is drawn by chance: set "
        "temperature=0 in the profile, or leave the threshold out"
    )


def test_answers_are_comparable_level_by_level(build: type[Build]) -> None:
    """A greedy level is compared whatever the others are; the claim on another one is refused with its own cure."""
    pair = build.pair(requests={8: 16, "8 T=0.8": 16, "8 T=1": 16})

    build.gate(pair, OutputsThreshold(8, 0.9)).check()
    with pytest.raises(UsageError) as raised:
        build.gate(pair, OutputsThreshold("8 T=0.8", 0.9)).check()

    assert str(raised.value) == (
        "threshold c8-t0.8-outputs_agree compares answers, and at temperature=0.8 each is drawn by chance: claim it of "
        "a level of temperature 0, or leave the threshold out"
    )


@pytest.mark.parametrize(
    ("points", "told"),
    [
        ((8,), None),
        (("8 T=0.8",), "outputs at c=8 T=0.8 cannot be compared: at temperature 0.8 every answer is drawn by chance"),
        (
            None,
            (
                "outputs at c=8 T=0.8, 8/s T=1 cannot be compared: at temperatures 0.8 and 1 every answer is drawn by "
                "chance"
            ),
        ),
    ],
)
def test_levels_that_cannot_be_compared_are_named(
    build: type[Build], points: tuple[Level, ...] | None, told: str | None
) -> None:
    """Of the levels that are looked at those are named at which answers are drawn by chance."""
    profile = build.profile(requests={8: 16, "8 T=0.8": 16, "8/s T=1": 16})

    assert outputs.incomparable(profile, points) == told


def test_a_verdict_on_a_level_looks_at_its_own_temperature(build: type[Build]) -> None:
    """A record whose claim is on a sampled level is INVALID, and on a greedy one of the same window it is judged."""
    pair = build.pair(requests={8: 16, "8 T=0.8": 16})
    record = _window(build, pair)
    drawn = _judged(build, record, pair, at="8 T=0.8")

    assert _judged(build, record, pair, at=8).outcome is Outcome.PASS
    assert (drawn.outcome, drawn.reason) == (Outcome.INVALID, "not-comparable")


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01])
def test_impossible_shares_are_refused(share: float) -> None:
    """A share of nothing, or of more than all, claims nothing."""
    with pytest.raises(UsageError, match=r"^OutputsThreshold: at_least='.*%': a share of equal answers lies above 0 %"):
        OutputsThreshold(8, share)
