"""The fake's page of metrics."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pytest_specgate.testing import FakeSettings
from pytest_specgate.testing.engine import Engine, EngineSequence, sequence_random
from pytest_specgate.testing.exposition import metrics_page

if TYPE_CHECKING:
    from prometheus_client import Metric

CREATED_S = 1795971663.0638883


def used_engine(k: int) -> Engine:
    """Make an engine that has answered one request and runs another."""
    settings = FakeSettings()
    engine = Engine(settings, draft_tokens=k)
    for output_tokens in (20, 1000):
        engine.submit(
            EngineSequence(
                prompt_tokens=7,
                output_tokens=output_tokens,
                finish_reason="length",
                random=sequence_random(settings, "a prompt"),
                arrived_s=0.0,
            )
        )
    for step in range(40):
        engine.begin_step()
        engine.end_step(0.03 * (step + 1))
    return engine


def families(*engines: Engine, model_name: str = "m") -> dict[str, Metric]:
    """Parse the page of some engines."""
    page = metrics_page(engines, model_name=model_name, created_s=CREATED_S, cache_config={"block_size": 16})
    return {family.name: family for family in text_string_to_metric_families(page)}


def test_page_shows_the_readings() -> None:
    """Counters, gauges and histograms parse, with the values of the engine and the labels of vLLM."""
    engine = used_engine(4)
    parsed = families(engine)
    labels = {"engine": "0", "model_name": "m"}
    reasons = {s.labels["finished_reason"]: s.value for s in parsed["vllm:request_success"].samples}

    assert parsed["vllm:generation_tokens"].samples[0].value == engine.readings.generation_tokens
    assert parsed["vllm:generation_tokens"].samples[0].labels == labels
    assert parsed["vllm:num_requests_running"].samples[0].value == 1
    assert parsed["vllm:num_requests_waiting"].samples[0].value == 0
    assert 0 < parsed["vllm:kv_cache_usage_perc"].samples[0].value < 1
    assert reasons == {"stop": 0, "length": 1, "abort": 0, "error": 0, "repetition": 0}
    assert parsed["vllm:cache_config_info"].samples[0].labels == {"engine": "0", "block_size": "16"}


def test_speculation_off_shows_no_speculation_family() -> None:
    """A server without speculation has no such lines at all, not zeros."""
    assert not [name for name in families(used_engine(0)) if "spec_decode" in name]


def test_speculation_on_shows_every_position_before_traffic() -> None:
    """Before the first request the four families are there, at zero, with one series for each position."""
    parsed = families(Engine(FakeSettings(), draft_tokens=7))
    positions = parsed["vllm:spec_decode_num_accepted_tokens_per_pos"].samples
    counted = [family for name, family in parsed.items() if "spec_decode" in name and family.type == "counter"]

    assert len(counted) == 4
    assert [sample.labels["position"] for sample in positions] == [str(i) for i in range(7)]
    assert {sample.value for family in counted for sample in family.samples} == {0.0}


def test_each_engine_has_its_own_series() -> None:
    """Two engines give two series of every family, told apart by their label."""
    parsed = families(used_engine(4), used_engine(4))

    assert [s.labels["engine"] for s in parsed["vllm:generation_tokens"].samples] == ["0", "1"]
    assert len(parsed["vllm:spec_decode_num_accepted_tokens_per_pos"].samples) == 8


def test_counters_tell_when_they_were_created() -> None:
    """Every counter and histogram has a gauge of its creation time, so that a restart can be seen."""
    parsed = families(used_engine(4))
    counted = {name for name, family in parsed.items() if family.type in {"counter", "histogram"}}

    assert counted
    assert {f"{name}_created" for name in counted} <= set(parsed)
    assert parsed["vllm:generation_tokens_created"].samples[0].value == CREATED_S


def test_histogram_buckets_are_cumulative() -> None:
    """Buckets never fall, the last one is the count, and the sum is that of the observations."""
    samples = families(used_engine(0))["vllm:inter_token_latency_seconds"].samples
    buckets = [sample.value for sample in samples if sample.name.endswith("_bucket")]
    values = {sample.name.rpartition("_")[2]: sample.value for sample in samples}

    assert all(lower <= upper for lower, upper in itertools.pairwise(buckets))
    assert buckets[-1] == values["count"] == 19 + 39
    assert values["sum"] == pytest.approx(0.03 * (19 + 39))


def test_help_and_type_stand_before_the_samples() -> None:
    """Lines look as vLLM prints them, counters under their full name, large numbers with an exponent."""
    page = metrics_page([used_engine(4)], model_name="m", created_s=CREATED_S, cache_config={})

    assert (
        "# HELP vllm:prompt_tokens_total Number of prefill tokens processed.\n"
        "# TYPE vllm:prompt_tokens_total counter\n"
        'vllm:prompt_tokens_total{engine="0",model_name="m"} 14.0\n'
        "# HELP vllm:prompt_tokens_created Number of prefill tokens processed.\n"
        "# TYPE vllm:prompt_tokens_created gauge\n"
        'vllm:prompt_tokens_created{engine="0",model_name="m"} 1.7959716630638883e+09\n'
    ) in page


def test_model_name_is_escaped() -> None:
    """A name with quotes, backslashes and line ends survives the page."""
    name = 'a "quoted" \\ path\nwith a line end'

    assert families(used_engine(0), model_name=name)["vllm:prompt_tokens"].samples[0].labels["model_name"] == name
