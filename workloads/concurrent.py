"""The same matrix products on device 0, on device 1, and on both at once.

Must overlap: phase "both", where each device works through its own queue. Must not: the two solo phases, which wait
for their results before the next begins. On accelerators each device computes 50 products of a 4000x4000 matrix (fewer
or smaller if they do not fit its free memory). On CPU there are two experiments, since virtual devices share the cores:

* "both": products of 128x128 in one compiled loop, each of which uses one core. Two cores then do twice the work:
  speedup near 2, stretch near 1.
* "both wide": products of 1000x1000, each of which uses every core. Both devices are busy at the same time and nothing
  is gained: overlap near 100 %, speedup near 1, stretch near 2. Overlap alone does not prove parallelism.

Where other processes left too few cores to show the gain of "both", the last line says so.

On 2 CPU cores it takes about 8 s, and about 9 s under capture (about 174,000 events).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

if __name__ == "concurrent":
    # Python puts a script's directory first on its path, so the standard library finds this file where it wants its own
    # package of the same name, whichever workload is run: lead it there.
    __path__ = [os.path.join(os.path.dirname(os.__file__), "concurrent")]
else:
    import jax
    import jax.numpy as jnp
    import numpy as np

    import tracekit
    from tracekit import cores

ROUNDS = 3
NO_GAIN = 1.1  # a speedup up to this is noise between runs
SHORTEST_PS = 2 * 10**11


def chained(x: jax.Array, products: int) -> jax.Array:
    """`products` products in one loop; x is idempotent (x @ x = x), so nothing overflows. x: (n, n) float32."""
    last: jax.Array = jax.lax.fori_loop(0, products, lambda _, y: y @ x, x, unroll=8)  # less for the profiler to write
    return last


def queued(x: jax.Array, products: int) -> list[jax.Array]:
    """`products` separate products of x (n, n), queued one after the other without waiting."""
    return [jnp.dot(x, x) for _ in range(products)]


def experiment(
    devices: Sequence[Any], size: int, products: int, run: Callable[[jax.Array, int], Any], label: str = ""
) -> dict[str, list[tracekit.PhaseTimes]]:
    """Time `run` on each device alone and, if there are two, on both at once, as phases whose names end in `label`.

    Each is repeated ROUNDS times, so that the report's medians shrug off what else the machine does. Returns what the
    rounds of each phase took, "both" last.
    """
    inputs = [jax.device_put(np.full((size, size), 1 / size, np.float32), device) for device in devices]
    # Compiles, touches fresh memory and wakes both devices' threads, outside the phases.
    jax.block_until_ready([run(x, products) for x in inputs])
    solo = [f"device {at}{label}" for at in range(len(devices))]
    took: dict[str, list[tracekit.PhaseTimes]] = {}
    for _ in range(ROUNDS):
        for name, x in zip(solo, inputs, strict=True):
            with tracekit.phase(name) as times:
                jax.block_until_ready(run(x, products))
            took.setdefault(name, []).append(times)
        if len(devices) > 1:
            with tracekit.phase(f"both{label}", alone=solo) as times:
                jax.block_until_ready([run(x, products) for x in inputs])
            took.setdefault(f"both{label}", []).append(times)
    return took


def say_if_busy(took: Mapping[str, Sequence[tracekit.PhaseTimes]], needed: int) -> None:
    """Print what the speedup of the last phase over the others is worth, if fewer than `needed` cores were left to it.

    Nothing where there were enough, where the system does not tell, after one phase, or where all rounds together are
    too short for its ticks of 10 ms.
    """
    *alone, both = (median(times.wall_ps for times in rounds) for rounds in took.values())
    *_, (name, rounds) = took.items()
    wall_ps = sum(times.wall_ps for times in rounds)
    used = sum((times.other_cores or 0) * times.wall_ps for times in rounds) / wall_ps
    there, speedup = cores.affinity(), sum(alone) / both
    if alone and wall_ps >= SHORTEST_PS and cores.are_too_few(there, used, needed):
        shown = "could not show the gain" if speedup < NO_GAIN else "may not show all of the gain"
        print(
            f"Busy machine: other processes used {used:.2f} of {there} cores in '{name}', so that its speedup of "
            f"{speedup:.2f}x {shown}. Stop them, and run it again."
        )


def fitting(device: Any, size: int, products: int) -> int:
    """How many of `products` results of (size, size) float32 fit in 60 % of the device's free memory."""
    stats = device.memory_stats() or {}
    if "bytes_limit" not in stats:
        return products
    free = stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    return int(max(1, min(products, int(0.6 * free / (4 * size * size)) - 1)))


def main() -> None:
    """Run the experiment on the first two devices, or on the one there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, help="rows of the matrix [4000; on CPU 128 and 1000]")
    parser.add_argument("--products", type=int, help="products per device [50; on CPU 5000 and 20]")
    options = parser.parse_args()
    config: Any = jax.config  # its options have no types
    if config.jax_num_cpu_devices < 0 and "host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        config.update("jax_num_cpu_devices", 2)  # counts only where there is no accelerator
    devices = jax.devices()[:2]
    if len(devices) < 2:
        print("One device: running apart and together needs two. Showing what this one does alone.")
    if devices[0].platform == "cpu":
        took = experiment(devices, options.size or 128, options.products or 5000, jax.jit(chained, static_argnums=1))
        experiment(devices, options.size or 1000, options.products or 20, queued, " wide")
        say_if_busy(took, needed=len(devices))
        return
    size, requested = options.size or 4000, options.products or 50
    products = min(fitting(device, size, requested) for device in devices)
    if products < requested:
        print(f"{requested} results of {size}x{size} do not fit the free device memory: {products} products are run.")
    took = experiment(devices, size, products, queued)
    say_if_busy(took, needed=1)  # a thread of the host feeds the devices


if __name__ == "__main__":
    main()
