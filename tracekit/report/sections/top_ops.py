"""Kernels and ops by the time that they took, as the report shows them."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from tracekit.analysis.top_ops import TopOps
from tracekit.columns import records
from tracekit.report.section import Field, Section, Table, Unit, or_missing, plain, table_of
from tracekit.units import factor, percent, quantity, short, time

# Rows of a table and of a list in summary.json, of those of each device together, rows where there is little room, and
# patterns in a sentence.
_MOST, _MOST_OF_DEVICES, _BRIEF, _PATTERNS = 100, 160, 10, 4
_LONGEST = 60
# Operators stand before names where their first few hold so many times the time of the first names: 30 times in
# two traces of vLLM on TPU, at most 1.6 times in 18 others.
_FEW, _FAR_MORE = 5, 4
# Durations that sum to so many times the busy time are worth a word.
_OVERLAPPING = 1.05
_LISTS = ("by_name", "by_operator", "by_source")
_LISTS_OF_DEVICES = ("by_device", "by_device_operator", "by_device_source")
_NO_OPERATOR = "the trace links no operator of a framework to it"
_NO_SOURCE = "the trace links no line of source code to it"
_UNKNOWN = {"operator": "no operator recorded", "source": "no source line recorded"}


def section(result: TopOps) -> Section:
    """What the time went to in a sentence, then names, operators, source lines and patterns by their total time."""
    title = "Top operations"
    if result.lacking:
        return Section("top_ops", title, lacking=result.lacking)
    names = _names(result)
    operators = _by("operator", "Operators of the framework", result.by_operator)
    tables = (
        *((operators, names) if _says_more(result.by_operator, result.by_name) else (names, operators)),
        _by("source", "Source lines", result.by_source),
        _patterns(result.by_pattern),
        *(_tables_of_devices(result) if len(result.totals) > 1 else []),
    )
    sentences = (_by_pattern(result), _by_operator(result.by_operator), _overlapping(result.totals))
    return Section("top_ops", title, tuple(filter(None, sentences)), tables=tables, data=_data(result))


def _says_more(operators: pd.DataFrame, names: pd.DataFrame) -> bool:
    """Whether the first known operators hold far more of the time than the first names: where XLA numbers its ops, a
    name may be one of many alike."""
    known = operators[operators["operator"].notna()]
    return float(known["ratio"].head(_FEW).sum()) >= _FAR_MORE * float(names["ratio"].head(_FEW).sum())


def _by_pattern(result: TopOps) -> str:
    """What took the busy time: of work that overlaps, what hides the rest."""
    patterns = result.by_pattern.sort_values("exposed_ps", ascending=False, kind="stable")
    patterns = patterns[patterns["exposed_ps"] > 0]
    busy_ps = sum(map(int, result.totals["busy_ps"]))
    over = f", summed over {quantity(len(result.totals), 'device')}" if len(result.totals) > 1 else ""
    hidden = " (hidden collectives and copies count as what hides them)" if _is_hidden(result.by_name) else ""
    shares = [f"{row['pattern']} {percent(row['exposed_ratio'])}" for row in records(patterns.head(_PATTERNS))]
    more = ", …" if len(patterns) > _PATTERNS else ""
    return f"Of {time(busy_ps)} of busy time{over}{hidden}: {', '.join(shares) or 'nothing'}{more}."


def _is_hidden(names: pd.DataFrame) -> bool:
    """Whether other work hides anything of these names."""
    return bool((names["exposed_ps"] < names["union_ps"]).any())


def _by_operator(operators: pd.DataFrame) -> str:
    """What the operator with most time took, where the trace names any."""
    known = records(operators[operators["operator"].notna()].head(1))
    if not known:
        return ""
    row = known[0]
    kernels = quantity(row["n"], "kernel or op", "kernels or ops")
    unknown = float(operators.loc[operators["operator"].isna(), "ratio"].sum())
    # So much time without one may be another operator's, which then has more.
    is_hidden = unknown > row["ratio"]
    rest = f"; {percent(unknown)} of the time has no operator recorded" if is_hidden else ""
    return (
        f"The {'recorded ' if is_hidden else ''}operator with most time is {short(row['operator'], _LONGEST)}: "
        f"{time(row['time_ps'])} ({percent(row['ratio'])}) in {kernels}{rest}."
    )


def _overlapping(totals: pd.DataFrame) -> str:
    total_ps, busy_ps = (sum(map(int, totals[column])) for column in ("time_ps", "busy_ps"))
    if not busy_ps or total_ps < _OVERLAPPING * busy_ps:
        return ""
    return f"Operations overlap: their times sum to {factor(total_ps / busy_ps)} the busy time."


def _times(p95: bool = True) -> list[Field]:
    return [
        Field("n", Unit.COUNT, "n"),
        Field("total", Unit.TIME, "time_ps"),
        Field("share", Unit.RATIO, "ratio"),
        Field("median", Unit.TIME, "median_ps"),
        Field("p95", Unit.TIME, "p95_ps", brief=p95),
    ]


def _fields(names: pd.DataFrame) -> list[Field]:
    """The columns of names; the program only where there are several, and exposed time where some is hidden."""
    hidden = _has_exposed(names)
    return [
        Field("operation", Unit.NAME, "name"),
        Field("pattern", Unit.TEXT, "pattern"),
        *_times(p95=not hidden),
        *([Field("exposed", Unit.TIME, "exposed_ps")] if hidden else []),
        Field("of busy", Unit.RATIO, "busy_ratio", brief=False),
        *([Field("program", Unit.NAME, "program", brief=False)] if names["program"].nunique() > 1 else []),
        *_origin("operator", names, _NO_OPERATOR),
        *_origin("source", names, _NO_SOURCE),
    ]


def _has_exposed(names: pd.DataFrame) -> bool:
    """Whether exposed time says more than total time."""
    return bool((names["exposed_ps"] < names["time_ps"]).any())


def _origin(column: str, names: pd.DataFrame, reason: str) -> list[Field]:
    def cell(row: dict[str, Any]) -> Any:
        return or_missing(row[column], reason)

    return [Field(column, Unit.NAME, cell, brief=False)] if names[column].notna().any() else []


def _names(result: TopOps) -> Table:
    names, found = result.by_name, len(result.by_name)
    about = "Total is the sum of durations, share that of the sum of all."
    if _has_exposed(names):
        about += (
            " Exposed is the time with at least one of them on a device: of collectives only what compute does not "
            "hide, of copies what neither compute nor collectives do."
        )
    about += f" The first {_MOST} of {found:,}; frames/ beside the report has all." if found > _MOST else ""
    counted = _counted_again(result)
    about = f"{about} {counted}".rstrip()
    title = "Top operations by total time"
    return table_of(names.head(_MOST), "top_ops.names", title, _fields(names), _BRIEF, about, counted)


def _counted_again(result: TopOps) -> str:
    """What the exposed times sum to, where that is more than the busy time, which each point of time adds to once."""
    exposed_ps, busy_ps = int(result.by_name["exposed_ps"].sum()), int(result.totals["busy_ps"].sum())
    if not _has_exposed(result.by_name) or exposed_ps < _OVERLAPPING * busy_ps:
        return ""
    return (
        f"Operations that are exposed at the same time each count it: the exposed times sum to {time(exposed_ps)} in "
        f"{time(busy_ps)} of busy time."
    )


def _of_each_device(result: TopOps, by_device: pd.DataFrame) -> pd.DataFrame:
    """The same number of rows of each device, the longest, about _MOST_OF_DEVICES in all, at most _MOST of each."""
    each = min(max(_MOST_OF_DEVICES // max(len(result.totals), 1), _BRIEF), _MOST)
    return _by_device(result, by_device.groupby("device", sort=False).head(each))


def _by_device(result: TopOps, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first device, then those of the next, each in their order."""
    order = {device: place for place, device in enumerate(result.totals["device"])}
    return rows.sort_values("device", key=lambda devices: devices.map(order), kind="stable")


