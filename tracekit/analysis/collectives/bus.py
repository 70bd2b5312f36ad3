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
    operations: Sequence[str], operation: Column, moved: Column, time: Column, ranks: Column, size: Column
) -> dict[str, Any]:
    """Algorithm and bus bandwidth of m collectives, whether they are lower bounds, and why what is null.

    `operation` (m,) is a place in `operations`; `moved` is in bytes, -1 where that is unknown; `time` in ps, the whole
    time of those seen on one device. `ranks` is how many take part, 0 where that is unknown, and then the devices seen
    count, of which there are `size`. A rate is a lower bound if a rank was not seen: it may have started later.
    """
    n = np.where(ranks > 0, ranks, np.where(size > 1, size, 0))
    of = [OPERATIONS[what].bus if what in OPERATIONS else None for what in operations]
    factors = np.array([-1 if one is None else one for one in of], np.int64)[operation]
    known = moved >= 0
    timed = known & (time > 0)
    algorithm = np.where(timed, moved * 1e12 / np.maximum(time, 1), 0)
    factor = np.where(factors > 0, factors * (n - 1) / np.maximum(n, 1), 1)
    proven = timed & (factors >= 0) & ((n > 1) | (factors == 0))
    why = (
        ((size == 1) & (n != 1), "seen on one device only, so its waiting is not known"),
        (~known, "the trace does not say how many bytes it moved"),
        (known & (time == 0), "no time is left after the last start"),
        (timed & (factors < 0), "which collective its kernel ran is not known, so its bus bandwidth is not"),
        (timed & (factors > 0) & (n == 0), "how many ranks took part is not known, so its bus bandwidth is not"),
        (timed & (factors > 0) & (n == 1), "one rank alone moves nothing between ranks"),
    )
    return {
        "algorithm_bytes_per_s": pd.arrays.FloatingArray(algorithm, ~timed),
        "bus_bytes_per_s": pd.arrays.FloatingArray(np.where(proven, algorithm * factor, 0), ~proven),
        "at_least": timed & ((size < n) | (n == 0)),
        "reason": _joined(why),
    }


def _joined(why: Sequence[tuple[NDArray[np.bool_], str]]) -> NDArray[np.object_]:
    """The texts whose masks (m,) are true, joined by `; `; None where none is."""
    code = np.zeros(len(why[0][0]), np.int64)
    for bit, (mask, _) in enumerate(why):
        code |= mask.astype(np.int64) << bit
    codes, values = pd.factorize(code)
    texts = ["; ".join(text for bit, (_, text) in enumerate(why) if value >> bit & 1) or None for value in values]
    return np.array(texts, object)[codes]
