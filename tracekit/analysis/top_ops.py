"""Where the time of the devices goes: kernels and ops by name, by what they compute, by operator and by source line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.columns import frame, numbered
from tracekit.devices import FEW
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.timeline import Source, Timeline, Windows, rows_begin_inside, timeline_of
from tracekit.timeline.unions import COLLECTIVE, COMPUTE, first_coverage, union_lengths
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.patterns import pattern

Column = NDArray[np.int64]

# What is known of a group of rows: how many there are, the sum of their durations, that over the sum of all, and their
# durations' median and 95th percentile.
_TIMES = {"n": "int64", "time_ps": "int64", "ratio": "Float64", "median_ps": "int64", "p95_ps": "int64"}
NAME_COLUMNS = {
    "name": "str",
    "program": "str",
    "kind": "str",
    "pattern": "str",
    **_TIMES,
    "union_ps": "int64",
    "busy_ratio": "Float64",
    "exposed_ps": "int64",
    "operator": "str",
    "source": "str",
}
DEVICE_NAME_COLUMNS = {"device": "str", **NAME_COLUMNS}
PATTERN_COLUMNS = {
    "pattern": "str",
    "names": "int64",
    "n": "int64",
    "time_ps": "int64",
    "ratio": "Float64",
    "exposed_ps": "int64",
    "exposed_ratio": "Float64",
}
OPERATOR_COLUMNS = {"operator": "str", **_TIMES}
SOURCE_COLUMNS = {"source": "str", **_TIMES}
DEVICE_OPERATOR_COLUMNS = {"device": "str", **OPERATOR_COLUMNS}
DEVICE_SOURCE_COLUMNS = {"device": "str", **SOURCE_COLUMNS}
TOTAL_COLUMNS = {"device": "str", "n": "int64", "time_ps": "int64", "busy_ps": "int64"}
OPERATION_COLUMNS = {
    "scope": "str",
    "part": "str",
    "device": "str",
    "name": "str",
    "program": "str",
    "kind": "str",
    "pattern": "str",
    "operator": "str",
    "source": "str",
    "n": "int64",
    "time_ps": "int64",
}
WHOLE, STEP, PHASE = "whole", "step", "phase"
"""What operations are summed over: all of the trace, the steps of one name that count, the rounds of a phase."""

_NO_OPERATORS = "The trace links no kernel to an operator of a framework."
_NO_SOURCES = "The trace links no kernel to a line of source code."


@dataclass(frozen=True, repr=False)
class TopOps(
    notebook.Result,
    by_name="name pattern n time_ps ratio median_ps p95_ps exposed_ps",
    by_pattern="pattern names n time_ps ratio exposed_ps exposed_ratio",
    by_operator="operator n time_ps ratio median_ps p95_ps",
    by_source="source n time_ps ratio median_ps p95_ps",
):
    """Where the time of the devices goes; times in ps, those with most of it first.

    A name is that of a kernel or op, of one program and kind. `by_name` (NAME_COLUMNS): one row per name, over all
    devices; `by_device` (DEVICE_NAME_COLUMNS): one per device and name. `by_pattern` (PATTERN_COLUMNS), `by_operator`
    (OPERATOR_COLUMNS) and `by_source` (SOURCE_COLUMNS): the same rows by what they compute, by the framework's operator
    and by the line of source code they come from, null for all those of which the trace does not tell it;
    `by_device_operator` (DEVICE_OPERATOR_COLUMNS) and `by_device_source` (DEVICE_SOURCE_COLUMNS): these of each device,
    with its shares. `totals` (TOTAL_COLUMNS): each device. `reasons` says by the name of a frame why it is empty,
    `lacking` why all are.
    """

    by_name: pd.DataFrame
    by_device: pd.DataFrame
    by_pattern: pd.DataFrame
    by_operator: pd.DataFrame
    by_source: pd.DataFrame
    by_device_operator: pd.DataFrame
    by_device_source: pd.DataFrame
    totals: pd.DataFrame
    reasons: Mapping[str, str] = field(default_factory=dict)
    lacking: str = ""


def top_ops(source: Source, windows: Windows | None = None) -> TopOps:
    """Kernels and ops by the time that they took; docs/concepts.md defines every column.

    With `windows`, only what lies inside them counts, each row cut to the window it is in. Rows on unknown devices
    (`cpu:?`) count nowhere.
    """
    timeline = timeline_of(source, windows)
    rows = timeline.rows
    places = np.arange(len(rows)) if all(rows.placed) else np.flatnonzero(rows.is_placed)
    if not len(places):
        return TopOps(
            frame(NAME_COLUMNS),
            frame(DEVICE_NAME_COLUMNS),
            frame(PATTERN_COLUMNS),
            frame(OPERATOR_COLUMNS),
            frame(SOURCE_COLUMNS),
            frame(DEVICE_OPERATOR_COLUMNS),
            frame(DEVICE_SOURCE_COLUMNS),
            frame(TOTAL_COLUMNS),
            lacking="The trace holds no work on a known device.",
        )
    return _top_ops(timeline, _Work(rows, places))


class _Work:
    """The n rows that count, and the number of the name of each, `of` (n,); `names`, `programs` and `kinds` (m,) are
    the labels of each number."""

    def __init__(self, rows: Rows, places: Column) -> None:
        self.rows, self.places = rows, places
        self.device, self.start, self.end = self.taken(rows.device), self.taken(rows.start), self.taken(rows.end)
        self.kind, self.duration = self.taken(rows.kind), self.end - self.start
        names, programs = np.array(rows.labels("name"), object), np.array([*rows.labels("hlo_module"), None], object)
        key = self.taken(rows.codes("name"))
        for codes, labels in ((self.taken(rows.codes("hlo_module")), len(programs)), (self.kind, len(CODE))):
            key *= labels
            key += codes % labels
        self.of, number = numbered(key, len(names) * len(programs) * len(CODE))
        rest, kind = np.divmod(number, len(CODE))
        name, program = np.divmod(rest, len(programs))
        self.names, self.programs, self.kinds = names[name], programs[program], np.array([*CODE], object)[kind]

    def taken(self, column: NDArray[Any]) -> NDArray[Any]:
        """The values of a column of all rows for those that count."""
        return column if len(self.places) == len(self.rows) else column[self.places]


def _top_ops(timeline: Timeline, work: _Work) -> TopOps:
    names, devices = len(work.names), len(work.rows.devices)
    of_device, number = numbered(work.of * devices + work.device, names * devices)
    name, device = np.divmod(number, devices)
    by_device = _times(of_device, work.duration, len(number))
    by_device |= _unions(timeline, work, of_device, len(number))
    del of_device  # of millions of rows, few columns are held at once
    by_name = _times(work.of, work.duration, names) if devices > 1 else by_device
    by_name = by_name | {column: _sums(by_device[column], name, names) for column in ("union_ps", "exposed_ps")}

    device_ps = _sums(by_device["time_ps"], device, devices)
    busy_ps = union_lengths(work.device, devices, work.start, work.end)
    total_ps, all_busy_ps = iv.sum_exactly(device_ps), iv.sum_exactly(busy_ps)
    device_names, links = np.array(work.rows.devices, object), _Links(work, timeline.trace.ops)
    by_pattern = links.by_pattern()
    exposed = _unions(timeline, work, links.pattern * devices + work.device, len(by_pattern["pattern"]) * devices)
    by_pattern["exposed_ps"] = exposed["exposed_ps"].reshape(-1, devices).sum(axis=1)
    labels = {"name": work.names, "program": work.programs, "kind": work.kinds, **links.of_names()}
    totals = {"device": device_names, "n": np.bincount(work.device, minlength=devices)}
    totals |= {"time_ps": device_ps, "busy_ps": busy_ps}
    reasons = dict.fromkeys(("by_operator", "by_device_operator"), _NO_OPERATORS) if links.operator is None else {}
    reasons |= dict.fromkeys(("by_source", "by_device_source"), _NO_SOURCES) if links.source is None else {}
    return TopOps(
        _table(NAME_COLUMNS, labels | by_name, total_ps, all_busy_ps),
        _table(
            DEVICE_NAME_COLUMNS,
            {key: label[name] for key, label in labels.items()} | by_device | {"device": device_names[device]},
            device_ps[device],
            busy_ps[device],
        ),
        _table(PATTERN_COLUMNS, by_pattern, total_ps, all_busy_ps),
        _by_label(OPERATOR_COLUMNS, "operator", links.operator, work, total_ps),
        _by_label(SOURCE_COLUMNS, "source", links.source, work, total_ps),
        _by_device_and_label(DEVICE_OPERATOR_COLUMNS, "operator", links.operator, work, device_ps),
        _by_device_and_label(DEVICE_SOURCE_COLUMNS, "source", links.source, work, device_ps),
        frame(TOTAL_COLUMNS, {key: column[totals["n"] > 0] for key, column in totals.items()}),
        reasons,
    )


def operations(
    timeline: Timeline, steps: pd.DataFrame, phases: Mapping[str, Mapping[str, iv.Intervals]]
) -> pd.DataFrame:
    """How often each operation ran, and for how long, in each part that two reports can be compared in.

    One row (OPERATION_COLUMNS) per `scope` (WHOLE, STEP, PHASE), `part` ("", the name of the steps, of the phase),
    `device`, `name`, `program`, `kind`, `operator` and `source` line: `n` rows, and `time_ps`, the sum of their whole
    durations; of more than FEW devices all together, `device` null, since of 2,048 with 620 names each these rows took
    1.2 of 2.2 GB. Of the `steps` (STEP_COLUMNS, those of the timeline) only those count that are not left out, and of
    each the rows that belong to it; of `phases`, windows by name and clock, the rows that begin in them. Rows on
    unknown devices count nowhere.
    """
    rows = timeline.rows
    places = np.flatnonzero(rows.is_placed)
    if not len(places):
        return frame(OPERATION_COLUMNS)
    work = _Work(rows, places)
    links = _Links(work, timeline.trace.ops)
    labels, line = links.source or (np.array([None], object), np.zeros(len(places), np.int64))
    is_fleet = sum(rows.placed) > FEW
    devices = 1 if is_fleet else len(rows.devices)
    key, number = numbered(links.group * len(labels) + line, len(links.name) * len(labels))
    group, line_of = np.divmod(number, len(labels))
    on_device, number = numbered(key if is_fleet else key * devices + work.device, len(number) * devices)
    operation, device = np.divmod(number, devices)
    group, line_of = group[operation], line_of[operation]
    name = links.name[group]
    about = {
        "device": np.array([None] if is_fleet else rows.devices, object)[device],
        "name": work.names[name],
        "program": work.programs[name],
        "kind": work.kinds[name],
        "pattern": links.patterns[group],
        "operator": links.operators[group],
        "source": labels[line_of],
    }
    tables = []
    for scope, part, is_inside in _scopes(timeline, places, steps, phases):
        inside = slice(None) if is_inside is None else is_inside
        n = np.bincount(on_device[inside], minlength=len(number))
        there = n > 0
        columns = {column: values[there] for column, values in about.items()}
        columns |= {"n": n[there], "time_ps": _sums(work.duration[inside], on_device[inside], len(number))[there]}
        size = int(there.sum())
        tables.append({"scope": np.full(size, scope, object), "part": np.full(size, part, object), **columns})
    return frame(OPERATION_COLUMNS, {column: np.concatenate([it[column] for it in tables]) for column in tables[0]})


def _scopes(
    timeline: Timeline, places: Column, steps: pd.DataFrame, phases: Mapping[str, Mapping[str, iv.Intervals]]
) -> list[tuple[str, str, NDArray[np.bool_] | None]]:
    """Each scope and part with rows, and which of the rows at `places` lie in it; None for all."""
    scopes: list[tuple[str, str, NDArray[np.bool_] | None]] = [(WHOLE, "", None)]
    if len(steps):
        step_of = timeline.steps.step_of[places]
        counts = steps["left_out"].isna().to_numpy(bool)
        names = steps["name"].to_numpy(object)
        for name in dict.fromkeys(names[counts].tolist()):
            is_of = np.append(counts & (names == name), False)  # the last is that of rows in no step
            scopes.append((STEP, str(name), is_of[step_of]))
    for name, windows in phases.items():
        scopes.append((PHASE, name, rows_begin_inside(timeline.rows, places, windows)))
    return scopes


# Labels, the last of them None, and which of them each row has.
_Labelled = tuple[NDArray[Any], Column]


class _Links:
    """What the trace tells of the origin of the n rows: their `operator` and `source`, each None where no row has any;
    and what they compute."""

    def __init__(self, work: _Work, ops: pd.DataFrame) -> None:
        self.work = work
        op, has_op = work.rows.numbers("op")
        op[~has_op] = len(ops)
        op = work.taken(op)
        self.operator, self.source = (_of_ops(ops[column], op) for column in ("framework_op", "source"))
        del op, has_op  # of millions of rows, few columns are held at once
        categories = np.array([*work.rows.labels("category"), None], object)
        operators, operator = self.operator or (np.array([None]), np.zeros(1, np.int64))
        # Rows of a name may be of several operators, and what they compute depends on them.
        key = work.of * len(categories)
        key += work.taken(work.rows.codes("category")) % len(categories)
        pair, of_pair = numbered(key, len(work.names) * len(categories))
        del key
        pair *= len(operators)
        pair += operator
        self.group, number = numbered(pair, len(of_pair) * len(operators))
        del pair
        self.name, category = np.divmod(of_pair[number // len(operators)], len(categories))
        self.operators = operators[number % len(operators)]
        self.time_ps = _sums(work.duration, self.group, len(number))
        of_group = zip(work.names[self.name], work.kinds[self.name], categories[category], self.operators, strict=True)
        self.patterns = np.array([pattern(name, *rest).value for name, *rest in of_group], object)
        self.of_pattern, self.distinct = pd.factorize(self.patterns)

    @property
    def pattern(self) -> Column:
        """The place of each row's pattern in `distinct`, shape (n,)."""
        return self.of_pattern[self.group]

    def of_names(self) -> dict[str, NDArray[Any]]:
        """The columns pattern, operator and source of each name: what most of its time is of."""
        names = len(self.work.names)
        most = _most(self.name, self.time_ps, names)
        lines = np.full(names, None, object)
        if self.source:
            labels, line = self.source
            group, number = numbered(self.work.of * len(labels) + line, names * len(labels))
            times = _sums(self.work.duration, group, len(number))
            lines = labels[number[_most(number // len(labels), times, names)] % len(labels)]
        return {"pattern": self.patterns[most], "operator": self.operators[most], "source": lines}

    def by_pattern(self) -> dict[str, Any]:
        """The columns of PATTERN_COLUMNS but the ratios and what is exposed."""
        of_names = pd.DataFrame({"pattern": self.of_pattern, "name": self.name}).drop_duplicates()
        return {
            "pattern": self.distinct,
            "names": np.bincount(of_names["pattern"], minlength=len(self.distinct)),
            "n": np.bincount(self.pattern, minlength=len(self.distinct)),
            "time_ps": _sums(self.time_ps, self.of_pattern, len(self.distinct)),
        }


def _of_ops(column: pd.Series, op: Column) -> _Labelled | None:
    """The labels of the operations of rows, `op` (n,): places in a column of `Trace.ops`, its length for none."""
    if not len(column.cat.categories):
        return None
    labels = np.array([*map(str, column.cat.categories), None], object)
    code = np.append(column.cat.codes.to_numpy().astype(np.int64), -1)[op] % len(labels)
    return None if (code == len(labels) - 1).all() else (labels, code)


def _sums(lengths: Column, group: Column, groups: int) -> Column:
    return np.array(iv.sums(lengths, group, groups), np.int64)


def _most(group: Column, times: Column, groups: int) -> Column:
    """The place of the longest time of each group 0..groups-1, the first of equals."""
    order = np.lexsort((-np.arange(len(times)), times, group))
    most = np.zeros(groups, np.int64)
    most[group[order]] = order
    return most


def _by_label(
    columns: Mapping[str, str], column: str, link: _Labelled | None, work: _Work, total_ps: int
) -> pd.DataFrame:
    """The times of the rows by their label, those without one together."""
    if link is None:
        return frame(columns)
    labels, code = link
    group, number = numbered(code, len(labels))
    return _table(columns, {column: labels[number], **_times(group, work.duration, len(number))}, total_ps)


def _by_device_and_label(
    columns: Mapping[str, str], column: str, link: _Labelled | None, work: _Work, device_ps: Column
) -> pd.DataFrame:
    """The times of the rows by their device and label, those of a device without one together; the shares are those of
    its own time, `device_ps` of each device."""
    if link is None:
        return frame(columns)
    (labels, code), devices = link, len(device_ps)
    group, number = numbered(code * devices + work.device, len(labels) * devices)
    label, device = np.divmod(number, devices)
    names = np.array(work.rows.devices, object)
    data = {"device": names[device], column: labels[label], **_times(group, work.duration, len(number))}
    return _table(columns, data, device_ps[device])


def _times(group: Column, duration: Column, groups: int) -> dict[str, Any]:
    """How many rows each group 0..groups-1 has, each at least one; their durations summed, the median and the 95th
    percentile: the shortest duration that 95 % of the rows do not exceed."""
    n = np.bincount(group, minlength=groups)
    bits = int(duration.max()).bit_length()
    if bits + groups.bit_length() < 64:
        # One sort of numbers takes a quarter of the time of an order by two columns.
        sorted_durations = np.sort((group << bits) | duration) & ((1 << bits) - 1)
    else:
        sorted_durations = duration[np.lexsort((duration, group))]
    first = np.cumsum(n) - n
    low, high = (sorted_durations[first + place] for place in ((n - 1) // 2, n // 2))
    return {
        "n": n,
        "time_ps": _sums(duration, group, groups),
        "median_ps": low + (high - low) // 2,
        "p95_ps": sorted_durations[first + (n * 95 + 99) // 100 - 1],
    }


def _unions(timeline: Timeline, work: _Work, key: Column, count: int) -> dict[str, Column]:
    """`union_ps` and `exposed_ps` of the rows of each key 0..count-1, each of one device and of kinds that the same
    work hides: the union of the rows, and that without what hides it, which is compute for a collective, compute and
    collectives for a copy or memset, and nothing for compute."""
    start = first_coverage(key, count, work.start, work.end)
    union_ps = _sums(work.end - start, key, count)
    hidden, of_hidden = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    first = np.searchsorted(work.device, np.arange(len(work.rows.devices) + 1))
    for name, low, high in zip(work.rows.devices, first[:-1].tolist(), first[1:].tolist(), strict=True):
        if low == high:
            continue
        device, kind = timeline.unions.devices[name], work.kind[low:high]
        is_collective = kind == CODE[Kind.COLLECTIVE]
        for is_hidden, behind in (
            (is_collective, COMPUTE),
            (~is_collective & (kind != CODE[Kind.COMPUTE]), COMPUTE | COLLECTIVE),
        ):
            places = low + np.flatnonzero(is_hidden)
            if len(places):
                spans = iv.intervals(start[places], work.end[places])
                hidden.append(iv.within(device.union_of(behind), spans))
                of_hidden.append(key[places])
    hidden_ps = _sums(np.concatenate(hidden), np.concatenate(of_hidden), count)
    return {"union_ps": union_ps, "exposed_ps": union_ps - hidden_ps}


def _table(columns: Mapping[str, str], data: dict[str, Any], total_ps: Any, busy_ps: Any = 0) -> pd.DataFrame:
    """The frame of `columns` with shares of `total_ps` and of `busy_ps`, null where that is 0. The longest rows stand
    first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        for ratio, part, whole in (
            ("ratio", "time_ps", total_ps),
            ("busy_ratio", "union_ps", busy_ps),
            ("exposed_ratio", "exposed_ps", busy_ps),
        ):
            if ratio in columns:
                share = data[part] / np.asarray(whole, float)
                data = data | {ratio: pd.arrays.FloatingArray(np.nan_to_num(share), ~np.isfinite(share))}
    texts = [data[name] for name, dtype in columns.items() if dtype == "str" and name in data]
    order = np.lexsort([*(_ranks(column) for column in reversed(texts)), -data["time_ps"]])
    return frame(columns, {name: values[order] for name, values in data.items() if name in columns})


def _ranks(texts: NDArray[Any]) -> Column:
    """The places of texts among the distinct ones in order; None stands with the empty text."""
    code, distinct_texts = pd.factorize(texts, use_na_sentinel=False)
    names = [text if isinstance(text, str) else "" for text in distinct_texts]  # None is NaN here
    rank = {name: place for place, name in enumerate(sorted(set(names)))}
    return np.array([rank[name] for name in names], np.int64)[code]
