"""The small pictures of the page: bars that add up, each two devices' time together, and the steps side by side."""

import base64
import struct
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.analysis.overlap import Breakdown
from tracekit.analysis.steps import PARTS
from tracekit.columns import records
from tracekit.report.html.markup import Markup, TimelineLinks, figure, join, name, none, prose, tag, wide
from tracekit.report.model import Report
from tracekit.report.section import instant
from tracekit.report.sections.overview import CELL_WORDS, SHARES
from tracekit.report.sections.steady import STEADY
from tracekit.units import mean, percent, time, whole_percent

# Up to so many bars are all drawn, of more so many; up to so many have their figures in words below them.
_MOST_BARS, _SOME_BARS, _IN_WORDS = 32, 12, 8
# Up to so many devices the matrix of pairs has cells to read, of more than so many in whole percents.
MOST_CELLS, _ROOMY = 32, 12
# Of more devices no two are shown together, and of more numbers of busy devices so many share a piece.
_MOST_PICTURED, _MOST_LEVELS = 512, 64
RATIOS = {"ratio_min": "of the shorter busy time", "ratio_union": "of the time when either was busy"}
# So many steps are drawn; fewer than so many are not.
_MOST_STEPS, _FEWEST_STEPS = 200, 5
# How the column of a step looks, and why.
_LOOKS = {"counts": "counts", "outlier": "outlier", "left-out": "left out", "left-out cut": "left out, cut off"}
# A part of a step as a bar draws it: look and name.
_PARTS = {
    "compute": ("compute", "compute"),
    "collective": ("collective", "exposed comm."),
    "memory": ("memory", "exposed copy"),
    "idle": ("idle", "idle"),
}
assert set(_PARTS) == set(PARTS)
_COLOURS = "What the colours mean"
STANDING = "Only the devices that stand for all are drawn; the table has the distribution over all of them."


@dataclass(frozen=True)
class Segment:
    """A piece of a bar: how it is drawn (a class, and how dark from 0 to 1 where that counts), its name, its time."""

    look: str
    label: str
    time_ps: int
    dark: float | None = None


def partitions(report: Report) -> Markup:
    """Where the time of each device went, in the whole trace and in each phase."""
    # Of the phases of an old report only the busy times are known.
    placed = [breakdown for breakdown in report.parts.values() if breakdown.partition["window_ps"].notna().all()]
    breakdowns = [report.whole, *placed]
    ran = {cell for breakdown in breakdowns for cell in CELL_WORDS if (breakdown.partition[cell] > 0).any()}
    key = _legend([_segment(cell, 0) for cell in CELL_WORDS if cell in ran])
    whole, *inside = [
        _bars(
            _devices(breakdown, not at, report.fleet.drawn if report.fleet else None),
            f"Time of each device, {breakdown.label}",
            _idlest(breakdown),
        )
        for at, breakdown in enumerate(breakdowns)
    ]
    if report.fleet:
        key = join([tag("p", prose(STANDING), class_="about"), key])
    if not inside:
        return join([key, whole])
    title, *titles = [tag("h3", _title(breakdown)) for breakdown in breakdowns]
    apart = [tag("div", *parts) for parts in zip(titles, inside, strict=True)]
    return join([key, title, whole, tag("div", *apart, class_="apart")])


def _title(breakdown: Breakdown) -> Markup:
    windows = sorted(set(breakdown.partition["window_ps"]))
    length = " to ".join(time(window) for window in dict.fromkeys([*windows[:1], *windows[-1:]]))
    return join([name(breakdown.label), tag("small", f" {length}")])


def _segment(cell: str, time_ps: int) -> Segment:
    return Segment(cell.replace("+", "-"), CELL_WORDS[cell], time_ps)


def _devices(breakdown: Breakdown, in_words: bool, only: Collection[str] | None) -> list[Markup]:
    """The bars of all devices, or `only` of some; where they are many, without their figures below, which are those of
    the table."""
    in_words = in_words and len(breakdown.partition) <= _IN_WORDS
    return [
        _bar(
            row["device"],
            [_segment(cell, row[cell]) for cell in CELL_WORDS],
            row["window_ps"],
            in_words=False,
            more=tag("span", _shares(row)) if in_words and row["window_ps"] else None,
        )
        for row in records(_those(breakdown.partition, only))
    ]


def _those(table: pd.DataFrame, only: Collection[str] | None) -> pd.DataFrame:
    """The rows of `only` some devices, or all."""
    return table if only is None else table[table["device"].isin(list(only))]


