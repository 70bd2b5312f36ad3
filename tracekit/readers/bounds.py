"""What no real trace holds, in a file of any format: work without a name, sizes that no machine moves, and so many or
so long names, devices or threads that a report of them would take far more memory than the file. What is behind a bound
is left out, and told.
"""

import hashlib
import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import by_label, categorical, concat, distinct, labels
from tracekit.readers import losses
from tracekit.readers.losses import Lost
from tracekit.trace import FRAME_COLUMNS, LOSS_COLUMNS, Trace
from tracekit.units import quantity
from tracekit.vocabulary.kinds import NAMELESS, KnownBy
from tracekit.vocabulary.losses import Loss

# More bytes than one event, and than all events of a file, can move (35 TB, 72 PB): int64 then holds every sum of them.
_MOST_BYTES, _MOST_BYTES_IN_ALL = 1 << 45, 1 << 56
# Names of kernels reach some thousand letters. Each table of a report holds them anew.
_MOST_LETTERS, _NAMES = 10_000, ("name", "hlo_op", "hlo_module", "program", "framework_op")
_FEW_TEXTS = 2048
# Of 200,000 names of device work, in 5 MB of XSpace, a report took 640 MB; with this bound it takes 477.
_MOST_NAMES, _OTHERS = 1 << 16, "(other names)"
_NAMED = {"events": "work", "launches": "calls"}
_MOST_DEVICES, _MOST_LANES, _MOST_THREADS = 10_000, 50_000, 20_000
# A phase has tables of its own, with a row for each device and each two of them, which takes half a kB.
_MOST_PHASES, _MOST_ROWS_OF_PHASES, _MOST_PAIRED = 200, 100_000, 1024
_OF_THREADS = ("spans", "launches", "syncs", "host_work")


def bounded(trace: Trace) -> Trace:
    """The trace of one file without what is behind the bounds; as it is, where it holds no more."""
    lost: list[Lost] = [] if Loss.KINDS in {*trace.losses["what"]} else _of_lost_names(trace.events)
    frames = {"events": trace.events, **{name: getattr(trace, name) for name in _OF_THREADS}}
    frames["events"] = _with_possible_sizes(_of_most_devices(frames["events"], lost), lost)
    frames |= _of_most_threads({name: frames[name] for name in _OF_THREADS}, lost)
    frames |= {name: _with_most_names(frames[name], what, lost) for name, what in _NAMED.items()}
    devices = len(frames["events"]["device"].cat.categories)
    frames["spans"] = _with_most_phases(frames["spans"], devices, lost)
    changed = {name: table for name, table in frames.items() if table is not getattr(trace, name)}
    if changed or lost:
        host = str(trace.hosts["host"].iloc[0]) if len(trace.hosts) else ""
        table = concat(LOSS_COLUMNS, [trace.losses, losses.table(host, lost)])
        trace = trace.changed(**changed, losses=table, notes=(*trace.notes, *losses.notes(lost)))
    return _with_short_names(trace)


def _of_lost_names(events: pd.DataFrame) -> list[Lost]:
    """The time of the work that has lost its name, where nothing else told its kind: it was taken for compute."""
    names = events["name"].cat
    is_nameless = np.append(names.categories.isin(NAMELESS), True)[names.codes]
    is_unknown = is_nameless & by_label(events["known_by"].array, lambda level: level == KnownBy.NOTHING, null=True)
    if not is_unknown.any():
        return []
    time_ps = (events["end_ps"] - events["start_ps"]).to_numpy()
    unknown_ps, all_ps = iv.sum_exactly(time_ps[is_unknown]), iv.sum_exactly(time_ps)
    return [Lost(Loss.KINDS, unknown_ps, all_ps, "work whose names are lost")]


def _with_possible_sizes(events: pd.DataFrame, lost: list[Lost]) -> pd.DataFrame:
    """The events; what moves fewer than 0 bytes, or more than a machine does, has a null size."""
    sizes = events["bytes"].to_numpy(np.int64, na_value=0)
    most = _MOST_BYTES
    if iv.sum_exactly(sizes[(sizes > 0) & (sizes <= most)]) > _MOST_BYTES_IN_ALL:
        most = _MOST_BYTES_IN_ALL // len(sizes)
    impossible = (sizes < 0) | (sizes > most)
    if not (count := int(impossible.sum())):
        return events
    lost.append(Lost(Loss.DETAILS, count, None, "sizes of copies and collectives that no machine moves"))
    return events.assign(bytes=events["bytes"].mask(impossible))


def _with_most_names(table: pd.DataFrame, what: str, lost: list[Lost]) -> pd.DataFrame:
    """The rows of a table; of more than _MOST_NAMES names those with most time are kept, and the others are one."""
    names = table["name"].cat
    if len(names.categories) <= _MOST_NAMES:
        return table
    codes = names.codes.to_numpy().astype(np.int64)
    times = np.bincount(codes, (table["end_ps"] - table["start_ps"]).to_numpy(), len(names.categories))
    count = int(np.count_nonzero(np.bincount(codes)))
    if count <= _MOST_NAMES:
        return table
    kept = np.sort(np.argsort(-times, kind="stable")[: _MOST_NAMES - 1])
    number = np.full(len(names.categories), len(kept))
    number[kept] = np.arange(len(kept))
    lost.append(Lost(Loss.DETAILS, count - len(kept), count, f'names of {what}, which are "{_OTHERS}" now'))
    return table.assign(name=categorical([*names.categories[kept], _OTHERS], number[codes]))


