"""What `tracekit figure` does: read, look at a stretch of the trace, draw, write."""

import re
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from tracekit import console as terminal
from tracekit.errors import TracekitError
from tracekit.files import refuse_inside, trace_name
from tracekit.load import load
from tracekit.report.figures import concurrency, gantt, labels, overlap, partition, sheet, time_axis
from tracekit.report.figures.drawing import FORMATS, save
from tracekit.report.figures.selection import look

FIGURES: dict[str, Callable[..., sheet.Drawing]] = {
    "gantt": gantt.gantt,
    "partition": partition.partition,
    "concurrency": concurrency.concurrency,
    "overlap": overlap.overlap,
}
# What a file may be called on every system, without the names of devices there.
_LONGEST_NAME = 60


def run(
    trace_dir: Path,
    what: str | None = None,
    phase: str | None = None,
    step: int | None = None,
    start: str | None = None,
    end: str | None = None,
    formats: str = "png",
    out: Path | None = None,
    theme: str = "light",
    width: float = sheet.WIDE / labels.DPI,
    run_name: str | None = None,
    kinds: Path | None = None,
) -> list[Path]:
    """Draw the trace at `trace_dir` and return the files that were written.

    `what` and `formats` are names between commas. `start` and `end` are times as time_axis.parse reads them,
    `width` is in inches. What is wrong with them is told before the trace is read.
    """
    wanted = _chosen(what, FIGURES, "--what") if what else list(FIGURES)
    suffixes = _chosen(formats, FORMATS, "--format")
    sheet.colours_of(theme)
    sheet.pixels(width)
    if (phase is not None) + (step is not None) + (start is not None or end is not None) > 1:
        raise TracekitError("Give one of --phase, --step, or --from and --to: a figure shows one stretch of a trace.")
    start_ps = None if start is None else time_axis.parse(start, "--from")
    end_ps = None if end is None else time_axis.parse(end, "--to")
    target = Path("reports") / trace_name(trace_dir) / "figures" if out is None else out
    refuse_inside(target, trace_dir)
    written = []
    with terminal.progress(["reading", *wanted]) as begun:
        begun("reading")
        view = look(load(trace_dir, run_name, kinds), phase=phase, step=step, start_ps=start_ps, end_ps=end_ps)
        try:
            target.mkdir(parents=True, exist_ok=True)
            for name in wanted:
                begun(name)
                drawing = FIGURES[name](view, theme=theme, width=sheet.pixels(width))
                for suffix in suffixes:
                    path = target / f"{'-'.join([name, *_part(view.name)])}.{suffix}"
                    save(drawing, path)
                    written.append(path)
        except OSError as error:
            raise TracekitError(f"The figures cannot be written to {target}: {error}. Give another --out.") from None
    print(f"Wrote {target}/ ({', '.join(path.name for path in written)})", file=sys.stderr)
    return written


def _chosen(text: str, known: Sequence[str] | dict[str, Callable[..., sheet.Drawing]], option: str) -> list[str]:
    """The names between the commas of an option, each once, in their own order."""
    wanted = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            raise TracekitError(f"{option} {name!r} is not known: say {_listed(list(known))}, or several with commas.")
    if not wanted:
        raise TracekitError(f"{option} names nothing: say {_listed(list(known))}, or several with commas.")
    return list(dict.fromkeys(wanted))


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _part(name: str) -> list[str]:
    """`name` as a part of a file's name, if there is one; what is changed in it beyond spaces is told by a number."""
    spaced = "-".join(name.split())
    safe = re.sub(r"[^\w.+-]", "_", spaced)[:_LONGEST_NAME]
    if safe != spaced:
        safe += f"-{zlib.crc32(name.encode('utf-8', 'surrogatepass')):08x}"
    return [safe] if safe else []
