"""What an XSpace holds, whatever file it came from: planes of lines of events, each plane's events as columns.

Schema: tsl/profiler/protobuf/xplane.proto. xspace_file.py reads it from protobuf, chrome/jax_planes.py from JAX's
`trace.json.gz`.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray


@dataclass(frozen=True)
class Line:
    """The header of one XLine."""

    id: int = 0
    name: str = ""
    display_name: str = ""
    timestamp_ns: int = 0
    duration_ps: int = 0


@dataclass(frozen=True)
class EventMetadata:
    """What an event's `metadata_id` points at; `stats` holds its own stats by name."""

    name: str = ""
    display_name: str = ""
    stats: dict[str, Any] = field(default_factory=dict)


class Plane(Protocol):
    """One XPlane: its n events as columns, all int64 of shape (n,) unless said otherwise."""

    @property
    def name(self) -> str:
        """The plane's name: `/device:GPU:0`, `/host:CPU`."""

    @property
    def lines(self) -> list[Line]:
        """The headers of the lines that were kept."""

    @property
    def line(self) -> NDArray[np.int64]:
        """Index into `lines` of every event."""

    @property
    def metadata_id(self) -> NDArray[np.int64]:
        """What `event_metadata` is asked with."""

    @property
    def duration_ps(self) -> NDArray[np.int64]:
        """Duration of every event."""

    @property
    def occurrences(self) -> NDArray[np.int64]:
        """`num_occurrences` of an aggregated event, which then has no offset, else -1."""

    @property
    def stats(self) -> dict[str, Any]:
        """The plane's own stats by name."""

    @property
    def event_ids(self) -> list[int]:
        """The ids of all event metadata in the plane, used by an event or not."""

    @property
    def names(self) -> pd.Categorical:
        """The name of every event, shape (n,)."""

    def __len__(self) -> int: ...
    def event_metadata(self, event_id: int) -> EventMetadata:
        """The metadata of `event_id`; an id without metadata gives empty strings."""

    def start_ps(self, base_ns: int) -> NDArray[np.int64]:
        """Start of every event in picoseconds since `base_ns`, shape (n,)."""

    def numbers(self, stat: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The integer stat of every event and whether it has one, both of shape (n,); uint64 keeps its 64 bits."""

    def reals(self, stat: str) -> NDArray[np.float64]:
        """The numeric stat of every event, shape (n,), nan where absent."""

    def has(self, stat: str) -> NDArray[np.bool_]:
        """Whether each event has the stat, in whatever type, shape (n,)."""

    def strings(self, stat: str) -> pd.Categorical:
        """The string stat of every event, shape (n,), null where absent."""


@dataclass(frozen=True)
class XSpace:
    """All planes of one file, with the errors and warnings the profiler wrote into it."""

    planes: list[Plane]
    errors: list[str]
    warnings: list[str]
    hostnames: list[str]
