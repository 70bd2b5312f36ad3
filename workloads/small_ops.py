"""Many small operations: dispatched one by one, compiled into loops, fused, and spread over two devices.

Each operation is x * a + b on a short vector, next to nothing to compute. What it costs is therefore what it costs to
launch one. All phases compute the same numbers (asserted):

* "eager": every operation is its own program, dispatched from Python as NumPy users write it.
* "scan": one program, a compiled loop that runs one operation after the other.
* "unrolled": one program without a loop, whose operations the compiler may not merge (an optimization barrier between
  them keeps them apart).
* "fused": the same without barriers; the compiler makes one kernel of all.

Must overlap: nothing on one device, since each operation needs the result before it. With two devices there are two
independent chains: "eager on both" dispatches to both in turn. The two queues can work at once, but one Python
thread feeds both, so what the dispatch costs is not halved; tutorials promise that a second device helps "a little"
here (MXNet's and Dive into Deep Learning's chapters on automatic parallelism). "scan on both" has two launches in
all, and each device works by itself.
"""

import argparse
import functools
from collections.abc import Callable
from typing import Any

import common
import jax
import numpy as np

import tracekit

ROUNDS = 3
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


@functools.partial(jax.jit, static_argnums=1)
def unrolled(x: jax.Array, operations: int) -> jax.Array:
    """All in one program, kept apart."""
    for _ in range(operations):
        x = jax.lax.optimization_barrier(operation(x))
    return x


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
    options = parser.parse_args()
    devices = common.devices(at_most=2)
    if len(devices) < 2:
        print("One device: whether a second helps needs two. Showing what launching costs on this one.")
    experiment(devices, options.length, options.operations)


if __name__ == "__main__":
    main()
