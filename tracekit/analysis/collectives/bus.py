"""How fast collectives moved their data, counted as NCCL's tests count it.

Algorithm bandwidth is bytes over time. Bus bandwidth is that times a factor, which makes it comparable with the speed
of the links whatever the number of ranks: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.vocabulary.collectives import OPERATIONS

Column = NDArray[np.int64]


def rates(
    operations: Sequence[str], operation: Column, size_bytes: Column, time: Column, ranks: Column, size: Column
) -> dict[str, Any]:
    """Algorithm and bus bandwidth of m collectives, whether they are lower bounds, and why what is null.

    `operation` (m,) is a place in `operations`; `size_bytes` (m,) is -1 where that is unknown; `time` in ps, the whole
    time of those seen on one device. `ranks` is how many take part, 0 where that is unknown, and then the devices seen
    count, of which there are `size`. A rate is a lower bound if a rank was not seen: it may have started later.
    """
    n = np.where(ranks > 0, ranks, np.where(size > 1, size, 0))
    factor_of_operation = [OPERATIONS[name].bus if name in OPERATIONS else None for name in operations]
    factors = np.array([-1 if factor is None else factor for factor in factor_of_operation], np.int64)[operation]
    has_bytes = size_bytes >= 0
    timed = has_bytes & (time > 0)
    algorithm = np.where(timed, size_bytes * 1e12 / np.maximum(time, 1), 0)
    factor = np.where(factors > 0, factors * (n - 1) / np.maximum(n, 1), 1)
    has_bus_rate = timed & (factors >= 0) & ((n > 1) | (factors == 0))
    reasons = (
        ((size == 1) & (n != 1), "seen on one device only, so its waiting is not known"),
        (~has_bytes, "the trace does not say how many bytes it moved"),
        (has_bytes & (time == 0), "no time is left after the last start"),
        (timed & (factors < 0), "which collective its kernel ran is not known, so its bus bandwidth is not"),
        (timed & (factors > 0) & (n == 0), "how many ranks took part is not known, so its bus bandwidth is not"),
        (timed & (factors > 0) & (n == 1), "one rank alone moves nothing between ranks"),
    )
    return {
        "algorithm_bytes_per_s": pd.arrays.FloatingArray(algorithm, ~timed),
        "bus_bytes_per_s": pd.arrays.FloatingArray(np.where(has_bus_rate, algorithm * factor, 0), ~has_bus_rate),
        "at_least": timed & ((size < n) | (n == 0)),
        "reason": _join_reasons(reasons),
    }


def _join_reasons(reasons: Sequence[tuple[NDArray[np.bool_], str]]) -> NDArray[np.object_]:
    """The texts whose masks (m,) are true, joined by `; `; None where none is."""
    code = np.zeros(len(reasons[0][0]), np.int64)
    for bit, (mask, _) in enumerate(reasons):
        code |= mask.astype(np.int64) << bit
    codes, values = pd.factorize(code)
    texts = ["; ".join(text for bit, (_, text) in enumerate(reasons) if value >> bit & 1) or None for value in values]
    return np.array(texts, object)[codes]
