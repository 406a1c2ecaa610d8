"""Comparisons of two window records: identity first, then the change between arms, and the level of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.comparison import INDICATIVE, SAME_TWICE
from pytest_specgate.core.comparison_claims import Claims, claims_of
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.metrics import HEADLINE
from pytest_specgate.core.records import ChunkGaps
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.core.window_comparison import compare_windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.comparison import Comparison, Row
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import BootRecord, PointRecord, WindowRecord
    from tests.core.conftest import Build

NOTHING = Claims()
JUDGED = claims_of(cross_window="3%", source="six windows of a test", margins=["5%"])


def row(
    found: Comparison, metric: str, *, mode: str = "relative", at: Level | None = 1, subject: str | None = None
) -> Row:
    """Return the row of a figure."""
    rows = [one for one in found.rows if (one.metric, one.mode, one.at) == (metric, mode, at)]
    (one,) = [one for one in rows if subject in (None, one.subject)]
    return one


def window(
    build: type[Build],
    reference: float = 1.0,
    candidate: float = 1.5,
    *,
    day: int = 29,
    rounds: int = 2,
    **profile: Any,
) -> WindowRecord:
    """Return a window of k=4 against off, at known speeds."""
    made = build.window(build.pair(**profile), [reference] * rounds, [candidate] * rounds)
    return made.model_copy(update={"created_at": f"2026-11-{day}T12:00:00+00:00"})


def test_the_change_between_arms_is_compared_and_the_machine_cancels(build: type[Build]) -> None:
    """Half the speed of everything is no change between the arms; their levels are shown beside it, not judged."""
    found = compare_windows(window(build), window(build, 0.5, 0.75, day=30), JUDGED)

    assert (found.mode, found.outcome) == ("relative", Outcome.PASS)
    assert row(found, "output_throughput").reference == pytest.approx(1.5)
    assert row(found, "output_throughput").change == pytest.approx(0.0)
    level = row(found, "output_throughput", mode="absolute", subject="k4")
    assert level.outcome is None
    assert level.change == pytest.approx(-0.5)
    assert found.identity == "request profile: 44 of 44 fields identical"


def built(record: WindowRecord, version: str) -> WindowRecord:
    """Return a window whose arms ran on a build of the engine."""
    return record.model_copy(update={"engine": {name: {"version": version} for name in ("off", "k4")}})


@pytest.mark.parametrize(("speed", "word"), [(0.769, "worse -23.1 %"), (1.3, "better +30.0 %")])
def test_a_reference_arm_that_moved_is_named_beside_a_pass(build: type[Build], speed: float, word: str) -> None:
    """What slows both arms alike is no change between them, so it is said, either way."""
    found = compare_windows(window(build), window(build, speed, 1.5 * speed, day=30), JUDGED)
    sentence = f"the machine or the engine moved: off, the reference, is {word} (output throughput at c=1, and "

    assert found.outcome == Outcome.PASS
    assert found.caveats[0].startswith(sentence)
    assert found.caveats[0] in found.notes


@pytest.mark.parametrize(("speed", "outcome"), [(0.77, Outcome.INCONCLUSIVE), (1.3, Outcome.PASS), (1.0, Outcome.PASS)])
def test_a_build_that_slows_both_arms_does_not_pass(build: type[Build], speed: float, outcome: Outcome) -> None:
    """With another build a loss of the reference's level is a loss that a PASS would hide; a gain is none."""
    slow = built(window(build, speed, 1.5 * speed, day=30), "0.33.0")
    found = compare_windows(built(window(build), "0.32.0"), slow, JUDGED)
    one = row(found, "output_throughput")

    assert (found.outcome, one.outcome) == (outcome, outcome)
    assert (one.reason == "reference-moved") == (speed < 1)
    assert ("off, the reference, is worse -23.0 %" in one.message) == (speed < 1)
    assert any('varies="engine"' in note for note in found.notes) == (speed != 1)


