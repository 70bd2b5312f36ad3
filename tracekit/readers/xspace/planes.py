"""What an XSpace holds, whatever file it came from, and what the columns of a plane say, whatever the device.

An XSpace is planes of lines of events, each plane's events as columns; schema: tsl/profiler/protobuf/xplane.proto.
xspace_file.py reads it from protobuf, chrome/jax_planes.py from JAX's `trace.json.gz`. A plane's columns say which HLO
ops its events are; with what HLO says of these, rows are made of them.
"""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from operator import not_
from typing import Any, Self, TypeVar, cast

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from tracekit.columns import by_label, categorical, constant, distinct, frame, labels, texts, zeros
from tracekit.readers.hlo.instruction import Op
from tracekit.readers.losses import Lost
from tracekit.trace import LAUNCH_COLUMNS
from tracekit.vocabulary import kinds
from tracekit.vocabulary.kinds import Kind

# Of a file that gives each event a name of its own; others have some hundreds of names.
_MOST_ANSWERS = 1 << 15
# Bytes that are no UTF-8 (protobuf_decoder), and what no profiler calls anything by.
NO_TEXT = re.compile(r"\\x[0-9a-f]{2}|[\x00-\x1f\ufffd]")
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
# Which events of a plane: their places, or where they are all a slice, with which columns are not copied.
Rows = NDArray[np.int64] | slice

# What HLO says of (module, program id as text, op); the module "" is any. None where no HLO proto tells.
Lookup = Callable[[str, str, str], Op | None]


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


