"""Which events of a Kineto document are work of devices, those of accelerators that nobody here knows too.

The categories are those of libkineto/include/ActivityType.h; older files write them capitalised and short. Makers of
other accelerators add categories of their own (`mtia_ccp_events`, `mlu_memcpy`, `GCU_MEMCPY`) on processes that they
label after their devices (`MTIA 9`), where the host's process is labelled `CPU`.
"""

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import by_label, categorical, distinct
from tracekit.devices import natural, type_of
from tracekit.readers.chrome.document import Document
from tracekit.units import quantity
from tracekit.vocabulary.host_calls import waits_on_device
from tracekit.vocabulary.kinds import Kind

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

_KINDS = {
    "kernel": Kind.COMPUTE,
    "gpu_memcpy": Kind.MEMCPY,
    "memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "memset": Kind.MEMSET,
}
# What the host does, and what only tells of work on a device that stands elsewhere: annotations over it, waits for it,
# counters, and arrows.
_OF_HOST = frozenset({"cpu_op", "operator", "user_annotation", "python_function"})
_NO_WORK = re.compile(
    r"cpu_\w+|operator|python_\w+|(\w+_)?(user_annotation|runtime|driver|sync|event|notifier|counters?|overhead)"
    r"|(\w+_)?(profiler_range|scope_profiler|insight|correlation)|trace|ac2g|fwdbwd|forward_backward|async\w*"
)
_LABEL = re.compile(r"(?:.* )?(?P<type>[a-z][a-z0-9]*?)(?:[ :#_-]*(?P<number>\d+))?", re.IGNORECASE)
_OF_HOST_LABELS = frozenset({"cpu", "host", "python"})
# Parts of categories that say what is done, not where.
_GENERAL = frozenset({*_KINDS, "op", "ops", "event", "events", "task", "tasks"})
_MOST_NUMBER = 1 << 16  # of a device; larger ones are ids of processes
# GPUs by another name.
_GPU = "gpu"
_GPUS = (_GPU, "xpu", "cuda", "hip", "rocm")


def kind_of(category: str) -> Kind | None:
    """What Kineto records in a category of device work, None for one that it does not know."""
    category = category.lower()
    last = category.rpartition("_")[2]
    return _KINDS.get(category) or (_KINDS[last] if last in ("memcpy", "memset") else None)


def work(document: Document) -> tuple[Mask, list[str]]:
    """Which events are work of a device, shape (n,), and notes.

    Of categories that Kineto does not know these are the events on a process of a device, but no waits.
    """
    known = by_label(document.cat, lambda category: kind_of(category) is not None).astype(bool)
    other = by_label(document.cat, _is_other).astype(bool) & np.asarray(document.ph == "X") & document.timed
    if not other.any():
        return known, []
    processes = device_processes(document)
    on_device = by_label(document.pid, processes.__contains__).astype(bool)
    waits = by_label(document.name, waits_on_device).astype(bool)
    notes = []
    for category in sorted(set(document.cat[other])):
        own = other & np.asarray(document.cat == category)
        if count := int((own & on_device & ~waits).sum()):
            where = ", ".join(sorted({processes[pid] for pid in document.pid[own & on_device]}, key=natural))
            notes.append(
                f"Took {quantity(count, 'event')} of category {category} for work of {where}, an accelerator that "
                "tracekit does not know: names and arguments tell what each is."
            )
        if count := int((own & on_device & waits).sum()):
            notes.append(f"Skipped {quantity(count, 'event')} of category {category}: waiting for events is no work.")
        if count := int((own & ~on_device).sum()):
            notes.append(f"Skipped {quantity(count, 'event')} of category {category}, the meaning of which is unknown.")
    return known | (other & on_device & ~waits), notes


def _is_other(category: str) -> bool:
    return kind_of(category) is None and not _NO_WORK.fullmatch(category.lower())


def device_processes(document: Document) -> dict[str, str]:
    """The device that a process is, by the process: `mtia:9` of one labelled `MTIA 9`.

    Of a label without a number (`MLU`) it is that of the process. A process without a label is a device if nothing of
    the host is on it; its categories tell the type: `mtia` of `mtia_ccp_events`, `npu` of `Kernel_npu`.
    """
    rows = np.flatnonzero(np.asarray((document.ph == "M") & (document.name == "process_labels")))
    rows = rows[distinct(document.pid.codes[rows])[1]]
    metadata = zip(document.pid[rows], document.args(rows, dict), strict=True)
    labels = {pid: str(args.get("labels", "")).strip() for pid, args in metadata}
    complete = np.flatnonzero(np.asarray(document.ph == "X"))
    first = complete[distinct(document.pid.codes[complete], document.cat.codes[complete])[1]]
    pairs = [
        (pid, str(category).lower()) for pid, category in zip(document.pid[first], document.cat[first], strict=True)
    ]
    hosts = {pid for pid, category in pairs if category in _OF_HOST}
    labelled = set(labels) - hosts
    for pid, category in pairs:
        if pid not in hosts and not _NO_WORK.fullmatch(category):
            own = (part for part in category.split("_") if part and part not in _GENERAL)
            labels.setdefault(pid, f"{_GPU if category in _KINDS else next(own, category)} {pid}")
    matches = {pid: match for pid, label in labels.items() if (match := _LABEL.fullmatch(label))}
    names = {
        pid: (match["type"].lower(), _number(match["number"] or str(pid)))
        for pid, match in matches.items()
        if match["number"] or (pid in labelled and match["type"].lower() not in _OF_HOST_LABELS)
    }
    return {pid: f"{_GPU if name in _GPUS else name}:{number}" for pid, (name, number) in names.items()}


def _number(text: str) -> int:
    """The number of a device in a text, 0 where that is none."""
    digits = re.search(r"\d+$", text)
    return int(digits[0]) if digits and int(digits[0]) < _MOST_NUMBER else 0


def other_processes(document: Document) -> dict[str, str]:
    """Those of them that are no GPUs."""
    return {pid: name for pid, name in device_processes(document).items() if type_of(name) != _GPU}


def of_processes(document: Document, rows: Rows, gpus: pd.Categorical, given: NDArray[np.bool_]) -> pd.Categorical:
    """The devices of the events `rows`, which are `gpus` but on processes of other devices: there the process tells
    the type, and the number too where it is not `given` with the event."""
    others = other_processes(document)
    if not others:
        return gpus
    processes = document.pid[rows]
    which, first = distinct(gpus.codes, processes.codes, given)
    names = []
    for row in first.tolist():
        other, number = others.get(processes[row]), gpus[row].rpartition(":")[2]
        names.append(gpus[row] if other is None else f"{type_of(other)}:{number}" if given[row] else other)
    return categorical(names, which)
