"""The data of the timeline as HTML: a header in JSON, and the rows in columns for the page's scripts.

A column is a script element that no browser runs: byte planes, zlib, base64.
"""

import base64
import html
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import cores
from tracekit import intervals as iv
from tracekit.columns import records
from tracekit.intervals import Intervals
from tracekit.report import palette
from tracekit.report.html.lanes import CLASSES, HOST, Lanes, lanes
from tracekit.report.html.memory_lanes import MemoryLanes, memory_lanes
from tracekit.report.html.opening import opening
from tracekit.report.model import Report, time_zero
from tracekit.timeline.timeline import Timeline
from tracekit.units import revealed, short

# What the page must hold beside the payload and matcher.js, in this order.
SCRIPTS = (
    "decode.js",
    "intervals.js",
    "units.js",
    "labels.js",
    "lanes.js",
    "viewport.js",
    "layout.js",
    "coverage.js",
    "memory.js",
    "measure.js",
    "search.js",
    "canvas.js",
    "print_picture.js",
    "overlay.js",
    "elements.js",
    "lane_tree.js",
    "details.js",
    "panels.js",
    "range_panel.js",
    "address.js",
    "hits.js",
    "actions.js",
    "pointer.js",
    "keys.js",
    "links.js",
    "start.js",
)
STYLES = ("timeline.css",)

_NO_ASCII = re.compile("[^\x00-\x7f]+")
# Bytes of the payload past which it holds less; and how much of a name it then keeps.
LIMIT = 14_000_000
SHORT = 160
# JavaScript's numbers are doubles: integers are exact below 2**53. A signed one has its sign in its lowest bit.
EXACT_BITS = 52
_MOST_THREADS = 4
# Values packed at once: of a column of millions, what that takes is small beside the column.
_PIECE = 1 << 18
# Whether rows fit is told by so many values at once of every so many times as many, if there are enough. zlib looks
# back over 32 KiB, so that a sample of four times as many bytes packs no more than somewhat worse than all. Base64 has
# four letters for three bytes.
_SAMPLE, _SAMPLED_IN, _LEAST_BLOCKS, _SURELY = 1 << 17, 8, 3, 0.9
_BASE64 = 4 / 3

Integers = TypeVar("Integers", bound=np.integer[Any])


@dataclass(frozen=True)
class _Made:
    """So many integers, of which `piece` makes those from one place to another when they are read, so that of millions
    no column is held."""

    length: int
    piece: Callable[[int, int], NDArray[np.int64]]

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, places: slice) -> NDArray[np.int64]:
        low, high, _ = places.indices(self.length)
        return self.piece(low, high)


# What gives the values of each column.
_Columns = Mapping[str, Callable[[], NDArray[Any] | _Made]]
# Start and end of phases or steps.
_Band = tuple[NDArray[np.int64], NDArray[np.int64]]


def payload(report: Report, timeline: Timeline, limit: int = LIMIT, whole: Timeline | None = None) -> str:
    """The script elements of the timeline's data; the page says what was left out to stay in `limit` bytes. Where the
    timeline holds a part of what the report is of, `whole` is that of all.

    Times are integers in a unit that the header names (`unit_ps`: 1 ps, or 1 ns where all times are whole ones),
    counted from time 0 of their clock (model.time_zero). Where they would exceed 52 bits, the unit is coarser and they
    are rounded down, which the page says.
    """
    rounds = report.compared_rounds
    whole = whole or timeline
    compared = whole if rounds is None else whole.inside(rounds)
    zero = time_zero(report).start_ps
    rows = lanes(timeline, compared, zero)
    memory = memory_lanes(report, timeline, rows.groups)
    has_calls = len(rows.start) > rows.device_rows
    elements = (
        "" if has_calls and _least_bytes(report, rows, memory, zero) > limit else _elements(report, rows, memory, zero)
    )
    if has_calls and (not elements or len(elements) > limit):
        lacking = "The calls of the host that started the work are left out, since the page would be too large."
        rows = replace(rows.of_devices(), notes=(lacking,))
        elements = _elements(report, rows, memory, zero)
    if len(elements) > limit and any(len(name) > SHORT for name in rows.names):
        names = tuple(short(name, SHORT) for name in rows.names)
        lacking = f"Names are cut to {SHORT} characters, since the page would be too large."
        elements = _elements(report, replace(rows, names=names, notes=(*rows.notes, lacking)), memory, zero)
    return elements


