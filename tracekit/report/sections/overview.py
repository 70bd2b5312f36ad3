"""What a report says of all devices before any analysis asks why: phases, time and overlap, and how kinds are known."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import pandas as pd

from tracekit.analysis.overlap import COPIES, Breakdown, of_copies
from tracekit.analysis.phases import Phases
from tracekit.columns import records
from tracekit.report.section import (
    MOST_DATA,
    WORK,
    Cell,
    Field,
    Missing,
    Section,
    Table,
    Unit,
    instant,
    memory_words,
    or_missing,
    table_of,
)
from tracekit.timeline.unions import CELLS
from tracekit.units import count, factor, mean, percent, quantity, time

# The eight cells of a device's time: what computes, with what hides behind it, then what is exposed, then nothing.
# "Exposed" is a collective or a copy as concepts.md defines it, so the cells of collectives have names of their own.
CELL_WORDS = {
    "compute": "compute only",
    "compute+collective": "collective behind compute",
    "compute+memory": "copy behind compute",
    "compute+collective+memory": "both behind compute",
    "collective": "collective alone",
    "collective+memory": "collective beside copy",
    "memory": "exposed copy",
    "idle": "idle",
}
assert set(CELL_WORDS) == set(CELLS)
# By key, what the sections are called, and the pictures of the same.
TITLES = {
    "time": "Where the time went",
    "hidden": "Hidden behind compute",
    "together": "Devices busy at the same time",
    "concurrency": "Number of devices busy at the same time",
}
# The shares of a device's window that every face tells, and the cells of each.
SHARES = {
    "compute only": ("compute",),
    "exposed comm.": ("collective", "collective+memory"),
    "exposed copy": ("memory",),
    "overlapped": tuple(cell for cell in CELL_WORDS if cell.startswith("compute+")),
    "idle": ("idle",),
}
# With more devices, a face with little room leaves out the directions of copies.
_MANY_DEVICES = 4
# Of more pairs, the extremes are shown: so many of each kind, and one of each where there is little room.
_FEW_PAIRS, _EXTREMES = 6, 12
_GUESSES = 5
# What a row of a device's copies of all directions is of.
_ALL_COPIES = ("memory", COPIES)
# How the cells read whose memory work is not copies alone, by what it is.
_MEMSETS = {"copies and memsets": "Copies include memsets.", "memsets": "All that counts as copies here are memsets."}
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
    whole: Breakdown,
    inside: Mapping[str, Breakdown],
    phases: Phases,
    compared: Collection[str],
    judged: Breakdown | None = None,
) -> tuple[Section, ...]:
    """What stands before the sections that explain it; without device work there is nothing to show but phases.

    `inside` are the phases' breakdowns by name, or that of the steady steps, `compared` the names of those phases that
    are compared, and `judged` what the first table is of, by default the whole.
    """
    first = (_phases(inside, phases, compared),) if len(phases.table) else ()
    if whole.lacking:
        return (*first, Section("time", "Time and overlap", lacking=whole.lacking))
    if not len(whole.partition):
        return first
    return (
        *first,
        _time(whole, inside, judged or whole),
        _overlap(whole, inside),
        _pairs(whole, inside),
        _concurrency(whole, inside),
    )


def classification(known_by: pd.DataFrame, guessed: pd.DataFrame) -> Section | None:
    """How the kinds of the work are known, by share of the busy time, and the largest kernels known by name only; None
    without work."""
    levels = [row for row in records(known_by) if row["busy_ps"]]
    if not levels:
        return None
    shares = [
        f"{percent(row['ratio'])}{'' if at else ' of the busy time'} "
        + ("unclassified (counted as compute)" if row["level"] == "nothing" else f"by {_LEVELS[row['level']]}")
        for at, row in enumerate(levels)
    ]
    more = " Rules (--kinds) correct a wrong classification." if len(guessed) else ""
    largest = table_of(
        guessed.head(_GUESSES),
        "known.guesses",
        "Largest kernels classified by name only, or unclassified",
        [
            Field("name", Unit.NAME, "name"),
            Field("counted as", Unit.TEXT, "kind"),
            Field("by", Unit.TEXT, lambda row: _LEVELS[row["level"]]),
            Field("device time", Unit.TIME, "device_time_ps"),
            Field("of busy", Unit.RATIO, "ratio"),
        ],
    )
    return Section("known", "How kernels were classified", (f"{', '.join(shares)}.{more}",), tables=(largest,))


def _in(inside: Mapping[str, Breakdown]) -> list[Field]:
    """The column that tells the phases and the whole trace apart, where there are phases."""
    return [Field("in", Unit.NAME, "in")] if inside else []


def _phases(inside: Mapping[str, Breakdown], phases: Phases, compared: Collection[str]) -> Section:
    def overlap(row: dict[str, Any]) -> Any:
        return or_missing(_most(inside[row["name"]].pairs["ratio_min"]), "fewer than two devices were busy in it")

    def efficiency(row: dict[str, Any]) -> Any:
        return or_missing(row["efficiency"], "only a phase with a baseline has an efficiency")

    def stretch(row: dict[str, Any]) -> Any:
        most = _most(phases.stretch.loc[phases.stretch["name"] == row["name"], "stretch"])
        return or_missing(most, "it is not compared with phases of the same work")

    table = table_of(
        phases.table,
        "phases",
        "Phases",
        [
            Field("phase", Unit.NAME, "name"),
            Field("n", Unit.COUNT, "n"),
            Field("wall", Unit.TIME, "wall_ps"),
            Field("overlap", Unit.RATIO, overlap),
            Field("speedup", Unit.FACTOR, "speedup", reason="reason"),
            Field("efficiency", Unit.RATIO, efficiency),
            Field("stretch", Unit.FACTOR, stretch),
            Field("unfinished", Unit.TIME, "unfinished_ps", brief=False),
            Field("compared with", Unit.NAME, "compared_with", brief=False),
        ],
        len(phases.table),
        "Wall is the median over n rounds. Overlap and stretch are the largest over the devices.",
    )
    tables = [table, _rounds(phases.rounds)]
    tables += [_stretch(phases.stretch[phases.stretch["name"].isin(list(compared))])] if compared else []
    speedups = [f"{row['name']} {factor(row['speedup'])}" for row in records(phases.table) if pd.notna(row["speedup"])]
    result = quantity(len(phases.table), "phase") + (f"; speedup: {', '.join(speedups)}" if speedups else "")
    return Section("phases", "Phases", tables=tuple(tables), result=f"{result}.")


def _most(values: pd.Series) -> float | None:
    there = values.dropna()
    return float(there.max()) if len(there) else None


def _rounds(rounds: pd.DataFrame) -> Table:
    return table_of(
        rounds.assign(number=rounds.groupby("name").cumcount() + 1).head(_MOST_ROUNDS),
        "phases.rounds",
        "Rounds of the phases",
        [
            Field("phase", Unit.NAME, "name"),
            Field("round", Unit.COUNT, "number"),
            Field("at", Unit.INSTANT, lambda row: instant(row, clock=row["clock"])),
            Field("time", Unit.TIME, lambda row: row["end_ps"] - row["start_ps"]),
        ],
        0,
    )


def _stretch(stretches: pd.DataFrame) -> Table:
    return table_of(
        stretches,
        "phases.stretch",
        "Stretch: how much longer each device took than alone",
        [
            Field("phase", Unit.NAME, "name"),
            Field("device", Unit.DEVICE, "device"),
            Field("kind", Unit.TEXT, "kind"),
            Field("busy here", Unit.TIME, "busy_ps"),
            Field("busy alone", Unit.TIME, "alone_ps", reason="reason"),
            Field("stretch", Unit.FACTOR, "stretch", reason="reason"),
        ],
        0,
        "1.00x: as long as alone. Medians over the rounds.",
    )


def _time(whole: Breakdown, inside: Mapping[str, Breakdown], judged: Breakdown) -> Section:
    """The partition of each device's window: its cells in few columns, and all eight of them."""
    windows = sorted(set(judged.partition["window_ps"]))
    length = (
        f"window of {time(windows[0])}"
        if len(windows) == 1
        else f"windows of {time(windows[0])} to {time(windows[-1])}"
    )
    if judged is not whole:
        length = f"{judged.label} ({' to '.join(dict.fromkeys([time(windows[0]), time(windows[-1])]))})"
    brief = table_of(
        judged.partition,
        "time",
        f"Where the {length} went",
        [
            Field("device", Unit.DEVICE, "device"),
            Field("busy", Unit.TIME, "busy_ps"),
            *(Field(words, Unit.RATIO, partial(_share, cells)) for words, cells in SHARES.items()),
        ],
        len(judged.partition),
        _MEMSETS.get(memory_words(judged.overlap), ""),
    )
    cells = table_of(
        [row | {"in": stretch.label} for stretch in [whole, *inside.values()] for row in records(stretch.partition)],
        "time.cells",
        "Time of each device; its eight cells add up to the window",
        [
            *_in(inside),
            Field("device", Unit.DEVICE, "device"),
            Field("window", Unit.TIME, "window_ps"),
            Field("busy", Unit.TIME, "busy_ps"),
            *(Field(words, Unit.TIME, cell) for cell, words in CELL_WORDS.items()),
        ],
        0,
        _MEMSETS.get(memory_words(whole.overlap), ""),
    )
    return Section("time", TITLES["time"], tables=(brief, cells), result=_busiest(judged))


