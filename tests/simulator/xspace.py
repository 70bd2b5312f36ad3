"""A job as JAX's profiler writes it: all ranks in one XSpace, a plane for each GPU and one for the host."""

from pathlib import Path

from tests.readers.xspaces import PlaneText
from tests.readers.xspaces import write as write_text
from tests.simulator.clocks import WHOLE, Recorder
from tests.simulator.job import BACKWARD, DEVICE_SORTS, Row, Sort
from tests.simulator.truth import Truth

# The correlation ids of one rank, of which all ranks are one process.
_IDS = 100_000


def write(truth: Truth, path: Path, recorder: Recorder = WHOLE) -> Path:
    """The file; all threads share the host's clock, so only devices may be late."""
    gpus = {
        rank: PlaneText(f"/device:GPU:{rank}", device_vendor="Nvidia", gpu_device_name="NVIDIA H100 80GB HBM3")
        for rank in sorted({*range(truth.job.ranks)} - recorder.missing)
    }
    host = PlaneText("/host:CPU")
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
    streams = {line: stream for (_, stream), line in lines.items()}
    text = "".join(
        plane.text(lines={line: number for line, number in streams.items() if line in plane.lines})
        for plane in gpus.values()
    )
    return write_text(path.with_suffix(".xplane.pb"), text + host.text(lines=threads) + 'hostnames: "host"')


def _lines(truth: Truth) -> dict[tuple[int, int], str]:
    """The name of each rank's and stream's line, which says what is on it."""
    work: dict[tuple[int, int], set[str]] = {}
    for row in truth.job.rows:
        if row.sort in DEVICE_SORTS:
            copy = f"Memcpy{row.direction}" if row.sort == Sort.MEMCPY else ""
            kind = copy or {Sort.KERNEL: "Compute", Sort.MEMSET: "Memset"}[row.sort]
            work.setdefault((row.rank, row.lane), set()).add(kind)
    return {(rank, stream): f"Stream #{stream}({','.join(sorted(kinds))})" for (rank, stream), kinds in work.items()}


def _work(gpu: PlaneText, line: str, row: Row, start: int, end: int) -> None:
    """An event of a stream."""
    stats: dict[str, int | str] = {"correlation_id": row.rank * _IDS + row.correlation}
    if row.sort == Sort.MEMCPY:
        ends = "kind_src:pinned kind_dst:device" if row.direction == "H2D" else "kind_src:device kind_dst:pageable"
        stats["memcpy_details"] = f"{ends} size:{row.bytes} dest:{row.rank} async:1"
    elif row.sort == Sort.MEMSET:
        stats["Memset_details"] = "kind:device size:4096 async:1"
    gpu.event(line, row.name, start, end - start, **stats)
