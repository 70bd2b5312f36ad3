"""The steps as the report shows them: how long they took, what each device did, and the outliers."""

from functools import partial
from typing import Any

import pandas as pd

from tracekit.analysis.steps import ALL_DEVICES, FEWEST, Steps
from tracekit.columns import records
from tracekit.devices import FEW
from tracekit.report.section import (
    MOST_DATA,
    Field,
    Missing,
    Section,
    Table,
    Unit,
    instant,
    or_missing,
    plain,
    table_of,
)
from tracekit.report.sections.steady import step_numbers
from tracekit.units import factor, percent, quantity, time

# Rows that a face without limits shows, and rows where there is little room.
_MOST, _BRIEF = 200, 8
_GREW = {"compute": "computed", "memory": "copied", "idle": "idled", "collective": "ran collectives"}
_LEFT_OUT = {"cut": "cut by the edge of the profile", "compiles": "compiling", "warm-up": "warm-up"}


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
        share=_share(result),
    )


def _share(result: Steps) -> float | None:
    """What slow steps took beyond the median of theirs, of the time of all; None where a device did nothing in steps,
    which stands for no time. The length of steps that are all alike is no loss."""
    slow = result.table[result.table["slow_part"].notna()]
    if not len(slow):
        return None if _idle(result) else 0.0
    median = result.summary.set_index(["clock", "name"])["median_ps"]
    usual = median.loc[pd.MultiIndex.from_frame(slow[["clock", "name"]])].to_numpy()
    # As fractions: times of days in ps, summed over thousands of clocks, are beyond int64.
    longer = (slow["wall_ps"] - usual).clip(lower=0).astype(float).sum()
    return float(longer / result.table["wall_ps"].astype(float).sum())


def _length(row: dict[str, Any], result: Steps) -> str:
    """How long the steps of one name took, which stood out and which were left out."""
    by_execution = "executions of " if row["marked_by"] == "run_id" else ""
    what = f"{quantity(row['counted'], 'step')} ({by_execution}{row['name']})"
    where = f" on the clock of {row['clock']}" if row["clock"] else ""
    length = time(row["median_ps"])
    if row["counted"] > 1:
        spread = f"{time(row['min_ps'])} to {time(row['max_ps'])}"
        if pd.notna(row["spread"]):
            spread = f"IQR {percent(row['spread'])} of it"
        length = f"median {length} ({spread})"
    sentence = f"{what}{where}: {length}"
    mine = result.table[(result.table["clock"] == row["clock"]) & (result.table["name"] == row["name"])]
    slow = mine[mine["slow_part"].notna()]
    if len(slow):
        worst = records(slow.sort_values("wall_ps").tail(1))[0]
        sentence += f". Step {worst['step']} took {time(worst['wall_ps'])}: {_grew(worst)}"
        sentence += f"; {quantity(len(slow) - 1, 'more slow step')}" if len(slow) > 1 else ""
    if not len(slow):
        sentence += _longer_first(mine)
    reasons = [
        f"{step_numbers(steps['step'].tolist())} ({_LEFT_OUT[str(why)]})"
        for why, steps in mine[mine["left_out"].notna()].groupby("left_out", sort=False)
    ]
    if reasons:
        sentence += f". Left out: {', '.join(reasons)}"
    if pd.notna(row["note"]):
        sentence += f". Of its {row['steps']} steps {row['note']}"
    return f"{sentence}."


