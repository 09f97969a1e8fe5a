"""The pictures. Colours and sizes are in `style.css`: the content security policy allows no style attributes."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tuning_registry.html.markup import Markup, element
from tuning_registry.model.records import Times
from tuning_registry.operations.reports.page.report import Candidate
from tuning_registry.rendering.html.text import letter, shade

# The scale of times: over the fastest candidate's median, logarithmic, the same for every entry.
TICKS: Final = (1.0, 1.25, 1.5, 2.0, 3.0)
_LEAST, _MOST = 0.85, 3.4
STRIP_WIDTH: Final = 260
STRIP_HEIGHT: Final = 18
_LANES: Final = 8  # dots of one candidate lie in so many lanes
_DOT: Final = 8  # pixels; a dot hides most of a shorter line
BAR_WIDTH: Final = 120
_ROW_HEIGHT: Final = 16
_HOST_LETTER: Final = 7  # pixels of a letter in a host's name, at most
_STEPS: Final = ((16, 22), (32, 16), (64, 10), (128, 6))  # up to so many columns, each is so many pixels wide


def place_of(ratio: float) -> int:
    """Where a time is on the scale, in pixels; times beyond its ends are on the edge."""
    inside = min(max(ratio, _LEAST), _MOST)
    return round(STRIP_WIDTH * math.log(inside / _LEAST) / math.log(_MOST / _LEAST))


def times_strip(one: Candidate, fastest_ms: float) -> Markup:
    """One dot per rank with its 20th to 80th percentile, or, for many ranks, their spread."""
    if one.spread_ms is None or fastest_ms <= 0:
        return Markup("")
    if not one.by_rank:
        least, p20, median, p80, most = (place_of(value / fastest_ms) for value in one.spread_ms)
        lines = element("path", class_="w", d=f"M{least} 9H{most}")
        box = element("path", class_="x", d=f"M{p20} 5h{max(p80 - p20, 1)}v8H{p20}z")
        return _strip(lines, box, element("path", class_="m", d=f"M{median} 3v12"))
    whiskers, dots = _dots(one.by_rank, fastest_ms)
    return _strip(element("path", class_="w", d=whiskers) if whiskers else None, element("path", class_="o", d=dots))


def _strip(*children: Markup | None) -> Markup:
    return element("svg", *children, class_="s")


def _dots(by_rank: Sequence[Times], fastest_ms: float) -> tuple[str, str]:
    whiskers: list[str] = []
    dots: list[tuple[int, int]] = []
    lanes = min(len(by_rank), _LANES)
    for number, (median, p20, p80) in enumerate(by_rank):
        y = 9 if lanes == 1 else 2 + round(14 * (number % _LANES) / (lanes - 1))
        left, right, middle = (place_of(value / fastest_ms) for value in (p20, p80, median))
        if right - left > _DOT:
            whiskers.append(f"M{left} {y}H{right}")
        dots.append((middle, y))
    return "".join(whiskers), "".join(_stacked(dots))


def _stacked(dots: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Paths of dots; those in neighbouring lanes at one place touch, and are one line."""
    for x, stack in itertools.groupby(dots, lambda dot: dot[0]):
        lanes = sorted({y for _, y in stack})
        yield f"M{x} {lanes[0]}v{lanes[-1] - lanes[0]}"


def axis_labels() -> Markup:
    """The labels of the scale of times, once per page; `axis` shows them."""
    labels = [element("text", f"{tick:g}×", x=place_of(tick), y=11) for tick in TICKS]  # noqa: RUF001
    return element("svg", element("g", labels, id="axis", class_="ax"), class_="s axis", aria_hidden="true")


def axis() -> Markup:
    """The scale of times."""
    return element(
        "svg", element("use", href="#axis"), class_="s axis", role="img", aria_label="Times the fastest config"
    )


def cost_bar(value: float | None, noise: float | None, most: float) -> Markup:
    """A slowdown as a bar over a band as wide as the noise: a bar that ends inside the band shows nothing."""
    if value is None:
        return Markup("")
    scale = BAR_WIDTH / most
    width = round(min(max(value, 0.0), most) * scale, 1) if math.isfinite(value) else BAR_WIDTH
    band = round(min(noise or 0.0, most) * scale, 1)
    is_real = value > (noise or 0.0)
    return element(
        "svg",
        element("rect", class_="n", width=f"{band:g}", height=14) if band else None,
        element("rect", class_="r" if is_real else "q", y=4, width=f"{max(width, 1):g}", height=6),
        class_="bar",
    )


