"""What a report says of all devices before any analysis asks why: phases, time and overlap, and how kinds are known."""

from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd

from tracekit.analysis.overlap import Stretch
from tracekit.analysis.phases import Phases
from tracekit.columns import records
from tracekit.report.section import Cell, Column, Missing, Section, Table, Unit, instant, or_missing, table
from tracekit.timeline.unions import CELLS
from tracekit.units import count, percent, time

# The eight cells of a device's time: what computes, with what hides behind it, then what is exposed, then nothing.
CELL_WORDS = {
    "compute": "compute only",
    "compute+collective": "collective behind compute",
    "compute+memory": "copy behind compute",
    "compute+collective+memory": "both behind compute",
    "collective": "exposed collective",
    "collective+memory": "exposed collective and copy",
    "memory": "exposed copy",
    "idle": "idle",
}
assert set(CELL_WORDS) == set(CELLS)
# With more devices, a face with little room leaves out the directions of copies.
_MANY_DEVICES = 4
# Of more pairs, the extremes are shown: so many of each kind, and one of each where there is little room.
_FEW_PAIRS, _EXTREMES = 6, 12
_GUESSES = 5
_LEVELS = {
    "rule": "your rules",
    "opcode": "HLO opcode",
    "stat": "the profiler's record",
    "stream": "stream label",
    "name": "name",
    "nothing": "unclassified",
}
_MOST_ROUNDS = 200


def overview(
    whole: Stretch, inside: Mapping[str, Stretch], phases: Phases, compared: Collection[str]
) -> tuple[Section, ...]:
    """What stands before the sections that explain it; without device work there is nothing to show but phases.

    `inside` are the phases' stretches by name, `compared` the names of those that are compared.
    """
    first = (_phases(inside, phases, compared),) if len(phases.table) else ()
    if not len(whole.partition):
        return first
    return (*first, _time(whole, inside), _overlap(whole, inside), _pairs(whole, inside), _concurrency(whole, inside))


def classification(known_by: pd.DataFrame, guessed: pd.DataFrame) -> Section | None:
    """How the kinds of the work are known, by share of the busy time, and the largest kernels known by name only; None
    without work."""
    levels = [
        f"{percent(row['ratio'])} {'unclassified (counted as compute)' if row['level'] == 'nothing' else by}"
        for row in records(known_by)
        if row["busy_ps"]
        for by in [f"by {_LEVELS[row['level']]}"]
    ]
    if not levels:
        return None
    guesses = [
        (row["name"], row["kind"], _LEVELS[row["level"]], row["device_time_ps"], row["ratio"])
        for row in records(guessed.head(_GUESSES))
    ]
    sentence = f"Of the busy time: {', '.join(levels)}."
    more = " Rules (--kinds) correct a wrong classification." if guesses else ""
    columns = [
        Column("name", Unit.NAME),
        Column("counted as", Unit.TEXT),
        Column("by", Unit.TEXT),
        Column("time", Unit.TIME),
        Column("of busy", Unit.RATIO),
    ]
    largest = table("known.guesses", "Largest kernels classified by name only, or unclassified", columns, guesses)
    tables = (largest,) if guesses else ()
    return Section("known", "How kernels were classified", (f"{sentence}{more}",), tables=tables)


def _first_column(inside: Mapping[str, Stretch]) -> list[Column]:
    """The column that tells the phases and the whole trace apart, where there are phases."""
    return [Column("in", Unit.NAME)] if inside else []


def _first_cell(stretch: Stretch, inside: Mapping[str, Stretch]) -> list[str]:
    return [stretch.name] if inside else []


def _phases(inside: Mapping[str, Stretch], phases: Phases, compared: Collection[str]) -> Section:
    compares = "it is not compared with phases of the same work"
    rows = [
        (
            row["name"],
            row["n"],
            row["wall_ps"],
            or_missing(_most(inside[row["name"]].pairs["ratio_min"]), "fewer than two devices were busy in it"),
            or_missing(row["speedup"], row["reason"]),
            or_missing(row["efficiency"], "only a phase with a baseline has an efficiency"),
            or_missing(_most(phases.stretch.loc[phases.stretch["name"] == row["name"], "stretch"]), compares),
            row["unfinished_ps"],
            row["compared_with"],
        )
        for row in records(phases.table)
    ]
    columns = [
        Column("phase", Unit.NAME),
        Column("n", Unit.COUNT),
        Column("wall", Unit.TIME),
        Column("overlap", Unit.RATIO),
        Column("speedup", Unit.FACTOR),
        Column("efficiency", Unit.RATIO),
        Column("stretch", Unit.FACTOR),
        Column("unfinished", Unit.TIME, brief=False),
        Column("compared with", Unit.NAME, brief=False),
    ]
    about = "Wall is the median over n rounds. Overlap and stretch are the largest over the devices."
    tables = [table("phases", "Phases", columns, rows, len(rows), about), _rounds(phases.rounds)]
    tables += [_stretch(phases.stretch[phases.stretch["name"].isin(list(compared))])] if compared else []
    return Section("phases", "Phases", tables=tuple(tables))


