"""What a device can do at most, as its trace or a datasheet says, and where an op stands under the roof that makes.

Sources of the datasheets' figures, in decimal units as printed there; what is quoted with sparsity or for both
directions of a link is halved:

* V100: https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf
* A100: https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf,
  the 40 GB model: https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf
* H100: https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet
* H200: https://www.nvidia.com/en-us/data-center/h200/
* H800: https://lenovopress.lenovo.com/lp1814-thinksystem-nvidia-h800-pcie-gen5-gpu; with SXM5 it is an H100 with that
  NVLink
* H20: NVIDIA's table, which it gave to its partners alone, as printed in
  https://www.semianalysis.com/p/nvidias-new-china-ai-chips-circumvent
* B200: https://resources.nvidia.com/en-us-dgx-systems/dgx-b200-datasheet, an eighth of the system
* MI300X: https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs/data-sheets/amd-instinct-mi300x-data-sheet.pdf
* MI355X: https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs/product-briefs/amd-instinct-mi355x-gpu-brochure.pdf
* TPU v6e: https://docs.cloud.google.com/tpu/docs/v6e, but the bandwidth, which it rounds to 1600 GB/s, as XSpaces
  state it; TPU7x: https://docs.cloud.google.com/tpu/docs/tpu7x
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import records
from tracekit.devices import type_of


@dataclass(frozen=True)
class Peaks:
    """The most a device can do, per second; None where it has no such thing, or nobody says.

    `flops` is for dense products of 16-bit matrices, `tf32_flops` for those of 32-bit ones that the device rounds to
    TF32; `memory_bytes` reads and writes together; `host_link_bytes` and `device_link_bytes` are one direction, the
    latter over all links to other devices together.
    """

    flops: int | None = None
    memory_bytes: int | None = None
    host_link_bytes: int | None = None
    device_link_bytes: int | None = None
    tf32_flops: int | None = None


def _pcie(giga_transfers: int) -> int:
    """Bytes per second in one direction of 16 lanes that carry 128 bits in 130, as PCIe 3 to 5 do."""
    return giga_transfers * 10**9 * 16 * 128 // 130 // 8


_PCIE_3, _PCIE_4, _PCIE_5 = _pcie(8), _pcie(16), _pcie(32)
_TERA, _GIGA = 10**12, 10**9
_V100 = Peaks(125 * _TERA, 900 * _GIGA, _PCIE_3, 150 * _GIGA)
_A100_40 = Peaks(312 * _TERA, 1555 * _GIGA, _PCIE_4, 300 * _GIGA, 156 * _TERA)
_A100_80 = Peaks(312 * _TERA, 2039 * _GIGA, _PCIE_4, 300 * _GIGA, 156 * _TERA)
_V6E = Peaks(918 * _TERA, 1638 * _GIGA, None, 400 * _GIGA)

# Whole names: what shares a prefix may be another board.
PEAKS: Mapping[str, Peaks] = MappingProxyType(
    {
        "Tesla V100-SXM2-16GB": _V100,
        "Tesla V100-SXM2-32GB": _V100,
        "A100-SXM4-40GB": _A100_40,
        "NVIDIA A100-SXM4-40GB": _A100_40,
        # The board's number in place of its name: the same device id (20B0) and 40 GB.
        "NVIDIA A100-PG509-200": _A100_40,
        "NVIDIA A100-SXM4-80GB": _A100_80,
        "NVIDIA A100 80GB PCIe": Peaks(312 * _TERA, 1935 * _GIGA, _PCIE_4, None, 156 * _TERA),
        "NVIDIA H100 80GB HBM3": Peaks(989_500 * _GIGA, 3350 * _GIGA, _PCIE_5, 450 * _GIGA, 494_500 * _GIGA),
        "NVIDIA H200": Peaks(989_500 * _GIGA, 4800 * _GIGA, _PCIE_5, 450 * _GIGA, 494_500 * _GIGA),
        "NVIDIA H800": Peaks(989_500 * _GIGA, 3350 * _GIGA, _PCIE_5, 200 * _GIGA, 494_500 * _GIGA),
        "NVIDIA H800 PCIe": Peaks(756_500 * _GIGA, 2000 * _GIGA, _PCIE_5, 200 * _GIGA, 378 * _TERA),
        "NVIDIA H20": Peaks(148 * _TERA, 4000 * _GIGA, _PCIE_5, 450 * _GIGA, 74 * _TERA),
        "NVIDIA B200": Peaks(2250 * _TERA, 8000 * _GIGA, None, 900 * _GIGA),
        "AMD Instinct MI300X": Peaks(1_307_400 * _GIGA, 5300 * _GIGA, _PCIE_5, 448 * _GIGA),
        "AMD Instinct MI355X": Peaks(2_516_600 * _GIGA, 8000 * _GIGA, _PCIE_5, 537_600 * 10**6),
        # As XSpaces call it, and as jax.Device.device_kind does.
        "TPU v6 Lite": _V6E,
        "TPU v6 lite": _V6E,
        # A device is one of the two TensorCores of a chip; the links are of both.
        "TPU7x": Peaks(1_153_500 * _GIGA, 3690 * _GIGA, None, None),
    }
)

# Who states a limit.
TRACE, DATASHEET = "trace", "datasheet"
# What a peak is for. NVIDIA's products of 32-bit matrices that round to TF32 say so in the names of their kernels
# (`sm90_xmma_gemm_f32f32_tf32f32_…`), and reach half the peak of 16-bit ones.
BITS_16, TF32 = "16-bit", "TF32"


def is_tf32(kernel: str) -> bool:
    """Whether a kernel's name says that it rounds to TF32."""
    return "tf32" in kernel.lower()


