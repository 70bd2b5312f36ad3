"""Did things run at the same time: copies and collectives behind compute, and devices beside each other."""

from itertools import combinations

import pandas as pd

from tracekit import intervals as iv
from tracekit.unions import Unions, unions

OVERLAP_COLUMNS = {
    "device": "str",
    "what": "str",
    "behind": "str",
    "hidden_ps": "int64",
    "total_ps": "int64",
    "ratio": "Float64",
    "reason": "str",
}


def overlap(events: pd.DataFrame | Unions, window: tuple[int, int] | None = None) -> pd.DataFrame:
    """How much of each device's collective and memory time ran behind its own compute.

    One row per device and `what` (collective, memory, and each copy direction that occurs): `hidden_ps` =
    |what & compute|, `total_ps` = |what|, `ratio` = hidden / total in 0..1, null with a `reason` if
    there was none of it. Work whose device is unknown is set against the compute of any device of its host.
    """
    seen = unions(events, window)
    rows = []
    for name, device in [*seen.devices.items(), *seen.unplaced.items()]:
        compute, behind = device.compute, "compute"
        if name in seen.unplaced:
            compute = iv.union(*(one.compute for one in seen.devices.values() if one.host == device.host))
            behind = "compute of any device"
        whats = {"collective": device.collective, "memory": device.memory, **device.directions}
        for what, held in whats.items():
            if what == "collective" and name in seen.unplaced and not len(held):
                continue
            total = iv.total(held)
            hidden = iv.total(iv.intersection(held, compute))
            ratio = hidden / total if total else None
            rows.append((name, what, behind, hidden, total, ratio, None if total else f"no {what} work in the window"))
    return pd.DataFrame(rows, columns=list(OVERLAP_COLUMNS)).astype(OVERLAP_COLUMNS)


PAIR_COLUMNS = {
    "a": "str",
    "b": "str",
    "overlap_ps": "Int64",
    "ratio_min": "Float64",
    "ratio_union": "Float64",
    "reason": "str",
}


def device_pairs(events: pd.DataFrame | Unions, window: tuple[int, int] | None = None) -> pd.DataFrame:
    """How long each two devices were busy at the same time.

    One row per pair: `overlap_ps` = |Ba & Bb|, `ratio_min` = that over the shorter busy time, `ratio_union` = that over
    the time either was busy; null with a `reason` where a device did nothing. Where two devices are on clocks that were
    not compared, all three are null: their overlap is not known.
    """
    seen = unions(events, window)
    busy = {name: device.busy for name, device in seen.devices.items()}
    lengths = {name: iv.total(held) for name, held in busy.items()}
    rows: list[tuple[str, str, int | None, float | None, float | None, str | None]] = []
    for a, b in combinations(busy, 2):
        if seen.devices[a].clock != seen.devices[b].clock:
            rows.append((a, b, None, None, None, "their hosts' clocks are not aligned"))
            continue
        both = iv.total(iv.intersection(busy[a], busy[b]))
        shorter = min(lengths[a], lengths[b])
        either = lengths[a] + lengths[b] - both
        idle = " and ".join(name for name in (a, b) if not lengths[name])
        reason = f"{idle} did nothing in the window" if idle else None
        rows.append((a, b, both, both / shorter if shorter else None, both / either if shorter else None, reason))
    return pd.DataFrame(rows, columns=list(PAIR_COLUMNS)).astype(PAIR_COLUMNS)


def concurrency(events: pd.DataFrame | Unions, window: tuple[int, int] | None = None) -> pd.DataFrame:
    """For how long exactly k devices were busy: `devices` = k from 0 to all of them, `time_ps`; they sum to the
    window.

    No rows where the devices are on several clocks: how many were busy at once is then not known.
    """
    seen = unions(events, window)
    times: list[int] = []
    if len(seen.windows) < 2:
        edges, count = iv.depth(*(device.busy for device in seen.devices.values()))
        lengths = edges[1:] - edges[:-1]
        times = [iv.sum_exactly(lengths[count[:-1] == k]) for k in range(len(seen.devices) + 1)]
        times[0] = sum(map(iv.total, seen.windows.values())) - sum(times[1:])
    return pd.DataFrame({"devices": range(len(times)), "time_ps": times}).astype("int64")
