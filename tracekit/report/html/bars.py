"""Stacked bars: where the window of each device went, and for how long how many devices were busy."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracekit.columns import records
from tracekit.report.html.markup import Markup, join, name, tag
from tracekit.report.model import Report, Stretch
from tracekit.report.sections.overview import CELL_WORDS
from tracekit.units import mean, percent, time

# Up to so many bars are all drawn, of more so many; up to so many have their figures written below them.
_MOST, _SHOWN, _WRITTEN = 32, 12, 8


@dataclass(frozen=True)
class Segment:
    """A piece of a bar: how it is drawn (a class, and how dark from 0 to 1 where that counts), its name, its time."""

    look: str
    label: str
    time_ps: int
    dark: float | None = None


def bar(label: str, segments: Sequence[Segment], whole_ps: int, written: bool, more: Markup | None = None) -> Markup:
    """One bar, its widths true shares of `whole_ps`: no piece is made wider than it is.

    Every piece with its exact time is shown on hover and focus, and where they are `written` below the bar too, with
    `more`.
    """
    there = [segment for segment in segments if segment.time_ps]
    shares = [f"{segment.label} {percent(segment.time_ps, whole_ps)}" for segment in there]
    pieces = [
        tag(
            "i",
            tag("b", percent(segment.time_ps, whole_ps)),
            class_=f"seg {segment.look}",
            style=f"width:{100 * segment.time_ps / whole_ps:.6g}%"
            + (f";--dark:{segment.dark:.3f}" if segment.dark else ""),
        )
        for segment in there
    ]
    drawn = tag("span", *pieces, class_="bar", aria_hidden="true")
    aloud = f"{label}: {', '.join(shares) or 'no window'}"
    focus = tag("span", drawn, _tip(label, there, whole_ps), class_="hold", tabindex=0, role="img", aria_label=aloud)
    below = [tag("span", ", ".join(shares), aria_hidden="true")] if written else []
    below += [more] if more else []
    who = tag("span", name(label), class_="who")
    return tag("li", who, focus, tag("span", *below, class_="told") if below else None)


def _tip(label: str, there: Sequence[Segment], whole_ps: int) -> Markup:
    """What hovering and focus show."""
    lines = [
        tag(
            "tr",
            tag("td", swatch(segment)),
            tag("td", segment.label),
            *(tag("td", figure, class_="n") for figure in _figures(segment, whole_ps)),
        )
        for segment in there
    ]
    return tag("span", tag("b", name(label)), tag("table", tag("tbody", *lines)), class_="tip", aria_hidden="true")


def _figures(segment: Segment, whole_ps: int) -> list[str]:
    return [time(segment.time_ps), percent(segment.time_ps, whole_ps), f"{segment.time_ps:,} ps"]


def swatch(segment: Segment) -> Markup:
    """A little square with the look of a piece."""
    style = f"--dark:{segment.dark:.3f}" if segment.dark else None
    return tag("i", class_=f"seg swatch {segment.look}", style=style, aria_hidden="true")


def legend(segments: Sequence[Segment], label: str) -> Markup:
    """What the looks mean."""
    items = (tag("li", swatch(segment), " ", segment.label) for segment in segments)
    return tag("ul", *items, class_="legend", aria_label=label)


def bars(drawn: Sequence[Markup], label: str, first: Sequence[int] = ()) -> Markup:
    """Bars one below the other; of very many those at the places `first`, by default the first, and all folded."""
    if len(drawn) <= _MOST:
        return tag("ul", *drawn, class_="bars", aria_label=label)
    shown = [drawn[at] for at in (first or range(len(drawn)))][:_SHOWN]
    which = f"The {len(shown)} devices that idle most:" if first else ""
    return join(
        [
            tag("p", which, class_="about") if which else None,
            tag("ul", *shown, class_="bars", aria_label=f"{label}: {which or 'the first'}"),
            tag("details", tag("summary", f"All {len(drawn)}"), tag("ul", *drawn, class_="bars", aria_label=label)),
        ]
    )


def partitions(report: Report) -> Markup:
    """Where the time of each device went, in the whole trace and in each phase."""
    stretches = [report.whole, *report.inside.values()]
    ran = {cell for stretch in stretches for cell in CELL_WORDS if (stretch.partition[cell] > 0).any()}
    key = legend([_segment(cell, 0) for cell in CELL_WORDS if cell in ran], "What the colours mean")
    drawn = [
        bars(_devices(stretch, written=not at), f"Time of each device, {stretch.name}", _idlest(stretch))
        for at, stretch in enumerate(stretches)
    ]
    titles = [tag("h3", _title(stretch)) for stretch in stretches]
    several = len(stretches) > 1
    apart = [tag("div", title, made) for title, made in zip(titles[1:], drawn[1:], strict=True)]
    return join(
        [key, titles[0] if several else None, drawn[0], tag("div", *apart, class_="apart") if several else None]
    )


def _title(stretch: Stretch) -> Markup:
    windows = sorted(set(stretch.partition["window_ps"]))
    length = " to ".join(time(window) for window in dict.fromkeys([*windows[:1], *windows[-1:]]))
    return join([name(stretch.name), tag("small", f" {length}")])


def _segment(cell: str, time_ps: int) -> Segment:
    return Segment(cell.replace("+", "-"), CELL_WORDS[cell], time_ps)


def _devices(stretch: Stretch, written: bool) -> list[Markup]:
    """The bars of all devices; where they are many, without their figures below."""
    written = written and len(stretch.partition) <= _WRITTEN
    return [
        bar(row["device"], [_segment(cell, row[cell]) for cell in CELL_WORDS], row["window_ps"], written)
        for row in records(stretch.partition)
    ]


def _idlest(stretch: Stretch) -> list[int]:
    """The places of the devices, those that idle most first."""
    table = stretch.partition
    ratio = table["idle"] / table["window_ps"].where(table["window_ps"] > 0)
    return ratio.reset_index(drop=True).sort_values(ascending=False, kind="stable").index.tolist()


def concurrency(report: Report) -> Markup:
    """For how long exactly k devices were busy, in the whole trace and in each phase where that is known."""
    stretches = [stretch for stretch in (report.whole, *report.inside.values()) if len(stretch.concurrency)]
    most = max(int(stretch.concurrency["devices"].max()) for stretch in stretches)
    key = legend([_busy(number, 0, most) for number in sorted({0, 1, most // 2, most})], "What the colours mean")
    drawn = []
    for stretch in stretches:
        times = [(int(row["devices"]), int(row["time_ps"])) for row in records(stretch.concurrency)]
        segments = [_busy(number, time_ps, most) for number, time_ps in times]
        more = None
        if stretch.parallelism is not None:
            figure = tag("data", mean(stretch.parallelism), value=repr(stretch.parallelism))
            more = join(["; " if most <= _WRITTEN else None, figure, " busy on average while any was"])
        whole_ps = sum(time_ps for _, time_ps in times)
        drawn.append(bar(stretch.name, segments, whole_ps, written=most <= _WRITTEN, more=more))
    return join([key, bars(drawn, "Devices busy at once")])


def _busy(number: int, time_ps: int, most: int) -> Segment:
    """From the colour of idle for none to the darkest for all."""
    label = "none busy" if not number else f"{number} busy"
    return Segment("idle" if not number else "busy", label, time_ps, number / most if number else None)
