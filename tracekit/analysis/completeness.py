"""What a trace does not hold: ranks whose files are not there, and events that were lost or never recorded.

It comes before all other reasons: what rests on a missing part is not known, and no figure stands for it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.columns import distinct, frame, records
from tracekit.timeline.instances import rank_groups
from tracekit.timeline.timeline import Timeline
from tracekit.trace import EVENT_COLUMNS, Trace
from tracekit.units import listed_numbers, others, percent, quantity
from tracekit.vocabulary.losses import (
    MANY_MISSING,
    TOO_MANY,
    WORTH_WITHHOLDING,
    Loss,
    damage,
    matters,
    not_whole,
    unanswered,
)
from tracekit.vocabulary.ranks import process_number

# So many collectives, and such a part of those of its group, that a device did not record are no edge of its profile.
_FEWEST_UNRECORDED, _SHARE_UNRECORDED = 3, 0.05

R = TypeVar("R", bound=Any)
Column = NDArray[np.int64]

GROUP_COLUMNS = {
    "group": "str",
    "ranks": "Int64",
    "names": "str",
    "devices": "int64",
    "absent": "str",
    "collectives": "int64",
    "device_time_ps": "int64",
}
LOSS_COLUMNS = {"host": "str", "what": "str", "lost": "Int64", "total": "Int64", "evidence": "str"}

_BOUNDS = (
    "Waiting is a lower bound, and the last rank the last of those in the trace: a missing one may have come later."
)
# Lists of ranks that are longer than this are not told in a sentence.
_LONG = 40


@dataclass(frozen=True, repr=False)
class Completeness(notebook.Result, groups="", losses="what lost total evidence"):
    """What is missing from a trace; frames without rows and texts that are "" where nothing is known to be.

    `groups` (GROUP_COLUMNS): one row per group of ranks of whose collectives the trace does not show all ranks: how
    many `ranks` take part and their `names` (null where that is not told), on how many `devices` it is seen, and the
    numbers of the `absent` ranks, null where they are not told. `losses` (LOSS_COLUMNS): what was lost on the way.
    `waiting`: why, for all or some collectives, nothing is known of waiting, transfer and stragglers. Where less than
    MANY_MISSING of the ranks are missing, waits are known as lower bounds, and `bounds` says so. `rows`: why so much of
    the work of devices or of its launches is missing that nothing is known of critical paths, idle time and queues.
    `shares`: why even more is missing, so that no share of time, overlap or speedup is known. `lacking`: why
    nothing was looked at, as of a report of an earlier version.
    """

    groups: pd.DataFrame
    losses: pd.DataFrame
    waiting: str
    rows: str
    shares: str = ""
    lacking: str = ""
    bounds: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is known to be missing, where that was looked at."""
        return not (len(self.groups) or len(self.losses) or self.lacking)

    def not_whole(self, hosts: int) -> str:
        """What `--strict` refuses of a trace of so many `hosts` or ranks, a sentence without its subject ("is not
        whole: …"): what is damaged, so much missing work that nothing rests on all of it, or ranks that are not there;
        or that nobody looked, as for a report of an earlier version; "" where nothing is. A trace of one host is not
        asked for the others of its job.
        """
        if self.lacking:
            return f"does not tell what is missing: {self.lacking}"
        if found := not_whole(records(self.losses)):
            return found
        if self.rows:
            return f"is not whole: {self.rows}"
        return f"is not whole: {self.absent}" if hosts > 1 and self.absent else ""

    @property
    def absent(self) -> str:
        """Of how many ranks, and which, only collectives tell that they took part, in a sentence; "" for none."""
        return f"{_of_groups(self.groups)}." if len(self.groups) else ""


def completeness(timeline: Timeline) -> Completeness:
    """What the trace of a timeline does not hold, as far as it tells."""
    return timeline.once("completeness", lambda: _completeness(timeline))


def _completeness(timeline: Timeline) -> Completeness:
    groups = _groups(timeline.recorded if timeline.is_narrowed else timeline)
    losses, events = _losses(timeline), timeline.recorded.trace.row_count
    rows, shares = (_unknown_rows(losses, events, least) for least in (WORTH_WITHHOLDING, TOO_MANY))
    missing = groups["ranks"] - groups["devices"]
    is_much = (missing >= MANY_MISSING * groups["ranks"]).fillna(True).to_numpy(bool)
    waiting = _unknown_waiting(groups[is_much]) or _damaged_waiting(timeline, losses)
    bounds = "" if waiting or not len(groups) else f"{_of_groups(groups)}. {_BOUNDS}"
    return Completeness(groups, losses, waiting, rows, shares, bounds=bounds)


def unknown_shares(timeline: Timeline) -> str:
    """Why no share of a timeline's time is known, "" if it is (Completeness.shares)."""
    return _unknown_rows(_losses(timeline), timeline.recorded.trace.row_count, TOO_MANY)


