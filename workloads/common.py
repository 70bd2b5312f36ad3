"""What the workloads share: the devices of an experiment, and sizes that suit them."""

import os
from typing import Any

import jax
import numpy as np

CHANGE_RTOL = 0.05  # of the 2-norm; seen on CPU: 4e-5


def devices(at_most: int = 2, cpu: int | None = None) -> list[Any]:
    """The first `at_most` devices. Where there is no accelerator: that many virtual CPU devices, or `cpu` of them.

    The user's own number holds: `tracekit capture --devices N`, JAX_NUM_CPU_DEVICES or XLA_FLAGS. Call it before
    anything else touches a device, since jax makes its devices once.
    """
    config: Any = jax.config  # its options have no types
    if config.jax_num_cpu_devices < 0 and "host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        config.update("jax_num_cpu_devices", cpu or at_most)  # counts only where there is no accelerator
    return jax.devices()[:at_most]


def halvable(devices: list[Any]) -> list[Any]:
    """The first 1, 2, 4, … of the devices, over which powers of two can be split; says so where that drops any."""
    kept = 1 << (len(devices).bit_length() - 1)
    if kept < len(devices):
        print(f"{len(devices)} devices: {kept} of them are used, over which the sizes divide.")
    return devices[:kept]


def check_change(name: str, got: Any, expected: Any, before: Any) -> None:
    """Raise RuntimeError unless weights changed like the original's, but for the rounding of float32 or TF32.

    Trees alike, of weights after training and before. It is the change that is compared: next to the weights it is so
    small that they would agree whatever a step did.
    """
    for mine, own, old in zip(*map(jax.tree.leaves, (got, expected, before)), strict=True):
        mine, own, old = (np.asarray(leaf) for leaf in (mine, own, old))
        if not np.linalg.norm(mine - own) <= CHANGE_RTOL * np.linalg.norm(own - old):
            raise RuntimeError(f"{name!r} changes the weights in another way than the original.")


def by_device(device: Any, cpu: int, accelerator: int) -> int:
    """A size that is `cpu` on a CPU device and `accelerator` on any other."""
    return cpu if device.platform == "cpu" else accelerator
