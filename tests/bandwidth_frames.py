"""Literal frames for tests of rates: devices with limits, ops with costs, copies with sizes."""

import pandas as pd

from tests.frames import events
from tracekit.analysis.bandwidth import Bandwidth, bandwidth
from tracekit.columns import frame
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import DEVICE_COLUMNS, OP_COLUMNS, Trace

US = 10**6  # in ps


def devices(*records) -> pd.DataFrame:
    """From (device, model, memory bandwidth, peak FLOP/s)."""
    columns = ["device", "model", "memory_bandwidth_bytes_per_s", "peak_flops_per_s"]
    return frame(DEVICE_COLUMNS, dict(zip(columns, zip(*records, strict=True), strict=True)))


def ops(*records) -> pd.DataFrame:
    """From (HLO op, FLOPs, bytes)."""
    columns = ["hlo_op", "flops", "bytes_accessed"]
    return frame(
        OP_COLUMNS, dict(zip(columns, zip(*records, strict=True), strict=True)) | {"program": ["p"] * len(records)}
    )


def copies(*records) -> pd.DataFrame:
    """Copies of gpu:0 from (direction, start, end, bytes)."""
    table = events(*[("gpu:0", "memcpy", start, end, "copy", way) for way, start, end, _ in records])
    table["bytes"] = pd.array([size for *_, size in records], "Int64")
    return table


def with_ops(table: pd.DataFrame, *of: int | None) -> pd.DataFrame:
    return table.assign(op=pd.array(of, "Int64"))


def rates(table, able=None, costs=None) -> Bandwidth:
    able = frame(DEVICE_COLUMNS) if able is None else able
    return bandwidth(timeline_of(Trace(table, ops=frame(OP_COLUMNS) if costs is None else costs, devices=able)))


ABLE = devices(("gpu:0", None, 10**12, 10**14))  # the ridge is at 100 FLOPs a byte
