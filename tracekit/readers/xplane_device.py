"""The rows of GPU and TPU planes.

On a GPU the `Stream #…` lines are the truth; the other lines of its plane repeat the kernels. On a TPU `XLA Ops` is the
truth; it is nested, and asynchronous copies and collectives stand in it as two halves, `-start` and `-done`.
"""

import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import kinds
from tracekit.readers import ops
from tracekit.readers.distinct import distinct
from tracekit.readers.ops import Opcode
from tracekit.readers.planes import Plane, XSpace
from tracekit.trace import DEVICE_COLUMNS, EVENT_COLUMNS, Kind, constant, frame, labelled

STATS = ("correlation_id", "hlo_op", "hlo_module", "program_id", "run_id", "group_id", "memcpy_details")

_DEVICE = re.compile(r"/device:(GPU|TPU):(\d+)")
_SIZE = re.compile(r"\bsize:(\d+)")
# `%copy-done.2 = f32[5]{0} copy-done((f32[5]{0}, …) %copy-start.2)`: name, result, opcode, operands.
_HLO_TEXT = re.compile(r"%?(?P<name>[^\s=]+) = (?P<shape>\(.*?\)|\S+) (?P<opcode>[\w-]+)\((?P<operands>.*)")
_OPERAND = re.compile(r"%([\w.-]+)")
_HOST_MEMORY = "S(5)"


def name(plane_name: str) -> str | None:
    """The device a plane stands for, `gpu:0` or `tpu:3`; None for every other plane (SparseCores and custom ones
    too)."""
    match = _DEVICE.fullmatch(plane_name)
    return f"{match[1].lower()}:{match[2]}" if match else None


def is_truth(plane_name: str, line_name: str, line_id: int) -> bool:
    """Whether a line is to be decoded: all of the host's, of a device only those that do not repeat others."""
    if not plane_name.startswith("/device:"):
        return True
    device = name(plane_name) or ""
    return line_name.startswith("Stream #") if device.startswith("gpu") else bool(device) and line_name == "XLA Ops"


def plane_notes(space: XSpace) -> list[str]:
    """What the device planes lack: those without any event, and those that stand for no device that is counted."""
    empty = [name(plane.name) or "" for plane in space.planes if name(plane.name) and len(plane) == 0]
    other = [plane.name for plane in space.planes if plane.name.startswith("/device:") and not name(plane.name)]
    notes = []
    if empty:
        notes.append(f"No work was recorded on {', '.join(empty)}: their planes are empty.")
    if other:
        notes.append(f"Left out, being no GPU or TPU core: {', '.join(other)}.")
    return notes


def facts(host: str, plane: Plane) -> pd.DataFrame:
    """One row of DEVICE_COLUMNS with what the plane's stats say the device is and can do."""
    stats = plane.stats
    bandwidth = stats.get("memory_bandwidth")
    if bandwidth is None and stats.get("peak_hbm_bw_gigabytes_per_second"):
        bandwidth = round(stats["peak_hbm_bw_gigabytes_per_second"] * 10**9)
    flops = stats.get("peak_teraflops_per_second")
    model = stats.get("gpu_device_name") or stats.get("device_type_string") or stats.get("device_vendor")
    return frame(
        DEVICE_COLUMNS,
        {
            "host": [host],
            "device": [name(plane.name)],
            "model": [model],
            "memory_bandwidth_bytes_per_s": [bandwidth],
            "peak_flops_per_s": [None if flops is None else round(flops * 10**12)],
        },
    )


def read(host: str, plane: Plane, start: NDArray[np.int64] | None, opcode: Opcode) -> tuple[pd.DataFrame, list[str]]:
    """The rows of one device plane (EVENT_COLUMNS) and notes; `start` holds the events' starts in ps."""
    if start is None:
        return frame(EVENT_COLUMNS), []
    device = name(plane.name) or ""
    end = start + plane.duration_ps
    # Aggregated events have no time, and an overflowed duration is none: neither can be a row.
    good = (plane.occurrences < 0) & (plane.duration_ps >= 0) & (end >= start)
    rows = np.flatnonzero(good)
    notes = [f"{device}: {(~good).sum()} events without a valid time were left out."] if not good.all() else []
    if device.startswith("gpu"):
        return _gpu(host, device, plane, start, end, rows, opcode), notes
    found, more = _tpu(host, device, plane, start, end, rows)
    return found, notes + more


def _base(host: str, device: str, plane: Plane, rows: NDArray[np.int64]) -> dict[str, Any]:
    """The columns that need no judgement, for the events `rows`."""
    data: dict[str, Any] = {
        "host": constant(host, len(rows)),
        "device": constant(device, len(rows)),
        "lane": labelled(ops.line_names(plane), plane.line[rows]),
        "name": plane.names[rows],
        "hlo_op": plane.strings("hlo_op")[rows],
        "hlo_module": plane.strings("hlo_module")[rows],
    }
    for stat in ("correlation_id", "run_id", "group_id"):
        values, there = plane.numbers(stat)
        data[stat] = pd.arrays.IntegerArray(values[rows], ~there[rows])
    return data


