"""What an A/A window tells of its arm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.calibration import window_of
from pytest_specgate.core.errors import InvalidError
from pytest_specgate.core.metrics import METRICS, measure
from pytest_specgate.core.stored import Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import BootRecord, WindowRecord
    from tests.core.conftest import Build


def _measured(build: type[Build], *speeds: float) -> WindowRecord:
    """Return a window whose reference ran at these speeds."""
    return build.window(build.pair(), speeds, [1.0] * len(speeds))


def _values(boots: Sequence[BootRecord], profile: RequestProfile, *, at: int) -> dict[str, tuple[float, ...]]:
    """Return every gated metric that all boots have."""
    found: dict[str, tuple[float, ...]] = {}
    for name, row in METRICS.items():
        values = [measure(name, point, profile).value for boot in boots if (point := boot.point(at)) is not None]
        if row.gated and row.unit != "events" and None not in values:
            found[name] = tuple(value for value in values if value is not None)
    return found


def test_what_a_window_measured(build: type[Build]) -> None:
    """An A/A window of one arm gives the values of all its boots at every point, and the build that served it."""
    record = _measured(build, 1.0, 1.25)
    engine = {"off": {"version": "0.32.0", "python": "3.12", "path": "/venv"}}

    found = window_of(build.arm(), record.model_copy(update={"engine": engine}))

    assert found.measured_at == record.created_at
    assert found.engine == {"version": "0.32.0", "python": "3.12"}
    assert list(found.values) == ["c1", "c8"]
    assert found.values["c8"] == _values(record.boots_of("off"), record.profile, at=8)
    assert found.values["c1"]["ttft_p50"] == pytest.approx((0.1, 0.08))


def test_an_engine_of_which_nothing_is_known(build: type[Build]) -> None:
    """A window without facts about the engine is a calibration all the same."""
    record = _measured(build, 1.0, 1.25)

    assert window_of(build.arm(), record.model_copy(update={"engine": {}})).engine == {}


def test_boots_under_two_loads(build: type[Build]) -> None:
    """Boots that were sent other prompts are no A/A window."""

    def other(boot: BootRecord) -> BootRecord:
        return boot.model_copy(update={"profile": {**boot.profile, "prompt_set_sha256.c1": "0" * 64}})

    record = build.edited(_measured(build, 1.0, 1.0), arm="off", number=2, edit=other)
    count = len(record.boots[0].profile)

    with pytest.raises(InvalidError) as caught:
        window_of(build.arm(), record)

    text = f"no calibration of off: request profile: {count - 1} of {count} fields identical"
    assert str(caught.value) == text


def test_a_single_boot_that_died_gives_its_own_reason(build: type[Build]) -> None:
    """What a user has to mend is the death of the server, not that a second boot is missing."""
    record = _measured(build, 1.0)
    died = build.edited(
        record,
        arm="off",
        number=1,
        edit=lambda boot: boot.model_copy(
            update={"failure": Failure(reason="server-start", message="arm off: no memory"), "points": ()}
        ),
    )

    with pytest.raises(InvalidError, match=r"^no calibration of off: arm off: no memory$"):
        window_of(build.arm(), died)


@pytest.mark.parametrize(("count", "stopped"), [(0, "the budget was used up"), (1, "")])
def test_an_arm_that_was_not_booted_twice_says_so(build: type[Build], *, count: int, stopped: str) -> None:
    """A window that a budget cut short names the number of boots, and the budget, instead of an empty comparison."""
    record = _measured(build, 1.0, 1.0)
    boots = tuple(boot for boot in record.boots if boot.arm != "off" or boot.round <= count)

    with pytest.raises(InvalidError) as caught:
        window_of(build.arm(), record.model_copy(update={"boots": boots, "stopped": stopped}))

    assert str(caught.value) == (
        f"no calibration of off: two boots are needed, and there are {count}{f': {stopped}' if stopped else ''}"
    )
