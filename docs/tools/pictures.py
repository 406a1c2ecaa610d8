"""The pictures of the documentation, drawn with the code that judges gates: what they show is what it says.

Usage: python docs/tools/pictures.py      (writes docs/pictures/*.svg; needs this package, and nothing else)
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import statistics
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.noise import Noise, arm_noise, declared_noise, floor_of
from pytest_specgate.core.plan import Plan, looks
from pytest_specgate.core.statistics import look, raw_change

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from pytest_specgate.core.statistics import Look

    Point: TypeAlias = tuple[float, float]
    Attributes: TypeAlias = Mapping[str, float | str]
    Labels: TypeAlias = Mapping[int, str] | Mapping[float, str]

_ROOT: Final = Path(__file__).resolve().parents[2]
PICTURES: Final = _ROOT / "docs" / "pictures"
_PUBLISHED: Final = _ROOT / "benchmarks" / "decision" / "published.json"

WIDTH: Final = 600
"""Of every picture, in pixels: on a phone its letters still have half their size."""

GREEN, AMBER, YELLOW, RED, BLUE = "#2e7d32", "#b26a00", "#f2b134", "#c62828", "#3949ab"
INK, PALE, FAINT = "#263238", "#546e7a", "#90a4ae"
DASHED: Final[dict[str, float | str]] = {"stroke_width": 2, "stroke_dasharray": "6 4"}
COLOURS: Final = {"PASS": GREEN, "FAIL": RED, "INCONCLUSIVE": AMBER, "CONTINUE": FAINT}
MARGIN: Final = -math.log(1 - 0.05)
"""The margin of most pictures, 5 % of a throughput, in the units of the rule."""

_RUN: Final = {
    "off": (60.77, 248.5, 365.1),
    "k=4": (84.61, 249.1, 351.2),
    "k=7": (89.79, 241.6, 325.0),
}
"""Output throughput at c=1, 8 and 32 in tokens/s: the run of the main job that the README shows (real vLLM, on CPU)."""


def percent(difference: float) -> float:
    """Return a log ratio of a throughput as a change in percent."""
    return 100 * raw_change(difference, higher_is_better=True)


def logs(*changes: float) -> tuple[float, ...]:
    """Return changes in percent as log ratios."""
    return tuple(math.log1p(change / 100) for change in changes)


@dataclasses.dataclass
class Canvas:
    """A picture that grows element by element; its text is the same wherever it is drawn.

    Attributes:
        width: in pixels.
        height: likewise.
        parts: the elements so far.
    """

    width: int
    height: int
    parts: list[str] = dataclasses.field(default_factory=list)

    def add(self, name: str, attributes: Attributes, content: str = "") -> None:
        """Add an element; an underscore in the name of an attribute is a hyphen, numbers have one digit."""
        told = " ".join(f'{key.replace("_", "-")}="{_number(value)}"' for key, value in attributes.items())
        self.parts.append(f"<{name} {told}>{escape(content)}</{name}>" if content else f"<{name} {told}/>")

    def line(self, start: Point, end: Point, colour: str = INK, **attributes: float | str) -> None:
        """Add a straight line."""
        self.add("line", {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1], "stroke": colour, **attributes})

    def curve(self, points: Iterable[Point], colour: str) -> None:
        """Add a line through points."""
        fixed: Attributes = {"fill": "none", "stroke": colour, "stroke_width": 2, "stroke_linejoin": "round"}
        self.add("polyline", {"points": _path(points), **fixed})

    def area(self, points: Iterable[Point], colour: str, opacity: float = 0.75) -> None:
        """Add a filled shape."""
        self.add("polygon", {"points": _path(points), "fill": colour, "fill_opacity": f"{opacity:g}"})

    def band(self, corner: Point, size: Point, colour: str, opacity: float = 0.12) -> None:
        """Add a rectangle."""
        place: Attributes = {"x": corner[0], "y": corner[1], "width": size[0], "height": size[1]}
        self.add("rect", {**place, "fill": colour, "fill_opacity": f"{opacity:g}"})

    def dot(self, at: Point, colour: str, radius: float = 4) -> None:
        """Add a point."""
        self.add("circle", {"cx": at[0], "cy": at[1], "r": radius, "fill": colour})

    def text(self, at: Point, words: str, colour: str = INK, **attributes: float | str) -> None:
        """Add words that begin at a place, or end or are centred there (`text_anchor`)."""
        self.add("text", {"x": at[0], "y": at[1], "fill": colour, **attributes}, words)

    def svg(self, title: str) -> str:
        """Return the whole file; the title is what is read out where nobody sees it."""
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="15">'
        page = f'<rect width="{self.width}" height="{self.height}" rx="8" fill="#ffffff"/>'
        return "\n".join([head, f"<title>{escape(title)}</title>", page, *self.parts, "</svg>\n"])


def _path(points: Iterable[Point]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value + 0:.1f}".removesuffix(".0")


@dataclasses.dataclass(frozen=True)
class Axes:
    """A panel: values in, places out.

    Attributes:
        canvas: it is drawn on.
        box: left, top, right, bottom in pixels.
        x: least and greatest value from left to right.
        y: likewise from bottom to top.
    """

    canvas: Canvas
    box: tuple[float, float, float, float]
    x: Point
    y: Point

    def at(self, x: float, y: float) -> Point:
        """Return the place of a value."""
        left, top, right, bottom = self.box
        across, up = (x - self.x[0]) / (self.x[1] - self.x[0]), (y - self.y[0]) / (self.y[1] - self.y[0])
        return left + across * (right - left), bottom - up * (bottom - top)

    def frame(self, title: str, *, xs: Labels, ys: Labels) -> None:
        """Draw title, grid and labels."""
        left, top, right, bottom = self.box
        self.canvas.text((left, top - 14), title, font_weight="600")
        for value, label in ys.items():
            _, height = self.at(self.x[0], value)
            self.canvas.line((left, height), (right, height), "#e0e4e7")
            self.canvas.text((left - 8, height + 5), label, PALE, text_anchor="end", font_size=13)
        for value, label in xs.items():
            place, _ = self.at(value, self.y[0])
            self.canvas.text((place, bottom + 20), label, PALE, text_anchor="middle", font_size=13)

    def level(self, y: float, colour: str, **attributes: float | str) -> None:
        """Draw a line from left to right."""
        self.canvas.line(self.at(self.x[0], y), self.at(self.x[1], y), colour, **attributes)

    def margin(self, y: float) -> None:
        """Draw the margin."""
        self.level(y, RED, **DASHED)

    def interval(self, x: float, found: Look) -> None:
        """Draw an upright interval with its estimate, in the colour of its word."""
        low, high = percent(found.lower or 0), percent(found.upper or 0)
        colour = COLOURS[found.decision]
        self.canvas.line(self.at(x, low), self.at(x, high), colour, stroke_width=4)
        self.canvas.dot(self.at(x, percent(found.mean)), colour, 6)


def judged(differences: Sequence[float], *, noise: Noise | None = None, n_max: int = 6, delta: float = MARGIN) -> Look:
    """Judge rounds as a gate does, by default with a declared floor of 2 %."""
    known = declared_noise(0.02) if noise is None else noise
    return look(differences, delta=delta, noise=known, plan=Plan(looks(n_max, known)))


def gain_over_load() -> str:
    """Two draft horizons against speculation off, at three load levels."""
    canvas = Canvas(WIDTH, 330)
    axes = Axes(canvas, (70, 50, 480, 280), (-0.35, 2), (-20, 60))
    levels = {-20: "-20 %", 0: "0", 20: "+20 %", 40: "+40 %", 60: "+60 %"}
    axes.frame("output throughput against speculation off", xs={0: "c=1", 1: "c=8", 2: "c=32"}, ys=levels)
    axes.level(0, FAINT, stroke_width=2)
    beside: tuple[tuple[str, str, tuple[int, ...]], ...] = (("k=7", RED, (5, 22, 22)), ("k=4", BLUE, (5, -12, -8)))
    for name, colour, shifts in beside:
        changes = [100 * (new / old - 1) for new, old in zip(_RUN[name], _RUN["off"], strict=True)]
        places = [axes.at(index, change) for index, change in enumerate(changes)]
        canvas.curve(places, colour)
        for index, ((x, y), change, shift) in enumerate(zip(places, changes, shifts, strict=True)):
            canvas.dot((x, y), colour)
            side: dict[str, float | str] = {} if index else {"text_anchor": "end"}
            canvas.text((x + (8 if index else -8), y + shift), f"{change:+.1f} %", colour, font_size=13, **side)
        canvas.text((places[-1][0] + 70, places[-1][1] + shifts[-1]), name, colour, font_weight="600")
    return canvas.svg("Speculation gains 39 and 48 % alone and loses 4 and 11 % at 32 concurrent requests")


def pairs() -> str:
    """Why rounds are paired: what slows both boots of a round is in neither difference."""
    reference = (1000, 962, 1021, 948, 987, 1034)
    changes = logs(-1.6, -2.6, -1.9, -2.4, -1.2, -2.1)
    candidate = [value * math.exp(change) for value, change in zip(reference, changes, strict=True)]
    canvas = Canvas(WIDTH, 340)
    rounds = {number: str(number) for number in range(1, 7)}
    left = Axes(canvas, (56, 50, 290, 280), (0.6, 6.4), (900, 1060))
    left.frame("each boot, tokens/s", xs=rounds, ys={value: str(value) for value in (900, 950, 1000, 1050)})
    for values, colour, name, place in ((reference, INK, "reference", 56), (candidate, BLUE, "candidate", 160)):
        canvas.curve([left.at(index + 1, value) for index, value in enumerate(values)], colour)
        for index, value in enumerate(values):
            canvas.dot(left.at(index + 1, value), colour)
        canvas.text((place, 322), f"● {name}", colour, font_size=13)
    right = Axes(canvas, (360, 50, 580, 280), (0.6, 7.6), (-7, 3))
    right.frame("change of each round", xs={**rounds, 7: "all"}, ys={-5: "-5 %", 0: "0", 2: "+2 %"})
    found = judged(changes, noise=Noise(0, 0))
    right.margin(-5)
    right.level(0, FAINT)
    for index, change in enumerate(changes):
        canvas.dot(right.at(index + 1, percent(change)), BLUE)
    right.interval(7, found)
    canvas.text((360, 322), "┅ margin", RED, font_size=13)
    canvas.text((436, 322), f"● mean, interval: {found.decision}", COLOURS[found.decision], font_size=13)
    return canvas.svg("The figures of both arms wander together from boot to boot; their differences do not")


_ZONES: Final = (
    ("equal arms", (0.4, -0.5, 0.3, -0.6)),
    ("2 % slower", (-1.4, -2.5, -1.7, -2.4)),
    ("4.2 % slower", (-3.4, -4.9, -3.6, -4.9)),
    ("5.8 % slower", (-4.9, -6.7, -5.1, -6.5)),
    ("9 % slower", (-8.4, -9.7, -8.6, -9.3)),
    ("a restless machine", (4.5, -5.2, 3.1, -3.6)),
)


def zones() -> str:
    """What the word depends on: where an interval lies, and not where its middle lies."""
    canvas = Canvas(WIDTH, 60 + 44 * len(_ZONES) + 40)
    bottom = canvas.height - 44
    axes = Axes(canvas, (152, 40, 448, bottom), (-13, 9), (0, 1))
    edge, _ = axes.at(-5, 0)
    canvas.band((axes.box[0], 30), (edge - axes.box[0], bottom - 30), RED)
    canvas.band((edge, 30), (axes.box[2] - edge, bottom - 30), GREEN)
    canvas.line((edge, 30), (edge, bottom), RED, **DASHED)
    canvas.text((edge, 22), "margin", RED, text_anchor="middle", font_size=13)
    for value in (-10, -5, 0, 5):
        place, _ = axes.at(value, 0)
        canvas.text((place, bottom + 20), f"{value:+d} %" if value else "0", PALE, text_anchor="middle", font_size=13)
    for row, (label, changes) in enumerate(_ZONES):
        found = judged(logs(*changes), n_max=4)
        height, colour = 60 + 44 * row, COLOURS[found.decision]
        low, mean, high = (percent(value or 0) for value in (found.lower, found.mean, found.upper))
        canvas.line((axes.at(low, 0)[0], height), (axes.at(high, 0)[0], height), colour, stroke_width=4)
        canvas.dot((axes.at(mean, 0)[0], height), colour, 6)
        canvas.text((142, height + 5), label, text_anchor="end")
        canvas.text((458, height + 5), found.decision, colour, font_weight="600")
    return canvas.svg(
        "PASS where the whole interval lies right of the margin, FAIL where it lies left, else INCONCLUSIVE"
    )


_RUNS: Final = (
    ("equal arms", (0.3, -0.4, 0.2, -0.3, 0.4, -0.2)),
    ("7 % slower", (-8.4, -6.0, -7.9, -6.6, -7.2, -6.9)),
    ("4.4 % slower", (-3.4, -4.6, -4.2, -5.2, -4.1, -4.9)),
)


def run_looks() -> str:
    """Three gates, look by look: each stops as soon as its interval is on one side, or nothing more will come of it."""
    canvas = Canvas(WIDTH, 340)
    for index, (title, changes) in enumerate(_RUNS):
        left = 56 + 184 * index
        axes = Axes(canvas, (left, 50, left + 160, 270), (0.4, 6.9), (-13, 5))
        ys = {-10: "-10 %", -5: "-5 %", 0: "0"} if not index else {-10: "", -5: "", 0: ""}
        axes.frame(title, xs={2: "2 rounds", 4: "4", 6: "6"}, ys=ys)
        axes.margin(-5)
        for rounds in (2, 4, 6):
            found = judged(logs(*changes)[:rounds])
            for place, change in enumerate(changes[:rounds]):
                canvas.dot(axes.at(place + 1, change), FAINT, 3)
            axes.interval(rounds + 0.4, found)
            if found.decision != "CONTINUE":
                canvas.text((left, 314), found.decision, COLOURS[found.decision], font_weight="600")
                canvas.text((left, 331), f"after {rounds} rounds", PALE, font_size=13)
                break
    return canvas.svg("Each gate measures until its interval lies on one side of the margin, or its rounds are used up")


def noise_floor() -> str:
    """What a noise floor is: how far boots of one arm lie apart when nothing has changed."""
    boots = (1003, 991, 1012, 998, 1007, 985)
    known = arm_noise([[math.log(value) for value in boots]])
    floor = 100 * floor_of(known.sigma)
    changes = [math.log(later / earlier) for earlier, later in itertools.pairwise(boots)]
    canvas = Canvas(WIDTH, 330)
    left = Axes(canvas, (56, 50, 290, 280), (0.6, 6.4), (960, 1040))
    levels = {value: str(value) for value in (960, 980, 1000, 1020, 1040)}
    left.frame("six boots of one arm, tokens/s", xs={n: str(n) for n in range(1, 7)}, ys=levels)
    canvas.curve([left.at(index + 1, value) for index, value in enumerate(boots)], FAINT)
    for index, value in enumerate(boots):
        canvas.dot(left.at(index + 1, value), INK)
    right = Axes(canvas, (360, 50, 580, 280), (0.6, 5.4), (-6, 6))
    names = {n: f"{n}-{n + 1}" for n in range(1, 6)}
    right.frame("from one boot to the next", xs=names, ys={-5: "-5 %", 0: "0", 5: "+5 %"})
    corner, end = right.at(0.6, floor), right.at(5.4, -floor)
    canvas.band(corner, (end[0] - corner[0], end[1] - corner[1]), BLUE)
    right.level(0, FAINT)
    for index, change in enumerate(changes):
        canvas.dot(right.at(index + 1, percent(change)), INK)
    canvas.text((corner[0] + 6, corner[1] - 8), f"floor ±{floor:.1f} %", BLUE, font_weight="600")
    return canvas.svg(
        f"Boots of one unchanged arm differ; 95 % of such differences lie within the floor of {floor:.1f} %"
    )


def published_rates(calibration: str = "nu_c = 10") -> tuple[tuple[float, float, float], ...]:
    """Return the published shares of PASS and FAIL, in percent, by distance from the margin in standard deviations."""
    table = json.loads(_PUBLISHED.read_text(encoding="utf-8"))["Table 1"]
    right = [(float(name.removeprefix("u = ")), row[calibration]) for name, row in table.items()]
    rows = [(u, passed, failed) for u, (passed, failed, _) in right]
    return tuple(sorted({*rows, *((-u, failed, passed) for u, passed, failed in rows if u)}))


def rules_compared() -> str:
    """How often three rules pass a candidate, by its true change; the margin is one noise floor."""
    canvas = Canvas(WIDTH, 400)
    axes = Axes(canvas, (60, 50, 580, 270), (-3, 1), (0, 100))
    places = {-3: "-3 margins", -2: "-2", -1: "-1", 0: "equal", 1: "+1"}
    axes.frame("share of runs that pass, by the true change", xs=places, ys={n: f"{n} %" for n in (0, 25, 50, 75, 100)})
    canvas.line(axes.at(-1, 0), axes.at(-1, 100), RED, **DASHED)
    canvas.text((axes.at(-1, 0)[0] + 6, 264), "the margin", RED, font_size=13)
    grid = [-3 + index / 20 for index in range(81)]
    normal = statistics.NormalDist()
    rules: tuple[tuple[str, str, Callable[[float], float]], ...] = (
        ("best of three single runs", RED, lambda u: 1 - (1 - normal.cdf(u)) ** 3),
        ("one run against the limit", AMBER, normal.cdf),
    )
    for _, colour, rule in rules:
        canvas.curve([axes.at(e, 100 * rule(2 * (1 + e))) for e in grid], colour)
    own = [(u / 2 - 1, passed) for u, passed, _ in published_rates() if -4 <= u <= 4]
    canvas.curve([axes.at(*point) for point in own], GREEN)
    told = [(name, colour, 100 * rule(0)) for name, colour, rule in rules]
    told.append(("this gate", GREEN, next(passed for change, passed in own if change == -1)))
    for row, (name, colour, share) in enumerate(told):
        height = 326 + 24 * row
        canvas.line((60, height), (86, height), colour, stroke_width=3)
        canvas.text((94, height + 5), f"{name}: {share:.0f} % pass at the margin", colour)
    return canvas.svg(
        "A loss as large as the margin passes half of single runs, most best-of-three runs, and 3 % of gates"
    )


def error_rates() -> str:
    """What a gate says, by the true change, for three margins."""
    canvas = Canvas(WIDTH, 350)
    rates = published_rates()
    for index, (ratio, name) in enumerate(((1, "half a floor"), (2, "one floor"), (3, "1.5 floors"))):
        left = 56 + 184 * index
        axes = Axes(canvas, (left, 50, left + 160, 250), (-3, 1), (0, 100))
        shares = [(u / ratio - 1, passed, failed) for u, passed, failed in rates if -3 <= u / ratio - 1 <= 1]
        below, above = [axes.at(e, failed) for e, _, failed in shares], [axes.at(e, 100 - p) for e, p, _ in shares]
        canvas.area([*below, axes.at(1, 0), axes.at(-3, 0)], RED)
        canvas.area([*above, *reversed(below)], YELLOW)
        canvas.area([axes.at(-3, 100), *above, axes.at(1, 100)], GREEN)
        labels = {n: f"{n} %" for n in (0, 50, 100)} if not index else {}
        axes.frame(f"margin: {name}", xs={-2: "-2", -1: "-1", 0: "equal"}, ys=labels)
        canvas.line(axes.at(-1, 0), axes.at(-1, 100), "#ffffff", **DASHED)
    canvas.text((56, 296), "true change, in margins; dashed: a loss as large as the margin", PALE, font_size=13)
    for place, word, colour in ((56, "FAIL", RED), (136, "INCONCLUSIVE", YELLOW), (290, "PASS", GREEN)):
        canvas.band((place, 314), (16, 16), colour, 0.75)
        canvas.text((place + 24, 327), word)
    return canvas.svg("The wider the margin in noise floors, the fewer runs stay INCONCLUSIVE between PASS and FAIL")


DRAWINGS: Final[dict[str, Callable[[], str]]] = {
    "error-rates": error_rates,
    "gain-over-load": gain_over_load,
    "looks": run_looks,
    "noise-floor": noise_floor,
    "pairs": pairs,
    "rules-compared": rules_compared,
    "zones": zones,
}
"""The pictures by the names of their files."""

if __name__ == "__main__":
    for picture, draw in DRAWINGS.items():
        (PICTURES / f"{picture}.svg").write_text(draw(), encoding="utf-8")
