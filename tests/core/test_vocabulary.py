"""The vocabulary of gate files: what a user writes, and the threshold that it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate import api
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.thresholds import CALIBRATED, CurveThreshold, LimitThreshold, NoiseFloor, Threshold

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.core.thresholds import AnyThreshold
    from tests.core.conftest import Build

FLOOR = api.noise_floor("1%", source="A/A windows of a test")
NUMBER: Any = 3
MISSPELT: dict[str, Any] = {"by": "3%"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (api.equivalent("tpot_p50", at=8, within="3%"), Threshold("tpot_p50", 8, "equivalent", 0.03)),
        (
            api.equivalent("acceptance_rate", at="4/s", within="2pp", noise=NoiseFloor(0.01, "abc", points=True)),
            Threshold("acceptance_rate", "4/s", "equivalent", 0.02, NoiseFloor(0.01, "abc", points=True), points=True),
        ),
        (
            api.better("acceptance_rate", at=1, by="2 points"),
            Threshold("acceptance_rate", 1, "better", 0.02, points=True),
        ),
        (
            api.not_worse("ttft_p50", at=1, margin="5%", allowance="1ms"),
            Threshold("ttft_p50", 1, "not_worse", 0.05, allowance=0.001),
        ),
        (
            api.not_worse("output_throughput", at=1, margin="5%", allowance="2 tokens/s"),
            Threshold("output_throughput", 1, "not_worse", 0.05, allowance=2.0),
        ),
        (
            api.not_worse("ttft_p50", at=1, margin=api.noise_floor()),
            Threshold("ttft_p50", 1, "not_worse", None, CALIBRATED),
        ),
        (
            api.not_worse("acceptance_rate", at=1, margin=api.noise_floor("1pp", source="A/A")),
            Threshold("acceptance_rate", 1, "not_worse", 0.01, NoiseFloor(0.01, "A/A", points=True), points=True),
        ),
        (
            api.at_least("output_throughput", at=8, limit="250 tokens/s"),
            LimitThreshold("output_throughput", 8, "at_least", 250.0),
        ),
        (api.at_least("acceptance_rate", at=8, limit="60%"), LimitThreshold("acceptance_rate", 8, "at_least", 0.6)),
        (api.at_most("ttft_p50", at=8, limit="200ms"), LimitThreshold("ttft_p50", 8, "at_most", 0.2)),
        (api.at_most("preemptions", at=8, limit="0"), LimitThreshold("preemptions", 8, "at_most", 0.0)),
        (api.faster_only_up_to(8), CurveThreshold(8, "output_throughput")),
        (
            api.faster_only_up_to("4/s", metric="tpot_p50", noise=FLOOR),
            CurveThreshold("4/s", "tpot_p50", FLOOR),
        ),
    ],
)
def test_the_vocabulary_of_gate_files(written: AnyThreshold, meant: AnyThreshold) -> None:
    """What a user writes is the threshold that it says, in the units of the metric table."""
    assert written == meant


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: api.equivalent("tpot_p50", at=8, within="3"), "within='3'"),
        (lambda: api.equivalent("tpot_p50", at=8, within=NUMBER), "within=3"),
        (lambda: api.equivalent("tpot_p50", at=8, **MISSPELT), "by"),
        (lambda: api.equivalent("tpot_p50", at=8, within="3pp"), "points belong to shares, and tpot_p50 is none"),
        (lambda: api.equivalent("tpot_p5", at=8, within="3%"), "did you mean 'tpot_p"),
        (lambda: api.not_worse("ttft_p50", at=1, margin="5%", allowance="1"), "allowance='1'"),
        (lambda: api.not_worse("ttft_p50", at=1, margin="5%", allowance=NUMBER), "allowance=3"),
        (
            lambda: api.not_worse("acceptance_rate", at=1, margin="5pp", allowance="1%"),
            "is absolute itself: leave the allowance out",
        ),
        (lambda: api.not_worse("ttft_p50", at=1, margin=FLOOR, noise=FLOOR), "names the noise already"),
        (
            lambda: api.not_worse("acceptance_rate", at=1, margin="5pp", noise=FLOOR),
            "have two units: write both in one",
        ),
        (lambda: api.not_worse("preemptions", at=1, margin="5%"), "use at_most('preemptions', limit='0')"),
        (lambda: api.at_least("output_throughput", at=8, limit="250"), "limit='250'"),
        (lambda: api.at_least("output_throughput", at=8, limit="250 ms"), "limit='250 ms'"),
        (lambda: api.at_least("ttft_p50", at=8, limit="200ms"), "use at_most"),
        (lambda: api.at_most("output_throughput", at=8, limit="200 tokens/s"), "use at_least"),
        (lambda: api.at_most("ttft_p50", at=8, limit="-1ms"), "limit='-1ms'"),
        (lambda: api.at_most("ttft_p50", at=8, limit="nan"), "limit='nan'"),
        (lambda: api.faster_only_up_to(8, metric="tokens_per_chunk"), "no better direction"),
        (lambda: api.faster_only_up_to(8, metric="preemptions"), "no better direction, or no ratio"),
        (lambda: api.faster_only_up_to(0), "0"),
        (lambda: api.noise_floor("1%"), "needs source="),
        (lambda: api.noise_floor(source="somewhere"), "has no floor"),
        (lambda: api.noise_floor("1", source="somewhere"), "noise_floor='1'"),
    ],
)
def test_case_95_what_is_written_wrongly_is_one_sentence(write: Callable[[], Any], message: str) -> None:
    """Case 95: numbers without their unit, misspelt names and claims on the wrong side are refused where they stand."""
    with pytest.raises(UsageError) as caught:
        write()

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_gates_take_thresholds_only(build: type[Build]) -> None:
    """A gate without a threshold, of something else, or on no pair is refused."""
    pair, strange = build.pair(), build.arm()
    claims: tuple[Any, ...] = (api.at_most("ttft_p50", at=1, limit="1s"), api.faster_only_up_to(1))

    assert callable(api.gate(pair, *claims))
    for arguments in ((pair,), (pair, strange), (strange, *claims)):
        with pytest.raises(UsageError):
            api.gate(*arguments)
