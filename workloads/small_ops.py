"""Many small operations: dispatched one by one, compiled into loops, fused, and spread over two devices.

Each operation is x * a + b on a short vector, next to nothing to compute. What it costs is therefore what it costs to
launch one. All phases compute the same numbers (asserted):

* "eager": every operation is its own program, dispatched from Python as NumPy users write it.
* "scan": one program, a compiled loop that runs one operation after the other.
* "unrolled": one program without a loop, whose operations the compiler may not merge: an optimization barrier between
  them keeps them apart. XLA on CPU drops barriers before it merges, so there it is told not to.
* "fused": the same without barriers; the compiler makes one kernel of all.

Must overlap: nothing on one device, since each operation needs the result before it. With two devices there are two
independent chains: "eager on both" dispatches to both in turn. The two queues can work at once, but one Python
thread feeds both, so what the dispatch costs is not halved; tutorials promise that a second device helps "a little"
here (Dive into Deep Learning, Automatic Parallelism: adding the local CPU helps "slightly"). "scan on both" has two
launches in all; the devices may then work at once, but chains this short are mostly over before the second begins.

A table printed first has what an operation costs in each of the four ways, by the length of the vector, and from which
length on computing takes longer than launching. A capture leaves the table's runs out, since recording costs time too:
on CPU it writes an event for every operation of "scan" and "unrolled", which takes longer than the operation, and one
for all of "fused". So under capture "fused" is far ahead, and without it is not (seen with jax 0.10.2: 0.14, 0.18 and
0.18 ms without, 0.68, 0.53 and 0.21 ms under capture).
"""

import argparse
import functools
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import common
import jax
import numpy as np

import tracekit

ROUNDS = 3
LENGTHS = [10**power for power in range(3, 7)]
TABLE_OPERATIONS = 100
SCALE, SHIFT = np.float32(0.5), np.float32(1)

Chain = Callable[[jax.Array, int], jax.Array]


def operation(x: jax.Array) -> jax.Array:
    """One small operation; repeated, it tends to 2."""
    return x * SCALE + SHIFT


def eager(x: jax.Array, operations: int) -> jax.Array:
    """Each operation by itself: two dispatches each, a product and a sum."""
    for _ in range(operations):
        x = operation(x)
    return x


@functools.partial(jax.jit, static_argnums=1)
def scan(x: jax.Array, operations: int) -> jax.Array:
    """All in one compiled loop."""
    last: jax.Array = jax.lax.scan(lambda y, _: (operation(y), None), x, length=operations)[0]
    return last


def apart(x: jax.Array, operations: int) -> jax.Array:
    """A barrier between two operations."""
    for _ in range(operations):
        x = jax.lax.optimization_barrier(operation(x))
    return x


@functools.cache
def compiled_apart(platform: str) -> Chain:
    """`apart` as a program in which its barriers hold."""
    options = {"xla_disable_hlo_passes": "cse_barrier_expander"} if platform == "cpu" else None
    compiled: Chain = jax.jit(apart, static_argnums=1, compiler_options=options)
    return compiled


def unrolled(x: jax.Array, operations: int) -> jax.Array:
    """All in one program, kept apart."""
    (device,) = x.devices()
    return compiled_apart(device.platform)(x, operations)


@functools.partial(jax.jit, static_argnums=1)
def fused(x: jax.Array, operations: int) -> jax.Array:
    """All in one program, which the compiler may merge."""
    return eager(x, operations)


CHAINS: dict[str, Chain] = {"eager": eager, "scan": scan, "unrolled": unrolled, "fused": fused}
SPREAD = ("eager", "scan")  # what two devices are tried on


def alternating(xs: list[jax.Array], operations: int) -> list[jax.Array]:
    """A chain on every device, dispatched in turn from this one thread."""
    for _ in range(operations):
        xs = [operation(x) for x in xs]
    return xs


def two_devices(chain: str, xs: list[jax.Array], operations: int) -> Any:
    """Start a chain on every device before waiting for any."""
    return alternating(xs, operations) if chain == "eager" else [CHAINS[chain](x, operations) for x in xs]


def cost_us(chain: Chain, x: jax.Array, operations: int) -> float:
    """What one operation of a chain costs, in microseconds: the median of ROUNDS chains."""
    chain(x, operations).block_until_ready()  # compiles
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        chain(x, operations).block_until_ready()
        seconds.append(time.perf_counter() - start)
    return median(seconds) / operations * 1e6


def print_costs(device: Any, lengths: list[int], operations: int) -> None:
    """Print what an operation costs in each chain, by length, and where launching stops to be most of it."""
    print(f"{'length':>10s}" + "".join(f"  {name:>11s}" for name in CHAINS) + "  for one operation")
    rows: dict[int, dict[str, float]] = {}
    for length in sorted(lengths):
        x = jax.device_put(np.zeros(length, np.float32), device)
        rows[length] = {name: cost_us(chain, x, operations) for name, chain in CHAINS.items()}
        print(f"{length:10,d}" + "".join(f"  {cost:8.2f} us" for cost in rows[length].values()))
    first = next(iter(rows.values()))
    launch = first["eager"] - first["scan"]
    longer = [length for length, row in rows.items() if row["scan"] > launch]
    where = f"from {longer[0]:,} values on" if longer else f"at none of these lengths, up to {max(rows):,} values"
    print(f"Launching an operation (a product and a sum) costs {launch:.0f} us; computing it takes longer {where}.")


def experiment(devices: list[Any], length: int, operations: int) -> None:
    """Time each chain on one device, and those of SPREAD on two, against both chains one after the other."""
    xs = [jax.device_put(np.zeros(length, np.float32), device) for device in devices]
    results = [np.asarray(chain(x, operations)) for chain in CHAINS.values() for x in xs]  # compiles, too
    assert all(np.allclose(result, results[0]) for result in results), "the chains computed different numbers"
    for _ in range(ROUNDS):
        for name, chain in CHAINS.items():
            with tracekit.phase(name, alone=() if name == "eager" else "eager"):
                chain(xs[0], operations).block_until_ready()
        if len(devices) > 1:
            for name in SPREAD:
                with tracekit.phase(f"{name} on device 1"):
                    CHAINS[name](xs[1], operations).block_until_ready()
                with tracekit.phase(f"{name} on both", alone=[name, f"{name} on device 1"]):
                    jax.block_until_ready(two_devices(name, xs, operations))


def main() -> None:
    """Run on the first device, and on two where there are two."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=1000, help="of the vectors [1000]")
    parser.add_argument("--operations", type=int, default=500, help="in each chain [500]")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="of the table [1000 to 1000000]")
    options = parser.parse_args()
    with tracekit.unrecorded():
        devices = common.devices(at_most=2)
        if len(devices) < 2:
            print("One device: whether a second helps needs two. Showing what launching costs on this one.")
        print_costs(devices[0], options.lengths, min(options.operations, TABLE_OPERATIONS))
    experiment(devices, options.length, options.operations)


if __name__ == "__main__":
    main()
