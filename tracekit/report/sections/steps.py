"""The steps as the report shows them: how long they took, what each device did, and which are unlike the others."""

from typing import Any

import pandas as pd

from tracekit.analysis.steps.steps import Steps
from tracekit.columns import records
from tracekit.report.section import Section, Titled, plain
from tracekit.units import factor, percent, time

# What stands in the tables, and in summary.json of each long list.
_SHOWN, _KEPT = 8, 1000
_PART = {"compute": "computed", "memory": "copied", "idle": "idled", "collective": "were in collectives"}


def section(result: Steps) -> Section:
    """The steps in one or two sentences, the parts of a typical one by device, and those that stand out."""
    if result.lacking:
        return Section("steps", "Steps", lacking=result.lacking)
    said = [_said(one, result) for one in _longest(result.summary)[:2]]
    lazy = [one for one in records(result.typical) if one["did_nothing"]]
    if lazy:
        most = max(lazy, key=lambda one: one["did_nothing"])
        more = f", and {len(lazy) - 1} more devices in some" if len(lazy) > 1 else ""
        said.append(f"{most['device']} did nothing in {most['did_nothing']} of {most['steps']} steps{more}.")
    loose = int(result.table["rows_by_time"].sum())
    if loose:
        share = loose / int(result.table["rows"].sum())
        said.append(
            f"Nothing names the step of {percent(share)} of the rows; they count in the step during which they start."
        )
    return Section("steps", "Steps", said=said, tables=[_devices(result), *_unlike(result)], data=_data(result))


def _longest(summary: pd.DataFrame) -> list[dict[str, Any]]:
    return sorted(records(summary), key=lambda one: -one["mean_ps"] * one["counted"])


def _said(one: dict[str, Any], result: Steps) -> str:
    """How long the steps of one name took, which stood out and which were left out."""
    steps = "step" if one["counted"] == 1 else "steps"
    what = f"{one['counted']} {steps} ({one['name']})"
    if one["told_by"] == "run_id":
        what = f"{one['counted']} executions of {one['name']}, taken for steps,"
    where = f" on the clock of {one['clock']}" if one["clock"] else ""
    spread = f", from {time(one['min_ps'])} to {time(one['max_ps'])}" if one["counted"] > 1 else ""
    if pd.notna(one["spread"]):
        spread = f", spread {percent(one['spread'])}"
    told = f"{what}{where} of {time(one['median_ps'])} in the median{spread}"
    mine = result.table[(result.table["clock"] == one["clock"]) & (result.table["name"] == one["name"])]
    slow = mine[mine["slow_part"].notna()]
    if len(slow):
        worst = records(slow.sort_values("wall_ps").tail(1))[0]
        more = {1: "", 2: ", and another was slow"}.get(len(slow), f", and {len(slow) - 1} others were slow")
        told += f"; step {worst['step']} took {time(worst['wall_ps'])}: {_grew(worst)}{more}"
    left = mine[mine["left_out"].notna()]
    if len(left):
        reasons = [
            f"{_numbers(some['step'].tolist())} {_WHY[str(why)][len(some) > 1]}"
            for why, some in left.groupby("left_out", sort=False)
        ]
        told += f". Left out: {', '.join(reasons)}"
    if pd.notna(one["note"]):
        told += f". Of its {one['steps']} steps {one['note']}"
    return f"{told}."


_WHY = {"cut": ("is cut", "are cut"), "compiles": ("compiles", "compile"), "warm-up": ("is warm-up", "are warm-up")}


def _numbers(steps: list[int]) -> str:
    """`step 3`, `steps 0 and 1`, `steps 0, 1, 2 and 7 more`."""
    if len(steps) == 1:
        return f"step {steps[0]}"
    if len(steps) > 4:
        return f"steps {', '.join(map(str, steps[:3]))} and {len(steps) - 3} more"
    return f"steps {', '.join(map(str, steps[:-1]))} and {steps[-1]}"


def _grew(step: dict[str, Any]) -> str:
    return f"{step['slow_device']} {_PART[step['slow_part']]} {time(step['slow_ps'])} longer"


def _devices(result: Steps) -> Titled:
    """What the steps that count and are no outlier were made of, by device."""
    table = result.typical
    title = "What a step is made of"
    if len(table) > _SHOWN:
        title += f" ({_SHOWN} of {len(table)} devices, those that idle most)"
        table = table.sort_values("idle_ratio", ascending=False, kind="stable").head(_SHOWN).sort_index()
    several = result.summary["name"].nunique() > 1
    head = [*(["steps"] if several else []), "device", "compute", "exposed coll.", "exposed memory", "idle"]
    return (
        title,
        head,
        [
            [
                *([one["name"]] if several else []),
                one["device"],
                *(percent(one[f"{part}_ratio"]) for part in ("compute", "collective", "memory", "idle")),
            ]
            for one in records(table)
        ],
    )


def _unlike(result: Steps) -> list[Titled]:
    """The outliers, the longest first, then the steps in which a device did nothing; no table if there are none."""
    counts = result.table["left_out"].isna()
    table = result.table[counts & (result.table["outlier"] | (result.table["did_nothing"] > 0))]
    if table.empty:
        return []
    shown = table.sort_values(["outlier", "wall_ps"], ascending=False, kind="stable").head(_SHOWN)
    middle = result.summary.set_index(["clock", "name"])["median_ps"]
    title = "Steps unlike the others"
    if len(table) > _SHOWN:
        title += f" ({_SHOWN} of {len(table)})"
    rows = [
        [
            _label(one, result.summary),
            time(one["wall_ps"]),
            factor(one["wall_ps"] / middle[one["clock"], one["name"]]) if middle[one["clock"], one["name"]] else "-",
            _why(one, result.by_device[result.by_device["place"] == place]),
        ]
        for place, one in zip(shown.index, records(shown), strict=True)
    ]
    return [(title, ["step", "wall", "of the median", "why"], rows)]


def _label(step: dict[str, Any], summary: pd.DataFrame) -> str:
    """The number of a step; with its name and its clock where there are several."""
    label = f"{step['name']} {step['step']}" if summary["name"].nunique() > 1 else str(step["step"])
    return f"{label} ({step['clock']})" if step["clock"] else label


def _why(step: dict[str, Any], did: pd.DataFrame) -> str:
    lazy = did.loc[did["did_nothing"], "device"].tolist()
    reasons = [_grew(step)] if pd.notna(step["slow_part"]) else []
    if lazy:
        reasons.append(f"{lazy[0]}{f' and {len(lazy) - 1} more' if len(lazy) > 1 else ''} did nothing")
    return "; ".join(reasons) or "shorter"


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
