"""The host's calls that carry a correlation id, and what they tell of the device events that share it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.readers.xplane.planes import Plane, XSpace

_GRAPH = re.compile(r"(cu|cuda|hip)GraphLaunch", re.IGNORECASE)


@dataclass(frozen=True)
class Calls:
    """The calls of the host planes of one file; nothing is looked at until it is asked for."""

    planes: tuple[Plane, ...]

    def of(self, ids: NDArray[np.int64], has_id: NDArray[np.bool_]) -> pd.Categorical:
        """The name of the first call with each correlation id, null where there is none; both (n,), as the result."""
        known, names = self._first
        if len(known) == 0:
            return pd.Categorical.from_codes(np.full(len(ids), -1), dtype=names.dtype)
        at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        return pd.Categorical.from_codes(np.where(has_id & (known[at] == ids), names.codes[at], -1), dtype=names.dtype)

    def ids(self, test: Callable[[str], bool]) -> NDArray[np.int64]:
        """The correlation ids of the calls whose name passes `test`, asked once per distinct name."""
        found = [np.zeros(0, np.int64)]
        for plane in self.planes:
            codes = np.flatnonzero([test(name) for name in plane.names.categories])
            if len(codes):
                values, there = plane.numbers("correlation_id")
                found.append(values[there & np.isin(plane.names.codes, codes)])
        return np.concatenate(found)

    @cached_property
    def graphs(self) -> NDArray[np.int64]:
        """The correlation ids of the calls that launch a CUDA graph, which its kernels share."""
        return self.ids(lambda name: bool(_GRAPH.match(name)))

    @property
    def highest(self) -> int:
        """The highest correlation id of any call, 0 if there is none."""
        found = [0]
        for plane in self.planes:
            ids, there = plane.numbers("correlation_id")
            found.append(int(ids[there].max(initial=0)))
        return max(found)

    @cached_property
    def _first(self) -> tuple[NDArray[np.int64], pd.Categorical]:
        """The correlation ids in rising order and the name of the first call of each."""
        ids: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
        names: list[pd.Categorical] = [pd.Categorical.from_codes([], categories=pd.Index([], dtype="str"))]
        for plane in self.planes:
            values, there = plane.numbers("correlation_id")
            ids.append(values[there])
            names.append(plane.names[there])
        known, first = np.unique(np.concatenate(ids), return_index=True)
        return known, pd.api.types.union_categoricals(names)[first]


def calls(space: XSpace) -> Calls:
    """The calls on all host planes of a file."""
    return Calls(tuple(plane for plane in space.planes if of_host(plane)))


def of_host(plane: Plane) -> bool:
    """Whether a plane holds events of the host: `/host:CPU`, and `/host:CUPTI` where it was not merged into that."""
    return plane.name.startswith("/host:") and len(plane) > 0