def _least_bytes(report: Report, rows: Lanes, memory: MemoryLanes, zero: Mapping[str, int]) -> float:
    """How many bytes the times of all rows come to at least, told by a part of them: to pack millions of rows for
    nothing takes a tenth of the time of a report. 0 of rows so few that a part tells too little."""
    blocks = len(rows.start) // (_SAMPLED_IN * _SAMPLE)
    if blocks < _LEAST_BLOCKS:
        return 0
    unit, _ = _unit(_all_times(report, rows, memory, zero))
    packed, width = 0, len(rows.start) // blocks
    # From anywhere in each block, as what repeats itself might be as long as the blocks are.
    offsets = np.random.default_rng(blocks).integers(0, width - _SAMPLE, blocks)
    for at in (np.arange(blocks) * width + offsets).tolist():
        start, end = (_in_unit(edge[at : at + _SAMPLE], unit) for edge in (rows.start, rows.end))
        packed += sum(len(column("", times).content) for times in (end - start, start[1:] - end[:-1]))
    return _SURELY * _BASE64 * packed * len(rows.start) / (blocks * _SAMPLE)


def _extent(report: Report) -> tuple[int, int] | None:
    """What is reported, [start, end) in ps of the one clock: the phases, or a part, whose work was launched before it;
    None for all that is drawn."""
    if report.extent or not report.part or len(report.windows) != 1:
        return report.extent
    edges = next(iter(report.windows.values()))
    return (int(edges[0, 0]), int(edges[-1, 1])) if len(edges) else None


