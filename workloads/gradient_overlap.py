"""Reduce gradients behind the backward pass, behind the next forward pass, or at the end; donate; offload.

A stack of blocks x + relu(x @ up) @ down is trained data-parallel, a few steps in one jitted program each, written so
that the compiler is left no choice of when the gradients of a block can be reduced at the earliest:

* "at the end": all gradients in one vector, reduced when the whole backward pass is done. Must not overlap: nothing is
  left to compute but the update.
* "behind backward": one all-reduce a block, possible as soon as its gradients are there, while the blocks
  before it are still to come. May overlap on accelerators, where the compiler schedules all-reduces asynchronously.
* "behind next forward": each block's gradients are reduced at the start of the next step, just before the
  block is needed; the all-reduce of later blocks may run behind earlier ones.

All three give the same weights (asserted). On CPU XLA orders the operations of a program in advance and may run some
on a second thread: seen with jax 0.10.2 on two cores, none of "behind backward" was hidden behind compute, and half of
"behind next forward" was. What a trace of CPU devices proves is the order that the program allows, not its gain.

* "donated": "behind backward" again, with the memory of the old weights given to the new ones. Should be no
  slower; where the trace holds allocations, its peak of memory is lower by the size of the weights.
* "offload waited" and "offload behind": the result of every block goes to host memory and comes back, each waited
  for, or queued behind the compute of the next. On accelerators the copies of the second must overlap compute. On CPU
  host memory is the device's memory: the copies are short or none, and nothing is claimed of them.
"""

import argparse
import functools
from collections.abc import Callable
from typing import Any

import common
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

import tracekit

AXIS = "batch"
RATE = 0.05
ROUNDS = 3

Block = tuple[jax.Array, jax.Array]  # up (width, hidden), down (hidden, width)
State = tuple[list[Block], list[Block]]  # the weights, and gradients of this device that are still to be reduced


def block(x: jax.Array, weights: Block) -> jax.Array:
    """One block: (rows, width) to the same."""
    up, down = weights
    return x + jax.nn.relu(x @ up) @ down


def backward(weights: list[Block], x: jax.Array, y: jax.Array) -> list[Block]:
    """Gradients of the mean squared error over this device's rows, computed block by block from the last."""
    pullbacks = []
    for own in weights:
        x, pullback = jax.vjp(block, x, own)
        pullbacks.append(pullback)
    upstream = 2 * (x - y) / x.size
    gradients = []
    for pullback in reversed(pullbacks):
        upstream, own = pullback(upstream)
        gradients.append(own)
    return gradients[::-1]


def means(blocks: list[Block]) -> list[Block]:
    """The mean of each block's gradients over all devices, one all-reduce a block in this order.

    Each waits for the one before it, or the compiler would combine them all into one, which waits for the last block.
    """
    reduced: list[Block] = []
    before = jnp.float32(0)
    for own in blocks:
        vector, unravel = ravel_pytree(own)
        # 0 times a float is not always 0, so the compiler keeps the wait; an optimization barrier it would drop.
        vector = jax.lax.pmean(vector + 0 * before, AXIS)
        before = vector[0]
        reduced.append(unravel(vector))
    return reduced


def descend(weights: Any, gradients: Any) -> Any:
    """One step of plain SGD."""
    return jax.tree.map(lambda w, g: w - RATE * g, weights, gradients)


def at_the_end(state: State, x: jax.Array, y: jax.Array) -> State:
    """All gradients as one vector, reduced when the last is there."""
    weights, pending = state
    vector, unravel = ravel_pytree(backward(weights, x, y))
    return descend(weights, unravel(jax.lax.pmean(vector, AXIS))), pending


def behind_backward(state: State, x: jax.Array, y: jax.Array) -> State:
    """Each block's gradients reduced as soon as they are there."""
    weights, pending = state
    reduced = means(backward(weights, x, y)[::-1])  # the last block's gradients are there first
    return descend(weights, reduced[::-1]), pending


def behind_forward(state: State, x: jax.Array, y: jax.Array) -> State:
    """The gradients of the step before, reduced where each block is first needed; this step's are left pending."""
    weights, late = state
    weights = [descend(own, reduced) for own, reduced in zip(weights, means(late), strict=True)]
    return weights, backward(weights, x, y)


STEPS: dict[str, Callable[..., State]] = {
    "at the end": at_the_end,
    "behind backward": behind_backward,
    "behind next forward": behind_forward,
}


