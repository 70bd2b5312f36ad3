"""A phase in the name of a range, for profilers whose ranges hold nothing but a name: NVTX, MXNet's tasks, Kineto's
annotations.

It is what TraceMe makes of a name and its stats (tsl/profiler/lib/traceme_encode.h): `both#tracekit=phase,alone=a;b#`.
"""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import categorical

# Those columns of spans that say what a phase is compared with.
STATS = ("tracekit", "alone", "baseline")
# Ranges of a domain are called `domain:name`.
_NAME = re.compile(r"(?P<name>[^#]+)#(?P<stats>tracekit=phase(?:,\w+=[^#,=]*)*)#")


def is_phase(name: str) -> bool:
    """Whether a range of this name is a phase."""
    return _NAME.fullmatch(name) is not None


def span_columns(names: Sequence[str], codes: NDArray[np.int64]) -> dict[str, pd.Categorical]:
    """The columns `name` and STATS of spans, whose names are those of `names` at the places `codes`, shape (spans,)."""
    found = [_NAME.fullmatch(name) for name in names]
    columns = {"name": [match["name"] if match else name for match, name in zip(found, names, strict=True)]}
    stats = [dict(pair.split("=", 1) for pair in match["stats"].split(",")) if match else {} for match in found]
    columns |= {key: [of_name.get(key) for of_name in stats] for key in STATS}
    return {key: categorical(labels, codes).remove_unused_categories() for key, labels in columns.items()}
