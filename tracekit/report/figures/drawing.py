"""A drawing and what it is made of: text in one font, pages of whole pixels with legends and notes, exact areas, files.

Files are PNG, SVG with text as text, and PDF with its fonts; whole or not at all, and the same each time.
"""

import os
import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import font_manager, rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path as Outline
from numpy.typing import NDArray

from tracekit import remote, units
from tracekit.errors import TracekitError
from tracekit.files import SOFTWARE, replaced
from tracekit.report.palette import THEMES

# Bundled with matplotlib, so that a figure looks the same on every machine.
FONT = "DejaVu Sans"
DPI = 150
FORMATS = ("png", "svg", "pdf")
# What a user's own matplotlibrc must not change.
STYLE: dict[Any, Any] = {
    "text.usetex": False,
    "font.family": FONT,
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
# No dates and no versions: the same figure gives the same bytes.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": SOFTWARE},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_LONG = re.compile(rb"(\d\.\d{3})\d+")
# A box as matplotlib writes it, corner by corner.
_BOX = re.compile(rb"M (\S+) (\S+) \nL (\S+) \2 \nL \3 (\S+) \nL \1 \4 \nz")
# Where the font is not installed, the one next to it in width.
_FONT = f"'{FONT}'".encode()
# About so many characters a lane has at most.
_MOST_LABEL = 24
# In pixels: lanes have sharp edges, and a column of coverage is one pixel wide.
MARGIN, LEGEND_PX, AXIS_PX, GAP, LINE_PX = 30, 48, 84, 14, 26
WIDE, WIDEST = 1800, 7200
# A column of a paper; what stands on a page must fit so many px at the least.
NARROWEST_INCHES, _LEAST_PX = 3.3, 480
# Below so many px titles are smaller, and margins too: a paper has its own.
_COLUMN_PX, _COLUMN_MARGIN = 1000, 20
TITLE, SUBTITLE, SMALL, TINY = 13.0, 9.5, 8.5, 5.0
# Font sizes of small text that may be asked for, and what it is in a column of a paper.
_SIZES, _COLUMN_SIZE, _COLUMN_INCHES = (4.0, 16.0), 7.0, 5.0
_DOTS = (50, 1200)
_NOTE = SMALL - 1
_HEAD_PX, _SUB_PX, _NOTE_PX = 38, 28, 24
_SWATCH, _SWATCH_GAP, _ENTRY_GAP, _ENTRY_PX = (21, 18), 11, 32, 30
_CORNERS = np.array([Outline.MOVETO, *[Outline.LINETO] * 3, Outline.CLOSEPOLY], np.uint8)
_THREAD = re.compile(r"(?:tf_)?(?P<base>.+?)/(?P<number>-?\d{6,})")


class Drawing(Figure):
    """A matplotlib Figure that shows itself in a notebook, without pyplot, and writes itself in the house style.

    `png_dpi` are the dots per inch of a PNG; without, a PNG has at least WIDE of them.
    """

    png_dpi: float | None = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the figure as the suffix of `path` says: .png, .svg or .pdf; whole or not at all."""
        with remote.written(remote.place(path)) as file:
            self._write(file)

    def _write(self, path: Path) -> None:
        kind = path.suffix.lower().lstrip(".")
        if kind not in FORMATS:
            suffixes = either([f".{suffix}" for suffix in FORMATS])
            raise TracekitError(f"A figure cannot be written as {path.name}: name a file that ends in {suffixes}.")
        data = self.encoded(kind, self.png_dpi)
        replaced(path, lambda draft: draft.write_bytes(data))

    def encoded(self, kind: str, dpi: float | None = None) -> bytes:
        """The bytes of the figure as "png", "svg" or "pdf"; a PNG with `dpi` dots per inch."""
        file = BytesIO()
        if kind != "png":
            dpi = DPI
        elif dpi is None:
            # A PNG of a narrow page is as fine as that of a wide one.
            dpi = DPI * max(WIDE // round(self.get_size_inches()[0] * DPI), 1)
        with rc_context(STYLE):
            self.savefig(file, format=kind, dpi=dpi, metadata=_METADATA[kind])
        return _smaller(file.getvalue()) if kind == "svg" else file.getvalue()

    def _repr_png_(self) -> bytes:
        return self.encoded("png")


def _smaller(svg: bytes) -> bytes:
    """The same picture to a thousandth of a point, with a font to fall back on."""
    head, *rest = re.split(rb"(?=<text)", svg)
    texts = [part.split(b"</text>", 1) for part in rest]
    # Only the drawing: a name may hold a number with many digits.
    shorter = [_style(text) + b"</text>" + _shorter(after[0]) if after else _shorter(text) for text, *after in texts]
    return b"".join([_shorter(head), *shorter])


def _shorter(paths: bytes) -> bytes:
    return _BOX.sub(rb"M\1 \2H\3V\4H\1z", _LONG.sub(rb"\1", paths))


def _style(text: bytes) -> bytes:
    start, end, words = text.partition(b">")
    return start.replace(_FONT, _FONT + b", Verdana, sans-serif") + end + words


@dataclass(frozen=True)
class Sheet:
    """What a figure is drawn on: its titles, "" for none, its colours, and its width in px.

    All px and font sizes are those of a page whose small text is SMALL; the finished page is `scale` times as large.
    """

    title: str
    subtitle: str
    colours: Mapping[str, str]
    width: int
    scale: float = 1.0

    @property
    def margin(self) -> int:
        """The px at the left and at the right."""
        return MARGIN if self.is_wide else _COLUMN_MARGIN

    @property
    def is_wide(self) -> bool:
        """Whether there is more room than in a column of a paper."""
        return self.width >= _COLUMN_PX

    @property
    def name_px(self) -> float:
        """The px that the name of a device may take."""
        return self.width / (5 if self.is_wide else 4)

    @property
    def room(self) -> int:
        """The px between the margins."""
        return self.width - 2 * self.margin

    def page(
        self, body_px: int, entries: Sequence["Entry"] = (), at_right: Sequence["Entry"] = (), notes: Sequence[str] = ()
    ) -> "Page":
        """The page with its titles and a legend of entries, `body_px` of room below them, and notes at its foot."""
        title = TITLE if self.is_wide else SUBTITLE + 1
        most_lines = 3 if self.width >= WIDE else 6
        head_px = round(_HEAD_PX * title / TITLE)
        heads = wrap(self.title, self.room, partial(measure, size=title, bold=True), most_lines) if self.title else []
        subs = wrap(self.subtitle, self.room, partial(measure, size=SUBTITLE), 2) if self.subtitle else []
        lines = [line for note in notes for line in wrap(note, self.room, partial(measure, size=_NOTE), 9)]
        key = legend(entries, at_right, self.room)
        key_top = self.margin + head_px * len(heads) + _SUB_PX * len(subs) + (GAP if heads or subs else 0)
        top = key_top + key.height
        width, height = _whole_px(self.width), _whole_px(top + body_px + _NOTE_PX * len(lines))
        size = (width / DPI * self.scale, height / DPI * self.scale)
        drawing = Drawing(figsize=size, dpi=DPI, facecolor=self.colours["paper"])
        FigureCanvasAgg(drawing)
        page = Page(drawing, width, height, top, self.colours, top + body_px, lines, self.scale, self.margin)
        y = self.margin + head_px / 2 - 5
        for text in heads:
            page.text(self.margin, y, text, title, weight="bold")
            y += head_px
        for text in subs:
            page.text(self.margin, y, text, SUBTITLE, color=self.colours["grey"])
            y += _SUB_PX
        key.draw(page, key_top)
        return page

    def blank(self, sentence: str) -> Drawing:
        """A page that says in one sentence why there is nothing to draw."""
        lines = wrap(sentence, self.room - 2 * MARGIN, partial(measure, size=SUBTITLE), 9)
        page = self.page(212 + _SUB_PX * len(lines))
        for number, text in enumerate(lines):
            y = page.top + 120 + _SUB_PX * number
            page.text(page.width / 2, y, text, SUBTITLE, ha="center", color=page.colours["grey"])
        return page.finish()


def _whole_px(px: int) -> int:
    # The canvas drops a fraction of a pixel, and inches * DPI may fall short of a whole one.
    while int(px / DPI * DPI) != px:
        px += 1
    return px


@dataclass(frozen=True)
class Page:
    """A drawing in pixels, counted from its top left corner.

    `top` is the first px below the titles and the legend, `foot` the first below the body, where the `notes` stand.
    """

    drawing: Drawing
    width: int
    height: int
    top: int
    colours: Mapping[str, str]
    foot: int
    notes: Sequence[str]
    scale: float
    margin: int

    def text(self, x: float, y: float, text: str, size: float, on: Axes | None = None, **options: Any) -> None:
        """Write one line, its middle at `y`: in px, or in the coordinates of the axes that it stands `on`."""
        # No mathtext: a name may hold "$".
        style: dict[str, Any] = {"va": "center", "color": self.colours["ink"], "parse_math": False, **options}
        size *= self.scale
        if on is None:
            self.drawing.text(x / self.width, 1 - y / self.height, text, fontsize=size, fontfamily=FONT, **style)
        else:
            on.text(x, y, text, fontsize=size, fontfamily=FONT, **style)

    def axes(self, box: tuple[int, int, int, int], xlim: tuple[float, float], ylim: tuple[float, float]) -> Axes:
        """Bare axes at `box` (x, y, width, height in px)."""
        x, y, width, height = box
        axes = self.drawing.add_axes(
            (x / self.width, (self.height - y - height) / self.height, width / self.width, height / self.height)
        )
        axes.set(xlim=xlim, ylim=ylim, xticks=[], yticks=[])
        axes.patch.set_visible(False)
        axes.spines[["left", "right", "top", "bottom"]].set_visible(False)
        return axes

    def rule(self, axes: Axes, ticks: Sequence[tuple[float, str]], label: str) -> None:
        """Draw the line below `axes`, its ticks (position, label) and what they are."""
        axes.spines["bottom"].set(visible=True, color=self.colours["grey"], linewidth=0.8 * self.scale)
        axes.set_xticks([position for position, _ in ticks], [tick for _, tick in ticks])
        axes.tick_params(
            axis="x", labelsize=SMALL * self.scale, labelfontfamily=FONT, color=self.colours["grey"],
            labelcolor=self.colours["ink"], length=3.5 * self.scale, width=0.8 * self.scale, pad=3.5 * self.scale,
        )  # fmt: skip
        # In the middle of the axis, unless it would leave the page.
        box, half = axes.get_position(), measure(label, SMALL) / 2
        middle = min(max((box.x0 + box.x1) / 2 * self.width, GAP + half), self.width - GAP - half)
        self._name(axes.xaxis, label, middle, (1 - box.y0) * self.height + AXIS_PX * 0.66)

    def name_levels(self, axes: Axes, label: str) -> None:
        """Say at the left margin what the y of `axes` is."""
        box = axes.get_position()
        self._name(axes.yaxis, label, self.margin + LINE_PX / 2, (1 - (box.y0 + box.y1) / 2) * self.height)

    def _name(self, axis: Axis, label: str, x: float, y: float) -> None:
        """Label `axis` around a point, in px."""
        style: dict[str, Any] = {"fontsize": SMALL * self.scale, "color": self.colours["grey"], "family": FONT}
        axis.set_label_text(label, parse_math=False, ha="center", va="center", **style)
        axis.set_label_coords(x / self.width, 1 - y / self.height, transform=self.drawing.transFigure)

    def finish(self) -> Drawing:
        """The drawing, with its notes: they come last also where a file is read aloud."""
        for number, line in enumerate(self.notes):
            self.text(self.margin, self.foot + _NOTE_PX * number, line, _NOTE, color=self.colours["grey"])
        return self.drawing


def paper(inches: float, font_size: float | None) -> tuple[int, float]:
    """The px and the scale of a page so many inches wide, whose small text has `font_size`, by default what fits.

    Raises TracekitError where no figure fits.
    """
    if not NARROWEST_INCHES <= inches <= WIDEST / DPI:
        raise TracekitError(
            f"A figure cannot be {inches:g} inches wide: give a width from {NARROWEST_INCHES:g} to {WIDEST // DPI}."
        )
    size = font_size if font_size is not None else SMALL if inches >= _COLUMN_INCHES else _COLUMN_SIZE
    low, high = _SIZES
    most = min(high, inches * DPI / _LEAST_PX * SMALL)
    if not low <= size <= most:
        raise TracekitError(
            f"Text of a figure {inches:g} inches wide cannot be {size:g} points: give a font size from {low:g} to "
            f"{int(most * 10) / 10:g}."
        )
    return round(inches * DPI * SMALL / size), size / SMALL


def dots(dpi: float) -> float:
    """`dpi`; raises TracekitError where no PNG has so many dots per inch."""
    low, high = _DOTS
    if not low <= dpi <= high:
        raise TracekitError(f"A PNG cannot have {dpi:g} dots per inch: give {low} to {high}.")
    return dpi


def colours_of(theme: str) -> Mapping[str, str]:
    """The palette of a theme; raises TracekitError for one that is not there."""
    if theme not in THEMES:
        raise TracekitError(f"There is no theme {theme!r}: say {' or '.join(THEMES)}.")
    return THEMES[theme]


def filled(patch: Patch, colour: str, **options: Any) -> Patch:
    """`patch` as ink that is exactly its area: no edge line, no snapping to pixels."""
    patch.set(facecolor=colour, edgecolor="none", linewidth=0, antialiased=True, snap=False, **options)
    return patch


# By key, boxes (x0, x1, y0, y1), shape (n, 4).
Boxes = dict[Hashable, NDArray[np.float64]]
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
            fill(axes, _merge(np.concatenate([own, later[behind(own, later)]])), colour)


def _merge(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
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


def stacks(shares: Mapping[Hashable, NDArray[np.float64]], edges: NDArray[np.int64]) -> Boxes:
    """Boxes for each key: in each pixel column the shares stand one on the other, the first key lowest."""
    stacked, bottom = {}, np.zeros(len(edges) - 1)
    for key in shares:
        top = bottom + shares[key]
        # Neighbours of one height become one box: a busy lane stays small in an SVG.
        ends = np.flatnonzero(np.append((np.diff(bottom) != 0) | (np.diff(top) != 0), True))
        starts = np.append(0, ends[:-1] + 1)
        rows = np.column_stack([edges[starts] - edges[0], edges[ends + 1] - edges[0], bottom[ends], top[ends]])
        stacked[key] = rows[rows[:, 3] > rows[:, 2]]
        bottom = top
    return stacked


# What stands in a legend: a label, and the colours of its square from the foot up.
Entry = tuple[str, Sequence[str]]


@dataclass(frozen=True)
class Legend:
    """Where entries stand (x, y in px from margin and titles, entry), and the height that they take in px."""

    entries: Sequence[tuple[float, float, Entry]]
    height: int

    def draw(self, page: Page, top: int) -> None:
        """Draw the entries below `top` of a page."""
        for x, y, (label, colours) in self.entries:
            width, height = _SWATCH
            for number, colour in enumerate(colours):
                foot = top + y + height / 2 - height * number / len(colours)
                box = Rectangle(
                    ((page.margin + x) / page.width, 1 - foot / page.height),
                    width / page.width,
                    height / len(colours) / page.height,
                    transform=page.drawing.transFigure,
                )
                page.drawing.add_artist(filled(box, colour))
            page.text(page.margin + x + width + _SWATCH_GAP, top + y, label, SMALL)


def legend(entries: Sequence[Entry], at_right: Sequence[Entry], room: int) -> Legend:
    """The entries in as many rows as fit `room` px.

    Those `at_right` end the first row, if there is room, or begin one of their own.
    """
    rows = _flow(entries, room)
    long = sum(map(_entry_px, at_right)) + _ENTRY_GAP * (len(at_right) - 1)
    used = max((x + _entry_px(entry) for x, entry in rows[0]), default=0) if rows else 0
    if at_right and used + 2 * _ENTRY_GAP + long <= room:
        rows[:1] = [[*(rows[0] if rows else []), *((room - long + x, entry) for x, entry in _flow(at_right, room)[0])]]
    else:
        rows += _flow(at_right, room)
    places = [(x, _ENTRY_PX * (number + 0.4), entry) for number, row in enumerate(rows) for x, entry in row]
    return Legend(places, LEGEND_PX + _ENTRY_PX * (len(rows) - 1) if rows else 0)


def _entry_px(entry: Entry) -> int:
    return _SWATCH[0] + _SWATCH_GAP + int(np.ceil(measure(entry[0], SMALL)))


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


def either(names: Collection[str]) -> str:
    """The names of a choice, as a sentence has them."""
    *others, last = names
    return f"{', '.join(others)} or {last}"


def plain(name: object) -> str:
    """`name` on one line, with a box for each character that the font lacks (matplotlib would warn about each)."""
    words = units.revealed(" ".join(str(name).split())).replace("\ufffd", "\u25a1")
    return "".join(char if ord(char) in _glyphs() and char.isprintable() else "\u25a1" for char in words)


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(font_manager.get_font(font_manager.findfont(FONT, fallback_to_default=False)).get_charmap())


def short_names(names: Sequence[str]) -> list[str]:
    """One label for each of the distinct `names`, unique and at most about _MOST_LABEL characters.

    A thread's number (`tf_XLAPjRtCpuClient/-321539782615735191`) shrinks to its last digits, and goes where the rest of
    the name is unique without it. Names that still agree are numbered.
    """
    parts = [_THREAD.fullmatch(plain(name)) for name in names]
    bases = [part["base"] if part else plain(name) for part, name in zip(parts, names, strict=True)]
    short: list[str] = []
    for part, base in zip(parts, bases, strict=True):
        tail = f" …{part['number'][-4:]}" if part and bases.count(base) > 1 else ""
        short.append(units.short(base, _MOST_LABEL - len(tail)) + tail)
    return [
        label if short.count(label) == 1 else f"{label} #{1 + short[:i].count(label)}" for i, label in enumerate(short)
    ]


def wrap(text: str, width: float, measure: Callable[[str], float], lines: int) -> list[str]:
    """`text` broken between words into at most `lines` lines no wider than `width`; the rest becomes an ellipsis.

    A number stays with its unit.
    """
    wrapped, words = [""], units.unbroken(plain(text)).split(" ")
    for i, word in enumerate(words):
        longer = f"{wrapped[-1]} {word}".lstrip()
        if measure(longer) <= width:
            wrapped[-1] = longer
        elif len(wrapped) < lines and wrapped[-1]:
            wrapped.append(cut(word, width, measure))
        else:
            wrapped[-1] = cut(" ".join([wrapped[-1], *words[i:]]).lstrip(), width, measure)
            break
    return [line.replace("\u00a0", " ") for line in wrapped]


def cut(text: str, width: float, measure: Callable[[str], float]) -> str:
    """`text`, or as much of its start as measures at most `width` with an ellipsis."""
    if measure(text) <= width:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(text[:middle].rstrip() + "…") <= width else (low, middle - 1)
    return text[:low].rstrip() + "…"


@lru_cache(4096)
def measure(text: str, size: float, bold: bool = False) -> float:
    """The width of one line of `text` in px at DPI; `$` and `_` are plain characters."""
    font = font_manager.FontProperties(family=FONT, size=size, weight="bold" if bold else "normal")
    renderer: Any = RendererAgg(1, 1, DPI)  # type: ignore[no-untyped-call]
    return float(renderer.get_text_width_height_descent(text, font, ismath=False)[0])


def bold_px(text: str, size: float = SMALL) -> float:
    """The width of a bold line in px: names of devices are written so."""
    return measure(text, size, bold=True)


def size_of(px: float) -> float:
    """The font size of a line `px` high, where that is between TINY and SMALL."""
    return max(min(SMALL, px / DPI * 72), TINY)


def spaced(marks: Sequence[tuple[float, str]], size: float) -> list[tuple[float, str]]:
    """As many of the (y, label), given from the top down, as stand apart at this font size; the last is one of them."""
    apart: list[tuple[float, str]] = []
    for y, label in marks:
        if not apart or apart[-1][0] - y >= size * DPI / 72:
            apart.append((y, label))
    return [*apart[:-1], *marks[-1:]]
