"""Counter arithmetic on figures that were published with their counters: every printed digit must come out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.counters import CounterDelta
from pytest_specgate.core.speculation import SpeculationDelta, pool

if TYPE_CHECKING:
    from tests.core.conftest import Build

PUBLISHED: dict[str, dict[str, Any]] = {
    curve["id"]: curve
    for curve in json.loads(
        (Path(__file__).parents[1] / "data" / "published" / "acceptance.json").read_text(encoding="utf-8")
    )["curves"]
}
"""Acceptance curves as they were published."""


def _published(name: str) -> SpeculationDelta:
    curve = PUBLISHED[name]
    positions = curve["accepted_per_position"] or curve["chosen_per_position"]
    return SpeculationDelta(curve["drafts"], curve["draft_tokens"], curve["accepted_tokens"], tuple(positions))


K7 = _published("k7-window")
"""A k=7 window on eight GPUs."""

K4 = _published("k4-probe-t0.0")
"""An acceptance probe at k=4; its counts by position are the published shares times the drafts."""

CAPTURED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "captured_points.json").read_text(encoding="utf-8")
)
"""Rises between the two scrapes around each point of four real servers (vLLM 0.32.0 on a CPU)."""

CLIENTS_TOKENS_PER_EVENT = {
    "off c=1": "1.00",
    "off c=8": "1.00",
    "off c=32": "1.00",
    "ngram-k4 c=1": "1.58",
    "ngram-k4 c=8": "1.82",
    "ngram-k4 c=32": "1.47",
    "ngram-k7 c=1": "1.64",
    "ngram-k7 c=8": "1.93",
    "ngram-k7 c=32": "1.49",
    "draft-k4 c=1": "4.53",
    "draft-k4 c=8": "4.49",
    "draft-k4 c=32": "4.00",
}
"""Output tokens / token events of the same points, as the client counted them off the wire."""

CAPTURED_SPECULATION = {
    "ngram-k4 c=1": "137 4.00 0.367 2.47 | 0.547 0.343 0.314 0.263",
    "ngram-k4 c=8": "275 3.99 0.443 2.77 | 0.655 0.440 0.360 0.313",
    "ngram-k4 c=32": "507 4.00 0.359 2.43 | 0.535 0.351 0.288 0.260",
    "ngram-k7 c=1": "125 6.93 0.248 2.72 | 0.496 0.288 0.264 0.224 0.160 0.160 0.128",
    "ngram-k7 c=8": "226 6.94 0.336 3.33 | 0.637 0.416 0.332 0.279 0.252 0.230 0.186",
    "ngram-k7 c=32": "471 6.93 0.253 2.76 | 0.497 0.312 0.255 0.227 0.180 0.146 0.138",
    "draft-k4 c=1": "105 4.00 0.993 4.97 | 1.000 1.000 0.990 0.981",
    "draft-k4 c=8": "212 4.00 0.979 4.92 | 0.991 0.981 0.972 0.972",
    "draft-k4 c=32": "448 4.00 0.984 4.94 | 0.996 0.987 0.980 0.975",
}
"""Drafts, draft tokens / draft, acceptance rate, acceptance length, and accepted per draft by position."""


def test_published_shares_by_position() -> None:
    """The published counters of the k=7 window give the published share of drafts at every position."""
    shares = [f"{100 * rate:.2f}" for rate in K7.per_position_rates]

    assert shares == PUBLISHED["k7-window"]["per_position"]
    assert K7.draft_length == 7.0
    assert K7.broken_identities(k=7) == ()


def test_published_positions_accepted_less_than_one_time_in_six() -> None:
    """Positions 5, 6 and 7 of the k=7 window were drafted in every step and accepted in less than one of six."""
    assert all(rate < 1 / 6 for rate in K7.per_position_rates[4:])
    assert K7.per_position_rates[3] > 1 / 6


def test_published_acceptance_at_k4() -> None:
    """The published counters of the k=4 probe give 2.6498 tokens per step at an acceptance rate of 41.24 %."""
    assert f"{K4.acceptance_length:.4f}" == "2.6498"
    assert f"{100 * (K4.acceptance_rate or 0):.2f}" == "41.24"
    assert [f"{rate:.3f}" for rate in K4.per_position_rates] == PUBLISHED["k4-probe-t0.0"]["per_position"]
    assert K4.draft_length == 4.0
    assert K4.broken_identities(k=4) == ()


@pytest.mark.parametrize("speculation", [K7, K4], ids=["k7", "k4"])
def test_acceptance_length_is_the_sum_of_the_published_shares(speculation: SpeculationDelta) -> None:
    """1 + accepted / drafts = 1 + the sum of the rates by position."""
    assert speculation.acceptance_length == pytest.approx(1 + sum(speculation.per_position_rates), abs=1e-12)


def _delta(build: type[Build], name: str) -> CounterDelta:
    """Return a captured point between two pages: zeros, and its rises."""
    row = CAPTURED[name]
    names = {
        counters.GENERATION_TOKENS: "generation_tokens",
        counters.FIRST_TOKENS: "first_tokens",
        f"{counters.STEPS[0]}_count": "decode_steps",
        f"{counters.STEPS[0]}_sum": "decode_seconds",
        counters.DRAFTS: "drafts",
        counters.DRAFT_TOKENS: "draft_tokens",
        counters.ACCEPTED_TOKENS: "accepted_tokens",
    }
    after = {name: float(row[key]) for name, key in names.items() if key in row}
    positions = row.get("by_position", ())
    return CounterDelta(
        build.page(dict.fromkeys(after, 0.0), positions=[0] * len(positions), finished={"length": 0}),
        build.page(after, positions=positions, finished={"length": row["finished"]}),
    )


@pytest.mark.parametrize("name", CAPTURED)
def test_a_step_of_a_real_server_is_an_event_of_its_client(build: type[Build], name: str) -> None:
    """Real servers stream one event a step: first tokens and decode steps are the events that the client counted."""
    delta = _delta(build, name)
    events = delta.first_tokens() + delta.decode_steps()

    assert f"{delta.count(counters.GENERATION_TOKENS) / events:.2f}" == CLIENTS_TOKENS_PER_EVENT[name]


@pytest.mark.parametrize("name", CAPTURED)
def test_counters_of_real_servers_break_no_identity(build: type[Build], name: str) -> None:
    """Twelve points of real servers pass every identity, and lose at most k tokens at the end of an answer."""
    delta = _delta(build, name)
    k = len(CAPTURED[name].get("by_position", ())) or None

    assert delta.broken_identities(k=k) == ()
    assert 0 <= (delta.cut_tokens() or 0) <= (k or 0) * CAPTURED[name]["finished"]


@pytest.mark.parametrize("c", [1, 8, 32])
def test_a_real_server_without_speculation_gives_one_token_a_step(build: type[Build], c: int) -> None:
    """Without drafts tokens per step is exactly 1, and nothing is said of drafts."""
    delta = _delta(build, f"off c={c}")

    assert delta.tokens_per_step() == 1.0
    assert (delta.speculation(), delta.drafted_share(), delta.cut_tokens()) == (None, None, None)


@pytest.mark.parametrize("name", CAPTURED_SPECULATION)
def test_speculation_of_real_servers(build: type[Build], name: str) -> None:
    """Nine points of real servers give the speculation figures that were noted when they were captured."""
    found = _delta(build, name).speculation()

    assert found is not None
    figures = f"{found.drafts} {found.draft_length:.2f} {found.acceptance_rate:.3f} {found.acceptance_length:.2f}"
    shown = f"{figures} | {' '.join(f'{rate:.3f}' for rate in found.per_position_rates)}"
    assert shown == CAPTURED_SPECULATION[name]


@pytest.mark.parametrize("name", [name for name in CAPTURED_SPECULATION if name.startswith("ngram")])
def test_acceptance_length_overstates_a_real_drafter(build: type[Build], name: str) -> None:
    """N-gram lookup drafted in 36 to 50 % of the steps, so acceptance length promises far more than a step gave."""
    delta = _delta(build, name)
    speculation = delta.speculation()

    assert speculation is not None
    assert 0.36 < (delta.drafted_share() or 0) < 0.51
    assert (speculation.acceptance_length or 0) > 1.4 * (delta.tokens_per_step() or 0)


def test_captured_steps_and_cuts_of_one_point(build: type[Build]) -> None:
    """The first n-gram point in full: 504 decoded tokens in 316 steps of 47 ms, 137 with a draft, 13 tokens cut off."""
    delta = _delta(build, "ngram-k4 c=1")

    assert (delta.decode_tokens(), delta.decode_steps(), delta.cut_tokens()) == (504, 316, 13)
    assert (f"{delta.tokens_per_step():.4f}", f"{delta.drafted_share():.4f}") == ("1.5949", "0.4335")
    assert f"{1000 * (delta.step_time_s() or 0):.2f}" == "47.24"


def test_points_are_pooled_before_they_are_divided(build: type[Build]) -> None:
    """Counts of several points are added position by position; a mean of their rates would be another figure."""
    found = [_delta(build, f"ngram-k4 c={c}").speculation() for c in (1, 8, 32)]
    pooled = pool([delta for delta in found if delta is not None])

    assert pooled == SpeculationDelta(919, 3672, 1414, (526, 346, 288, 254))
    assert f"{pooled.acceptance_rate:.4f}" == "0.3851"
    assert pool([]) == SpeculationDelta(0, 0, 0, ())