@dataclass(frozen=True)
class Limit:
    """A figure per second and who states it (TRACE or DATASHEET), or None for both and the `reason`."""

    per_s: float | None
    source: str | None
    reason: str = ""


@dataclass(frozen=True)
class Limits:
    """The limits of one device: FLOPs, bytes of its memory, of copies within it and, in one direction, of its links.

    `flops` is for dense products of 16-bit matrices: TPUs state that of bfloat16
    (https://cloud.google.com/tpu/docs/v6e), and it is what PEAKS holds. `tf32_flops` is for those that round to TF32.
    """

    flops: Limit
    tf32_flops: Limit
    memory: Limit
    within: Limit
    host_link: Limit
    device_link: Limit

    def of_copies(self, direction: str | None) -> Limit:
        """The limit of copies of a direction, None if the trace does not tell which."""
        if direction is None:
            return Limit(None, None, "the trace does not say between which memories they copy")
        if direction == "D2D":
            return self.within
        return self.device_link if direction == "P2P" else self.host_link


def limits(devices: pd.DataFrame) -> dict[str, Limits]:
    """The limits of the devices of a DEVICE_COLUMNS frame, by name; where the trace states a figure, it wins."""
    return {str(row["device"]): _limits(row) for row in records(devices) if not pd.isna(row["device"])}


def _limits(row: dict[str, Any]) -> Limits:
    model = "" if pd.isna(row["model"]) else str(row["model"])
    sheet = PEAKS.get(model, Peaks())
    source = f"and no datasheet is known for {model!r}" if model else "nor which model the device is"
    if model in PEAKS:
        source = f"nor does the datasheet of {model}"

    def limit(quantity: str, stated: Any, datasheet: int | None) -> Limit:
        if not pd.isna(stated) and stated > 0:
            return Limit(float(stated), TRACE)
        if datasheet is not None:
            return Limit(float(datasheet), DATASHEET)
        return Limit(None, None, f"the trace does not state the {quantity}, {source}")

    memory = limit("memory bandwidth", row["memory_bandwidth_bytes_per_s"], sheet.memory_bytes)
    # A copy within a GPU moves every byte twice: out of the memory and into it.
    within = Limit(None if memory.per_s is None else memory.per_s / 2, memory.source, memory.reason)
    if type_of(str(row["device"])) == "tpu":
        within = Limit(None, None, "a copy within a TPU may begin or end in its on-chip memory")
    return Limits(
        limit("peak FLOP/s", row["peak_flops_per_s"], sheet.flops),
        limit("peak FLOP/s of TF32", None, sheet.tf32_flops),
        memory,
        within,
        limit("host link", None, sheet.host_link_bytes),
        limit("links between devices", None, sheet.device_link_bytes),
    )


UNKNOWN = _limits({"device": None, "model": None, "peak_flops_per_s": None, "memory_bandwidth_bytes_per_s": None})
Numbers = NDArray[np.float64]


def under_roof(
    n: Numbers, flops: Numbers, bytes_moved: Numbers, seconds: Numbers, peak: Numbers, memory: Numbers
) -> dict[str, Any]:
    """Rates of ops that ran `n` times in `seconds` together, against `peak` FLOP/s and `memory` bytes/s; all (m,).

    `flops` and `bytes_moved` (bytes) are those of one run; what is not known is NaN. Gives the columns flops_per_s,
    flops_ratio (of the peak), bytes_per_s, bytes_ratio (of the memory's), flops_per_byte, roof_ratio, bound (the limit
    that is nearer: "compute" or "memory") and the reason why the last two are null.

    The roof is min(peak, intensity * bandwidth), with the intensity in FLOPs per byte (Williams, Waterman and
    Patterson, https://doi.org/10.1145/1498765.1498785). So the ratio of an op's FLOP/s to it is the larger of two:
    FLOP/s over peak, and bytes/s over bandwidth.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        positive_seconds = np.where(seconds > 0, seconds, np.nan)
        flop_rate, byte_rate = n * flops / positive_seconds, n * bytes_moved / positive_seconds
        of_peak, of_memory = flop_rate / peak, byte_rate / memory
        intensity = np.where(bytes_moved > 0, flops / bytes_moved, np.nan)
    # What is past a limit has no place under the roof.
    roof = np.where((of_peak > 1) | (of_memory > 1), np.nan, np.maximum(of_peak, of_memory))
    reasons = {
        "its kernels ran unequally often, so how often it ran is not known": np.isnan(n),
        "it takes no time": np.isnan(positive_seconds),
        "more FLOP/s than the peak: its cost, how often it ran, or the peak is not right": of_peak > 1,
        "more bytes/s than the memory bandwidth: some stayed on the chip, or the limit is too low": of_memory > 1,
        "the trace states its FLOPs or its bytes alone": np.isnan(flops) | np.isnan(bytes_moved),
        "the peak FLOP/s or the memory bandwidth of the device is not known": np.isnan(peak) | np.isnan(memory),
    }
    nulls: NDArray[Any] = np.full(len(n), None)
    rates = {
        "flops_per_s": flop_rate,
        "flops_ratio": of_peak,
        "bytes_per_s": byte_rate,
        "bytes_ratio": of_memory,
        "flops_per_byte": intensity,
        "roof_ratio": roof,
    }
    return {name: pd.arrays.FloatingArray(rate, np.isnan(rate)) for name, rate in rates.items()} | {
        "bound": np.select([np.isnan(roof), of_peak >= of_memory], [nulls, "compute"], "memory"),
        "reason": np.select([*reasons.values()], [np.full(len(n), reason, object) for reason in reasons], nulls),
    }
