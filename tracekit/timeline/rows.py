"""The rows of an events frame as numpy columns, by device and start, sorted once for all analyses; their launches."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import by_label, places_of
from tracekit.correlation import Calls, DeviceRows, calls_of_ids, calls_of_rows
from tracekit.devices import is_known, natural
from tracekit.trace import KIND_DTYPE
from tracekit.vocabulary.copies import moves_unified_memory
from tracekit.vocabulary.host_calls import launches as asks_for_work
from tracekit.vocabulary.kinds import Kind

# The code of each kind in `Rows.kind`.
CODE = {Kind(kind): code for code, kind in enumerate(KIND_DTYPE.categories)}

FEWEST_MOVES = 10
"""So often unified memory has to be moved for it to matter: a page fault takes some tens of us."""

T = TypeVar("T")


@dataclass(frozen=True)
class Rows:
    """n rows by device, then start, then end, then place in the frame; columns have shape (n,), times are in ps.

    Each is on a `device` (its place in `devices`) from `start` to `end`, and of a `kind` (its place among Kind).
    `devices` are the names of the d devices that have rows, in natural order; `hosts`, `clocks` and `placed` say of
    each (d,) its host, its clock ("" where the trace has one) and whether it is a device at all and not `cpu:?`. The
    rows of device k are `first[k]` to `first[k + 1]`. `at` is the place of each row in `events`. `count` (n,) says for
    how many rows of its file each stands (Trace.counts); None where each is one.
    """

    events: pd.DataFrame
    devices: tuple[str, ...]
    hosts: tuple[str, ...]
    clocks: tuple[str, ...]
    placed: tuple[bool, ...]
    first: NDArray[np.int64]
    at: NDArray[np.int64]
    device: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    kind: NDArray[np.int8]
    count: NDArray[np.int64] | None = None
    _cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _lock: RLock = field(default_factory=RLock, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.at)

    def of(self, device: int) -> slice:
        """Where the rows of device k stand."""
        return slice(int(self.first[device]), int(self.first[device + 1]))

    def count_of(self, device: int) -> int:
        """How many rows of its file those of device k stand for."""
        its = self.of(device)
        return its.stop - its.start if self.count is None else int(self.count[its].sum())

    @property
    def is_placed(self) -> NDArray[np.bool_]:
        """Which rows are on a device that is known, and not on `cpu:?`, shape (n,)."""
        return np.array(self.placed, bool)[self.device]

    @property
    def is_migration(self) -> NDArray[np.bool_]:
        """Which rows are unified memory that the driver moved by itself, as something touched it, shape (n,)."""

        def is_migration() -> NDArray[np.bool_]:
            names = np.array([*map(moves_unified_memory, self.labels("name")), False])
            is_named: NDArray[np.bool_] = names[self.codes("name")] if names.any() else np.zeros(len(self), bool)
            is_copy: NDArray[np.bool_] = self.kind == CODE[Kind.MEMCPY]
            return is_named & is_copy

        return self._once("is migration", is_migration)

    def on_clock(self, clock: str) -> list[int]:
        """The devices on a clock."""
        return [device for device, name in enumerate(self.clocks) if name == clock]

    def same_clock(self, device: int) -> NDArray[np.bool_]:
        """Which devices are on the clock of device k, shape (d,)."""
        own = self.clocks[device]
        return self._once(f"clock {own}", lambda: np.array([clock == own for clock in self.clocks], bool))

    def number(self, device: str) -> int:
        """The place of a device in `devices`."""
        places = self._once("numbers", lambda: {name: place for place, name in enumerate(self.devices)})
        return places[device]

    def _once(self, key: str, make: Callable[[], T]) -> T:
        """What `make` gives, kept."""
        with self._lock:
            if key not in self._cache:
                self._cache[key] = make()
            return cast(T, self._cache[key])

    def codes(self, column: str) -> NDArray[np.int64]:
        """The codes of a categorical column, -1 for null, shape (n,); they index `self.labels(column)`."""
        # Kept in the few bytes that pandas takes for them: a column of int64 is 8 MB a million rows.
        return self._codes(column).astype(np.int64)

    def codes_at(self, column: str, places: NDArray[np.integer[Any]] | slice) -> NDArray[np.int64]:
        """The same of some rows, such as those of one device."""
        return self._codes(column)[places].astype(np.int64)

    def _codes(self, column: str) -> NDArray[np.integer[Any]]:
        return self._once(f"codes {column}", lambda: self.events[column].cat.codes.to_numpy()[self.at])

    def labels(self, column: str) -> list[str]:
        """The categories of a categorical column."""
        return self._once(f"labels {column}", lambda: [str(label) for label in self.events[column].cat.categories])

    def has(self, column: str) -> NDArray[np.bool_]:
        """Which rows have a value in a column, shape (n,)."""
        return self._once(f"has {column}", lambda: self.events[column].notna().to_numpy(bool)[self.at])

    def numbers(self, column: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The values of an Int64 column, 0 where null, and which are there; both (n,)."""
        has_value = self.has(column)
        if not has_value.any():
            return np.zeros(len(self), np.int64), has_value
        # Not kept: most are asked for once or twice, and each is 8 MB a million rows.
        return self.events[column].to_numpy(np.int64, na_value=0)[self.at], has_value


