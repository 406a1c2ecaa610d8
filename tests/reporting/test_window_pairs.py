"""Pairs of one window: two of the same arms are told apart, and what one of them must not show the other one may."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.api import better, not_worse
from pytest_specgate.core.arms import Arm, ArmPair
from pytest_specgate.core.records import StartUpRecord, WindowRecord
from pytest_specgate.core.stored_gates import gates_of, stored_gate
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.reporting.page import html_page
from pytest_specgate.reporting.page_figures import Figures
from pytest_specgate.reporting.page_verdicts import card
from pytest_specgate.reporting.page_window import window_view
from pytest_specgate.reporting.session_json import session_json
from pytest_specgate.reporting.window_pairs import pair_names, verdicts_on
from tests.reporting.conftest import PROFILE, Window, pair
from tests.reporting.page_reading import pictures, read
from tests.reporting.page_runs import FLOOR, gated, paced, reported, session, three_arms
from tests.reporting.svg_reading import parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import BootRecord
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.reporting.page_pair import PairView
    from pytest_specgate.reporting.session_report import ReportedWindow

QUIRK = {"model_config.quirk": "harmless"}
TWICE: Mapping[str, Mapping[Level, float]] = {"k4": {1: 2.0, 8: 2.0}}


def same_titled(*, allowed_first: bool) -> Window:
    """Return a strict window whose two pairs have the same arms, and of which one allows how the servers differ."""
    strict = pair(rounds=1)
    allowing = dataclasses.replace(pair(rounds=2), allow_engine_differences=QUIRK)
    pairs = (allowing, strict) if allowed_first else (strict, allowing)
    window = paced(Window.of(*pairs, speeds={}, rounds=2), TWICE)

    def started(boot: BootRecord) -> BootRecord:
        config: dict[str, JsonValue] = {"model_config.quirk": "plain" if boot.arm == "off" else "odd"}
        return boot.model_copy(update={"startup": StartUpRecord(config=config, lines={"ready": 1})})

    record = window.record.model_copy(update={"strict": True, "boots": tuple(map(started, window.record.boots))})
    window = dataclasses.replace(window, record=record)
    for place, one in enumerate(pairs):
        name = f"tests/test_gate.py::{'test_allowing' if one is allowing else 'test_strict'}"
        window = gated(window, better("output_throughput", at=1, by="20%", noise=FLOOR), place=place, name=name)
    return window


@pytest.mark.parametrize("allowed_first", [True, False])
def test_a_pair_shows_its_own_figures_whatever_its_title(allowed_first: bool) -> None:
    """Of two pairs with one title the INVALID one has no figures and the valid one has its own, in either order."""
    found = reported(same_titled(allowed_first=allowed_first))
    figures = Figures(found)
    views = {one.cards[0].verdict.gate.rpartition("::")[2]: one for one in _views(found)}

    assert [one.rounds for one in figures.readable] == [2]
    assert [len(one.cards) for one in views.values()] == [1, 1]
    assert views["test_strict"].problem is not None
    assert (views["test_strict"].levels, views["test_strict"].changes) == ((), ())
    assert views["test_allowing"].problem is None
    assert len(views["test_allowing"].changes) == 1


def _views(window: ReportedWindow) -> tuple[PairView, ...]:
    cards = [card(one, window, name=f"t{place}") for place, one in enumerate(window.verdicts)]
    return window_view(window, cards, name="w1").pairs


def test_pairs_of_one_title_have_names_of_their_own() -> None:
    """Headings and identity lines of a page name the tests of such a pair, and every id is there once."""
    found = read(html_page(session(reported(same_titled(allowed_first=True)))))
    ids = [one.attributes["id"] for one in found.walk() if "id" in one.attributes]
    names = {one.text for one in found.named("bdi")}

    assert len(ids) == len(set(ids))
    assert {"k4 against off (test_allowing)", "k4 against off (test_strict)"} <= names
    assert "k4 against off" not in names


def test_names_are_no_longer_than_they_must_be() -> None:
    """A title of its own is enough; then come tests, at most two of them, then windows, then places."""
    alone, window = reported(three_arms(2)), reported(same_titled(allowed_first=False))
    many = gated(
        gated(same_titled(allowed_first=False), not_worse("output_throughput", at=1, margin="4%"), name="t.py::test_b"),
        not_worse("ttft_p50", at=1, margin="4%"),
        name="t.py::test_c",
    )
    bare = dataclasses.replace(window, gates=(), verdicts=())

    assert pair_names([alone]) == (("k4 against off", "k7 against k4"),)
    assert pair_names([reported(many)])[0][0] == "k4 against off (test_strict, test_b, 1 more)"
    assert pair_names([window, window])[1] == (
        "k4 against off (test_strict), window 2",
        "k4 against off (test_allowing), window 2",
    )
    assert pair_names([bare]) == (
        ("k4 against off (no gate), window 1, pair 1", "k4 against off (no gate), window 1, pair 2"),
    )


def test_a_record_keeps_which_of_two_pairs_a_gate_is_on() -> None:
    """Read back, a gate is on the pair it was declared for; records of older versions name the arms only."""
    window = same_titled(allowed_first=False)
    stored = tuple(map(stored_gate, window.gates))
    record = window.record.model_copy(update={"gates": stored})
    old = [{name: value for name, value in one.items() if name not in {"rounds", "varies"}} for one in stored]
    old = [{name: value for name, value in one.items() if name != "allow_engine_differences"} for one in old]
    again = WindowRecord.model_validate_json(record.model_dump_json())

    assert [gate.pair.key for gate in gates_of(again)] == [gate.pair.key for gate in window.gates]
    assert [gate.pair.rounds for gate in gates_of(record.model_copy(update={"gates": tuple(old)}))] == [1, 1]


def test_verdicts_are_those_on_the_pair() -> None:
    """They are found by the pair of their gate, also where its arms have lost their secrets."""
    window = reported(same_titled(allowed_first=False))
    strict, allowing = window.pairs
    arm = dataclasses.replace(strict.reference, env={"HF_TOKEN": "***"})
    redacted = dataclasses.replace(strict, reference=arm, candidate=dataclasses.replace(strict.candidate, env=arm.env))

    for one, outcome in ((strict, Outcome.INVALID), (redacted, Outcome.INVALID), (allowing, Outcome.PASS)):
        assert [verdict.outcome for verdict in verdicts_on(one, window.judged)] == [outcome]


def refused(place: int = 0) -> ReportedWindow:
    """Return a window in which a gain on one pair is not believed: one metric at one level is INVALID, and no other."""
    window = gated(three_arms(2), not_worse("output_throughput", at=8, margin="40%", noise=FLOOR), place=place)

    def disbelieve(verdict: Verdict) -> Verdict:
        told = "output throughput at c=8 better by a factor of more than 4: not believed"
        changes = {"outcome": Outcome.INVALID, "reason": "implausible-gain", "summary": told}
        return verdict.model_copy(update={**changes, "change": None, "reference": None, "candidate": None})

    return reported(window, edit=disbelieve)


def test_case_139_a_figure_that_a_verdict_calls_invalid_is_drawn_nowhere() -> None:
    """Case 139: neither over load, nor as a change, nor in the drift of boots; other metrics and levels stay."""
    window = refused()
    figures = Figures(window)
    lines = {
        key: {line.name: [cell.x for cell in line.cells] for line in figures.lines(key, figures.arms)}
        for key in ("output_throughput", "ttft_p50")
    }
    k4_off, k7_k4 = figures.readable

    assert lines["output_throughput"] == {"off": [1, 32], "k4": [1, 8, 32], "k7": [1, 8, 32]}
    assert lines["ttft_p50"] == {"off": [1, 8, 32], "k4": [1, 8, 32], "k7": [1, 8, 32]}
    assert [cell.x for cell in figures.changes(k4_off, "output_throughput")] == [1, 32]
    assert [cell.x for cell in figures.changes(k7_k4, "output_throughput")] == [1, 8, 32]
    (left,) = figures.left_out()
    assert left.startswith("output throughput of off at c=8 is left out (implausible-gain): output throughput at c=8 ")
    assert html_page(session(window)).count("not judged (implausible-gain)") == 1


def test_case_139_a_figure_that_a_verdict_calls_invalid_is_not_exported() -> None:
    """Case 139: programs find neither value, and every other one; an arm keeps what another pair of it may show."""
    (found,) = _json(refused())["windows"]
    arms = {arm["arm"]: {at: point["values"] for at, point in arm["points"].items()} for arm in found["arms"]}

    assert "output_throughput_tokens_per_s" not in arms["off"]["c8"]
    assert len(arms["off"]["c32"]["output_throughput_tokens_per_s"]) == 2
    assert len(arms["off"]["c8"]["ttft_p50_s"]) == 2
    assert len(arms["k4"]["c8"]["output_throughput_tokens_per_s"]) == 2


def test_programs_get_no_figure_of_a_round_that_is_not_whole() -> None:
    """A boot whose partner never ran is in no figure of JSON either: its load was compared with nothing."""
    window = three_arms(2)
    boots = tuple(boot for boot in window.record.boots if (boot.arm, boot.round) != ("off", 2))
    cut = dataclasses.replace(window, record=window.record.model_copy(update={"boots": boots}))
    (found,) = _json(reported(cut))["windows"]

    assert [arm["boots"] for arm in found["arms"]] == [1, 2, 2]
    assert [len(arm["points"]["c8"]["values"]["ttft_p50_s"]) for arm in found["arms"]] == [1, 2, 2]


def test_programs_see_a_point_that_cannot_be_compared_as_invalid_in_both_arms() -> None:
    """Where a point is INVALID across the arms of its only pair, neither arm has values there."""
    window = three_arms(2).with_requests("k7", 1, at=8, error="HTTP 500", status=500)
    alone = dataclasses.replace(window, pairs=window.pairs[1:])
    record = alone.record.model_copy(update={"pairs": alone.record.pairs[1:]})
    (found,) = _json(reported(dataclasses.replace(alone, record=record)))["windows"]
    arms = {arm["arm"]: arm["points"]["c8"] for arm in found["arms"]}

    assert [(arms[name]["valid"], arms[name]["reason"]) for name in ("k4", "k7")] == [(False, "failed-requests")] * 2
    assert "values" not in arms["k4"]


def _json(window: ReportedWindow) -> Any:
    return session_json(session(window))


def two_models() -> Window:
    """Return a window of two pairs without a common arm, which serve other models."""
    other = Arm("big", model="another", args={"max_model_len": 64})
    config = {"method": "ngram", "num_speculative_tokens": 3}
    apart = ArmPair(
        reference=other,
        candidate=other.vary("big2", args={"speculative_config": config}),
        varies="args.speculative_config",
        profile=PROFILE,
        rounds=2,
    )
    window = Window.of(pair(), apart, speeds={})
    for name in ("big", "big2"):
        for number in (1, 2):
            window = window.with_field(name, number, model="another", tokenizer_sha256="1")
    return window


def test_arms_that_got_other_requests_are_drawn_apart() -> None:
    """No picture has arms of two models in it, and the page says why there are two of each kind."""
    window = reported(two_models())
    view = window_view(window, [], name="w1")
    pictures_of = [parsed(one.picture).findtext("desc", "") for one in (*view.over_load, *view.acceptance)]

    assert [[arm.name for arm in arms] for arms in Figures(window).loads] == [["off", "k4"], ["big", "big2"]]
    assert len(view.over_load) == 6
    assert view.over_load[3].title == "output throughput [tokens/s], big, big2"
    assert not [text for text in pictures_of if re.search(r"\b(?:off|k4):", text) and re.search(r"\bbig2?:", text)]
    assert view.interval.endswith(
        "big, big2 got other requests than off, k4 (model, tokenizer_sha256): they are drawn apart, and not to be "
        "compared."
    )
    page = html_page(session(window))
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert len(pictures(page)) > 6


def test_arms_of_one_model_share_their_pictures() -> None:
    """Pairs without a common arm whose servers got the same requests stand in one picture."""
    window = Window.of(pair(), pair(7, 9), speeds={})
    figures = Figures(reported(window))

    assert [[arm.name for arm in arms] for arms in figures.loads] == [["off", "k4", "k7", "k9"]]
    assert list(figures.apart()) == []
