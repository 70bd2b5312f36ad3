"""Make a Kineto trace like PyTorch's of a training job: `python benchmarks/make_kineto.py --events 1000000`.

Layout, args and the mix of events follow real files (one rank, A100, NCCL arguments): for each piece of device work
there are five CPU ops, three runtime calls and four flow events. The same number of events and seed give the same
bytes.
"""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SMALLEST = 100
DEVICES = 8
_STEP_WORK = 1000
_FIRST_NS = 4_458_676_388_068_751
_BASE_NS = 1_711_964_646_000_000_000
_PROCESS, _BACKWARD = 2910249, 2919752
_OPS = ("aten::linear", "aten::addmm", "aten::mul", "aten::native_layer_norm", "autograd::engine::evaluate_function: ")
_CALLS = ("cudaLaunchKernel", "cudaStreamIsCapturing", "cudaFuncGetAttributes")
_LAYOUTS = ("RING_LL", "TREE_LL128")
_COLLECTIVES = (("allreduce", "AllReduce", 1, 1), ("_allgather_base", "AllGather", 1, 8))
_COPIES = ("Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)", "Memcpy DtoD (Device -> Device)")


class _Activity(NamedTuple):
    """One piece of device work; its duration in ns."""

    cat: str
    name: str
    stream: int
    duration: int
    args: str


def write(path: Path, events: int, seed: int = 0) -> int:
    """Write a trace with exactly `events` events to `path`; its size in bytes. ValueError below SMALLEST."""
    if events < SMALLEST:
        raise ValueError(f"{events} events are too few for one of each kind; ask for {SMALLEST} or more.")
    properties = [{"id": at, "name": "NVIDIA A100-PG509-200", "totalGlobalMem": 42297524224} for at in range(DEVICES)]
    group = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "ranks": list(range(DEVICES))}
    rank = {"backend": "nccl", "rank": 0, "world_size": DEVICES, "pg_count": 1, "pg_config": [group]}
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f'{{\n  "schemaVersion": 1,\n  "deviceProperties": {json.dumps(properties, indent=4)},\n')
        file.write(f'  "distributedInfo": {json.dumps(rank)},\n  "displayTimeUnit": "ms",\n')
        file.write(f'  "baseTimeNanoseconds": {_BASE_NS},\n  "traceEvents": [\n  ')
        for at, event in enumerate(_events(events, random.Random(seed))):
            file.write(",\n  " * bool(at) + event)
        file.write('\n  ],\n  "traceName": "generated.pt.trace.json"\n}')
        return file.tell()


def _events(events: int, rng: random.Random) -> Iterator[str]:
    """The events: first the metadata and the span of the profiler, then steps until there are enough."""
    remaining = events
    for event in _metadata():
        yield event
        remaining -= 1
    names = [_kernel_name(at) for at in range(300)]
    now, device, work = _FIRST_NS, _FIRST_NS + 50_000, 0
    free: dict[int, int] = {}
    while remaining > 0:
        activity = _device(work, names, rng)
        # A stream runs one after the other, and nothing before its launch.
        start = max(device, now + 5_000, free.get(activity.stream, 0))
        free[activity.stream] = start + activity.duration
        group = _work(now, start, work, activity, rng)
        if work % _STEP_WORK == 0:
            step = f"ProfilerStep#{work // _STEP_WORK}"
            group.insert(0, _complete("user_annotation", step, _PROCESS, _PROCESS, now, 9_900_000, '"External id": 1'))
        yield from group[:remaining]
        remaining -= len(group)
        now += 10_000
        device = max(device, now) + rng.randrange(2_000, 14_000)
        work += 1


def _metadata() -> Iterator[str]:
    yield _complete("Trace", "PyTorch Profiler (0)", '"Spans"', '"PyTorch Profiler"', _FIRST_NS, 10**9, '"Op count": 0')
    for pid, name in ((_PROCESS, "python3"), *((at, "python3") for at in range(DEVICES))):
        yield _name_event("process_name", pid, 0, name)
    for stream in (7, 20, 24):
        yield _name_event("thread_name", 0, stream, f"stream {stream}")
    for thread in (_PROCESS, _BACKWARD):
        yield _name_event("thread_name", _PROCESS, thread, f"thread {thread} (python3)")


