"""Identity of the request profile over the boots of a pair, field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.identity import UNSET, compare, observed_fields, sent_hash, shortened
from pytest_specgate.core.stored import Failure

if TYPE_CHECKING:
    from pydantic import JsonValue

    from pytest_specgate.core.records import BootRecord, RequestRecord
    from tests.core.conftest import Build


def _boots(build: type[Build], left: dict[str, JsonValue], right: dict[str, JsonValue]) -> list[BootRecord]:
    """Return a boot of either arm with a profile of a few fields."""
    pair = build.pair()
    profiles = zip(pair.arms, (left, right), strict=True)
    return [build.boot(arm, pair.profile).model_copy(update={"profile": profile}) for arm, profile in profiles]


def test_identical_boots_are_counted(build: type[Build]) -> None:
    """Boots with equal profiles say how many fields were compared."""
    pair = build.pair()
    report = compare(build.window(pair, [1.0, 1.1], [2.0, 2.1]).boots)

    fields = len(build.boot(pair.reference, pair.profile).profile)
    assert report.identical
    assert report.sentence == f"request profile: {fields} of {fields} fields identical"


def test_case_75_different_prompts(build: type[Build]) -> None:
    """Case 75: one field that differs is named with both values and where they were seen."""
    left: dict[str, JsonValue] = {"seed": 0, "prompt_set_sha256.c1": "aaaa"}

    report = compare(_boots(build, left, {**left, "prompt_set_sha256.c1": "bbbb"}))

    [found] = report.differences
    assert not report.identical
    assert report.sentence == "request profile: 1 of 2 fields identical"
    assert (found.field, found.left, found.right) == ("prompt_set_sha256.c1", "aaaa", "bbbb")
    assert (found.left_boot, found.right_boot) == ("off, round 1", "k4, round 1")


@pytest.mark.parametrize("value", [0.0, None, "", UNSET])
def test_case_76_unset_differs_from_set(build: type[Build], value: JsonValue) -> None:
    """Case 76: a field that one arm does not have at all differs from every value, an empty one too."""
    for left, right in ({}, {"temperature": value}), ({"temperature": value}, {}):
        [found] = compare(_boots(build, left, right)).differences

        assert found.field == "temperature"
        assert UNSET in {found.left, found.right}


def test_case_77_output_lengths_are_compared_request_by_request(build: type[Build]) -> None:
    """Case 77: observed output tokens are part of the profile, in order, not as a mean."""
    short = build.point([build.request(0, output_tokens=10), build.request(1, output_tokens=12)])
    level = build.point([build.request(0, output_tokens=11), build.request(1, output_tokens=11)])

    [found] = compare(_boots(build, observed_fields([level]), observed_fields([short]))).differences

    assert (found.field, found.left, found.right) == ("observed_output_tokens.c1", [11, 11], [10, 12])


def test_case_83_prompt_tokens_are_those_the_server_counted(build: type[Build]) -> None:
    """Case 83: servers that count the same prompts differently are not compared, and the field is named."""
    left = observed_fields([build.point([build.request(0, prompt_tokens=128)], at=8)])
    right = observed_fields([build.point([build.request(0, prompt_tokens=131)], at=8)])

    [found] = compare(_boots(build, left, right)).differences

    assert (found.field, found.left, found.right) == ("observed_prompt_tokens.c8", [128], [131])


def _sent(build: type[Build], *bodies: str) -> list[RequestRecord]:
    return [build.request(index, body_sha256=body) for index, body in enumerate(bodies)]


def test_case_75_the_hash_of_a_point_is_of_what_was_sent(build: type[Build]) -> None:
    """Case 75: one other body at one point is seen there and nowhere else, whatever was prepared to be sent."""
    left = [build.point(_sent(build, "aa", "bb"), at=1), build.point(_sent(build, "cc", "dd"), at=8)]
    right = [left[0], build.point(_sent(build, "cc", "ee"), at=8)]

    [found] = compare(_boots(build, observed_fields(left), observed_fields(right))).differences

    assert found.field == "prompt_set_sha256.c8"
    assert (found.left, found.right) == (sent_hash(left[1].requests), sent_hash(right[1].requests))


@pytest.mark.parametrize(
    "other", [("bb", "aa"), ("aa",), ("aa", "bb", "bb"), ("a", "abb"), ("aabb",), ("aa", "bb", ""), ()], ids=str
)
def test_the_hash_of_what_was_sent_tells_order_and_borders(build: type[Build], other: tuple[str, ...]) -> None:
    """Another order, another number or other borders of the same hashes are another prompt set."""
    assert sent_hash(_sent(build, *other)) != sent_hash(_sent(build, "aa", "bb"))


def test_the_hash_of_what_was_sent_is_of_nothing_else(build: type[Build]) -> None:
    """The same bodies have one hash, whatever came back and whenever; a request that failed was sent too."""
    good = _sent(build, "aa", "bb")
    slow = [request.model_copy(update={"sent_s": 5.0, "output_tokens": 1, "text_sha256": "f"}) for request in good]
    lost = [good[0], build.failed(1).model_copy(update={"body_sha256": "bb"})]

    assert sent_hash(good) == sent_hash(slow) == sent_hash(lost)
    assert len(sent_hash(good)) == 64


def test_observed_fields_of_a_point(build: type[Build]) -> None:
    """A point gives the hash of what was sent, and what came back by request, under its concurrency."""
    fields = observed_fields([build.point([build.request(0), build.failed(1)], at=8)])

    assert set(fields) == {
        "prompt_set_sha256.c8",
        "observed_prompt_tokens.c8",
        "observed_output_tokens.c8",
        "observed_finish_reasons.c8",
        "arrivals_sha256.c8",
        "client_processes.c8",
    }
    assert fields["observed_output_tokens.c8"] == [11, None]


def test_finish_reasons_are_compared(build: type[Build]) -> None:
    """A request that stopped by itself in one arm only is a difference."""
    left = observed_fields([build.point([build.request(0, finish_reason="length")])])
    right = observed_fields([build.point([build.request(0, finish_reason="stop")])])

    assert [found.field for found in compare(_boots(build, left, right)).differences] == ["observed_finish_reasons.c1"]


def test_a_later_round_of_the_same_arm_is_compared_too(build: type[Build]) -> None:
    """Every boot is compared with the first, so a change in round 2 is seen and located."""
    window = build.window(build.pair(), [1.0, 1.0], [1.0, 1.0])
    changed = build.edited(
        window, arm="off", number=2, edit=lambda boot: boot.model_copy(update={"profile": {**boot.profile, "seed": 1}})
    )

    [found] = compare(changed.boots).differences

    assert (found.field, found.left_boot, found.right_boot) == ("seed", "off, round 1", "off, round 2")


def test_failed_boots_are_left_out(build: type[Build]) -> None:
    """A boot that failed has no complete profile, and causes no mismatch of its own."""
    window = build.window(build.pair(), [1.0, 1.0], [1.0, 1.0])
    failure = Failure(reason="server-died", message="it died")
    broken = build.edited(
        window, arm="k4", number=2, edit=lambda boot: boot.model_copy(update={"failure": failure, "profile": {}})
    )

    assert compare(broken.boots).identical


def test_one_arm_alone_is_not_identical(build: type[Build]) -> None:
    """With fewer than two arms there is nothing to compare, which is not agreement."""
    window = build.window(build.pair(), [1.0, 1.0], [])

    for boots in (window.boots, ()):
        report = compare(boots)

        assert not report.identical
        assert report.sentence == "request profile: not compared"


def test_boots_without_fields_are_not_identical(build: type[Build]) -> None:
    """Two boots that say nothing about their load do not agree on it."""
    assert not compare(_boots(build, {}, {})).identical


def test_short_values_are_shown_whole() -> None:
    """Values that fit are not cut."""
    assert shortened([1, 2], None) == ("[1, 2]", "None")


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("a" * 20, "b" * 20, ("a" * 10 + "...", "b" * 10 + "...")),
        ("x" * 50 + "a" + "y" * 50, "x" * 50 + "b" + "y" * 50, ("...xxxxxayyyy...", "...xxxxxbyyyy...")),
        ("x" * 15, "x" * 30, ("...xxxxx", "...xxxxxxxxxx...")),
        ("ab", "b" * 30, ("ab", "b" * 10 + "...")),
    ],
)
def test_long_values_are_cut_around_their_difference(left: str, right: str, *, expected: tuple[str, str]) -> None:
    """Of long values the part is shown in which they begin to differ."""
    assert shortened(left, right, width=10) == expected
