"""Make an XSpace file like the one four busy GPUs leave behind: `python benchmarks/make_xspace.py --events 1000000`.

Fields, types and their mix follow real traces of NVIDIA GPUs. In each step a GPU runs its kernels on one stream, NCCL
on another and copies on two more; the derived lines repeat the kernels, and threads of the host hold the launches. With
`--kind eight` there are eight GPUs, 300 names of kernels on each, and no derived lines, as JAX no longer writes them:
half of the events are the host's. The same kind, number of events and seed give the same bytes.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from xspace_writer import Ints, Line, Plane, Stat, encode, message, number

SMALLEST = 500
_KERNELS_A_STEP = 300
_KERNELS_A_COLLECTIVE = 25
_MODULE, _PROGRAM_ID = "jit_train_step", 17
_DEVICE_TIMESTAMP_NS, _HOST_TIMESTAMP_NS = 245_747, 151_511
# What is to stand at one moment stands so much later on the lines of the host.
_LATER_NS = _DEVICE_TIMESTAMP_NS - _HOST_TIMESTAMP_NS
_DERIVED = 0xDEADBEEF
_SHAPES = ("loop_add_fusion", "input_reduce_fusion", "gemm_fusion_dot", "loop_multiply_fusion", "wrapped_convert")
_GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_kernel"
_NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_DEVICE_STATS = (
    ("device_vendor", "str", "Nvidia"),
    ("gpu_device_name", "str", "NVIDIA H100 80GB HBM3"),
    ("clock_rate", "int64", 1_980_000),
    ("core_count", "int64", 132),
    ("memory_bandwidth", "uint64", 3_352_320_000_000),
    ("memory_size", "uint64", 85_017_493_504),
    ("compute_cap_major", "int64", 9),
    ("compute_cap_minor", "int64", 0),
)


@dataclass(frozen=True)
class Kind:
    """How many GPUs a file has, and whether lines repeat what their streams hold; without these, every kernel has a
    name of its own."""

    gpus: int
    has_derived_lines: bool


KINDS = {"four": Kind(gpus=4, has_derived_lines=True), "eight": Kind(gpus=8, has_derived_lines=False)}


def planes(events: int, seed: int = 0, kind: Kind = KINDS["four"]) -> list[Plane]:
    """The planes of a trace with exactly `events` events; ValueError below SMALLEST."""
    gpus = range(kind.gpus)
    if events < SMALLEST:
        raise ValueError(
            f"{events} events are too few for {kind.gpus} GPUs with all their lines; ask for {SMALLEST} or more."
        )
    rng = np.random.default_rng(seed)
    kernels = min(_KERNELS_A_STEP, events // (8 * kind.gpus))
    collectives = -(-kernels // _KERNELS_A_COLLECTIVE)
    # A kernel and its launch, each of three copies and its launch; derived: a kernel again, a module and a step once.
    on_gpu = 2 * (kernels + collectives + 3) + (kernels + collectives + 2 if kind.has_derived_lines else 0)
    run = _Run(rng, events // (kind.gpus * on_gpu + 2), kernels, collectives, kind)
    devices = [_device(run, gpu) for gpu in gpus]
    threads = [_launches(run, gpu) for gpu in gpus]
    remaining = events - sum(len(line.name) for plane in [*devices, Plane(0, "", threads)] for line in plane.lines)
    clock = (("profile_start_time", 1_738_771_704_500_592_093), ("profile_stop_time", 1_738_771_764_606_773_073))
    return [
        Plane(0, "/host:metadata", blobs=[(f"{_MODULE}({_PROGRAM_ID})", "Hlo Proto", _hlo(run))]),
        *devices,
        Plane(0, "/host:CPU", [*threads, _python(rng, run, remaining)]),
        Plane(0, "Task Environment", stats=[(name, "uint64", time_ns) for name, time_ns in clock]),
    ]


class _Run:
    """When everything runs, in ns, and what it is called; times have shape (steps, n of the kind, GPUs)."""

    def __init__(self, rng: np.random.Generator, steps: int, kernels: int, collectives: int, kind: Kind) -> None:
        self.steps = steps
        self.kind = kind
        self.ops = [f"{_SHAPES[at % len(_SHAPES)]}.{at}" for at in range(kernels)]
        self.all_reduces = [f"all-reduce-start.{at}" for at in range(collectives)]
        self.details = [
            f"regs:{16 + at * 37 % 200} static_shared:0 dynamic_shared:{at % 4 << 14} "
            f"grid:{1 + at * 709 % 5000},1,1 block:{64 << at % 4},1,1 occ_pct:{25 * (1 + at % 4)}"
            for at in range(64)
        ]
        self.detail = rng.integers(0, len(self.details), kernels)
        # Kernels follow each other on their stream with a small gap; 1 ms before the first, the copies begin.
        typical = rng.lognormal(np.log(8_000), 0.9, (kernels, 1))
        duration = 500 + (typical * rng.normal(1, 0.03, (steps, kernels, kind.gpus)).clip(0.8, 1.2)).astype(np.int64)
        ends = 1_000_000 + np.cumsum(duration + rng.integers(0, 2_000, duration.shape), axis=1)
        # An all-reduce starts on each GPU when its gradients are ready, and ends on all GPUs at nearly the same time.
        last = np.minimum(np.arange(1, collectives + 1) * _KERNELS_A_COLLECTIVE, kernels) - 1
        ready = ends[:, last]
        transfer = rng.integers(20_000, 150_000, (steps, collectives))
        before = np.cumsum(transfer, axis=1) - transfer
        together = np.maximum.accumulate(ready.max(axis=2) - before, axis=1) + before + transfer
        reduced = together[:, :, None] - rng.integers(0, 4_000, ready.shape)
        reduces = np.maximum(ready, np.concatenate([ready[:, :1], reduced[:, :-1]], axis=1))
        # The next step begins when all GPUs are done and the host is ready for it.
        finish = np.maximum(ends[:, -1:], reduced[:, -1:])
        length = finish.max(axis=(1, 2)) + rng.integers(50_000, 200_000, steps)
        base = 50_000 + (np.cumsum(length) - length)[:, None, None]
        self.kernel = base + ends - duration, base + ends
        self.all_reduce = base + reduces, base + reduced
        to_device = base + np.array([100_000, 550_000])[:, None] + rng.integers(0, 9_000, (steps, 2, kind.gpus))
        self.h2d = to_device, to_device + rng.integers(100_000, 400_000, to_device.shape)
        self.d2h = base + finish + 3_000, base + finish + rng.integers(5_000, 12_000, finish.shape)
        self.step = base + np.zeros((1, 1, kind.gpus), np.int64) + 90_000, base + finish

    def times(self, gpu: int, kinds: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
        """Starts and ends on one GPU, kind after kind."""
        start, end = (np.concatenate([kind[side][:, :, gpu].ravel() for kind in kinds]) for side in (0, 1))
        return start, end

    def correlation(self, stream: int, rows: int, gpu: int) -> Ints:
        """Ids that are unique in the trace and grow along each of a GPU's four streams."""
        return 1 + (np.arange(rows, dtype=np.int64) * self.kind.gpus + gpu) * 4 + stream

    def order(self, names: Sequence[str]) -> tuple[Ints, Ints]:
        """The index in `names` and the step of what runs once a step, in order."""
        name, step = np.arange(len(names), dtype=np.int64), np.arange(self.steps, dtype=np.int64)
        return np.tile(name, self.steps), np.repeat(step, len(names))


