"""Stacked bars: where the window of each device went, and for how long how many devices were busy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracekit.columns import records
from tracekit.report.html.markup import Markup, join, name, picoseconds, share, tag
from tracekit.report.html.tables import table
from tracekit.report.model import Report, Stretch
from tracekit.timeline.unions import CELLS
from tracekit.units import percent, time

# The eight cells in the order of a bar: what computes, with what hides behind it, then what is exposed, then nothing.
ORDER: Mapping[str, str] = {
    "compute": "only compute",
    "compute+collective": "collective behind compute",
    "compute+memory": "copy behind compute",
    "compute+collective+memory": "both behind compute",
    "collective": "exposed collective",
    "collective+memory": "exposed, both at once",
    "memory": "exposed copy",
    "idle": "idle",
}
assert set(ORDER) == set(CELLS)
# Up to so many bars are all drawn, of more so many; up to so many have their figures written below them.
_MOST, _SHOWN, _TOLD = 32, 12, 8


@dataclass(frozen=True)
class Segment:
    """A piece of a bar: how it is drawn (a class, and how dark from 0 to 1 where that counts), its name, its time."""

    look: str
    label: str
    time_ps: int
    dark: float | None = None


def bar(label: str, segments: Sequence[Segment], whole_ps: int, told: bool, more: Markup | None = None) -> Markup:
    """One bar, its widths true shares of `whole_ps`: no piece is made wider than it is.

    Every piece with its exact time is shown on hover and focus, and below the bar too where `told`, with `more` there.
    """
    there = [one for one in segments if one.time_ps]
    said = [f"{one.label} {percent(one.time_ps / whole_ps)}" for one in there]
    pieces = [
        tag(
            "i",
            tag("b", percent(one.time_ps / whole_ps)),
            class_=f"seg {one.look}",
            style=f"width:{100 * one.time_ps / whole_ps:.6g}%" + (f";--dark:{one.dark:.3f}" if one.dark else ""),
        )
        for one in there
    ]
    drawn = tag("span", *pieces, class_="bar", aria_hidden="true")
    aloud = f"{label}: {', '.join(said) or 'no window'}"
    focus = tag("span", drawn, _tip(label, there, whole_ps), class_="hold", tabindex=0, role="img", aria_label=aloud)
    below = tag("span", tag("span", ", ".join(said), aria_hidden="true") if told else None, more, class_="told")
    return tag("li", tag("span", name(label), class_="who"), focus, below if told or more else None)


def _tip(label: str, there: Sequence[Segment], whole_ps: int) -> Markup:
    """What hovering and focus show."""
    lines = [
        tag(
            "tr",
            tag("td", swatch(one)),
            tag("td", one.label),
            *(tag("td", cell, class_="n") for cell in _figures(one, whole_ps)),
        )
        for one in there
    ]
    return tag("span", tag("b", name(label)), tag("table", tag("tbody", *lines)), class_="tip", aria_hidden="true")


def _figures(one: Segment, whole_ps: int) -> list[str]:
    return [time(one.time_ps), percent(one.time_ps / whole_ps), f"{one.time_ps:,} ps"]


def swatch(one: Segment) -> Markup:
    """A little square with the look of a piece."""
    style = f"--dark:{one.dark:.3f}" if one.dark else None
    return tag("i", class_=f"seg swatch {one.look}", style=style, aria_hidden="true")


def legend(segments: Sequence[Segment], label: str) -> Markup:
    """What the looks mean."""
    return tag("ul", *(tag("li", swatch(one), " ", one.label) for one in segments), class_="legend", aria_label=label)


def bars(drawn: Sequence[Markup], label: str, telling: Sequence[int] = ()) -> Markup:
    """Bars one below the other; of very many those at the places `telling`, by default the first, and all folded."""
    if len(drawn) <= _MOST:
        return tag("ul", *drawn, class_="bars", aria_label=label)
    first = [drawn[at] for at in (telling or range(len(drawn)))][:_SHOWN]
    told = "" if not telling else f"The {len(first)} devices that idle most:"
    return join(
        [
            tag("p", told, class_="about") if told else None,
            tag("ul", *first, class_="bars", aria_label=f"{label}: {told or 'the first'}"),
            tag("details", tag("summary", f"All {len(drawn)}"), tag("ul", *drawn, class_="bars", aria_label=label)),
        ]
    )


def partitions(report: Report) -> Markup:
    """Where the time of each device went, in the whole trace and in each phase, with a table of the exact cells."""
    stretches = [report.whole, *report.inside.values()]
    found = {cell for one in stretches for cell in CELLS if (one.partition[cell] > 0).any()}
    key = legend([_segment(cell, 0) for cell in ORDER if cell in found], "What the colours mean")
    drawn = [
        bars(_devices(one, told=not at), f"Time of each device, {one.name}", _idlest(one))
        for at, one in enumerate(stretches)
    ]
    titles = [_title(one) for one in stretches]
    several = len(stretches) > 1
    apart = [tag("div", tag("h3", title), made) for title, made in zip(titles[1:], drawn[1:], strict=True)]
    exact = [tag("details", tag("summary", "Exact figures"), *(_exact(one) for one in stretches))]
    return join(
        [
            key,
            tag("h3", titles[0]) if several else None,
            drawn[0],
            tag("div", *apart, class_="apart") if several else None,
            *exact,
        ]
    )


def _title(one: Stretch) -> Markup:
    windows = sorted(set(one.partition["window_ps"]))
    length = " to ".join(time(each) for each in dict.fromkeys([*windows[:1], *windows[-1:]]))
    return join([name(one.name), tag("small", f" {length}")])


def _segment(cell: str, time_ps: int) -> Segment:
    return Segment(cell.replace("+", "-"), ORDER[cell], time_ps)


def _devices(one: Stretch, told: bool) -> list[Markup]:
    """The bars of all devices; where they are many, without their figures below."""
    told = told and len(one.partition) <= _TOLD
    return [
        bar(row["device"], [_segment(cell, row[cell]) for cell in ORDER], row["window_ps"], told)
        for row in records(one.partition)
    ]


def _idlest(one: Stretch) -> list[int]:
    """The places of the devices, those that idle most first."""
    ratio = one.partition["idle"] / one.partition["window_ps"].where(one.partition["window_ps"] > 0)
    return ratio.reset_index(drop=True).sort_values(ascending=False, kind="stable").index.tolist()


def _exact(one: Stretch) -> Markup:
    """The eight cells of every device in picoseconds."""
    rows = [
        [name(row["device"]), *(_ps(row[cell]) for cell in ("window_ps", "busy_ps", *ORDER))]
        for row in records(one.partition)
    ]
    head = ["device", "window", "busy", *ORDER.values()]
    title = f"{one.name}: picoseconds of each device; the eight cells add up to the window"
    return table(title, head, rows, shown=24)


def _ps(value: int) -> Markup:
    return tag("data", f"{value:,}", value=value)


def concurrency(report: Report) -> Markup:
    """For how long exactly k devices were busy, in the whole trace and in each phase; why not, where that is so."""
    stretches = [one for one in (report.whole, *report.inside.values()) if len(one.concurrency)]
    if not stretches:
        return tag("p", "Not told: the clocks of the hosts are not aligned.")
    most = int(stretches[0].concurrency["devices"].max())
    ends = sorted({0, 1, most // 2, most})
    key = legend([_busy(number, 0, most) for number in ends], "What the colours mean")
    rows, drawn = [], []
    for one in stretches:
        times = [(int(row["devices"]), int(row["time_ps"])) for row in records(one.concurrency)]
        window = sum(time_ps for _, time_ps in times)
        segments = [_busy(number, time_ps, most) for number, time_ps in times]
        average = one.parallelism
        more = None
        if average is not None:
            figure = tag("data", f"{average:.2f}", value=repr(average))
            more = join(["; " if most <= _TOLD else None, figure, " busy on average while any was"])
        drawn.append(bar(one.name, segments, window, told=most <= _TOLD, more=more))
        rows += [
            [name(one.name), str(number), picoseconds(time_ps), share(time_ps / window if window else None)]
            for number, time_ps in times
            if time_ps
        ]
    exact = table("For how long exactly so many devices were busy", ["in", "devices busy", "time", "share"], rows)
    return join([key, bars(drawn, "Devices busy at once"), tag("details", tag("summary", "Exact figures"), exact)])


def _busy(number: int, time_ps: int, most: int) -> Segment:
    """From the colour of idle for none to the darkest for all."""
    label = "none busy" if not number else "1 busy" if number == 1 else f"{number} busy"
    return Segment("idle" if not number else "busy", label, time_ps, number / most if number else None)
