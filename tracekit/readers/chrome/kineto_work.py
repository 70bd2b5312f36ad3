"""The device rows of a Kineto document: kernels, copies and sets, and what each of them is."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import categorical, constant, frame
from tracekit.devices import unknown
from tracekit.readers.chrome import Document, kineto_args
from tracekit.readers.chrome.kineto_args import Annotation, Call, Work, integers, whole
from tracekit.readers.distinct import distinct
from tracekit.trace import EVENT_COLUMNS
from tracekit.vocabulary import copies, kinds
from tracekit.vocabulary.kinds import Kind

Rows = NDArray[np.int64]

KINDS = {
    "kernel": Kind.COMPUTE,
    "gpu_memcpy": Kind.MEMCPY,
    "memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "memset": Kind.MEMSET,
}


def read(
    document: Document, host: str, rows: Rows, annotations: Rows, calls: Rows, ids: NDArray[np.int64]
) -> pd.DataFrame:
    """The events `rows`, which are of the categories KINDS, as rows of EVENT_COLUMNS.

    `annotations` are the host's annotations, `calls` its calls and `ids` their correlation ids: they tell what a
    collective is whose kernel does not, and how large a copy of HIP's is.
    """
    records = document.args(rows, Work)
    call_of = dict(zip(ids.tolist(), calls.tolist(), strict=True))
    launches = [call_of.get(whole(record.correlation) or 0) for record in records]
    name = names(document, rows)
    kind_columns = _kinds(name, document.cat[rows], records)
    collectives = np.flatnonzero(kind_columns["kind"] == Kind.COLLECTIVE.value)
    unnamed = [row for row in collectives.tolist() if records[row].collective is None]
    launched = [(row, call) for row in unnamed if (call := launches[row]) is not None]
    for row, around in _around(document, launched, annotations).items():
        records[row] = kineto_args.annotated(records[row], *around)
    categories = [kineto_args.term(records[row].collective, str(name[row])) for row in collectives.tolist()]
    sizes = _copy_sizes(document, records, np.flatnonzero(kind_columns["kind"] == Kind.MEMCPY.value), launches)
    sequence: list[int | None] = [None] * len(rows)
    for row, category in zip(collectives.tolist(), categories, strict=True):
        sizes[row] = kineto_args.message_bytes(category, records[row])
        sequence[row] = whole(records[row].sequence)
    groups = _groups(document)
    return frame(
        EVENT_COLUMNS,
        {
            **kind_columns,
            "host": constant(host, len(rows)),
            "device": _labels([_device_of(record) for record in records], document.pid[rows], device),
            "lane": _labels([record.stream for record in records], document.tid[rows], lane),
            "name": name,
            "start_ps": document.start_ps[rows],
            "end_ps": document.start_ps[rows] + document.duration_ps[rows],
            "category": _sparse(categories, collectives, len(rows)),
            "bytes": integers(sizes),
            "correlation_id": integers([whole(record.correlation) or None for record in records]),
            "group": _sparse([kineto_args.group(records[row]) for row in collectives], collectives, len(rows)),
            "ranks": _sparse([kineto_args.ranks(records[row], groups) for row in collectives], collectives, len(rows)),
            "sequence": integers(sequence),
            "dtype": _sparse([records[row].dtype for row in collectives], collectives, len(rows)),
            "occupancy_ratio": kineto_args.occupancies(records),
        },
    )


def names(document: Document, rows: Rows) -> pd.Categorical:
    """The names of the events `rows`; what has none is called so."""
    names_of_rows = document.name[rows]
    return categorical([*names_of_rows.categories, "(unnamed)"], names_of_rows.codes.astype(np.int64))


def _kinds(name: pd.Categorical, category: pd.Categorical, records: Sequence[Work]) -> dict[str, pd.Categorical]:
    """Kind, direction and what told the kind, for each row."""
    apart = [kineto_args.apart(record) for record in records]
    ends = np.array([-1 if known is None else int(known) for known in apart], np.int64)
    # NCCL's arguments stand on the kernels that a collective launched.
    is_collective = np.array([record.collective is not None for record in records], bool)
    which, first = distinct(name.codes, category.codes, is_collective, ends)
    verdicts = [
        kinds.classify(
            name[row],
            typed=Kind.COLLECTIVE if is_collective[row] else KINDS[category[row].lower()],
            direction=copies.direction(name[row], apart=apart[row]),
        )
        for row in first
    ]
    return {
        "kind": categorical([verdict.kind.value for verdict in verdicts], which),
        "direction": categorical([verdict.direction for verdict in verdicts], which),
        "known_by": categorical([verdict.known_by.value for verdict in verdicts], which),
    }


def _copy_sizes(
    document: Document, records: Sequence[Work], copies: Rows, launches: Sequence[int | None]
) -> list[int | None]:
    """The bytes of each row that is one of `copies`; HIP's may stand on the call that asked for the copy."""
    sizes: list[int | None] = [None] * len(records)
    for row in copies.tolist():
        sizes[row] = whole(records[row].bytes)
    by_call = [(row, call) for row in copies.tolist() if sizes[row] is None and (call := launches[row]) is not None]
    for (row, _), args in zip(by_call, document.args(_second(by_call), Call), strict=True):
        sizes[row] = whole(args.bytes if args.size is None else args.size)
    return sizes


