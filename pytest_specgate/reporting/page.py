"""A run as a page of its own: one file, nothing to fetch, nothing to run, as a reader's theme and screen want it."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import itertools
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.page_tables import outcome_text
from pytest_specgate.reporting.page_verdicts import card, unjudged_card
from pytest_specgate.reporting.page_window import window_view
from pytest_specgate.reporting.reasons import WORST_FIRST, reasons
from pytest_specgate.reporting.window_pairs import pair_names

if TYPE_CHECKING:
    from jinja2 import Environment

    from pytest_specgate.reporting.session_report import SessionReport

NOT_JUDGED: Final = "NOT JUDGED"
"""The word of a run in which thresholds have no verdict, and those that have one are as they must be."""

NOT_PASSED: Final = "NOT PASSED"
"""The word of a run whose verdicts are as they must be, and in which something else went wrong."""

CALIBRATED: Final = "CALIBRATED"
"""The word of a run that measured noise, as it was to, and judged nothing."""

_NAMED: Final = 3
"""Number of pairs that a headline names."""


@dataclasses.dataclass(frozen=True, slots=True)
class Headline:
    """What a page says first.

    Attributes:
        word: outcome of the run.
        tone: class of its colour; only a run that passed has that of PASS.
        sentences: what the word means here; of a run that did not pass all that kept it from passing.
        counts: thresholds by outcome.
    """

    word: str
    tone: str
    sentences: tuple[str, ...]
    counts: str


def headline(report: SessionReport) -> Headline:
    """Return the outcome of a run: the gravest one that was not accepted, and PASS only where the run passed."""
    if report.passed:
        said = ("Every threshold was judged, and each verdict is as it must be.",)
        return Headline("PASS", "pass", said, report.counts)
    sentences = tuple(one.sentence for one in reasons(report))
    if report.only_calibrated:
        return Headline(CALIBRATED, "expected", sentences, report.counts)
    refused = {one.verdict.outcome for one in report.verdicts if not one.verdict.accepted}
    word = next((word for word in WORST_FIRST if word in refused), None)
    if word is None:
        missing = report.missing or not report.thresholds
        return Headline(NOT_JUDGED if missing else NOT_PASSED, "invalid", sentences, report.counts)
    tone = "fail" if word == Outcome.PASS else word.lower()
    return Headline(NOT_PASSED if word == Outcome.PASS else word, tone, sentences, report.counts)


def check_installed() -> None:
    """Make sure that pages can be written.

    Raises:
        UsageError: the package that fills the template is not installed; the message says how to get it.
    """
    try:
        import jinja2  # noqa: F401, PLC0415  - an extra: only who wants a page needs it
    except ImportError:
        raise UsageError(
            "an HTML page needs jinja2, which is not installed: pip install 'pytest-specgate[report]'"
        ) from None


def html_page(report: SessionReport) -> str:
    """Return a whole page on a run.

    It needs no network, no script and no other file. Figures of a pair stand below the line that says that its request
    profiles are identical; what is INVALID has no figures. Text of servers and users is shown as text, and what
    cannot be seen of it (control characters, marks of direction) is shown as its number.

    Raises:
        UsageError: jinja2 is not installed.
    """
    check_installed()
    environment = _environment()
    names = (f"t{number}" for number in itertools.count(1))
    windows = [
        window_view(
            window, [card(one, window, name=next(names)) for one in window.verdicts], name=f"w{place}", titles=titles
        )
        for place, (window, titles) in enumerate(zip(report.windows, pair_names(report.windows), strict=True), start=1)
    ]
    closed = [card(one, None, name=next(names)) for one in report.closed]
    unjudged = [unjudged_card(one, name=next(names)) for one in report.unjudged]
    cards = [one for window in windows for pair in window.pairs for one in pair.cards] + closed
    style = environment.get_template("page.css").render()
    text = environment.get_template("page.html").render(
        style=style,
        style_sha256=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        headline=headline(report),
        title=_title(report),
        report=report,
        windows=windows,
        closed=closed,
        unjudged=unjudged,
        drawn=any(one.strip for one in cards),
        refused=any(one.why is not None for one in cards),
    )
    return f"{text}\n"


def _title(report: SessionReport) -> str:
    """Name the pairs of a run, of many the first ones."""
    pairs = [pair.title for window in report.windows for pair in window.pairs]
    pairs = list(dict.fromkeys([*pairs, *(title for one in report.unmeasured for title in one.pairs)]))
    more = [f"and {len(pairs) - _NAMED} more"] if len(pairs) > _NAMED else []
    return ", ".join([*pairs[:_NAMED], *more]) or "no pair"


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  - see `check_installed`
    from markupsafe import Markup  # noqa: PLC0415  - comes with jinja2

    def shown(value: object) -> object:
        """Show what cannot be seen of a text; pictures and the style sheet are ours, and stay as they are."""
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=PackageLoader("pytest_specgate.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["outcome"] = outcome_text
    return environment


def visible(text: str) -> str:
    """Return a text in which every character can be seen: those that steer a display stand as their numbers."""
    return "\n".join(one_line(line.expandtabs()) for line in text.split("\n"))