@pytest.mark.parametrize(("version", "remedy"), [("0.33.0", 'varies="engine"'), ("0.32.0", "use --mode relative")])
def test_relative_mode_is_no_way_around_another_build(build: type[Build], version: str, remedy: str) -> None:
    """Where builds differ, levels that moved are measured again in one window, and not compared by their change."""
    slow = built(window(build, 0.5, 0.75, day=30), version)
    found = compare_windows(built(window(build), "0.32.0"), slow, JUDGED, mode="absolute")
    message = row(found, "output_throughput", mode="absolute", subject="k4").message

    assert message.startswith("the machine or the engine moved: off, its reference, is worse -50.0 %")
    assert message.endswith(remedy)


def test_a_build_that_one_window_alone_tells_is_noted(build: type[Build]) -> None:
    """That the other may be another one is said."""
    silent = window(build, day=30).model_copy(update={"engine": {}})
    found = compare_windows(built(window(build), "0.32.0"), silent, NOTHING)

    assert "only the reference window tells the build of its engine: it may be another one" in found.notes


def test_a_lost_arm_without_a_floor_is_shown_only(build: type[Build]) -> None:
    """Nothing is claimed, so nothing is INVALID; what was lost stands there all the same."""
    found = compare_windows(window(build), with_pair(build, None, 7, day=30), NOTHING, mode="absolute")

    assert found.outcome == Outcome.INCONCLUSIVE
    assert {one.subject for one in found.rows if one.reason == "not-measured"} == {"k4", "k4 against off"}


def test_a_lost_gain_fails_at_every_point_that_lost_it(build: type[Build]) -> None:
    """From +50 % to +20 % is a loss of a fifth, in all headline metrics at both loads."""
    found = compare_windows(window(build), window(build, 1.0, 1.2, day=30), JUDGED)
    failed = [one for one in found.rows if one.outcome == Outcome.FAIL]

    assert found.outcome == Outcome.FAIL
    assert {(one.metric, one.at) for one in failed} == {(name, at) for name in HEADLINE for at in (1, 8)}
    assert row(found, "ttft_p50").change == pytest.approx(0.25)
    assert {one.mode for one in failed} == {"relative"}


def test_without_a_floor_two_records_are_indicative(build: type[Build]) -> None:
    """Nothing passes and nothing fails."""
    found = compare_windows(window(build), window(build, 1.0, 0.1, day=30), NOTHING)

    assert (found.outcome, found.message) == (Outcome.INCONCLUSIVE, INDICATIVE)
    assert {one.outcome for one in found.rows} == {None}


def test_levels_are_judged_where_that_is_asked(build: type[Build]) -> None:
    """The level of the candidate fails; that of the reference arm is watched, and not judged."""
    found = compare_windows(window(build), window(build, 1.0, 1.2, day=30), JUDGED, mode="absolute")

    assert found.outcome == Outcome.FAIL
    assert row(found, "output_throughput", mode="absolute", subject="k4").outcome == Outcome.FAIL
    assert row(found, "output_throughput", mode="absolute", subject="off").outcome is None
    assert row(found, "output_throughput").outcome is None


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_a_machine_that_moved_makes_levels_invalid(build: type[Build], speed: float) -> None:
    """Where the reference arm is outside its own margin, either way, the level of the candidate tells nothing."""
    found = compare_windows(window(build), window(build, speed, 1.5 * speed, day=30), JUDGED, mode="absolute")
    one = row(found, "output_throughput", mode="absolute", subject="k4")

    assert (found.outcome, one.reason, one.candidate) == (Outcome.INVALID, "machine-moved", None)
    assert "off, its reference, is" in one.message


def test_a_reference_arm_without_a_figure_tells_nothing_of_the_machine(build: type[Build]) -> None:
    """A level is INVALID where the arm that it is held against is 0, and free where that arm has no such metric."""
    claims = claims_of(cross_window="3%", source="six windows", margins=["goodput=5%", "acceptance_rate=5%"])
    limits: dict[str, Any] = {"goodput_limits": {"ttft": "80ms"}}
    found = compare_windows(window(build, **limits), window(build, day=30, **limits), claims, mode="absolute")
    one = row(found, "goodput", mode="absolute", subject="k4")

    assert (one.outcome, one.reason) == (Outcome.INVALID, "reference-is-zero")
    assert "off, its reference, is 0" in one.message
    assert row(found, "acceptance_rate", mode="absolute", subject="k4").outcome == Outcome.PASS


