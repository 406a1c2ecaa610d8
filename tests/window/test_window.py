"""A window: which servers boot in which order, what is sent to them, and what is kept."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core import counters, identity
from pytest_specgate.core.errors import UsageError
from pytest_specgate.window import WindowPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import PointLoad
    from tests.window.conftest import Boot, Declare, World

PARTS = ("warm-up", "c1", "c8")


def test_each_arm_boots_once_a_round_in_an_order_that_reverses(world: World, declare: type[Declare]) -> None:
    """Two pairs with a shared arm: three boots a round, off k4 k7 and then k7 k4 off."""
    record = world.measure(declare.pair(None, 4, rounds=4), declare.pair(4, 7, rounds=4))
    there, back = ["off", "k4", "k7"], ["k7", "k4", "off"]

    assert world.starts() == there + back + there + back
    assert [(boot.arm, boot.round, boot.position) for boot in record.boots] == [
        (arm, number, place) for number in (1, 2, 3, 4) for place, arm in enumerate(there if number % 2 else back)
    ]


def test_one_server_runs_at_a_time(world: World, declare: type[Declare]) -> None:
    """Case 72: every server is stopped before the next one starts."""
    world.measure(declare.pair(None, 4), declare.pair(4, 7))
    lives = [line for line in world.diary if line.startswith(("start ", "stop "))]

    assert lives == [f"{act} {arm}" for arm in world.starts() for act in ("start", "stop")]


def test_a_decided_gate_boots_no_more(world: World, declare: type[Declare]) -> None:
    """A loss that shows at the second round of six ends the window there."""
    world.speeds = {"k4": 0.5}
    pair = declare.pair(None, 4, rounds=6)
    record = world.measure(pair, gates=[declare.gate(pair)])

    assert len(world.starts()) == 4
    assert [(verdict["outcome"], verdict["rounds"]) for verdict in record.verdicts] == [("FAIL", 2)]


def test_a_decided_pair_does_not_end_another(world: World, declare: type[Declare]) -> None:
    """The arms of the open pair boot on, the shared one included; the decided verdict rests on its own rounds."""
    world.speeds = {"k4": 0.5, "k7": 0.5}
    decided, measured = declare.pair(None, 4, rounds=4), declare.pair(4, 7, rounds=4)
    record = world.measure(decided, measured, gates=[declare.gate(decided)])

    assert world.starts() == ["off", "k4", "k7", "k7", "k4", "off", "k4", "k7", "k7", "k4"]
    assert [boot.pairs for boot in record.boots_of("k4")] == [
        *[("k4 against off", "k7 against k4")] * 2, *[("k7 against k4",)] * 2,
    ]  # fmt: skip
    assert [boot.pairs for boot in record.boots_of("off")] == [("k4 against off",)] * 2
    assert [(verdict["outcome"], verdict["rounds"]) for verdict in record.verdicts] == [("FAIL", 2)]


@pytest.mark.parametrize(("floor", "outcome"), [(0.08, "PASS"), (0.12, "INCONCLUSIVE")])
def test_an_open_gate_boots_on(world: World, declare: type[Declare], floor: float, outcome: str) -> None:
    """What two rounds cannot decide takes two more; what is still open at the last one ends undecided, not passed."""
    pair = declare.pair(None, 4, rounds=4)
    record = world.measure(pair, gates=[declare.gate(pair, floor=floor)])

    assert len(world.starts()) == 8
    assert [(verdict["outcome"], verdict["rounds"]) for verdict in record.verdicts] == [(outcome, 4)]


def test_pairs_have_rounds_of_their_own(world: World, declare: type[Declare]) -> None:
    """A pair that asks for two rounds boots two, whatever its neighbour asks for."""
    world.measure(declare.pair(None, 4, rounds=2), declare.pair(4, 7, rounds=4))

    assert world.starts() == ["off", "k4", "k7", "k7", "k4", "off", "k4", "k7", "k7", "k4"]


def test_two_pairs_of_the_same_arms_keep_their_own_rounds(world: World, declare: type[Declare]) -> None:
    """Gates that ask for two and for four rounds of one pair share boots, and are judged by what each asked for."""
    short, long = declare.pair(None, 4, rounds=2), declare.pair(None, 4, rounds=4)
    record = world.measure(short, long, gates=[declare.gate(short), declare.gate(long, floor=0.12)])

    assert len(world.starts()) == 8
    assert [(verdict["outcome"], verdict["rounds"]) for verdict in record.verdicts] == [
        ("PASS", 2), ("INCONCLUSIVE", 4),
    ]  # fmt: skip


def test_every_point_lies_between_two_scrapes(world: World, declare: type[Declare]) -> None:
    """A boot is proved before any load, warmed up, and each load is followed by a page that agrees with it."""
    world.measure(declare.pair(None, 4))
    boots = " ".join(world.diary).split("start ")[1:]
    steps = "warm-up: 4 at 1 settled agreed c1: 10 at 1 settled agreed c8: 16 at 8 settled agreed"

    assert boots[0] == f"off counters tokenize {steps} stop off "
    assert boots[1] == f"k4 counters tokenize {steps} stop k4 "


def test_pages_before_and_after_a_point_are_its_own(world: World, declare: type[Declare]) -> None:
    """A point's first page is the last one of what came before it, so that no token falls between two points."""
    record = world.measure(declare.pair(None, 4))

    for boot in record.boots:
        pages = [page for point in boot.points for page in (point.before, point.after)]
        assert [page.total(counters.GENERATION_TOKENS) / 11 for page in pages] == [4, 14, 14, 30]
        assert [len(point.requests) for point in boot.points] == [10, 16]


