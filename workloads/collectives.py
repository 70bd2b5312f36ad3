"""Collectives over all devices: bandwidth over message sizes as nccl-tests prints it, and a ring by hand against psum.

For each operation and size the program is run a few times, each waited for, and the median time gives (after runs that
warm up, as in nccl-tests: on CPU the first ten or so of 4 MiB take three times as long, in memory never touched before)

* algorithm bandwidth: bytes / time, where bytes is what nccl-tests calls size: of the whole array for all-gather and
  reduce-scatter, of one device's array for all-reduce, all-to-all and permute;
* bus bandwidth: algorithm bandwidth times 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and
  all-to-all, 1 for permute (nccl-tests, doc/PERFORMANCE.md), so that it can be held against what a link can carry.

Times are from dispatch to the end, launch included, as a program sees them; the report has the time on the devices.

Must overlap: the same collective on all devices, all the time. Must not: one collective with the next, since each
program is waited for. "ring" sums by n-1 permutes of a part and n-1 more to hand the sums round (the ring all-reduce);
"psum" leaves it to the library; both give the same sums (asserted). "split" and "replicate" move an array from the host
to the devices, in parts and in copies.

Virtual CPU devices exchange through memory and share the cores: bandwidth there says nothing about a network.
"""

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import common
import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import tracekit

AXIS = "devices"
WARM_UP = 10
ROUNDS = 5


class Operation(NamedTuple):
    """A collective: what a device does with its part, (k,) float32, and the factors of its two bandwidths."""

    run: Callable[[jax.Array], jax.Array]
    whole: bool  # its size is that of the array over all devices, not of one device's
    bus: Callable[[int], float]


class Measured(NamedTuple):
    """One row of the table: bytes, median seconds, algorithm and bus bandwidth in bytes a second."""

    operation: str
    size: int
    seconds: float
    algorithm: float
    bus: float


def permute(x: jax.Array) -> jax.Array:
    """Hand x to the next device."""
    n = jax.lax.axis_size(AXIS)
    moved: jax.Array = jax.lax.ppermute(x, AXIS, [(at, (at + 1) % n) for at in range(n)])
    return moved


def ring_all_reduce(x: jax.Array) -> jax.Array:
    """The sum over all devices by hand: each of n parts goes round once to be summed, and once more to be known.

    x: (k,) with k a multiple of n. The algorithm of Patarasuk and Yuan (2009), as Horovod and NCCL use it.
    """
    n, me = jax.lax.axis_size(AXIS), jax.lax.axis_index(AXIS)
    parts = x.reshape(n, -1)
    for step in range(n - 1):  # reduce-scatter
        arrived = permute(parts[(me - step) % n])
        parts = parts.at[(me - step - 1) % n].add(arrived)
    for step in range(n - 1):  # all-gather
        arrived = permute(parts[(me + 1 - step) % n])
        parts = parts.at[(me - step) % n].set(arrived)
    return parts.reshape(-1)


OPERATIONS = {
    "all-reduce": Operation(lambda x: jax.lax.psum(x, AXIS), False, lambda n: 2 * (n - 1) / n),
    "all-gather": Operation(lambda x: jax.lax.all_gather(x, AXIS, tiled=True), True, lambda n: (n - 1) / n),
    "reduce-scatter": Operation(lambda x: jax.lax.psum_scatter(x, AXIS, tiled=True), True, lambda n: (n - 1) / n),
    "all-to-all": Operation(lambda x: jax.lax.all_to_all(x, AXIS, 0, 0, tiled=True), False, lambda n: (n - 1) / n),
    "permute": Operation(permute, False, lambda n: 1.0),
}