def _gpu(
    host: str,
    device: str,
    plane: Plane,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    rows: NDArray[np.int64],
    opcode: Opcode,
) -> pd.DataFrame:
    """Every event of every stream is a row: the hardware ran it, alone or beside others."""
    data = _base(host, device, plane, rows)
    op, found = ops.opcodes(plane, rows, opcode)
    details = plane.strings("memcpy_details")[rows]
    copies = details.codes >= 0
    which, first = distinct(op, data["name"].codes, data["lane"].codes, copies)
    judged = [
        kinds.classify(
            data["name"][row],
            opcode=found[op[row]][1],
            typed=Kind.MEMCPY if copies[row] else None,
            lane=data["lane"][row],
        )
        for row in first
    ]
    data["kind"] = labelled([one.kind.value for one in judged], which)
    data["direction"] = labelled([one.direction for one in judged], which)
    data["known_by"] = labelled([one.known_by.value for one in judged], which)
    data["category"] = labelled([code for _, code in found], op)
    sizes = [_SIZE.search(text) for text in details.categories]
    size_of = np.array([int(match[1]) if match else -1 for match in sizes] + [-1], np.int64)[details.codes]
    data["bytes"] = pd.arrays.IntegerArray(size_of, size_of < 0)
    data["start_ps"], data["end_ps"] = start[rows], end[rows]
    return frame(EVENT_COLUMNS, data)


def _tpu(
    host: str, device: str, plane: Plane, start: NDArray[np.int64], end: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[pd.DataFrame, list[str]]:
    """Leaves of `XLA Ops`, with the two halves of an asynchronous copy or collective made one row."""
    ids, distinct = pd.factorize(plane.metadata_id[rows])
    seen = [_op(plane, int(one)) for one in distinct]
    control = np.array([kinds.is_control_flow(op["category"], op["name"]) for op in seen], bool)
    half = np.array([op["half"] for op in seen], object)
    pieces = ops.leaves(start[rows], end[rows], end[rows], plane.line[rows], control[ids] if len(rows) else control)
    at, starts, ends = pieces[:, 0], pieces[:, 1].copy(), pieces[:, 2].copy()
    wait = np.full(len(at), -1, np.int64)
    keep = np.ones(len(at), bool)
    open_halves: dict[str, list[int]] = {}
    single = 0
    for row in np.flatnonzero(half[ids[at]] != "").tolist():
        op = seen[ids[at[row]]]
        if op["half"] == "start":
            open_halves.setdefault(op["name"], []).append(row)
        elif waiting := open_halves.get(op["partner"]):
            first = waiting.pop(0)
            keep[row] = False
            wait[first], ends[first] = ends[row] - starts[row], ends[row]
        else:
            single += 1
            wait[row] = ends[row] - starts[row]
    unended = sum(map(len, open_halves.values()))
    at, starts, ends, wait = at[keep], starts[keep], ends[keep], wait[keep]

    data = _base(host, device, plane, rows[at])
    which = ids[at]
    for column in ("kind", "direction", "known_by", "category", "name"):
        data[column] = labelled([op[column] for op in seen], which)
    data["hlo_op"] = data["name"]
    data["start_ps"], data["end_ps"] = starts, ends
    data["wait_ps"] = pd.arrays.IntegerArray(wait, wait < 0)
    notes = []
    if single or unended:
        notes.append(
            f"{device}: {single} `-done` ops without their `-start` and {unended} without their `-done` "
            "were cut by the profile's edges; they are as long as what was seen."
        )
    return frame(EVENT_COLUMNS, data), notes


def _op(plane: Plane, event_id: int) -> dict[str, Any]:
    """Name, category, kind, direction, half ("start", "done" or "") and partner of one TPU op.

    The event's name is often the op's whole HLO text; the category is the `hlo_category` of its metadata, else its
    opcode.
    """
    metadata = plane.event_metadata(event_id)
    text = _HLO_TEXT.match(metadata.name)
    op_name = metadata.display_name or (text["name"] if text else metadata.name)
    opcode = text["opcode"] if text else ""
    category = metadata.stats.get("hlo_category") or opcode or None
    judged = opcode if opcode and kinds.whole(opcode) != opcode else category
    told = kinds.classify(op_name, opcode=judged)
    kind, way = told.kind, told.direction
    half = partner = ""
    if judged and kinds.whole(judged) == "copy" and judged != "copy":
        kind = Kind.MEMCPY
    if kind != Kind.COMPUTE and judged and judged.endswith(("-start", "-done")):
        half = judged.rpartition("-")[2]
        operands = _OPERAND.findall(text["operands"]) if text else []
        partner = operands[0] if operands else op_name.replace("-done", "-start")
        if kind == Kind.MEMCPY and way is None and text:
            way = _copy_direction(text["shape"])
    return {
        "name": op_name,
        "category": category,
        "kind": kind.value,
        "direction": way,
        "known_by": told.known_by.value,
        "half": half,
        "partner": partner,
    }


def _copy_direction(shape: str) -> str | None:
    """The direction of a `copy-start`, whose result is (destination, source, context); S(5) is the host's memory."""
    parts = re.split(r", (?=[a-z]+\d*\[)", shape.strip("()"))
    if len(parts) < 2:
        return None
    to_host, from_host = _HOST_MEMORY in parts[0], _HOST_MEMORY in parts[1]
    return "D2D" if to_host == from_host else "D2H" if to_host else "H2D"
