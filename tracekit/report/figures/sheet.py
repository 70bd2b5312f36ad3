"""The sheet that figures stand on: whole pixels, a title, a legend, axes and notes, on a light or dark ground."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path as Outline
from matplotlib.ticker import FixedFormatter, FixedLocator
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.report.figures import labels
from tracekit.report.figures.drawing import Drawing
from tracekit.report.palette import THEMES

# In pixels: lanes have sharp edges, and a column of coverage is one pixel wide.
MARGIN, LEGEND_PX, AXIS_PX, NOTE_PX, GAP = 30, 48, 84, 24, 14
WIDE, NARROW, WIDEST = 1800, 750, 7200
TITLE, SUBTITLE, SMALL, TINY = 13.0, 9.5, 8.5, 5.0
_HEAD_PX, _SUB_PX = 38, 28
_SWATCH, _SWATCH_GAP, _ENTRY_GAP, _ENTRY_PX = (21, 18), 11, 32, 30
_CORNERS = np.array([Outline.MOVETO, *[Outline.LINETO] * 3, Outline.CLOSEPOLY], np.uint8)


@dataclass(frozen=True)
class Sheet:
    """What a figure is drawn on: its titles, its colours, and its width in px."""

    title: str
    subtitle: str
    colours: Mapping[str, str]
    width: int

    @property
    def room(self) -> int:
        """The px between the margins."""
        return self.width - 2 * MARGIN

    def page(self, body_px: int) -> "Page":
        """The page with its titles and room for `body_px` below them."""
        width = self.width
        lines = 3 if width > WIDE // 2 else 5
        heads = labels.wrap(self.title, self.room, lambda text: labels.measure(text, TITLE, bold=True), lines)
        subs = []
        if self.subtitle:
            subs = labels.wrap(self.subtitle, self.room, lambda text: labels.measure(text, SUBTITLE), lines=2)
        top = MARGIN + _HEAD_PX * len(heads) + _SUB_PX * len(subs) + GAP
        height = top + body_px
        # The canvas drops a fraction of a pixel, and inches * DPI may fall short of a whole one.
        while int(height / labels.DPI * labels.DPI) != height:
            height += 1
        while int(width / labels.DPI * labels.DPI) != width:
            width += 1
        size = (width / labels.DPI, height / labels.DPI)
        drawing = Drawing(figsize=size, dpi=labels.DPI, facecolor=self.colours["paper"])
        FigureCanvasAgg(drawing)
        page, y = Page(drawing, width, height, top, self.colours), float(MARGIN + 8)
        for text in heads:
            page.text(MARGIN, y, text, TITLE, weight="bold")
            y += _HEAD_PX
        for text in subs:
            page.text(MARGIN, y, text, SUBTITLE, color=self.colours["grey"])
            y += _SUB_PX
        return page

    def blank(self, sentence: str) -> Drawing:
        """A page that says in one sentence why there is nothing to draw."""
        lines = labels.wrap(sentence, self.room - 2 * MARGIN, lambda text: labels.measure(text, SUBTITLE), lines=4)
        title = "" if self.title.rstrip(".") == sentence.rstrip(".") else self.title
        page = Sheet(title, self.subtitle, self.colours, self.width).page(212 + _SUB_PX * len(lines))
        for number, text in enumerate(lines):
            y = page.top + 120 + _SUB_PX * number
            page.text(page.width / 2, y, text, SUBTITLE, ha="center", color=page.colours["grey"])
        return page.drawing


@dataclass(frozen=True)
class Page:
    """A drawing in pixels, counted from its top left corner; `top` is the first below the titles."""

    drawing: Drawing
    width: int
    height: int
    top: int
    colours: Mapping[str, str]

    def text(self, x: float, y: float, text: str, size: float, **options: Any) -> None:
        """Write one line, its middle at `y`."""
        # No mathtext: a name may hold "$".
        style: dict[str, Any] = {"va": "center", "color": self.colours["ink"], "parse_math": False}
        self.drawing.text(
            x / self.width, 1 - y / self.height, text, fontsize=size, fontfamily=labels.FONT, **(style | options)
        )

    def axes(self, box: tuple[int, int, int, int], xlim: tuple[float, float], ylim: tuple[float, float]) -> Axes:
        """Bare axes at `box` (left, top, width, height in px)."""
        left, top, width, height = box
        bottom = self.height - top - height
        axes = self.drawing.add_axes(
            (left / self.width, bottom / self.height, width / self.width, height / self.height)
        )
        axes.set(xlim=xlim, ylim=ylim, xticks=[], yticks=[])
        axes.patch.set_visible(False)
        axes.spines[["left", "right", "top", "bottom"]].set_visible(False)
        return axes

    def rule(self, axes: Axes, ticks: Sequence[tuple[float, str]], label: str) -> None:
        """Draw the line below `axes`, its ticks (position, label) and what they are."""
        axes.spines["bottom"].set(visible=True, color=self.colours["grey"], linewidth=0.8)
        axes.xaxis.set_major_locator(FixedLocator([position for position, _ in ticks]))
        axes.xaxis.set_major_formatter(FixedFormatter([tick for _, tick in ticks]))
        axes.tick_params(
            axis="x", labelsize=SMALL, labelfontfamily=labels.FONT, color=self.colours["grey"],
            labelcolor=self.colours["ink"],
        )  # fmt: skip
        axes.set_xlabel(label, fontsize=SMALL, color=self.colours["grey"], family=labels.FONT, parse_math=False)


def pixels(inches: float) -> int:
    """A width in inches as whole pixels; raises TracekitError where no figure fits."""
    if not NARROW / labels.DPI <= inches <= WIDEST / labels.DPI:
        raise TracekitError(
            f"A figure cannot be {inches:g} inches wide: give a width from {NARROW // labels.DPI} to "
            f"{WIDEST // labels.DPI}."
        )
    return round(inches * labels.DPI)


def colours_of(theme: str) -> Mapping[str, str]:
    """The palette of a theme; raises TracekitError for one that is not there."""
    if theme not in THEMES:
        raise TracekitError(f"There is no theme {theme!r}: say {' or '.join(THEMES)}.")
    return THEMES[theme]


def filled(patch: Patch, colour: str, **options: Any) -> Patch:
    """`patch` as ink that is exactly its area: no edge line, no snapping to pixels."""
    patch.set(facecolor=colour, edgecolor="none", linewidth=0, antialiased=True, snap=False, **options)
    return patch


# Which boxes of later parts a shape holds too: takes its own and theirs, returns (n,) bool.
Behind = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.bool_]]


def everything(own: NDArray[np.float64], later: NDArray[np.float64]) -> NDArray[np.bool_]:
    """All: the parts fill one area together, whose edges are sharp."""
    return np.ones(len(later), bool)


def below(own: NDArray[np.float64], later: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Those in a column of its own: the parts are stacks, the last one lowest."""
    return np.isin(later[:, 0] + 1j * later[:, 1], own[:, 0] + 1j * own[:, 1])