def _xla(names: Sequence[str], name: Ints, step: Ints, has: NDArray[np.bool_] | None = None) -> list[Stat]:
    """The stats that say where in the program an event comes from."""
    same = np.zeros_like(name)
    return [
        Stat("tf_op", "ref", same, ["XlaModule:"], has),
        Stat("name", "ref", name, [f"jit(train_step)/transpose(jvp(model))/{op}" for op in names], has),
        Stat("hlo_op", "ref", name, names, has),
        Stat("hlo_module", "ref", same, [_MODULE], has),
        Stat("program_id", "int64", same + _PROGRAM_ID, (), has),
        Stat("run_id", "int64", 5_000 + step, (), has),
        Stat("group_id", "int64", step, (), has),
    ]


def _device(run: _Run, gpu: int) -> Plane:
    def line(
        line_id: int, title: str, names: Sequence[str], name: Ints, times: tuple[Ints, Ints], *stats: Stat
    ) -> Line:
        start, end = times
        return Line(line_id, title, _DEVICE_TIMESTAMP_NS, names, name, start * 1000, (end - start) * 1000, stats)

    def launch(stream: int, rows: int) -> list[Stat]:
        context = Stat("context_id", "str", np.zeros(rows, np.int64), [f"$${gpu + 1}"])
        return [Stat("correlation_id", "uint64", run.correlation(stream, rows, gpu)), context]

    def copies(
        line_id: int, stream: int, way: str, memcpy_details: str, stat_type: str, times: tuple[Ints, Ints]
    ) -> Line:
        rows = np.arange(len(times[0]), dtype=np.int64)
        sizes = [memcpy_details.format(size=4096 << size, gpu=gpu) for size in range(8)]
        details = Stat("memcpy_details", stat_type, rows % 8, sizes)
        return line(line_id, f"Stream #{line_id}({way})", [way], rows * 0, times, *launch(stream, len(rows)), details)

    ops, op_steps = run.order(run.ops)
    reduces, reduce_steps = run.order(run.all_reduces)
    steps = np.arange(run.steps, dtype=np.int64)
    # The library's kernels have names of their own; the compiler's have no dots where their ops do.
    is_shared = run.kind.has_derived_lines
    kernels = [_GEMM if "gemm" in op and is_shared else op.replace(".", "_") for op in run.ops]
    detail = np.tile(run.detail, run.steps)
    occupancy = Stat("theoretical_occupancy_pct", "double", 25.0 * (1 + detail % 4))
    sizes = [Stat("occupancy_min_grid_size", "int64", ops * 0 + 264)]
    sizes += [Stat("occupancy_suggested_block_size", "int64", ops * 0 + 1024)]
    details = [Stat("kernel_details", "ref", which, run.details) for which in (detail, reduces * 0)]
    kernel_stats = [*launch(0, len(ops)), occupancy, *sizes, details[0], *_xla(run.ops, ops, op_steps)]
    reduce_stats = [*launch(3, len(reduces)), details[1], *_xla(run.all_reduces, reduces, reduce_steps)]
    names, start, end = [*run.ops, *run.all_reduces], *run.times(gpu, [run.kernel, run.all_reduce])
    by_time = np.argsort(start, kind="stable")
    all_ops = np.concatenate([ops, reduces + len(run.ops)])[by_time]
    all_steps = np.concatenate([op_steps, reduce_steps])[by_time]
    op_stats = [stat for stat in _xla(names, all_ops, all_steps) if stat.name not in ("tf_op", "name")]
    # Some profilers wrote the ids of derived lines as int32, so that they are negative.
    derived = _DERIVED - (gpu % 2 << 32)
    step_times = run.times(gpu, [run.step])
    run_id, group_id = Stat("run_id", "int64", 5_000 + steps), Stat("group_id", "int64", steps)
    to_device = "kind_src:pinned kind_dst:device size:{size} dest:{gpu} async:1"
    to_host = "kind_src:device kind_dst:pinned size:{size} dest:{gpu} async:1"
    streams = [
        line(13, "Stream #13(Compute)", kernels, ops, run.times(gpu, [run.kernel]), *kernel_stats),
        copies(14, 1, "MemcpyH2D", to_device, "ref", run.times(gpu, [run.h2d])),
        copies(15, 2, "MemcpyD2H", to_host, "str", run.times(gpu, [run.d2h])),
        line(24, "Stream #24(Compute)", [_NCCL], reduces * 0, run.times(gpu, [run.all_reduce]), *reduce_stats),
    ]
    repeated = [
        line(derived, "Steps", [str(step) for step in steps], steps, step_times, group_id),
        line(derived + 4, "XLA Modules", [f"{_MODULE}({_PROGRAM_ID})"], steps * 0, step_times, run_id, group_id),
        line(derived + 5, "XLA Ops", names, all_ops, (start[by_time], end[by_time]), *op_stats),
    ]
    lines = [*streams, *repeated] if run.kind.has_derived_lines else streams
    return Plane(gpu + 1, f"/device:GPU:{gpu}", lines, _DEVICE_STATS)