def _most(values: pd.Series) -> float | None:
    there = values.dropna()
    return float(there.max()) if len(there) else None


def _rounds(rounds: pd.DataFrame) -> Table:
    rounds = rounds.assign(number=rounds.groupby("name").cumcount() + 1).head(_MOST_ROUNDS)
    return table(
        "phases.rounds",
        "Rounds of the phases",
        [
            Column("phase", Unit.NAME),
            Column("round", Unit.COUNT),
            Column("at", Unit.INSTANT),
            Column("time", Unit.TIME),
        ],
        [
            (row["name"], row["number"], instant(row, clock=row["clock"]), row["end_ps"] - row["start_ps"])
            for row in records(rounds)
        ],
        0,
    )


def _stretch(stretches: pd.DataFrame) -> Table:
    return table(
        "phases.stretch",
        "Stretch: how much longer each device took than alone",
        [
            Column("phase", Unit.NAME),
            Column("device", Unit.NAME),
            Column("kind", Unit.TEXT),
            Column("busy here", Unit.TIME),
            Column("busy alone", Unit.TIME),
            Column("stretch", Unit.FACTOR),
        ],
        [
            (
                row["name"],
                row["device"],
                row["kind"],
                row["busy_ps"],
                or_missing(row["alone_ps"], row["reason"]),
                or_missing(row["stretch"], row["reason"]),
            )
            for row in records(stretches)
        ],
        0,
        about="1.00x: as long as alone. Medians over the rounds.",
    )


def _time(whole: Stretch, inside: Mapping[str, Stretch]) -> Section:
    """The partition of each device's window: its cells in few columns, and all eight of them."""
    windows = sorted(set(whole.partition["window_ps"]))
    length = (
        f"window of {time(windows[0])}"
        if len(windows) == 1
        else f"windows of {time(windows[0])} to {time(windows[-1])}"
    )
    brief = table(
        "time",
        f"Where the {length} went",
        [
            Column("device", Unit.NAME),
            Column("busy", Unit.TIME),
            Column("compute only", Unit.RATIO),
            Column("exposed comm.", Unit.RATIO),
            Column("exposed copy", Unit.RATIO),
            Column("overlapped", Unit.RATIO),
            Column("idle", Unit.RATIO),
        ],
        [(row["device"], row["busy_ps"], *_shares(row)) for row in records(whole.partition)],
        len(whole.partition),
    )
    rows = [
        (
            *_first_cell(stretch, inside),
            row["device"],
            row["window_ps"],
            row["busy_ps"],
            *(row[cell] for cell in CELL_WORDS),
        )
        for stretch in [whole, *inside.values()]
        for row in records(stretch.partition)
    ]
    cells = table(
        "time.cells",
        "Time of each device; its eight cells add up to the window",
        [
            *_first_column(inside),
            Column("device", Unit.NAME),
            Column("window", Unit.TIME),
            Column("busy", Unit.TIME),
            *(Column(words, Unit.TIME) for words in CELL_WORDS.values()),
        ],
        rows,
        0,
    )
    return Section("time", "Where the time went", tables=(brief, cells))


def _shares(row: dict[str, Any]) -> list[Cell]:
    window = row["window_ps"]
    overlapped = sum(row[cell] for cell in CELL_WORDS if "+" in cell)
    parts = [row["compute"], row["collective"], row["memory"], overlapped, row["idle"]]
    return [part / window if window else Missing("the window has no length") for part in parts]


