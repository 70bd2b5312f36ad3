"""The house style: a page in whole pixels with a title, a legend, axes of time and notes, on a light or dark ground."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path as Outline
from matplotlib.ticker import FixedFormatter, FixedLocator
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.report.figures import labels
from tracekit.report.palette import THEMES

# In pixels: lanes have sharp edges, and a column of coverage is one pixel wide.
MARGIN, LEGEND_PX, AXIS_PX, NOTE_PX, GAP = 30, 48, 84, 24, 14
WIDE, NARROW, WIDEST = 1800, 750, 7200
TITLE, SUBTITLE, SMALL, TINY = 13.0, 9.5, 8.5, 5.0
_HEAD_PX, _SUB_PX = 38, 28
_SWATCH, _SWATCH_GAP, _ENTRY_GAP, _ENTRY_PX = (21, 18), 11, 32, 30
_CORNERS = np.array([Outline.MOVETO, *[Outline.LINETO] * 3, Outline.CLOSEPOLY], np.uint8)

# What a user's own matplotlibrc must not change.
STYLE: dict[Any, Any] = {
    "text.usetex": False,
    "font.family": labels.FONT,
    "path.effects": [],
    "axes.formatter.useoffset": False,
    "axes.formatter.use_locale": False,
    "savefig.bbox": None,
    "savefig.facecolor": "auto",
    "svg.fonttype": "none",
    "svg.hashsalt": "tracekit",
    "svg.image_inline": True,
    "pdf.fonttype": 42,
    "pdf.compression": 9,
    "pdf.use14corefonts": False,
}


class Drawing(Figure):
    """A matplotlib Figure that shows itself in a notebook, without pyplot, and writes itself in the house style."""

    def save(self, path: str | Path) -> None:
        """Write the figure as the suffix of `path` says: .png, .svg or .pdf; whole or not at all."""
        from tracekit.report.figures.drawing import save  # a renderer, which stands above the page

        save(self, Path(path))

    def _repr_png_(self) -> bytes:
        from tracekit.report.figures.drawing import encoded

        return encoded(self, "png")


@dataclass(frozen=True)
class Page:
    """A figure in pixels, counted from its top left corner; `top` is the first below the titles."""

    figure: Drawing
    width: int
    height: int
    top: int
    colours: Mapping[str, str]

    def text(self, x: float, y: float, words: str, size: float, **how: Any) -> None:
        """Write one line, its middle at `y`."""
        # No mathtext: a name may hold "$".
        style: dict[str, Any] = {"va": "center", "color": self.colours["ink"], "parse_math": False}
        self.figure.text(
            x / self.width, 1 - y / self.height, words, fontsize=size, fontfamily=labels.FONT, **(style | how)
        )

    def axes(self, box: tuple[int, int, int, int], xlim: tuple[float, float], ylim: tuple[float, float]) -> Axes:
        """Bare axes at `box` (left, top, width, height in px)."""
        left, top, width, height = box
        bottom = self.height - top - height
        axes = self.figure.add_axes((left / self.width, bottom / self.height, width / self.width, height / self.height))
        axes.set(xlim=xlim, ylim=ylim, xticks=[], yticks=[])
        axes.patch.set_visible(False)
        axes.spines[["left", "right", "top", "bottom"]].set_visible(False)
        return axes

    def rule(self, axes: Axes, ticks: Sequence[tuple[float, str]], words: str) -> None:
        """Draw the line below `axes`, its ticks (position, label) and what they are."""
        axes.spines["bottom"].set(visible=True, color=self.colours["grey"], linewidth=0.8)
        axes.xaxis.set_major_locator(FixedLocator([at for at, _ in ticks]))
        axes.xaxis.set_major_formatter(FixedFormatter([label for _, label in ticks]))
        axes.tick_params(
            axis="x", labelsize=SMALL, labelfontfamily=labels.FONT, color=self.colours["grey"],
            labelcolor=self.colours["ink"],
        )  # fmt: skip
        axes.set_xlabel(words, fontsize=SMALL, color=self.colours["grey"], family=labels.FONT, parse_math=False)


def page(title: str, subtitle: str, body_px: int, theme: str, width: int) -> Page:
    """A page `width` px wide with its titles and room for `body_px` below them."""
    colours = colours_of(theme)
    room = width - 2 * MARGIN
    heads = labels.wrap(
        title, room, lambda words: labels.measure(words, TITLE, bold=True), 3 if width > WIDE // 2 else 5
    )
    subs = labels.wrap(subtitle, room, lambda words: labels.measure(words, SUBTITLE), lines=2) if subtitle else []
    top = MARGIN + _HEAD_PX * len(heads) + _SUB_PX * len(subs) + GAP
    height = top + body_px
    # The canvas drops a fraction of a pixel, and inches * DPI may fall short of a whole one.
    while int(height / labels.DPI * labels.DPI) != height:
        height += 1
    while int(width / labels.DPI * labels.DPI) != width:
        width += 1
    figure = Drawing(figsize=(width / labels.DPI, height / labels.DPI), dpi=labels.DPI, facecolor=colours["paper"])
    FigureCanvasAgg(figure)
    made, y = Page(figure, width, height, top, colours), float(MARGIN + 8)
    for words in heads:
        made.text(MARGIN, y, words, TITLE, weight="bold")
        y += _HEAD_PX
    for words in subs:
        made.text(MARGIN, y, words, SUBTITLE, color=colours["grey"])
        y += _SUB_PX
    return made


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


def readable_on(colours: Mapping[str, str], ground: str) -> str:
    """Of ink and paper the one that stands out more from `ground`."""
    return max((colours["ink"], colours["paper"]), key=lambda one: _contrast(one, ground))


def _contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, 1 to 21 (https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio)."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    """How bright a colour is, in 0..1 (https://www.w3.org/TR/WCAG22/#dfn-relative-luminance)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def blank(title: str, subtitle: str, sentence: str, theme: str, width: int) -> Drawing:
    """A page that says in one sentence why there is nothing to draw."""
    title = "" if title.rstrip(".") == sentence.rstrip(".") else title
    lines = labels.wrap(sentence, width - 4 * MARGIN, lambda words: labels.measure(words, SUBTITLE), lines=4)
    made = page(title, subtitle, 212 + _SUB_PX * len(lines), theme, width)
    for number, words in enumerate(lines):
        y = made.top + 120 + _SUB_PX * number
        made.text(made.width / 2, y, words, SUBTITLE, ha="center", color=made.colours["grey"])
    return made.figure


def filled(patch: Patch, colour: str, **how: Any) -> Patch:
    """`patch` as ink that is exactly its area: no edge line, no snapping to pixels."""
    patch.set(facecolor=colour, edgecolor="none", linewidth=0, antialiased=True, snap=False, **how)
    return patch


# Which boxes of later parts a shape holds too: takes its own and theirs, returns (n,) bool.
Behind = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.bool_]]