def _busiest(whole: Breakdown) -> str:
    """How busy the least and the most busy device were."""
    shares = sorted(
        (row["busy_ps"] / row["window_ps"], row["device"]) for row in records(whole.partition) if row["window_ps"]
    )
    ends = dict.fromkeys([*shares[:1], *shares[-1:]])
    words = " to ".join(f"{percent(share)} ({device})" for share, device in ends)
    return f"Busy for {words} of the window." if words else ""


def _share(cells: Collection[str], row: dict[str, Any]) -> Cell:
    window = row["window_ps"]
    return sum(row[cell] for cell in cells) / window if window else Missing("the window has no length")


def _overlap(whole: Breakdown, inside: Mapping[str, Breakdown]) -> Section:
    """Collectives, copies and each direction of copies; a direction that is all of a device's copies shares its row."""
    first: list[dict[str, Any]] = []
    rest: list[dict[str, Any]] = []
    for stretch in [*inside.values(), whole]:
        copies_alone = stretch.overlap.index.isin(of_copies(stretch.overlap).index)
        shown = copies_alone | ~stretch.overlap["what"].isin(_ALL_COPIES)
        ran = stretch.overlap[shown & (stretch.overlap["total_ps"] > 0)]
        many = stretch.overlap["device"].nunique() > _MANY_DEVICES
        by_device: dict[str, list[dict[str, Any]]] = {}
        for row in records(ran):
            by_device.setdefault(row["device"], []).append(row)
        for device, work_of in by_device.items():
            copies = max((row["total_ps"] for row in work_of if row["what"] in _ALL_COPIES), default=None)
            directions = [row["what"] for row in work_of if row["what"] not in (*_ALL_COPIES, "collective")]
            only = [row["what"] for row in work_of if row["what"] in directions and row["total_ps"] == copies]
            for row in work_of:
                direction = row["what"] in directions
                if direction and row["total_ps"] == copies:
                    continue
                way = next(iter(only), "memory") if row["what"] in _ALL_COPIES else row["what"]
                work = WORK.get(way, f"{way} copies")
                brief = stretch is not whole or not inside
                place = first if brief and not (direction and many) else rest
                behind = "compute" if row["behind"] == "compute" else "any compute"
                place.append(row | {"in": stretch.label, "device": device, "work": work, "behind": behind})
    title = TITLES["hidden"]
    if not first and not rest:
        return Section("hidden", title, ("No collective and no copy ran.",))
    hidden = table_of(
        [*first, *rest],
        "hidden",
        "Collectives and copies hidden behind compute",
        [
            *_in(inside),
            Field("device", Unit.DEVICE, "device"),
            Field("work", Unit.TEXT, "work"),
            Field("behind", Unit.TEXT, "behind"),
            Field("hidden", Unit.TIME, "hidden_ps"),
            Field("of", Unit.TIME, "total_ps"),
            Field("ratio", Unit.RATIO, "ratio", reason="reason"),
        ],
        len(first),
        "The part of collectives and copies that ran while compute did.",
    )
    return Section("hidden", title, tables=(hidden,), result=_hidden(whole))