def _elements(report: Report, rows: Lanes, memory: MemoryLanes, zero: Mapping[str, int]) -> str:
    (phases, steps), bands, changes = *_banded(report, zero), _changes(rows, memory, zero)
    unit, rounded = _unit(_all_times(report, rows, memory, zero))
    made = {**_columns(rows, unit), **_memory_columns(memory, changes, unit)}

    def packed(name: str) -> tuple[dict[str, Any], str]:
        of_rows = column(name, made[name]())
        return of_rows.encoding, element(name, of_rows.content)

    # zlib holds no GIL; a column is made when a thread takes it, so that few of them are held at once.
    with ThreadPoolExecutor(cores.threads(_MOST_THREADS)) as pool:
        columns = dict(zip(made, pool.map(packed, made), strict=True))
    windows = [_edges(rows.windows.get(name, iv.EMPTY), at, unit) for name, at in zero.items()]
    reach = _reach(rows, windows, unit)
    shown = _extent(report)
    extent = [(edge - next(iter(zero.values()))) // unit for edge in shown] if shown else None
    first = opening(report)
    opens = first and {
        "words": first.words,
        "from": (first.start_ps - zero[first.clock]) // unit,
        "to": (first.end_ps - zero[first.clock]) // unit,
    }
    header = {
        "schema": 1,
        "source": report.trace.source,
        "unit_ps": str(unit),
        "rounded": rounded,
        "clocks": [{"name": name, "origin_ps": str(at)} for name, at in zero.items()],
        "device_rows": rows.device_rows,
        "rows": len(rows.start),
        "whole": reach,
        "extent": extent,
        "opening": opens,
        "paper": palette.properties(palette.LIGHT),
        "classes": [*CLASSES, (HOST, None)],
        "notes": [*rows.notes, *memory.notes],
        "partial": bool(report.whole.lacking),
        "columns": {name: encoding for name, (encoding, _) in columns.items()},
    }
    # Names and what has one may be many: they are compressed like the columns.
    with_names = {
        "names": rows.names,
        "groups": [asdict(group) | {"clock": list(zero).index(group.clock)} for group in rows.groups],
        "lanes": rows.lanes,
        "windows": windows,
        "memory": [
            {"group": lane.group, "steps": len(lane.time)}
            | {"peak": lane.peak, "at_least": lane.at_least, "error": lane.error, "facts": lane.facts}
            | {"stretch_ps": lane.stretch}
            for lane in memory.lanes
        ],
        "phases": _spans(phases, bands[0], unit, zero),
        "steps": _spans(steps, bands[1], unit, zero),
    }
    elements = [f'<script type="application/json" id="timeline-header">{json_text(header)}</script>']
    elements += [element("named", zlib.compress(json_text(with_names).encode("ascii"), 6))]
    elements += [text for _, text in columns.values()]
    return "\n".join([*elements, ""])


def _reach(rows: Lanes, windows: Sequence[list[list[int]]], unit: int) -> list[int] | None:
    """From when to when all that is drawn reaches, and the windows that it is of, in units; None where nothing is."""
    if not len(rows.start):
        return None
    edges = [int(rows.start.min()) // unit, int(rows.end.max()) // unit, *chain(*chain(*windows))]
    return [min(edges), max(edges)]


def _edges(windows: Intervals, zero_ps: int, unit: int) -> list[list[int]]:
    """The starts and the ends of windows of a clock, in units."""
    edges: list[list[int]] = ((windows - zero_ps) // unit).T.tolist()
    return edges


def _all_times(report: Report, rows: Lanes, memory: MemoryLanes, zero: Mapping[str, int]) -> list[NDArray[np.int64]]:
    """All times of the payload, in ps from time 0 of their clock."""
    edges = [edge for band in _banded(report, zero)[1] for edge in band]
    return [rows.start, rows.end, rows.wait[0], *edges, *_changes(rows, memory, zero)]


def _banded(report: Report, zero: Mapping[str, int]) -> tuple[list[pd.DataFrame], list[_Band]]:
    """The tables of phases and steps, and the start and end of each of theirs."""
    tables = [report.phases.rounds, report.explanation.steps.table]
    return tables, [_band(table, zero) for table in tables]


def _changes(rows: Lanes, memory: MemoryLanes, zero: Mapping[str, int]) -> list[NDArray[np.int64]]:
    """When the memory in use changed, lane by lane."""
    return [lane.time - zero[rows.groups[lane.group].clock] for lane in memory.lanes]


def _columns(rows: Lanes, unit: int) -> _Columns:
    """The columns by name, times in units. In a lane a row tells how long after the row before it starts: kernels
    stand in queues."""
    has_bytes, has_instance = rows.bytes[1], rows.instance >= 0

    counts = np.array([count for _, _, count in rows.lanes], np.int64)
    first = (np.cumsum(counts) - counts)[counts > 0]

    def gaps(low: int, high: int) -> NDArray[np.int64]:
        found, after = rows.start[low:high] // unit, max(low, 1)
        found[after - low :] -= rows.end[after - 1 : high - 1] // unit
        of_lanes = first[slice(*np.searchsorted(first, (low, high)))]
        found[of_lanes - low] = rows.start[of_lanes] // unit
        return found

    def durations(low: int, high: int) -> NDArray[np.int64]:
        return rows.end[low:high] // unit - rows.start[low:high] // unit

    return {
        "gap": lambda: _Made(len(rows.start), gaps),
        "duration": lambda: _Made(len(rows.start), durations),
        "name": lambda: rows.name,
        "kind": lambda: rows.kind,
        "has_bytes": lambda: has_bytes,
        "bytes": lambda: rows.bytes[0],
        "has_wait": lambda: rows.wait[1],
        "wait": lambda: _in_unit(rows.wait[0], unit),
        "step": lambda: _differences(rows.step),
        "launch": lambda: _differences(rows.launch),
        "has_instance": lambda: has_instance,
        "instance": lambda: _differences(rows.instance[has_instance]),
    }


def _memory_columns(memory: MemoryLanes, changes: list[NDArray[np.int64]], unit: int) -> _Columns:
    """The steps of the memory in use, each as its difference to the one before it in its lane."""
    empty = np.zeros(0, np.int64)
    return {
        "memory_time": lambda: np.concatenate([empty, *(_differences(times // unit) for times in changes)]),
        "memory_in_use": lambda: np.concatenate([empty, *(_differences(lane.in_use) for lane in memory.lanes)]),
    }


def _in_unit(times: NDArray[np.int64], unit: int) -> NDArray[np.int64]:
    """Times in ps in a unit, rounded down; the same where that is 1 ps, as of most traces."""
    return times if unit == 1 else times // unit


def _differences(values: NDArray[Integers]) -> NDArray[Integers]:
    """Each value as its difference to the one before, in the same type: numbers from -1 up differ by no more."""
    differences = values.copy()
    differences[1:] -= values[:-1]
    return differences


def _band(table: pd.DataFrame, zero: Mapping[str, int]) -> _Band:
    """Start and end of phases or steps in ps from time 0 of their clock."""
    origin = np.array([zero[str(clock)] for clock in table["clock"]], np.int64)
    return table["start_ps"].to_numpy(np.int64) - origin, table["end_ps"].to_numpy(np.int64) - origin


def _spans(table: pd.DataFrame, band: _Band, unit: int, zero: Mapping[str, int]) -> list[dict[str, Any]]:
    """Phases or steps with their names and times."""
    clocks = list(zero)
    spans = []
    for row, start, end in zip(records(table), *((edge // unit).tolist() for edge in band), strict=True):
        left_out, step = row.get("left_out"), row.get("step")
        spans.append(
            {
                "name": str(row["name"]),
                "clock": clocks.index(str(row["clock"])),
                "start": start,
                "end": end,
                "step": None if step is None or pd.isna(step) else int(step),
                "left_out": left_out if isinstance(left_out, str) else None,
            }
        )
    return spans


def _unit(times: list[NDArray[np.int64]]) -> tuple[int, bool]:
    """The unit of all times in ps, and whether they are rounded to it: 1 ns if they are whole ones, else 1 ps."""
    exact = 1000 if all(_are_whole(values) for values in times) else 1
    reach = max((max(abs(int(values.min())), abs(int(values.max()))) for values in times if len(values)), default=0)
    unit = exact
    while reach // unit >> EXACT_BITS:
        unit *= 1000
    return unit, unit != exact


def _are_whole(values: NDArray[np.int64]) -> bool:
    """Whether all are whole nanoseconds; of most columns the first few tell."""
    return all(not (values[at : at + _PIECE] % 1000).any() for at in range(0, len(values), _PIECE))


@dataclass(frozen=True)
class PackedColumn:
    """Integers ready to be written: `planes` bytes each, one plane after the other, lowest first, zlib-compressed.

    Signed ones are 2 x, or -2 x - 1 below zero (zigzag), so that small ones have few bytes.
    """

    name: str
    length: int
    planes: int
    signed: bool
    content: bytes

    @property
    def encoding(self) -> dict[str, Any]:
        """What a reader must know to decode it."""
        return {"length": self.length, "planes": self.planes, "signed": self.signed}


def column(name: str, values: NDArray[np.integer[Any]] | _Made) -> PackedColumn:
    """`values` (n,) in as many byte planes as the largest needs; with times of 4.29 ms = 2**32 ps, that is often 5."""
    edges = [
        (int(piece.min()), int(piece.max()))
        for piece in (values[at : at + _PIECE] for at in range(0, len(values), _PIECE))
    ]
    least, most = min((low for low, _ in edges), default=0), max((high for _, high in edges), default=0)
    signed = least < 0
    planes = ((max(2 * most, -2 * least - 1) if signed else most).bit_length() + 7) // 8
    packer = zlib.compressobj(6)
    content = [
        packer.compress(_plane(values[at : at + _PIECE], plane, signed))
        for plane in range(planes)
        for at in range(0, len(values), _PIECE)
    ]
    return PackedColumn(name, len(values), planes, signed, b"".join([*content, packer.flush()]))


def _plane(values: NDArray[np.integer[Any]], plane: int, signed: bool) -> bytes:
    """One byte of each value, as PackedColumn has them."""
    wide = values.astype(np.int64)
    if signed:
        sign = wide >> 63
        wide <<= 1
        wide ^= sign
    return wide.astype("<i8", copy=False).view(np.uint8).reshape(-1, 8)[:, plane].tobytes()


def json_text(value: object) -> str:
    """`value` as JSON in ASCII that no HTML parser takes for markup; lone surrogates and U+2028 are escaped, and what
    cannot be seen has a sign (`units.revealed`)."""
    plain = json.dumps(value, separators=(",", ":"), allow_nan=False)
    if "\\u" in plain:
        shown = revealed(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
        plain = _NO_ASCII.sub(lambda run: json.dumps(run[0])[1:-1], shown)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def element(name: str, content: bytes, of: str = "column") -> str:
    """A script element that no browser runs, with `content` in base64; `of` says whose data it is."""
    return f'<script type="text/plain" data-{of}="{html.escape(name)}">{base64.b64encode(content).decode()}</script>'