def _launches(run: _Run, gpu: int) -> Line:
    """The host thread that launches everything one GPU runs, in order of launch."""
    names = [*run.ops, *run.all_reduces]
    # In the order of the streams that correlation ids are made of.
    kinds = (run.kernel, run.h2d, run.d2h, run.all_reduce)
    calls = ["cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuLaunchKernelExC"]
    rows = [kind[0].shape[0] * kind[0].shape[1] for kind in kinds]
    start, _ = run.times(gpu, kinds)
    by_time = np.argsort(start, kind="stable")
    call = np.repeat(np.arange(4, dtype=np.int64), rows)[by_time]
    correlation = np.concatenate([run.correlation(stream, n, gpu) for stream, n in enumerate(rows)])[by_time]
    copies = np.zeros(rows[1] + rows[2], np.int64)
    (ops, op_steps), (reduces, reduce_steps) = run.order(run.ops), run.order(run.all_reduces)
    op = np.concatenate([ops, copies, reduces + len(run.ops)])[by_time]
    step = np.concatenate([op_steps, copies, reduce_steps])[by_time]
    thread = 3_954_035 + gpu
    title = f"Host Threads/{thread}"
    xla = _xla(names, op, step, (call == 0) | (call == 3))
    stats = [
        Stat("device_id", "uint64", call * 0 + gpu),
        Stat("correlation_id", "uint64", correlation),
        Stat("context_id", "str", call * 0, [f"$${gpu + 1}"]),
        *(stat for stat in xla if stat.name != "run_id"),
    ]
    # A call is over before the device begins.
    offset, duration = (start[by_time] - 20_000 + _LATER_NS) * 1000, (2_000 + correlation % 1_500) * 1000
    return Line(thread, title, _HOST_TIMESTAMP_NS, calls, call, offset, duration, stats, title)


