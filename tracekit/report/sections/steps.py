"""The steps as the report shows them: how long they took, what each device did, and the outliers."""

from typing import Any

import pandas as pd

from tracekit.analysis.steps import Steps
from tracekit.columns import records
from tracekit.report.section import Column, Missing, Section, Table, Unit, instant, or_missing, plain, table
from tracekit.units import counted, percent, time

# Rows that a face without limits shows, rows where there is little room, and rows in summary.json of each long list.
_MOST, _BRIEF, _KEPT = 200, 8, 1000
_GREW = {"compute": "computed", "memory": "copied", "idle": "idled", "collective": "was in collectives"}
_WHY = {"cut": ("is cut", "are cut"), "compiles": ("compiles", "compile"), "warm-up": ("is warm-up", "are warm-up")}
_LEFT_OUT = {"cut": "cut by the edge of the profile", "compiles": "compiles", "warm-up": "warm-up"}


def section(result: Steps) -> Section:
    """The steps in one or two sentences, the parts of a typical one by device, and each of them."""
    if result.lacking:
        return Section("steps", "Steps", lacking=result.lacking)
    longest = sorted(records(result.summary), key=lambda row: -row["mean_ps"] * row["counted"])
    return Section(
        "steps",
        "Steps",
        (*(_length(row, result) for row in longest[:2]), *_idle(result), *_unnamed(result)),
        tables=(_lengths(result), _parts(result), _each(result)),
        data=_data(result),
    )


def _length(row: dict[str, Any], result: Steps) -> str:
    """How long the steps of one name took, which stood out and which were left out."""
    by_execution = "executions of " if row["told_by"] == "run_id" else ""
    what = f"{counted(row['counted'], 'step')} ({by_execution}{row['name']})"
    where = f" on the clock of {row['clock']}" if row["clock"] else ""
    length = time(row["median_ps"])
    if row["counted"] > 1:
        spread = f"{time(row['min_ps'])} to {time(row['max_ps'])}"
        if pd.notna(row["spread"]):
            spread = f"interquartile range {percent(row['spread'])} of it"
        length = f"median {length}, {spread}"
    sentence = f"{what}{where}: {length}"
    mine = result.table[(result.table["clock"] == row["clock"]) & (result.table["name"] == row["name"])]
    slow = mine[mine["slow_part"].notna()]
    if len(slow):
        worst = records(slow.sort_values("wall_ps").tail(1))[0]
        others = {1: "", 2: ", and another was slow"}.get(len(slow), f", and {len(slow) - 1} others were slow")
        sentence += f"; step {worst['step']} took {time(worst['wall_ps'])}: {_grew(worst)}{others}"
    left = mine[mine["left_out"].notna()]
    if len(left):
        reasons = [
            f"{_numbers(some['step'].tolist())} {_WHY[str(why)][len(some) > 1]}"
            for why, some in left.groupby("left_out", sort=False)
        ]
        sentence += f". Left out: {', '.join(reasons)}"
    if pd.notna(row["note"]):
        sentence += f". Of its {row['steps']} steps {row['note']}"
    return f"{sentence}."


def _idle(result: Steps) -> list[str]:
    """Which device was idle throughout most steps, if any was."""
    idle = [row for row in records(result.typical) if row["did_nothing"]]
    if not idle:
        return []
    most = max(idle, key=lambda row: row["did_nothing"])
    others = f", and {counted(len(idle) - 1, 'other device')} throughout some" if len(idle) > 1 else ""
    return [f"{most['device']} was idle throughout {most['did_nothing']} of {counted(most['steps'], 'step')}{others}."]


def _unnamed(result: Steps) -> list[str]:
    unnamed = int(result.table["rows_by_time"].sum())
    if not unnamed:
        return []
    share = percent(unnamed, int(result.table["rows"].sum()))
    return [f"{share} of the events name no step, and count in the step during which they start."]


def _numbers(steps: list[int]) -> str:
    """`step 3`, `steps 0 and 1`, `steps 0, 1, 2 and 7 more`."""
    if len(steps) == 1:
        return f"step {steps[0]}"
    if len(steps) > 4:
        return f"steps {', '.join(map(str, steps[:3]))} and {len(steps) - 3} more"
    return f"steps {', '.join(map(str, steps[:-1]))} and {steps[-1]}"


def _grew(step: dict[str, Any]) -> str:
    return f"{step['slow_device']} {_GREW[step['slow_part']]} {time(step['slow_ps'])} longer"


