"""Train an Equinox MLP with Adam on one device and then on all, where only the sharding of the batch differs.

Nothing in the model or in the step names a device: the batch is split over all devices, every device holds the
parameters, and the compiler lets the computation follow the data and inserts the all-reduces.

Must overlap: in the phase of all devices, each computes its part of the batch at the same time as the others.
Must not: Adam needs the averaged gradients, so the update follows the last all-reduce.
Virtual CPU devices (8 by default) share the cores: on two cores their overlap is time-sharing with almost no speedup,
and in every all-reduce the devices that arrive first wait for those that had no core.

On 2 CPU cores it takes 5 to 7 s, most of it imports and compilation, and 1 s more under capture (95,000 to 135,000
events).
"""

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import tracekit

AXIS = "batch"
AHEAD = 16  # steps queued before waiting: with 32, the CPU client of jax 0.10 can deadlock in one device's launch
FEATURES, WIDTH, DEPTH = 64, 256, 3
CHECKED_STEPS = 10  # later, Adam has carried the rounding of float32 sums so far that the losses say nothing
LOSS_RTOL_CPU = 1e-4  # sums in another order; seen: 4e-6
LOSS_RTOL_ACCELERATOR = 1e-2  # products there may round their inputs to TF32 or bfloat16, differently in another shape

Batch = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]
State = tuple[Any, Any]  # the MLP and Adam's moments, both trees of arrays


def synthetic(rng: np.random.Generator, rows: int) -> Batch:
    """Draw inputs (rows, FEATURES), and as targets (rows, 1) a smooth function of them."""
    x = rng.standard_normal((rows, FEATURES), dtype=np.float32)
    return x, np.sin(x.sum(axis=1, keepdims=True) / np.float32(FEATURES**0.5))


def loss(model: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared error over a batch, x (rows, FEATURES) and y (rows, 1)."""
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


def make_step(adam: Any, donate: bool) -> Callable[..., tuple[State, jax.Array]]:
    """Compile `step(batch, state) -> new state, loss`; with `donate` the new state takes over the old one's memory."""

    def step(batch: tuple[jax.Array, jax.Array], state: State) -> tuple[State, jax.Array]:
        model, moments = state
        value, gradients = eqx.filter_value_and_grad(loss)(model, *batch)
        updates, moments = adam.update(gradients, moments, eqx.filter(model, eqx.is_array))
        return (eqx.apply_updates(model, updates), moments), value

    compiled: Callable[..., tuple[State, jax.Array]]
    compiled = eqx.filter_jit(step, donate="warn-except-first" if donate else "none")
    return compiled


def train(
    mesh: Mesh, batches: list[Batch], donate: bool, seed: int, numbers: range, **phase: str
) -> tuple[State, list[float]]:
    """Run a step per batch, all but the first inside `tracekit.phase(**phase)` and marked with `numbers`.

    Return the last state and all losses. The first step compiles, so it stands outside of the phase. The state is made
    here, so that donating it harms no one.
    """
    adam = optax.adam(1e-3)
    model = eqx.nn.MLP(FEATURES, 1, WIDTH, DEPTH, key=jax.random.key(seed))
    state = (model, adam.init(eqx.filter(model, eqx.is_array)))
    state = eqx.filter_shard(state, NamedSharding(mesh, PartitionSpec()))
    step = make_step(adam, donate)
    split = NamedSharding(mesh, PartitionSpec(AXIS))
    state, first = jax.block_until_ready(step(jax.device_put(batches[0], split), state))
    losses = [first]
    with tracekit.phase(**phase):
        for number, batch in zip(numbers, batches[1:], strict=True):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                state, value = step(jax.device_put(batch, split), state)
                losses.append(value)
            if number % AHEAD == AHEAD - 1:
                jax.block_until_ready(value)
        jax.block_until_ready((state, losses))
    return state, [float(value) for value in losses]


def show(title: str, array: jax.Array) -> None:
    """Print which device holds which part of an array of one or two dimensions."""
    print(f"{title} {array.shape}: {array.sharding}")
    if importlib.util.find_spec("rich"):  # what jax draws with
        jax.debug.visualize_array_sharding(array)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="An MLP whose computation follows its data, on one and on all devices."
    )
    parser.add_argument("--steps", type=int, default=10, metavar="N", help="steps in each phase (default: 10)")
    parser.add_argument("--batch", type=int, default=4096, metavar="N", help="rows of the global batch (default: 4096)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and of the data (default: 0)")
    parser.add_argument("--donate", action="store_true", help="let each step reuse the memory of the state before it")
    args = parser.parse_args()
    if args.steps < 1 or args.batch < 1:
        parser.error("--steps and --batch must be at least 1")
    return args


def main() -> None:
    """Train on one device and on all, and compare the losses."""
    args = arguments()
    config: Any = jax.config  # its flags are attributes that no type checker sees in every jax
    if config.jax_num_cpu_devices < 0 and "host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        config.update("jax_num_cpu_devices", 8)  # counts only where there is no accelerator
    devices = jax.devices()
    rows = max(1, args.batch // len(devices)) * len(devices)
    if rows != args.batch:
        print(f"batch {rows} instead of {args.batch}, to give each of {len(devices)} devices the same")
    mesh_of_one, mesh_of_all = (
        jax.make_mesh((len(on),), (AXIS,), axis_types=(AxisType.Auto,), devices=on) for on in (devices[:1], devices)
    )
    rng = np.random.default_rng(args.seed)
    batches = [synthetic(rng, rows) for _ in range(args.steps + 1)]
    print(f"MLP {FEATURES}-{WIDTH}x{DEPTH}-1, Adam, batch {rows}, {len(devices)} x {devices[0].device_kind}")

    _, alone = train(mesh_of_one, batches, args.donate, args.seed, range(args.steps), name="1 device")
    if len(devices) < 2:
        print(f"loss {alone[0]:.6f} at the first step, {alone[-1]:.6f} at the last")
        print(f"The second phase needs two devices or more, and there is one ({devices[0]}); above is what one can do.")
        print("On CPU: tracekit capture --devices 8, or unset JAX_NUM_CPU_DEVICES and XLA_FLAGS.")
        return
    name = f"{len(devices)} devices"
    numbers = range(args.steps, 2 * args.steps)
    state, together = train(mesh_of_all, batches, args.donate, args.seed, numbers, name=name, baseline="1 device")

    show("batch", jax.device_put(batches[0][0], NamedSharding(mesh_of_all, PartitionSpec(AXIS))))
    show("weights of layer 1", state[0].layers[1].weight)
    allowed = LOSS_RTOL_CPU if devices[0].platform == "cpu" else LOSS_RTOL_ACCELERATOR
    checked = min(CHECKED_STEPS, len(alone))
    apart = max(abs(a - b) / abs(a) for a, b in zip(alone[:checked], together[:checked], strict=True))
    print(f"loss at the last step: {alone[-1]:.6f} on 1 device, {together[-1]:.6f} on {name}")
    print(f"over the first {checked} steps at most {apart:.0e} apart (relative; allowed: {allowed:.0e})")
    if not apart <= allowed:
        sys.exit("autoparallel.py: the losses differ by more than rounding: the sharded step computes something else.")


if __name__ == "__main__":
    main()