def everything(mine: NDArray[np.float64], later: NDArray[np.float64]) -> NDArray[np.bool_]:
    """All: the parts fill one area together, whose edges are sharp."""
    return np.ones(len(later), bool)


def below(mine: NDArray[np.float64], later: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Those in a column of its own: the parts are stacks, the last one lowest."""
    return np.isin(later[:, 0] + 1j * later[:, 1], mine[:, 0] + 1j * mine[:, 1])


def between(mine: NDArray[np.float64], later: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Those that stand between two of its own without a gap."""
    return np.isin(later[:, 0], mine[:, 1]) & np.isin(later[:, 1], mine[:, 0])


def fill_all(axes: Axes, parts: Sequence[tuple[NDArray[np.float64], str]], behind: Behind) -> None:
    """Fill boxes, disjoint also between the parts, each part in its colour.

    Two shapes that meet inside a pixel would let the ground shine through there. So a shape also holds the boxes of the
    parts after it that `behind` picks; they are painted over it.
    """
    for number, (mine, colour) in enumerate(parts):
        if len(mine):
            later = np.concatenate([np.empty((0, 4)), *(boxes for boxes, _ in parts[number + 1 :])])
            fill(axes, _joined(np.concatenate([mine, later[behind(mine, later)]])), colour)


def _joined(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The boxes, of which those that stand on each other at one width become one."""
    boxes = boxes[np.lexsort((boxes[:, 2], boxes[:, 1], boxes[:, 0]))]
    stands = np.append((boxes[1:, :2] == boxes[:-1, :2]).all(axis=1) & (boxes[1:, 2] == boxes[:-1, 3]), False)
    first = ~np.append(False, stands[:-1])
    return np.column_stack([boxes[first, :3], boxes[~stands, 3]])


def fill(axes: Axes, boxes: NDArray[np.float64], colour: str, **how: Any) -> None:
    """Fill disjoint boxes (x0, x1, y0, y1), shape (n, 4), as one shape: within one, the shares of a pixel add up."""
    if len(boxes):
        x0, x1, y0, y1 = boxes.T
        corners = np.stack([x0, y0, x1, y0, x1, y1, x0, y1, x0, y0], axis=1).reshape(-1, 2)
        outline = Outline(corners, np.tile(_CORNERS, len(boxes)))
        axes.add_artist(filled(PathPatch(outline), colour, **{"zorder": 3, **how}))


# What stands in a legend: a label, and the colours of its square from the foot up.
Entry = tuple[str, Sequence[str]]


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


def legend(left: Sequence[Entry], right: Sequence[Entry], width: int) -> tuple[list[tuple[float, float, Entry]], int]:
    """Where the entries (x, y in px below the titles, entry) stand, and the height of the legend in px.

    Those of the right end the first row, if there is room, or begin one of their own.
    """
    room = width - 2 * MARGIN
    rows = _flow(left, room)
    long = sum(map(_entry_px, right)) + _ENTRY_GAP * (len(right) - 1)
    used = max((x + _entry_px(entry) for x, entry in rows[0]), default=0) if rows else 0
    if right and used + 2 * _ENTRY_GAP + long <= room:
        rows[:1] = [[*(rows[0] if rows else []), *((room - long + x, one) for x, one in _flow(right, room)[0])]]
    else:
        rows += _flow(right, room)
    placed = [(MARGIN + x, _ENTRY_PX * (number + 0.4), entry) for number, row in enumerate(rows) for x, entry in row]
    return placed, LEGEND_PX + _ENTRY_PX * (len(rows) - 1) if rows else 0


def draw_legend(made: Page, placed: Sequence[tuple[float, float, Entry]]) -> None:
    """Draw what `legend` has placed."""
    for x, y, (label, colours) in placed:
        width, height = _SWATCH
        for number, colour in enumerate(colours):
            foot = made.top + y + height / 2 - height * number / len(colours)
            box = Rectangle(
                (x / made.width, 1 - foot / made.height),
                width / made.width,
                height / len(colours) / made.height,
                transform=made.figure.transFigure,
            )
            made.figure.add_artist(filled(box, colour))
        made.text(x + width + _SWATCH_GAP, made.top + y, label, SMALL)


def notes(words: Sequence[str], width: int) -> list[str]:
    """The lines that the notes take at the foot of a page."""
    room = width - 2 * MARGIN
    return [line for note in words for line in labels.wrap(note, room, lambda x: labels.measure(x, SMALL - 1), lines=3)]


def draw_notes(made: Page, y: float, lines: Sequence[str]) -> None:
    """Write the lines, the first at `y`."""
    for number, line in enumerate(lines):
        made.text(MARGIN, y + NOTE_PX * number, line, SMALL - 1, color=made.colours["grey"])
