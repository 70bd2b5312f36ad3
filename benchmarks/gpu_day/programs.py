"""The programs that a GPU day traces: small ones, whose traces tests can keep, and one that every tool measures.

    python programs.py devices --json devices.json
    tracekit capture programs.py steps
    tracekit capture programs.py copies
    python programs.py copies --framework torch --profiler torch --out trace.json

* "devices": what jax sees. No work.
* "steps": SGD steps of a small network, many small kernels each, as CUDA graphs wherever XLA makes them.
* "all-reduce": products and all-reduces over all devices.
* "copies": products, and beside them copies to the device and from it, each on a stream of its own. Phases "compute",
  "to device" and "to host" apart, then "both". Written for JAX and for PyTorch. A profiler that the program itself
  starts records "both" alone, with the others left out.
"""

import argparse
import ctypes
import functools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

Region = Callable[[], AbstractContextManager[Any]]


def devices() -> dict[str, Any]:
    """The devices that jax sees: platform, kinds, bytes of memory (None where unknown), and the version of jax."""
    import jax

    found = jax.local_devices()
    memory = [(device.memory_stats() or {}).get("bytes_limit") for device in found]
    kinds = [device.device_kind for device in found]
    return {"platform": found[0].platform, "kinds": kinds, "memory_bytes": memory, "jax": jax.__version__}


def steps(size: int, rounds: int) -> None:
    """`rounds` SGD steps of four layers of (size, size), marked as steps."""
    import jax
    import jax.numpy as jnp

    import tracekit

    def loss(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        for layer in weights:
            x = jnp.tanh(x @ layer)
        return jnp.mean(x**2)

    @jax.jit
    def step(weights: list[jax.Array], x: jax.Array) -> list[jax.Array]:
        return [layer - 0.1 * own for layer, own in zip(weights, jax.grad(loss)(weights, x), strict=True)]

    rng = np.random.default_rng(0)
    x, *weights = jax.device_put([rng.standard_normal((size, size), np.float32) / size**0.5 for _ in range(5)])
    for _ in range(3):  # compiles, and gives a graph time to be made
        weights = jax.block_until_ready(step(weights, x))
    with tracekit.phase("steps"):
        for number in range(rounds):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                weights = step(weights, x)
        jax.block_until_ready(weights)


def all_reduce(size: int, rounds: int) -> None:
    """`rounds` times a product on every device, then the sum of the results over all devices."""
    import jax
    from jax.sharding import AxisType, NamedSharding, PartitionSpec

    import tracekit

    mesh = jax.make_mesh((jax.device_count(),), ("all",), axis_types=(AxisType.Auto,))
    split = PartitionSpec("all")
    x = np.full((jax.device_count() * size, size), 1 / size, np.float32)
    rows = jax.device_put(x, NamedSharding(mesh, split))

    def part(x: jax.Array) -> jax.Array:
        total: jax.Array = jax.lax.psum(x @ x, "all")
        return total

    program = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=split, out_specs=PartitionSpec()))
    program(rows).block_until_ready()
    with tracekit.phase("all-reduce"):
        jax.block_until_ready([program(rows) for _ in range(rounds)])


class JaxCopies:
    """Products of (size, size) on the first device, and copies of as many bytes to it and from it."""

    def __init__(self, size: int, rounds: int) -> None:
        import jax

        self.jax, self.rounds, self.device = jax, rounds, jax.local_devices()[0]
        self.host = [np.full((size, size), 1 / size, np.float32) for _ in range(2)]
        self.x = jax.device_put(self.host[0], self.device)
        self.product = jax.jit(lambda x: x @ x)
        self.results: list[Any] = []

    def prepare(self) -> None:
        """Arrays on the device that the host has not seen: an array that came to the host stays there."""
        self.results = self.jax.block_until_ready([self.product(self.x) for _ in range(self.rounds)])

    def run(self, compute: bool, up: bool, down: bool) -> None:
        """Queue what is asked for, all of it before waiting for any."""
        pending: list[Any] = []
        for at in range(self.rounds):
            if compute:
                pending.append(self.product(self.x))
            if up:
                pending.append(self.jax.device_put(self.host[at % 2], self.device))
            if down:
                self.results[at].copy_to_host_async()
        self.jax.block_until_ready(pending)
        if down:
            for result in self.results:
                np.asarray(result)


