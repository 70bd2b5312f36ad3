"""Eight independent products on one device: waited for one by one, queued, and in one compiled program.

A framework that sees the whole graph knows that the products do not depend on each other, and could run them at once.
Whether that gains anything is another question: one large product uses the whole device already (Dive into Deep
Learning, Automatic Parallelism: "not quite so useful for single-device computers", while operators small enough "can
help even on a single CPU or GPU", which its exercises ask to verify).

* "one by one": each product is waited for before the next is dispatched. Nothing may overlap.
* "queued": all are dispatched, then all waited for. An accelerator works through its queue in order, one product at a
  time; the gaps between them go.
* "one program": all in one jitted program. Whether its products run at once is the compiler's decision: on a GPU they
  are queued on one stream, on CPU XLA runs one loop after the other (seen with jax 0.10.2: no gain).

Each is done twice: with products that keep every core or the whole accelerator busy ("wide"), and with small ones that
do not. Only the small ones could gain from running at once. Runs on one device; a second is not used.
"""

import argparse
from collections.abc import Callable
from typing import Any

import common
import jax
import numpy as np

import tracekit

INDEPENDENT = 8
ROUNDS = 3

Products = Callable[[list[jax.Array]], Any]


def chain(x: jax.Array, products: int) -> jax.Array:
    """`products` products in one loop; x is idempotent (x @ x = x), so nothing overflows. x: (n, n) float32."""
    last: jax.Array = jax.lax.fori_loop(0, products, lambda _, y: y @ x, x, unroll=8)
    return last


def experiment(device: Any, size: int, products: int, label: str) -> None:
    """Time eight chains of `products` products of (size, size) in three ways, as phases whose names end in `label`."""
    xs = [jax.device_put(np.full((size, size), 1 / size, np.float32), device) for _ in range(INDEPENDENT)]
    one = jax.jit(lambda x: chain(x, products))
    program = jax.jit(lambda xs: [chain(x, products) for x in xs])
    jax.block_until_ready((one(xs[0]), program(xs)))  # compiles, outside the phases
    first = f"one by one{label}"
    for _ in range(ROUNDS):
        with tracekit.phase(first):
            for x in xs:
                one(x).block_until_ready()
        with tracekit.phase(f"queued{label}", alone=first):
            jax.block_until_ready([one(x) for x in xs])
        with tracekit.phase(f"one program{label}", alone=first):
            jax.block_until_ready(program(xs))


def main() -> None:
    """Run both sizes on the first device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, help="rows of the small matrices [256; on CPU 128]")
    parser.add_argument("--wide", type=int, help="rows of the wide matrices [4000; on CPU 1000]")
    parser.add_argument("--products", type=int, help="products in a row in each of the eight [small 500, wide 2]")
    options = parser.parse_args()
    (device,) = common.devices(at_most=1)
    small, wide = common.by_device(device, 128, 256), common.by_device(device, 1000, 4000)
    experiment(device, options.size or small, options.products or 500, "")
    experiment(device, options.wide or wide, options.products or 2, " wide")


if __name__ == "__main__":
    main()
