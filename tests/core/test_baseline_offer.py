"""What a window offers to a baseline: its figures, what was compared, and the load as it was observed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.arms import Arm, ArmPair
from pytest_specgate.core.baseline_offer import (
    accepted_window,
    builds_of,
    definition_of,
    observed_profile,
    offer,
    shortened_profile,
    window_id,
)
from pytest_specgate.core.errors import InvalidError
from pytest_specgate.core.metrics import DEFINITION_VERSION
from pytest_specgate.core.profile import sha256_of
from pytest_specgate.core.records import ChunkGaps, PointRecord, WindowRecord
from pytest_specgate.core.redaction import REDACTED

if TYPE_CHECKING:
    from pydantic import JsonValue

    from tests.core.conftest import Build


def test_figures_by_round_in_the_unit_of_the_metric(build: type[Build]) -> None:
    """Both arms offer one figure a round, paired by round; times are in seconds."""
    pair = build.pair()
    window = build.day(pair, 2, [1.0, 0.8], [2.0, 1.0])

    found = offer(pair, build.claim("ttft_p50"), window)

    assert found.values.reference == pytest.approx((0.1, 0.125))
    assert found.values.candidate == pytest.approx((0.05, 0.1))
    assert found.values.window == window_id(window) == f"2026-11-02T12:00:00.000+00:00-{pair.profile.fingerprint()}"
    assert (found.samples, found.metric_definition_version) == (10, DEFINITION_VERSION)
    assert (found.definition_sha256, found.profile_sha256) == (sha256_of(found.definition), sha256_of(found.profile))


def test_samples_are_the_fewest_of_any_boot(build: type[Build]) -> None:
    """A share is of so many drafts: the boot that drafted least decides how fine its steps are."""
    pair = build.pair(reference=7)
    window = build.day(pair, 2, [1.0], [1.0])

    assert offer(pair, build.claim("acceptance_rate"), window).samples == 10 * 4


def test_a_reference_without_speculation_has_no_acceptance(build: type[Build]) -> None:
    """What only speculation has is offered by the candidate alone; what both have, by both."""
    pair = build.pair()
    window = build.day(pair, 2, [1.0, 1.0], [1.0, 1.0])

    length = offer(pair, build.claim("acceptance_length", mode="absolute"), window)
    rate = offer(pair, build.claim("tokens_per_step", mode="absolute"), window)

    assert (length.values.reference, length.values.candidate) == ((), (2.5, 2.5))
    assert len(rate.values.reference) == 2


def test_a_round_that_only_one_arm_ran_is_left_out(build: type[Build]) -> None:
    """Rounds count where both arms were booted."""
    pair = build.pair()
    window = build.day(pair, 2, [1.0, 1.0, 1.0], [1.0, 1.0])

    assert offer(pair, build.claim(), window).values.rounds == 2


def test_a_point_that_cannot_be_judged_is_no_baseline(build: type[Build]) -> None:
    """A failed request at the level refuses the offer, with the reason that its verdict would have; others stand."""
    pair = build.pair()

    def fail(point: PointRecord) -> PointRecord:
        return build.point([*point.requests[:-1], build.failed(9)], at=point.at)

    window = build.edited_point(build.day(pair, 2, [1.0], [1.0]), arm="off", edit=fail)

    with pytest.raises(InvalidError, match="1 of 10 requests failed") as refused:
        offer(pair, build.claim(), window)
    assert refused.value.reason == "failed-requests"
    assert offer(pair, build.claim(at=8), window).values.rounds == 1


def test_a_figure_that_is_missing_is_no_baseline(build: type[Build]) -> None:
    """A metric that a boot does not have is named with arm, level and round; nothing stands in for it."""
    pair = build.pair()

    with pytest.raises(InvalidError) as refused:
        offer(pair, build.claim("inter_chunk_p50", mode="absolute"), build.day(pair, 2, [1.0], [1.0]))

    assert refused.value.reason == "missing-metric"
    assert str(refused.value).startswith("arm off at c=1, round 1: no inter_chunk_p50: there are 0 gaps")


@pytest.mark.parametrize(("mode", "refused"), [("relative", True), ("absolute", False)])
def test_chunks_of_other_sizes_are_not_compared(build: type[Build], *, mode: Any, refused: bool) -> None:
    """Gaps between chunks of two arms are one thing only if both put as many tokens in a chunk."""
    pair = build.pair(reference=7)
    gaps = ChunkGaps(count=100, sum_s=1.0, p50_s=0.01, p90_s=0.01, p95_s=0.01, p99_s=0.01, max_s=0.01)

    def gapped(point: PointRecord) -> PointRecord:
        return point.model_copy(update={"gaps": gaps})

    def joined(point: PointRecord) -> PointRecord:
        requests = [request.model_copy(update={"token_events": 5}) for request in point.requests]
        return point.model_copy(update={"gaps": gaps, "requests": tuple(requests)})

    window = build.edited_point(build.day(pair, 2, [1.0], [1.0]), arm="k7", edit=gapped)
    window = build.edited_point(window, arm="k4", edit=joined)
    claim = build.claim("inter_chunk_p50", mode=mode)

    if refused:
        with pytest.raises(InvalidError, match="chunk"):
            offer(pair, claim, window)
    else:
        assert offer(pair, claim, window).values.candidate == (0.01,)


def _pair(build: type[Build], *, python: str | None = None, names: tuple[str, str] = ("off", "k4")) -> ArmPair:
    off = Arm(names[0], model="folder", python=python, args={"max_model_len": 64}, env={"HF_TOKEN": "hf_secret"})
    config = {"speculative_config": {"num_speculative_tokens": 4, "method": "ngram"}}
    return ArmPair(
        reference=off, candidate=off.vary(names[1], args=config), varies="args.speculative_config",
        profile=build.profile(),
    )  # fmt: skip


def test_a_baseline_outlives_names_and_installs(build: type[Build]) -> None:
    """Arms are compared by what they run: another name, or another install of the engine, is the same comparison."""
    plain = definition_of(_pair(build), {})

    assert definition_of(_pair(build, python="/venvs/next/bin/python", names=("base", "spec")), {}) == plain


@pytest.mark.parametrize(
    "changed",
    [
        {"args": {"max_model_len": 128}},
        {"args": {"max_model_len": True}},
        {"model": "other"},
        {"env": {"VLLM_USE_V1": "1"}},
    ],
)
def test_other_arms_are_another_comparison(build: type[Build], changed: dict[str, Any]) -> None:
    """An argument, a variable or the model of either arm makes another definition."""
    fields: dict[str, Any] = {"model": "folder", "args": {"max_model_len": 64}, **changed}
    off = Arm("off", **fields)
    pair = ArmPair(
        reference=off, candidate=off.vary("k4", args={"speculative_config": {"num_speculative_tokens": 4}}),
        varies="args.speculative_config", profile=build.profile(),
    )  # fmt: skip

    assert sha256_of(definition_of(pair, {})) != sha256_of(definition_of(build.pair(), {}))


def test_what_every_server_is_given_is_part_of_the_comparison(build: type[Build]) -> None:
    """Settings of the session belong to the definition."""
    assert definition_of(build.pair(), {"engine_args": ["--x"]}) != definition_of(build.pair(), {})


def test_no_secret_is_committed(build: type[Build]) -> None:
    """What stands under a secret name is left out of the definition, so another token is the same comparison."""
    text = json.dumps(definition_of(_pair(build), {}))

    assert "hf_secret" not in text
    assert REDACTED in text


def test_a_load_is_kept_short(build: type[Build]) -> None:
    """Equal values of a long list are kept as one and their count, others by their hash; short lists stay."""
    long: list[JsonValue] = list(range(20))
    equal: list[JsonValue] = [11] * 16
    found = shortened_profile({"a": long, "b": equal, "c": [1, 2], "d": None, "client_version": "0.1"})

    assert found == {
        "a": {"sha256": sha256_of(long), "count": 20},
        "b": {"each": 11, "count": 16},
        "c": [1, 2],
        "d": None,
    }


@pytest.mark.parametrize("last", [12, True, 11.5, "11"])
def test_a_long_list_with_one_other_value_is_another(last: JsonValue) -> None:
    """One of many values that differs makes another load: `True` among ones too."""
    usual: list[JsonValue] = [1 if last is True else 11] * 16

    assert shortened_profile({"a": [*usual[:-1], last]}) != shortened_profile({"a": usual})


def test_the_load_is_the_observed_one(build: type[Build]) -> None:
    """Hashes of what was sent, and lengths of what came back, are part of the load; versions of the client are not."""
    boot = build.boot(build.arm(), build.profile())

    found = observed_profile(boot)

    assert {"temperature", "prompt_set_sha256.c1", "observed_output_tokens.c8"} <= found.keys()
    assert found["observed_output_tokens.c8"] == {"each": 11, "count": 16}
    assert "client_version" not in found


def test_a_window_has_one_name_in_every_copy(build: type[Build]) -> None:
    """The name of a window follows from its record, and sorts by time."""
    pair = build.pair()
    first, second = (build.day(pair, number, [1.0], [1.0]) for number in (2, 11))

    assert window_id(WindowRecord.model_validate_json(first.model_dump_json())) == window_id(first)
    assert window_id(first) < window_id(second)


def test_case_112_where_figures_come_from_is_kept(build: type[Build]) -> None:
    """Case 112: commit, record, reason and engine builds of both arms stand with a window; other arms' do not."""
    pair = build.pair()
    window = build.day(pair, 2, [1.0], [1.0]).model_copy(
        update={
            "commit": "abc123",
            "engine": {
                "off": {"version": "0.32.0", "torch": "2.9", "path": "/venv"},
                "k4": {"version": "0.33.0"},
                "k9": {"version": "0.1"},
            },
        }
    )

    found = accepted_window(
        window, pair, record_sha256="a" * 64, accepted_at="2026-11-03T08:00:00+00:00", reason="new", regression=True
    )

    assert (found.measured_at, found.accepted_at) == (window.created_at, "2026-11-03T08:00:00+00:00")
    assert (found.commit, found.record_sha256, found.reason, found.regression) == ("abc123", "a" * 64, "new", True)
    assert found.engine == {
        "reference": {"version": "0.32.0", "torch": "2.9"},
        "candidate": {"version": "0.33.0"},
    }


def test_builds_of_an_arm_of_which_nothing_is_known(build: type[Build]) -> None:
    """An arm whose engine told nothing has no build."""
    window = build.day(build.pair(), 2, [1.0], [1.0]).model_copy(update={"engine": {}})

    assert builds_of(build.pair(), window) == {"reference": {}, "candidate": {}}