def test_a_pair_that_lacks_what_is_claimed_of_it_is_invalid(build: type[Build]) -> None:
    """Only one of these arms has an acceptance, so a claim of its change is INVALID, and not passed over."""
    claims = claims_of(cross_window="3%", source="six windows", margins=["acceptance_rate=5%"])
    found = compare_windows(window(build), window(build, day=30), claims)

    assert found.outcome == Outcome.INVALID
    assert row(found, "acceptance_rate").reason == "missing-metric"


def test_boots_of_one_arm_under_other_loads_are_not_compared(build: type[Build]) -> None:
    """Within a window every boot has one load, of single arms as of pairs."""
    mixed = build.edited(
        window(build, day=30),
        arm="k4",
        number=2,
        edit=lambda boot: boot.model_copy(update={"profile": {**boot.profile, "seed": 7}}),
    )
    found = compare_windows(window(build), mixed, JUDGED, mode="absolute")
    one = row(found, "", mode="absolute", subject="k4", at=None)

    assert (found.outcome, one.reason) == (Outcome.INVALID, "profile-mismatch")
    assert "boots of arm k4 were put under other loads" in one.message


def test_acceptance_belongs_to_levels_only(build: type[Build]) -> None:
    """An arm without speculation has no acceptance to compare with; that of the arm itself is shown."""
    found = compare_windows(window(build), window(build, day=30), NOTHING)

    assert not [one for one in found.rows if one.metric == "acceptance_rate" and one.mode == "relative"]
    assert row(found, "acceptance_rate", mode="absolute").reference == pytest.approx(0.375)
    assert row(found, "preemptions", mode="absolute", subject="off").candidate == 0.0
    assert row(found, "preemptions", mode="absolute", subject="off").change is None


def test_windows_of_two_loads_have_no_rows(build: type[Build]) -> None:
    """The field that differs is shown with both values."""
    found = compare_windows(window(build), window(build, day=30, temperature=0.7), JUDGED)

    assert (found.valid, found.outcome, found.reason, found.rows) == (False, Outcome.INVALID, "profile-mismatch", ())
    assert [(one.field, one.reference, one.candidate) for one in found.differences] == [("temperature", 0.0, 0.7)]
    assert found.identity == "request profile: 43 of 44 fields identical"


def observed(record: WindowRecord, arms: Sequence[str], **fields: Any) -> WindowRecord:
    """Return a window in which some arms were put under another load."""
    boots = [
        boot.model_copy(update={"profile": {**boot.profile, **fields}}) if boot.arm in arms else boot
        for boot in record.boots
    ]
    return record.model_copy(update={"boots": tuple(boots)})


@pytest.mark.parametrize("arms", [("off", "k4"), ("k4",)])
def test_what_was_observed_counts_on_every_arm(build: type[Build], arms: tuple[str, ...]) -> None:
    """Other prompts as sent, or other formulas, are another load, on one arm as on all."""
    other = observed(window(build, day=30), arms, metric_definition_version=1)
    found = compare_windows(observed(window(build), ("off", "k4"), metric_definition_version=2), other, JUDGED)

    assert (found.valid, found.reason) == (False, "profile-mismatch")
    assert "metric_definition_version" in [one.field for one in found.differences]


def test_windows_of_two_machines_are_not_compared(build: type[Build]) -> None:
    """Both classes are named, whether they are written down or follow from the facts."""
    named = window(build).model_copy(update={"host_class": "h200x1-ab"})
    other = window(build, day=30).model_copy(update={"host": {"cpu_model": "another"}})
    found = compare_windows(named, window(build, day=30).model_copy(update={"host_class": "h100x1-cd"}), JUDGED)

    assert (found.valid, found.reason) == (False, "foreign-host")
    assert "h200x1-ab and h100x1-cd" in found.message
    assert compare_windows(window(build), other, JUDGED).reason == "foreign-host"


