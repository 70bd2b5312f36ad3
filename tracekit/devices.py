"""The names of devices and hosts: their natural order, and the name of a device that is not known."""

import re

# A copy whose device the trace does not prove stands on `cpu:?`: it counts in no device pair or histogram.
UNKNOWN_DEVICE_SUFFIX = ":?"


def natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """A sort key that puts `gpu:2` before `gpu:10`."""
    return tuple((part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name))