def _around(
    document: Document, launched: Sequence[tuple[int, int]], annotations: Rows
) -> dict[int, tuple[str, Annotation]]:
    """For each pair of a collective and its launch: the annotation around the launch, if there is one.

    Older files tell only there what a collective is: their kernels may all be called SendRecv, whatever they do.
    """
    is_annotation = [bool(kineto_args.ANNOTATION.match(name)) for name in document.name.categories]
    annotations = annotations[np.array([*is_annotation, False], bool)[document.name.codes[annotations]]]
    annotations = annotations[np.argsort(document.start_ps[annotations], kind="stable")]
    thread = document.pid.codes.astype(np.int64) * (len(document.tid.categories) + 1) + document.tid.codes
    annotation_of: dict[int, int] = {}
    for thread_number in np.unique(thread[annotations]).tolist():
        of_thread = annotations[thread[annotations] == thread_number]
        launched_there = [(row, call) for row, call in launched if thread[call] == thread_number]
        starts = document.start_ps[_second(launched_there)]
        last = np.searchsorted(document.start_ps[of_thread], starts, side="right") - 1
        inside = (last >= 0) & (document.start_ps[of_thread[last]] + document.duration_ps[of_thread[last]] >= starts)
        annotation_of |= {launched_there[at][0]: int(of_thread[last[at]]) for at in np.flatnonzero(inside).tolist()}
    around = np.array(list(annotation_of.values()), np.int64)
    annotations_of = zip(document.name[around], document.args(around, Annotation), strict=True)
    return dict(zip(annotation_of, annotations_of, strict=True))


def _second(pairs: Sequence[tuple[int, int]]) -> Rows:
    return np.array([second for _, second in pairs], np.int64)


def _groups(document: Document) -> Mapping[str, object]:
    """The ranks of every process group that `distributedInfo` lists, by the group's name."""
    job = document.head.get("distributedInfo")
    config = job.get("pg_config") if isinstance(job, dict) else None
    groups = [group for group in (config if isinstance(config, list) else []) if isinstance(group, dict)]
    return {str(group.get("pg_name")): group.get("ranks") for group in groups}


def _device_of(args: Work) -> object:
    return args.in_device if args.device is None else args.device


def device(text: str | None) -> str:
    """The name of the device that Kineto calls so."""
    match = re.search(r"\d+$", text or "")
    return f"gpu:{int(match[0])}" if match else unknown("gpu")


def lane(text: str | None) -> str:
    """The name of the lane whose stream Kineto calls so."""
    return f"stream {text}" if re.fullmatch(r"-?\d+", text or "") else text or "stream ?"


def _labels(texts_of_rows: list[Any], otherwise: pd.Categorical, label: Callable[[str | None], str]) -> pd.Categorical:
    """The column label(told), of `otherwise` where it is null."""
    codes, values = pd.factorize(np.array(texts_of_rows, object))
    which, first = distinct(codes, np.where(codes < 0, otherwise.codes, 0))
    texts = [str(values[codes[row]]) if codes[row] >= 0 else otherwise[row] for row in first]
    return categorical([label(None if pd.isna(text) else text) for text in texts], which)


def _sparse(values: Sequence[object], at: Rows, length: int) -> pd.Categorical:
    """A column of `length` rows with `values`, as text, in the rows `at`, null elsewhere."""
    which = np.zeros(length, np.int64)
    which[at] = np.arange(1, len(at) + 1)
    return categorical([None, *(None if value is None else str(value) for value in values)], which)
