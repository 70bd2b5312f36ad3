"""Named baselines: saved reports in a folder that is small enough for a repository."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tracekit import remote
from tracekit.comparison.sides import Compared, captures
from tracekit.errors import TracekitError
from tracekit.files import SUMMARY, file_part, is_saved_report, refuse_inside
from tracekit.report import storage
from tracekit.report.model import Report
from tracekit.units import quantity, size

FOLDER = "baselines"
# What only pictures show, of which there may be most.
_LEFT_OUT = "the launch queues over time, the single instances of offenders and the memory over time"


@dataclass(frozen=True)
class Baseline:
    """A baseline by its `name`: its folder `path`, how many `captures` it holds, of which `sources`, in so many
    `bytes`."""

    name: str
    path: Path | str
    captures: int
    sources: tuple[str, ...]
    bytes: int

    @property
    def text(self) -> str:
        """It in one line."""
        sources = ", ".join(dict.fromkeys(self.sources))
        return f"{self.name}: {quantity(self.captures, 'capture')} of {sources}, {size(self.bytes // 1024 * 1024)}"


def save(name: str, sources: Sequence[Compared], directory: str | os.PathLike[str] = FOLDER) -> Baseline:
    """Save traces or reports, each a capture of one program, as the baseline `name` in `directory`.

    A directory of several runs or saved reports is several captures. One of the same name is replaced. What only
    pictures show is left out. Raises TracekitError where there is none to save, and where the name is none or that of a
    folder of something else.
    """
    if file_part(name) != [name]:
        raise TracekitError(f"{name!r} is no name for a baseline: give letters, digits, '-', '_' and '.'.")
    if not sources:
        raise TracekitError("A baseline is made of reports or traces: name one at least.")
    home = remote.place(directory)
    with _listed(remote.child(home, name)) as there:
        if there.exists() and not _captures(there):
            raise TracekitError(f"{there} is there and is no baseline. Give another name, or remove it.")
    reports = [_small(capture.report) for source in sources for capture in captures(source)]
    for report in reports:
        if report.trace.source:
            refuse_inside(remote.child(home, name), report.trace.source)
    with remote.written(remote.child(home, name), last=[f"1/{SUMMARY}"], stale=["*"]) as place:
        _write(reports, place)
        return replace(_baseline(place), path=remote.child(home, name))


def _write(reports: Sequence[Report], place: Path) -> None:
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        for number, report in enumerate(reports, 1):
            left_out = {section.key for section in report.sections}
            summary = {key: value for key, value in report.summary().items() if key not in left_out}
            storage.write(summary, report, draft / str(number))
        shutil.rmtree(place, ignore_errors=True)
        draft.rename(place)
    except OSError as error:
        raise TracekitError(f"The baseline cannot be written to {place}: {error}.") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def baselines(directory: str | os.PathLike[str] = FOLDER) -> tuple[Baseline, ...]:
    """The baselines in a folder, by name; none where there is no folder."""
    home = remote.place(directory)
    with _listed(home) as place:
        found = [_baseline(each) for each in sorted(place.iterdir()) if _captures(each)] if place.is_dir() else []
    return tuple(replace(each, path=remote.child(home, each.name)) for each in found)


def find(name: str, directory: str | os.PathLike[str] = FOLDER) -> Path | str:
    """Where the baseline of this name is. Raises TracekitError, which names those there are, where there is none."""
    home = remote.place(directory)
    place = remote.child(home, name)
    with _listed(place) as there:
        is_there = bool(_captures(there))
    if not is_there:
        names = ", ".join(each.name for each in baselines(directory))
        known = f"There are {names}." if names else "There are none: tracekit baseline save NAME REPORT makes one."
        raise TracekitError(f"{home} holds no baseline {name!r}. {known}")
    return place


@contextmanager
def _listed(home: Path | str) -> Iterator[Path]:
    """The baselines of a folder, to look at: of their frames, only names and lengths are fetched."""
    with remote.listed(home, lambda name: 0) as tree:
        tree.complete(tree.path.rglob(SUMMARY))
        yield tree.path


def _captures(place: Path) -> list[Path]:
    """The saved reports of a baseline, in order."""
    below = [each for each in place.iterdir() if is_saved_report(each)] if place.is_dir() else []
    return sorted(below, key=lambda each: (len(each.name), each.name))


def _baseline(place: Path) -> Baseline:
    captures = _captures(place)
    sources = tuple(str(json.loads((each / SUMMARY).read_text("utf-8"))["trace"]["source"]) for each in captures)
    length = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    return Baseline(place.name, place, len(captures), sources, length)


def _small(report: Report) -> Report:
    """The report without the tables that only pictures show, which a note tells."""
    why = report.explanation
    smaller = replace(
        why,
        launches=replace(why.launches, depth=why.launches.depth[:0]),
        offenders=replace(why.offenders, instances=why.offenders.instances[:0]),
        memory=replace(why.memory, usage=why.memory.usage[:0]),
    )
    return replace(report, explanation=smaller, notes=(*report.notes, f"This baseline does not hold {_LEFT_OUT}."))
