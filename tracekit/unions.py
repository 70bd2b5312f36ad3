"""The merged unions per device and kind, which every analysis starts from."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit import intervals as iv
from tracekit.intervals import Intervals
from tracekit.trace import DIRECTION_DTYPE, UNKNOWN_DEVICE_SUFFIX, Kind


@dataclass(frozen=True)
class Device:
    """What one device did, as merged interval sets in picoseconds; `memory` = memcpy and memset."""

    host: str
    compute: Intervals
    collective: Intervals
    memory: Intervals
    directions: Mapping[str, Intervals]

    @property
    def busy(self) -> Intervals:
        """Compute, collective or memory work."""
        return iv.union(self.compute, self.collective, self.memory)


@dataclass(frozen=True)
class Unions:
    """The devices of a trace inside `windows`, a merged interval set (usually one interval), in picoseconds.

    Rows whose device the trace does not prove stand in `unplaced` (one Device a host), apart from `devices`.
    """

    windows: Intervals
    devices: Mapping[str, Device]
    unplaced: Mapping[str, Device]

    def inside(self, windows: Intervals) -> "Unions":
        """The same devices, seen only inside `windows`."""
        windows = iv.union(windows)

        def cut(device: Device) -> Device:
            return Device(
                device.host,
                iv.intersection(device.compute, windows),
                iv.intersection(device.collective, windows),
                iv.intersection(device.memory, windows),
                {name: iv.intersection(one, windows) for name, one in device.directions.items()},
            )

        return Unions(
            windows,
            {name: cut(one) for name, one in self.devices.items()},
            {name: cut(one) for name, one in self.unplaced.items()},
        )


def unions(events: "pd.DataFrame | Unions", window: tuple[int, int] | None = None) -> Unions:
    """The unions of an events frame inside `window` [start, end) in ps, default first start to last end.

    Unions pass through unchanged (cut to `window` if one is given), so that analyses can share one pass over the rows.
    Without rows and window the window is empty.
    """
    if isinstance(events, Unions):
        return events if window is None else events.inside(np.array([window], np.int64))
    devices: dict[str, Device] = {}
    unplaced: dict[str, Device] = {}
    for (host, name), rows in events.groupby(["host", "device"], observed=True, sort=False):
        spans = iv.intervals(rows["start_ps"], rows["end_ps"])
        kind = rows["kind"].to_numpy()
        copies = rows["direction"].to_numpy()
        device = Device(
            str(host),
            iv.union(spans[kind == Kind.COMPUTE.value]),
            iv.union(spans[kind == Kind.COLLECTIVE.value]),
            iv.union(spans[(kind == Kind.MEMCPY.value) | (kind == Kind.MEMSET.value)]),
            {one: iv.union(spans[copies == one]) for one in DIRECTION_DTYPE.categories if (copies == one).any()},
        )
        (unplaced if str(name).endswith(UNKNOWN_DEVICE_SUFFIX) else devices)[str(name)] = device
    whole = np.empty((0, 2), np.int64)
    if len(events):
        whole = np.array([[events["start_ps"].min(), events["end_ps"].max()]], np.int64)
    made = Unions(iv.union(whole), {name: devices[name] for name in sorted(devices, key=natural)}, unplaced)
    return made if window is None else made.inside(np.array([window], np.int64))


def natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """A sort key that puts `gpu:2` before `gpu:10`."""
    return tuple((part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name))
