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
from tracekit.vocabulary import kinds
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
    told = document.args(rows, Work)
    call_of = dict(zip(ids.tolist(), calls.tolist(), strict=True))
    launches = [call_of.get(whole(args.correlation) or 0) for args in told]
    name = names(document, rows)
    judged = _judged(name, document.cat[rows], told)
    talk = np.flatnonzero(judged["kind"] == Kind.COLLECTIVE.value)
    mute = [row for row in talk.tolist() if told[row].collective is None]
    launched = [(row, call) for row in mute if (call := launches[row]) is not None]
    for row, around in _around(document, launched, annotations).items():
        told[row] = kineto_args.annotated(told[row], *around)
    categories = [kineto_args.term(told[row].collective, str(name[row])) for row in talk.tolist()]
    sizes = _copied(document, told, np.flatnonzero(judged["kind"] == Kind.MEMCPY.value), launches)
    sequence: list[int | None] = [None] * len(rows)
    for row, category in zip(talk.tolist(), categories, strict=True):
        sizes[row] = kineto_args.message_bytes(category, told[row])
        sequence[row] = whole(told[row].sequence)
    groups = _groups(document)
    return frame(
        EVENT_COLUMNS,
        {
            **judged,
            "host": constant(host, len(rows)),
            "device": _labels([_device_of(args) for args in told], document.pid[rows], device),
            "lane": _labels([args.stream for args in told], document.tid[rows], lane),
            "name": name,
            "start_ps": document.start_ps[rows],
            "end_ps": document.start_ps[rows] + document.duration_ps[rows],
            "category": _sparse(categories, talk, len(rows)),
            "bytes": integers(sizes),
            "correlation_id": integers([whole(args.correlation) or None for args in told]),
            "group": _sparse([kineto_args.group(told[row]) for row in talk], talk, len(rows)),
            "ranks": _sparse([kineto_args.ranks(told[row], groups) for row in talk], talk, len(rows)),
            "sequence": integers(sequence),
            "dtype": _sparse([told[row].dtype for row in talk], talk, len(rows)),
            "occupancy_ratio": kineto_args.occupancies(told),
        },
    )


def names(document: Document, rows: Rows) -> pd.Categorical:
    """The names of the events `rows`; what has none is called so."""
    found = document.name[rows]
    return categorical([*found.categories, "(unnamed)"], found.codes.astype(np.int64))


def _judged(name: pd.Categorical, category: pd.Categorical, told: Sequence[Work]) -> dict[str, pd.Categorical]:
    """Kind, direction and what told the kind, for each row."""
    ways, _ = pd.factorize(np.array([kineto_args.between(args) for args in told], object))
    # NCCL's arguments stand on the kernels that a collective launched.
    talks = np.array([args.collective is not None for args in told], bool)
    which, first = distinct(name.codes, category.codes, talks, ways)
    judged = [
        kinds.classify(
            name[row],
            typed=Kind.COLLECTIVE if talks[row] else KINDS[category[row].lower()],
            direction=kineto_args.between(told[row]) or kineto_args.direction(name[row]),
        )
        for row in first
    ]
    return {
        "kind": categorical([one.kind.value for one in judged], which),
        "direction": categorical([one.direction for one in judged], which),
        "known_by": categorical([one.known_by.value for one in judged], which),
    }


def _copied(document: Document, told: Sequence[Work], copies: Rows, launches: Sequence[int | None]) -> list[int | None]:
    """The bytes of each row that is one of `copies`; HIP's may stand on the call that asked for the copy."""
    sizes: list[int | None] = [None] * len(told)
    for row in copies.tolist():
        sizes[row] = whole(told[row].bytes)
    asked = [(row, call) for row in copies.tolist() if sizes[row] is None and (call := launches[row]) is not None]
    for (row, _), args in zip(asked, document.args(_second(asked), Call), strict=True):
        sizes[row] = whole(args.bytes if args.size is None else args.size)
    return sizes


def _around(
    document: Document, launched: Sequence[tuple[int, int]], annotations: Rows
) -> dict[int, tuple[str, Annotation]]:
    """For each pair of a collective and its launch: the annotation around the launch, if there is one.

    Older files tell only there what a collective is: their kernels may all be called SendRecv, whatever they do.
    """
    named = np.array([bool(kineto_args.ANNOTATION.match(one)) for one in document.name.categories] + [False], bool)
    annotations = annotations[named[document.name.codes[annotations]]]
    annotations = annotations[np.argsort(document.start_ps[annotations], kind="stable")]
    thread = document.pid.codes.astype(np.int64) * (len(document.tid.categories) + 1) + document.tid.codes
    found: dict[int, int] = {}
    for one in np.unique(thread[annotations]).tolist():
        own = annotations[thread[annotations] == one]
        mine = [(row, call) for row, call in launched if thread[call] == one]
        starts = document.start_ps[_second(mine)]
        last = np.searchsorted(document.start_ps[own], starts, side="right") - 1
        inside = (last >= 0) & (document.start_ps[own[last]] + document.duration_ps[own[last]] >= starts)
        found |= {mine[at][0]: int(own[last[at]]) for at in np.flatnonzero(inside).tolist()}
    around = np.array(list(found.values()), np.int64)
    told = zip(document.name[around], document.args(around, Annotation), strict=True)
    return dict(zip(found, told, strict=True))


def _second(pairs: Sequence[tuple[int, int]]) -> Rows:
    return np.array([second for _, second in pairs], np.int64)


def _groups(document: Document) -> Mapping[str, object]:
    """The ranks of every process group that `distributedInfo` lists, by the group's name."""
    job = document.head.get("distributedInfo")
    listed = job.get("pg_config") if isinstance(job, dict) else None
    groups = [one for one in (listed if isinstance(listed, list) else []) if isinstance(one, dict)]
    return {str(one.get("pg_name")): one.get("ranks") for one in groups}


def _device_of(args: Work) -> object:
    return args.in_device if args.device is None else args.device


def device(text: str | None) -> str:
    """The name of the device that Kineto calls so."""
    found = re.search(r"\d+$", text or "")
    return f"gpu:{int(found[0])}" if found else unknown("gpu")


def lane(text: str | None) -> str:
    """The name of the lane whose stream Kineto calls so."""
    return f"stream {text}" if re.fullmatch(r"-?\d+", text or "") else text or "stream ?"


def _labels(told: list[Any], otherwise: pd.Categorical, label: Callable[[str | None], str]) -> pd.Categorical:
    """The column label(told), of `otherwise` where nothing is told."""
    codes, values = pd.factorize(np.array(told, object))
    which, first = distinct(codes, np.where(codes < 0, otherwise.codes, 0))
    texts = [str(values[codes[row]]) if codes[row] >= 0 else otherwise[row] for row in first]
    return categorical([label(None if pd.isna(text) else text) for text in texts], which)


def _sparse(values: Sequence[object], at: Rows, length: int) -> pd.Categorical:
    """A column of `length` rows with `values`, as text, in the rows `at`, null elsewhere."""
    which = np.zeros(length, np.int64)
    which[at] = np.arange(1, len(at) + 1)
    return categorical([None, *(None if value is None else str(value) for value in values)], which)
