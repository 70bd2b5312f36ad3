"""The report of a fleet as large as you like, made from that of a small one: all that it says of a device is said of
that device on many more hosts, whose names are their own."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tracekit.report.model import Report

# The columns that name a device or a host.
_NAMES = ("device", "host", "a", "b")


def multiplied(report: Report, times: int) -> Report:
    """`report`, with `times` as many hosts: frames with a row per device have so many more rows, all others stay."""
    devices = set(report.clock_of)
    result = _multiplied(report, times, devices)
    clocks = {_named(device, copy): clock for copy in range(times) for device, clock in report.clock_of.items()}
    return replace(result, clock_of=clocks, explanation=_multiplied(report.explanation, times, devices))


def _named(name: Any, copy: int) -> Any:
    return f"r{copy:03}-{name}" if copy and isinstance(name, str) else name


def _multiplied(value: Any, times: int, devices: set[str]) -> Any:
    if isinstance(value, pd.DataFrame):
        return _more_rows(value, times, devices)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        return replace(value, **{name: _multiplied(part, times, devices) for name, part in parts.items()})
    return value


def _more_rows(table: pd.DataFrame, times: int, devices: set[str]) -> pd.DataFrame:
    names = [column for column in _NAMES if column in table and set(table[column].dropna().astype(str)) & devices]
    if not names or table.empty:
        return table
    result = pd.concat([table] * times, ignore_index=True)
    for name in names:
        codes, distinct = pd.factorize(table[name].astype(object))
        of_copies = [_named(its, copy) for copy in range(times) for its in [*distinct, None]]
        places = np.arange(times)[:, None] * (len(distinct) + 1) + np.where(codes < 0, len(distinct), codes)
        values = pd.Series(np.array(of_copies, object)[places.ravel()])
        result[name] = values if table[name].dtype == "category" else values.astype(table[name].dtype)
    return result


def with_noise(report: Report, seed: int = 0) -> Report:
    """`report`, in which no two ranks and steps took equally long: what compresses least."""
    steps = report.explanation.steps
    rng = np.random.default_rng(seed)
    by_device = steps.by_device.copy()
    for name in by_device.columns:
        if by_device[name].dtype == np.int64 and name not in ("place", "step"):
            by_device[name] = (by_device[name] * rng.uniform(0.5, 1.5, len(by_device))).astype(np.int64)
    return replace(report, explanation=replace(report.explanation, steps=replace(steps, by_device=by_device)))
