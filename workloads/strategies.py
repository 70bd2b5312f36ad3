"""One model trained by every way to split it: the same step, batch and result, side by side.

The model is a stack of blocks x + relu(x @ up) @ down, and a mean squared error. Every strategy computes the loss and
the updated weights of one SGD step, which must be those of one device (asserted of what the step changes):

* "one device": the original.
* "pipeline": each device holds half of the blocks (network partitioning). The devices take turns: must not overlap.
* "pipeline micro-batches": the batch in m parts that follow each other through the stages (GPipe). Must overlap; with
  p stages (p-1)/(m+p-1) of the devices' time stays a bubble.
* "tensor parallel": every block split over the devices, columns of `up` and rows of `down` (layerwise partitioning,
  Megatron); an all-reduce a block. Must overlap.
* "data parallel": the batch split, weights copied, gradients all-reduced. Must overlap.
* "fully sharded": the batch and the weights split; weights are all-gathered block by block, gradients reduce-scattered
  (FSDP, ZeRO-3, which also forget the gathered weights and gather them again for the backward pass). Must overlap.
* "experts": a layer of one expert a device, whose rows travel to their expert and back by all-to-all (mixture of
  experts, every row to one expert), against the same layer on one device, "all experts on one". Must overlap.

Collectives follow the results that they need; on CPU few are hidden behind compute, where two of XLA's threads happen
to work on one device. Virtual CPU devices share the cores, which one device alone already uses, so no strategy is much
faster there than one device. What a trace of them proves is the bubble: on two quiet cores the devices of the pipeline
were idle for 51 % of it (expected 50 %), with 8 micro-batches for 11 and 15 % (expected 11 %). Uses up to eight
devices, on CPU two.
"""

import argparse
import functools
from collections.abc import Callable
from typing import Any

import common
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import tracekit

AXIS = "devices"
ROUNDS = 3
RATE = 0.1

Weights = list[tuple[jax.Array, jax.Array]]  # of each block: up (width, hidden), down (hidden, width)
Stepped = tuple[Any, Any]  # the loss, and the weights after the step
Step = Callable[[], Stepped]


def block(x: jax.Array, weights: tuple[jax.Array, jax.Array]) -> jax.Array:
    """One block: (rows, width) to the same."""
    up, down = weights
    return x + jax.nn.relu(x @ up) @ down


def stack(weights: Weights, x: jax.Array) -> jax.Array:
    """All blocks, one after the other."""
    return functools.reduce(block, weights, x)


