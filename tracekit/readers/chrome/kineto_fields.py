"""What is damaged of the fields of Kineto's events: values that Kineto does not write, or that only some events lack.

Kineto writes what it writes for all events of a kind, always the same (libkineto/src/output_json.cpp): what some lack
and others have was lost.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.columns import by_label
from tracekit.readers.chrome.document import Document
from tracekit.readers.losses import Lost
from tracekit.units import YEAR_2200_NS
from tracekit.vocabulary.losses import Loss

Test = Callable[[Any], bool]
Mask = NDArray[np.bool_]

MOST = 1 << 62
"""No number that is counted, an id or a size is as large."""
_EXACT = float(1 << 53)  # from here on a float may be another whole number than the text was
# A process is a number, in joined files behind the rank; of threads some are written with a sign.
_PROCESS = re.compile(r"(\[[^\]/]+\] )?\d{1,10}")
_THREAD = re.compile(r"(\[[^\]/]+\] )?-?\d{1,20}")
# What the profiler itself is called in place of a process.
_PROFILER = frozenset({"Spans", "Traces", "-1"})
# The key of the text that metadata of each name holds, None for what holds none.
_METADATA = {
    "process_name": "name",
    "process_labels": "labels",
    "thread_name": "name",
    "process_sort_index": None,
    "thread_sort_index": None,
}


def whole(value: object) -> int | None:
    """`value` as an integer that an Int64 column holds, None if it is none; 1.0, which other tools write, is 1."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def count(value: object) -> int | None:
    """`value` as a number of things, an id or a size, None if it is none."""
    number = whole(value)
    return number if number is not None and 0 <= number < MOST else None


def at_least(least: int) -> Test:
    """The test for a whole number from `least` on."""
    return lambda value: (number := whole(value)) is not None and least <= number < MOST


def is_count(value: object) -> bool:
    """Whether a value is a number of things, an id or a size."""
    return count(value) is not None


def is_text(value: object) -> bool:
    """Whether a value is text that says something."""
    return isinstance(value, str) and value != ""


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def damaged(values: Sequence[Any], is_own: Test, lacks: bool | None = None) -> Mask:
    """Which of the values (n,) of one field are damaged: not `is_own`, or None, if that `lacks` something, which it
    does, where it is not told, if any of the others is there."""
    types = set(map(type, values))
    if types == {int} and is_own(min(values)) and is_own(max(values)):
        return np.zeros(len(values), bool)
    is_lacking = lacks if lacks is not None else types != {type(None)}
    return np.array([is_lacking if value is None else not is_own(value) for value in values], bool)


def lost(fields: Mapping[str, Mask], of: str) -> list[Lost]:
    """The loss of the damaged ones of some `fields`, each (n,), of so many events that are called `of`."""
    names = [name for name, mask in fields.items() if mask.any()]
    if not names:
        return []
    any_of = np.logical_or.reduce([fields[name] for name in names])
    return [Lost(Loss.DETAILS, int(any_of.sum()), len(fields[names[0]]), f"{of}: {', '.join(names)}")]


def of_records(
    records: Sequence[Any], tests: Mapping[str, tuple[str, Test]], of: str, lacks: bool | None = None
) -> list[Lost]:
    """The loss of fields of `records`, which are called `of`; `tests` maps attributes to the name in the file and what
    a value has to be, and `lacks` is as in `damaged`."""
    fields = {
        name: damaged([getattr(each, key) for each in records], test, lacks) for key, (name, test) in tests.items()
    }
    return lost(fields, of)


def is_process(process: str) -> bool:
    """Whether a process is what Kineto numbers so."""
    return _PROCESS.fullmatch(process) is not None


def placed(document: Document, rows: NDArray[np.int64]) -> Mask:
    """Which of the events `rows` say on which process and thread they were, or do not say it at all."""
    threads = by_label(document.tid[rows], lambda thread: _THREAD.fullmatch(thread) is not None, True)
    of_processes: Mask = by_label(document.pid[rows], is_process, True).astype(bool) & threads.astype(bool)
    return of_processes


def of_metadata(document: Document) -> list[Lost]:
    """What is damaged of the events that name processes and threads, and of those that have lost what they are."""
    rows = np.flatnonzero(np.asarray(document.ph == "M"))
    keys = [_METADATA.get(name, ...) if isinstance(name, str) else ... for name in document.name[rows]]
    bad = sum(
        key is ...
        or (key is not None and not (is_process(str(process)) or process in _PROFILER))
        or (name == "thread_name" and not _THREAD.fullmatch(str(thread)))
        or (key is not None and not isinstance(args.get(key), str))
        or (name == "thread_name" and not args.get("name"))
        for key, name, process, thread, args in zip(
            keys, document.name[rows], document.pid[rows], document.tid[rows], document.args(rows, dict), strict=True
        )
    )
    return [Lost(Loss.DETAILS, bad, len(rows), "names and labels of processes and threads")] if bad else []


def of_head(head: Mapping[str, Any]) -> Iterable[str]:
    """The keys beside the events that are damaged."""
    job, gpus, base = (head.get(key, ...) for key in ("distributedInfo", "deviceProperties", "baseTimeNanoseconds"))
    base_ns = whole(base)
    if base is not ... and (base_ns is None or not 0 <= base_ns < YEAR_2200_NS):
        yield "baseTimeNanoseconds"
    if isinstance(job, dict):
        # Files that other tools wrote may hold the rank alone.
        numbers = {key: job.get(key) for key in ("rank", "world_size") if key in job or "world_size" in job}
        bad = [key for key, number in numbers.items() if not is_count(number)]
        yield from bad
        if not bad and (count(numbers.get("rank")) or 0) >= (count(numbers.get("world_size")) or MOST):
            yield "rank beside world_size"
        if "pg_config" in job or "pg_count" in job:
            yield from _of_groups(job.get("pg_config"))
    elif job is not ...:
        yield "distributedInfo"
    if isinstance(gpus, list):
        if not all(isinstance(gpu, dict) for gpu in gpus):
            yield "deviceProperties"
        listed = [gpu for gpu in gpus if isinstance(gpu, dict)]
        # ROCm may call a GPU nothing: "".
        for key, test in (("id", is_count), ("name", _is_string), ("totalGlobalMem", is_count)):
            if damaged([gpu.get(key) for gpu in listed], test).any():
                yield f"{key} of deviceProperties"
    elif gpus is not ...:
        yield "deviceProperties"


def _of_groups(groups: object) -> Iterable[str]:
    """The keys of the process groups, as `distributedInfo` lists them, that are damaged."""
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        yield "pg_config"
        return
    for key, test, lacks in (("pg_name", is_text, True), ("pg_desc", is_text, None), ("ranks", is_members, True)):
        if damaged([group.get(key) for group in groups], test, lacks).any():
            yield f"{key} of pg_config"
    # Of a group of all ranks older versions of PyTorch list none.
    sizes = [(len(ranks), group.get("pg_size")) for group in groups if isinstance(ranks := group.get("ranks"), list)]
    if any(members and size is not None and members != count(size) for members, size in sizes):
        yield "ranks beside pg_size of pg_config"


def is_members(value: object) -> bool:
    """Whether a value is a list of ranks."""
    return isinstance(value, list) and all(map(is_count, value))


def is_ranks(value: object) -> bool:
    """Whether a value is a list of ranks, or the text of one, which Kineto may have shortened."""
    return is_members(value) or (isinstance(value, str) and re.fullmatch(r"(\[[\d,. ]*\]?)?", value) is not None)