def withheld(reason: str, analysis: Callable[[Timeline], R], timeline: Timeline) -> R:
    """What `analysis` gives of a timeline; with a `reason` to withhold it, its empty tables, and that as `lacking`."""
    return replace(analysis(_nothing()), lacking=reason) if reason else analysis(timeline)


@cache
def _nothing() -> Timeline:
    return Timeline(Trace(frame(EVENT_COLUMNS)))


def _groups(timeline: Timeline) -> pd.DataFrame:
    """The groups of ranks of which some are not in the trace, the one with most time in collectives first."""
    rows, instances = timeline.rows, timeline.collectives
    member = np.flatnonzero(instances.instance >= 0)
    if not len(member) or instances.complete.all():
        return frame(GROUP_COLUMNS)
    of = instances.instance[member]
    sizes = rows.numbers("group_size")[0][member]
    which, _ = distinct(*(rows.codes(column)[member].astype(np.int64) for column in ("group", "ranks")), sizes)
    data: list[dict[str, Any]] = []
    for number in range(int(which.max()) + 1):
        rows_of_group = np.flatnonzero(which == number)
        incomplete = rows_of_group[~instances.complete[of[rows_of_group]]]
        if not len(incomplete):
            continue
        places = member[rows_of_group]
        devices = np.unique(rows.device[places])
        label, text = (_label(timeline, column, places[0]) for column in ("group", "ranks"))
        ranks, absent = _absent(timeline, text or "", int(sizes[rows_of_group[0]]), devices)
        if absent is None and (ranks is None or ranks <= len(devices)):
            continue  # nothing tells of others, or all are there and some of their rows could not be matched
        data.append(
            {
                "group": label,
                "ranks": ranks,
                "names": text,
                "devices": len(devices),
                "absent": absent,
                "collectives": len(np.unique(of[incomplete])),
                "device_time_ps": iv.sum_exactly(rows.end[member[incomplete]] - rows.start[member[incomplete]]),
            }
        )
    data.sort(key=lambda row: -row["device_time_ps"])
    return frame(GROUP_COLUMNS, {name: [row[name] for row in data] for name in GROUP_COLUMNS})


def _label(timeline: Timeline, column: str, place: np.int64) -> str | None:
    code = int(timeline.rows.codes(column)[place])
    return timeline.rows.labels(column)[code] if code >= 0 else None


def _absent(timeline: Timeline, text: str, size: int, devices: Column) -> tuple[int | None, str | None]:
    """How many ranks take part in a group that the `devices` ran, None if that is not told, and which of them are not
    in the trace, None if that is not told either.

    `text` lists the ranks and `size` counts them, where the trace does, else "" and 0: then all of the job's take part.
    """
    rows = timeline.rows
    numbers = [process_number(rows.hosts[device]) for device in devices.tolist()]
    present = {number for word, number in filter(None, numbers) if word == "rank"}
    are_ranks = len(present) == len(devices)
    if text:
        groups = rank_groups(text, False)
        named = {rank for group in groups for rank in group}
        absent = sorted(named - present) if are_ranks and present <= named else []
        return len(named), listed_numbers(absent) or None
    world_size = timeline.world_size
    if size and size != world_size:
        return size, None
    if world_size is None:
        return None, None
    _, listed = others(present, world_size - 1) if are_ranks else (0, "")
    return world_size, listed or None


def _losses(timeline: Timeline) -> pd.DataFrame:
    """What the files say was lost, and the launches whose work is not there."""
    trace = timeline.trace
    stated = frame(LOSS_COLUMNS, {name: trace.losses[name].astype(object) for name in LOSS_COLUMNS})
    launched = timeline.recorded.lost_launches
    tables = [stated, frame(LOSS_COLUMNS, launched.assign(what=Loss.LAUNCHED.value)), _unrecorded(timeline)]
    return pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)


def _unrecorded(timeline: Timeline) -> pd.DataFrame:
    """The collectives of groups whose ranks are all in the trace that ended before the first row of one of them, or
    began after its last: it took part, but was not recorded then (LOSS_COLUMNS)."""
    rows, instances = timeline.rows, timeline.collectives
    member = np.flatnonzero(instances.instance >= 0)
    if not len(member) or instances.complete.all():
        return frame(LOSS_COLUMNS)
    of = instances.instance[member]
    columns = (rows.codes(column)[member].astype(np.int64) for column in ("group", "ranks"))
    clock = pd.factorize(np.array(rows.clocks, object))[0][rows.device[member]]
    which, _ = distinct(*columns, clock, instances.ranks[of])
    count = len(instances.complete)
    start, end = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(start, of, rows.start[member])
    np.maximum.at(end, of, rows.end[member])
    data = []
    for number in range(int(which.max()) + 1):
        rows_of_group = np.flatnonzero(which == number)
        its = np.unique(of[rows_of_group])
        devices = np.unique(rows.device[member[rows_of_group]])
        if instances.complete[its].all() or len(devices) < 2 or int(instances.ranks[its[0]]) != len(devices):
            continue
        starts, ends = np.sort(start[its]), np.sort(end[its])
        for device in devices.tolist():
            first, last = rows.start[rows.of(device)][0], rows.end[rows.of(device)].max()
            before = int(np.searchsorted(ends, first, side="right"))
            after = len(its) - int(np.searchsorted(starts, last))
            if before + after < max(_FEWEST_UNRECORDED, _SHARE_UNRECORDED * len(its)):
                continue
            when = " and ".join(["before its first row"] * (before > 0) + ["after its last"] * (after > 0))
            evidence = f"{rows.devices[device]}, {when}"
            data.append((rows.hosts[device], Loss.COLLECTIVES.value, before + after, len(its), evidence))
    return frame(LOSS_COLUMNS, data)


