"""Where an op stands under the roof that its device's peak and memory bandwidth make; it knows nothing of traces.

The roof is min(peak, intensity * bandwidth), with the intensity in FLOPs per byte (Williams, Waterman and Patterson,
https://doi.org/10.1145/1498765.1498785). So the ratio of an op's FLOP/s to it is the larger of two: FLOP/s over peak,
and bytes/s over bandwidth.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def place(
    n: Numbers, flops: Numbers, bytes_moved: Numbers, seconds: Numbers, peak: Numbers, memory: Numbers
) -> dict[str, Any]:
    """Rates of ops that ran `n` times in `seconds` together, against `peak` FLOP/s and `memory` bytes/s; all (m,).

    `flops` and `bytes_moved` (bytes) are those of one run; what is not known is NaN. Gives the columns flops_per_s,
    flops_ratio (of the peak), bytes_per_s, bytes_ratio (of the memory's), flops_per_byte, roof_ratio, bound (the limit
    that is nearer: "compute" or "memory") and the reason why the last two are null.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        positive_seconds = np.where(seconds > 0, seconds, np.nan)
        flop_rate, byte_rate = n * flops / positive_seconds, n * bytes_moved / positive_seconds
        of_peak, of_memory, intensity = (
            flop_rate / peak,
            byte_rate / memory,
            np.where(bytes_moved > 0, flops / bytes_moved, np.nan),
        )
    # What is past a limit has no place under the roof.
    roof = np.where((of_peak > 1) | (of_memory > 1), np.nan, np.maximum(of_peak, of_memory))
    reasons = {
        "its kernels ran unequally often, so how often it ran is not known": np.isnan(n),
        "it takes no time": np.isnan(positive_seconds),
        "more FLOP/s than the peak: its cost, how often it ran, or the peak is not right": of_peak > 1,
        "more bytes/s than the memory moves: part of them stayed on the chip, or that limit is too low": of_memory > 1,
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