def _python(rng: np.random.Generator, run: _Run, events: int) -> Line:
    """The main thread: two events a step, then calls without stats for the rest, out of order as in real traces."""
    steps, rest = run.steps, events - 2 * run.steps
    names = ["train", "PjitFunction(train_step)", "ParseArguments", "PythonRefManager::CollectGarbage"]
    name = np.concatenate([np.repeat(np.arange(2), steps), rng.integers(2, 4, rest)]).astype(np.int64)
    step = np.concatenate([np.tile(np.arange(steps), 2), np.zeros(rest)]).astype(np.int64)
    begin, end = run.step[0].min(axis=(1, 2)) + _LATER_NS, run.step[1].max(axis=(1, 2)) + _LATER_NS
    offset = np.concatenate([begin - 60_000, begin - 50_000, rng.integers(0, end[-1], rest)]) * 1000
    duration = np.concatenate([end - begin, np.full(steps, 45_000), rng.integers(200, 3_000, rest)]) * 1000
    stats = [
        Stat("step_num", "int64", step, (), name == 0),
        Stat("_r", "int64", step * 0 + 1, (), name == 0),
        Stat("group_id", "int64", step, (), name < 2),
    ]
    # Ids of threads are hashes, as often negative as not.
    thread = -8_659_199_237_058_743_317
    return Line(thread, "python", _HOST_TIMESTAMP_NS, names, name, offset, duration, stats, "python")


def _hlo(run: _Run) -> bytes:
    """A HloProto with name, opcode and id of each op: hlo_module=1, its computations=3, their instructions=2."""
    ops = [(op, "fusion") for op in run.ops] + [(op, "all-reduce-start") for op in run.all_reduces]
    instructions = [
        message(2, message(1, op) + message(2, opcode) + number(35, at)) for at, (op, opcode) in enumerate(ops, start=1)
    ]
    computation = message(1, "main") + b"".join(instructions) + number(5, 1) + number(6, 1)
    module = message(1, _MODULE) + message(2, "main") + message(3, computation) + number(5, _PROGRAM_ID) + number(6, 1)
    return message(1, module)


def write(path: Path, events: int, seed: int = 0, kind: str = "four") -> int:
    """Write the file of one of the KINDS and return its size in bytes."""
    with path.open("wb") as file:
        return sum(file.write(part) for part in encode(planes(events, seed, KINDS[kind]), "gpu-host-0"))


def main() -> None:
    """Parse the options and write the file."""
    parser = argparse.ArgumentParser(description="Write a GPU-like XSpace file.")
    parser.add_argument("--events", type=int, default=1_000_000, help="XEvents in the file (default: 1000000)")
    parser.add_argument("--out", type=Path, default=Path("traces/generated.xplane.pb"), help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--kind", choices=KINDS, default="four", help="default: %(default)s")
    options = parser.parse_args()
    if options.events < SMALLEST:
        parser.error(f"--events must be at least {SMALLEST}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    size = write(options.out, options.events, options.seed, options.kind)
    print(f"Wrote {options.out}: {options.events:,} events, {size:,} bytes, {size / options.events:.1f} bytes an event")


if __name__ == "__main__":
    main()
