"""The page of a run: whole, self-contained, honest about what it does not know, and deaf to what others wrote."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import itertools
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.core.verdict_parts import invalid
from pytest_specgate.reporting.page import headline, html_page, visible
from pytest_specgate.reporting.session_report import ReportedCalibration, ReportedVerdict, SessionReport
from tests.reporting.page_reading import PICTURE, Tag, pictures, read
from tests.reporting.page_runs import HOSTILE, RUNS, passing, smallest

if TYPE_CHECKING:
    from pytest_specgate.core.verdict import Verdict

FIGURE = re.compile(r"\b(?:better|worse|equal) [+-]?\d|interval [+-]\d|\d (?:tokens/s|ms)\b|\d % equal")
"""What only a text with a measured figure contains."""

every_run = pytest.mark.parametrize("name", RUNS)


@functools.cache
def run(name: str) -> SessionReport:
    """Return a run, made once."""
    return RUNS[name]()


@functools.cache
def page(name: str) -> str:
    """Return the page of a run, made once."""
    return html_page(run(name))


@functools.cache
def tags(name: str) -> Tag:
    """Return the page of a run as elements."""
    return read(page(name))


@every_run
def test_a_page_is_well_formed(name: str) -> None:
    """Every element that begins ends in its place, every id is there once, and every link has an end."""
    found = tags(name)
    ids = [one.attributes["id"] for one in found.walk() if "id" in one.attributes]
    links = [one.attributes["href"] for one in found.named("a")]

    assert page(name).startswith("<!DOCTYPE html>")
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in links} <= set(ids)


@every_run
def test_a_page_needs_nothing_else(name: str) -> None:
    """No address but its own, no script, no style but the one that its policy names by its hash."""
    found = tags(name)
    addresses = [
        one.attributes[key] for one in found.walk() for key in ("href", "src", "action") if key in one.attributes
    ]
    (style,) = found.named("style")
    (policy,) = (one for one in found.named("meta") if one.attributes.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(style.raw.encode()).digest()).decode()

    assert {address for address in addresses if not address.startswith("#")} == {"data:,"}
    assert found.named("script", "img", "iframe", "object", "embed", "base", "form") == []
    assert [one for one in found.walk() if "style" in one.attributes] == []
    assert policy.attributes["content"] == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert set(re.findall(r"url\(([^)]*)\)", style.raw)) == {"#hatch", "#slower"}
    assert "@import" not in style.raw


@every_run
def test_a_page_can_be_read_aloud(name: str) -> None:
    """One title, headings without gaps, heads of tables with their scope, every picture with title and description."""
    found = tags(name)
    levels = [int(one.name[1]) for one in found.named("h1", "h2", "h3", "h4", "h5")]
    shown = [one for one in found.named("svg") if one.attributes.get("aria-hidden") != "true"]

    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels))
    assert {one.attributes.get("scope") for one in found.named("th")} <= {"col", "row", "rowgroup"}
    for picture in shown:
        title, description = (found.by_id(one) for one in picture.attributes["aria-labelledby"].split())
        assert picture.attributes["role"] == "img"
        assert title.text
        assert description.text


@every_run
def test_what_is_drawn_can_be_drawn(name: str) -> None:
    """Every picture is proper XML, and nothing in it is infinite or no number."""
    for picture in pictures(page(name)):
        values = [value for one in picture.iter() for key, value in one.attrib.items() if key != "class"]
        assert not [value for value in values if re.search(r"\bnan\b|\binf\b", value)]


@every_run
def test_only_a_run_that_passed_is_green(name: str) -> None:
    """The word is that of the run, and its colour is that of PASS only where the run passed."""
    (top,) = tags(name).having("top")
    (word,) = top.having("word")
    green = "tone-pass" in top.attributes["class"].split()

    assert green == run(name).passed
    assert (word.text == "PASS") == green


@pytest.mark.parametrize(
    ("name", "word", "sentence"),
    [
        ("passing", "PASS", "Every threshold was judged, and each verdict is as it must be."),
        ("failing", "FAIL", "Of 2 thresholds it is shown that the claim does not hold."),
        ("smallest", "INCONCLUSIVE", "1 threshold could not be decided: what is not shown is no pass."),
        ("invalid", "INVALID", "What was measured for 2 thresholds must not be judged."),
        ("nothing", "NOT JUDGED", "No threshold was collected, so nothing was judged."),
    ],
)
def test_a_page_begins_with_the_outcome(name: str, word: str, sentence: str) -> None:
    """The gravest outcome that was not accepted is the headline, with what it means."""
    (top,) = tags(name).having("top")

    assert top.having("word")[0].text == word
    assert top.having("sentence")[0].text == sentence


def test_everything_that_kept_a_run_from_passing_is_said() -> None:
    """Outcomes, thresholds without a verdict, tests that failed otherwise, gates that are missing: all in the head."""
    (top,) = tags("failing").having("top")

    assert [one.text for one in top.having("sentence")] == [
        "Of 2 thresholds it is shown that the claim does not hold.",
        "2 thresholds could not be decided: what is not shown is no pass.",
        "No verdict for 2 thresholds: what was not measured is no pass.",
        "1 window could not be measured.",
        "1 test failed for another reason than a verdict.",
        "1 of at least 2 gates was judged",
    ]
    assert top.having("counts")[0].text == (
        "6 of 8 thresholds judged: 1 PASS, 3 FAIL (1 of them expected), 2 INCONCLUSIVE"
    )


@pytest.mark.parametrize(
    ("changes", "word", "sentence"),
    [
        ({"thresholds": 9}, "NOT JUDGED", "No verdict for 4 thresholds: what was not measured is no pass."),
        ({"exit_status": 2}, "NOT PASSED", "pytest ended with exit status 2."),
        ({"shortage": "too few"}, "NOT PASSED", "too few"),
    ],
)
def test_a_run_whose_verdicts_are_good_may_not_have_passed(changes: dict[str, Any], word: str, sentence: str) -> None:
    """What else went wrong keeps a run from being green, and is named."""
    found = headline(dataclasses.replace(passing(), **changes))

    assert (found.word, found.tone, found.sentences) == (word, "invalid", (sentence,))


def test_a_calibration_is_no_failure() -> None:
    """Its word says what was done, and nothing of it is green."""
    done = ReportedCalibration(("off",), "record.json", "baselines/here/noise.json")
    found = headline(SessionReport((), thresholds=2, exit_status=0, calibrated=(done,)))

    assert (found.word, found.tone) == ("CALIBRATED", "expected")
    assert found.sentences == (
        "The noise of off was measured, and is in baselines/here/noise.json; nothing was judged.",
    )


def test_a_window_that_was_cut_off_is_no_pass() -> None:
    """A window that did not run to its end leaves the run not passed, whatever its verdicts are."""
    report = passing()
    record = report.windows[0].record.model_copy(update={"finished": False})
    cut = dataclasses.replace(report, windows=(dataclasses.replace(report.windows[0], record=record),))
    found = headline(cut)

    assert (found.word, found.sentences) == ("NOT PASSED", ("1 window did not run to its end.",))
    assert "9 in 3 rounds (off k4 k7 / k7 k4 off / off k4 k7), UNFINISHED" in read(html_page(cut)).text


@every_run
def test_identity_comes_before_every_figure(name: str) -> None:
    """No figure of a pair stands before the line that says its request profiles are identical."""
    for section in tags(name).having("pair"):
        lines = section.having("identity")
        before = section.text.partition("request profile: ")[0] if lines else ""
        assert not FIGURE.search(before)
    whole = tags(name).text
    first = FIGURE.search(whole)
    assert first is None or re.search(r"request profile: (\d+) of \1 fields identical", whole[: first.start()])


def test_case_139_what_must_not_be_judged_has_no_figures() -> None:
    """Case 139: a run in which nothing may be judged has no plot, no table of figures and no figure in its text."""
    found = tags("invalid")

    assert pictures(page("invalid")) == []
    assert not FIGURE.search(found.text)
    assert [table.named("caption")[0].text for table in found.named("table")] == [
        "Fields of the request profile that differ"
    ]
    assert "No figures (server-died): arm k7: its server left" in found.text


def test_a_mismatch_shows_fields_with_both_values() -> None:
    """Each field that differs is named with both boots, both values, and what to do about it."""
    (table,) = tags("invalid").named("table")
    rows = [[cell.text for cell in row.named("th", "td")] for row in table.named("tr")]
    remedy = "measure both arms in one window, with one RequestProfile: this record mixes two loads"

    assert rows == [
        ["field", "boot", "value", "what to do"],
        ["temperature", "off, round 1", "0.0", remedy],
        ["off, round 2", "0.7"],
        ["seed", "off, round 1", "0", remedy],
        ["off, round 2", "None"],
    ]


def test_case_139_an_invalid_point_is_left_out_and_said_to_be() -> None:
    """Case 139: no plot and no table has a figure of the point whose requests failed, and a note says so."""
    found = tags("part_invalid")
    told = [picture.findtext("desc", "") for picture in pictures(page("part_invalid"))]
    over_load = [text for text in told if re.search(r"tokens/s\.|in ms\.", text)]
    marks = [title for one in pictures(page("part_invalid")) for title in one.itertext() if ", 8: " in title]

    assert over_load
    assert not [text for text in over_load if re.search(r"[:,] 8 \d", text)]
    assert marks == []
    (note,) = found.having("refused")
    assert note.text == (
        "off at c=8, k4 at c=8, k7 at c=8 are left out (failed-requests): arm k4 at c=8: 16 of 16 requests failed, "
        "the first with: HTTP 500"
    )
    assert found.text.count("not judged (failed-requests)") == 2


@every_run
def test_every_verdict_has_its_card(name: str) -> None:
    """Each threshold is there once, with outcome, claim, place in the run, and its reason where it is no PASS."""
    cards = tags(name).having("card")
    report = run(name)
    places = {" ".join(visible(one.node_id).split()) for one in report.verdicts}

    assert len(cards) == len(report.verdicts) + len(report.unjudged)
    for card, one in zip(cards, report.verdicts, strict=False):
        assert card.having("badge")[0].text.split(",")[0] == one.verdict.outcome
        assert one.verdict.claim in card.text
        assert (one.verdict.reason in card.text) == (one.verdict.outcome != Outcome.PASS)
    assert {card.having("node")[0].text.replace(":: ", "::") for card in cards[: len(report.verdicts)]} <= places


def test_a_card_tells_change_interval_and_values() -> None:
    """A claim about a change has it in words of direction, with interval and the values of both arms."""
    card = tags("passing").by_id("t2")

    assert card.having("found")[0].text == "worse -1.5 %"
    assert [one.text for one in card.having("aside")] == [
        "interval -2.6 .. +0.1 %",
        "off 256.7 \N{RIGHTWARDS ARROW} k4 252.9 tokens/s",
    ]
    assert len(card.having("strip")) == 1


def test_cards_of_other_kinds_tell_what_was_found() -> None:
    """A limit has its worst boot, equal answers their worst round."""
    limit, answers = (tags("passing").by_id(name) for name in ("t4", "t5"))

    assert [limit.having("found")[0].text, limit.having("aside")[0].text] == ["125.2 ms", "worst of 3 boots"]
    assert [answers.having("found")[0].text, answers.having("aside")[0].text] == ["100 % equal", "worst of 3 rounds"]


def test_without_noise_there_is_no_interval() -> None:
    """A card says that its noise is not known instead of showing an interval."""
    (card,) = tags("smallest").having("card")

    assert "no interval: its noise is not known" in card.text
    assert card.having("interval") == []


def test_what_is_not_pass_says_why_and_what_to_run() -> None:
    """Reason, evidence and commands to copy: of the servers, to judge again, and to measure again."""
    (why,) = (one for one in tags("smallest").having("why") if "tone-inconclusive" in one.attributes["class"])
    (servers,) = tags("smallest").having("servers")

    assert "noise-unknown" in why.text
    assert any("geometric means of 1 round" in line.text for line in why.named("li"))
    item = "'benchmarks/test_gate.py::test_0[c8-output_throughput-not_worse]'"
    assert [one.text for one in why.having("command")] == [
        "specgate judge specgate-results/one/record.json",
        f"pytest {item} --specgate-rounds=4 --specgate-rounds=4",
    ]
    assert [one.text for one in servers.having("command")] == [
        "serve folder --port 8000",
        "serve folder --port 8001",
    ]


def test_what_was_expected_is_neither_green_nor_to_be_mended() -> None:
    """A FAIL that its test accepts says so in a colour of its own, with its evidence, and with nothing to run."""
    card = next(one for one in tags("failing").having("card") if "expected" in one.having("badge")[0].text)
    why = tags("failing").by_id(f"{card.attributes['id']}-why")

    assert card.having("badge")[0].text == "FAIL, expected"
    assert "tone-expected" in card.attributes["class"]
    assert why.named("li")
    assert why.having("command") == []


def test_a_pass_that_was_not_expected_is_not_green() -> None:
    """Where a test expects FAIL, a PASS fails it."""
    report = passing()

    def unaccepted(verdict: Verdict) -> Verdict:
        copy = verdict.model_copy()
        copy._accepted = frozenset({Outcome.FAIL})
        return copy

    first, *others = report.windows[0].verdicts
    window = dataclasses.replace(
        report.windows[0], verdicts=(dataclasses.replace(first, verdict=unaccepted(first.verdict)), *others)
    )
    found = read(html_page(dataclasses.replace(report, windows=(window,))))

    assert found.by_id("t1").having("badge")[0].text == "PASS, not expected"
    assert "tone-fail" in found.by_id("t1").attributes["class"]
    assert found.having("word")[0].text == "NOT PASSED"
    assert found.having("sentence")[0].text == "1 threshold passed where another outcome was expected."


def test_what_has_no_verdict_is_shown() -> None:
    """Thresholds, windows and tests that have none stand there with the reason."""
    found = tags("failing")

    (unjudged,) = (one for one in found.having("card") if one.having("badge")[0].text == "NOT JUDGED")
    assert "the window did not run to its end" in unjudged.text
    assert "Not measured: its lock is held by somebody else" in found.text
    assert "benchmarks/test_gate.py::test_3 AssertionError: assert 1 == 2" in found.text


def test_what_was_closed_beforehand_is_shown() -> None:
    """A verdict that nothing measured could have changed has a card, and its message says what to run."""
    gate = smallest().windows[0].gates[0]
    verdict = invalid(gate, gate.thresholds[0], Failure(reason="no-baseline", message="no baseline yet"))
    steps = "    write it: pytest x --specgate-baseline=new\n    nothing was measured for it"
    text = f"INVALID (no-baseline): no baseline yet\n{steps}"
    report = SessionReport((), closed=(ReportedVerdict(verdict, "x", skipped=True, text=text),), thresholds=1)
    found = read(html_page(report))

    assert found.having("card")[0].having("badge")[0].text == "INVALID, skipped"
    assert [one.text for one in found.having("command")] == ["pytest x --specgate-baseline=new"]
    assert "Closed before anything was measured" in found.text


def test_what_others_wrote_is_shown_as_text() -> None:
    """Tags, quotes and braces stand there as they are; control characters and marks of direction as their numbers."""
    text = page("hostile")
    told = visible(HOSTILE)

    assert "\\x1b[31m" in told
    assert "\\u202eevil\\u200f" in told
    assert tags("hostile").text.count("{{ 7*7 }}") > 15
    assert tags("hostile").text.count(told) > 15
    assert {letter for letter in text if not letter.isprintable()} == {"\n"}


def test_the_end_of_a_log_is_no_command() -> None:
    """A server that prints what looks like our next step has no say in what is offered to be copied."""
    commands = [one.text for one in tags("hostile").having("command")]

    assert [one for one in commands if "evil" in one and not one.startswith("serve ")] == []
    assert any("pytest --evil" in one.text for one in tags("hostile").having("log"))


def test_plots_show_every_arm_and_level() -> None:
    """Eight arms at six concurrencies and two arrival rates: rates have plots of their own, and nobody is missing."""
    told = {one.findtext("title", ""): one.findtext("desc", "") for one in pictures(page("crowded"))}
    names = [arm.name for arm in run("crowded").windows[0].record.arms]

    for metric in ("output throughput", "TTFT p50", "decode rate p50"):
        closed, open_loop = (told[f"{metric} over {along}"] for along in ("concurrency", "arrival rate [requests/s]"))
        assert all(f"{name}: 1 " in closed and f"{name}: 4/s " in open_loop for name in names)
    assert [title for title in told if title.startswith("accepted by position")] == [
        f"accepted by position at {at}" for at in ("c=1", "c=2", "c=4", "c=8", "c=16", "c=64", "4/s", "16/s")
    ]


def test_without_speculation_there_is_nothing_about_it() -> None:
    """A window of two arms that do not speculate has no section on it."""
    assert [one.text for one in tags("smallest").named("h3")][-2:] == ["new against old", "Boots and client"]
    assert "Speculation" not in tags("smallest").text


def test_a_table_tells_every_metric_of_a_pair() -> None:
    """Each level has its headline metrics with both values, the change in words, and what was claimed of it."""
    table = next(one for one in tags("passing").having("metrics"))
    rows = [[cell.text for cell in row.named("th", "td")] for row in table.named("tr")]
    c32 = next(place for place, row in enumerate(rows) if row[0] == "c=32")

    assert rows[0] == ["load", "metric", "off", "k4", "change", "by round [%]", "interval", "outcome"]
    assert rows[c32] == [
        "c=32", "output throughput [tokens/s]", "256.7", "252.9", "worse -1.5 %", "-1.6 -1.6 -1.2", "-2.6 .. +0.1 %",
        "PASS (not worse than -6 %)",
    ]  # fmt: skip
    assert rows[c32 + 1][:4] == ["TTFT p50 [ms]", "249.3", "253.1", "worse +1.5 %"]


def test_a_page_is_the_same_for_the_same_run() -> None:
    """Nothing of the moment or the machine is in it."""
    assert html_page(passing()) == page("passing")


def test_legends_and_plots_agree() -> None:
    """Every arm of a legend is drawn in the colour of its sample."""
    found = tags("passing")
    (legend, *_) = found.having("legend")
    samples = [sample.named("g")[0].attributes["class"] for sample in legend.named("svg")]
    first = next(text for text in PICTURE.findall(page("passing")) if "output throughput over" in text)

    assert [one.text for one in legend.named("li")] == ["off", "k4", "k7"]
    assert samples == ["arm-1", "arm-2", "arm-3"]
    assert re.findall(r'<g class="(arm-\d)"', first) == samples


def test_a_page_needs_the_extra_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without jinja2 the message names the extra to install."""
    monkeypatch.setitem(sys.modules, "jinja2", None)

    with pytest.raises(UsageError, match=r"pip install 'pytest-specgate\[report\]'"):
        html_page(passing())


def test_only_a_page_needs_jinja2() -> None:
    """Importing the module does not import the engine of its template: a run without a page does not pay for it."""
    code = "import sys, pytest_specgate.reporting.page; print('jinja2' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert found.stdout == "False\n"
