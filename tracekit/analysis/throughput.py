"""How many bytes moved at each moment, by device: copies by direction, and collectives."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.timeline.rows import CODE
from tracekit.timeline.timeline import Timeline
from tracekit.vocabulary.kinds import Kind

_PS = 10**12  # in a second


@dataclass(frozen=True)
class Throughput:
    """The step function of one device: from `edges[i]` ps until `edges[i + 1]`, `bytes_per_s[i]` moved; both (m,).

    `what` is the direction of copies ("unknown" where the trace does not say) or "collective". The last value is 0.
    `instant` rows with bytes take no time, so they have no rate and are in none.
    """

    device: str
    what: str
    edges: NDArray[np.int64]
    bytes_per_s: list[int]
    instant: int


def throughput(timeline: Timeline) -> Iterator[Throughput]:
    """The rates of the copies of each device by direction, and of its collectives, where the trace says their bytes.

    A row's bytes are spread evenly over its time, in whole bytes a second (rounded down), and rows that run at once
    add up. A collective's bytes are those of its message, so its rate is the algorithm's, with the wait in it.
    """
    rows = timeline.rows
    size, has_bytes = rows.numbers("bytes")
    directions = [*rows.labels("direction"), "unknown"]
    direction = np.where(rows.kind == CODE[Kind.COLLECTIVE], len(directions), rows.codes("direction") % len(directions))
    is_moved = has_bytes & ((rows.kind == CODE[Kind.MEMCPY]) | (rows.kind == CODE[Kind.COLLECTIVE]))
    for device, name in enumerate(rows.devices):
        device_rows = rows.of(device)
        moving_rows = device_rows.start + np.flatnonzero(is_moved[device_rows])
        for code, label in enumerate([*directions, "collective"]):
            places = moving_rows[direction[moving_rows] == code]
            if len(places):
                yield _step_function(name, label, rows.start[places], rows.end[places], size[places])


def _step_function(
    device: str, direction: str, start: NDArray[np.int64], end: NDArray[np.int64], size: NDArray[np.int64]
) -> Throughput:
    lasting = np.flatnonzero(end > start)
    instant = len(start) - len(lasting)
    start, end, size = start[lasting], end[lasting], size[lasting]
    # Python's integers: sums of such rates may pass int64, and must come back to 0 exactly.
    rate = [byte_count * _PS // time for byte_count, time in zip(size.tolist(), (end - start).tolist(), strict=True)]
    times = np.concatenate([start, end])
    order = np.argsort(times, kind="stable")
    changes = np.array([*rate, *(-drop for drop in rate)], object)[order]
    times = times[order]
    is_last = np.append(times[1:] != times[:-1], np.ones(min(len(times), 1), bool))
    return Throughput(device, direction, times[is_last], np.cumsum(changes)[is_last].tolist(), instant)
