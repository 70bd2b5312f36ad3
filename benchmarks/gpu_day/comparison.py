"""What several tools say of the same program: wall time, GPU busy time, and copies hidden behind compute.

Each tool's own file is counted here without tracekit, by plain unions of its rows; tracekit's figures come from the
summaries of its reports.
"""

import gzip
import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

Interval = tuple[float, float]
_KINETO = {"kernel": "compute", "gpu_memcpy": "copy", "gpu_memset": "copy"}
_NSYS = {"KERNEL": "compute", "MEMCPY": "copy", "MEMSET": "copy"}


@dataclass(frozen=True)
class Figures:
    """Of one program as one tool has it, in ms; None where the tool does not tell. `hidden_ms` is of `copy_ms`."""

    program: str
    tool: str
    wall_ms: float | None = None
    busy_ms: float | None = None
    compute_ms: float | None = None
    copy_ms: float | None = None
    hidden_ms: float | None = None


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The intervals in order, those that touch or overlap as one."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> float:
    """The time with at least one of the intervals."""
    return sum(end - start for start, end in union(intervals))


def of_rows(program: str, tool: str, rows: list[tuple[float, float, str]]) -> Figures:
    """Figures of rows on one GPU: start and end in ms, and "compute" or "copy" (memsets among them)."""
    if not rows:
        return Figures(program, tool)
    everything = [(start, end) for start, end, _ in rows]
    compute = [(start, end) for start, end, kind in rows if kind == "compute"]
    copy = [(start, end) for start, end, kind in rows if kind == "copy"]
    busy, one, other = length(everything), length(compute), length(copy)
    wall = max(end for _, end in everything) - min(start for start, _ in everything)
    return Figures(program, tool, wall, busy, one, other, one + other - busy)


def nsys_rows(path: Path) -> list[tuple[float, float, str]]:
    """The work of the first GPU in an SQLite export of Nsight Systems, whose times are in ns."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as export:
        names = {name for (name,) in export.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        rows = [
            (device, start, end, kind)
            for name, kind in _NSYS.items()
            if f"CUPTI_ACTIVITY_KIND_{name}" in names
            for device, start, end in export.execute(f"SELECT deviceId, start, end FROM CUPTI_ACTIVITY_KIND_{name}")
        ]
    return _first(rows, 1e6)


def kineto_rows(path: Path) -> list[tuple[float, float, str]]:
    """The work of the first GPU in the JSON of PyTorch's profiler, whose times are in us."""
    data = path.read_bytes()
    events = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)["traceEvents"]
    rows = [
        (event["args"]["device"], event["ts"], event["ts"] + event["dur"], _KINETO[event["cat"]])
        for event in events
        if event.get("ph") == "X" and event.get("cat") in _KINETO
    ]
    return _first(rows, 1e3)


def _first(rows: list[tuple[int, float, float, str]], to_ms: float) -> list[tuple[float, float, str]]:
    """The rows of the first device, in ms since the first of them: since 1970 they would take too many digits."""
    first = min((device for device, *_ in rows), default=0)
    own = [(start, end, kind) for device, start, end, kind in rows if device == first]
    zero = min((start for start, *_ in own), default=0)
    return [((start - zero) / to_ms, (end - zero) / to_ms, kind) for start, end, kind in own]


def of_summary(program: str, tool: str, path: Path) -> Figures:
    """Figures of tracekit's report, of the device that was busiest."""
    summary = json.loads(path.read_text("utf-8"))
    devices = [device for device in summary["devices"] if device["busy_ps"]]
    if not devices:
        return Figures(program, tool)
    first = max(devices, key=lambda device: device["busy_ps"])
    kinds, cells = first["kinds"], first["partition"]
    hidden = cells["compute+memory"] + cells["compute+collective+memory"]
    compute, copy = kinds["compute"]["union_ps"], kinds["memory"]["union_ps"]
    return Figures(program, tool, *(ps / 1e9 for ps in (first["window_ps"], first["busy_ps"], compute, copy, hidden)))


def of_walls(program: str, path: Path) -> list[Figures]:
    """What programs.py measured itself: without a profiler, and with CUDA events."""
    found = json.loads(path.read_text("utf-8"))
    rows = [Figures(program, "the program's clock, no profiler", found["wall_ms"]["both"])]
    if events := found["events_ms"]:
        # Each from the start of all to the end of one stream: how long it took, not how long it was busy.
        copies = max(events["to device"], events["to host"])
        rows.append(
            Figures(program, "CUDA events (to the end of each stream)", events["all"], None, events["compute"], copies)
        )
    return rows


def sources(results: Path) -> Iterable[tuple[str, str, Path]]:
    """Program, tool and file of everything that a day may leave."""
    for framework in ("jax", "torch"):
        yield framework, "walls", results / "compare" / f"{framework}.json"
        owner = {"jax": "JAX", "torch": "PyTorch"}[framework]
        for name, tool in (("", f"{owner}'s profiler"), ("-by-nsys", "Nsight Systems")):
            summary = results / "reports" / f"compare-{framework}{name}" / "summary.json"
            yield framework, f"tracekit capture, by {tool}", summary
        yield framework, "Nsight Systems' own tables", results / "compare" / f"{framework}-nsys.sqlite"
        yield (
            framework,
            "tracekit, of Nsight Systems",
            results / "reports" / f"compare-{framework}-nsys" / "summary.json",
        )
        yield framework, "PyTorch's profiler, own rows", results / "compare" / f"{framework}-torch.pt.trace.json"
        yield (
            framework,
            "tracekit, of PyTorch's profiler",
            results / "reports" / f"compare-{framework}-torch" / "summary.json",
        )


def compare(results: Path) -> tuple[list[Figures], list[str]]:
    """The figures of every file that is there, and a sentence for each that cannot be read."""
    figures: list[Figures] = []
    problems = []
    for program, tool, path in sources(results):
        if not path.exists():
            continue
        try:
            if tool == "walls":
                figures += of_walls(program, path)
            elif path.name == "summary.json":
                figures.append(of_summary(program, tool, path))
            else:
                rows = nsys_rows(path) if path.suffix == ".sqlite" else kineto_rows(path)
                figures.append(of_rows(program, tool, rows))
        except (ValueError, KeyError, TypeError, sqlite3.Error) as error:  # another version's format: the rest counts
            problems.append(f"{path.relative_to(results)} cannot be read: {type(error).__name__}: {error}")
    return figures, problems


def table(figures: list[Figures]) -> list[str]:
    """The comparison as lines of Markdown."""

    def ms(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    def share(row: Figures) -> str:
        return "-" if row.hidden_ms is None or not row.copy_ms else f"{row.hidden_ms / row.copy_ms:.1%}"

    head = ["program", "according to", "wall ms", "GPU busy ms", "compute ms", "copies ms", "copies hidden"]
    rows = [
        [row.program, row.tool, *map(ms, (row.wall_ms, row.busy_ms, row.compute_ms, row.copy_ms)), share(row)]
        for row in figures
    ]
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)]
