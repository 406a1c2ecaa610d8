"""What boots took in an earlier window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.durations import boot_seconds
from pytest_specgate.core.redaction import redacted_arm
from pytest_specgate.core.stored import Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.records import BootRecord, WindowRecord
    from tests.core.conftest import Build

FAILURE = Failure(reason="server-died", message="it left")


def _timed(build: type[Build], seconds: dict[tuple[str, int], float]) -> WindowRecord:
    """Return a window of two rounds whose boots took these seconds, by arm and round; others never told their end."""
    record = build.window(build.pair(), [1.0] * 2, [1.0] * 2)
    boots: list[BootRecord] = []
    for boot in record.boots:
        took = seconds.get((boot.arm, boot.round))
        ended = "" if took is None else f"2026-11-29T12:{int(took) // 60:02d}:{took % 60:06.3f}+00:00"
        boots.append(boot.model_copy(update={"ended_at": ended}))
    return record.model_copy(update={"boots": tuple(boots)})


ALL = {("off", 1): 60.0, ("off", 2): 90.5, ("k4", 1): 120.0, ("k4", 2): 100.0}


def test_the_mean_of_every_arm(build: type[Build]) -> None:
    """Each arm has the mean of its boots, in seconds, from before their start to after their end."""
    assert boot_seconds(build.pair().arms, _timed(build, ALL)) == pytest.approx({"off": 75.25, "k4": 110.0})


def test_one_arm_of_several_can_be_asked_for(build: type[Build]) -> None:
    """Only arms that are asked for are told."""
    assert boot_seconds([build.arm(4)], _timed(build, ALL)) == pytest.approx({"k4": 110.0})


def test_an_arm_that_was_never_booted(build: type[Build]) -> None:
    """A window that does not know every arm tells nothing, not the half of it."""
    assert boot_seconds([build.arm(), build.arm(7)], _timed(build, ALL)) is None


def test_an_arm_that_was_declared_otherwise_then(build: type[Build]) -> None:
    """The same name with other arguments is another arm, with other times."""
    changed = build.arm().vary("off", args={"max_model_len": 65536})

    assert boot_seconds([changed], _timed(build, ALL)) is None


@pytest.mark.parametrize(
    ("told", "expected"),
    [(("off", "k4"), {"off": 60.0, "k4": 120.0}), (("k4",), None), ((), None)],
)
def test_boots_of_older_records_have_no_end(
    build: type[Build], told: Sequence[str], expected: dict[str, float] | None
) -> None:
    """A boot without an end is left out, and a window in which all boots of an arm lack it tells nothing."""
    seconds = {place: took for place, took in ALL.items() if place[0] in told and place[1] == 1}

    assert boot_seconds(build.pair().arms, _timed(build, seconds)) == expected


def test_boots_that_failed_tell_nothing(build: type[Build]) -> None:
    """A server that died after a second is no measure of what a boot takes."""
    record = build.edited(
        _timed(build, {**ALL, ("off", 1): 1.0}),
        arm="off",
        edit=lambda boot: boot.model_copy(update={"failure": FAILURE}),
    )

    assert boot_seconds(build.pair().arms, record) == pytest.approx({"off": 90.5, "k4": 110.0})


def test_a_window_in_which_every_boot_failed(build: type[Build]) -> None:
    """It tells nothing of the arm, and so nothing at all."""
    record = _timed(build, ALL)
    for number in (1, 2):
        record = build.edited(
            record, arm="off", number=number, edit=lambda boot: boot.model_copy(update={"failure": FAILURE})
        )

    assert boot_seconds(build.pair().arms, record) is None


def test_times_of_day_in_other_zones(build: type[Build]) -> None:
    """Moments are compared, not their texts: an end in another zone counts as the time that it is."""
    record = build.edited(
        _timed(build, ALL),
        arm="off",
        edit=lambda boot: boot.model_copy(update={"ended_at": "2026-11-29T14:01:00+02:00"}),
    )

    assert boot_seconds([build.arm()], record) == pytest.approx({"off": (60.0 + 90.5) / 2})


def test_an_arm_with_a_secret_is_known_again(build: type[Build]) -> None:
    """The record holds the arm without its secret, and it is the same arm."""
    arm = build.arm().vary("off", env={"HF_TOKEN": "hf_abcdefghijklmnop1234"})
    record = _timed(build, ALL)
    arms = tuple(redacted_arm(arm) if one.name == "off" else one for one in record.arms)

    assert boot_seconds([arm], record.model_copy(update={"arms": arms})) == pytest.approx({"off": 75.25})
