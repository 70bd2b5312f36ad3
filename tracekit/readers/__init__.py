"""Read a trace, whatever wrote it, into a `Trace`: `formats` lists what is read, `read` finds the files and picks."""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tracekit import cores
from tracekit.columns import constant, frame
from tracekit.errors import TraceError
from tracekit.files import path_of
from tracekit.readers import chrome, device_clocks, find, formats, merge
from tracekit.readers.chrome import Dialect, Document
from tracekit.trace import EVENT_COLUMNS, HOST_COLUMNS, Trace
from tracekit.vocabulary import rules

T = TypeVar("T")

_MOST_THREADS = 4  # each holds a whole file


def read(source: str | os.PathLike[str], run: str | None = None, kinds: str | os.PathLike[str] | None = None) -> Trace:
    """The trace at `source`: a file of any format, a run of several hosts or ranks, or a directory that holds runs.

    Formats are told by content: XSpace (JAX, TensorFlow), Chrome JSON (PyTorch Kineto, JAX, MXNet), Nsight Systems'
    SQLite export. `run` names one of several runs, else the newest is read and a note says so. The files of a run
    become one trace, as `merge` says. `kinds` is a file of the user's own rules for what an operation is
    (vocabulary.rules); a mistake in it is raised before anything is read. Raises TraceError if nothing is there, if it
    is broken, or if there is no run of that name.
    """
    path = path_of(source)
    own = rules.read(Path(kinds)) if kinds else ()
    try:
        origin = find.find(path, run)
    except OSError as error:  # a directory that may not be looked into
        raise TraceError(f"{error.filename or source} cannot be read: {error.strerror}.") from None
    notes: list[str] = []
    ranks = None
    if origin.file_type is formats.CHROME:
        traces, ranks, notes = _chrome(origin.files)
    else:
        (reader,) = (each.reader for each in formats.FORMATS if each.file_type is origin.file_type)
        assert not isinstance(reader, Dialect)
        traces = _each(reader, origin.files)
    capture = _capture(origin.directory)
    machines = capture.get("machines") if capture else None
    trace = merge.merge(
        [device_clocks.fit(each) for each in traces],
        ranks if path.is_dir() else None,
        machines if isinstance(machines, dict) else None,
    )
    unused = rules.unused(trace.events, own)
    return replace(
        trace,
        events=rules.apply(trace.events, own) if own else trace.events,
        source=os.fspath(source),
        runs=origin.runs,
        notes=(*origin.notes, *notes, *trace.notes, *unused),
        capture=capture,
    )


def _each(reader: Callable[[Path], T], files: Sequence[Path]) -> list[T]:
    """What `reader` gives of every file, a few at a time: the decoder of XSpaces, zlib and numpy hold no GIL."""
    if len(files) == 1:
        return [reader(files[0])]
    with ThreadPoolExecutor(cores.threads(_MOST_THREADS)) as pool:
        return list(pool.map(reader, files))


def _chrome(files: Sequence[Path]) -> tuple[list[Trace], int | None, list[str]]:
    """The traces in Chrome JSON files of one profiler, how many ranks their job had if all say the same, and notes."""
    by_format: dict[str, list[tuple[Trace, int | None]]] = {}
    unknown: list[str] = []
    for file, (name, trace, ranks) in zip(files, _each(_chrome_file, files), strict=True):
        if trace is None:
            unknown.append(file.name)
        else:
            by_format.setdefault(name, []).append((trace, ranks))
    writers = formats.writers(formats.CHROME)
    if not by_format:
        raise TraceError(
            f"{files[0]} holds trace events, but not as {writers} writes them. Give the file that the profiler itself "
            "wrote."
        )
    notes = [f"Skipped {', '.join(unknown)}: not written by {writers}."] if unknown else []
    most = max(by_format.values(), key=len)
    others = [Path(trace.source).name for traces in by_format.values() if traces is not most for trace, _ in traces]
    if others:
        notes.append(f"Skipped {', '.join(others)}: written by another profiler than the other files.")
    sizes = {ranks for _, ranks in most}
    return [trace for trace, _ in most], sizes.pop() if len(sizes) == 1 else None, notes


def _chrome_file(path: Path) -> tuple[str, Trace | None, int | None]:
    """The format of a Chrome JSON file, its trace, and its job's number of ranks; no trace if no format is known."""
    document = chrome.load(path)
    if match := formats.dialect(document):
        name, dialect = match
        return name, dialect.read(document, path), dialect.ranks(document)
    return "", None if len(document) else _empty(document, path), None


def _empty(document: Document, path: Path) -> Trace:
    """The trace of a document without events, which tells no profiler."""
    host = constant(path.name.removesuffix(".gz").removesuffix(".json").removesuffix(".trace"), 1)
    return Trace(frame(EVENT_COLUMNS), hosts=frame(HOST_COLUMNS, {"host": host}), format="chrome")


def _capture(directory: Path) -> dict[str, object] | None:
    """What `capture.json` in the run's directory says, None if there is none or it is unreadable."""
    try:
        capture = json.loads((directory / "capture.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return capture if isinstance(capture, dict) else None
