"""What a device can do at most, by the name its driver gives it: figures of the makers' datasheets; no frames here.

Sources, in decimal units as printed there; what is quoted with sparsity or for both directions of a link is halved:

* V100: https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf
* A100: https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf,
  the 40 GB model: https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf
* H100: https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet
* H200: https://www.nvidia.com/en-us/data-center/h200/
* MI300X: https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs/data-sheets/amd-instinct-mi300x-data-sheet.pdf
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Peaks:
    """The most a device can do, per second; None where it has no such thing, or nobody says.

    `flops` is for dense products of 16-bit matrices; `memory_bytes` reads and writes together; `host_link_bytes` and
    `device_link_bytes` are one direction, the latter over all links to other devices together.
    """

    flops: int | None = None
    memory_bytes: int | None = None
    host_link_bytes: int | None = None
    device_link_bytes: int | None = None


def _pcie(giga_transfers: int) -> int:
    """Bytes per second in one direction of 16 lanes that carry 128 bits in 130, as PCIe 3 to 5 do."""
    return giga_transfers * 10**9 * 16 * 128 // 130 // 8


_PCIE_3, _PCIE_4, _PCIE_5 = _pcie(8), _pcie(16), _pcie(32)
_TERA, _GIGA = 10**12, 10**9

_V100 = Peaks(125 * _TERA, 900 * _GIGA, _PCIE_3, 150 * _GIGA)
_A100_40 = Peaks(312 * _TERA, 1555 * _GIGA, _PCIE_4, 300 * _GIGA)
_A100_80 = Peaks(312 * _TERA, 2039 * _GIGA, _PCIE_4, 300 * _GIGA)

# Whole names: what shares a prefix may be another board.
PEAKS: Mapping[str, Peaks] = MappingProxyType(
    {
        "Tesla V100-SXM2-16GB": _V100,
        "Tesla V100-SXM2-32GB": _V100,
        "A100-SXM4-40GB": _A100_40,
        "NVIDIA A100-SXM4-40GB": _A100_40,
        "NVIDIA A100-SXM4-80GB": _A100_80,
        "NVIDIA A100 80GB PCIe": Peaks(312 * _TERA, 1935 * _GIGA, _PCIE_4, None),
        "NVIDIA H100 80GB HBM3": Peaks(989_500 * _GIGA, 3350 * _GIGA, _PCIE_5, 450 * _GIGA),
        "NVIDIA H200": Peaks(989_500 * _GIGA, 4800 * _GIGA, _PCIE_5, 450 * _GIGA),
        "AMD Instinct MI300X": Peaks(1_307_400 * _GIGA, 5300 * _GIGA, _PCIE_5, 448 * _GIGA),
    }
)
