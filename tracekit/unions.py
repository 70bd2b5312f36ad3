"""The merged unions per device and kind, which every analysis starts from."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit import intervals as iv
from tracekit.intervals import Intervals
from tracekit.rows import clock_of_hosts, natural
from tracekit.trace import DIRECTION_DTYPE, KIND_DTYPE, UNKNOWN_DEVICE_SUFFIX, Kind

_CODE = {Kind(kind): code for code, kind in enumerate(KIND_DTYPE.categories)}


@dataclass(frozen=True)
class Device:
    """What one device did, as merged interval sets in picoseconds; `memory` = memcpy and memset.

    `clock` names the clock that its times are on, "" where the trace has only one.
    """

    host: str
    clock: str
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
    """The devices of a trace inside `windows`: by clock a merged interval set (usually one interval), in picoseconds.

    Times on different clocks are never compared. Rows whose device the trace does not prove stand in `unplaced` (one
    Device a host), apart from `devices`.
    """

    windows: Mapping[str, Intervals]
    devices: Mapping[str, Device]
    unplaced: Mapping[str, Device]

    def inside(self, windows: Intervals | Mapping[str, Intervals]) -> "Unions":
        """The same devices, seen only inside `windows`; an interval set counts on every clock, a mapping by clock."""
        if not isinstance(windows, Mapping):
            windows = dict.fromkeys(self.windows or [""], windows)
        within = {clock: iv.union(windows.get(clock, iv.EMPTY)) for clock in self.windows or windows}

        def cut(device: Device) -> Device:
            window = within[device.clock]
            return Device(
                device.host,
                device.clock,
                iv.intersection(device.compute, window),
                iv.intersection(device.collective, window),
                iv.intersection(device.memory, window),
                {name: iv.intersection(one, window) for name, one in device.directions.items()},
            )

        return Unions(
            within,
            {name: cut(one) for name, one in self.devices.items()},
            {name: cut(one) for name, one in self.unplaced.items()},
        )


def unions(events: "pd.DataFrame | Unions", window: tuple[int, int] | None = None) -> Unions:
    """The unions of an events frame inside `window` [start, end) in ps, default first start to last end.

    Unions pass through unchanged (cut to `window` if one is given), so that analyses can share one pass over the rows.
    Each clock has a default window of its own. Without rows and window there is none.
    """
    if isinstance(events, Unions):
        return events if window is None else events.inside(np.array([window], np.int64))
    clocks = clock_of_hosts(events)
    devices: dict[str, Device] = {}
    unplaced: dict[str, Device] = {}
    needed = events[["host", "device", "kind", "direction", "start_ps", "end_ps"]]
    for (host, name), rows in needed.groupby(["host", "device"], observed=True, sort=False):
        spans = iv.intervals(rows["start_ps"], rows["end_ps"])
        kind = rows["kind"].cat.codes.to_numpy()
        copies = rows["direction"].cat.codes.to_numpy()
        device = Device(
            str(host),
            clocks[str(host)],
            iv.union(spans[kind == _CODE[Kind.COMPUTE]]),
            iv.union(spans[kind == _CODE[Kind.COLLECTIVE]]),
            iv.union(spans[(kind == _CODE[Kind.MEMCPY]) | (kind == _CODE[Kind.MEMSET])]),
            {
                way: iv.union(spans[copies == code])
                for code, way in enumerate(DIRECTION_DTYPE.categories)
                if (copies == code).any()
            },
        )
        (unplaced if str(name).endswith(UNKNOWN_DEVICE_SUFFIX) else devices)[str(name)] = device
    ends = events.groupby("host", observed=True, sort=False).agg({"start_ps": "min", "end_ps": "max"})
    whole: dict[str, list[tuple[int, int]]] = {}
    for host, start, end in ends.itertuples():
        whole.setdefault(clocks[str(host)], []).append((start, end))
    windows = {
        clock: iv.intervals([min(start for start, _ in parts)], [max(end for _, end in parts)])
        for clock, parts in whole.items()
    }
    made = Unions(windows, {name: devices[name] for name in sorted(devices, key=natural)}, unplaced)
    return made if window is None else made.inside(np.array([window], np.int64))
