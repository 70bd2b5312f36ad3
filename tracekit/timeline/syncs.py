"""What waited for what by order of the program: the rows that each synchronising call, or each lane, waited for."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.timeline.rows import Rows

Column = NDArray[np.int64]

# What a wait names where that is no lane: all lanes of its device, or one that ran nothing.
_ALL, _NO = -1, -2


@dataclass(frozen=True)
class Syncs:
    """What the n waits of a trace (SYNC_COLUMNS) waited for; a row is a place in Rows.

    `row` and `sync` (e,): of each lane that a wait waited for, the row that ended last, and the place of the wait.
    `awaited` (n,): of those the one that ended last, -1 where no work is known to have been launched before. `follower`
    (n,): where a lane waited, the first row that was launched on it from then on, else -1.
    """

    row: Column
    sync: Column
    awaited: Column
    follower: Column


def syncs(rows: Rows, launch: Column, launches: pd.DataFrame, table: pd.DataFrame) -> Syncs:
    """What each wait of `table` (SYNC_COLUMNS) waited for; `launch` (len(rows),) is as `Timeline.launch` has it.

    A wait is for all that was launched on its lane, or its device, before it was recorded, or else before it began.
    A row is launched when its call begins; one whose call the trace lacks, at the latest when it starts.
    """
    awaited, follower = np.full(len(table), -1), np.full(len(table), -1)
    row, sync = [awaited[:0]], [awaited[:0]]
    if len(table) == 0 or len(rows) == 0:
        return Syncs(row[0], sync[0], awaited, follower)
    launched_at = np.where(launch >= 0, np.append(launches["start_ps"].to_numpy(), 0)[launch], rows.start)
    width = len(rows.labels("lane"))
    lane_of_row = rows.device * width + rows.codes("lane")
    order = np.lexsort((launched_at, lane_of_row))
    rows_of_lane = {
        int(lane_of_row[lane_rows[0]]): lane_rows
        for lane_rows in np.split(order, np.flatnonzero(np.diff(lane_of_row[order])) + 1)
    }

    start = table["start_ps"].to_numpy()
    for (device, lane), waits in _by_lane(rows, table["device"], table["lane"]).items():
        lane_rows = rows_of_lane.get(device * width + lane)
        if lane >= 0 and lane_rows is not None:
            first_from = np.append(np.minimum.accumulate(lane_rows[::-1])[::-1], -1)
            follower[waits] = first_from[np.searchsorted(launched_at[lane_rows], start[waits])]

    is_recorded = table["recorded_ps"].notna().to_numpy(bool)
    moment = np.where(is_recorded, table["recorded_ps"].to_numpy(np.int64, na_value=0), start)
    for (device, lane), waits in _by_lane(rows, table["on_device"], table["on_lane"]).items():
        lanes = range(device * width, (device + 1) * width) if lane == _ALL else [device * width + lane]
        for lane_rows in (rows_of_lane[number] for number in lanes if number in rows_of_lane):
            is_last = rows.end[lane_rows] == np.maximum.accumulate(rows.end[lane_rows])
            last_until = lane_rows[np.maximum.accumulate(np.where(is_last, np.arange(len(lane_rows)), 0))]
            last = np.append(-1, last_until)[np.searchsorted(launched_at[lane_rows], moment[waits])]
            row.append(last[last >= 0])
            sync.append(waits[last >= 0])
    edge_row, edge_sync = np.concatenate(row), np.concatenate(sync)
    by_end = np.lexsort((edge_row, launched_at[edge_row], rows.end[edge_row], edge_sync))
    awaited[edge_sync[by_end]] = edge_row[by_end]  # the last to be written stays
    return Syncs(edge_row, edge_sync, awaited, follower)


def _by_lane(rows: Rows, device: pd.Series, lane: pd.Series) -> dict[tuple[int, int], Column]:
    """The waits that name each device and lane (its code, or _ALL), both of which ran rows."""
    devices = {name: code for code, name in enumerate(rows.devices)}
    lanes = {name: code for code, name in enumerate(rows.labels("lane"))}
    device_codes = np.array([*(devices.get(str(name), -1) for name in device.cat.categories), -1])
    lane_codes = np.array([*(lanes.get(str(name), _NO) for name in lane.cat.categories), _ALL])
    pair = np.column_stack([device_codes[device.cat.codes.to_numpy()], lane_codes[lane.cat.codes.to_numpy()]])
    pairs, number = np.unique(pair, axis=0, return_inverse=True)
    return {
        (device_code, lane_code): np.flatnonzero(number.reshape(-1) == place)
        for place, (device_code, lane_code) in enumerate(pairs.tolist())
        if device_code >= 0 and lane_code != _NO
    }