def _overlap(whole: Stretch, inside: Mapping[str, Stretch]) -> Section:
    """Collectives, copies and each direction of copies; a direction that is all of a device's copies shares its row."""
    first: list[tuple[Any, ...]] = []
    rest: list[tuple[Any, ...]] = []
    for stretch in [*inside.values(), whole]:
        ran = stretch.overlap[stretch.overlap["total_ps"] > 0]
        many = stretch.overlap["device"].nunique() > _MANY_DEVICES
        for device, work_of in ran.groupby("device", sort=False):
            memory = work_of.loc[work_of["what"] == "memory", "total_ps"].max()
            is_direction = ~work_of["what"].isin(("memory", "collective"))
            only = work_of.loc[(work_of["total_ps"] == memory) & is_direction, "what"]
            for row in records(work_of):
                direction = row["what"] not in ("memory", "collective")
                if direction and row["total_ps"] == memory:
                    continue
                work = {"collective": "collectives", "memory": "copies"}.get(row["what"], f"{row['what']} copies")
                if row["what"] == "memory" and len(only):
                    work = f"{only.iloc[0]} copies"
                brief = stretch is not whole or not inside
                place = first if brief and not (direction and many) else rest
                behind = "compute" if row["behind"] == "compute" else "any compute"
                ratio = or_missing(row["ratio"], row["reason"])
                place.append(
                    (*_first_cell(stretch, inside), device, work, behind, row["hidden_ps"], row["total_ps"], ratio)
                )
    columns = [
        *_first_column(inside),
        Column("device", Unit.NAME),
        Column("work", Unit.TEXT),
        Column("behind", Unit.TEXT),
        Column("hidden", Unit.TIME),
        Column("of", Unit.TIME),
        Column("ratio", Unit.RATIO),
    ]
    title = "Hidden behind compute"
    if not first and not rest:
        return Section("hidden", title, ("No collective and no copy ran.",))
    about = "The part of collectives and copies that ran while compute did; copies include memsets."
    hidden = table(
        "hidden", "Collectives and copies hidden behind compute", columns, [*first, *rest], len(first), about
    )
    return Section("hidden", title, tables=(hidden,))


def _pairs(whole: Stretch, inside: Mapping[str, Stretch]) -> Section:
    """Each pair of devices; of many those that overlap least and most."""
    title = "Devices busy at the same time"
    if not len(whole.pairs):
        return Section("together", title, ("The trace holds one device, so there is no pair.",))
    reasons = sorted({str(reason) for reason in whole.pairs["reason"].dropna()})
    sentences = (f"Not known for some pairs: {'; '.join(reasons[:3])}.",) if reasons else ()
    rows: list[tuple[Any, ...]] = []
    brief: list[int] = []
    for stretch in [*inside.values(), whole]:
        pairs = stretch.pairs
        ordered = pairs[pairs["ratio_min"].notna()].sort_values("ratio_min", kind="stable")
        is_brief = stretch is not whole or not inside
        if len(pairs) > _FEW_PAIRS:
            pairs = pd.concat([ordered.head(_EXTREMES), ordered.tail(_EXTREMES)]).drop_duplicates(["a", "b"])
            places = [len(rows), len(rows) + len(pairs) - 1] if len(pairs) > 1 else []
        else:
            places = [len(rows) + at for at, there in enumerate(pairs["ratio_min"].notna()) if there]
        brief += places if is_brief else []
        rows += [
            (
                *_first_cell(stretch, inside),
                row["a"],
                row["b"],
                or_missing(row["overlap_ps"], row["reason"]),
                or_missing(row["ratio_min"], row["reason"]),
                or_missing(row["ratio_union"], row["reason"]),
            )
            for row in records(pairs)
        ]
    columns = [
        *_first_column(inside),
        Column("device", Unit.NAME),
        Column("other device", Unit.NAME),
        Column("together", Unit.TIME),
        Column("of the shorter", Unit.RATIO),
        Column("of either", Unit.RATIO),
    ]
    number = len(whole.pairs)
    about = (
        f"The {_EXTREMES} pairs that overlap least, then the {_EXTREMES} that overlap most; all {count(number)} are in "
        "summary.json (device_pairs)."
        if number > 2 * _EXTREMES
        else ""
    )
    both = table("together", "Pairs of devices busy at the same time", columns, rows, brief, about)
    return Section("together", title, sentences, tables=(both,))


def _concurrency(whole: Stretch, inside: Mapping[str, Stretch]) -> Section:
    """For how long exactly so many devices were busy, in the whole trace and in each phase."""
    title = "Number of devices busy at the same time"
    stretches = [stretch for stretch in (whole, *inside.values()) if len(stretch.concurrency)]
    if not stretches:
        return Section("concurrency", title, ("Not known: the clocks of the hosts are not aligned.",))
    rows = []
    for stretch in stretches:
        window = int(stretch.concurrency["time_ps"].sum())
        rows += [
            (*_first_cell(stretch, inside), row["devices"], row["time_ps"], row["time_ps"] / window if window else None)
            for row in records(stretch.concurrency)
            if row["time_ps"]
        ]
    columns = [
        *_first_column(inside),
        Column("devices busy", Unit.COUNT),
        Column("time", Unit.TIME),
        Column("share", Unit.RATIO),
    ]
    return Section(
        "concurrency", title, tables=(table("concurrency", "Time with exactly N devices busy", columns, rows, 0),)
    )
