"""The names of devices: `gpu:3`, with several hosts `rank1/gpu:3`; `tpu:3/sc:1` is a SparseCore of the chip `tpu:3`.

`cpu:?` is no device but the place of work whose device the trace does not prove: it counts in no device pair or
histogram. Readers write such names, and everything else asks the functions here what they mean.
"""

import re

_UNKNOWN = ":?"
MOST_NUMBER = 1 << 16
"""No machine has so many devices: a larger number is none of a device."""
FEW = 16
"""More devices than this are a fleet: no list of all of them is read."""
_NAME = re.compile(r"(?:.+/)?(?P<type>(?!sc:)\w+):(?P<number>\d{1,18}|\?)(?P<core>/sc(?:-\w+)?:\d+)?")


def unknown(device_type: str) -> str:
    """The name for devices of a type of which the trace does not say which: `cpu:?`."""
    return f"{device_type}{_UNKNOWN}"


def on_host(host: str, device: str) -> str:
    """The name of a host's device in a trace of several hosts."""
    return f"{host}/{device}"


def host_of(device: str) -> str:
    """The host in the name of a device in a trace of several hosts; "" in one of a single host."""
    return device.rpartition("/")[0]


def is_known(device: str) -> bool:
    """Whether a name is that of one device, not of all that are unknown."""
    return not device.endswith(_UNKNOWN)


def type_of(device: str) -> str:
    """`gpu` of `gpu:3` and of `rank1/gpu:?`, `tpu` of a chip and of its SparseCores; "" of what is no device's name."""
    match = _NAME.fullmatch(device)
    return match["type"] if match else ""


def is_sparse_core(device: str) -> bool:
    """Whether a device is a SparseCore, which stands beside the TensorCore of its chip."""
    match = _NAME.fullmatch(device)
    return bool(match and match["core"])


def number(device: str) -> int | None:
    """The number of a device among those of its host, as programs count them; None of a SparseCore and if unknown."""
    match = _NAME.fullmatch(device)
    return int(match["number"]) if match and not match["core"] and is_known(device) else None


NaturalKey = tuple[tuple[bool, int, str, str], ...]


def natural(name: str) -> NaturalKey:
    """A sort key for names of devices, hosts and lanes that puts `gpu:2` before `gpu:10`."""
    parts = []
    for part in re.split(r"(\d+)", name):
        # By length and digits, since Python refuses to make a number of thousands of them.
        digits = part.lstrip("0") if part.isdecimal() else ""
        parts.append((part.isdecimal(), len(digits), digits, part))
    return tuple(parts)


def known_first(device: str) -> tuple[bool, NaturalKey]:
    """A sort key for names of devices: in natural order, unknown ones last."""
    return not is_known(device), natural(device)