def _unknown_waiting(groups: pd.DataFrame) -> str:
    """Why nothing is known of the waiting of the collectives of `groups`, "" without any."""
    return f"{_of_groups(groups)}. How long they waited and which rank was last are not known." if len(groups) else ""


def _of_groups(groups: pd.DataFrame) -> str:
    """Which ranks of the collectives of `groups` are not in the trace, as a sentence without its end."""
    first = groups.iloc[0]
    of = f" ({first['group']})" if pd.notna(first["group"]) else ""
    collectives = f"{quantity(int(groups['collectives'].sum()), 'collective')}{of if len(groups) == 1 else ''}"
    seen = int(first["devices"])
    if len(groups) > 1:
        who = f"{collectives} in {len(groups)} groups are of more ranks than the trace holds"
    else:
        text = "" if pd.isna(first["names"]) else str(first["names"])
        who = f"{collectives} {_of_ranks(text, int(first['ranks']))} the trace holds {seen}"
    absent = groups["absent"].dropna().unique()
    if len(absent) == 1 and len(absent[0]) < _LONG:
        several = {*"-,"} & {*absent[0]}
        who += f": {'ranks' if several else 'rank'} {absent[0]} {'are' if several else 'is'} missing"
    return who


def _damaged_waiting(timeline: Timeline, losses: pd.DataFrame) -> str:
    """Why nothing is known of the waiting of collectives of which a part was not read, "" where nothing is missing."""
    if not (timeline.collectives.instance >= 0).any():
        return ""
    lost = losses[losses["what"].isin([Loss.FILES.value, Loss.STEPS.value, Loss.PLANES.value])]
    lost = lost[[not _few_files(row) for row in records(lost)]]
    if not len(lost):
        return ""
    return f"{_damage(lost.iloc[0])} Which device was last in a collective is not known."


def _few_files(loss: Mapping[Any, Any]) -> bool:
    """Whether a loss is that of the files of few of many hosts or ranks, which says nothing of the others."""
    lost, total = loss["lost"], loss["total"]
    return bool(loss["what"] in (Loss.FILES, Loss.STEPS) and pd.notna(total) and lost < MANY_MISSING * total)


def _damage(row: Any) -> str:
    """The sentence on damage that a row of losses tells."""
    lost, total = (None if pd.isna(row[name]) else int(row[name]) for name in ("lost", "total"))
    return damage(Loss(row["what"]), lost, total, None if pd.isna(row["evidence"]) else str(row["evidence"]))


def _of_ranks(text: str, ranks: int) -> str:
    """Of how many `ranks` collectives are that list them as `text`, in one group or in several side by side."""
    listing = text.replace(",", ", ")
    names = f" ({listing})" if 0 < len(listing) < _LONG else ""
    groups = rank_groups(text, False) if text else []
    if len(groups) < 2:
        return f"are of {ranks} ranks{names}, of which"
    sizes = sorted({len(group) for group in groups})
    each = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    return f"are of {each} ranks each, in {len(groups)} groups{names}: of these {ranks} ranks"


def _unknown_rows(losses: pd.DataFrame, events: int, least: float) -> str:
    """What is missing from so many events, where it is no less than the share `least` of them; "" if it is."""
    for loss in losses.to_dict("records"):
        lost, total = (None if pd.isna(loss[name]) else int(loss[name]) for name in ("lost", "total"))
        if _few_files(loss) or not matters(Loss(loss["what"]), lost, total, events, least):
            continue
        if lost is None:
            return _damage(loss)
        total = lost + events if total is None else total
        match loss["what"]:
            case Loss.OPERATIONS:
                return (
                    f"The trace is a sample: it holds {percent(1 - lost / total)} of the {total:,} operations "
                    "that its numbers count."
                )
            case Loss.LAUNCHED:
                return f"{unanswered(lost, total)}."
            case Loss.REPLICAS:
                return f"At least {lost:,} replicas that the host ran, of {total:,} or more, have no kernels."
            case Loss.RECORDS:
                return f"The profiler dropped {lost:,} records, {percent(lost / total)} of all."
            case _:
                return _damage(loss)
    return ""