def on_mesh(mesh: Mesh, part: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    """Compile `part` to run on every device's part of an array of one dimension."""
    spec = PartitionSpec(AXIS)
    return jax.jit(jax.shard_map(part, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))


def measure(mesh: Mesh, name: str, size: int) -> Measured:
    """Time one operation on `size` bytes a device holds (all-gather: that all hold afterwards) as phase "NAME SIZE"."""
    operation, n = OPERATIONS[name], mesh.size
    each = size // 4 if name != "all-gather" else size // 4 // n
    x = jax.device_put(np.ones(max(each // n, 1) * n * n, np.float32), NamedSharding(mesh, PartitionSpec(AXIS)))
    program = on_mesh(mesh, operation.run)
    for _ in range(WARM_UP):  # outside the phase; the first compiles
        program(x).block_until_ready()
    seconds = []
    with tracekit.phase(f"{name} {shown(size)}"):
        for _ in range(ROUNDS):
            start = time.perf_counter()
            program(x).block_until_ready()
            seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    return Measured(name, size, median, size / median, size / median * operation.bus(n))


def shown(size: int) -> str:
    """Bytes as a short text: 4 KiB, 16 MiB."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def print_table(rows: list[Measured]) -> None:
    """Print size, time and both bandwidths, one line a measurement."""
    print(f"{'operation':14s}  {'size':>8s}  {'time':>10s}  {'algbw':>10s}  {'busbw':>10s}")
    for row in rows:
        rates = "  ".join(f"{rate / 1e9:5.2f} GB/s" for rate in (row.algorithm, row.bus))
        print(f"{row.operation:14s}  {shown(row.size):>8s}  {row.seconds * 1e6:7.0f} us  {rates}")


def draw(rows: list[Measured], path: Path) -> None:
    """Write both bandwidths over message size, one line an operation, as an image."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    plots = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, title in zip(plots, ("algorithm bandwidth", "bus bandwidth"), strict=True):
        for name in OPERATIONS:
            own = [row for row in rows if row.operation == name]
            rates = [row.bus if title.startswith("bus") else row.algorithm for row in own]
            axes.loglog([row.size for row in own], [rate / 1e9 for rate in rates], "o-", label=name, markersize=4)
        axes.set_xscale("log", base=2)
        axes.set(title=title, xlabel="message size")
        axes.set_xticks(sizes := sorted({row.size for row in rows}), [shown(size) for size in sizes], rotation=30)
        axes.minorticks_off()
        axes.yaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.3)
    plots[0].set_ylabel("GB/s")
    plots[1].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def ring_against_psum(mesh: Mesh, size: int) -> None:
    """Sum the same numbers by hand and by psum, as phases "ring" and "psum"."""
    n = mesh.size
    numbers = np.random.default_rng(0).integers(0, 100, (size // 4 // n) * n * n).astype(np.float32)
    x = jax.device_put(numbers, NamedSharding(mesh, PartitionSpec(AXIS)))
    ring, psum = on_mesh(mesh, ring_all_reduce), on_mesh(mesh, OPERATIONS["all-reduce"].run)
    assert np.array_equal(ring(x), psum(x)), "the ring sums something else"  # whole numbers: exact in any order
    for _ in range(ROUNDS):
        with tracekit.phase("psum"):
            psum(x).block_until_ready()
        with tracekit.phase("ring", alone="psum"):
            ring(x).block_until_ready()


def place(mesh: Mesh, size: int) -> None:
    """Move an array from the host to the devices, as phases "split" (a part to each) and "replicate" (a copy)."""
    array = np.ones(size // 4 // mesh.size * mesh.size, np.float32)
    for name, spec in (("split", PartitionSpec(AXIS)), ("replicate", PartitionSpec())):
        sharding = NamedSharding(mesh, spec)
        jax.block_until_ready(jax.device_put(array, sharding))
        with tracekit.phase(name):
            jax.block_until_ready([jax.device_put(array, sharding) for _ in range(ROUNDS)])


def main() -> None:
    """Measure all operations and sizes, then the ring and the placements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", metavar="BYTES", help="[4 KiB to 256 MiB; on CPU to 4 MiB]")
    parser.add_argument(
        "--plot", type=Path, metavar="PNG", help="draw both bandwidths over message size (needs matplotlib)"
    )
    options = parser.parse_args()
    if options.plot and not importlib.util.find_spec("matplotlib"):
        sys.exit("collectives.py: --plot needs matplotlib, which is not installed: pip install matplotlib")
    devices: list[Any] = common.devices(at_most=8, cpu=2)
    if len(devices) < 2:
        print("One device: a collective needs two. Showing what it costs over one, which is a copy at most.")
    mesh = jax.make_mesh((len(devices),), (AXIS,), axis_types=(AxisType.Auto,), devices=devices)
    largest = common.by_device(devices[0], 22, 28)
    sizes: list[int] = options.sizes or [1 << power for power in range(12, largest + 1, 2)]
    rows = [measure(mesh, name, size) for name in OPERATIONS for size in sizes]
    print_table(rows)
    if options.plot:
        draw(rows, options.plot)
        print(f"Wrote {options.plot}")
    ring_against_psum(mesh, max(sizes))
    place(mesh, max(sizes))


if __name__ == "__main__":
    main()
