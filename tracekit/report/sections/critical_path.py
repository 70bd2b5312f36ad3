"""What determined the length of the steps, as the report shows it: the path's parts, the path, and what if."""

from typing import Any

import pandas as pd

from tracekit.analysis.critical_path.critical_path import CriticalPath
from tracekit.columns import records
from tracekit.report.section import Section, Titled, plain
from tracekit.units import change, percent, short, time

# Rows of a printed table, steps in summary.json, and characters of a name.
_SHOWN, _KEPT, _NAME = 8, 1000, 24
_WITHOUT = {
    "collective transfers": "if collectives took no time once all are there",
    "collectives": "without collectives",
    "copies": "without copies",
    "the host": "if the host took no time",
}


def section(result: CriticalPath) -> Section:
    """The median step's path in a sentence, then its parts, its longest pieces, and what each part costs."""
    title = "What determines the length of a step"
    if result.lacking:
        return Section("critical_path", title, lacking=result.lacking)
    return Section("critical_path", title, [*_said(result), *result.notes], _tables(result), _data(result))


def _median(result: CriticalPath) -> tuple[int, dict[str, Any]]:
    """The step of median length and its place."""
    ((at, step),) = [(at, step) for at, step in enumerate(records(result.steps)) if step["shown"] == "median"]
    return at, step


def _said(result: CriticalPath) -> list[str]:
    at, step = _median(result)
    parts = [one for one in records(result.composition) if one["at"] == at]
    parts = sorted(parts, key=lambda one: -one["time_ps"])
    told = ", ".join(f"{percent(one['ratio'])} {one['part']}" for one in parts if one["ratio"] >= 0.01)
    said = [f"{_name(step)} ({time(step['wall_ps'])}): its critical path is {told}."]
    tried = [one for one in records(result.step_what_if) if one["at"] == at and not pd.isna(one["predicted_ps"])]
    saving = [one for one in tried if one["what"] in _WITHOUT and one["ratio"] <= 0.99]
    # That nobody waits any more for a late peer is worth a word of its own only if it saves something.
    apart = {one["what"]: one["ratio"] for one in saving}
    if apart.get("collective transfers", 2) - apart.get("collectives", 0) < 0.01:
        saving = [one for one in saving if one["what"] != "collective transfers"]
    if saving:
        said.append(
            "It would take "
            + ", ".join(
                f"{time(one['predicted_ps'])} ({change(one['ratio'])}) {_WITHOUT[one['what']]}" for one in saving
            )
            + "."
        )
    elif tried:
        said.append(
            "Neither collectives nor copies nor the host hold it up: without any of them it would take as long."
        )
    elif len(result.what_if):
        reason = next((one for one in result.what_if["reason"].dropna()), "too little of its path is explained")
        said.append(f"What it would take without collectives, copies or the host cannot be told: {reason}.")
    error = 100 * step["error_ratio"]
    off = "no error" if not error else "an error below 0.1 %" if abs(error) < 0.1 else f"an error of {error:+.1f} %"
    said.append(f"Replayed from what is proven to wait for what, it takes {time(step['replayed_ps'])}, {off}.")
    return said


def _name(step: dict[str, Any]) -> str:
    """The step of median length by its number, or the phase that stands for it; without steps the whole trace."""
    if pd.isna(step["step"]):
        return "Whole trace" if step["name"] == "whole trace" else f"A round of {step['name']!r}"
    return f"Step {step['step']}, of median length"


def _tables(result: CriticalPath) -> list[Titled]:
    at, _ = _median(result)
    parts = [[str(one["part"]), time(one["time_ps"]), percent(one["ratio"])] for one in records(result.total)]
    pieces = sorted(
        (one for one in records(result.path) if one["at"] == at and not pd.isna(one["name"])),
        key=lambda one: -one["time_ps"],
    )
    longest = [
        [str(one["part"]), short(one["on"], 16), short(one["name"], _NAME), time(one["time_ps"])]
        for one in pieces[:_SHOWN]
    ]
    tried = [
        [
            short(one["what"] if pd.isna(one["name"]) else one["name"], _NAME),
            time(one["predicted_ps"]),
            change(one["ratio"]),
        ]
        for one in records(result.what_if)
    ]
    proven = [[str(one["edge"]), str(one["edges"]), str(one["dropped"])] for one in records(result.edges)]
    steps = f"{len(result.steps)} step{'s' if len(result.steps) > 1 else ''}"
    tables: list[Titled] = [(f"The critical paths of {steps}", ["part", "time", "of all"], parts)]
    if longest:
        tables.append(("Longest pieces of the median step's path", ["part", "on", "what", "time"], longest))
    if tried and result.what_if["predicted_ps"].notna().any():
        tables.append((f"What if it took no time: {steps} together", ["what", "would take", "change"], tried))
    tables.append(("What is proven to wait for what", ["dependency", "found", "contradicted"], proven))
    return tables


def _data(result: CriticalPath) -> dict[str, object]:
    kept = min(len(result.steps), _KEPT)
    return {
        "steps": plain(result.steps[:kept]),
        "steps_in_all": len(result.steps),
        "composition": plain(result.composition[result.composition["at"] < kept]),
        "total": plain(result.total),
        "path": plain(result.path),
        "what_if": plain(result.what_if),
        "step_what_if": plain(result.step_what_if[result.step_what_if["at"] < kept]),
        "edges": plain(result.edges),
        "latency": plain(result.latency),
        "notes": list(result.notes),
    }
