"""What a GPU profiler writes of a copy: the stat `memcpy_details`, the names of copies and of the calls for them.

Forms of `memcpy_details`, by writer (xla/backends/profiler/gpu): NVIDIA
`kind_src:pinned kind_dst:device size:112 dest:0 async:1`, its older `size:112 dest:4 async:0`, and ROCm
`kind:Unknown size:655360 dest:2 async:1`, where `dest` counts the processors too and a size of 0 stands for one that
was not recorded.
"""

import re
from dataclasses import dataclass

# CUPTI's memory kinds (GetMemoryKindName); managed memory may be anywhere.
_HOST_KINDS = frozenset({"pageable", "pinned", "host"})
_HOST_TOLD = ("pageable", "pinned")
_DEVICE_KINDS = frozenset({"device", "device_static", "array"})

_FIELD = re.compile(r"(\w+):(\S+)")
# Copies of unified memory stand on streams of their own; its page faults and the like are no copies.
_UNIFIED_COPY = re.compile(r"UM_BYTES_TRANSFER_(HTOD|DTOH|DTOD)")
_LAUNCHED = re.compile(r"(?:^|_)(?:cu|cuda|hip)Memcpy\w*?(HtoD|DtoH|DtoD|HtoA|AtoH|Peer)", re.IGNORECASE)
_LAUNCH_WAYS = {"htod": "H2D", "htoa": "H2D", "dtoh": "D2H", "atoh": "D2H", "dtod": "D2D", "peer": "P2P"}


@dataclass(frozen=True)
class Details:
    """Direction and size of a copy and the kind of the host's memory at one end ("pageable", "pinned"), each None where
    the text does not tell; `leaves` if it goes to another GPU, should it go from device to device."""

    direction: str | None = None
    bytes: int | None = None
    leaves: bool = False
    host_memory: str | None = None


def details(text: str, ordinal: int) -> Details:
    """What `memcpy_details` says of a copy that stands on the GPU `ordinal`."""
    found = dict(_FIELD.findall(text))
    size = found.get("size") or found.get("num_bytes") or ""
    source, target = found.get("kind_src", ""), found.get("kind_dst", "")
    leaves = "kind" not in found and found.get("dest", str(ordinal)) != found.get("src", str(ordinal))
    way = None
    if source in _HOST_KINDS and target in _DEVICE_KINDS:
        way = "H2D"
    elif source in _DEVICE_KINDS and target in _HOST_KINDS:
        way = "D2H"
    elif source in _DEVICE_KINDS and target in _DEVICE_KINDS:
        way = "P2P" if leaves else "D2D"
    memory = next((kind for kind in (source, target) if kind in _HOST_TOLD), None)
    return Details(way, int(size) if size.isdecimal() and int(size) > 0 else None, leaves, memory)


def unified(name: str) -> str | None:
    """The direction of a copy of unified memory, None for another event."""
    found = _UNIFIED_COPY.fullmatch(name)
    return {"HTOD": "H2D", "DTOH": "D2H", "DTOD": "P2P"}[found[1]] if found else None


def launched(call: str) -> str | None:
    """The direction that the name of a host call such as `hipMemcpyHtoDAsync` tells, D2D for between two devices too
    (ROCm calls both so)."""
    found = _LAUNCHED.search(call)
    return _LAUNCH_WAYS[found[1].lower()] if found else None
