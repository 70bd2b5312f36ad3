"""One of the programs that `what_if.py` captures: `python benchmarks/what_if_program.py NAME --steps 16`.

`reduced` and `alone` are a data-parallel step on two devices, with the all-reduce of its gradients and without it.
`copied` and `resident` are a step on the second device, whose batch is copied there from the first one in every step,
or lies there already. All else of a pair is the same. Each step is waited for, so that steps do not overlap.
"""

import argparse
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

AXIS = "batch"
PROGRAMS = ("reduced", "alone", "copied", "resident")


def data_parallel(reduced: bool, width: int, rows: int) -> Callable[[], Any]:
    """A step of a linear layer (width, width) a device, each with a batch of its own (rows, width)."""

    def update(weights: jax.Array, batch: jax.Array) -> jax.Array:
        gradients = batch.T @ jnp.tanh(batch @ weights) / (rows * width)
        if reduced:
            gradients = jax.lax.pmean(gradients, AXIS)
        return weights - gradients

    mesh = jax.make_mesh((2,), (AXIS,))
    split = PartitionSpec(AXIS)
    step = jax.jit(jax.shard_map(update, mesh=mesh, in_specs=(split, split), out_specs=split))
    arrays = jax.device_put((jnp.zeros((2 * width, width)), jnp.ones((2 * rows, width))), NamedSharding(mesh, split))
    return lambda: step(*arrays)


def copying(copied: bool, width: int, rows: int) -> Callable[[], Any]:
    """A layer (width, width) on the second device, of the first rows of a batch (16 * rows, width).

    The copy is much and the layer reads little of it, or the rest of the step would be slower for the cold memory.
    """
    source, target = jax.devices()[:2]
    batch = jax.device_put(jnp.ones((16 * rows, width)), source)
    here = jax.device_put(batch, target)
    weights = jax.device_put(jnp.ones((width, width)), target)
    layer = jax.jit(lambda batch, weights: jnp.tanh(batch[:rows] @ weights).sum())
    return lambda: layer(jax.device_put(batch, target) if copied else here, weights)


def main() -> None:
    """Run one program, after a step that compiles it."""
    parser = argparse.ArgumentParser(description="One of the programs that what_if.py captures.")
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--width", type=int, default=1024, help="of the layer; its gradients are of this size squared")
    parser.add_argument("--rows", type=int, default=128, help="of a batch")
    options = parser.parse_args()
    config: Any = jax.config  # its options have no types
    config.update("jax_num_cpu_devices", 2)
    make = data_parallel if options.program in PROGRAMS[:2] else copying
    step = make(options.program in ("reduced", "copied"), options.width, options.rows)
    jax.block_until_ready(step())
    for number in range(options.steps):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            jax.block_until_ready(step())


if __name__ == "__main__":
    main()