def _work(now: int, device: int, work: int, activity: _Activity, rng: random.Random) -> list[str]:
    """One piece of device work with the ops and calls that led to it."""
    thread = (_PROCESS, _BACKWARD)[work // 500 % 2]
    first = 3 * work + 1
    sizes = f"[[{rng.randrange(1, 65)}, 1024, {64 * rng.randrange(1, 17)}], [{rng.randrange(1, 5000)}]]"
    group = []
    for at in range(5):
        args = (
            f'"External id": {5 * work + at},\n      "Record function id": {work}, "Sequence number": {work % 5000}, '
        )
        args += f'"Fwd thread id": 1, "Ev Idx": {5 * work + at},\n      "Input Dims": {sizes}, '
        args += '"Input type": ["float", "float"]'
        name = _OPS[(work + at) % len(_OPS)] + ("MulBackward0" if (work + at) % len(_OPS) == 4 else "")
        group.append(_complete("cpu_op", name, _PROCESS, thread, now + 500 * at, 9_000 - 1_000 * at, args))
    for at in range(3):
        start = now + 4_000 + 1_500 * at
        args = f'"External id": {5 * work + 4}, "cbid": {211 - at}, "correlation": {first + at}'
        group.append(_complete("cuda_runtime", _CALLS[at], _PROCESS, thread, start, 1_200, args))
        group.append(_flow("f" if at else "s", first + at, _PROCESS, thread, start))
    placed = f'"External id": {5 * work + 4},\n      "device": 0, "context": 1, "stream": {activity.stream}, '
    placed += f'"correlation": {first},\n      {activity.args}'
    event = _complete(activity.cat, activity.name, 0, activity.stream, device, activity.duration, placed)
    return [*group, event, _flow("f", first, 0, activity.stream, device)]


def _device(work: int, names: list[str], rng: random.Random) -> _Activity:
    if work % 25 == 24:
        call, kernel, inputs, outputs = _COLLECTIVES[work % len(_COLLECTIVES)]
        size = 1 << rng.randrange(10, 24)
        args = f'"queued": 0, "Collective name": "{call}", "In msg nelems": {inputs * size}, "Out msg nelems": '
        args += f'{outputs * size}, "Group size": {DEVICES}, "dtype": "BFloat16", "In split size": "[]", '
        args += '"Out split size": "[]", "Process Group Name": "0", "Process Group Description": "default_pg", '
        args += f'"Process Group Ranks": "{list(range(DEVICES))}", "grid": [24, 1, 1], "block": [640, 1, 1]'
        name = f"ncclDevKernel_{kernel}_{_LAYOUTS[work % 2]}(ncclDevKernelArgsStorage<4096ul>)"
        return _Activity("kernel", name, 20, rng.randrange(20_000, 400_000), args)
    if work % 4 == 3:
        size = 1 << rng.randrange(4, 24)
        args = f'"bytes": {size}, "memory bandwidth (GB/s)": {size / 5_000}'
        if work % 16 == 3:
            return _Activity("gpu_memset", "Memset (Device)", 7, 1_000 + size // 1_000, args)
        return _Activity("gpu_memcpy", _COPIES[work % len(_COPIES)], 24, 1_000 + size // 20, args)
    args = '"queued": 0, "registers per thread": 40, "shared memory": 400,\n      "blocks per SM": 4.740741, '
    args += f'"warps per SM": 75.851852, "grid": [{rng.randrange(1, 4096)}, 1, 1], "block": [512, 1, 1],\n      '
    args += '"est. achieved occupancy %": 75'
    return _Activity("kernel", names[work % len(names)], 7, rng.randrange(1_500, 12_000), args)


def _kernel_name(at: int) -> str:
    shape = f"at::native::(anonymous namespace)::Functor{at}<float, {1 << at % 6}>"
    return (
        f"void at::native::vectorized_elementwise_kernel<{1 << at % 4}, {shape}, std::array<char*, {at % 7}ul> >(int)"
    )


def _micro(time_ns: int) -> str:
    return f"{time_ns // 1000}.{time_ns % 1000:03}"


def _complete(cat: str, name: str, pid: int | str, tid: int | str, start: int, duration: int, args: str) -> str:
    return (
        f'{{\n    "ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid},\n'
        f'    "ts": {_micro(start)}, "dur": {_micro(duration)},\n    "args": {{\n      {args}\n    }}\n  }}'
    )


def _flow(phase: str, key: int, pid: int, tid: int, start: int) -> str:
    binding = ', "bp": "e"' if phase == "f" else ""
    return (
        f'{{\n    "ph": "{phase}", "id": {key}, "pid": {pid}, "tid": {tid}, "ts": {_micro(start)},\n'
        f'    "cat": "ac2g", "name": "ac2g"{binding}\n  }}'
    )


def _name_event(what: str, pid: int, tid: int, name: str) -> str:
    return (
        f'{{\n    "name": "{what}", "ph": "M", "ts": {_micro(_FIRST_NS)}, "pid": {pid}, "tid": {tid},\n'
        f'    "args": {{\n      "name": "{name}"\n    }}\n  }}'
    )


def main() -> None:
    """Write the file that the command line asks for, and say how large it is."""
    parser = argparse.ArgumentParser(description="Write a Kineto trace of a training job.")
    parser.add_argument("--events", type=int, default=1_000_000, help="events in the file (default: 1000000)")
    parser.add_argument("--out", type=Path, default=Path("generated.pt.trace.json"), help="file to write")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other sizes and durations (default: 0)")
    options = parser.parse_args()
    size = write(options.out, options.events, options.seed)
    print(
        f"Wrote {options.out}: {options.events:,} events, {size / 1e6:.1f} MB, {size / options.events:.1f} bytes each"
    )


if __name__ == "__main__":
    main()