def _lengths(result: Steps) -> Table:
    lengths = ("median", "mean", "min", "p90", "max")
    return table(
        "steps.lengths",
        "Length of steps",
        [
            Column("steps of", Unit.NAME),
            Column("n", Unit.COUNT),
            Column("counted", Unit.COUNT),
            *(Column(length, Unit.TIME) for length in lengths),
            Column("IQR of median", Unit.RATIO),
        ],
        [
            (
                row["name"],
                row["steps"],
                row["counted"],
                *(row[f"{length}_ps"] for length in lengths),
                or_missing(row["spread"], "fewer than five steps count"),
            )
            for row in records(result.summary)
        ],
        0,
    )


def _parts(result: Steps) -> Table:
    """What the steps that count and are no outlier were made of, by device, of many those first that idle most."""
    typical, title = result.typical, "Time of a typical step"
    if len(typical) > _BRIEF:
        typical = typical.sort_values("idle_ratio", ascending=False, kind="stable")
        title = "Time of a typical step, idlest devices first"
    return table(
        "steps.parts",
        title,
        [
            Column("steps of", Unit.NAME, brief=result.summary["name"].nunique() > 1),
            Column("device", Unit.NAME),
            Column("compute", Unit.RATIO),
            Column("exposed comm.", Unit.RATIO),
            Column("exposed copy", Unit.RATIO),
            Column("idle", Unit.RATIO),
        ],
        [
            (
                row["name"],
                row["device"],
                *(row[f"{part}_ratio"] for part in ("compute", "collective", "memory", "idle")),
            )
            for row in records(typical)
        ],
        _BRIEF,
    )


def _each(result: Steps) -> Table:
    """Every step, up to _MOST of them: the outliers, the longest first, those in which a device was idle throughout,
    those left out, then the others in their order. Where there is little room, only the first two kinds are shown."""
    steps = result.table
    counts = steps["left_out"].isna()
    outlier = counts & steps["outlier"]
    rank = (
        pd.Series(3, index=steps.index).mask(~counts, 2).mask(counts & (steps["did_nothing"] > 0), 1).mask(outlier, 0)
    )
    wall = steps["wall_ps"].where(rank < 2, 0)
    ordered = steps.assign(rank=rank, by_wall=-wall).sort_values(["rank", "by_wall"], kind="stable").head(_MOST)
    more = f" ({_MOST} of {len(steps):,}: all are in summary.json)" if len(steps) > _MOST else ""
    idle = {
        place: its["device"].tolist()
        for place, its in result.by_device[result.by_device["did_nothing"]].groupby("place")
    }
    return table(
        "steps.each",
        f"Steps, outliers first{more}",
        [
            Column("step", Unit.NAME),
            Column("at", Unit.INSTANT, brief=False),
            Column("wall", Unit.TIME),
            Column("of median", Unit.FACTOR),
            Column("events", Unit.COUNT, brief=False),
            Column("remarks", Unit.TEXT),
        ],
        [
            (
                _label(row, result.summary),
                instant(row, clock=row["clock"]),
                row["wall_ps"],
                _of_median(row, result.summary),
                row["rows"],
                _remarks(row, idle.get(place, [])),
            )
            for place, row in zip(ordered.index, records(ordered), strict=True)
        ],
        min(int((rank < 2).sum()), _BRIEF),
    )


def _of_median(step: dict[str, Any], summary: pd.DataFrame) -> Any:
    mine = summary[(summary["clock"] == step["clock"]) & (summary["name"] == step["name"])]
    median = int(mine["median_ps"].iloc[0]) if len(mine) else 0
    return step["wall_ps"] / median if median else Missing("the median step has no length")


def _label(step: dict[str, Any], summary: pd.DataFrame) -> str:
    """The number of a step; with its name and its clock where there are several."""
    number = "-" if pd.isna(step["step"]) else str(int(step["step"]))
    label = f"{step['name']} {number}" if summary["name"].nunique() > 1 else number
    return f"{label} ({step['clock']})" if step["clock"] else label


def _remarks(step: dict[str, Any], idle: list[str]) -> str | None:
    remarks = [] if pd.isna(step["left_out"]) else [f"left out: {_LEFT_OUT[step['left_out']]}"]
    if pd.notna(step["slow_part"]):
        remarks.append(_grew(step))
    elif step["outlier"]:
        remarks.append("shorter")
    if idle:
        others = f" and {len(idle) - 1} more" if len(idle) > 1 else ""
        remarks.append(f"{idle[0]}{others} idle throughout")
    return "; ".join(remarks) or None


def _data(result: Steps) -> dict[str, Any]:
    return {
        "told_by": str(result.summary["told_by"].iloc[0]),
        "nested": result.nested,
        "summary": plain(result.summary),
        "devices": plain(result.typical),
        "steps_total": len(result.table),
        "steps": plain(result.table.head(_KEPT)),
        "by_device_total": len(result.by_device),
        "by_device": plain(result.by_device.head(_KEPT)),
    }
