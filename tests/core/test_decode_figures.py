"""Decode figures of one arm at one load level: pooled over boots, or the reason why there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.counters import CounterPage
from pytest_specgate.core.decode_figures import DecodeFigures, arm_problem, decode_figures
from pytest_specgate.core.speculation import SpeculationDelta
from pytest_specgate.core.stored import Failure
from tests.core.conftest import STEP_COUNT, STEP_SUM, Build

if TYPE_CHECKING:
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import BootRecord, PointRecord, WindowRecord

PAIR = Build.pair(rounds=2)
WINDOW = Build.window(PAIR, [1.0, 1.0], [1.0, 2.0])
OFF, K4 = PAIR.arms


def refused(record: WindowRecord, at: Level = 1) -> Failure:
    """Return why the candidate has no figures."""
    found = decode_figures(record, K4, at)
    assert isinstance(found, Failure)
    return found


def without_steps(page: CounterPage) -> CounterPage:
    """Return a page that does not count decode steps."""
    kept = [sample for sample in page.samples if sample.name not in {STEP_COUNT, STEP_SUM}]
    return CounterPage(samples=tuple(kept))


def test_figures_are_ratios_of_sums_over_boots() -> None:
    """Ten answers a boot decode 100 tokens in 40 steps, in 10 s and in 5 s."""
    found = decode_figures(WINDOW, K4, 1)

    assert isinstance(found, DecodeFigures)
    assert (found.k, found.drafted_share) == (4, 1.0)
    assert (found.tokens_per_step, found.step_time_s) == pytest.approx((2.5, 15 / 80))
    assert found.step_times_s == pytest.approx((10 / 40, 5 / 40))
    assert found.tokens_per_steps == pytest.approx((2.5, 2.5))


def test_boots_weigh_by_their_steps() -> None:
    """A boot that drafted nothing useful took more steps, and each of them counts."""
    poor = SpeculationDelta(40, 160, 10, (10, 0, 0, 0))
    requests = [Build.request(index) for index in range(10)]
    point = Build.point(requests, speculation=poor)
    found = decode_figures(Build.edited_point(WINDOW, arm="k4", edit=lambda _: point), K4, 1)

    assert isinstance(found, DecodeFigures)
    assert found.tokens_per_steps == pytest.approx((100 / 90, 2.5))
    assert found.tokens_per_step == pytest.approx(200 / 130)
    assert found.step_time_s == pytest.approx(15 / 130)
    assert found.drafted_share == pytest.approx(80 / 130)


def test_an_arm_without_speculation_has_steps_of_one_token() -> None:
    """Its horizon is 0, and it has no share of steps that drafted."""
    found = decode_figures(WINDOW, OFF, 8)

    assert isinstance(found, DecodeFigures)
    assert (found.k, found.tokens_per_step, found.tokens_per_steps, found.drafted_share) == (0, 1.0, (1.0, 1.0), None)
    assert (found.step_time_s, *found.step_times_s) == pytest.approx((0.1, 0.1, 0.1))


def test_a_boot_that_failed_leaves_no_figure_at_any_level() -> None:
    """What remains of an arm is no sample of it."""
    died = Failure(reason="server-died", message="it died")
    record = Build.edited(WINDOW, arm="k4", edit=lambda boot: boot.model_copy(update={"failure": died}))

    assert (refused(record), arm_problem(record, K4), arm_problem(record, OFF)) == (died, died, None)


def test_an_arm_that_was_not_booted_has_no_figure() -> None:
    """A window may have ended before its first boot."""
    record = WINDOW.model_copy(update={"boots": WINDOW.boots_of("off")})

    assert refused(record) == Failure(reason="not-measured", message="arm k4 was not booted")


def test_boots_under_two_loads_have_no_figure() -> None:
    """What is pooled was put under one load."""

    def edit(boot: BootRecord) -> BootRecord:
        return boot.model_copy(update={"profile": {**boot.profile, "temperature": 0.7}})

    found = refused(Build.edited(WINDOW, arm="k4", edit=edit))

    assert found.reason == "profile-mismatch"
    assert found.message.startswith("boots of arm k4 were put under other loads: request profile: ")


def test_boots_on_a_machine_that_changed_have_no_figure() -> None:
    """Between its boots the machine got another driver."""
    number = {1: "550", 2: "560"}
    boots = tuple(
        boot.model_copy(update={name: {"gpu_driver": number[boot.round]} for name in ("host_before", "host_after")})
        for boot in WINDOW.boots
    )
    found = refused(WINDOW.model_copy(update={"boots": boots}))

    assert found.reason == "host-drift"


def test_a_level_that_was_not_measured_has_no_figure() -> None:
    """The window has c=1 and c=8."""
    assert refused(WINDOW, "4/s").message == "arm k4 at 4/s: the window has no such load level"


def test_a_point_that_cannot_be_judged_takes_its_level_along_and_no_other() -> None:
    """One failed request at c=8 of one boot: c=8 has no figure, c=1 has."""

    def edit(point: PointRecord) -> PointRecord:
        return point.model_copy(update={"requests": (Build.failed(), *point.requests[1:])})

    record = Build.edited_point(WINDOW, arm="k4", at=8, edit=edit)

    assert refused(record, 8).reason == "failed-requests"
    assert isinstance(decode_figures(record, K4, 1), DecodeFigures)


def test_a_server_that_counts_no_steps_has_no_figure() -> None:
    """Neither name of the histogram of steps is on its pages."""

    def edit(point: PointRecord) -> PointRecord:
        return point.model_copy(update={"before": without_steps(point.before), "after": without_steps(point.after)})

    found = refused(Build.edited_point(WINDOW, arm="k4", edit=edit))

    assert found.reason == "missing-counter"
    assert found.message.startswith(f"arm k4 at c=1: /metrics of this server has no series {counters.STEPS[0]} or ")


def test_steps_that_took_no_time_have_no_figure() -> None:
    """A sum that stands still beside a count that rises is no step time of 0."""
    record = Build.edited_point(WINDOW, arm="k4", edit=lambda point: Build.risen(point, STEP_SUM, -10.0))

    assert refused(record) == Failure(reason="counter-identity", message="arm k4 at c=1: 40 decode steps took 0 s")


def test_steps_of_less_than_a_token_have_no_figure() -> None:
    """Stop strings hide what answers' ends cut off, but a decode step gives one token at least."""
    window = Build.window(Build.pair(rounds=1, ignore_eos=False, stop=("end",)), [1.0], [1.0])
    record = Build.edited_point(window, arm="k4", edit=lambda point: Build.risen(point, STEP_COUNT, 61.0))

    assert refused(record) == Failure(
        reason="counter-identity",
        message="arm k4 at c=1: 100 tokens decoded in 101 steps, where a step of k=4 gives 1 to 5",
    )


