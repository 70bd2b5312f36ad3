"""Records of the host's threads from several tables: their threads as numbers, and what stands around each."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import by_label, distinct
from tracekit.readers.nested import innermost, outermost
from tracekit.timeline.timeline import Timeline
from tracekit.vocabulary.host_calls import (
    calls_runtime,
    frame_line,
    frame_of_jax,
    is_frame,
    of_any_call,
    operator,
    says_waiting,
)

THREAD = ("host", "process", "thread")
RECORD = (*THREAD, "name", "start_ps", "end_ps")

Column = NDArray[np.int64]
# Ranges of threads: the number of the thread, start, end and the text of each.
_Ranges = tuple[Column, Column, Column, NDArray[Any]]


def plain(table: pd.DataFrame) -> pd.DataFrame:
    """The columns of a record of a thread, texts as objects."""
    texts = {name: table[name].astype(object) for name in RECORD[:4]}
    return pd.DataFrame({**texts, **{name: table[name] for name in RECORD[4:]}})


def thread_numbers(*tables: pd.DataFrame) -> list[Column]:
    """The number of the thread of each row of the tables; the same thread has one number in all."""
    return np.split(joined_thread_numbers(*tables), np.cumsum([len(table) for table in tables])[:-1])


def joined_thread_numbers(*tables: pd.DataFrame) -> Column:
    """The same, of all tables one after the other."""
    columns = []
    for name in THREAD:
        known: dict[str, int] = {}
        columns.append(np.concatenate([_codes(table[name], known) for table in tables]))
    return distinct(*columns)[0]


def text_numbers(column: str, *tables: pd.DataFrame) -> tuple[NDArray[np.int32], list[str]]:
    """The numbers of the texts of a column of all tables, one after the other, and the text of each number."""
    known: dict[str, int] = {}
    return np.concatenate([_codes(table[column], known) for table in tables]), list(known)


def _codes(column: pd.Series, known: dict[str, int]) -> NDArray[np.int32]:
    """The number of each text, those that are `known` and new ones; -1 of null."""
    texts = column.array if isinstance(column.dtype, pd.CategoricalDtype) else pd.Categorical(column)
    return by_label(texts, lambda text: known.setdefault(str(text), len(known)), -1).astype(np.int32)


def is_repeated(launches: pd.DataFrame) -> NDArray[np.bool_]:
    """Which of n calls (LAUNCH_COLUMNS) lie in one of the same name, id and thread: old exports of nsys hold a call and
    what it is inside (`cudaMemcpy`, `cudaMemcpy_v3020`), of which all is the first's."""
    repeated = np.zeros(len(launches), bool)
    all_ids = launches["correlation_id"].to_numpy(np.int64, na_value=-1)
    ordered = np.sort(all_ids[all_ids >= 0], kind="stable")  # linear where ids count up
    if not (ordered[1:] == ordered[:-1]).any():  # of other exports each id is that of one call
        return repeated
    likely = np.flatnonzero((all_ids >= 0) & pd.Series(all_ids, copy=False).duplicated(keep=False).to_numpy())
    launches, ids = launches.iloc[likely], all_ids[likely]
    (thread,) = thread_numbers(launches)
    name = launches["name"].cat.codes.to_numpy()
    start, end = (launches[edge].to_numpy() for edge in ("start_ps", "end_ps"))
    order = np.lexsort((-end, start, name, thread, ids))
    same = [np.diff(column[order]) == 0 for column in (ids, thread, name)]
    is_inside = np.logical_and.reduce(same) & (end[order][1:] <= end[order][:-1])
    repeated[likely[order[1:][is_inside]]] = True
    return repeated


def around(timeline: Timeline, records: pd.DataFrame) -> pd.DataFrame:
    """What stands around the beginning of each of n records (RECORD): `operation`, `within` and `source`, texts or
    None, shape (n,).

    The operation is the outermost operator of a framework (`aten::item` around `aten::_local_scalar_dense`: what the
    program called), else the innermost span that is none; `within` the innermost span around an operator. Steps, calls
    of runtimes and what says that it waits are none of these, nor are frames of Python: the innermost of them, one
    outside of JAX before all others, gives the source line.
    """
    spans, work = timeline.spans, timeline.trace.host_work
    of_record, of_span, of_work = thread_numbers(records, spans, work)
    start = records["start_ps"].to_numpy()
    is_own = np.isin(of_span, of_record)
    times = [spans[edge].to_numpy() for edge in ("start_ps", "end_ps")]

    def chosen(test: Any, text: Any) -> _Ranges:
        at = np.flatnonzero(is_own & by_label(spans["name"].array, test).astype(bool))
        return of_span[at], times[0][at], times[1][at], by_label(spans["name"].array[at], text, None)

    mark = spans["step"].notna().to_numpy(bool) | spans["tracekit"].notna().to_numpy(bool)
    is_own &= ~mark
    operators = outermost_ranges(chosen(lambda name: operator(name) is not None, of_any_call))
    named = np.flatnonzero(work["name"].notna().to_numpy(bool))
    names_of_work = work["name"].astype(object).to_numpy()[named]
    begin, until = (work[edge].to_numpy()[named] for edge in ("start_ps", "end_ps"))
    of_framework = of_work[named], begin, until, names_of_work
    of_program = chosen(_is_annotation, of_any_call)
    lines = chosen(lambda name: _is_line(name) and not frame_of_jax(name), frame_line), chosen(_is_line, frame_line)
    annotation = _at(start, of_record, of_program)
    operation = _first(_at(start, of_record, operators), _at(start, of_record, of_framework))
    source = _first(*(_at(start, of_record, line) for line in lines))
    within = annotation.copy()
    within[pd.isna(operation)] = None
    return pd.DataFrame({"operation": _first(operation, annotation), "within": within, "source": source}, dtype=object)


def _is_annotation(name: str) -> bool:
    """Whether a span of this name is a part of the program that is no operator."""
    return not (is_frame(name) or calls_runtime(name) or says_waiting(name) or operator(name))


def _is_line(name: str) -> bool:
    return frame_line(name) is not None and not says_waiting(name)


def outermost_ranges(ranges: _Ranges) -> _Ranges:
    """The outermost of ranges, thread by thread."""
    thread, start, end, texts = ranges
    pieces = [(np.zeros(0, np.int64),) * 3]
    for number in np.unique(thread).tolist():
        own = np.flatnonzero(thread == number)
        place, begin, until = outermost(start[own], end[own])
        pieces.append((own[place], begin, until))
    at, begin, until = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return thread[at], begin, until, texts[at]


def _at(moments: Column, of_moment: Column, ranges: _Ranges) -> NDArray[Any]:
    """The text of the innermost of the ranges around each moment of a thread, None without one."""
    thread, start, end, texts = ranges
    place = innermost(moments, of_moment, start, end, thread)
    result = np.full(len(moments), None, object)
    result[place >= 0] = texts[place[place >= 0]]
    return result


def _first(*columns: NDArray[Any]) -> NDArray[Any]:
    """In every place the first text that is none of None."""
    result = columns[0].copy()
    for column in columns[1:]:
        missing = pd.isna(result)
        result[missing] = column[missing]
    return result
