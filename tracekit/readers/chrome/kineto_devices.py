"""Which events of a Kineto document are work of devices, those of accelerators that nobody here knows too.

The categories are those of libkineto/include/ActivityType.h; older files write them capitalised and short. Makers of
other accelerators add categories of their own (`mtia_ccp_events`, `mlu_memcpy`, `GCU_MEMCPY`) on processes that they
label after their devices (`MTIA 9`), where the host's process is labelled `CPU`.
"""

import re
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow.compute as pc
from numpy.typing import NDArray

from tracekit.columns import by_label, categorical, distinct
from tracekit.devices import MOST_NUMBER, natural, type_of
from tracekit.readers.chrome.document import Document
from tracekit.readers.chrome.json_text import Skipped
from tracekit.readers.losses import Lost
from tracekit.units import quantity
from tracekit.vocabulary import kinds
from tracekit.vocabulary.host_calls import launches, waits_on_device
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.losses import Loss

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

_KINDS = {
    "kernel": Kind.COMPUTE,
    "gpu_memcpy": Kind.MEMCPY,
    "memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "memset": Kind.MEMSET,
}
# What the host does, and arrows.
_OF_HOST = re.compile(
    r"cpu_(op|instant_event)|operator|python_function|user_annotation|(\w+_)?(runtime|driver)|trace|ac2g|fwdbwd"
    r"|forward_backward"
)
_HOST_PROCESS = frozenset({"cpu_op", "operator", "python_function"})
# Categories of Kineto that another one may be but for a letter.
_OWN = frozenset(
    {
        *("cpu_op", "operator", "cpu_instant_event", "python_function", "user_annotation", "trace", "overhead"),
        *("runtime", "cuda_runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "mtia_runtime", "hpu_runtime"),
        *("gpu_user_annotation", "cuda_sync", "cuda_event", "ac2g", "fwdbwd", *_KINDS),
    }
)
# Files have some ten; of more the pairs would take long.
_MOST_CATEGORIES = 1 << 12
# What else Kineto records beside the work of GPUs.
_NO_WORK = re.compile(r"overhead|collective_comm|external_correlation|gpu_user_annotation|gpu_pm_counter|cuda_\w+")
# What is work on a process of a device, and none elsewhere.
_MAY_TELL = re.compile(r"cpu_\w+|python_\w+|(\w+_)?(event|notifier)|async\w*")
_IN_BRACKETS = re.compile(r"\(.*?\)|\[.*?\]")
_WORD = re.compile(
    r"(?<![a-z0-9])(?:(?P<word>[a-z][a-z0-9]*(?:-[a-z][a-z0-9]*)*)|(?P<number>\d+)(?![a-z0-9]))", re.IGNORECASE
)
_PLACE = re.compile(r"cards?|devices?|dev|cores?|chip|die|tile|slot|unit|id|index|idx|no|nr|number", re.IGNORECASE)
_UNIT = re.compile(r"[a-z]{1,2}u", re.IGNORECASE)  # NPU, HPU, MLU, GCU
_OF_HOST_LABELS = frozenset({"cpu", "host", "python"})
# Parts of categories that say what is done, not where.
_KERNELS = ("kernel", "kernels")
_GENERAL = frozenset({*_KINDS, *_KERNELS, "op", "ops", "event", "events", "task", "tasks"})
# What Kineto tells of all events of the host, or nothing.
_ARGUMENT = r'^\{\s*\}$|"(External id|correlation|Ev Idx|Python id|cbid|Call stack|Trace name)"'
# GPUs by another name.
_GPU = "gpu"
_GPUS = (_GPU, "xpu", "cuda", "hip", "rocm")


class _Queued(msgspec.Struct):
    """The args of an event that a queue of a device ran."""

    stream: Any = None


def kind_of(category: str) -> Kind | None:
    """What Kineto records in a category of device work, None for one that it does not know."""
    category = category.lower()
    last = category.rpartition("_")[2]
    return _KINDS.get(category) or (_KINDS[last] if last in ("memcpy", "memset") else None)


def work(document: Document) -> tuple[Mask, list[Lost], list[str]]:
    """Which events are work of a device, shape (n,); those without a category, of which nobody knows what they are; and
    notes on those that are none.

    Of categories that Kineto does not know these are the events on a process of a device, but no waits; and on the
    host's own process those that a queue of a device ran, by their category or their stream.
    """
    category = named(document.cat)
    known = by_label(category, lambda text: kind_of(text) is not None).astype(bool)
    complete = np.asarray(document.ph == "X") & document.timed
    damaged = _damaged(category)
    other = ~known & complete & ~_matches(category, _OF_HOST) & ~by_label(category, damaged.__contains__).astype(bool)
    lost = _lost(category, damaged, known)
    if not other.any():
        return known, lost, []
    processes = device_processes(document)
    on_device = by_label(document.pid, lambda pid: pid in processes).astype(bool)
    on_gpu = by_label(document.pid, lambda pid: type_of(processes.get(pid, "")) == _GPU).astype(bool)
    is_known_there = np.isin(document.pid.codes, document.pid.codes[known & complete]) & on_gpu
    tells = by_label(category, kinds.only_tells).astype(bool)
    other &= ~(tells & (on_gpu | ~on_device)) & ~(_matches(category, _MAY_TELL) & ~on_device)
    is_unknown = other & np.asarray(category == "")
    other &= ~is_unknown | on_device
    # Of a GPU Kineto knows what is work: other categories are only if they say so.
    says_work = by_label(category, kinds.says_work).astype(bool)
    of_device = (on_device & (says_work | ~is_known_there)) | by_label(category, _says_kernel).astype(bool)
    rest = np.flatnonzero(other & ~of_device & ~on_device)
    of_device[rest] = [args.stream is not None for args in document.args(rest, _Queued)]
    waits = by_label(document.name, waits_on_device).astype(bool)
    notes = []
    for reason, skipped in (
        (": waiting for events is no work.", of_device & waits & ~tells),
        (": waits, counters and annotations are no work.", of_device & tells),
        (", the meaning of which is unknown.", ~of_device),
    ):
        counts = pd.Series(category[other & skipped]).value_counts().sort_index()
        notes += [
            f"Skipped {quantity(count, 'event')} {_of_category(text)}{reason}"
            for text, count in counts.items()
            if count
        ]
    found = known | (other & of_device & ~tells & ~waits)
    of_gpus = int((is_unknown & on_gpu & ~of_device).sum())
    # What other tools add has none of Kineto's arguments.
    rest = np.flatnonzero(is_unknown & ~on_device & ~of_device)
    of_host = sum(pc.sum(pc.match_substring_regex(args, _ARGUMENT)).as_py() or 0 for args in document.raw_args(rest))
    # Where all work is that of GPUs, Kineto's own categories are all that there are.
    is_strange = other & ~is_unknown & ~(of_device & (waits | tells)) & ~_matches(category, _NO_WORK)
    is_strange &= bool(known.any()) and not (found & ~known).any()
    strange = int((is_strange & on_gpu & is_known_there).sum())
    if strange:
        lost.append(Lost(Loss.EVENTS, strange, strange + int(found.sum()), "events of GPUs of unknown categories"))
    if of_gpus:
        lost.append(Lost(Loss.EVENTS, of_gpus, of_gpus + int(found.sum()), "events of GPUs without a category"))
    if of_host:
        lost.append(Lost(Loss.DETAILS, of_host, None, "events of the host without a category"))
    return found, lost, notes


def _damaged(categories: pd.Categorical) -> dict[str, str]:
    """Which of Kineto's categories one is that differs from it by a letter, where as many events or more have that one:
    but none that names another device, `npu_op`."""
    if len(categories.categories) > _MOST_CATEGORIES:
        return {}
    counts: Counter[str] = Counter()
    for text, count in zip(categories.categories, np.bincount(categories.codes + 1)[1:].tolist(), strict=False):
        counts[text.lower()] += count
    own = [text for text in _OWN if text in counts]
    found = {}
    for text in categories.categories:
        lower = text.lower()
        if lower in _OWN:
            continue
        first, _, rest = lower.partition("_")
        for near in own:
            is_other_unit = _UNIT.fullmatch(first) and near.partition("_")[2] == rest
            if counts[lower] <= counts[near] and _is_one_letter_off(lower, near) and not is_other_unit:
                found[text] = near
    return found


def _is_one_letter_off(text: str, other: str) -> bool:
    """Whether one letter of a text is another, one too many or one too few for it to be the other."""
    differs = (at for at, pair in enumerate(zip(text, other, strict=False)) if pair[0] != pair[1])
    same = next(differs, min(len(text), len(other)))
    return text[same + 1 :] in (other[same:], other[same + 1 :]) or text[same:] == other[same + 1 :]


def _lost(categories: pd.Categorical, damaged: Mapping[str, str], known: Mask) -> list[Lost]:
    """The events whose categories are `damaged`: work of devices, where such is `known`, and what else costs no row."""
    if not damaged:
        return []
    total = int(known.sum())
    rows = frozenset({*_KINDS, *(() if total else ("cpu_op", "operator"))})
    is_row = by_label(categories, lambda text: damaged.get(text) in rows).astype(bool) & ~known
    is_other = by_label(categories, lambda text: text in damaged).astype(bool) & ~is_row
    work, more = int(is_row.sum()), int(is_other.sum())
    evidence = f"of damaged categories, {', '.join(sorted(damaged)[:3])}"
    lost = [Lost(Loss.EVENTS, work, work + total if total else None, f"work {evidence}")] if work else []
    return [*lost, *([Lost(Loss.DETAILS, more, None, f"other events {evidence}")] if more else [])]


def perhaps_work(document: Document, work: Mask) -> int:
    """How many events that are no JSON may have been work of devices, by what is whole of them; `work`, shape (n,):
    which of the others are.

    They are of a category that devices work, or of none that the host has, and on no other process than work is.
    """
    processes = {None, *document.pid[work].unique()}

    def may_be(event: Skipped) -> bool:
        category = (event.cat or "").lower()
        if event.ph not in (None, "X", "B") or _OF_HOST.fullmatch(category) or _NO_WORK.fullmatch(category):
            return False
        return kind_of(category) is not None or event.pid in processes

    return sum(count for event, count in document.skipped.items() if may_be(event))


def named(column: pd.Categorical) -> pd.Categorical:
    """The categories of n events; "" where one has none, as on the devices of torch_npu."""
    if not len(column) or column.codes.min() >= 0:
        return column
    return (column if "" in column.categories else column.add_categories([""])).fillna("")


def _of_category(category: object) -> str:
    return f"of category {category}" if category else "without a category"


def _matches(categories: pd.Categorical, wanted: re.Pattern[str]) -> Mask:
    """Which of the categories (n,) match, in any writing; (n,)."""
    matches: Mask = by_label(categories, lambda text: wanted.fullmatch(text.lower()) is not None).astype(bool)
    return matches


def taken(document: Document, rows: Rows, devices: pd.Categorical) -> list[str]:
    """The notes on the events `rows`, work of `devices`, whose categories Kineto does not know."""
    category = named(document.cat[rows])
    notes = []
    for name in sorted(each for each in set(category) if kind_of(each) is None):
        own = np.asarray(category == name)
        where = ", ".join(sorted(set(devices[own]), key=natural))
        notes.append(
            f"Took {quantity(int(own.sum()), 'event')} {_of_category(name)} for work of {where}, an accelerator that "
            "tracekit does not know: names and arguments tell what each is."
        )
    return notes


def _says_kernel(category: str) -> bool:
    """Whether a category says that its events are kernels of a device, whatever their process: `npu_kernel`."""
    first, _, rest = category.lower().partition("_")
    is_kernel = not {first, rest.rpartition("_")[2]}.isdisjoint(_KERNELS) and not launches(category)
    return is_kernel and _type_in(category) not in (None, *_OF_HOST_LABELS)


def _type_in(category: str) -> str | None:
    """The type of device that a category names, `npu` of `Kernel_npu`; None if it names none."""
    return next((part for part in category.lower().split("_") if part and part not in _GENERAL), None)


def device_processes(document: Document) -> dict[str, str]:
    """The device that a process is, by the process: `mtia:9` of one labelled `MTIA 9`.

    Of a label without a number (`MLU`) it is that of the process. A process without a label is a device if nothing of
    the host is on it; its categories tell the type: `mtia` of `mtia_ccp_events`, `npu` of `Kernel_npu`. Beside work of
    GPUs they have to say that it is work: other tools add processes of their own (VizTracer's `FEE`).
    """
    rows = np.flatnonzero(np.asarray((document.ph == "M") & (document.name == "process_labels")))
    rows = rows[distinct(document.pid.codes[rows])[1]]
    metadata = zip(document.pid[rows], document.args(rows, dict), strict=True)
    labels = {pid: str(args.get("labels", "")).strip() for pid, args in metadata}
    complete = np.flatnonzero(np.asarray(document.ph == "X"))
    category_of = named(document.cat)
    first = complete[distinct(document.pid.codes[complete], category_of.codes[complete])[1]]
    pairs = [(pid, category.lower()) for pid, category in zip(document.pid[first], category_of[first], strict=True)]
    hosts = {pid for pid, category in pairs if category in _HOST_PROCESS}
    names = {pid: name for pid, label in labels.items() if pid not in hosts and (name := _labelled(label, pid))}
    hosts |= {pid for pid, category in pairs if category == "user_annotation"} | labels.keys()
    beside_gpus = any(category in _KINDS for _, category in pairs)
    for pid, category in pairs:
        is_work = category and not _OF_HOST.fullmatch(category) and not _MAY_TELL.fullmatch(category)
        says_work = kinds.says_work(category) or not _GENERAL.isdisjoint(category.split("_"))
        if pid not in hosts and is_work and not kinds.only_tells(category) and (says_work or not beside_gpus):
            names.setdefault(pid, _name(_GPU if category in _KINDS else _type_in(category) or category, str(pid)))
    return names


def _labelled(label: str, pid: str) -> str | None:
    """The device that a label names, `gaudi:0` of `Habana Gaudi 2, card 0`; None if it is the host's or names none."""
    tokens = [(match["word"], match["number"]) for match in _WORD.finditer(_IN_BRACKETS.sub(" ", label))]
    types = [word for word, _ in tokens if word and not _PLACE.fullmatch(word)]
    numbered = [(word, number) for (word, _), (_, number) in pairwise(tokens) if word and number]
    units = [pair for pair in numbered if _UNIT.fullmatch(pair[0])]
    places = [(types[-1] if types else word, number) for word, number in numbered if _PLACE.fullmatch(word)]
    if candidates := units or places or numbered:
        word, number = candidates[-1]
    elif types:
        attached = re.fullmatch(r"([a-z]+)(\d+)", types[-1], re.IGNORECASE)
        word, number = attached.groups() if attached else (types[-1], str(pid))
    else:
        return None
    return None if word.lower() in _OF_HOST_LABELS else _name(word, number)


def _name(device_type: str, number: str) -> str:
    """A device's name of its type in any writing, `tt_metal:0`, and of the number at the end of a text."""
    word = re.sub(r"\W+", "_", device_type.lower())
    return f"{_GPU if word in _GPUS else word}:{_number(number)}"


def _number(text: str) -> int:
    """The number of a device in a text, 0 where that is none."""
    digits = re.search(r"(?<!\d)\d{1,18}$", text)
    return int(digits[0]) if digits and int(digits[0]) < MOST_NUMBER else 0


def no_gpus(devices: Mapping[str, str]) -> dict[str, str]:
    """Those of the `devices` of processes that are no GPUs."""
    return {pid: name for pid, name in devices.items() if type_of(name) != _GPU}


def of_processes(
    document: Document, rows: Rows, gpus: pd.Categorical, given: NDArray[np.bool_], devices: Mapping[str, str]
) -> pd.Categorical:
    """The devices of the events `rows`, which are `gpus` but where their process is one of other `devices`, or their
    category names one: that tells the type, and the number too where it is not `given` with the event."""
    processes, category_of = document.pid[rows], named(document.cat[rows])
    which, first = distinct(gpus.codes, processes.codes, category_of.codes, given)
    names = []
    for row in first.tolist():
        own, number = devices.get(processes[row]), gpus[row].rpartition(":")[2]
        category = category_of[row].lower()
        if own is None and category and category not in _KINDS:
            own = _name(_type_in(category) or category, "")
        if own is None or type_of(own) == _GPU:
            names.append(gpus[row])
        else:
            names.append(f"{type_of(own)}:{number}" if given[row] else own)
    return categorical(names, which)