def _hidden(whole: Breakdown) -> str:
    """How much of collectives and of copies ran behind compute, over all devices."""
    parts = []
    work = {"collective": whole.overlap[whole.overlap["what"] == "collective"], "memory": of_copies(whole.overlap)}
    for what, rows in work.items():
        if total := int(rows["total_ps"].sum()):
            parts.append(f"{percent(int(rows['hidden_ps'].sum()), total)} of {WORK[what]}")
    return f"{' and '.join(parts)} ran behind compute, in the whole trace." if parts else ""


def _pairs(whole: Breakdown, inside: Mapping[str, Breakdown]) -> Section:
    """Each pair of devices; of many those that overlap least and most."""
    title = TITLES["together"]
    if not len(whole.pairs):
        return Section("together", title, ("There is one device here, so there is no pair.",))
    reasons = sorted({str(reason) for reason in whole.pairs["reason"].dropna()})
    sentences = (f"Not known for some pairs: {'; '.join(reasons[:3])}.",) if reasons else ()
    rows: list[dict[str, Any]] = []
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
        rows += [row | {"in": stretch.label} for row in records(pairs)]
    number = len(whole.pairs)
    where = " of each phase" if inside else ""
    about = (
        f"The {_EXTREMES} pairs that overlap least, then the {_EXTREMES} that overlap most; all {count(number)} are in "
        f"{'summary.json (device_pairs)' if number <= MOST_DATA else 'frames/whole.pairs.parquet'}."
        if number > 2 * _EXTREMES
        else ""
    )
    both = table_of(
        rows,
        "together",
        "Pairs of devices busy at the same time",
        [
            *_in(inside),
            Field("device", Unit.DEVICE, "a"),
            Field("other device", Unit.DEVICE, "b"),
            Field("together", Unit.TIME, "overlap_ps", reason="reason"),
            Field("of the shorter", Unit.RATIO, "ratio_min", reason="reason"),
            Field("of either", Unit.RATIO, "ratio_union", reason="reason"),
        ],
        brief,
        about,
        f"Of the {count(number)} pairs{where}, the least and the most overlapped." if number > _FEW_PAIRS else "",
    )
    return Section("together", title, sentences, tables=(both,), result=_least_and_most(whole))