class TorchCopies:
    """The same in PyTorch, on pinned memory and with a stream for each direction; CUDA events measure it."""

    def __init__(self, size: int, rounds: int) -> None:
        import torch

        if not torch.cuda.is_available():
            raise SystemExit("torch sees no GPU: this build is for the CPU, or the driver does not fit it.")
        torch.backends.cuda.matmul.allow_tf32 = True  # as XLA rounds by default
        self.torch, self.rounds = torch, rounds
        self.x = torch.full((size, size), 1 / size, device="cuda")
        self.host = torch.full((size, size), 1 / size).pin_memory()
        self.sink = torch.empty((size, size)).pin_memory()
        self.up, self.down = torch.cuda.Stream(), torch.cuda.Stream()
        self.events: dict[str, float] = {}

    def prepare(self) -> None:
        """Wait for all before."""
        self.torch.cuda.synchronize()

    def run(self, compute: bool, up: bool, down: bool) -> None:
        """Queue what is asked for, and keep what CUDA events say each stream took, in ms since the common start."""
        cuda, own = self.torch.cuda, self.torch.cuda.current_stream()
        event = functools.partial(cuda.Event, enable_timing=True)
        begin = own.record_event(event())
        for stream in (self.up, self.down):
            stream.wait_event(begin)
        for _ in range(self.rounds):
            if compute:
                self.x @ self.x
            if up:
                with cuda.stream(self.up):
                    self.host.to("cuda", non_blocking=True)
            if down:
                with cuda.stream(self.down):
                    self.sink.copy_(self.x, non_blocking=True)
        streams = {"compute": own, "to device": self.up, "to host": self.down}
        ends = {name: stream.record_event(event()) for name, stream in streams.items()}
        for end in ends.values():
            own.wait_event(end)
        ends["all"] = own.record_event(event())
        cuda.synchronize()
        self.events = {name: begin.elapsed_time(end) for name, end in ends.items()}


@contextmanager
def cuda_profiler() -> Iterator[None]:
    """What `nsys profile --capture-range=cudaProfilerApi` records: from cuProfilerStart to cuProfilerStop.

    The driver's calls are for the current context of this thread, and XLA leaves none: all share the primary one.
    """
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()

    def call(name: str, *arguments: Any) -> None:
        if code := getattr(cuda, name)(*arguments):
            raise SystemExit(f"{name} of the CUDA driver returned error {code}.")

    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuProfilerStart")
    try:
        yield
    finally:
        call("cuProfilerStop")


@contextmanager
def torch_profiler(out: Path) -> Iterator[None]:
    """PyTorch's profiler, which sees every CUDA call of the process, JAX's too; it writes `out`."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.zeros(1, device="cuda")  # or it has no context, and records nothing
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        yield
    profiler.export_chrome_trace(str(out))


def copies(options: argparse.Namespace) -> dict[str, Any]:
    """Run the program; wall times in ms by phase, and what CUDA events say of "both"."""
    program = (JaxCopies if options.framework == "jax" else TorchCopies)(options.size, options.rounds)
    for _ in range(2):  # compiles, and touches all memory
        program.prepare()
        program.run(True, True, True)
    phases = {"compute": (True, False, False), "to device": (False, True, False), "to host": (False, False, True)}
    phases = (phases if options.profiler in ("none", "tracekit") else {}) | {"both": (True, True, True)}
    walls = {}
    for name, work in phases.items():
        program.prepare()
        with region(name, list(phases)[:-1], options):
            begin = time.perf_counter()
            program.run(*work)
            walls[name] = (time.perf_counter() - begin) * 1e3
    return {"wall_ms": walls, "events_ms": getattr(program, "events", {})}


def region(name: str, others: list[str], options: argparse.Namespace) -> AbstractContextManager[Any]:
    """What records or marks a phase."""
    if options.profiler == "tracekit":
        import tracekit

        return tracekit.phase(name, alone=others if name == "both" else ())
    if options.profiler == "torch":
        return torch_profiler(options.out)
    return cuda_profiler() if options.profiler == "nsys" else nullcontext()


def main() -> None:
    """Run one program; write what it says as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", choices=["devices", "steps", "all-reduce", "copies"])
    parser.add_argument("--size", type=int, default=4096, help="rows of the matrices [4096]")
    parser.add_argument("--rounds", type=int, default=20, help="steps, or products and copies [20]")
    parser.add_argument("--framework", choices=["jax", "torch"], default="jax", help="of copies [jax]")
    parser.add_argument(
        "--profiler", choices=["none", "tracekit", "nsys", "torch"], default="none", help="around copies"
    )
    parser.add_argument("--out", type=Path, help="the trace of PyTorch's profiler")
    parser.add_argument("--json", type=Path, help="where to write what was found")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    if options.program == "steps":
        steps(options.size, options.rounds)
    elif options.program == "all-reduce":
        all_reduce(options.size, options.rounds)
    else:
        found = devices() if options.program == "devices" else copies(options)
    if options.json:
        options.json.write_text(json.dumps(found) + "\n", "utf-8")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
