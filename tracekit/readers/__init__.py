"""Read a trace, whatever wrote it, into a `Trace`: one module per format; `read` finds the files and picks."""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tracekit.columns import constant, frame
from tracekit.errors import TraceError
from tracekit.readers import chrome, find, merge, nsys, xspace
from tracekit.readers.chrome import jax_planes, kineto, mxnet
from tracekit.trace import EVENT_COLUMNS, HOST_COLUMNS, Trace

T = TypeVar("T")

_MOST_THREADS = 4  # each holds a whole file


def read(path: str | Path, run: str | None = None) -> Trace:
    """The trace at `path`: a file of any format, a run of several hosts or ranks, or a directory that holds runs.

    Formats are told by content: XSpace (JAX, TensorFlow), Chrome JSON (PyTorch Kineto, JAX, MXNet), Nsight Systems'
    SQLite export. `run` names one of several runs, else the newest is read and a note says so. The files of a run
    become one trace, as `merge` says. Raises TraceError if nothing is there, if it is broken, or if there is no run of
    that name.
    """
    try:
        found = find.find(Path(path), run)
    except OSError as error:  # a directory that may not be looked into
        raise TraceError(f"{error.filename or path} cannot be read: {error.strerror}.") from None
    notes: list[str] = []
    world_size = None
    if found.format == "chrome":
        traces, world_size, notes = _chrome(found.files)
    elif found.format == "nsys":
        traces = _each(nsys.read, found.files)
    else:
        traces = _each(xspace.read, found.files)
    trace = merge.merge(traces, world_size if Path(path).is_dir() else None)
    return replace(
        trace,
        source=str(path),
        runs=found.runs,
        notes=(*found.notes, *notes, *trace.notes),
        capture=_capture(found.directory),
    )


def _each(one: Callable[[Path], T], files: Sequence[Path]) -> list[T]:
    """`one` of every file, a few at a time: the decoder of XSpaces, zlib and numpy let other threads run."""
    if len(files) == 1:
        return [one(files[0])]
    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
        return list(pool.map(one, files))


def _chrome(files: Sequence[Path]) -> tuple[list[Trace], int | None, list[str]]:
    """The traces in Chrome JSON files of one profiler, how many ranks their job had if all say the same, and notes."""
    read_files = zip(files, _each(_chrome_file, files), strict=True)
    found: dict[str, list[tuple[Trace, int | None]]] = {}
    left: list[str] = []
    for file, (dialect, trace, world_size) in read_files:
        if trace is None:
            left.append(file.name)
        else:
            found.setdefault(dialect, []).append((trace, world_size))
    if not found:
        raise TraceError(
            f"{files[0]} holds trace events, but not as PyTorch, JAX or MXNet write them. Give the file that the "
            "profiler itself wrote."
        )
    notes = [f"Left out, as no profiler that tracekit knows wrote them: {', '.join(left)}."] if left else []
    most = max(found.values(), key=len)
    others = [trace.source for traces in found.values() if traces is not most for trace, _ in traces]
    if others:
        notes.append(f"Left out, as another profiler wrote them: {', '.join(Path(one).name for one in others)}.")
    sizes = {size for _, size in most}
    return [trace for trace, _ in most], sizes.pop() if len(sizes) == 1 else None, notes


def _chrome_file(path: Path) -> tuple[str, Trace | None, int | None]:
    """Which profiler wrote a Chrome JSON file, its trace, and its job's number of ranks; no trace if none is known."""
    document = chrome.load(path)
    dialect = chrome.dialect(document)
    job = document.head.get("distributedInfo")
    size = job.get("world_size") if isinstance(job, dict) else None
    if dialect == "kineto":
        return dialect, kineto.read(document, path), size if isinstance(size, int) else None
    if dialect == "jax":
        return dialect, jax_planes.read(document, path), None
    if dialect == "mxnet":
        return dialect, mxnet.read(document, path), None
    if len(document) == 0:
        host = constant(path.name.removesuffix(".gz").removesuffix(".json").removesuffix(".trace"), 1)
        return "", Trace(frame(EVENT_COLUMNS), hosts=frame(HOST_COLUMNS, {"host": host}), format="chrome"), None
    return "", None, None


def _capture(directory: Path) -> dict[str, object] | None:
    """What `capture.json` in the run's directory says, None if there is none or it is unreadable."""
    try:
        found = json.loads((directory / "capture.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
