"""What else the machine did during a capture: on busy cores a speedup of CPU devices is that of the machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from tracekit import notebook
from tracekit.columns import frame, records
from tracekit.cores import are_too_few
from tracekit.devices import type_of
from tracekit.timeline.timeline import Timeline

LOAD_COLUMNS = {
    "phase": "str",
    "cores": "int64",
    "needed_cores": "int64",
    "own_cores": "Float64",
    "other_cores": "Float64",
    "stolen_cores": "Float64",
    "is_busy": "bool",
    "frequency_mhz": "Float64",
}
# Of a shorter capture, a tick of 10 ms on each core would be more than a twentieth of its cores: half of what matters.
_SHORTEST_NS = 200_000_000
NOT_CAPTURED = "the trace does not say what else the machine did; tracekit capture records it"


@dataclass(frozen=True, repr=False)
class Machine(notebook.Result, load="phase cores own_cores other_cores is_busy"):
    """The load of the machine during a capture.

    `load` (LOAD_COLUMNS): one row for the capture, whose `phase` is null, and one per phase that counts. `cores` are
    those that the program might use, `needed_cores` those that its devices or its host thread needed; `own_cores` used
    the program with its child processes, `other_cores` other processes on those cores, `stolen_cores` other virtual
    machines: averages, null where the system does not tell. `is_busy`: too few were left. `frequency_mhz`: the median.
    `load_average` is that of the last minute, at the begin and at the end. `throttled_periods` and `throttled_s`: how
    often and for how long a cgroup withheld the cores. `reasons` say why something is null. `lacking`: why all is.
    """

    load: pd.DataFrame
    load_average: tuple[float, ...] = ()
    throttled_periods: int | None = None
    throttled_s: float | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    lacking: str = ""

    def during(self, phase: str | None = None) -> dict[str, Any] | None:
        """The row of a phase, or of the capture, where other work took cores that were needed; else None."""
        rows = self.load[self.load["phase"].isna() if phase is None else self.load["phase"] == phase]
        return records(rows)[0] if len(rows) and rows["is_busy"].iloc[0] else None


def machine(timeline: Timeline) -> Machine:
    """What else the machine did during the capture of a timeline, and inside each phase whose windows count.

    CPU time is sampled about four times a second: the figures of a shorter window are those of the samples around it.
    """
    record = (timeline.trace.capture or {}).get("machine")
    try:
        return _machine(timeline, record)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # Of a file that something else wrote or changed.
        return Machine(frame(LOAD_COLUMNS), lacking=NOT_CAPTURED)


def _machine(timeline: Timeline, record: Any) -> Machine:
    cores, samples = int(record["cores"]), record["samples"]
    times = np.asarray(samples["unix_ns"], np.int64)
    rows = [_row(None, np.array([[times[0], times[-1]]]), times, samples)]
    origins = timeline.trace.hosts["origin_ns"].dropna().unique()
    if timeline.windows is not None and len(origins) == 1:
        for name, windows in timeline.windows.groupby("name", sort=False):
            at = windows[["start_ps", "end_ps"]].to_numpy(np.int64) // 1000 + int(origins[0])
            rows.append(_row(str(name), np.clip(at, times[0], times[-1]), times, samples))
    devices = sum(type_of(name) == "cpu" and len(its.busy) > 0 for name, its in timeline.unions.devices.items())
    needed = max(1, min(devices, cores))
    load = pd.DataFrame([row for row in rows if row]).assign(cores=cores, needed_cores=needed)
    taken = (load["other_cores"] + load["stolen_cores"]).astype("Float64")
    load["is_busy"] = [are_too_few(cores, most, needed) for most in taken.fillna(0.0)]
    throttled = record["throttled"] or {}
    return Machine(
        frame(LOAD_COLUMNS, load),
        load_average=tuple(float(value) for value in record["load_average"] if value is not None),
        throttled_periods=throttled.get("periods"),
        throttled_s=throttled.get("throttled_s"),
        reasons={str(key): str(value) for key, value in record["lacking"].items()},
    )


def _row(phase: str | None, windows: Any, times: Any, samples: Mapping[str, Any]) -> dict[str, Any]:
    """The average load inside windows of Unix nanoseconds, shape (n, 2); empty where they are too short for one."""
    length = int(np.diff(windows).sum())
    row: dict[str, Any] = {"phase": phase}
    for who in ("own", "other", "stolen"):
        series = samples[f"{who}_cpu_s"]
        if series is None or (phase is None and length < _SHORTEST_NS) or length <= 0:
            row[f"{who}_cores"] = None
        else:
            # Relative to the first sample, as float64 does not hold Unix nanoseconds.
            spent = np.interp(windows - times[0], times - times[0], np.asarray(series, float))
            row[f"{who}_cores"] = max(0.0, float(np.diff(spent).sum()) / (length / 10**9))
    frequency = samples["frequency_mhz"]
    row["frequency_mhz"] = None if frequency is None else float(np.median(frequency))
    return row