def test_prompts_are_built_once_and_sent_alike(world: World, declare: type[Declare]) -> None:
    """Every arm gets the same bytes in the same order, in every round."""
    world.measure(declare.pair(None, 4), declare.pair(4, 7))

    for part in PARTS:
        first = world.sent["off", 1, part]
        assert all(world.sent[arm, number, part] == first for arm in ("off", "k4", "k7") for number in (1, 2))


def test_warm_up_comes_first_and_is_measured_nowhere(world: World, declare: type[Declare]) -> None:
    """Case 82: warm-up requests are others than the measured ones, sent one after another, and in no point."""
    record = world.measure(declare.pair(None, 4, warmup_requests=6))
    prompts = [json.loads(body)["prompt"] for part in PARTS for body in world.sent["off", 1, part]]
    loads = [line for line in world.diary if " at " in line]

    assert loads[:3] == ["warm-up: 6 at 1", "c1: 10 at 1", "c8: 16 at 8"]
    assert len(set(prompts)) == len(prompts) == 6 + 10 + 16
    assert sum(len(point.requests) for point in record.boots[0].points) == 26


def test_a_window_without_warm_up_is_measured(world: World, declare: type[Declare]) -> None:
    """No warm-up requests are no error."""
    record = world.measure(declare.pair(None, 4, warmup_requests=0))

    assert [boot.failure for boot in record.boots] == [None] * 4


def test_boots_carry_the_profile_as_it_was_put_on_them(world: World, declare: type[Declare]) -> None:
    """All boots have identical profiles: declared fields, hashes of what was sent, and what the server made of it."""
    record = world.measure(declare.pair(None, 4))
    report = identity.compare(record.boots)
    profile = record.boots[0].profile

    assert report.identical
    assert profile.keys() >= {
        "prompt_source_sha256", "warmup_prompts_sha256", "prompt_set_sha256.c1", "prompt_set_sha256.c8",
        "tokenizer_sha256", "temperature", "requests.c8",
    }  # fmt: skip
    assert (profile["model"], profile["revision"], profile["client_version"]) == ("folder/tiny", None, "fake 1.0")
    assert profile["observed_output_tokens.c1"] == [11] * 10
    assert profile["observed_prompt_tokens.c8"] == [24] * 16


def test_boots_carry_what_was_started_and_resolved(world: World, declare: type[Declare]) -> None:
    """Command, time, boot duration and the resolved speculation are kept for every boot."""
    record = world.measure(declare.pair(None, 4))
    off, k4, *_ = record.boots

    assert (off.command, off.boot_s, off.resolved) == ("serve off", 30.0, {"speculative_config": None, "gpus": None})
    assert k4.resolved == {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}, "gpus": None}
    assert off.started_at < k4.started_at


def test_the_record_names_machine_and_engines(world: World, declare: type[Declare]) -> None:
    """Facts of the host, and of each arm's engine, are kept once a window."""
    record = world.measure(declare.pair(None, 4))

    assert record.host == {"cpus": 2}
    assert record.engine == {"off": {"version": "1.0 of off"}, "k4": {"version": "1.0 of k4"}}
    assert [arm.name for arm in record.arms] == ["off", "k4"]
    assert [(pair.reference, pair.candidate, pair.rounds) for pair in record.pairs] == [("off", "k4", 2)]


def test_cpu_time_of_others_is_kept_with_each_point(world: World, declare: type[Declare]) -> None:
    """The share of a point is that between its own two readings, and unknown where it cannot be read."""
    record = world.measure(declare.pair(None, 4, rounds=3))
    shares = {(boot.round, point.other_cpu_share) for boot in record.boots for point in boot.points}

    assert shares == {(1, 0.5), (2, 0.5), (3, None)}


