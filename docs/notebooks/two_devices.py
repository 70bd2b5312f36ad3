"""What the trace beside it is a capture of: products and training, on one CPU device and on two.

Must overlap: the products of phase "both", and the two halves of each step of "2 devices". Must not: the products of
"device 0" and "device 1", each of which waits for its results. Products of 128x128 keep to one core each, so two cores
do twice the work.
"""

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import tracekit

jax.config.update("jax_num_cpu_devices", 2)
DEVICES = jax.devices()
STEPS = 6


@jax.jit
def products(x):
    """160 products in a loop; x is idempotent (x @ x = x), so nothing overflows."""
    return jax.lax.fori_loop(0, 160, lambda _, y: y @ x, x, unroll=8)


@jax.jit
def train(weights, batch):
    """A step of gradient descent, whose gradient is averaged over the devices."""
    return weights - 0.1 * jax.grad(lambda w: jnp.mean((jnp.tanh(batch @ w) @ w) ** 2))(weights)


def placed(devices):
    """Weights (256, 256) on each of the devices, and a batch (512, 256) split over them."""
    mesh = jax.make_mesh((len(devices),), ("data",), axis_types=(AxisType.Auto,), devices=devices)
    weights, batch = np.eye(256, dtype=np.float32), np.ones((512, 256), np.float32)
    return jax.device_put(weights, NamedSharding(mesh, P())), jax.device_put(batch, NamedSharding(mesh, P("data")))


inputs = [jax.device_put(np.full((128, 128), 1 / 128, np.float32), device) for device in DEVICES]
one, two = placed(DEVICES[:1]), placed(DEVICES)
jax.block_until_ready([*map(products, inputs), train(*one), train(*two)])  # compiles, outside the phases

for _ in range(3):
    for name, x in zip(("device 0", "device 1"), inputs, strict=True):
        with tracekit.phase(name):
            jax.block_until_ready(products(x))
    with tracekit.phase("both", alone=["device 0", "device 1"]):
        jax.block_until_ready([*map(products, inputs)])

for name, (weights, batch), baseline in (("1 device", one, None), ("2 devices", two, "1 device")):
    with tracekit.phase(name, baseline=baseline):
        for step in range(STEPS):
            with jax.profiler.StepTraceAnnotation("train", step_num=step) if baseline else nullcontext():
                weights = jax.block_until_ready(train(weights, batch))