def between(own: NDArray[np.float64], later: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Those that stand between two of its own without a gap."""
    return np.isin(later[:, 0], own[:, 1]) & np.isin(later[:, 1], own[:, 0])


def fill_all(axes: Axes, parts: Sequence[tuple[NDArray[np.float64], str]], behind: Behind) -> None:
    """Fill boxes, disjoint also between the parts, each part in its colour.

    Two shapes that meet inside a pixel would let the ground shine through there. So a shape also holds the boxes of the
    parts after it that `behind` picks; they are painted over it.
    """
    for number, (own, colour) in enumerate(parts):
        if len(own):
            later = np.concatenate([np.empty((0, 4)), *(boxes for boxes, _ in parts[number + 1 :])])
            fill(axes, _joined(np.concatenate([own, later[behind(own, later)]])), colour)


def _joined(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The boxes, of which those that stand on each other at one width become one."""
    boxes = boxes[np.lexsort((boxes[:, 2], boxes[:, 1], boxes[:, 0]))]
    stands = np.append((boxes[1:, :2] == boxes[:-1, :2]).all(axis=1) & (boxes[1:, 2] == boxes[:-1, 3]), False)
    first = ~np.append(False, stands[:-1])
    return np.column_stack([boxes[first, :3], boxes[~stands, 3]])


def fill(axes: Axes, boxes: NDArray[np.float64], colour: str, **options: Any) -> None:
    """Fill disjoint boxes (x0, x1, y0, y1), shape (n, 4), as one shape: within one, the shares of a pixel add up."""
    if len(boxes):
        x0, x1, y0, y1 = boxes.T
        corners = np.stack([x0, y0, x1, y0, x1, y1, x0, y1, x0, y0], axis=1).reshape(-1, 2)
        outline = Outline(corners, np.tile(_CORNERS, len(boxes)))
        axes.add_artist(filled(PathPatch(outline), colour, **{"zorder": 3, **options}))


# What stands in a legend: a label, and the colours of its square from the foot up.
Entry = tuple[str, Sequence[str]]


@dataclass(frozen=True)
class Legend:
    """Where entries stand (x, y in px below the titles, entry), and the height that they take in px."""

    entries: Sequence[tuple[float, float, Entry]]
    height: int

    def draw(self, page: Page) -> None:
        """Draw the entries below the titles of a page."""
        for x, y, (label, colours) in self.entries:
            width, height = _SWATCH
            for number, colour in enumerate(colours):
                foot = page.top + y + height / 2 - height * number / len(colours)
                box = Rectangle(
                    (x / page.width, 1 - foot / page.height),
                    width / page.width,
                    height / len(colours) / page.height,
                    transform=page.drawing.transFigure,
                )
                page.drawing.add_artist(filled(box, colour))
            page.text(x + width + _SWATCH_GAP, page.top + y, label, SMALL)


def legend(left: Sequence[Entry], right: Sequence[Entry], room: int) -> Legend:
    """The entries in as many rows as fit `room` px.

    Those of the right end the first row, if there is room, or begin one of their own.
    """
    rows = _flow(left, room)
    long = sum(map(_entry_px, right)) + _ENTRY_GAP * (len(right) - 1)
    used = max((x + _entry_px(entry) for x, entry in rows[0]), default=0) if rows else 0
    if right and used + 2 * _ENTRY_GAP + long <= room:
        rows[:1] = [[*(rows[0] if rows else []), *((room - long + x, entry) for x, entry in _flow(right, room)[0])]]
    else:
        rows += _flow(right, room)
    entries = [(MARGIN + x, _ENTRY_PX * (number + 0.4), entry) for number, row in enumerate(rows) for x, entry in row]
    return Legend(entries, LEGEND_PX + _ENTRY_PX * (len(rows) - 1) if rows else 0)


def _entry_px(entry: Entry) -> int:
    return _SWATCH[0] + _SWATCH_GAP + int(np.ceil(labels.measure(entry[0], SMALL)))


def _flow(entries: Sequence[Entry], room: float) -> list[list[tuple[float, Entry]]]:
    """The entries from the left, in as many rows as they need."""
    rows: list[list[tuple[float, Entry]]] = []
    x = room
    for entry in entries:
        width = _entry_px(entry)
        if not rows or x + width > room:
            rows.append([])
            x = 0
        rows[-1].append((x, entry))
        x += width + _ENTRY_GAP
    return rows


def note_lines(notes: Sequence[str], room: int) -> list[str]:
    """The lines that notes take at the foot of a page."""

    def measure(text: str) -> float:
        return labels.measure(text, SMALL - 1)

    return [line for note in notes for line in labels.wrap(note, room, measure, lines=3)]


def draw_notes(page: Page, y: float, lines: Sequence[str]) -> None:
    """Write the lines, the first at `y`."""
    for number, line in enumerate(lines):
        page.text(MARGIN, y + NOTE_PX * number, line, SMALL - 1, color=page.colours["grey"])