def test_answers_of_one_token_have_no_steps() -> None:
    """Every answer ended with its prefill: nothing was decoded, so there is no time of a step."""
    window = Build.window(Build.pair(rounds=1, ignore_eos=False), [1.0], [1.0])
    requests = [Build.request(index, output_tokens=1, last_token_s=0.1, token_events=1) for index in range(10)]
    record = Build.edited_point(window, arm="off", edit=lambda _: Build.point(requests))

    assert decode_figures(record, OFF, 1) == Failure(
        reason="not-measured", message="arm off at c=1: nothing was decoded: no answer has more than one token"
    )


def test_boots_of_two_horizons_have_no_figure() -> None:
    """An arm that leaves k to the engine's default got another one in one of its boots."""
    arm = OFF.vary("drafting", args={"speculative_config": {"method": "ngram"}})
    pair = Build.pair(rounds=2)
    boots = []
    for number, k in ((1, 4), (2, 3)):
        boot = Build.boot(Build.arm(k), pair.profile, number=number)
        boots.append(boot.model_copy(update={"arm": "drafting"}))
    record = WINDOW.model_copy(update={"arms": (arm,), "boots": tuple(boots)})
    found = decode_figures(record, arm, 1)

    assert found == Failure(
        reason="arm-not-as-declared", message="arm drafting at c=1: boots count 3 and 4 draft positions"
    )