def _shares(row: dict[str, Any]) -> str:
    """A row of the partition in words: its busy time, and the shares of its window that are not nothing."""
    times = {words: sum(row[cell] for cell in cells) for words, cells in SHARES.items()}
    shares = [f"{words} {percent(time_ps, row['window_ps'])}" for words, time_ps in times.items() if time_ps]
    return f"busy {time(row['busy_ps'])}: {', '.join(shares)}"


def _idlest(breakdown: Breakdown) -> list[int]:
    """The places of the devices, those that idle most first."""
    table = breakdown.partition
    ratio = table["idle"] / table["window_ps"].where(table["window_ps"] > 0)
    return ratio.reset_index(drop=True).sort_values(ascending=False, kind="stable").index.tolist()


def concurrency(report: Report) -> Markup:
    """For how long exactly k devices were busy, in the whole trace and in each phase where that is known."""
    breakdowns = [breakdown for breakdown in (report.whole, *report.parts.values()) if len(breakdown.concurrency)]
    most = max(int(breakdown.concurrency["devices"].max()) for breakdown in breakdowns)
    key = _legend([_busy(number, 0, most) for number in sorted({0, 1, most // 2, most})])
    bars = []
    for breakdown in breakdowns:
        times = [(int(row["devices"]), int(row["time_ps"])) for row in records(breakdown.concurrency)]
        segments = _levels(times, most)
        more = None
        if breakdown.parallelism is not None:
            average = figure(mean(breakdown.parallelism), breakdown.parallelism)
            more = join(["; " if most <= _IN_WORDS else None, average, " busy on average while any was"])
        whole_ps = sum(time_ps for _, time_ps in times)
        bars.append(_bar(breakdown.label, segments, whole_ps, most <= _IN_WORDS, more))
    return join([key, _bars(bars, "Devices busy at once")])


def _levels(times: Sequence[tuple[int, int]], most: int) -> list[Segment]:
    """A piece for each number of busy devices (number, time), up to `most`; of very many for so many to so many."""
    width = -(-most // _MOST_LEVELS) if most > 2 * _MOST_LEVELS else 1
    sums: dict[int, int] = {}
    for number, time_ps in times:
        level = min(-(-number // width) * width, most)
        sums[level] = sums.get(level, 0) + time_ps
    return [_busy(level, time_ps, most, width) for level, time_ps in sums.items()]


def _busy(number: int, time_ps: int, most: int, width: int = 1) -> Segment:
    """From the colour of idle for none to the darkest for all; of several numbers, `width` of them, the last."""
    if not number:
        return Segment("idle", "none busy", time_ps)
    first = (number - 1) // width * width + 1
    return Segment("busy", f"{first} to {number} busy" if first < number else f"{number} busy", time_ps, number / most)


def matrices(report: Report) -> Markup:
    """A matrix of the pairs for the whole trace and one for each phase; nothing where there is one pair, or none."""
    if len(report.whole.pairs) < 2 or len(report.whole.partition) > _MOST_PICTURED:
        return Markup("")
    parts = [tag("div", *_both(report.whole), class_="pairs")]
    for breakdown in report.parts.values():
        inside = tag("div", *_both(breakdown), class_="pairs")
        parts.append(
            tag(
                "details",
                tag("summary", name(breakdown.label)),
                inside,
                open=breakdown.name in (*report.compared, STEADY),
            )
        )
    return join(parts)


def has_cells(report: Report) -> bool:
    """Whether the matrices have cells to read: of more devices they are pictures."""
    return 2 < len(report.whole.partition) <= MOST_CELLS


def _both(breakdown: Breakdown) -> list[Markup]:
    devices = list(breakdown.partition["device"])
    draw = _matrix if len(devices) <= MOST_CELLS else _picture
    return [draw(breakdown, ratio, devices) for ratio in RATIOS]


def _matrix(breakdown: Breakdown, ratio: str, devices: list[str]) -> Markup:
    values = _square(breakdown, ratio, devices)
    reasons = {
        frozenset((row["a"], row["b"])): row["reason"] for row in records(breakdown.pairs.dropna(subset=["reason"]))
    }
    head = tag("tr", tag("td"), *(tag("th", name(device), scope="col") for device in devices))
    dense = len(devices) > _ROOMY
    rows = [
        tag(
            "tr",
            tag("th", name(a), scope="row"),
            *(
                tag("td", class_="self") if i == j else _cell(values[i, j], reasons.get(frozenset((a, b)), ""), dense)
                for j, b in enumerate(devices)
            ),
        )
        for i, a in enumerate(devices)
    ]
    caption = f"Together, {RATIOS[ratio]} (%)"
    table = tag(
        "table",
        tag("caption", tag("span", caption)),
        tag("thead", head),
        tag("tbody", *rows),
        class_="matrix dense" if dense else "matrix",
    )
    return wide(table, f"{caption}, {breakdown.label}")


def _cell(ratio: float, reason: str, dense: bool) -> Markup:
    if np.isnan(ratio):
        return tag("td", none(reason), class_="unknown")
    exact = percent(ratio)
    words, title = (whole_percent(ratio), exact) if dense else (exact.removesuffix(" %"), None)
    return tag("td", figure(words, float(ratio), title), class_="heat", style=f"--dark:{ratio:.3f}")


def _square(breakdown: Breakdown, ratio: str, devices: list[str]) -> NDArray[np.float64]:
    """The ratios as a symmetric matrix, shape (n, n); NaN where there is none, and on the diagonal."""
    place = {device: at for at, device in enumerate(devices)}
    i, j = breakdown.pairs["a"].map(place).to_numpy(), breakdown.pairs["b"].map(place).to_numpy()
    values = np.full((len(devices), len(devices)), np.nan)
    values[i, j] = values[j, i] = breakdown.pairs[ratio].to_numpy(np.float64, na_value=np.nan)
    return values


def _picture(breakdown: Breakdown, ratio: str, devices: list[str]) -> Markup:
    """The matrix as a picture with one pixel a cell, in the page's own colours: its alpha is the ratio.

    Where a ratio is not known, the hatched ground shows.
    """
    values = _square(breakdown, ratio, devices)
    is_known = ~np.isnan(values)
    label = f"{len(devices)} by {len(devices)} devices: together, {RATIOS[ratio]}. The table has the extremes."
    layers = [
        tag("div", class_="known", style=_mask(is_known.astype(np.float64))),
        tag("div", class_="cells", style=_mask(np.where(is_known, values, 0))),
    ]
    ends = tag("span", name(devices[0]), tag("span", name(devices[-1])), class_="ends", aria_hidden="true")
    scale = "from none (paper) to all (full colour); hatched where it is not known"
    caption = tag("figcaption", f"Together, {RATIOS[ratio]}", tag("span", scale, class_="small"))
    ground = tag("div", *layers, class_="ground", role="img", aria_label=label)
    return tag("figure", caption, ends, ground, class_="grid")


def _mask(alpha: NDArray[np.float64]) -> str:
    url = f"url(data:image/png;base64,{base64.b64encode(_png(alpha)).decode()})"
    return f"-webkit-mask-image:{url};mask-image:{url}"


def _png(alpha: NDArray[np.float64]) -> bytes:
    """A grey PNG with `alpha` in 0..1, shape (n, n), as its opacity (https://www.w3.org/TR/png-3/)."""
    n = len(alpha)
    rows = np.zeros((n, 1 + 2 * n), np.uint8)
    rows[:, 2::2] = np.rint(255 * alpha)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", n, n, 8, 4, 0, 0, 0)
    packed = zlib.compress(rows.tobytes(), 6)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def typical(report: Report) -> Markup:
    """What the steps that count and are no outlier are made of, a bar for each device; nothing without their time."""
    steps = report.explanation.steps
    several = steps.summary["name"].nunique() > 1
    bars = [
        _bar(
            f"{row['device']} ({row['name']})" if several else row["device"],
            [Segment(look, label, int(row[f"{part}_ps"])) for part, (look, label) in _PARTS.items()],
            int(row["wall_ps"]),
            in_words=len(steps.typical) <= _IN_WORDS,
        )
        for row in records(_those(steps.typical, report.fleet.drawn if report.fleet else None))
        if row["wall_ps"]
    ]
    if not bars:
        return Markup("")
    ran = [_PARTS[part] for part in _PARTS if steps.typical[f"{part}_ps"].any()]
    key = _legend([Segment(look, label, 0) for look, label in ran])
    title = "Time of a typical step"
    some = tag("p", prose(STANDING), class_="about") if report.fleet else None
    return join([tag("h3", title), some, key, _bars(bars, f"{title}, by device")])


def walls(report: Report, links: TimelineLinks) -> Markup:
    """The walls of the first _MOST_STEPS side by side, in order; the table below has them for the keyboard.

    A step that does not count and is longer than all that do is cut off at their longest, and looks so.
    """
    steps = report.explanation.steps.table
    most = steps.loc[steps["left_out"].isna(), "wall_ps"].max()
    if len(steps) < _FEWEST_STEPS or pd.isna(most) or not most:
        return Markup("")
    columns, looks = [], []
    for row in records(steps.head(_MOST_STEPS)):
        look = "outlier" if row["outlier"] else "counts" if pd.isna(row["left_out"]) else "left-out"
        looks.append(f"{look} cut" if row["wall_ps"] > most else look)
        start, end, device = links.place(instant(row, clock=row["clock"]))
        number = "-" if pd.isna(row["step"]) else int(row["step"])
        title = f"step {number}: {time(row['wall_ps'])}"
        style = f"height:{min(100 * row['wall_ps'] / most, 100):.4g}%"
        place = {"data_from": start, "data_to": end, "data_device": device}
        columns.append(tag("i", class_=f"col {looks[-1]}", style=style, title=title, **place))
    first = f", the first {_MOST_STEPS} of {len(steps):,}" if len(steps) > _MOST_STEPS else ""
    key = [
        tag("li", tag("i", class_=f"col swatch {look}"), " ", words) for look, words in _LOOKS.items() if look in looks
    ]
    label = f"Wall of each step{first}, from 0 to {time(most)}; the table below has them"
    box = tag("div", *columns, class_="columns", role="img", aria_label=label)
    caption = tag("figcaption", f"Wall of each step{first}: the height of the box is {time(most)}")
    legend = tag("ul", *key, class_="legend", aria_label=_COLOURS) if len(key) > 1 else None
    return tag("figure", caption, box, legend, class_="walls")


def _bar(label: str, segments: Sequence[Segment], whole_ps: int, in_words: bool, more: Markup | None = None) -> Markup:
    """One bar, its widths true shares of `whole_ps`: no piece is made wider than it is.

    Every piece with its exact time is shown on hover and focus, and where there is room for it `in_words` below the bar
    too, with `more`.
    """
    visible = [(segment, percent(segment.time_ps, whole_ps)) for segment in segments if segment.time_ps]
    pieces = [
        tag(
            "i",
            tag("b", share),
            class_=f"seg {segment.look}",
            style=f"width:{100 * segment.time_ps / whole_ps:.6g}%"
            + (f";--dark:{segment.dark:.3f}" if segment.dark else ""),
        )
        for segment, share in visible
    ]
    rows = [
        tag(
            "tr",
            tag("td", _swatch(segment)),
            tag("td", segment.label),
            *(tag("td", words, class_="n") for words in (time(segment.time_ps), share, f"{segment.time_ps:,} ps")),
        )
        for segment, share in visible
    ]
    tip = tag("span", tag("b", name(label)), tag("table", tag("tbody", *rows)), class_="tip", aria_hidden="true")
    shares = ", ".join(f"{segment.label} {share}" for segment, share in visible)
    aloud = f"{label}: {shares or 'no window'}"
    box = tag("span", *pieces, class_="bar", aria_hidden="true")
    focus = tag("span", box, tip, class_="hold", tabindex=0, role="img", aria_label=aloud)
    below = [tag("span", shares, aria_hidden="true") if in_words else None, more]
    words = tag("span", *filter(None, below), class_="told") if in_words or more else None
    return tag("li", tag("span", name(label), class_="who"), focus, words)


def _swatch(segment: Segment) -> Markup:
    """A little square with the look of a piece."""
    style = f"--dark:{segment.dark:.3f}" if segment.dark else None
    return tag("i", class_=f"seg swatch {segment.look}", style=style, aria_hidden="true")


def _legend(segments: Sequence[Segment]) -> Markup:
    """What the looks mean."""
    items = (tag("li", _swatch(segment), " ", segment.label) for segment in segments)
    return tag("ul", *items, class_="legend", aria_label=_COLOURS)


def _bars(bars: Sequence[Markup], label: str, first: Sequence[int] = ()) -> Markup:
    """Bars one below the other; of very many those at the places `first`, by default the first, and all folded."""
    if len(bars) <= _MOST_BARS:
        return tag("ul", *bars, class_="bars", aria_label=label)
    some = [bars[at] for at in (first or range(len(bars)))][:_SOME_BARS]
    which = f"The {len(some)} devices that idle most:" if first else ""
    return join(
        [
            tag("p", which, class_="about") if which else None,
            tag("ul", *some, class_="bars", aria_label=f"{label}: {which or 'the first'}"),
            tag(
                "details",
                tag("summary", f"All {len(bars)}"),
                tag("ul", *bars, class_="bars", aria_label=label),
                class_="again",
            ),
        ]
    )