def rows(events: pd.DataFrame, counts: pd.DataFrame | None = None) -> Rows:
    """The rows of an events frame (EVENT_COLUMNS), of which some stand for several as `counts` (COUNT_COLUMNS) say. A
    device is told by its name, which is unique over the trace."""
    device = events["device"].cat
    code = device.codes.to_numpy().astype(np.int64)
    labels = [str(label) for label in device.categories]
    codes_present = np.flatnonzero(np.bincount(code, minlength=len(device.categories)))
    codes_present = np.array(sorted(codes_present.tolist(), key=lambda code: natural(labels[code])), np.int64)
    number = np.zeros(len(device.categories), np.int64)
    number[codes_present] = np.arange(len(codes_present))
    number = number[code]
    start, end = events["start_ps"].to_numpy(), events["end_ps"].to_numpy()
    first = np.append(0, np.cumsum(np.bincount(number, minlength=len(codes_present))))
    order = _order(number, first, start, end)
    host, clock = (_labels_at(events[column], order[first[:-1]]) for column in ("host", "clock"))
    names = tuple(labels[code] for code in codes_present)
    return Rows(
        events,
        devices=names,
        hosts=host,
        clocks=clock,
        placed=tuple(map(is_known, names)),
        first=first,
        at=order,
        device=number[order],
        start=start[order],
        end=end[order],
        kind=events["kind"].cat.codes.to_numpy().astype(np.int8)[order],
        count=None if counts is None or not len(counts) else _counts(len(events), counts)[order],
    )


def _counts(length: int, counts: pd.DataFrame) -> NDArray[np.int64]:
    """For how many rows of the file each of so many events stands."""
    count = np.ones(length, np.int64)
    count[counts["event"].to_numpy()] = counts["rows"].to_numpy()
    return count


def _labels_at(column: pd.Series, places: NDArray[np.int64]) -> tuple[str, ...]:
    """What a categorical column holds in some places, "" where it is null."""
    labels = [*map(str, column.cat.categories), ""]
    return tuple(labels[code] for code in column.cat.codes.to_numpy()[places])


def _order(
    device: NDArray[np.int64], first: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The order by device, start and end, stable; linear where the rows are in order already.

    `first` (d + 1,): where the rows of each device begin in that order.
    """
    # Numbers of two bytes a stable sort orders in linear time, and the streams of a device are runs that it merges.
    places = np.argsort(device.astype(np.min_scalar_type(len(first))), kind="stable")
    for low, high in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        device_places = places[low:high]
        starts = start[device_places]
        if (starts[1:] < starts[:-1]).any():
            order = np.argsort(starts, kind="stable")
            device_places[:], starts = device_places[order], starts[order]
        # Few rows start at once with another, so only those are sorted by their ends.
        tied = starts[1:] == starts[:-1]
        tied_places = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
        tied_rows = device_places[tied_places]
        device_places[tied_places] = tied_rows[np.lexsort((end[tied_rows], start[tied_rows]))]
    return places


def clock_of_hosts(rows: Rows) -> dict[str, str]:
    """The clock of every host that has rows; "" where the trace has only one."""
    return dict(zip(rows.hosts, rows.clocks, strict=True))


def processes(*tables: pd.DataFrame) -> list[NDArray[np.int64]]:
    """The process of each row of `tables` (launches, spans or syncs) as a number, the same for the same host and
    process of any of them; (len(table),) each. Threads of a host whose process is not told are of one process."""
    numbers: dict[tuple[str, str | None], int] = {}
    columns = []
    for table in tables:
        host, process = table["host"].cat, table["process"].cat
        labels = [*map(str, process.categories), None]
        pair = host.codes.to_numpy().astype(np.int64) * len(labels) + process.codes.to_numpy() % len(labels)
        pairs, which = np.unique(pair, return_inverse=True)
        keys = [(str(host.categories[code // len(labels)]), labels[code % len(labels)]) for code in pairs.tolist()]
        columns.append(np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)[which])
    return columns


def launch_of(rows: Rows, launches: pd.DataFrame) -> NDArray[np.int64]:
    """The launch that started each row: the place in `launches` of the call of its host with its correlation id.

    Shape (len(rows),); -1 where the row has no id, no call has it, or several have that nothing tells apart
    (`tracekit.correlation`). One call may start several rows (a CUDA graph).
    """
    launch = np.full(len(rows), -1)
    ids, has_id = rows.numbers("correlation_id")
    has_call_id = launches["correlation_id"].notna().to_numpy(bool)
    call_ids = launches["correlation_id"].to_numpy(np.int64, na_value=0)
    # The places of the calls and of the rows with an id, by host: looked for host by host, a thousand take seconds.
    hosts, names = launches["host"].cat.categories, rows.labels("host")
    calls_of = places_of(np.where(has_call_id, launches["host"].cat.codes.to_numpy(), -1), len(hosts))
    rows_of = dict(zip(names, places_of(np.where(has_id, rows.codes("host"), -1), len(names)), strict=True))
    for host, calls in zip(map(str, hosts), calls_of, strict=True):
        host_rows = rows_of.get(host)
        if len(calls) == 0 or host_rows is None or len(host_rows) == 0:
            continue
        own_ids, ids_of_calls = ids[host_rows], call_ids[calls]
        call = calls_of_ids(own_ids, ids_of_calls)
        if call is None:  # what else is told of both says which call is meant
            device, lane = rows.device[host_rows], rows.codes_at("lane", host_rows)
            own_rows = DeviceRows(own_ids, rows.start[host_rows], device, lane)
            call, _ = calls_of_rows(own_rows, _calls(launches, calls, ids_of_calls))
        launch[host_rows] = np.append(calls, -1)[call]
    return launch


def _calls(launches: pd.DataFrame, places: NDArray[np.int64], ids: NDArray[np.int64]) -> Calls:
    """Some of the calls, with their ids."""
    start, end = (launches[edge].to_numpy()[places] for edge in ("start_ps", "end_ps"))
    process = launches["process"].cat.codes.to_numpy()[places].astype(np.int64) + 1
    return Calls(ids, start, end, process, by_label(launches["name"].array[places], asks_for_work).astype(bool))
