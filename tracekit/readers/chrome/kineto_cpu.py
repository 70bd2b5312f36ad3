"""A profile of PyTorch on a CPU alone: the operators of the host's threads as rows of the device `cpu:0`.

PyTorch runs an operator on the thread that calls it, so what an operator does itself is the time in which none of its
own runs there. A collective is the annotation on the thread of its backend (`gloo:all_reduce`); the operators that ask
for it (`c10d::allreduce_`, `record_param_comms`) do nothing else. Threads that share the work of one operator (OpenMP)
are not recorded.

Builds without Kineto (Debian's) write a bare list of whole microseconds, in which nothing has a category
(EventList.export_chrome_trace in torch/autograd/profiler_util.py): `categorised` gives it the ones that Kineto writes.
"""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import by_label, categorical, constant, distinct, frame
from tracekit.readers import nested
from tracekit.readers.chrome import kineto_work
from tracekit.readers.chrome.document import Document
from tracekit.trace import EVENT_COLUMNS, OP_COLUMNS
from tracekit.vocabulary import kinds
from tracekit.vocabulary.host_calls import asks_for_collective, is_collective_of_host, operator, says_waiting
from tracekit.vocabulary.kinds import Kind

Rows = NDArray[np.int64]

DEVICE = "cpu:0"
_MOST = 0.9
_HOST, _DEVICES = "CPU functions", "CUDA functions"
_OF_AUTOGRAD = re.compile(r"\w+Backward\d*$|(autograd::engine|torch::autograd)::")


def is_list(document: Document) -> bool:
    """Whether PyTorch wrote the document without Kineto."""
    return _HOST in document.pid.categories


def categorised(document: Document) -> Document:
    """`document` with the categories that Kineto gives, if PyTorch wrote it without Kineto; else as it is."""
    if not is_list(document):
        return document
    is_op = by_label(document.name, lambda name: bool(operator(name) or _OF_AUTOGRAD.match(name)))
    on_device = np.asarray(document.pid == _DEVICES)
    which = np.select([np.asarray(document.ph != "X"), on_device, is_op.astype(bool)], [3, 2, 0], 1)
    # A thread there is the number of a device.
    process = np.where(on_device, document.tid.codes, len(document.tid.categories))
    return replace(
        document,
        cat=categorical(["cpu_op", "user_annotation", "kernel", None], which),
        pid=categorical([*document.tid.categories, _HOST], process.astype(np.int64)),
        skipped={
            event._replace(cat="kernel" if event.pid == _DEVICES else "cpu_op") if event.pid else event: count
            for event, count in document.skipped.items()
        },
    )


def read(
    document: Document, host: str, ops: Rows, annotations: Rows, lanes: pd.Categorical
) -> tuple[pd.DataFrame, Rows]:
    """The rows (EVENT_COLUMNS) of the operators `ops` and of the collectives among the `annotations`, and the event of
    each.

    `lanes` are the names of the threads of `ops`, then of `annotations`.
    """
    events = np.concatenate([ops, annotations])
    start, end = document.start_ps[events], document.start_ps[events] + document.duration_ps[events]
    thread, _ = distinct(document.pid.codes[ops], document.tid.codes[ops])
    piece, begin, until = _pieces(start[: len(ops)], end[: len(ops)], thread)
    no_work = by_label(document.name[ops], lambda name: asks_for_collective(name) or says_waiting(name)).astype(bool)
    works = ~no_work[piece]
    collectives = np.flatnonzero(by_label(document.name[annotations], is_collective_of_host).astype(bool)) + len(ops)
    at = np.concatenate([piece[works], collectives])
    columns = {
        "start_ps": np.concatenate([begin[works], start[collectives]]),
        "end_ps": np.concatenate([until[works], end[collectives]]),
    }
    by_time = np.argsort(columns["start_ps"], kind="stable")
    at, columns = at[by_time], {name: times[by_time] for name, times in columns.items()}
    is_collective = at >= len(ops)
    names = kineto_work.names(document, events[at])
    which, first = distinct(names.codes, is_collective)
    classifications = [
        kinds.classify(str(names[row]), typed=Kind.COLLECTIVE if is_collective[row] else Kind.COMPUTE) for row in first
    ]
    rows = frame(
        EVENT_COLUMNS,
        {
            "host": constant(host, len(at)),
            "device": constant(DEVICE, len(at)).remove_unused_categories(),
            "lane": lanes[at].remove_unused_categories(),
            **kinds.columns(classifications, which),
            "name": names,
            **columns,
            **kineto_work.messages(document, events[at], is_collective),
        },
    )
    return rows, events[at]


def _pieces(start: Rows, end: Rows, thread: Rows) -> tuple[Rows, Rows, Rows]:
    """Where each of n operators runs itself, as `own_times` gives it; one that does _MOST of its time itself is whole,
    and what it calls (`aten::resolve_conj` in `aten::mm`) is none."""
    piece, begin, until = nested.own_times(start, end, thread)
    own = np.bincount(piece, (until - begin).astype(np.float64), len(start))
    works = (end > start) & (own >= _MOST * (end - start))
    order = np.lexsort((-end, start, thread))
    times, place = np.unique(np.concatenate([start, end]), return_inverse=True)
    first, last = ((thread * len(times) + side)[order] for side in np.split(place, 2))
    reach = np.maximum.accumulate(np.where(works[order], last, -1))
    inside = np.append(False, reach[:-1] > first[1:])[: len(order)]
    kept = order[~inside]
    piece, begin, until = nested.own_times(start[kept], end[kept], thread[kept])
    return kept[piece], begin, until


def operations(
    document: Document, events: Rows, sources: pd.Categorical
) -> tuple[pd.DataFrame, pd.arrays.IntegerArray]:
    """The operations (OP_COLUMNS) of rows that are operators, the `events` themselves, with their lines of Python
    `sources`, and the row there of each."""
    names = document.name[events]
    which, first = distinct(names.codes, sources.codes.astype(np.int64))
    table = frame(OP_COLUMNS, {"framework_op": names[first], "source": sources[first]})
    return table, pd.arrays.IntegerArray(which, np.zeros(len(which), bool))
