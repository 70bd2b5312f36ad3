"""An MLP of two layers whose first layer has two independent branches, on three devices of which one is a CPU.

    x --+-- relu(x @ left)  --+
        |                     +-- concatenate -- @ out
        +-- relu(x @ right) --+

The CPU holds the input and computes the last layer, two accelerators compute one branch each. The input goes to both,
and both results come back. Where there are no two accelerators, virtual CPU devices take their places, said so: then
all three share the cores, and the transfers are copies in memory.

* "one device": everything on the CPU device that holds the input.
* "one at a time": placed by hand over three devices, each node waited for. Nothing may overlap.
* "placed by hand": the same placement, dispatched without waiting. The branches must overlap, and the transfer to the
  second must overlap the first branch where the link allows it.
* "left to the compiler": one jitted program over the two devices, whose branches are one array with a leading axis that
  is sharded over them. JAX has no scheduler that would move a branch of an unsharded program to another device: without
  the sharding everything stays on one. (MXNet and PyTorch have none either: in each the user names the devices, and the
  runtime only finds out what may run at the same time.) The branches must overlap.

All four give the same numbers (asserted).
"""

import argparse
from collections.abc import Callable
from typing import Any, cast

import common
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import tracekit

ROUNDS = 3
BRANCHES = 2
COMPARED = {"placed by hand": "one at a time", "left to the compiler": "one device"}

Settle = Callable[[Any], Any]


@jax.jit
def branch(x: jax.Array, weight: jax.Array) -> jax.Array:
    """One half of the first layer, (rows, n) to (rows, hidden)."""
    return jax.nn.relu(x @ weight)


@jax.jit
def last_layer(left: jax.Array, right: jax.Array, out: jax.Array) -> jax.Array:
    """The second layer over both halves, to (rows, classes)."""
    return jnp.concatenate([left, right], axis=1) @ out


@jax.jit
def sharded(x: jax.Array, weights: jax.Array, out: jax.Array) -> jax.Array:
    """The whole network, its branches along the leading axis of `weights` (2, n, hidden)."""
    halves = jax.vmap(branch, in_axes=(None, 0))(x, weights)
    return jnp.concatenate([halves[0], halves[1]], axis=1) @ out


def three_devices() -> list[Any]:
    """A CPU device and two others: accelerators, or two more CPU devices, said so."""
    devices = common.devices(at_most=2, cpu=3)
    if devices[0].platform == "cpu":
        print("No accelerators: three virtual CPU devices, which share the cores.")
        return list(jax.devices()[:3])
    if len(devices) < 2:
        print(f"One accelerator ({devices[0].device_kind}) computes both branches, one after the other.")
    return [jax.devices("cpu")[0], *devices, *devices][:3]


class Network:
    """The weights of the network where each way of running it needs them."""

    def __init__(self, devices: list[Any], rows: int, size: int) -> None:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((rows, size), np.float32)
        weights = rng.standard_normal((BRANCHES, size, size), np.float32) / np.float32(size**0.5)
        out = rng.standard_normal((BRANCHES * size, 10), np.float32) / np.float32(size**0.5)
        self.home, *self.away = devices
        self.x, self.out, self.local = jax.device_put((x, out, list(weights)), self.home)
        self.weights = [jax.device_put(weight, device) for weight, device in zip(weights, self.away, strict=True)]
        own = list(dict.fromkeys(self.away))
        mesh = jax.make_mesh((len(own),), ("branch",), axis_types=(AxisType.Auto,), devices=own)
        self.copies = NamedSharding(mesh, PartitionSpec())
        self.split = jax.device_put(weights, NamedSharding(mesh, PartitionSpec("branch")))

    def one_device(self) -> jax.Array:
        """Everything at home."""
        left, right = (branch(self.x, weight) for weight in self.local)
        return cast(jax.Array, last_layer(left, right, self.out))

    def placed(self, settle: Settle) -> jax.Array:
        """Each branch on its own device; `settle` waits for a node, or does not."""
        inputs = [settle(jax.device_put(self.x, device)) for device in self.away]
        halves = [settle(branch(x, weight)) for x, weight in zip(inputs, self.weights, strict=True)]
        left, right = (settle(jax.device_put(half, self.home)) for half in halves)
        return cast(jax.Array, last_layer(left, right, self.out))

    def left_to_the_compiler(self) -> jax.Array:
        """One program over the two devices, both of which hold its result."""
        x, out = jax.device_put((self.x, self.out), self.copies)
        return cast(jax.Array, sharded(x, self.split, out))


def main() -> None:
    """Run the network in four ways."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, help="of the batch [8192; on CPU 1024]")
    parser.add_argument("--size", type=int, help="rows of the weights [8192; on CPU 1024]")
    options = parser.parse_args()
    devices = three_devices()
    if len(devices) < 3:
        print(f"The three parts need three devices, and there are {len(devices)}: nothing to show.")
        print("On CPU: tracekit capture --devices 3, or unset JAX_NUM_CPU_DEVICES and XLA_FLAGS.")
        return
    size = options.size or common.by_device(devices[1], 1024, 8192)
    network = Network(devices, options.rows or common.by_device(devices[1], 1024, 8192), size)
    ways: dict[str, Callable[[], jax.Array]] = {
        "one device": network.one_device,
        "one at a time": lambda: network.placed(jax.block_until_ready),
        "placed by hand": lambda: network.placed(lambda value: value),
        "left to the compiler": network.left_to_the_compiler,
    }
    # Compiles, outside the phases. One copy of a result can be ready before another device has its own.
    results = [np.asarray(jax.block_until_ready(way())) for way in ways.values()]
    assert all(np.allclose(result, results[0], atol=0.05) for result in results), "the ways differ"
    for _ in range(ROUNDS):
        for name, way in ways.items():
            with tracekit.phase(name, alone=COMPARED.get(name, ())):
                way().block_until_ready()


if __name__ == "__main__":
    main()
