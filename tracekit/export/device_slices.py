"""The rows of devices as GpuRenderStageEvents, of which any number may run on one queue at once.

Format: https://github.com/google/perfetto/blob/main/protos/perfetto/trace/gpu/gpu_render_stage_event.proto. A device is
a GPU, a lane a hardware queue, and each pair of a name and a kind a render stage.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.export.packets import GPU_SLICE, Axis, chunks, packets
from tracekit.export.protobuf_encoder import (
    Bytes,
    Ints,
    Pieces,
    constants,
    decimals,
    message,
    number,
    numbers,
    only,
    varint,
)
from tracekit.export.tracks import ClockDomain
from tracekit.timeline.timeline import Timeline
from tracekit.trace import KIND_DTYPE
from tracekit.vocabulary.kinds import Kind

# Of GpuRenderStageEvent.
_EVENT_ID, _DURATION, _CONTEXT, _EXTRA, _GPU, _QUEUE, _STAGE, _WAITED = 1, 2, 5, 6, 11, 13, 14, 18
_DIGITS = 20  # of the longest decimal, its sign among them
# Of InternedGpuRenderStageSpecification; in InternedData it is field 24.
_SPECIFICATION = 24
_IID, _NAME, _DESCRIPTION, _CATEGORY = 1, 2, 3, 4
_OTHER, _COMPUTE = 0, 2
TEXTS = ("kind", "category", "hlo_op", "hlo_module", "direction", "group")
NUMBERS = ("bytes", "wait_ps", "correlation_id", "run_id")


@dataclass(frozen=True)
class DeviceSlices:
    """The n rows of one clock, by device and start, with what they have in common interned.

    `at` (n,) are their places in `timeline.rows`; `queue` (n,) indexes `queues`, which are fields of the event, and
    `stage` (n,) numbers its stage. `specifications` are entries of interned data: of the queues, then of the stages.
    """

    timeline: Timeline
    devices: tuple[str, ...]
    at: Ints
    queue: Ints
    queues: list[bytes]
    stage: Ints
    specifications: list[bytes]

    def __len__(self) -> int:
        return len(self.at)


def device_slices(domain: ClockDomain) -> DeviceSlices:
    """The rows on one clock; each host is a graphics context."""
    rows, has_device = domain.timeline.rows, domain.has_device
    at = np.flatnonzero(has_device[rows.device]) if len(has_device) else np.zeros(0, np.int64)
    devices = np.flatnonzero(has_device).tolist()
    lanes, names = rows.labels("lane"), rows.labels("name")
    pairs, queue = np.unique(rows.device[at] * max(len(lanes), 1) + rows.codes("lane")[at], return_inverse=True)
    stages, stage = np.unique(rows.codes("name")[at] * len(KIND_DTYPE.categories) + rows.kind[at], return_inverse=True)
    specifications, queues = [], []
    for iid, pair in enumerate(pairs.tolist(), 1):
        device, lane = pair // len(lanes), lanes[pair % len(lanes)]
        name = f"{rows.devices[device]} {lane}"
        specifications.append(_specification(iid, name, lane, _OTHER))
        context = domain.processes[rows.hosts[device]]
        queues.append(number(_QUEUE, iid) + number(_GPU, devices.index(device)) + number(_CONTEXT, context))
    for iid, pair in enumerate(stages.tolist(), len(queues) + 1):
        kind = KIND_DTYPE.categories[pair % len(KIND_DTYPE.categories)]
        category = _COMPUTE if kind == Kind.COMPUTE else _OTHER
        specifications.append(_specification(iid, names[pair // len(KIND_DTYPE.categories)], kind, category))
    names_of_devices = tuple(rows.devices[device] for device in devices)
    return DeviceSlices(domain.timeline, names_of_devices, at, queue, queues, stage, specifications)


def _specification(iid: int, name: str, description: str, category: int) -> bytes:
    return message(
        _SPECIFICATION,
        number(_IID, iid) + message(_NAME, name) + message(_DESCRIPTION, description) + number(_CATEGORY, category),
    )


def device_slice_packets(slices: DeviceSlices, axis: Axis) -> Iterator[Bytes]:
    """The packets of the rows: one each. Its `event_id` is the row's place in `trace.events`, counted from 1.

    What is null is left out of the data beside a slice, and so are `start_ps` and `end_ps` where the time in whole
    nanoseconds says them exactly.
    """
    timeline, rows = slices.timeline, slices.timeline.rows
    texts = [([_extra(key, label) for label in rows.labels(key)], rows.codes(key)) for key in TEXTS]
    step_known, step_number = _steps(timeline)
    columns = {key: rows.numbers(key) for key in NUMBERS}
    everywhere = np.ones(len(rows), bool)
    columns |= {
        "instance": (timeline.collectives.instance, timeline.collectives.instance >= 0),
        "step": (step_number, step_known),
        "row": (rows.at, everywhere),
    }
    inexact = ~axis.exact(rows.start, rows.end)
    columns |= {"start_ps": (rows.start, inexact), "end_ps": (rows.end, inexact)}
    prefixes = {key: [_prefix(key, digits) for digits in range(_DIGITS + 1)] for key in columns}
    before = _before(timeline)
    for chunk in chunks(len(slices)):
        at = slices.at[chunk]
        start, end = axis.ns(rows.start[at]), axis.ns(rows.end[at])
        pieces = [
            *numbers(_EVENT_ID, rows.at[at] + 1),
            *numbers(_DURATION, end - start),
            constants(slices.queues, slices.queue[chunk]),
            *numbers(_STAGE, len(slices.queues) + 1 + slices.stage[chunk]),
        ]
        if (before[at] >= 0).any():
            pieces += only(numbers(_WAITED, rows.at[before[at]] + 1), before[at] >= 0)
        pieces += [constants(labels, codes[at]) for labels, codes in texts]
        for key, (values, known) in columns.items():
            pieces += _decimal(prefixes[key], values[at], known[at])
        yield packets(GPU_SLICE, start, pieces)


def _steps(timeline: Timeline) -> tuple[NDArray[np.bool_], Ints]:
    """Whether the step of each row is known, and its number, or where steps have none its place among them."""
    table, of = timeline.steps.table, timeline.steps.step_of
    numbered = table["step"].fillna(table.index.to_series().astype("Int64")).to_numpy(np.int64)
    return of >= 0, np.append(numbered, 0)[of]


def _before(timeline: Timeline) -> Ints:
    """The row of the same collective that started before each row, -1 for none; (n,)."""
    instance = timeline.collectives.instance
    at = np.flatnonzero(instance >= 0)
    at = at[np.lexsort((timeline.rows.start[at], instance[at]))]
    before = np.full(len(instance), -1)
    follows = instance[at[1:]] == instance[at[:-1]]
    before[at[1:][follows]] = at[:-1][follows]
    return before


def _extra(key: str, value: str) -> bytes:
    return message(_EXTRA, message(1, key) + message(2, value))


def _prefix(key: str, digits: int) -> bytes:
    """What stands before a value of so many digits."""
    field = message(1, key) + varint(2 << 3 | 2) + varint(digits)
    return varint(_EXTRA << 3 | 2) + varint(len(field) + digits) + field


def _decimal(prefixes: list[bytes], values: Ints, known: NDArray[np.bool_]) -> list[Pieces]:
    """The columns of a number in decimal digits, where it is known."""
    if not known.any():
        return []
    digits = decimals(values)
    return [constants(prefixes, np.where(known, digits.length, -1)), *only([digits], known)]
