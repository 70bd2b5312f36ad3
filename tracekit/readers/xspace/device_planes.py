"""Which planes are devices, which of their lines are the truth, and what the planes say of the device itself."""

import re
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import frame
from tracekit.devices import is_sparse_core, number, type_of
from tracekit.readers.xspace import gpu_plane, plane_ops, tpu_plane
from tracekit.readers.xspace.host_events import Calls
from tracekit.readers.xspace.plane_ops import DeviceRows, Lookup, PlaneEvents
from tracekit.readers.xspace.planes import Plane, XSpace
from tracekit.readers.xspace.tpu_launches import ProgramLaunches
from tracekit.trace import DEVICE_COLUMNS, EVENT_COLUMNS

STATS = (*gpu_plane.STATS, *tpu_plane.STATS)

_DEVICE = re.compile(r"/device:(GPU|TPU):(\d+)")
_SPARSE_CORE = re.compile(r"/device:TPU:(\d+) SparseCore(?: ([a-zA-Z]+))? (\d+)")
# No event of a profile is as long as this, a day; where the profile says how long it was, none is longer than that.
_LONGEST_PS = 86_400 * 10**12


@dataclass(frozen=True)
class Context:
    """What is known of a file beside the plane that is read: the host's name, the number of its GPUs, how long its
    profile ran (None if it does not say), what HLO says of its ops, the calls of its host, and those that started
    programs on TPUs."""

    host: str
    gpus: int
    profile_ps: int | None
    lookup: Lookup
    calls: Calls
    program_launches: ProgramLaunches


def name(plane_name: str) -> str | None:
    """The device a plane stands for: `gpu:0`, `tpu:3`, `tpu:3/sc:1` for a SparseCore of that chip; None for every
    other plane, custom ones too."""
    if match := _DEVICE.fullmatch(plane_name):
        return f"{match[1].lower()}:{match[2]}"
    if match := _SPARSE_CORE.fullmatch(plane_name):
        return f"tpu:{match[1]}/sc{'-' + match[2].lower() if match[2] else ''}:{match[3]}"
    return None


def is_truth(plane_name: str, line_name: str, line_id: int) -> bool:
    """Whether a line is to be decoded: all of the host's, of a device only those that do not repeat others, and those
    whose meaning is not known."""
    if not plane_name.startswith("/device:"):
        return True
    device = name(plane_name) or ""
    if type_of(device) == "gpu":
        return line_name not in gpu_plane.DERIVED
    return bool(device) and line_name in tpu_plane.LINES


def plane_notes(space: XSpace) -> list[str]:
    """What the device planes lack: those without any event, those that stand for no device that is counted, and which
    devices are SparseCores."""
    devices = [(plane, name(plane.name) or "") for plane in space.planes if plane.name.startswith("/device:")]
    empty = [device for plane, device in devices if device and len(plane) == 0]
    other = [plane.name for plane, device in devices if not device]
    cores = [device for plane, device in devices if is_sparse_core(device) and len(plane)]
    notes = []
    if empty:
        notes.append(f"No work was recorded on {', '.join(empty)} (empty planes).")
    if other:
        notes.append(f"Skipped (not a GPU or TPU core): {', '.join(other)}.")
    if cores:
        notes.append(
            f"SparseCores count as devices of their own, beside the TensorCore of their chip: {', '.join(cores)}."
        )
    return notes


def waits(space: XSpace) -> dict[int, tuple[str, str]]:
    """The device and the lane on which the GPU planes hold a record of waiting, by its correlation id."""
    places: dict[int, tuple[str, str]] = {}
    for plane in space.planes:
        device = name(plane.name) or ""
        if type_of(device) != "gpu":
            continue
        rows = gpu_plane.waits(plane)
        lanes = plane_ops.line_names(plane)
        ids, has_id = plane.numbers("correlation_id")
        places.update((int(ids[row]), (device, lanes[plane.line[row]])) for row in rows[has_id[rows]])
    return places


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
            "peak_flops_per_s": [round(flops * 10**12) if flops else None],
        },
    )


def read(plane: Plane, start: NDArray[np.int64], context: Context) -> DeviceRows:
    """The rows of one device plane; `start` (n,) holds the events' starts in ps."""
    if len(plane) == 0:
        return DeviceRows(frame(EVENT_COLUMNS), [], [])
    device = name(plane.name) or ""
    end = start + plane.duration_ps
    # Aggregated events have no time, and an overflowed duration is none: neither can be a row.
    valid = (plane.occurrences < 0) & (plane.duration_ps >= 0) & (end >= start)
    valid &= plane.duration_ps <= (context.profile_ps or _LONGEST_PS)
    events = PlaneEvents(plane, start, end, np.flatnonzero(valid))
    if type_of(device) == "gpu":
        gpu = gpu_plane.Gpu(context.host, device, number(device) or 0, alone=context.gpus == 1, calls=context.calls)
        rows = gpu_plane.read(gpu, events, context.lookup)
    else:
        rows = tpu_plane.read(context.host, device, events, context.lookup, context.program_launches)
    if valid.all():
        return rows
    return replace(rows, notes=[f"{(~valid).sum()} events without a valid time were skipped.", *rows.notes])