def on_mesh(mesh: Mesh, step: Callable[..., State], donate: bool = False) -> Callable[..., State]:
    """Compile a step; weights are whole on every device, pending gradients its own, rows of x and y split."""
    state = (PartitionSpec(), PartitionSpec(AXIS))
    rows = PartitionSpec(AXIS)

    def part(state: State, x: jax.Array, y: jax.Array) -> State:
        weights, pending = state
        own = jax.tree.map(lambda leaf: leaf[0], pending)
        weights, own = step((weights, own), x, y)
        return weights, jax.tree.map(lambda leaf: leaf[None], own)

    mapped = jax.shard_map(part, mesh=mesh, in_specs=(state, rows, rows), out_specs=state, check_vma=False)
    compiled: Callable[..., State] = jax.jit(mapped, donate_argnums=0 if donate else ())
    return compiled


def placed(mesh: Mesh, weights: list[Any]) -> State:
    """Weights on every device, and no gradients pending."""
    nothing = jax.tree.map(lambda w: np.zeros((mesh.size, *w.shape), np.float32), weights)
    specs = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec(AXIS))
    return jax.device_put(weights, specs[0]), jax.device_put(nothing, specs[1])


def train(mesh: Mesh, steps: int, weights: list[Any], x: Any, y: Any) -> None:
    """Check that the three orders train the same, then time `steps` of each, and of the donated one."""
    x, y = jax.device_put((x, y), NamedSharding(mesh, PartitionSpec(AXIS)))
    compiled = {name: on_mesh(mesh, step) for name, step in STEPS.items()}
    compiled["donated"] = on_mesh(mesh, behind_backward, donate=True)
    trained = {}
    ahead = common.by_device(mesh.devices.flat[0], 1, steps)  # devices of one CPU can deadlock with several in flight

    def run(step: Callable[..., State], state: State, count: int) -> State:
        for number in range(count):
            state = step(state, x, y)
            if number % ahead == ahead - 1:
                jax.block_until_ready(state)
        jax.block_until_ready(state)
        return state

    for name, step in compiled.items():  # compiles, outside the phases
        state = run(step, placed(mesh, weights), 2)
        weights_then, pending = jax.device_get(state)  # on the host, where nothing waits for another device
        trained[name] = descend(weights_then, jax.tree.map(lambda leaf: leaf.mean(axis=0), pending))
    for name, got in trained.items():
        common.check_change(name, got, trained["at the end"], weights)
    for _ in range(ROUNDS):
        for name, step in compiled.items():
            state = jax.block_until_ready(placed(mesh, weights))
            with tracekit.phase(name, alone=() if name == "at the end" else "at the end"):
                run(step, state, steps)


def offload(device: Any, weights: list[Any], x: Any) -> None:
    """Send the result of each block to host memory and back, waited for or behind the next block."""
    kinds = {memory.kind for memory in device.addressable_memories()}
    if "pinned_host" not in kinds:
        print(f"{device} knows no pinned host memory: no offload.")
        return
    there = SingleDeviceSharding(device, memory_kind="pinned_host")
    here = SingleDeviceSharding(device)
    own, x = jax.device_put((weights, x), here)
    run = jax.jit(block)

    def through(settle: Callable[[Any], Any]) -> list[jax.Array]:
        value, results = x, []
        for pair in own:
            value = run(value, pair)
            results.append(settle(jax.device_put(settle(jax.device_put(value, there)), here)))
        return [value, *results]

    ways: dict[str, Callable[[Any], Any]] = {
        "offload waited": jax.block_until_ready,
        "offload behind": lambda value: value,
    }
    jax.block_until_ready(through(jax.block_until_ready))  # compiles, outside the phases
    for _ in range(ROUNDS):
        for name, settle in ways.items():
            with tracekit.phase(name, alone="offload waited" if name == "offload behind" else ()):
                jax.block_until_ready(through(settle))


def main() -> None:
    """Train in all orders, then offload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, help="of the batch [16384; on CPU 512]")
    parser.add_argument("--width", type=int, help="of the model [2048; on CPU 256]")
    parser.add_argument("--blocks", type=int, default=8, help="of the model [8]")
    parser.add_argument("--steps", type=int, default=4, help="in each phase [4]")
    options = parser.parse_args()
    devices = common.halvable(common.devices(at_most=8, cpu=2))
    rows = options.rows or common.by_device(devices[0], 512, 16384)
    width = options.width or common.by_device(devices[0], 256, 2048)
    rng = np.random.default_rng(0)
    draw = functools.partial(rng.standard_normal, dtype=np.float32)
    scale = np.float32(width**-0.5)
    weights = [(draw((width, 4 * width)) * scale, draw((4 * width, width)) * scale / 8) for _ in range(options.blocks)]
    x, y = draw((rows, width)), draw((rows, width))
    if len(devices) < 2:
        print("One device: gradients are reduced over one, which is a copy at most. Overlap needs two.")
    mesh = jax.make_mesh((len(devices),), (AXIS,), axis_types=(AxisType.Auto,), devices=devices)
    train(mesh, options.steps, weights, x, y)
    offload(devices[0], weights, x)


if __name__ == "__main__":
    main()
