"""The figures: each of a trace, all of it or a part; each shows and writes itself."""

import os
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from matplotlib import rc_context

from tracekit import remote
from tracekit.console import progress
from tracekit.devices import FEW
from tracekit.errors import TracekitError
from tracekit.files import file_part, refuse_inside, refuse_saved_report, refuse_unwritable, trace_name
from tracekit.report.figures import concurrency_area, fleet_map, gantt, overlap_matrix, partition_bars, phase_lanes
from tracekit.report.figures.drawing import FORMATS, STYLE, Drawing, Sheet, colours_of, dots, either, paper
from tracekit.report.figures.selection import Selection, select
from tracekit.report.part import one_part, picoseconds
from tracekit.timeline.timeline import Source, timeline_of


class Picture(NamedTuple):
    """What a figure shows, as all faces call it; its title unless one is given; and how it is drawn."""

    caption: Callable[[Selection], str]
    title: Callable[[Selection], str]
    draw: Callable[[Selection, Sheet], Drawing]


FIGURES = {
    "gantt": Picture(gantt.caption, gantt.title, gantt.draw),
    "partition": Picture(partition_bars.caption, partition_bars.title, partition_bars.draw),
    "concurrency": Picture(concurrency_area.caption, concurrency_area.title, concurrency_area.draw),
    "overlap": Picture(overlap_matrix.caption, overlap_matrix.title, overlap_matrix.draw),
    "phases": Picture(phase_lanes.caption, phase_lanes.title, phase_lanes.draw),
    "fleet": Picture(fleet_map.caption, fleet_map.title, fleet_map.draw),
}


def figure(
    source: Source,
    what: str = "gantt",
    *,
    phase: str | None = None,
    step: int | None = None,
    start: str | int | None = None,
    end: str | int | None = None,
    devices: Sequence[str] = (),
    threads: bool = False,
    title: str | None = None,
    theme: str = "light",
    width: float = 12,
    font_size: float | None = None,
    dpi: float = 300,
    run: str | None = None,
    kinds: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
) -> Drawing:
    """Draw a figure of a trace: a matplotlib Figure, which a notebook shows; `save(path)` writes .png, .svg or .pdf.

    `what` is "gantt": a lane for each stream or CPU device (with `threads` for each thread of one), and one for the
    time that devices share; "partition": a bar for each device, cut into the eight exact cells of its time;
    "concurrency": how many devices were busy over time, and for how long exactly so many; "overlap": how long each two
    devices were busy at the same time; "phases": the phases under each other on one scale of time, each in its round of
    median length; or "fleet": step time, compute, exposed communication and idle time of each rank in each step.

    Shows all rounds of one `phase` (or annotation), one `step`, or from `start` to `end`: picoseconds, or text such as
    "1.5 s" or "300us", as on the axis of the whole figure; and of those only what ran on `devices`. `title` is the
    finding unless given, and "" leaves out all above the figure. `theme` is "light" or "dark". `width` is in inches
    ("overlap" may be narrower), from 3.3, a column of a paper. `font_size` is that of small text in points, `dpi` the
    dots per inch of a PNG. `source` is a trace in any form; of a path, `run`, `kinds` and `executor` are as for
    `tracekit.read`. Raises TracekitError where the trace has no such phase, step, range or device.
    """
    if what not in FIGURES:
        raise TracekitError(f"There is no figure {what!r}: say {either(FIGURES)}.")
    start_ps, end_ps = picoseconds(start, "start"), picoseconds(end, "end")
    source = timeline_of(source, run=run, kinds=kinds, executor=executor)
    selection = select(source, phase=phase, step=step, start_ps=start_ps, end_ps=end_ps, devices=devices)
    drawing = draw(
        replace(selection, threads=threads), what, title=title, theme=theme, width=width, font_size=font_size
    )
    drawing.png_dpi = dots(dpi)
    return drawing


def draw(
    selection: Selection,
    what: str,
    *,
    title: str | None = None,
    theme: str = "light",
    width: float = 12,
    font_size: float | None = None,
) -> Drawing:
    """Draw one of FIGURES, with the options of `figure`."""
    picture = FIGURES[what]
    caption = "" if title == "" or selection.lacking else picture.caption(selection)
    subtitle = "" if title == "" else " · ".join(filter(None, [selection.trace_name, caption]))
    title = picture.title(selection) if title is None else title
    with rc_context(STYLE):
        return picture.draw(selection, Sheet(title, subtitle, colours_of(theme), *paper(width, font_size)))


def write_figures(
    trace_dir: str | os.PathLike[str],
    what: str | None = None,
    *,
    phase: str | None = None,
    step: int | None = None,
    start: str | None = None,
    end: str | None = None,
    devices: Sequence[str] = (),
    threads: bool = False,
    formats: str = "png",
    out: str | os.PathLike[str] | None = None,
    title: str | None = None,
    theme: str = "light",
    width: float = 12,
    font_size: float | None = None,
    dpi: float = 300,
    run: str | None = None,
    kinds: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
) -> list[Path | str]:
    """Write several figures of one part of the trace at `trace_dir`, and return the files.

    `what` and `formats` are names between commas, by default all figures, "fleet" only of more than FEW devices. `out`
    is a directory, by default `reports/<trace>/figures`. The other options are those of `figure`; what is wrong with
    them is said before the trace is read.
    """
    names = _names(what, FIGURES, "--what") if what else list(FIGURES)
    suffixes = _names(formats, FORMATS, "--format")
    colours_of(theme)
    paper(width, font_size)
    dots(dpi)
    start_ps, end_ps = one_part(phase, step, start, end)
    place = Path("reports") / trace_name(trace_dir) / "figures" if out is None else remote.place(out)
    refuse_saved_report(trace_dir)
    refuse_inside(place, trace_dir)
    if isinstance(place, str):
        refuse_unwritable(place, "figures")
    files: list[str] = []
    with progress(["reading", *names]) as begin:
        begin("reading")
        timeline = timeline_of(trace_dir, run=run, kinds=kinds, executor=executor)
        part = select(timeline, phase=phase, step=step, start_ps=start_ps, end_ps=end_ps, devices=devices).name
        try:
            with remote.written(place) as directory:
                directory.mkdir(parents=True, exist_ok=True)
                is_fleet = sum(timeline.rows.placed) > FEW
                for name in names:
                    # Of few devices the others show all there is.
                    if name == "fleet" and not (what or is_fleet):
                        continue
                    begin(name)
                    drawing = figure(
                        timeline, name, phase=phase, step=step, start=start_ps, end=end_ps, devices=devices,
                        threads=threads, title=title, theme=theme, width=width, font_size=font_size, dpi=dpi,
                    )  # fmt: skip
                    for suffix in suffixes:
                        files.append(f"{'-'.join([name, *file_part(part)])}.{suffix}")
                        drawing.save(directory / files[-1])
        except OSError as error:
            raise TracekitError(f"The figures cannot be written to {place}: {error}. Give another --out.") from None
    return [remote.child(place, file) for file in files]


def _names(text: str, choice: Collection[str], option: str) -> list[str]:
    """The names between the commas of an option, each once, in their own order."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in choice:
            raise TracekitError(f"{option} {name!r} is not known: say {either(choice)}, or several with commas.")
    if not names:
        raise TracekitError(f"{option} names nothing: say {either(choice)}, or several with commas.")
    return list(dict.fromkeys(names))
