"""What the workloads share: the devices of an experiment, and sizes that suit them."""

import os
from typing import Any

import jax


def devices(at_most: int = 2, cpu: int | None = None) -> list[Any]:
    """The first `at_most` devices. Where there is no accelerator: that many virtual CPU devices, or `cpu` of them.

    The user's own number holds: `tracekit capture --devices N`, JAX_NUM_CPU_DEVICES or XLA_FLAGS. Call it before
    anything else touches a device, since jax makes its devices once.
    """
    config: Any = jax.config  # its options have no types
    if config.jax_num_cpu_devices < 0 and "host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        config.update("jax_num_cpu_devices", cpu or at_most)  # counts only where there is no accelerator
    return jax.devices()[:at_most]


def by_device(device: Any, cpu: int, accelerator: int) -> int:
    """A size that is `cpu` on a CPU device and `accelerator` on any other."""
    return cpu if device.platform == "cpu" else accelerator