def _least_and_most(whole: Breakdown) -> str:
    """The pair that overlaps least, and the one that overlaps most."""
    known = whole.pairs.dropna(subset=["ratio_min"]).sort_values("ratio_min", kind="stable")
    ends = records(pd.concat([known.head(1), known.tail(1)]))
    words = ", ".join(dict.fromkeys(f"{row['a']} and {row['b']} for {percent(row['ratio_min'])}" for row in ends))
    return f"{words} of the shorter busy time." if words else ""


def _concurrency(whole: Breakdown, inside: Mapping[str, Breakdown]) -> Section:
    """For how long exactly N devices were busy, in the whole trace and in each phase."""
    title = TITLES["concurrency"]
    breakdowns = [breakdown for breakdown in (whole, *inside.values()) if len(breakdown.concurrency)]
    if not breakdowns:
        return Section("concurrency", title, ("Not known: the clocks of the hosts are not aligned.",))
    rows = [
        row | {"in": breakdown.label, "window_ps": int(breakdown.concurrency["time_ps"].sum())}
        for breakdown in breakdowns
        for row in records(breakdown.concurrency)
        if row["time_ps"]
    ]
    times = table_of(
        rows,
        "concurrency",
        "Time with exactly N devices busy",
        [
            *_in(inside),
            Field("devices busy", Unit.COUNT, "devices"),
            Field("time", Unit.TIME, "time_ps"),
            Field("share", Unit.RATIO, lambda row: row["time_ps"] / row["window_ps"]),
        ],
        0,
    )
    devices = len(whole.partition)
    average = f"{mean(whole.parallelism)} of {devices} devices on average while any was busy."
    return Section("concurrency", title, tables=(times,), result=average if whole.parallelism is not None else "")