def test_arms_that_changed_under_their_name_are_not_compared(build: type[Build]) -> None:
    """The argument that differs is shown with both values; settings of the session count likewise."""
    first, second = window(build), window(build, day=30)
    arms = tuple(arm.vary(arm.name, args={"max_model_len": 128}) for arm in second.arms)
    found = compare_windows(first, second.model_copy(update={"arms": arms}), JUDGED)
    settings = compare_windows(first, second.model_copy(update={"settings": {"command": "other"}}), JUDGED)

    assert (found.valid, found.reason) == (False, "other-definition")
    assert ("arm.off.args.max_model_len", 64, 128) in [
        (one.field, one.reference, one.candidate) for one in found.differences
    ]
    assert [one.field for one in settings.differences] == ["settings.command"]


def test_an_unfinished_window_is_not_compared(build: type[Build]) -> None:
    """What a window would have shown had it run on is not known."""
    found = compare_windows(window(build), window(build, day=30).model_copy(update={"finished": False}), JUDGED)

    assert (found.valid, found.reason) == (False, "unfinished")
    assert "the candidate window" in found.message


def broken(boot: BootRecord) -> BootRecord:
    """Return a boot whose requests failed at c=8."""
    points = []
    for point in boot.points:
        failed = tuple(request.model_copy(update={"error": "HTTP 500"}) for request in point.requests)
        points.append(point.model_copy(update={"requests": failed}) if point.at == 8 else point)
    return boot.model_copy(update={"points": tuple(points)})


def test_a_broken_point_has_no_figures_and_the_others_are_judged(build: type[Build]) -> None:
    """Failures at one load make that load INVALID, and hide no regression at another."""
    bad = build.edited(window(build, 1.0, 1.2, day=30), arm="k4", edit=broken)
    found = compare_windows(window(build), bad, JUDGED)
    whole = [one for one in found.rows if not one.metric and one.outcome is not None]

    assert found.outcome == Outcome.FAIL
    assert [(one.at, one.outcome, one.valid) for one in whole] == [(8, Outcome.INVALID, False)]
    assert "in the candidate window arm k4 at c=8" in whole[0].message
    assert {one.at for one in found.rows if one.outcome == Outcome.FAIL} == {1}
    assert not [one for one in found.rows if one.at == 8 and one.metric and one.subject == "k4"]


def test_a_pair_that_cannot_be_judged_is_invalid_without_a_floor_too(build: type[Build]) -> None:
    """A boot that failed leaves no figure of its pair, and no word but INVALID."""
    short = window(build, day=30)
    gone = short.model_copy(update={"boots": tuple(boot for boot in short.boots if boot.arm != "k4")})
    found = compare_windows(window(build), gone, NOTHING)

    assert found.outcome == Outcome.INVALID
    assert row(found, "", subject="k4 against off", at=None).reason == "not-measured"
    assert row(found, "output_throughput", mode="absolute", subject="off").valid


def with_pair(build: type[Build], reference: int | None, candidate: int, *, day: int) -> WindowRecord:
    """Return a window of another pair."""
    made = build.window(build.pair(reference=reference, candidate=candidate), [1.0, 1.0], [1.5, 1.5])
    return made.model_copy(update={"created_at": f"2026-11-{day}T12:00:00+00:00"})


def test_what_the_candidate_window_lacks_is_invalid_and_never_passed_over(build: type[Build]) -> None:
    """Levels are compared where that is asked; an arm and a pair that were lost stand there, each with its reason."""
    found = compare_windows(window(build), with_pair(build, None, 7, day=30), JUDGED, mode="absolute")
    lost = {one.subject: one.reason for one in found.rows if one.outcome == Outcome.INVALID}

    assert found.outcome == Outcome.INVALID
    assert lost["k4"] == "not-measured"
    assert {one.subject for one in found.rows if one.outcome == Outcome.PASS} == {"off"}
    assert "only in the reference window: k4" in found.notes
    assert "only in the candidate window: k7" in found.notes
    assert any(note.startswith("off is held against no other arm") for note in found.notes)


def test_a_pair_that_is_not_there_cannot_be_asked_for(build: type[Build]) -> None:
    """The relative mode needs a pair in common."""
    with pytest.raises(UsageError, match="no pair of arms in common"):
        compare_windows(window(build), with_pair(build, None, 7, day=30), JUDGED, mode="relative")


