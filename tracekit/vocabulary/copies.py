"""Copies: in which direction they go, and through which memory of the host."""

import re

# Host to device, device to host, within one device, between two devices.
DIRECTIONS = ("H2D", "D2H", "D2D", "P2P")

# What lies at an end, in the words of CUPTI, ROCm and XLA; managed memory may be anywhere. An array is on the device.
_ENDS = {
    **dict.fromkeys(("host", "pageable", "pinned"), "H"),
    **dict.fromkeys(("device", "device_static", "array"), "D"),
    "peer": "P",
}
_WAYS = {"HD": "H2D", "DH": "D2H", "DD": "D2D", "PP": "P2P", "HH": "host"}
# Text -> direction: of drivers and profilers (`MemcpyH2D`, `Memcpy HtoD`, `HTOD`, `HostToDevice`), Intel's M for the
# host's memory that is not pinned, arrays (A), MXNet's contexts, the custom calls of XLA.
_TEXTS = {
    "H2D": r"H2D|HtoD|Host[-_ ]?to[-_ ]?Device|CPU2GPU|(?-i:HtoA|HTOA|M2D|MtoD)|(?-i:\bMoveToDevice\b)",
    "D2H": r"D2H|DtoH|Device[-_ ]?to[-_ ]?Host|GPU2CPU|(?-i:AtoH|ATOH|D2M|DtoM)|(?-i:\bMoveToHost\b)",
    "D2D": r"D2D|DtoD|Device[-_ ]?to[-_ ]?Device|(?-i:[AD]toA|AtoD|[AD]TOA|ATOD)",
    "P2P": r"P2P|PtoP|Peer[-_ ]?to[-_ ]?Peer|(?-i:(?:cu|cuda|hip)Memcpy\w*Peer)",
    "host": r"H2H|HtoH|Host[-_ ]?to[-_ ]?Host",
}
_TEXT = re.compile("|".join(f"(?P<{way}>{pattern})" for way, pattern in _TEXTS.items()), re.IGNORECASE)
# Memory that the driver moves by itself: from device to device that is always between two.
_UNIFIED = re.compile(r"\bUVM_|\bUM_|\bUnified\b", re.IGNORECASE)

PREFETCHED = "prefetched"
"""How the name of a copy of unified memory ends that the program asked for."""

# What copies besides a memcpy, where its direction is named too.
_MOVING = re.compile(r"\b(?:copy|dma|transfer)\b")

MXNET_COPY = re.compile(
    r"(?:(?:Sync)?Copy(?:FromNDArray)?|_copyto_)[CG]PU2[CG]PU"
    r"|_copyto|CopyTo|_CrossDeviceCopy|KVStoreCopyRetainedRowsToGPU"
)
"""The operators of MXNet's engine that copy; whether between two contexts of a type or within one, no name says."""

XLA_CPU_COPIES = ("CopyToMemorySpace", "CopyToMemorySpace_Direct")
"""The calls of XLA's CPU client that copy an array to another device."""

XLA_CPU_TRANSFERS = ("H2D Dispatch", "CommonPjRtClient::LinearizeIntoImpl")
"""Its calls that copy an array of the host to a device."""


def direction(
    *texts: str, source: str = "", target: str = "", apart: bool | None = None, either: bool = False
) -> str | None:
    """One of DIRECTIONS; None for what stays on the host, and where nothing tells.

    `source` and `target` are the memories at both ends as the record of the copy names them; where it does not, the
    first of `texts` counts that names exactly one direction: names of the copy, of its stream, of the call for it.
    `apart` says whether the record names two devices or one, None if it does not name both; `either` that its writer
    calls copies within a device and between two the same.
    """
    way = _WAYS.get(_ENDS.get(source, "") + _ENDS.get(target, ""))
    way = way or next(filter(None, map(_direction_of, texts)), None)
    if way == "D2D" and apart is None and either:
        return None
    if way in (None, "D2D", "P2P") and apart is not None:
        return "P2P" if apart else "D2D"
    return None if way == "host" else way


def within_host(source: str, target: str) -> bool:
    """Whether the memories at both ends of a copy, as its record names them, are the host's."""
    return _ENDS.get(source) == _ENDS.get(target) == "H"


def is_copy(words: str, direction: str | None) -> bool:
    """Whether the words of a name (kinds.words) say that it copies, of an accelerator whose records nobody knows:
    `aclrt memcpy async`, or `dma h2d` with the `direction` that it names. A kernel that lays out for a copy is none."""
    if "kernel" in words:
        return False
    return "memcpy" in words or (direction is not None and bool(_MOVING.search(words)))


def moves_unified_memory(name: str) -> bool:
    """Whether the driver made a copy of this name by itself, as something touched memory that was elsewhere; no program
    asked for it (cudaMemPrefetchAsync)."""
    return bool(_UNIFIED.search(name)) and not name.endswith(PREFETCHED)


def host_memory(text: str) -> str | None:
    """The memory of the host that a copy goes through, as far as a text names it: `pageable`, which the driver has to
    stage, or else `pinned`."""
    return next((memory for memory in ("pageable", "pinned") if memory in text.lower()), None)


def _direction_of(text: str) -> str | None:
    """The direction that a text names, None if it names none or several."""
    ways = {str(match.lastgroup) for match in _TEXT.finditer(text)}
    way = ways.pop() if len(ways) == 1 else None
    return "P2P" if way == "D2D" and _UNIFIED.search(text) else way
