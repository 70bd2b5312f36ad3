"""The offenders as the report shows them: what cost a device the most, where it is, and what ran meanwhile."""

from typing import Any

import pandas as pd

from tracekit.analysis.offenders import IDLE, Offenders
from tracekit.columns import records
from tracekit.report.section import MOST_DATA, Field, Section, Table, Unit, instant, plain, table_of
from tracekit.units import device_time, percent, quantity, short, time

# Characters of a name in a sentence.
_NAME = 60
_NOUNS = {
    "collective": ("collective", "collectives"),
    "memcpy": ("copy", "copies"),
    "memset": ("memset", "memsets"),
    IDLE: ("gap", "gaps"),
}


def section(result: Offenders, windows_ps: int = 0) -> Section:
    """The first offender in two sentences, and a table of all; `windows_ps` is the sum of the devices' windows."""
    if result.lacking:
        return Section("offenders", "Top offenders", lacking=result.lacking)
    rows = records(result.table)
    most = _most(result)
    return Section(
        "offenders",
        "Top offenders",
        tuple(_first(rows[0])) if rows else ("No collective, copy or idle gap costs any time.",),
        tables=(_table(rows),),
        data=_data(result),
        share=most["cost_ps"] / windows_ps if most and windows_ps else 0.0,
        loss=_loss(most) if most else "",
        result=_in_all(most, result, windows_ps) if most and windows_ps else "",
    )


def _loss(row: dict[str, Any]) -> str:
    """What the time was lost to, as Section has it."""
    if row["kind"] == IDLE:
        return str(row["what"])
    return "collectives" if row["kind"] == "collective" else "copies"


def _most(result: Offenders) -> dict[str, Any] | None:
    """What all devices together lose most to, with `cost_ps` of all of them, on how many `devices`, and the `ratio` of
    its window that the `device` loses which loses most."""
    most: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in records(result.by_device.sort_values("cost_ps", ascending=False, kind="stable")):
        key = (row["what"], row["kind"], None if pd.isna(row["direction"]) else row["direction"])
        so_far = most.setdefault(key, row | {"cost_ps": 0, "devices": 0})
        so_far["cost_ps"] += row["cost_ps"]
        so_far["devices"] += 1
    return max(most.values(), key=lambda row: row["cost_ps"], default=None)


def _in_all(most: dict[str, Any], result: Offenders, windows_ps: int) -> str:
    """What the devices together lose most to, and which of them most."""
    words, share = _loss_words(most), percent(most["cost_ps"], windows_ps)
    what, its = f"{words[0].upper()}{words[1:]}", percent(most["ratio"])
    if most["devices"] > 1:
        cost = f"{device_time(most['cost_ps'], most['devices'])} ({share} of the devices' time)"
        return f"{what} cost {cost}, most on {most['device']} ({its} of its window)."
    of = "the window"
    if len(result.totals) > 1:
        of = f"its window, {share} of the devices' time"
    return f"{what} cost {most['device']} {time(most['cost_ps'])} ({its} of {of})."


def _loss_words(row: dict[str, Any]) -> str:
    return f"idle time ({row['what']})" if row["kind"] == IDLE else f"exposed {short(_what(row), _NAME)}"


def _first(row: dict[str, Any]) -> list[str]:
    """What costs most and how much, then the longest of it: where it is, and what held it up meanwhile."""
    what = _loss_words(row)
    cost = f"{time(row['cost_ps'])} ({percent(row['ratio'])} of the window)"
    sentences = [f"Largest loss: {what} on {row['device']}, {cost}.", _longest(row)]
    if pd.notna(row["wait_ps"]) and row["wait_ps"]:
        sentences.append(f"It waited {time(row['wait_ps'])} for {row['last']}, the last to arrive.")
    if pd.notna(row["memory_ps"]) and row["memory_ps"]:
        sentences.append(f"{row['device']} copied for {time(row['memory_ps'])} of it.")
    if row["others"]:
        sentences.append(_meanwhile(row))
    if row["devices"] > 1:
        fewer = row["devices"] - 1
        sentences.append(f"{quantity(fewer, 'other device')} {'loses' if fewer == 1 else 'lose'} less to it.")
    return sentences


def _longest(row: dict[str, Any]) -> str:
    """Of how many it is the longest, how long that is, and where."""
    noun, nouns = _NOUNS[row["kind"]]
    subject = f"The longest of {quantity(row['n'], noun, nouns)}" if row["n"] > 1 else f"The {noun}"
    lasted = "lasted" if row["kind"] == IDLE else "was exposed for"
    step = f" in step {row['step']}" if pd.notna(row["step"]) else ""
    place = f" ({short(where, _NAME)})" if (where := _where(row)) else ""
    return f"{subject} {lasted} {time(row['largest_ps'])}{step}{place}."


def _meanwhile(row: dict[str, Any]) -> str:
    """What the other devices of the clock did while it cost its device something."""
    others, busy = row["others"], row["others_busy"]
    who = "the other device" if others == 1 else "every other device"
    if not busy:
        return f"Meanwhile {who} was idle."
    mostly = f", mostly with {short(row['meanwhile'], _NAME)}" if pd.notna(row["meanwhile"]) else ""
    if others == 1 or busy == others:
        return f"Meanwhile {who} was busy {percent(busy, others)} of the time{mostly}."
    return f"Meanwhile the {others} other devices were busy {percent(busy, others)} of the time on average{mostly}."


def _table(rows: list[dict[str, Any]]) -> Table:
    return table_of(
        rows,
        "offenders",
        "Top offenders, each on the device that loses most to it",
        [
            Field("what", Unit.NAME, _what),
            Field("device", Unit.DEVICE, "device"),
            Field("lost", Unit.TIME, "cost_ps"),
            Field("n", Unit.COUNT, "n"),
            Field("of window", Unit.RATIO, "ratio"),
            Field("longest", Unit.TIME, "largest_ps", brief=False),
            Field("at", Unit.INSTANT, lambda row: instant(row, row["device"]), brief=False),
            Field("where", Unit.NAME, _where),
            Field("others meanwhile", Unit.NAME, "meanwhile", brief=False),
        ],
    )


def _what(row: dict[str, Any]) -> str:
    name = str(row["what"])
    if row["kind"] == IDLE:
        return f"idle: {name}"
    if row["kind"] == "collective":
        return name.partition("(")[0] or name  # NCCL's kernels differ before their arguments
    return f"{row['direction']} {name}" if pd.notna(row["direction"]) and row["direction"] not in name else name


def _where(row: dict[str, Any]) -> str | None:
    """The source line of the longest, or the framework's op, or what comes after a gap; None if none is known."""
    source = None if pd.isna(row["source"]) else str(row["source"]).rpartition("/")[2]
    place = next((str(name) for name in (source, row["framework_op"]) if pd.notna(name)), None)
    return place if pd.isna(row["next"]) else f"before {place or str(row['next']).removeprefix('void ')}"


def _data(result: Offenders) -> dict[str, Any]:
    return {
        "table": plain(result.table),
        "groups": result.groups,
        "by_device": plain(result.by_device.head(MOST_DATA)),
        "by_device_found": len(result.by_device),
        "instances": plain(result.instances),
        "instances_found": result.found,
        "totals": plain(result.totals),
    }
