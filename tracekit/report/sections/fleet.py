"""Many devices as the report shows them: who holds up the others, who is unlike the others, and distributions where a
list of all devices would not be read."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from tracekit.analysis.fleet import IDLE_COLUMNS, LONGER_COLUMNS, WORTH_TELLING, Fleet
from tracekit.columns import frame, records
from tracekit.devices import FEW
from tracekit.report.section import (
    MOST_ROWS,
    WORDS,
    AtLeast,
    Cell,
    Column,
    Field,
    Instant,
    Missing,
    Section,
    Table,
    Unit,
    plain,
    table_of,
)
from tracekit.units import percent, quantity, time
from tracekit.vocabulary.ranks import process_number

_BRIEF = 5
# What the name of a process says that it is; a worker, whose name says so too, is mostly a machine.
_PROCESSES = ("rank", "process", "task")
# The column of a number of devices that were busy at once.
BUSY = "devices busy"
# Ranks that differ which are named, and rows of each list in summary.json.
_NAMED, _MOST_DATA = 3, 100
# Rows of a table, and those of one by the number of busy devices.
_MOST_TABLE, _LEVELS = 500, 64
# The measures of ranks and steps in words.
MEASURE_WORDS = {
    "step_ps": "step time",
    "compute_ps": "compute",
    "exposed_collective_ps": "exposed comm.",
    "idle_ps": "idle",
}
_QUANTILES = {"min": 0.0, "median": 0.5, "p95": 0.95, "max": 1.0}


def section(
    fleet: Fleet, why_unknown: str = "", idle: pd.DataFrame | None = None, longer: pd.DataFrame | None = None
) -> Section:
    """The ranks in a few sentences, the stragglers and the hosts by what they cost; `why_unknown` says why nothing is
    known of waiting. Of the devices that stand for all: why they stood `idle` (IDLE_COLUMNS), and which operations took
    `longer` on them (LONGER_COLUMNS)."""
    idle = frame(IDLE_COLUMNS) if idle is None else idle
    longer = frame(LONGER_COLUMNS) if longer is None else longer
    ranks, hosts = fleet.ranks, fleet.hosts
    where = "in" if _has_processes(hosts) else "on"
    on_hosts = f" {where} {quantity(len(hosts), *_words_of(hosts))}" if len(hosts) > 1 else ""
    size = f"{quantity(len(ranks), 'device')}{on_hosts}"
    lengths = ranks["step_ps"].dropna()
    steps = f"no steps: {fleet.lacking}"
    if len(lengths):
        steps = f"median step {time(int(lengths.median()))} ({time(int(lengths.min()))} to {time(int(lengths.max()))})"
    sentences = [f"{size}; {steps.rstrip('.')}.", *_stragglers(fleet, why_unknown), *_unlike(ranks, hosts)]
    sentences += [*_why_idle(idle), *_why_longer(fleet, longer), *_drawn(fleet)]
    tables = [_costs(fleet.stragglers)] if len(fleet.stragglers) else []
    tables += [_hosts(hosts)] if len(hosts) > 1 else []
    tables += [*_of_drawn(idle, longer)]
    data = {**_data(fleet), "drawn_idle": plain(idle), "drawn_longer": plain(longer)}
    return Section("fleet", "Fleet", tuple(sentences), tables=tuple(tables), data=data, share=0.0)


def finding(fleet: Fleet) -> str:
    """What is to be said first of a fleet: its costliest straggler, else its outliers, else that there are none."""
    if fleet.ranks["straggler"].any() or fleet.hosts["straggler"].any():
        return _stragglers(fleet, "")[0]
    if fleet.ranks["differs_in"].notna().any():
        return _unlike(fleet.ranks, fleet.hosts)[0]
    return f"No straggler and no outlier among {quantity(len(fleet.ranks), 'device')}."


def _stragglers(fleet: Fleet, why_unknown: str) -> list[str]:
    hosts = fleet.hosts[fleet.hosts["straggler"]]
    stragglers = fleet.stragglers
    habitual = stragglers[stragglers["straggler"] & ~stragglers["host"].isin(hosts["host"])]
    if fleet.ranks["cost_ps"].isna().all():
        return [f"Whom the others waited for is not known: {why_unknown}"] if why_unknown else []
    late = [_late_host(row) for row in records(hosts)] + [_late_device(row) for row in records(habitual)]
    if not late:
        return ["No straggler: no device was last often enough, and at enough cost, to count."]
    (_, _, first), *others = sorted(late, key=lambda each: -each[0])
    more = [name for _, name, _ in others[: _NAMED - 1]]
    rest = f"; then come {', '.join(more)}" if more else ""
    rest += f" and {quantity(len(others) - len(more), 'more straggler')}" if len(others) > len(more) else ""
    return [f"Costliest straggler: {first}{rest}."]


def _late_host(row: dict[str, Any]) -> tuple[int, str, str]:
    """What the others waited for the devices of a host, what these are called, and the words of both."""
    devices = f"{quantity(row['devices'], 'device')} of {row['host']}"
    words = f"all {devices}, one of which was last in {row['last']} of {row['collectives']} collectives"
    cost = f"together, the devices of other hosts waited {time(row['waited_ps'])} for them"
    return row["waited_ps"], f"the {devices}", f"{words}; {cost}"


def _late_device(row: dict[str, Any]) -> tuple[int, str, str]:
    """The same of a device."""
    words = f"{row['device']}, last in {row['last']} of {row['collectives']} collectives"
    return row["cost_ps"], row["device"], f"{words}; together, the others waited {time(row['cost_ps'])} for it"


def _unlike(ranks: pd.DataFrame, hosts: pd.DataFrame) -> list[str]:
    unlike = ranks[ranks["differs_in"].notna()]
    if not len(unlike):
        return ["No outlier: the devices' shares of compute, exposed communication and idle time are alike."]
    far = unlike.loc[unlike["differs_by"].abs().sort_values(ascending=False, kind="stable").index]
    # Stragglers, and what shares a host with them, are told above; of each other host one comes before a second of any.
    late = {*hosts.loc[hosts["straggler"], "host"], *far.loc[far["straggler"], "host"]}
    told = int(far["host"].isin(late).sum())
    far = far.assign(again=far.groupby("host").cumcount(), told=far["host"].isin(late))
    far = far.sort_values(["told", "again"], kind="stable")
    named = [
        f"{row['device']} ({MEASURE_WORDS[row['differs_in']]} {percent(abs(row['differs_by']))} of its window "
        f"{'above' if row['differs_by'] > 0 else 'below'} the median)"
        for row in records(far.head(_NAMED))
    ]
    rest = f" and {len(far) - _NAMED} more" if len(far) > _NAMED else ""
    of_late = f", {told} of them on hosts of stragglers" if 0 < told < len(far) else ""
    return [f"{quantity(len(far), 'outlier')}{of_late}: {', '.join(named)}{rest}."]


def _drawn(fleet: Fleet) -> list[str]:
    drawn = fleet.ranks[fleet.ranks["role"].notna()]
    words = {"least": "least compute", "most": "most compute"}
    names = [f"{row['device']} ({words.get(row['role'], row['role'])})" for row in records(drawn)]
    return [f"Drawn for all devices: {', '.join(names)}."]


def _why_idle(idle: pd.DataFrame) -> list[str]:
    """Why the idlest of the devices that stand for all stood idle, if it did so for longer than the median device."""
    if not len(idle) or not (is_median := idle["role"] == "median").any():
        return []
    least = float(idle.loc[is_median, "ratio"].fillna(0).iloc[0])
    row = records(idle.iloc[[int(idle["ratio"].fillna(0).to_numpy().argmax())]])[0]
    if pd.isna(row["cause"]) or row["ratio"] - least < WORTH_TELLING:
        return []
    cause = f"mainly {row['cause']} ({percent(row['cause_ratio'])} of that)"
    return [f"{row['device']} was idle for {percent(row['ratio'])} of its window, {cause}."]


def _why_longer(fleet: Fleet, longer: pd.DataFrame) -> list[str]:
    """The operation on which a device that stands for all spent most more time than the median device."""
    ranks = fleet.ranks.set_index("device")
    if not len(longer) or longer["more_ps"].iloc[0] < WORTH_TELLING * ranks["window_ps"][longer["device"].iloc[0]]:
        return []
    row, median = records(longer.head(1))[0], ranks.index[ranks["role"] == "median"][0]
    there = f"{time(row['median_ps'])} on {median}, the median device"
    return [f"{row['name']} took {time(row['time_ps'])} on {row['device']}, and {there}."]


def _of_drawn(idle: pd.DataFrame, longer: pd.DataFrame) -> list[Table]:
    """The tables of the devices that stand for all, those with rows."""
    tables = [
        table_of(
            idle,
            "fleet.drawn_idle",
            "Why the devices drawn for all stood idle",
            [
                Field("device", Unit.DEVICE, "device"),
                Field("drawn as", Unit.TEXT, "role"),
                Field("idle", Unit.TIME, "idle_ps"),
                Field("of window", Unit.RATIO, "ratio"),
                Field("main cause", Unit.TEXT, "cause"),
                Field("of idle", Unit.RATIO, "cause_ratio"),
            ],
        ),
        table_of(
            longer,
            "fleet.drawn_longer",
            "Operations that took longer on devices drawn for all than on the median device",
            [
                Field("device", Unit.DEVICE, "device"),
                Field("operation", Unit.NAME, "name"),
                Field("pattern", Unit.TEXT, "pattern"),
                Field("n", Unit.COUNT, "n"),
                Field("total", Unit.TIME, "time_ps"),
                Field("n on median", Unit.COUNT, "median_n"),
                Field("total on median", Unit.TIME, "median_ps"),
                Field("longer by", Unit.TIME, "more_ps"),
            ],
            _BRIEF,
        ),
    ]
    return [table for table in tables if table.rows]


def _costs(stragglers: pd.DataFrame) -> Table:
    return table_of(
        stragglers.head(MOST_ROWS),
        "fleet.stragglers",
        "Stragglers by the time that the others waited for them",
        [
            Field("device", Unit.DEVICE, "device"),
            Field("host", Unit.NAME, lambda row: row["host"] or None),
            Field("cost to others", Unit.TIME, "cost_ps"),
            Field("last in", Unit.COUNT, "last"),
            Field("of", Unit.COUNT, "collectives"),
            Field("compute", Unit.TIME, "compute_ps"),
            Field("exposed comm.", Unit.TIME, "exposed_collective_ps"),
            Field("idle", Unit.TIME, "idle_ps"),
        ],
        _BRIEF,
    )


def _has_processes(hosts: pd.DataFrame) -> bool:
    """Whether the `hosts` of devices are processes: ranks of a job whose files do not name their machines."""
    numbers = [process_number(str(host)) for host in hosts["host"]]
    return all(number and number[0] in _PROCESSES for number in numbers)


def _words_of(hosts: pd.DataFrame) -> tuple[str, str]:
    """What one of the `hosts` is called, and several."""
    return ("process", "processes") if _has_processes(hosts) else ("host", "hosts")


def _hosts(hosts: pd.DataFrame) -> Table:
    one, several = _words_of(hosts)

    def share(name: str) -> Any:
        return lambda row: row[name] / row["window_ps"] if row["window_ps"] else None

    costliest = hosts.sort_values("cost_ps", ascending=False, kind="stable", na_position="last")
    return table_of(
        costliest.head(MOST_ROWS),
        "fleet.hosts",
        f"{several.capitalize()}{', costliest first' if hosts['cost_ps'].notna().any() else ''}",
        [
            Field(one, Unit.NAME, "host"),
            Field("devices", Unit.COUNT, "devices"),
            Field("cost to others", Unit.TIME, "cost_ps"),
            Field("median step", Unit.TIME, "step_ps"),
            Field("busy", Unit.RATIO, share("busy_ps")),
            Field("exposed comm.", Unit.RATIO, share("exposed_collective_ps")),
            Field("idle", Unit.RATIO, share("idle_ps")),
        ],
        _BRIEF,
    )


def _data(fleet: Fleet) -> dict[str, Any]:
    ranks = fleet.ranks
    unlike = ranks[ranks["differs_in"].notna()]
    far = unlike.loc[unlike["differs_by"].abs().sort_values(ascending=False, kind="stable").index]
    distributions = []
    for name in ("step_ps", "busy_ps", "compute_ps", "exposed_collective_ps", "idle_ps", "cost_ps"):
        there = ranks[ranks[name].notna()].sort_values(name, kind="stable")
        values, devices = there[name].tolist(), there["device"].tolist()
        if values:
            its = {words: int(values[_place(len(values), share)]) for words, share in _QUANTILES.items()}
            distributions.append(
                {"what": name, "devices": len(values), **its, "least": devices[0], "most": devices[-1]}
            )
    return {
        "devices": len(ranks),
        "hosts": len(fleet.hosts),
        "steps": int(fleet.bins["steps"].sum()),
        "distributions": distributions,
        "stragglers_found": len(fleet.stragglers),
        "stragglers": plain(fleet.stragglers.head(_MOST_DATA)),
        "outliers_found": len(unlike),
        "outliers": plain(far.head(_MOST_DATA)),
        "drawn": plain(ranks[ranks["role"].notna()]),
        "by_host": plain(fleet.hosts.sort_values("cost_ps", ascending=False, kind="stable").head(_MOST_DATA)),
    }


def _place(number: int, share: float) -> int:
    """The place, among so many sorted values, of the smallest that at least this share of them do not exceed."""
    return max(-int(-share * number // 1), 1) - 1


def condensed(its: Section) -> Section:
    """A section with distributions in place of tables of more than FEW devices, whose other tables have at most
    _MOST_TABLE rows."""
    return replace(its, tables=tuple(_bounded(levels(distribution(table))) for table in its.tables))


def _bounded(table: Table) -> Table:
    if len(table.rows) <= _MOST_TABLE:
        return table
    about = f"{table.about} The first {_MOST_TABLE} of {len(table.rows):,} rows.".lstrip()
    brief = tuple(row for row in table.brief if row < _MOST_TABLE)
    return replace(table, rows=table.rows[:_MOST_TABLE], brief=brief, about=about)


def levels(table: Table) -> Table:
    """The time with exactly N devices busy, of many N as that with so many to so many; any other table as it is."""
    busy = next((place for place, column in enumerate(table.columns) if column.head == BUSY), None)
    if busy is None or len(table.rows) <= _LEVELS:
        return table
    width = -(-max(int(row[busy]) for row in table.rows) // (_LEVELS // 2))  # type: ignore[arg-type]  # counts
    sums: dict[tuple[Cell, ...], list[Any]] = {}
    for row in table.rows:
        number = -(-int(row[busy]) // width)  # type: ignore[arg-type]
        words = f"{(number - 1) * width + 1:,} to {number * width:,}" if number else "0"
        of_level = sums.setdefault((*row[:busy], words), [0] * len(row[busy + 1 :]))
        sums[*row[:busy], words] = [a + b for a, b in zip(of_level, row[busy + 1 :], strict=True)]
    columns = (*table.columns[:busy], Column(BUSY, Unit.TEXT), *table.columns[busy + 1 :])
    return replace(table, columns=columns, rows=tuple((*words, *figures) for words, figures in sums.items()))


def distribution(table: Table) -> Table:
    """The least, the median, the 95th percentile and the largest value of each column of figures, in place of the rows
    of more than FEW devices; tables of fewer devices, and of single events, stay as they are.

    All rows with the same words count as one group. The median and the percentile are values that occur, the lower one
    where two are in the middle.
    """
    at = next((place for place, column in enumerate(table.columns) if column.unit == Unit.DEVICE), None)
    if at is None or any(isinstance(cell, Instant) for row in table.rows for cell in row):
        return table
    words = [place for place, column in enumerate(table.columns) if column.unit in WORDS and place != at]
    groups: dict[tuple[Cell, ...], list[int]] = {}
    for number, row in enumerate(table.rows):
        groups.setdefault(tuple(row[place] for place in words), []).append(number)
    # A list in which each row is of something else, which has a device, stays one.
    if any(len({table.rows[row][at] for row in rows}) < len(rows) for rows in groups.values()) or (
        len(table.rows) <= FEW * len(groups)
    ):
        return table
    rows: list[tuple[Cell, ...]] = []
    brief: list[int] = []
    for members in groups.values():
        start, its = len(rows), [table.rows[row] for row in members]
        rows += _quantiles(its, at, words)
        brief += [*range(start, len(rows))] if {*members} & {*table.brief} else []
    most = max(map(len, groups.values()))
    columns = list(table.columns)
    columns[at] = Column(f"of {most:,} devices", Unit.TEXT)
    extremes = _extremes(table, at) if len(groups) == 1 else ""
    return replace(
        table,
        columns=tuple(columns),
        rows=tuple(rows),
        brief=tuple(brief),
        about=" ".join(filter(None, [table.about, extremes])),
        extract=extremes if brief else "",
    )


def _quantiles(rows: Sequence[tuple[Cell, ...]], at: int, words: Sequence[int]) -> list[tuple[Cell, ...]]:
    """One row for each of _QUANTILES over `rows`, which are alike in their `words`."""
    columns: list[list[Cell]] = []
    for place, cells in enumerate(zip(*rows, strict=True)):
        if place == at:
            columns.append([*_QUANTILES])
        elif place in words:
            columns.append([cells[0]] * len(_QUANTILES))
        else:
            values = sorted(cell.value if isinstance(cell, AtLeast) else cell for cell in cells if _is_figure(cell))
            unknown = Missing("it is known of no device")
            columns.append([values[_place(len(values), q)] if values else unknown for q in _QUANTILES.values()])
    return [*zip(*columns, strict=True)]


def _is_figure(cell: Cell) -> bool:
    return isinstance(cell, int | float | AtLeast)


def _extremes(table: Table, at: int) -> str:
    """On which device each of the first figures is largest."""
    found: dict[str, list[str]] = {}
    for place, column in enumerate(table.columns):
        known = [row for row in table.rows if isinstance(row[place], int | float)]
        # A column called "of" belongs to the one before it.
        if column.unit in WORDS or column.head == "of" or not known or len({row[place] for row in known}) == 1:
            continue
        most = max(known, key=lambda row: row[place])  # type: ignore[arg-type, return-value]  # figures, as said above
        found.setdefault(str(most[at]), []).append(column.head)
    words = [f"{', '.join(heads)} on {device}" for device, heads in [*found.items()][: _NAMED + 1]]
    return f"Largest: {'; '.join(words)}." if words else ""
