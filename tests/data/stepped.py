"""What the trace stepped-cpu.xplane.pb.gz is a capture of: 8 annotated steps on 2 CPU devices, dispatched ahead.

The first compiles, and before it dispatches the sixth the host sleeps for 0.3 s.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 2)
mesh = jax.make_mesh((2,), ("data",), axis_types=(AxisType.Auto,))


@jax.jit
def train(weights, batch):
    """A step of gradient descent, whose gradient is reduced over the devices."""
    return weights - 0.1 * jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(weights)


weights = jax.device_put(np.eye(256, dtype=np.float32), NamedSharding(mesh, P()))
batch = jax.device_put(np.ones((1024, 256), np.float32), NamedSharding(mesh, P("data")))
for step in range(8):
    with jax.profiler.StepTraceAnnotation("train", step_num=step):
        if step == 5:
            time.sleep(0.3)
        weights = train(weights, batch)
jax.block_until_ready(weights)