def _tables_of_devices(result: TopOps) -> list[Table]:
    """Names, operators and source lines of each device, as far as the trace tells them."""
    labels = (
        ("operator", "Operators of each device", result.by_device_operator),
        ("source", "Source lines of each device", result.by_device_source),
    )
    name, *others = _fields(result.by_device)
    return [
        _of_devices(result, "devices", "Top operations of each device", result.by_device, name, others),
        *(
            _of_devices(result, f"device_{column}s", title, table, _label(column), _times())
            for column, title, table in labels
        ),
    ]


def _of_devices(
    result: TopOps, key: str, title: str, by_device: pd.DataFrame, label: Field, others: Sequence[Field]
) -> Table:
    first, found = _of_each_device(result, by_device), len(by_device)
    if label.head in _UNKNOWN:
        first = _by_device(result, _unknown_last(first, label.head))
    fields = [label, Field("device", Unit.DEVICE, "device"), *others]
    most = first.groupby("device").size().max()
    more = f" The first {most} of each device; frames/ beside the report has all." if found > len(first) else ""
    about = f"Shares are those of the device's own times.{more}"
    return table_of(first, f"top_ops.{key}", title, fields, 0, about)


def _label(column: str) -> Field:
    return Field(column, Unit.NAME, lambda row: _UNKNOWN[column] if pd.isna(row[column]) else row[column])


def _unknown_last(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """What has no label is no operator or line of its own: it stands behind those that are, however long it took."""
    return table.sort_values(column, key=lambda labels: labels.isna(), kind="stable")


def _by(column: str, title: str, table: pd.DataFrame) -> Table:
    """The longest labels and, in the last row, also where there is little room, what has none."""
    known, unknown = table[table[column].notna()], int(table[column].isna().sum())
    rows = _unknown_last(table, column).drop(known.index[_MOST - unknown :])
    brief = [*range(_BRIEF - 1), len(rows) - 1] if unknown and len(rows) > _BRIEF else _BRIEF
    return table_of(rows, f"top_ops.{column}s", title, [_label(column), *_times()], brief)


def _patterns(patterns: pd.DataFrame) -> Table:
    return table_of(
        patterns,
        "top_ops.patterns",
        "What the operations compute",
        [
            Field("pattern", Unit.TEXT, "pattern"),
            Field("names", Unit.COUNT, "names"),
            Field("n", Unit.COUNT, "n"),
            Field("total", Unit.TIME, "time_ps"),
            Field("share", Unit.RATIO, "ratio"),
            Field("exposed", Unit.TIME, "exposed_ps"),
            Field("exposed share", Unit.RATIO, "exposed_ratio"),
        ],
        _BRIEF,
    )


def _data(result: TopOps) -> dict[str, Any]:
    lists = {name: plain(getattr(result, name).head(_MOST)) for name in _LISTS}
    lists |= {name: plain(_of_each_device(result, getattr(result, name))) for name in _LISTS_OF_DEVICES}
    found = {f"{name}_found": len(getattr(result, name)) for name in (*_LISTS, *_LISTS_OF_DEVICES)}
    return {
        **lists,
        **found,
        "by_pattern": plain(result.by_pattern),
        "totals": plain(result.totals),
        "reasons": dict(result.reasons),
    }