def loss(weights: Weights, x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared error of x (rows, width) against y."""
    return jnp.mean((stack(weights, x) - y) ** 2)


def updated(weights: Weights, gradients: Weights) -> Weights:
    """One step of plain SGD."""
    new: Weights = jax.tree.map(lambda w, g: w - RATE * g, weights, gradients)
    return new


def sgd(weights: Weights, x: jax.Array, y: jax.Array) -> Stepped:
    """The original: loss and updated weights."""
    value, gradients = jax.value_and_grad(loss)(weights, x, y)
    return value, updated(weights, gradients)


# --- one device, and what the compiler splits by itself


def sharded(
    mesh: Mesh,
    step: Callable[..., Stepped],
    up: PartitionSpec,
    down: PartitionSpec,
    batch: PartitionSpec,
    weights: Weights,
    x: Any,
    y: Any,
) -> Step:
    """The original step, unchanged, on weights and a batch that are split as said; the compiler adds collectives."""

    def place(value: Any, spec: PartitionSpec) -> Any:
        return jax.device_put(value, NamedSharding(mesh, spec))

    placed = [(place(u, up), place(d, down)) for u, d in weights]
    shardings = jax.tree.map(lambda w: w.sharding, placed)
    compiled = jax.jit(step, out_shardings=(NamedSharding(mesh, PartitionSpec()), shardings))
    inputs = place(x, batch), place(y, batch)
    return lambda: compiled(placed, *inputs)


# --- fully sharded


def fully_sharded(mesh: Mesh, weights: Weights, x: Any, y: Any) -> Step:
    """Every device holds a part of each weight and of the batch; a block's weights are gathered when it needs them.

    Written out, because of the shardings alone a compiler may make other collectives (XLA on CPU: an all-reduce of all
    gradients). The derivative of an all-gather is a reduce-scatter.
    """

    def gathered_block(x: jax.Array, own: tuple[jax.Array, jax.Array]) -> jax.Array:
        up, down = (jax.lax.all_gather(w, AXIS, tiled=True) for w in own)
        return block(x, (up, down))

    def part(own: Weights, x: jax.Array, y: jax.Array) -> Stepped:
        def share(own: Weights) -> jax.Array:
            return jnp.mean((functools.reduce(gathered_block, own, x) - y) ** 2) / mesh.size

        value, gradients = jax.value_and_grad(share)(own)
        return jax.lax.psum(value, AXIS), updated(own, gradients)

    split, copies = PartitionSpec(AXIS), PartitionSpec()
    inputs = jax.device_put((weights, x, y), NamedSharding(mesh, split))
    compiled = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=(split, split, split), out_specs=(copies, split)))
    return lambda: compiled(*inputs)


# --- pipeline


@jax.jit
def stage_forward(weights: Weights, x: jax.Array) -> jax.Array:
    """One stage: its blocks."""
    return stack(weights, x)


@jax.jit
def stage_backward(weights: Weights, x: jax.Array, upstream: jax.Array) -> tuple[Weights, jax.Array]:
    """Gradients of a stage's weights and of its input; the forward pass is computed again (GPipe)."""
    _, backward = jax.vjp(stack, weights, x)
    gradients: tuple[Weights, jax.Array] = backward(upstream)
    return gradients


@functools.partial(jax.jit, static_argnums=2)
def error(out: jax.Array, y: jax.Array, parts: int) -> tuple[jax.Array, jax.Array]:
    """The share of one of `parts` micro-batches in the loss, and its gradient."""
    value, gradient = jax.value_and_grad(lambda out: jnp.mean((out - y) ** 2) / parts)(out)
    return value, gradient


@jax.jit
def total(values: list[Any]) -> Any:
    """The sum of trees alike."""
    return jax.tree.map(lambda *leaves: sum(leaves[1:], start=leaves[0]), *values)


def pipeline(devices: list[Any], parts: int, weights: Weights, x: Any, y: Any) -> Step:
    """Stages of equally many blocks on the devices; the batch goes through them in `parts`."""
    each = len(weights) // len(devices)
    stages = [jax.device_put(weights[at * each : (at + 1) * each], device) for at, device in enumerate(devices)]
    xs = [jax.device_put(part, devices[0]) for part in np.split(x, parts)]
    ys = [jax.device_put(part, devices[-1]) for part in np.split(y, parts)]
    update = jax.jit(updated)

    def step() -> Stepped:
        inputs: list[list[Any]] = [xs]
        for stage, device in zip(stages[:-1], devices[1:], strict=True):
            inputs.append([jax.device_put(stage_forward(stage, part), device) for part in inputs[-1]])
        outs = [stage_forward(stages[-1], part) for part in inputs[-1]]
        values, upstream = zip(*(error(out, part, parts) for out, part in zip(outs, ys, strict=True)), strict=True)
        gradients: list[Any] = [None] * len(stages)
        back: list[Any] = list(upstream)
        for at in reversed(range(len(stages))):
            pairs = [stage_backward(stages[at], part, up) for part, up in zip(inputs[at], back, strict=True)]
            gradients[at] = total([own for own, _ in pairs])
            if at:
                back = [jax.device_put(up, devices[at - 1]) for _, up in pairs]
        new = [update(stage, own) for stage, own in zip(stages, gradients, strict=True)]
        return total(list(values)), [pair for stage in new for pair in stage]

    return step


# --- mixture of experts


def experts_on_one(weights: tuple[jax.Array, jax.Array], x: jax.Array) -> jax.Array:
    """Row i of x (n, rows, width) goes to expert i mod n; weights (n, width, hidden) and (n, hidden, width).

    The router is a fixed one, so that every expert gets as many rows as the others and none is dropped.
    """
    n = len(weights[0])
    routed = x.reshape(n, -1, n, x.shape[-1])  # device, row, expert, width
    out = jax.vmap(block, in_axes=(2, 0), out_axes=2)(routed, weights)
    return out.reshape(x.shape)


def experts_parallel(weights: tuple[jax.Array, jax.Array], x: jax.Array) -> jax.Array:
    """The same on each device's rows (1, rows, width), with its own expert (1, width, hidden): there and back."""
    n = jax.lax.axis_size(AXIS)
    routed = x.reshape(-1, n, x.shape[-1])
    here = jax.lax.all_to_all(routed, AXIS, split_axis=1, concat_axis=0, tiled=True)
    out = block(here, (weights[0][0], weights[1][0]))
    back: jax.Array = jax.lax.all_to_all(out, AXIS, split_axis=0, concat_axis=1, tiled=True)
    return back.reshape(x.shape)


# --- the experiment


def expert_steps(mesh: Mesh, weights: tuple[Any, Any], x: Any, y: Any) -> tuple[Step, Step]:
    """One SGD step of the experts on one device, and with an expert a device. x, y: (n, rows, width)."""

    numbers = np.float32(x.size)  # of all devices

    def step(layer: Callable[..., jax.Array], weights: Any, x: jax.Array, y: jax.Array) -> Stepped:
        value, gradients = jax.value_and_grad(lambda w: jnp.sum((layer(w, x) - y) ** 2))(weights)
        return value, jax.tree.map(lambda w, g: w - RATE * g / numbers, weights, gradients)

    def parallel(weights: Any, x: jax.Array, y: jax.Array) -> Stepped:
        value, new = step(experts_parallel, weights, x, y)
        return jax.lax.psum(value, AXIS), new

    split, copies = PartitionSpec(AXIS), PartitionSpec()
    own, *whole = jax.device_put((weights, x, y), mesh.devices.flat[0])
    ours, *parts = jax.device_put((weights, x, y), NamedSharding(mesh, split))
    alone = jax.jit(functools.partial(step, experts_on_one))
    together = jax.jit(jax.shard_map(parallel, mesh=mesh, in_specs=(split, split, split), out_specs=(copies, split)))
    return lambda: alone(own, *whole), lambda: together(ours, *parts)


def check(name: str, got: Stepped, expected: Stepped, before: Any) -> None:
    """Raise RuntimeError unless the loss and what the step changes are those of the original, but for rounding."""
    if not np.allclose(got[0], expected[0], rtol=1e-2):
        raise RuntimeError(f"{name!r} has a loss of {got[0]}, one device of {expected[0]}.")
    common.check_change(name, got[1], expected[1], before)


def steps(devices: list[Any], options: argparse.Namespace) -> dict[str, tuple[Step, str, Any]]:
    """Every strategy by name, with the name of what it is compared with ("" for an original), and its first weights."""
    rng = np.random.default_rng(0)
    n, rows, width, hidden = len(devices), options.rows, options.width, 4 * options.width

    def draw(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32) / np.float32(shape[-2] ** 0.5)

    weights = [(draw(width, hidden), draw(hidden, width)) for _ in range(options.blocks)]
    x, y = draw(rows, width), draw(rows, width)
    mesh = jax.make_mesh((n,), (AXIS,), axis_types=(AxisType.Auto,), devices=devices)
    first = jax.make_mesh((1,), (AXIS,), axis_types=(AxisType.Auto,), devices=devices[:1])
    whole, rows_split, columns = PartitionSpec(), PartitionSpec(AXIS), PartitionSpec(None, AXIS)
    model = weights, x, y
    one = "one device"
    made: dict[str, tuple[Step, str, Any]]
    made = {one: (sharded(first, sgd, whole, whole, whole, *model), "", weights)}
    if n > 1:
        experts = draw(n, width, hidden), draw(n, hidden, width)
        alone, together = expert_steps(mesh, experts, draw(n, rows // n, width), draw(n, rows // n, width))
        made |= {
            "pipeline": (pipeline(devices, 1, *model), one, weights),
            "pipeline micro-batches": (pipeline(devices, options.micro_batches, *model), one, weights),
            "tensor parallel": (sharded(mesh, sgd, columns, rows_split, whole, *model), one, weights),
            "data parallel": (sharded(mesh, sgd, whole, whole, rows_split, *model), one, weights),
            "fully sharded": (fully_sharded(mesh, *model), one, weights),
            "all experts on one": (alone, "", experts),
            "experts": (together, "all experts on one", experts),
        }
    return made


def main() -> None:
    """Check that all strategies compute the same, then time each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, help="of the batch [8192; on CPU 4096]")
    parser.add_argument("--width", type=int, help="of the model [2048; on CPU 128]")
    parser.add_argument("--blocks", type=int, default=8, help="of the model [8]")
    parser.add_argument("--micro-batches", type=int, default=8, help="of the pipeline [8]")
    options = parser.parse_args()
    devices = common.halvable(common.devices(at_most=8, cpu=2))
    options.rows = options.rows or common.by_device(devices[0], 4096, 8192)
    options.width = options.width or common.by_device(devices[0], 128, 2048)
    if len(devices) < 2:
        print("One device: the strategies split a model over two or more. Showing the original alone.")
    made = steps(devices, options)
    results = {name: jax.block_until_ready(step()) for name, (step, *_) in made.items()}  # compiles, outside the phases
    for name, (_, original, before) in made.items():
        if original:
            check(name, results[name], results[original], before)
    p, m = len(devices), options.micro_batches
    if p > 1:
        print(
            f"A pipeline of {p} stages and {m} micro-batches: bubble {p - 1}/{m + p - 1} = {(p - 1) / (m + p - 1):.0%}"
        )
    for _ in range(ROUNDS):
        for name, (step, original, _) in made.items():
            with tracekit.phase(name, baseline=original or None):
                jax.block_until_ready(step())


if __name__ == "__main__":
    main()