def _longer_first(steps: pd.DataFrame) -> str:
    """That the first of too few steps for outliers, in which no compiler ran, took longer than the others by more than
    they differ, and by a tenth: it may be warm-up, but nothing else shows it."""
    wall = [int(wall) for wall in steps.loc[steps["left_out"].isna(), "wall_ps"]]
    counted = steps[steps["left_out"].isna()]
    if not 2 <= len(wall) < FEWEST or counted["compile_ps"].iloc[0]:
        return ""
    first, *others = wall
    if first - max(others) <= max(max(others) - min(others), max(others) // 10):
        return ""
    longer = f"{time(first)}, {factor(first / max(others))} as long as the longest of the others"
    return f". The first step took {longer}; no compiler ran in it, so it counts"


def _idle(result: Steps) -> list[str]:
    """Which device was idle throughout most steps, if any was."""
    idle = [row for row in records(result.typical) if row["did_nothing"]]
    if not idle:
        return []
    most = max(idle, key=lambda row: row["did_nothing"])
    others = f", and {quantity(len(idle) - 1, 'other device')} throughout some" if len(idle) > 1 else ""
    return [f"{most['device']} was idle throughout {most['did_nothing']} of {quantity(most['steps'], 'step')}{others}."]


def _unnamed(result: Steps) -> list[str]:
    unnamed = int(result.table["rows_by_time"].sum())
    if not unnamed:
        return []
    share = percent(unnamed, int(result.table["rows"].sum()))
    return [f"{share} of the events have no step number, and count in the step in which they start."]


def _grew(step: dict[str, Any]) -> str:
    where = f", mostly in {step['slow_program']}, which few of the steps run" if pd.notna(step["slow_program"]) else ""
    up_to = "up to " if step["slow_device"] == ALL_DEVICES else ""
    return f"{step['slow_device']} {_GREW[step['slow_part']]} {up_to}{time(step['slow_ps'])} longer{where}"


def _lengths(result: Steps) -> Table:
    too_few = "fewer than five steps count"
    return table_of(
        result.summary,
        "steps.lengths",
        "Length of steps",
        [
            Field(
                "steps of", Unit.NAME, lambda row: f"{row['name']} ({row['clock']})" if row["clock"] else row["name"]
            ),
            Field("n", Unit.COUNT, "steps"),
            Field("counted", Unit.COUNT, "counted"),
            *(
                Field(length, Unit.TIME, partial(_length_of, length))
                for length in ("median", "mean", "min", "p90", "max")
            ),
            Field("IQR of median", Unit.RATIO, lambda row: or_missing(row["spread"], too_few)),
        ],
        0,
    )


def _length_of(which: str, row: dict[str, Any]) -> Any:
    """A length of the steps of one name; of one step only its own, no quantile."""
    return row[f"{which}_ps"] if row["counted"] > 1 or which == "mean" else Missing("only one step counts")


def _parts(result: Steps) -> Table:
    """What the steps that count and are no outlier were made of, by device, of many those first that idle most."""
    typical, title = result.typical, "Time of a typical step"
    if len(typical) > _BRIEF:
        typical = typical.sort_values("idle_ratio", ascending=False, kind="stable")
        title += ", idlest devices first" if len(typical) <= FEW else ""
    return table_of(
        typical,
        "steps.parts",
        title,
        [
            Field("steps of", Unit.NAME, "name", brief=result.summary["name"].nunique() > 1),
            Field("device", Unit.DEVICE, "device"),
            Field("compute", Unit.RATIO, "compute_ratio"),
            Field("exposed comm.", Unit.RATIO, "collective_ratio"),
            Field("exposed copy", Unit.RATIO, "memory_ratio"),
            Field("idle", Unit.RATIO, "idle_ratio"),
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
    places = steps.assign(rank=rank, by_wall=-wall, place=steps.index).sort_values(["rank", "by_wall"], kind="stable")
    more = f" ({_MOST} of {len(steps):,}: all are in summary.json)" if len(steps) > _MOST else ""
    medians = {(series["clock"], series["name"]): series for series in records(result.summary)}
    has_names = result.summary["name"].nunique() > 1
    idle = {
        place: its["device"].tolist()
        for place, its in result.by_device[result.by_device["did_nothing"]].groupby("place")
    }
    return table_of(
        places.head(_MOST),
        "steps.each",
        f"Steps, outliers first{more}",
        [
            Field("step", Unit.NAME, lambda row: _label(row, has_names)),
            Field("at", Unit.INSTANT, lambda row: instant(row, clock=row["clock"]), brief=False),
            Field("wall", Unit.TIME, "wall_ps"),
            Field("of median", Unit.FACTOR, lambda row: _of_median(row, medians.get((row["clock"], row["name"])))),
            Field("events", Unit.COUNT, "rows", brief=False),
            Field("remarks", Unit.TEXT, lambda row: _remarks(row, idle.get(row["place"], []))),
        ],
        min(int((rank < 2).sum()), _BRIEF),
    )


def _of_median(step: dict[str, Any], series: dict[str, Any] | None) -> Any:
    if series is None or series["counted"] < 2:
        return Missing("only one step counts")
    median = series["median_ps"]
    return step["wall_ps"] / median if median else Missing("the median step has no length")


def _label(step: dict[str, Any], has_names: bool) -> str:
    """The number of a step; with its name and its clock where there are several."""
    number = "-" if pd.isna(step["step"]) else str(int(step["step"]))
    label = f"{step['name']} {number}" if has_names else number
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
        "marked_by": str(result.summary["marked_by"].iloc[0]),
        "nested": result.nested,
        "summary": plain(result.summary),
        "devices": plain(result.typical),
        "steps_total": len(result.table),
        "steps": plain(result.table.head(MOST_DATA)),
        "by_device_total": len(result.by_device),
        "by_device": plain(result.by_device.head(MOST_DATA)),
    }