@dataclass(frozen=True)
class Plane(ABC):
    """One XPlane: its n events as columns, all int64 of shape (n,) unless said otherwise.

    `name` is `/device:GPU:0` or `/host:CPU`, `lines` are the headers of the lines that were kept, and `line` is the
    index into them of every event. `metadata_id`: what `event_names` is asked with. `offset_ps` counts from the
    timestamp of the line. `occurrences`: `num_occurrences` of an aggregated event, which then has no offset, else -1.
    `stats`: the plane's own stats by name. `lost_stats`: how many stats of events are damaged or have lost their names.
    """

    name: str
    lines: list[Line]
    line: NDArray[np.int64]
    metadata_id: NDArray[np.int64]
    offset_ps: NDArray[np.int64]
    duration_ps: NDArray[np.int64]
    occurrences: NDArray[np.int64]
    stats: dict[str, Any]
    lost_stats: int = field(default=0, kw_only=True)

    def __len__(self) -> int:
        return len(self.line)

    def start_ps(self, base_ns: int, base_ps: int = 0) -> NDArray[np.int64]:
        """Start of every event in picoseconds since `base_ps` after `base_ns`, shape (n,); rebased in ns, so that epoch
        times fit."""
        stamps = (np.array([line.timestamp_ns for line in self.lines], np.int64) - base_ns) * 1000 - base_ps
        start = stamps[self.line]
        start += self.offset_ps  # in place: what is new costs as much to take from the system as to fill
        return start

    def only(self, kept: NDArray[np.bool_]) -> Self:
        """The plane without the events that are not `kept`, shape (n,)."""
        columns = ("line", "metadata_id", "offset_ps", "duration_ps", "occurrences")
        return replace(self, **{column: getattr(self, column)[kept] for column in columns})

    @cached_property
    def names(self) -> pd.Categorical:
        """The name of every event, shape (n,)."""
        return self.names_of(slice(None))

    def names_of(self, rows: "Rows") -> pd.Categorical:
        """The names of the events `rows` alone: those of all may be very many."""
        event_ids = self.metadata_id[rows]
        places, first = distinct(event_ids)
        return categorical(self.event_names(event_ids[first]), places)

    @property
    def damaged(self) -> int:
        """How many of the metadata and texts that were asked for are damaged."""
        return 0

    @property
    @abstractmethod
    def event_ids(self) -> list[int]:
        """The ids of all event metadata in the plane, used by an event or not."""

    @abstractmethod
    def event_names(self, event_ids: NDArray[np.int64]) -> list[str | None] | pa.Array:
        """The name in the metadata of each of `event_ids`."""

    @abstractmethod
    def all_metadata(self, event_ids: Sequence[int]) -> Iterator[EventMetadata]:
        """The metadata of each of `event_ids`; an id without metadata gives empty strings."""

    @abstractmethod
    def numbers(self, stat: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The integer stat of every event and whether it has one, both of shape (n,); uint64 keeps its 64 bits."""

    @abstractmethod
    def reals(self, stat: str) -> NDArray[np.float64]:
        """The numeric stat of every event, shape (n,), nan where absent."""

    @abstractmethod
    def has(self, stat: str) -> NDArray[np.bool_]:
        """Whether each event has the stat, in whatever type, shape (n,)."""

    @abstractmethod
    def strings(self, stat: str) -> pd.Categorical:
        """The string stat of every event, shape (n,), null where absent."""


@dataclass(frozen=True)
class XSpace:
    """The planes of one file that are whole, the profiler's errors and warnings in it, and what is damaged."""

    planes: list[Plane]
    errors: list[str]
    warnings: list[str]
    hostnames: list[str]
    lost: list[Lost] = field(default_factory=list)


@dataclass(frozen=True)
class PlaneEvents:
    """The events of a plane, start and end of each in ps (n,), and the `rows` (m,) of those that have a time."""

    plane: Plane
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    rows: NDArray[np.int64]

    @property
    def chosen(self) -> Rows:
        """The `rows` for columns to be asked with."""
        return slice(None) if len(self.rows) == len(self.plane) else self.rows


@dataclass(frozen=True)
class DeviceRows:
    """The rows of a device as columns (those of EVENT_COLUMNS that they have), the operations that their `op` numbers
    (those of OP_COLUMNS that the trace itself tells), notes on what was guessed or skipped, and the calls that started
    rows (LAUNCH_COLUMNS), where the file gives them no correlation id; what is `lost` of the rows; and by the number of
    an operation the names of its `operands` that its text gives, with a blank between them."""

    events: dict[str, Any]
    operations: dict[str, Any]
    notes: list[str]
    launches: pd.DataFrame = field(default_factory=lambda: frame(LAUNCH_COLUMNS))
    lost: list[Lost] = field(default_factory=list)
    operands: Mapping[int, str] = field(default_factory=dict)


def number_stat(stats: Mapping[str, Any], name: str) -> int | float | None:
    """The stat as the number that it should be: finite, and of 63 bits or fewer; None if it is absent or another."""
    value = stats.get(name)
    is_number = isinstance(value, int | float) and 0 <= value < 1 << 63  # nan compares as neither
    return value if is_number else None


def text_stat(stats: Mapping[str, Any], name: str) -> str | None:
    """The stat as the text that it should be; None if it is absent, empty or no text."""
    value = stats.get(name)
    return value if isinstance(value, str) and value else None


def chosen(mask: NDArray[np.bool_]) -> Rows:
    """The events in a mask (n,), for columns to be asked with."""
    return slice(None) if mask.all() else np.flatnonzero(mask)


def taken(column: NDArray[Any], rows: Rows) -> NDArray[Any]:
    """The events `rows` of a column, in memory of their own; to copy all takes half of the time of picking each."""
    return column[rows].copy() if isinstance(rows, slice) else column[rows]


def event_columns(host: str, plane: Plane, rows: Rows) -> dict[str, Any]:
    """The columns of the events `rows` that need no classification, but their names."""
    line = plane.line[rows]
    data: dict[str, Any] = {
        "host": constant(host, len(line)),
        "lane": categorical(line_names(plane), line),
        "hlo_op": plane.strings("hlo_op")[rows],
        "hlo_module": plane.strings("hlo_module")[rows],
    }
    return data | {stat: integers(plane, stat, rows) for stat in ("correlation_id", "run_id", "group_id")}


def integers(plane: Plane, stat: str, rows: Rows) -> pd.arrays.IntegerArray:
    """The integer stat of the events `rows`, null where they have none."""
    values, has_stat = plane.numbers(stat)
    its_values, has_stat = values[rows], has_stat[rows]  # the plane's values are all one array
    column = zeros(len(its_values), np.int64)
    np.copyto(column, its_values, where=has_stat)  # few spans number a step
    return pd.arrays.IntegerArray(column, ~has_stat)


def line_names(plane: Plane) -> list[str]:
    """The label of every line, unique within the plane."""
    names = [line.display_name or line.name or str(line.id) for line in plane.lines]
    times = Counter(names)
    return [name if times[name] == 1 else f"{name} [{line.id}]" for name, line in zip(names, plane.lines, strict=True)]


class Once:
    """Calls functions once for each distinct set of arguments: the planes of a file, one a GPU, have the same names and
    ops, and each is judged once for all of them."""

    def __init__(self) -> None:
        self._asked: dict[Callable[..., Any], Callable[..., Any]] = {}

    def __call__(self, function: F) -> F:
        """`function`, with its answers kept for as long as this is."""
        if function not in self._asked:
            self._asked[function] = lru_cache(_MOST_ANSWERS)(function)
        return cast(F, self._asked[function])


def numbered(values: Iterable[T]) -> tuple[NDArray[np.int64], list[T]]:
    """Which distinct value each is, in order of appearance, and these: no object for each of many that are alike."""
    place: dict[T, int] = {}
    which = np.fromiter((place.setdefault(value, len(place)) for value in values), np.int64)
    return which, [*place]


@dataclass(frozen=True)
class HloOps:
    """The k distinct ops of n events: `which` of them each event is, shape (n,), their `names` (k,), null where an
    event has no hlo_op, which of the `facts` HLO says of each, `fact` (k,), and the ops as operations of their programs
    (OP_COLUMNS)."""

    which: NDArray[np.int64]
    names: pd.Categorical
    fact: NDArray[np.int64]
    facts: list[Op | None]
    operations: dict[str, Any]

    def __len__(self) -> int:
        return len(self.fact)

    def __iter__(self) -> Iterator[tuple[str, Op | None]]:
        return ((name or "", self.facts[fact]) for name, fact in zip(texts(self.names), self.fact, strict=True))

    @property
    def nameless(self) -> NDArray[np.bool_]:
        """Which ops have no name, shape (k,)."""
        return by_label(self.names, not_, True)

    def told(self, test: Callable[[Op | None], bool]) -> NDArray[np.bool_]:
        """Of which ops HLO says what passes `test`, shape (k,)."""
        return np.array([*map(test, self.facts)], bool)[self.fact]


def hlo_ops(plane: Plane, rows: Rows, lookup: Lookup, once: Once) -> HloOps:
    """The distinct ops of the events `rows`; `once` is shared by planes, of which most have the same."""
    lookup = once(lookup)
    op, module = plane.strings("hlo_op")[rows], plane.strings("hlo_module")[rows]
    program = plane.numbers("program_id")[0][rows].view(np.uint64)
    which, first = distinct(op.codes, module.codes, program)
    op, module, program = op[first], module[first], program[first]
    has_program = plane.numbers("program_id")[1][rows][first]
    asked = zip(texts(op), texts(module), map(str, program.tolist()), strict=True)
    fact, facts = numbered(
        lookup(of_module or "", number, name) if name is not None else None for name, of_module, number in asked
    )
    of_program, of_op = distinct(module.codes, program, has_program)
    columns = (texts(module[of_op]), program[of_op].tolist(), has_program[of_op].tolist())
    programs = [
        f"{of_module or ''}({number})" if has_number else of_module
        for of_module, number, has_number in zip(*columns, strict=True)
    ]
    operations = {
        "program": categorical([each or None for each in programs], of_program),
        "hlo_op": op if (op.codes >= 0).all() else categorical([*labels(op), ""], op.codes),
        "opcode": categorical([each.opcode if each else None for each in facts], fact),
    }
    return HloOps(which, op, fact, facts, operations)


def classify(
    name: str, op: Op | None, *, typed: Kind | None = None, direction: str | None = None, lane: str = ""
) -> kinds.Classification:
    """kinds.classify with what HLO says of the op."""
    if op is not None and op.does == "custom-call" and op.to_or_from_host:
        return kinds.Classification(Kind.MEMCPY, op.direction, kinds.KnownBy.OPCODE)
    opcode = op.does if op else None
    if op is not None and op.does in ("send", "recv") and op.to_or_from_host:
        opcode = f"host {op.does}"
    elif opcode in kinds.CONTROL_FLOW:
        opcode = None  # a kernel of all that it calls, as a CUDA graph has them
    return kinds.classify(name, opcode=opcode, typed=typed, direction=direction, lane=lane)


def is_control_flow(name: str, op: Op | None) -> bool:
    """Whether an op only encloses others; its name is asked only where HLO says nothing of it."""
    return kinds.is_control_flow(op.does if op else None, name)


def hlo_columns(
    ops: Sequence[Op | None], classes: Sequence[kinds.Classification], which: NDArray[np.int64]
) -> dict[str, Any]:
    """The columns kind, known_by, category, bytes, dtype, ranks and group of rows that are `ops[which]`, `which` (n,),
    and are classified so.

    Copies and collectives have sizes, only collectives the rest.
    """
    pairs = list(zip(ops, (each.kind for each in classes), strict=True))
    moving = [op if op and kind in (Kind.MEMCPY, Kind.COLLECTIVE) else None for op, kind in pairs]
    collectives = [op if op and kind == Kind.COLLECTIVE else None for op, kind in pairs]
    sizes = np.array([-1 if op is None or op.bytes is None else op.bytes for op in moving], np.int64)[which]
    return {
        "kind": categorical([each.kind.value for each in classes], which),
        "known_by": categorical([each.known_by.value for each in classes], which),
        "category": categorical([op.category if op else None for op in ops], which),
        "bytes": pd.arrays.IntegerArray(sizes, sizes < 0),
        "dtype": categorical([op.dtype if op else None for op in collectives], which),
        "ranks": categorical([op.ranks if op else None for op in collectives], which),
        "group": categorical([op.group if op else None for op in collectives], which),
    }
