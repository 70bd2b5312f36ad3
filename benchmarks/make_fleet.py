"""Make the traces of a cluster's hosts, with known faults: `python benchmarks/make_fleet.py --hosts 64 --out fleet`.

A job of H hosts with eight GPUs each trains step by step: a GPU runs its kernels on one stream, and after each part of
them all GPUs of all hosts meet in an all-reduce on another stream. The clock of each host is off by up to 10 ms, and
runs up to 20 ppm fast or slow. `FAULTS` says which faults a job has. The same job gives the same bytes.

A host is written as its XSpace file, or as the summary that `tracekit summarise` would make of that file: of a
thousand hosts the second takes seconds where the first takes minutes.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from xspace_writer import Ints, Line, Plane, Stat, encode, message, number, varint

from tracekit.columns import constant
from tracekit.readers import host_trace, summary
from tracekit.readers.summary import HostTrace
from tracekit.timeline.reduction import reduced

GPUS = 8
_MODULE, _PROGRAM_ID = "jit_train_step", 17
_COMPUTE, _NCCL = 13, 24
_ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
_ORIGIN_NS = 1_738_771_704_500_592_093
_BYTES = 64 << 20
_MOST_OFF_NS, _MOST_DRIFT = 10_000_000, 20e-6
_CALL_NS, _AHEAD_NS = 2_000, 30_000


@dataclass(frozen=True)
class Fleet:
    """A job of `hosts`, its size on each GPU, and its faults.

    `slow_gpus`: the GPU of a host whose kernels take so many times as long. `late_hosts`: hosts that launch each step
    so many ns late. `broken`: hosts whose file is cut to pieces; `missing`: hosts without a file.
    """

    hosts: int
    steps: int = 10
    kernels: int = 60
    collectives: int = 3
    seed: int = 0
    slow_gpus: tuple[tuple[int, int, float], ...] = ()
    late_hosts: tuple[tuple[int, int], ...] = ()
    broken: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()

    @property
    def events(self) -> int:
        """The events of each host: rows of GPUs, and their launches."""
        return 2 * GPUS * self.steps * (self.kernels + self.collectives)


def with_faults(hosts: int, **sizes: int) -> Fleet:
    """A fleet with the faults that are to be found: two slow GPUs, a host that launches late, two broken files, one
    missing."""
    at = [round(hosts * share) for share in (0.11, 0.42, 0.73, 0.3, 0.58, 0.87)]
    return Fleet(
        hosts,
        slow_gpus=((at[0], 3, 1.20), (at[1], 6, 1.12)),
        late_hosts=((at[2], 400_000),),
        broken=(at[3], at[4]),
        missing=(at[5],),
        **sizes,
    )


class Times:
    """When everything runs, in ns of true time; of (steps, n of the kind, devices), devices being host by host."""

    def __init__(self, fleet: Fleet) -> None:
        rng = np.random.default_rng(fleet.seed)
        devices = fleet.hosts * GPUS
        part = fleet.kernels // fleet.collectives
        typical = 500 + rng.lognormal(np.log(12_000), 0.7, (fleet.kernels, 1))
        pace = rng.normal(1, 0.004, devices).clip(0.98, 1.02)
        for host, gpu, times in fleet.slow_gpus:
            pace[host * GPUS + gpu] *= times
        late = np.zeros(devices, np.int64)
        for host, late_ns in fleet.late_hosts:
            late[host * GPUS : (host + 1) * GPUS] = late_ns
        self.kernel = np.empty((2, fleet.steps, fleet.kernels, devices), np.int64)
        self.all_reduce = np.empty((2, fleet.steps, fleet.collectives, devices), np.int64)
        self.step = np.empty((2, fleet.steps, devices), np.int64)
        at = np.full(devices, 1_000_000, np.int64)
        for step in range(fleet.steps):
            self.step[0, step] = at
            length = (typical * pace * rng.normal(1, 0.02, (fleet.kernels, devices)).clip(0.9, 1.1)).astype(np.int64)
            gap = rng.integers(200, 1_500, length.shape)
            gap[0] += late
            ends = at + np.cumsum(length + gap, axis=0)
            self.kernel[:, step] = ends - length, ends
            free = at
            for number_ in range(fleet.collectives):
                ready = np.maximum(ends[(number_ + 1) * part - 1], free) + rng.integers(1_000, 3_000, devices)
                free = int(ready.max()) + int(rng.integers(60_000, 90_000)) - rng.integers(0, 3_000, devices)
                self.all_reduce[:, step, number_] = ready, free
            self.step[1, step] = np.maximum(ends[-1], free)
            at = self.step[1, step].max() + rng.integers(20_000, 30_000, devices)
        self.offset_ns = rng.integers(-_MOST_OFF_NS, _MOST_OFF_NS + 1, fleet.hosts)
        self.drift = rng.uniform(-_MOST_DRIFT, _MOST_DRIFT, fleet.hosts)

    def on_clock(self, host: int, times: Ints) -> Ints:
        """True times as the clock of a host shows them, in ps from the origin."""
        shown: Ints = times * 1000 + np.rint(times * 1000 * self.drift[host]).astype(np.int64)
        return shown


def _names(fleet: Fleet) -> tuple[list[str], list[str]]:
    return [f"fusion_{at}" for at in range(fleet.kernels)], [f"all-reduce.{at}" for at in range(fleet.collectives)]


def _op(kernel: str) -> str:
    """The HLO op of a kernel."""
    return kernel.replace("_", ".")


def planes(fleet: Fleet, times: Times, host: int) -> list[Plane]:
    """The planes of the XSpace of a host."""
    kernels, all_reduces = _names(fleet)
    devices, threads = [], []
    for gpu in range(GPUS):
        device = host * GPUS + gpu
        kernel, reduce = (
            times.on_clock(host, each[..., device].reshape(2, -1)) for each in (times.kernel, times.all_reduce)
        )
        ops = np.tile(np.arange(fleet.kernels), fleet.steps)
        reduces = np.tile(np.arange(fleet.collectives), fleet.steps)
        of_kernels, of_reduces = (np.repeat(np.arange(fleet.steps), n) for n in (fleet.kernels, fleet.collectives))
        ids = np.arange(len(ops) + len(reduces)) + 1
        kernel_ids, reduce_ids = ids[: len(ops)], ids[len(ops) :]
        stats = [
            _xla([_op(name) for name in kernels], ops, of_kernels, kernel_ids),
            _xla(all_reduces, reduces, of_reduces, reduce_ids),
        ]
        devices.append(
            Plane(
                gpu + 1,
                f"/device:GPU:{gpu}",
                [
                    Line(
                        _COMPUTE,
                        f"Stream #{_COMPUTE}(Compute)",
                        0,
                        kernels,
                        ops,
                        kernel[0],
                        np.diff(kernel, axis=0)[0],
                        stats[0],
                    ),
                    Line(
                        _NCCL,
                        f"Stream #{_NCCL}(Compute)",
                        0,
                        [_ALL_REDUCE],
                        reduces * 0,
                        reduce[0],
                        np.diff(reduce, axis=0)[0],
                        stats[1],
                    ),
                ],
                [("device_vendor", "str", "Nvidia"), ("gpu_device_name", "str", "NVIDIA H100 80GB HBM3")],
            )
        )
        begin = np.concatenate([kernel[0], reduce[0]]) - _AHEAD_NS * 1000
        order = np.argsort(begin, kind="stable")
        context = Stat("context_id", "str", ids * 0, [f"$${gpu + 1}"])
        calls = Stat("correlation_id", "uint64", ids[order] + gpu * len(ids))
        threads.append(
            Line(
                100 + gpu,
                f"Host Threads/{100 + gpu}",
                0,
                ["cuLaunchKernel"],
                ids * 0,
                begin[order],
                ids * 0 + _CALL_NS * 1000,
                [calls, context],
                f"Host Threads/{100 + gpu}",
            )
        )
        for line, line_ids in zip(devices[-1].lines, (kernel_ids, reduce_ids), strict=True):
            line.stats[0].values[:] = line_ids + gpu * len(ids)
    step = np.arange(fleet.steps)
    mine = times.step[:, :, host * GPUS : (host + 1) * GPUS]
    bounds = times.on_clock(host, np.stack([mine[0].min(axis=1) - _AHEAD_NS - 2_000, mine[1].max(axis=1)]))
    marks = [Stat("step_num", "int64", step), Stat("_r", "int64", step * 0 + 1)]
    python = Line(1, "python", 0, ["train"], step * 0, bounds[0], np.diff(bounds, axis=0)[0], marks, "python")
    origin = _ORIGIN_NS + int(times.offset_ns[host])
    clock = [("profile_start_time", "uint64", origin), ("profile_stop_time", "uint64", origin + 10**10)]
    return [
        Plane(0, "/host:metadata", blobs=[(f"{_MODULE}({_PROGRAM_ID})", "Hlo Proto", _hlo(fleet))]),
        *devices,
        Plane(0, "/host:CPU", [*threads, python]),
        Plane(0, "Task Environment", stats=clock),
    ]


def _xla(names: Sequence[str], name: Ints, step: Ints, ids: Ints) -> list[Stat]:
    return [
        Stat("correlation_id", "uint64", ids.copy()),
        Stat("hlo_op", "ref", name, names),
        Stat("hlo_module", "ref", name * 0, [_MODULE]),
        Stat("program_id", "int64", name * 0 + _PROGRAM_ID),
        Stat("run_id", "int64", 5_000 + step),
    ]


def _hlo(fleet: Fleet) -> bytes:
    """The program: fusions, and all-reduces of all devices (xla/service/hlo.proto)."""
    kernels, all_reduces = _names(fleet)
    ops = [message(1, _op(name)) + message(2, "fusion") + number(35, at + 1) for at, name in enumerate(kernels)]
    groups = message(1, b"".join(map(varint, range(fleet.hosts * GPUS))))
    shape = number(2, 11) + message(3, varint(_BYTES // 4))
    for at, name in enumerate(all_reduces):
        ops.append(
            message(1, name)
            + message(2, "all-reduce")
            + message(3, shape)
            + number(35, len(kernels) + at + 1)
            + message(49, groups)
        )
    computation = message(1, "main") + b"".join(message(2, op) for op in ops) + number(5, 1) + number(6, 1)
    module = message(1, _MODULE) + message(2, "main") + message(3, computation) + number(5, _PROGRAM_ID) + number(6, 1)
    assignment = number(1, 1) + number(2, fleet.hosts * GPUS)
    module = message(1, _MODULE) + message(2, "main") + message(3, computation)
    return message(1, module + number(5, _PROGRAM_ID) + number(6, 1) + message(15, assignment))


def name_of(host: int) -> str:
    """What a host is called."""
    return f"host{host:04}"


def write_xspace(fleet: Fleet, times: Times, host: int, directory: Path) -> Path:
    """The file of a host, as its profiler writes it."""
    path = directory / f"{name_of(host)}.xplane.pb"
    with path.open("wb") as file:
        for part in encode(planes(fleet, times, host), name_of(host)):
            file.write(part)
    return path


class Summaries:
    """Summaries of hosts: that of the first file with the times, and the names, of another host."""

    def __init__(self, fleet: Fleet, times: Times, directory: Path) -> None:
        self.fleet, self.times = fleet, times
        path = write_xspace(fleet, times, 0, directory)
        self.first = host_trace(path)
        path.unlink()

    def of(self, host: int) -> HostTrace:
        """What the summary of a host holds."""
        tables = {plane.name: plane for plane in planes(self.fleet, self.times, host)}
        trace, name = self.first.trace, name_of(host)
        rows = [line for gpu in range(GPUS) for line in tables[f"/device:GPU:{gpu}"].lines]
        threads = tables["/host:CPU"].lines
        calls = threads[:-1]
        # The reader counts from the first event on.
        zero = min(int(line.offset_ps.min()) for line in (*rows, *threads))
        events = _at(trace.events, rows, name, zero)
        launches = _at(trace.launches, calls, name, zero)
        ids = np.concatenate([line.stats[0].values for line in calls])
        launches["correlation_id"] = pd.array(ids, "Int64")
        spans = _at(trace.spans, threads, name, zero)
        hosts = trace.hosts.assign(
            host=constant(name, 1),
            source=constant(f"{name}.xplane.pb", 1),
            origin_ns=pd.array([_ORIGIN_NS + int(self.times.offset_ns[host]) + zero // 1000], "Int64"),
        )
        devices = trace.devices.assign(host=constant(name, len(trace.devices)))
        made = replace(
            trace,
            events=events,
            launches=launches,
            spans=spans,
            hosts=hosts,
            devices=devices,
            source=f"{name}.xplane.pb",
        )
        return replace(self.first, trace=made)


def _at(table: pd.DataFrame, lines: Sequence[Line], host: str, zero: int) -> pd.DataFrame:
    """The rows of a frame at the times of the events of `lines`, which stand in the same order, counted from
    `zero`."""
    start = np.concatenate([line.offset_ps for line in lines]) - zero
    end = start + np.concatenate([line.duration_ps for line in lines])
    return table.assign(host=constant(host, len(table)), start_ps=start, end_ps=end)


def write(fleet: Fleet, directory: Path, files: int = 0) -> None:
    """Write the first `files` hosts as XSpaces, the others as summaries, into one run."""
    directory.mkdir(parents=True, exist_ok=True)
    times = Times(fleet)
    summaries = Summaries(fleet, times, directory)
    for host in range(fleet.hosts):
        if host in fleet.missing:
            continue
        path = directory / f"{name_of(host)}{summary.SUFFIX}"
        if host < files:
            path = write_xspace(fleet, times, host, directory)
        else:
            its = summaries.of(host)
            summary.write(its, path, reduced(its.trace))
        if host in fleet.broken:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])


def main() -> None:
    """Parse the options and write the files."""
    parser = argparse.ArgumentParser(description="Write the traces of a cluster's hosts, of eight GPUs each.")
    parser.add_argument("--hosts", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--files", type=int, default=0, help="so many as XSpaces, the others as summaries (default: 0)")
    parser.add_argument("--steps", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--kernels", type=int, default=60, help="of each GPU and step (default: %(default)s)")
    parser.add_argument("--healthy", action="store_true", help="without the faults")
    parser.add_argument("--out", type=Path, default=Path("traces/fleet"), help="default: %(default)s")
    options = parser.parse_args()
    make = Fleet if options.healthy else with_faults
    fleet = make(options.hosts, steps=options.steps, kernels=options.kernels)
    write(fleet, options.out, options.files)
    size = sum(path.stat().st_size for path in options.out.iterdir())
    print(f"Wrote {options.out}: {fleet.hosts} hosts of {fleet.events:,} events, {size:,} bytes")


if __name__ == "__main__":
    main()
