"""What the traces two-cpu-devices-jax*.xplane.pb are captures of: 4 products apart and together, 3 copies, 2 psums."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import tracekit

jax.config.update("jax_num_cpu_devices", 2)
DEVICES = jax.devices()


@jax.jit
def looped(x):
    """Two products in a loop that the compiler must not unroll away."""
    return jax.lax.fori_loop(0, 2, lambda _, y: y @ x, x)


x0, x1 = (jax.device_put(np.full((64, 64), 1 / 64, np.float32), device) for device in DEVICES)
mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Auto,))
summed = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x * 2, "i"), mesh=mesh, in_specs=P("i"), out_specs=P()))
shards = jax.device_put(np.ones((256, 64), np.float32), NamedSharding(mesh, P("i")))
large = jax.jit(lambda x: jnp.sin(x) + 1)
big = jax.device_put(np.ones((1024, 1024), np.float32), DEVICES[0])
jax.block_until_ready([looped(x0), looped(x1), summed(shards), large(big)])

with tracekit.phase("device 0"):
    jax.block_until_ready(looped(x0))
with tracekit.phase("device 1"):
    jax.block_until_ready(looped(x1))
with tracekit.phase("both", alone=["device 0", "device 1"]):
    jax.block_until_ready([looped(x0), looped(x1)])
with tracekit.phase("copies"):
    ready = jax.block_until_ready(large(big))
    jax.block_until_ready(jax.device_put(ready, DEVICES[1]))
    for _ in range(2):
        jax.block_until_ready(jax.device_put(large(big), DEVICES[1]))
with tracekit.phase("sums"):
    for step in range(2):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            jax.block_until_ready(summed(shards))
