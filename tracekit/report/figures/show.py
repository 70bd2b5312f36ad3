"""The figures for Python: of a trace or a report, all of it or a stretch; each shows itself in a notebook."""

from collections.abc import Callable

from tracekit.report.build import Report
from tracekit.report.figures import concurrency, overlap, partition, sheet, time_axis
from tracekit.report.figures import gantt as timeline
from tracekit.report.figures.selection import look
from tracekit.report.figures.sheet import Drawing
from tracekit.trace import Trace


def gantt(
    found: Trace | Report,
    *,
    phase: str | None = None,
    step: int | None = None,
    start: str | int | None = None,
    end: str | int | None = None,
    title: str | None = None,
    theme: str = "light",
    width: float = 12,
) -> Drawing:
    """The timeline: a lane for each device and stream, and one for the time that devices share.

    Shows all rounds of one `phase` (or annotation), one `step`, or from `start` to `end`: picoseconds, or text such as
    "1.5 s" or "300us", as on the axis of the whole figure. `title` is the finding unless given, `theme` is "light" or
    "dark", `width` is in inches. Raises TracekitError where the trace has no such phase, step or range. The figure is
    one of matplotlib; its `save(path)` writes .png, .svg or .pdf.
    """
    return _drawn(timeline.gantt, found, phase, step, start, end, title, theme, width)


def partition_bars(
    found: Trace | Report,
    *,
    phase: str | None = None,
    step: int | None = None,
    start: str | int | None = None,
    end: str | int | None = None,
    title: str | None = None,
    theme: str = "light",
    width: float = 12,
) -> Drawing:
    """A bar for each device, cut into the eight exact cells of its time; the options are those of `gantt`."""
    return _drawn(partition.partition, found, phase, step, start, end, title, theme, width)


def concurrency_over_time(
    found: Trace | Report,
    *,
    phase: str | None = None,
    step: int | None = None,
    start: str | int | None = None,
    end: str | int | None = None,
    title: str | None = None,
    theme: str = "light",
    width: float = 12,
) -> Drawing:
    """How many devices were busy over time, and for how long exactly so many; the options are those of `gantt`."""
    return _drawn(concurrency.concurrency, found, phase, step, start, end, title, theme, width)


def overlap_matrix(
    found: Trace | Report,
    *,
    phase: str | None = None,
    step: int | None = None,
    start: str | int | None = None,
    end: str | int | None = None,
    title: str | None = None,
    theme: str = "light",
    width: float = 12,
) -> Drawing:
    """How long each two devices were busy at the same time; the options are those of `gantt`, `width` is the most."""
    return _drawn(overlap.overlap, found, phase, step, start, end, title, theme, width)


def _drawn(
    draw: Callable[..., Drawing],
    found: Trace | Report,
    phase: str | None,
    step: int | None,
    start: str | int | None,
    end: str | int | None,
    title: str | None,
    theme: str,
    width: float,
) -> Drawing:
    start_ps = time_axis.parse(start, "start") if isinstance(start, str) else start
    end_ps = time_axis.parse(end, "end") if isinstance(end, str) else end
    view = look(found, phase=phase, step=step, start_ps=start_ps, end_ps=end_ps)
    return draw(view, title=title, theme=theme, width=sheet.pixels(width))
