"""What each device of a trace can do at most, and whether the trace or a datasheet says so."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from tracekit.analysis.bandwidth.peaks import PEAKS, Peaks
from tracekit.columns import records
from tracekit.devices import type_of

TRACE, DATASHEET = "trace", "datasheet"


@dataclass(frozen=True)
class Limit:
    """A figure per second and who states it (TRACE or DATASHEET), or None for both and the `reason`."""

    per_s: float | None
    told_by: str | None
    reason: str = ""


@dataclass(frozen=True)
class Limits:
    """The limits of one device: FLOPs, bytes of its memory, of copies within it and, in one direction, of its links.

    `flops` is for dense products of 16-bit matrices: TPUs state that of bfloat16
    (https://cloud.google.com/tpu/docs/v6e), and it is what PEAKS holds.
    """

    flops: Limit
    memory: Limit
    within: Limit
    host_link: Limit
    device_link: Limit

    def of_copies(self, direction: str | None) -> Limit:
        """The limit of copies of a direction, None if the trace does not tell which."""
        if direction is None:
            return Limit(None, None, "the trace does not say between which memories they copy")
        if direction == "D2D":
            return self.within
        return self.device_link if direction == "P2P" else self.host_link


def limits(devices: pd.DataFrame) -> dict[str, Limits]:
    """The limits of the devices of a DEVICE_COLUMNS frame, by name; where the trace states a figure, it wins."""
    return {str(row["device"]): _limits(row) for row in records(devices) if not pd.isna(row["device"])}


def _limits(row: dict[str, Any]) -> Limits:
    model = "" if pd.isna(row["model"]) else str(row["model"])
    sheet = PEAKS.get(model, Peaks())
    source = f"no datasheet is known for {model!r}" if model else "nor which model the device is"

    def limit(quantity: str, stated: Any, datasheet: int | None) -> Limit:
        if not pd.isna(stated) and stated > 0:
            return Limit(float(stated), TRACE)
        if datasheet is not None:
            return Limit(float(datasheet), DATASHEET)
        return Limit(None, None, f"the trace does not state the {quantity}, {'and ' if model else ''}{source}")

    memory = limit("memory bandwidth", row["memory_bandwidth_bytes_per_s"], sheet.memory_bytes)
    # A copy within a GPU moves every byte twice: out of the memory and into it.
    within = Limit(None if memory.per_s is None else memory.per_s / 2, memory.told_by, memory.reason)
    if type_of(str(row["device"])) == "tpu":
        within = Limit(None, None, "a copy within a TPU may begin or end in its on-chip memory")
    return Limits(
        limit("peak FLOP/s", row["peak_flops_per_s"], sheet.flops),
        memory,
        within,
        limit("host link", None, sheet.host_link_bytes),
        limit("links between devices", None, sheet.device_link_bytes),
    )


UNKNOWN = _limits({"device": None, "model": None, "peak_flops_per_s": None, "memory_bandwidth_bytes_per_s": None})
