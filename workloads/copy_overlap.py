"""Computing while copying: 50 products, copies of their 50 results, and both interleaved in two ways.

Must not overlap: "compute" and "copy", the two halves by themselves. May overlap: "naive", where every product is
queued and then each result is copied and waited for, one at a time. Must overlap: "pipelined", where the copy of each
result is queued right behind its product and nothing is waited for until the end.

On accelerators the copies go to the host, into pinned memory, and with two of them also from device 0 to device 1. The
host stages what goes into pageable memory, as np.asarray does: 50 copies of 64 MB took an H100's host 2.3 s that way,
and 0.08 s into pinned memory. On CPU a copy to the host moves no bytes, so there they go from device 0 to device 1, and
20 products of 1000x1000 are enough. A CPU product uses every core, so copies are hidden behind it and slow it down at
the same time: the report shows both.

On 2 CPU cores it takes about 2.0 s, and 2.3 s under capture (about 2,100 events).
"""

import argparse
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tracekit


def experiment(x: jax.Array, products: int, target: Any, label: str) -> None:
    """Time the products of x (n, n), the copies of their results to `target`, a device or a sharding, and both, as
    phases whose names end in `label`."""

    def copied() -> list[jax.Array]:
        return [jax.device_put(jnp.dot(x, x), target) for _ in range(products)]

    jax.block_until_ready(copied())  # compiles, and gets all the memory that is needed, outside the phases
    compute, away = f"compute{label}", f"copy{label}"
    with tracekit.phase(compute):
        results = jax.block_until_ready([jnp.dot(x, x) for _ in range(products)])
    with tracekit.phase(away):
        for result in results:
            jax.block_until_ready(jax.device_put(result, target))
    with tracekit.phase(f"naive{label}", alone=[compute, away]):
        results = [jnp.dot(x, x) for _ in range(products)]
        for result in results:
            jax.block_until_ready(jax.device_put(result, target))
    with tracekit.phase(f"pipelined{label}", alone=[compute, away]):
        jax.block_until_ready(copied())


def fitting(device: Any, size: int, products: int) -> int:
    """How many of `products` results of (size, size) float32 fit in half of the device's free memory, held twice."""
    stats = device.memory_stats() or {}
    if "bytes_limit" not in stats:
        return products
    free: int = stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    return max(1, min(products, free // (4 * 4 * size * size)))


def main() -> None:
    """Run the experiment to the host, to a second device, or both, as the machine allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, help="rows of the matrix [4000; on CPU 1000]")
    parser.add_argument("--products", type=int, help="products, and copies of their results [50; on CPU 20]")
    options = parser.parse_args()
    config: Any = jax.config  # its options have no types
    if config.jax_num_cpu_devices < 0 and "host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        config.update("jax_num_cpu_devices", 2)  # counts only where there is no accelerator
    devices = jax.devices()
    cpu = devices[0].platform == "cpu"
    size, requested = options.size or (1000 if cpu else 4000), options.products or (20 if cpu else 50)
    products = fitting(devices[0], size, requested)
    if products < requested:
        print(f"{requested} results of {size}x{size} do not fit the free device memory: {products} products are run.")
    x = jax.device_put(np.full((size, size), 1 / size, np.float32), devices[0])
    if not cpu:
        pinned = x.sharding.with_memory_kind("pinned_host")
        experiment(x, products, pinned, " to host" if len(devices) > 1 else "")
    if len(devices) > 1:
        experiment(x, products, devices[1], "" if cpu else " to device 1")
    elif cpu:
        print("One CPU device: a copy to the host moves no bytes there, so nothing can be shown; give it two devices.")


if __name__ == "__main__":
    main()