def test_levels_are_not_compared_instead_of_a_pair_unasked(build: type[Build]) -> None:
    """Windows of pairs that have none in common are compared by their levels only where that is asked."""
    with pytest.raises(UsageError, match="--mode absolute compares the levels"):
        compare_windows(window(build), with_pair(build, None, 7, day=30), JUDGED)


def test_windows_with_nothing_in_common_are_not_compared(build: type[Build]) -> None:
    """Both lists of arms are named."""
    found = compare_windows(window(build), with_pair(build, 2, 7, day=30), JUDGED)

    assert (found.valid, found.reason) == (False, "nothing-in-common")
    assert "one has off, k4, the other k2, k7" in found.message


def with_gaps(record: WindowRecord, *, tokens: int) -> WindowRecord:
    """Return a window with gaps between its chunks; those of k4 hold some tokens each, those of off one."""
    gaps = ChunkGaps(count=100, sum_s=1.0, p50_s=0.01, p90_s=0.01, p95_s=0.01, p99_s=0.01, max_s=0.01)

    def chunked(point: PointRecord, size: int) -> PointRecord:
        requests = [one.model_copy(update={"token_events": (one.output_tokens or 0) // size}) for one in point.requests]
        return point.model_copy(update={"gaps": gaps, "requests": tuple(requests)})

    boots = []
    for boot in record.boots:
        points = tuple(chunked(point, tokens if boot.arm == "k4" else 1) for point in boot.points)
        boots.append(boot.model_copy(update={"points": points}))
    return record.model_copy(update={"boots": tuple(boots)})


@pytest.mark.parametrize("tokens", [2, 1])
def test_gaps_are_never_compared_between_arms_whose_chunks_differ(build: type[Build], tokens: int) -> None:
    """The level of one arm may be compared with itself; the change between two arms only where chunks hold alike."""
    claims = claims_of(cross_window="3%", source="six windows", margins=["inter_chunk_p50=5%"])
    windows = with_gaps(window(build), tokens=tokens), with_gaps(window(build, day=30), tokens=tokens)
    found, judged = compare_windows(*windows, NOTHING), compare_windows(*windows, claims)
    between = [one.change for one in found.rows if (one.metric, one.mode, one.at) == ("inter_chunk_p50", "relative", 1)]

    assert row(found, "inter_chunk_p50", mode="absolute", subject="k4").change == 0.0
    assert between == ([] if tokens == 2 else [0.0])
    assert judged.outcome == (Outcome.INVALID if tokens == 2 else Outcome.PASS)
    assert row(judged, "inter_chunk_p50").reason == ("chunks-differ" if tokens == 2 else "within-margin")


def test_gaps_are_shown_where_the_chunks_of_an_arm_changed(build: type[Build]) -> None:
    """Chunks of one token then and of two now: both levels stand there, and no change."""
    windows = with_gaps(window(build), tokens=1), with_gaps(window(build, day=30), tokens=2)
    one = row(compare_windows(*windows, NOTHING), "inter_chunk_p50", mode="absolute", subject="k4")

    assert (one.change, one.reason) == (None, "chunks-differ")
    assert one.reference == pytest.approx(0.01)


def test_notes_say_what_a_reader_should_know(build: type[Build]) -> None:
    """Another build of the engine, a window of one round, and the same window twice."""
    engine = {name: {"version": "0.33.0"} for name in ("off", "k4")}
    first = window(build).model_copy(update={"engine": {name: {"version": "0.32.0"} for name in engine}})
    found = compare_windows(first, window(build, day=30, rounds=1).model_copy(update={"engine": engine}), NOTHING)
    same = compare_windows(first, first, JUDGED)

    assert "engine of off, k4: version 0.32.0 -> 0.33.0" in found.notes
    assert "a window of one round has no spread of its own" in found.notes
    assert (same.outcome, same.notes) == (Outcome.PASS, (SAME_TWICE,))


def test_an_attached_server_is_named_as_unproved(build: type[Build]) -> None:
    """What nobody could prove of a server stands before any figure."""
    attached = window(build, day=30)
    boots = tuple(boot.model_copy(update={"unproved": ("its arguments",)}) for boot in attached.boots)
    found = compare_windows(window(build), attached.model_copy(update={"boots": boots}), NOTHING)

    assert "in the candidate window off was attached, so this is not proved: its arguments" in found.unproved