def test_the_record_is_stored_after_every_boot(world: World, declare: type[Declare]) -> None:
    """Before the first boot, after each one, and at the end: only the last state calls itself finished."""
    record = world.measure(declare.pair(None, 4))

    assert [len(state.boots) for state in world.saved] == [0, 1, 2, 3, 4, 4]
    assert [state.finished for state in world.saved] == [False] * 5 + [True]
    assert world.saved[-1] == record


@pytest.mark.parametrize(
    ("count", "field"), [(4, "warmup_prompts_sha256"), (10, "prompt_set_sha256.c1"), (16, "prompt_set_sha256.c8")]
)
def test_the_profile_holds_what_was_sent_and_not_what_should_have_been(
    world: World, declare: type[Declare], monkeypatch: pytest.MonkeyPatch, count: int, field: str
) -> None:
    """Two requests that one arm is sent in another order make the pair invalid, and their part of the load is named."""
    honest = world.run_point

    def mixed(server: Boot, bodies: Sequence[bytes], *, at: Level, profile: RequestProfile) -> PointLoad:
        if server.arm.name == "k4" and len(bodies) == count:
            bodies = [bodies[1], bodies[0], *bodies[2:]]
        return honest(server, bodies, at=at, profile=profile)

    monkeypatch.setattr(world, "run_point", mixed)
    pair = declare.pair(None, 4)
    record = world.measure(pair, gates=[declare.gate(pair)])
    report = identity.compare(record.boots)

    assert {found.field for found in report.differences} == {field}
    assert [(verdict["outcome"], verdict["reason"]) for verdict in record.verdicts] == [("INVALID", "profile-mismatch")]


def test_secrets_of_a_profile_are_not_stored(world: World, declare: type[Declare]) -> None:
    """The server is sent the real values, the record is not."""
    pair = declare.pair(None, 4, extra_body={"api_key": "open sesame", "top_a": 0.5})
    record = world.measure(pair)

    assert b"open sesame" in world.sent["off", 1, "c1"][0]
    assert all("open sesame" not in state.model_dump_json() for state in world.saved)
    assert record.profile.extra_body == {"api_key": "[redacted]", "top_a": 0.5}


def test_secrets_of_an_arm_are_not_stored(world: World, declare: type[Declare]) -> None:
    """The server is given the real values, the record is not."""
    pair = declare.pair(None, 4)
    secret = [arm.vary(arm.name, env={"HF_TOKEN": "hf_abcdefghijklmnopqrst"}) for arm in pair.arms]
    world.measure(
        type(pair)(reference=secret[0], candidate=secret[1], varies=pair.varies, profile=pair.profile, rounds=2)
    )

    assert all("hf_abcdefghijklmnopqrst" not in state.model_dump_json() for state in world.saved)


def test_progress_tells_where_the_window_is_and_no_figures(world: World, declare: type[Declare]) -> None:
    """Lines name round, arm and point; nothing measured is told before identity is verified."""
    pair = declare.pair(None, 4)
    world.measure(pair, gates=[declare.gate(pair)])

    assert world.told[:4] == [
        "round 1 of 2: off: starting its server",
        "making prompts of 24 tokens from prose",
        "off: c=1, 10 requests",
        "off: c=8, 16 requests",
    ]
    assert world.told[-3:] == ["round 2 of 2: off: starting its server", *world.told[2:4]]
    assert not [line for line in world.told if re.search(r"\d\.\d|%|/s\b|\bms\b|PASS|FAIL|better|worse", line)]


def test_a_plan_has_one_profile(declare: type[Declare]) -> None:
    """Pairs under different loads are never measured in one window."""
    with pytest.raises(UsageError, match="one request profile"):
        WindowPlan((declare.pair(None, 4), declare.pair(4, 7, seed=1)), ())


def test_a_plan_knows_an_arm_by_one_name(declare: type[Declare]) -> None:
    """Two different arms of one name would share boots."""
    pair, other = declare.pair(None, 4), declare.pair(4, 7)
    renamed = type(other)(
        reference=declare.arm(None), candidate=declare.arm(7).vary("k4"), varies=other.varies, profile=other.profile
    )

    with pytest.raises(UsageError, match="two arms of one window are called 'k4'"):
        WindowPlan((pair, renamed), ())


def test_boots_alternate_within_a_pair(world: World, declare: type[Declare]) -> None:
    """In every pair, each arm boots first in every other round: drift of the machine hits both alike."""
    pairs = (declare.pair(None, 4, rounds=6), declare.pair(4, 7, rounds=6))
    record = world.measure(*pairs)

    for pair in pairs:
        firsts = [
            min((boot for boot in record.boots if boot.round == number and boot.arm in {arm.name for arm in pair.arms}),
                key=lambda boot: boot.position).arm
            for number in range(1, 7)
        ]  # fmt: skip
        assert all(before != after for before, after in itertools.pairwise(firsts))