def share_bar(counts: Mapping[int, int], width: int) -> Markup:
    """The votes of an entry as one bar, by choice."""
    total = sum(counts.values()) or 1
    parts: list[Markup] = []
    start = 0.0
    for place, count in sorted(counts.items()):
        part = width * count / total
        parts.append(
            element(
                "rect", class_=shade(place), x=f"{start:.4g}", width=f"{max(part - 1, 0.5):.4g}", height=_ROW_HEIGHT
            )
        )
        start += part
    return element("svg", *parts, class_="h", width=width, height=_ROW_HEIGHT)


class Grid:
    """The heat map's columns: a rank each, or the ranks of a host each.

    Args:
        groups: The columns of the report that share a column here.
    """

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        self.groups = groups
        self.step = next((size for most, size in _STEPS if len(groups) <= most), 4)
        self.width = self.step * len(groups)
        self.has_letters = self.step >= 16

    def row(self, chosen: bytes) -> Markup:
        """One entry: who chose what. A column of several ranks is split by their shares."""
        whole: dict[str, list[str]] = {}
        parts: dict[str, list[str]] = {}
        for (place, top, height), cells in itertools.groupby(self._cells(chosen), lambda cell: cell[1:]):
            numbers = [number for number, *_ in cells]
            if height == _ROW_HEIGHT:
                for first, count in _runs(numbers):
                    whole.setdefault(shade(place), []).append(f"M{first * self.step} 8h{count * self.step}")
            else:
                shapes = parts.setdefault(shade(place), [])
                shapes += [f"M{number * self.step + self.step // 2} {top}v{height}" for number in numbers]
        return element(
            "svg",
            [element("path", class_=name, d="".join(shapes)) for name, shapes in sorted(whole.items())],
            [
                element("path", class_=f"{name} t", stroke_width=self.step, d="".join(shapes))
                for name, shapes in sorted(parts.items())
            ],
            self._letters(chosen) if self.has_letters else None,
            class_=f"h g{self.step}",
            width=self.width,
            height=_ROW_HEIGHT,
            aria_hidden="true",
        )

    def _letters(self, chosen: bytes) -> Markup | None:
        cells = ((number, chosen[group[0]]) for number, group in enumerate(self.groups) if len(group) == 1)
        voted = [(number * self.step + self.step // 2, letter(place - 1)) for number, place in cells if place]
        if not voted:
            return None
        return element("text", "".join(text for _, text in voted), x=" ".join(str(x) for x, _ in voted), y=12)

    def _cells(self, chosen: bytes) -> Iterator[tuple[int, int, int, int]]:
        """Number of the column, place of the choice, top and height in pixels."""
        for number, group in enumerate(self.groups):
            counts = Counter(chosen[column] for column in group)
            total = len(group) - counts.pop(0, 0)
            seen = top = 0
            for place, count in sorted(counts.items()):
                seen += count
                below = round(_ROW_HEIGHT * seen / total)
                yield number, place - 1, top, below - top
                top = below

    def header(self, labels: Sequence[str], bands: Sequence[tuple[str, int, int]]) -> Markup:
        """Names above the columns.

        Args:
            labels: One per column; shown where there is room for letters.
            bands: Name, first column and number of columns of each host or run.
        """
        drawn: list[Markup] = []
        height = 16 if any(name for name, *_ in bands) else 0
        for number, (name, first, count) in enumerate(bands if height else ()):
            x, width = first * self.step, count * self.step - 1
            band = element("rect", class_=f"band{number % 2}", x=x, width=width, height=height - 1)
            drawn.append(element("g", element("title", name), band))
            if name and width >= _HOST_LETTER * len(name):
                drawn.append(element("text", name, class_="host", x=x + 3, y=11))
        if self.has_letters:
            drawn += [
                element("text", label, x=number * self.step + self.step // 2, y=height + 12)
                for number, label in enumerate(labels)
            ]
        return element("svg", drawn, class_="h head", width=self.width, height=height + 16, aria_hidden="true")


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First number and length of each run of consecutive numbers."""
    for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        yield members[0], len(members)


def legend(texts: Sequence[tuple[int, str]]) -> Markup:
    """What the colours and letters mean."""
    items = (
        element(
            "li",
            element("svg", element("rect", class_=shade(place), width=14, height=14), class_="key", aria_hidden="true"),
            element("b", letter(place)),
            " ",
            text,
        )
        for place, text in texts
    )
    return element("ul", items, class_="legend")