def _of_most_devices(events: pd.DataFrame, lost: list[Lost]) -> pd.DataFrame:
    """The events of the first _MOST_DEVICES devices and _MOST_LANES lanes."""
    devices, lanes = (len(events[name].cat.categories) for name in ("device", "lane"))
    for columns, count, most, what, name in (
        (["device"], devices, _MOST_DEVICES, Loss.PLANES, "devices"),
        (["device", "lane"], devices * lanes, _MOST_LANES, Loss.LINES, "lanes"),
    ):
        if count > most:
            which, first = distinct(*(events[column].cat.codes.to_numpy() for column in columns))
            if len(first) > most:
                lost.append(Lost(what, len(first) - most, len(first), f"{name} behind the first {most:,}"))
                events = _only(events, which < most, columns)
    return events


def _of_most_threads(tables: dict[str, pd.DataFrame], lost: list[Lost]) -> dict[str, pd.DataFrame]:
    """Of the tables of what the host did those rows that are of the first _MOST_THREADS threads."""
    columns = ["process", "thread"]
    most = sum(math.prod(len(table[name].cat.categories) for name in columns) for table in tables.values())
    if most <= _MOST_THREADS:
        return tables
    numbers: dict[tuple[str, str], int] = {}
    number_of: dict[str, NDArray[np.int64]] = {}
    for name, table in tables.items():
        which, first = distinct(*(table[column].cat.codes.to_numpy() for column in columns))
        pairs = table[columns].iloc[first].astype(object).itertuples(index=False)
        places = [numbers.setdefault((str(process), str(thread)), len(numbers)) for process, thread in pairs]
        number_of[name] = np.array(places, np.int64)[which]
    if len(numbers) <= _MOST_THREADS:
        return tables
    count = len(numbers)
    lost.append(Lost(Loss.LINES, count - _MOST_THREADS, count, f"threads of the host behind {_MOST_THREADS:,} others"))
    return {name: _only(table, number_of[name] < _MOST_THREADS, columns) for name, table in tables.items()}


def _with_most_phases(spans: pd.DataFrame, devices: int, lost: list[Lost]) -> pd.DataFrame:
    """The spans; only the first names of phases are, as many as a report of so many devices can hold."""
    pairs = devices**2 // 2 if devices <= _MOST_PAIRED else 0
    most = min(max(_MOST_ROWS_OF_PHASES // (devices + pairs + 1), 1), _MOST_PHASES)
    is_phase = spans["tracekit"].notna().to_numpy(bool, copy=True)
    if np.count_nonzero(is_phase) <= most:
        return spans
    which, first = distinct(spans["name"].cat.codes.to_numpy()[is_phase])
    if len(first) <= most:
        return spans
    lost.append(Lost(Loss.DETAILS, len(first) - most, len(first), f"phases behind the first {most}"))
    is_phase[is_phase] = which < most
    columns = {name: spans[name].where(is_phase) for name in ("tracekit", "alone", "baseline")}
    return spans.assign(**columns)


def _only(table: pd.DataFrame, is_kept: NDArray[np.bool_], columns: list[str]) -> pd.DataFrame:
    """The rows that are kept, with no more labels in the columns than they need."""
    table = table[is_kept].reset_index(drop=True)
    return table.assign(**{name: table[name].cat.remove_unused_categories() for name in columns})


def _with_short_names(trace: Trace) -> Trace:
    """The trace with its longest names shortened in their middle, where a number keeps them apart."""
    new: dict[str, str] = {}
    frames: dict[str, Any] = {}
    for name in FRAME_COLUMNS:
        table = getattr(trace, name)
        for column in (each for each in _NAMES if each in table):
            if long := {text: _short(text) for text in _long(table[column].array)}:
                renamed = table[column].cat.rename_categories(long)
                frames[name] = frames.get(name, table).assign(**{column: renamed})
                new |= long
    if not new:
        return trace
    note = f"{quantity(len(new), 'name')} of more than {_MOST_LETTERS:,} letters: their middle is left out."
    return trace.changed(**frames, notes=(*trace.notes, note))


def _long(column: pd.Categorical) -> list[str]:
    """The categories of a column that are too long."""
    texts = column.categories
    if len(texts) > _FEW_TEXTS:  # as Python's strings they would take more than pandas' check costs
        return [*texts[texts.str.len() > _MOST_LETTERS]]
    return [text for text in labels(column) if len(text) > _MOST_LETTERS]


def _short(text: str) -> str:
    half = _MOST_LETTERS // 2
    return f"{text[:half]}… {hashlib.sha256(text.encode()).hexdigest()[:12]} …{text[-half:]}"
