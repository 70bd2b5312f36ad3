"""The same small graph, ordered by hand, by asynchronous dispatch, and inside one compiled program.

The graph is a diamond with two independent arms, each a chain of products:

    start -> left arm  \\
          -> right arm -> join

* "by hand": the program waits for each node before it dispatches the next, as code with a print of every result does.
  Nothing may overlap.
* "asynchronous": every node is dispatched as soon as its inputs have names, and only the join is waited for. The
  runtime keeps the order that the data ask for. Where the arms are on two devices they must overlap; on one device they
  queue behind each other.
* "one program": the whole graph is one jitted function on one device. The compiler orders it.

With two devices the right arm is on the second, and its input and its result are copied; otherwise both arms share the
one device. All three give the same numbers (asserted).
"""

import argparse
from collections.abc import Callable
from typing import Any

import common
import jax
import numpy as np

import tracekit

ROUNDS = 3

Compiled = Callable[..., jax.Array]


class Graph:
    """The diamond, its right arm on the last of the devices. x: (n, n) float32 that holds 1/n, on the first."""

    def __init__(self, devices: list[Any], size: int, products: int) -> None:
        self.first, self.last = devices[0], devices[-1]
        mean = np.full((size, size), 1 / size, np.float32)
        self.x = jax.device_put(mean, self.first)
        # Arms of different weights, or a compiler that sees both would compute one and use it twice.
        self.weights = jax.device_put(mean, self.first), jax.device_put(-mean, self.last)
        self.start: Compiled = jax.jit(lambda x: x @ x)
        self.arm: Compiled = jax.jit(lambda x, w: jax.lax.fori_loop(0, products, lambda _, y: y @ w, x))
        self.join: Compiled = jax.jit(lambda left, right: left - right)
        self.whole: Compiled = jax.jit(self._whole)
        self.together = jax.device_put(self.weights, self.first)  # for the one program on the first device

    def _whole(self, x: jax.Array, weights: tuple[jax.Array, jax.Array]) -> jax.Array:
        root = self.start(x)
        return self.join(self.arm(root, weights[0]), self.arm(root, weights[1]))

    def run(self, settle: Callable[[jax.Array], jax.Array]) -> jax.Array:
        """Run node by node; `settle` waits for each, or does not."""
        root = settle(self.start(self.x))
        away = settle(jax.device_put(root, self.last))
        left = settle(self.arm(root, self.weights[0]))
        right = settle(self.arm(away, self.weights[1]))
        back = settle(jax.device_put(right, self.first))
        return self.join(left, back)

    def by_hand(self) -> jax.Array:
        """Wait for each node."""
        return self.run(jax.block_until_ready)

    def asynchronous(self) -> jax.Array:
        """Wait for none; who calls waits for the join."""
        return self.run(lambda value: value)

    def one_program(self) -> jax.Array:
        """One jitted function, on the first device."""
        return self.whole(self.x, self.together)


def main() -> None:
    """Run the graph in three ways, on two devices or on the one there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, help="rows of the matrix [4000; on CPU 128]")
    parser.add_argument("--products", type=int, help="in each arm [20; on CPU 3000]")
    options = parser.parse_args()
    devices = common.devices(at_most=2)
    if len(devices) < 2:
        print("One device: both arms share it. Arms on two devices need two.")
    size = options.size or common.by_device(devices[0], 128, 4000)
    graph = Graph(devices, size, options.products or common.by_device(devices[0], 3000, 20))
    ways = {"by hand": graph.by_hand, "asynchronous": graph.asynchronous, "one program": graph.one_program}
    results = [np.asarray(way()) for way in ways.values()]  # compiles, outside the phases
    assert all(np.allclose(result, results[0], rtol=1e-3) for result in results), "the three ways differ"
    for _ in range(ROUNDS):
        for name, way in ways.items():
            with tracekit.phase(name, alone=() if name == "by hand" else "by hand"):
                way().block_until_ready()


if __name__ == "__main__":
    main()
