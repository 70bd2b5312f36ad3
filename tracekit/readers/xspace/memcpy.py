"""What a GPU profiler writes of a copy: the stat `memcpy_details`.

Its forms, by writer (xla/backends/profiler/gpu): NVIDIA `kind_src:pinned kind_dst:device size:112 dest:0 async:1`, its
older `size:112 dest:4 async:0`, and ROCm `kind:Unknown size:655360 dest:2 async:1`, where `dest` counts the processors
too and a size of 0 stands for one that was not recorded.
"""

import re
from dataclasses import dataclass

from tracekit.vocabulary.copies import host_memory

_FIELD = re.compile(r"(\w+):(\S+)")


@dataclass(frozen=True)
class Details:
    """The memories at both ends of a copy as CUPTI names them (GetMemoryKindName), "" where the text does not; its
    size, None if that is not known; `leaves` if it goes to another GPU, should it go from device to device."""

    source: str = ""
    target: str = ""
    bytes: int | None = None
    leaves: bool = False

    @property
    def host_memory(self) -> str | None:
        """The kind of the host's memory at one end, as far as it is told."""
        return host_memory(f"{self.source} {self.target}")


def details(text: str, ordinal: int) -> Details:
    """What `memcpy_details` says of a copy that stands on the GPU `ordinal`."""
    found = dict(_FIELD.findall(text))
    size = found.get("size") or found.get("num_bytes") or ""
    leaves = "kind" not in found and found.get("dest", str(ordinal)) != found.get("src", str(ordinal))
    return Details(
        found.get("kind_src", ""),
        found.get("kind_dst", ""),
        int(size) if size.isdecimal() and int(size) > 0 else None,
        leaves,
    )
