"""A job as JAX's profiler writes it: all ranks in one XSpace, a plane for each GPU and one for the host."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tests.readers.xspaces import PlaneText, metadata_plane
from tests.readers.xspaces import write as write_text
from tests.simulator.clocks import WHOLE, Recorder
from tests.simulator.job import BACKWARD, DEVICE_SORTS, Row, Sort
from tests.simulator.truth import Truth
from tracekit.export.protobuf_encoder import number, varint

HOST = "/host:CPU"
# The correlation ids of one rank, of which all ranks are one process.
_IDS = 100_000
# The program, which the kernels of its collectives name, as those of all XLA ops do.
_MODULE, _PROGRAM, _REDUCE = "jit_train", 7, "all-reduce.1"
_F32, _ELEMENTS = 11, 1 << 20

Ids = dict[str, int]


class Plane(Protocol):
    """What events are added to, in any form."""

    def event(self, line: str, name: str, start_ns: int, duration_ns: int, /, **stats: int | str) -> object:
        """Add an event to a line."""


def write(truth: Truth, path: Path, recorder: Recorder = WHOLE) -> Path:
    """The file; all threads share the host's clock, so only devices may be late."""
    stats = {"device_vendor": "Nvidia", "gpu_device_name": "NVIDIA H100 80GB HBM3"}
    gpus = {rank: PlaneText(name, **stats) for rank, name in device_planes(truth, recorder).items()}
    host = PlaneText(HOST)
    streams, threads = fill(truth, recorder, gpus, host)
    text = "".join(
        plane.text(lines={line: number for line, number in streams.items() if line in plane.lines})
        for plane in gpus.values()
    )
    program = metadata_plane(**{f"{_MODULE}_{_PROGRAM}": _module(truth.job.ranks)}) if truth.job.ranks > 1 else ""
    return write_text(path.with_suffix(".xplane.pb"), program + text + host.text(lines=threads) + 'hostnames: "host"')


def device_planes(truth: Truth, recorder: Recorder) -> dict[int, str]:
    """The name of the plane of each rank that was recorded."""
    return {rank: f"/device:GPU:{rank}" for rank in sorted({*range(truth.job.ranks)} - recorder.missing)}


def fill(truth: Truth, recorder: Recorder, gpus: Mapping[int, Plane], host: Plane) -> tuple[Ids, Ids]:
    """Add the events of all rows to the planes, and give the numbers of streams and of threads by their lines."""
    lines = _lines(truth)
    threads: dict[str, int] = {}
    for row in truth.job.rows:
        if row.rank in recorder.missing:
            continue
        start, end = recorder.times(truth.recording, row)
        if row.sort in DEVICE_SORTS:
            _work(gpus[row.rank], lines[row.rank, row.lane], row, start, end)
            continue
        number = 100 + 2 * row.rank + (row.lane == BACKWARD)
        thread = f"python3/{number}"
        threads[thread] = number
        if row.sort == Sort.STEP:
            host.event(thread, "train", start, end - start, step_num=row.step)
        elif row.sort in (Sort.RANGE, Sort.OP):
            host.event(thread, row.name, start, end - start)
        else:
            host.event(thread, row.name, start, end - start, correlation_id=row.rank * _IDS + row.correlation)
    return {line: stream for (_, stream), line in lines.items()}, threads


def _module(ranks: int) -> bytes:
    """An HloModuleProto with an all-reduce of all ranks, compiled for that many devices (xla/service/hlo.proto)."""
    shape = number(2, _F32) + message(3, varint(_ELEMENTS))
    groups = message(1, b"".join(map(varint, range(ranks))))
    reduce = message(1, _REDUCE.encode()) + message(2, b"all-reduce") + message(3, shape)
    reduce += number(35, 1) + message(49, groups)
    computation = message(1, b"main") + message(2, reduce) + number(5, 1) + number(6, 1)
    assignment = number(1, 1) + number(2, ranks)
    return message(1, _MODULE.encode()) + message(3, computation) + number(6, 1) + message(15, assignment)


def message(field: int, content: bytes) -> bytes:
    """A field that holds a message or a text."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def _lines(truth: Truth) -> dict[tuple[int, int], str]:
    """The name of each rank's and stream's line, which says what is on it."""
    work: dict[tuple[int, int], set[str]] = {}
    for row in truth.job.rows:
        if row.sort in DEVICE_SORTS:
            copy = f"Memcpy{row.direction}" if row.sort == Sort.MEMCPY else ""
            kind = copy or {Sort.KERNEL: "Compute", Sort.MEMSET: "Memset"}[row.sort]
            work.setdefault((row.rank, row.lane), set()).add(kind)
    return {(rank, stream): f"Stream #{stream}({','.join(sorted(kinds))})" for (rank, stream), kinds in work.items()}


def _work(gpu: Plane, line: str, row: Row, start: int, end: int) -> None:
    """An event of a stream."""
    stats: dict[str, int | str] = {"correlation_id": row.rank * _IDS + row.correlation}
    if row.sort == Sort.MEMCPY:
        ends = "kind_src:pinned kind_dst:device" if row.direction == "H2D" else "kind_src:device kind_dst:pageable"
        stats["memcpy_details"] = f"{ends} size:{row.bytes} dest:{row.rank} async:1"
    elif row.collective >= 0:
        stats |= {"hlo_op": _REDUCE, "hlo_module": _MODULE, "program_id": _PROGRAM}
    elif row.sort == Sort.MEMSET:
        stats["Memset_details"] = "kind:device size:4096 async:1"
    gpu.event(line, row.name, start, end - start, **stats)
