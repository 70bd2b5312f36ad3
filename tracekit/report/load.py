"""A report that was saved, read back: one of this version as it was, one of schema 1 as far as it goes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tracekit import remote
from tracekit.analysis.advice import Advice, Finding
from tracekit.analysis.critical_path.graph import Dependency
from tracekit.analysis.critical_path.what_if import Removed
from tracekit.analysis.explain import ANALYSES, Explanation
from tracekit.analysis.overlap import Breakdown
from tracekit.analysis.program import Program
from tracekit.columns import frame
from tracekit.devices import type_of
from tracekit.errors import TracekitError
from tracekit.files import FRAMES, REPORT_FILES, SUMMARY, path_of
from tracekit.readers import formats
from tracekit.report.build import analyse
from tracekit.report.model import Origin, Report
from tracekit.report.storage import FAULTS, REMEDY, dtypes, read, restore
from tracekit.trace import EVENT_COLUMNS, Trace
from tracekit.vocabulary.frameworks import FORMATS, Framework

# So often a report is read that is replaced meanwhile.
_READS = 3
# Schema 1 knew nothing of the machine.
_ANALYSES = [task.name for task in ANALYSES if task.name != "machine"]


def load(directory: str | os.PathLike[str]) -> Report:
    """The report that was saved into `directory`: equal to the one that was saved.

    What a summary.json of schema 1 or of an earlier version lacks is empty, and `lacking` or a note says why. Raises
    TracekitError where there is none, or where it is damaged or of a schema that this version does not know.
    """
    with remote.fetched(path_of(directory, "the directory of a saved report"), *REPORT_FILES) as place:
        return _unmixed(place)


def _unmixed(directory: Path) -> Report:
    """The report in a directory, all of it of one: read again where another took its place meanwhile."""
    for _ in range(_READS):
        before = _identity(directory)
        try:
            report = _load(directory)
        except TracekitError:
            if _identity(directory) == before:
                raise
            continue
        if _identity(directory) == before:
            return report
    raise TracekitError(f"The report in {directory} is written anew again and again. Load it when it is done.")


def _identity(directory: Path) -> tuple[tuple[int, int, int, int] | None, ...]:
    """What another report in that place has otherwise."""
    identity: list[tuple[int, int, int, int] | None] = []
    for place in (directory, directory / FRAMES, directory / SUMMARY):
        try:
            found = place.stat()
            is_whole = place != directory  # where others may write too
            identity.append((found.st_dev, found.st_ino, found.st_mtime_ns * is_whole, found.st_size * is_whole))
        except OSError:
            identity.append(None)
    return tuple(identity)


def _load(directory: Path) -> Report:
    document, file = read(directory), directory / SUMMARY
    if document.get("schema") == 1:
        return _of_schema_1(document, file)
    report, absent = restore(_empty(), document, directory)
    if absent:
        unknown = {
            name: replace(getattr(report.explanation, name), lacking=f"{file} holds no {name}. {REMEDY}")
            for name in _ANALYSES
            if {"explanation", f"explanation.{name}"} & {*absent}
        }
        note = f"{file}, of another version of tracekit, does not hold {', '.join(absent)}. {REMEDY}"
        report = replace(report, explanation=replace(report.explanation, **unknown), notes=(*report.notes, note))
    try:
        report.summary(), report.overview  # which look at every part, and at one beside the other
    except (*FAULTS, pd.errors.InvalidIndexError):  # of the last, two rows of one device
        fault = f"it does not hold {', '.join(absent)}" if absent else "its parts do not fit together"
        raise TracekitError(f"The report in {directory} is damaged: {fault}. {REMEDY}") from None
    return report


@cache
def _empty() -> Report:
    """The report of a trace without rows, which has every table."""
    return analyse(Trace(frame(EVENT_COLUMNS)))


def _of_schema_1(document: Mapping[str, Any], file: Path) -> Report:
    """The report in a summary.json of schema 1, which has no frames: all that its keys hold, and a note of what they
    lack."""
    empty = _empty()
    try:
        devices = [{**device, **device["partition"]} for device in document["devices"]]
        counts = [
            {"device": device["device"], "kind": kind, "events": device["kinds"][key]["intervals"]}
            for device in devices
            for kind, key in (("compute", "compute"), ("collective", "collective"), ("memcpy", "memory"))
        ]
        window = document["trace"]["window_ps"]
        start = devices[0]["window_start_ps"] if devices else 0
        verdicts, phase_names = document["verdicts"], [phase["name"] for phase in document["phases"]]
        stretches = [{"name": phase["name"], **row} for phase in document["phases"] for row in phase["stretch"]]
        return replace(
            empty,
            trace=Origin(
                source=document["trace"]["source"],
                format=document["trace"]["format"],
                hosts=tuple(document["trace"]["hosts"]),
                runs=tuple(document["trace"]["runs"]),
                models=(),
                clocks=_like(empty.trace.clocks, document["trace"]["clocks"]),
                events=_like(empty.trace.events, counts),
            ),
            windows={} if window is None else {"": np.array([[start, start + window]], np.int64)},
            clock_of={device["device"]: "" for device in devices},
            whole=replace(_breakdown(empty.whole, document), partition=_like(empty.whole.partition, devices)),
            phases=replace(
                empty.phases,
                table=_like(empty.phases.table, document["phases"]),
                stretch=_like(empty.phases.stretch, stretches),
            ),
            inside={
                phase["name"]: replace(
                    _breakdown(replace(empty.whole, name=phase["name"]), phase),
                    partition=_busy_only(empty.whole.partition, phase["busy"]),
                )
                for phase in document["phases"]
            },
            verdict=next((verdicts[name] for name in verdicts if name not in phase_names), None),
            verdicts={name: verdicts[name] for name in phase_names},
            headline=document["headline"],
            notes=(*document["notes"], _note(document, file)),
            known_by=_like(empty.known_by, document["known_by"]),
            guessed=_like(empty.guessed, [row | {"events": row["intervals"]} for row in document["guessed"]]),
            explanation=_explanation(empty.explanation, document, file),
            advice=_advice(document),
            compared=tuple(document["compared"]),
        )
    except FAULTS as error:
        raise TracekitError(f"{file} is damaged: {error!r}. {REMEDY}") from None


# What schema 1 does not hold of an analysis, and the keys of what it holds under another name than that of the field.
_UNKNOWN = {"gaps", "depth", "lacking", "busy_ratio", "queued_ratio", "unexplained", "is_part"}
_KEYS = {
    "steps": {"table": "steps", "typical": "devices"},
    "collectives": {"table": "instances", "by_op": "by_operation"},
    "offenders": {"found": "instances_found"},
    "bandwidth": {"low": "low_occupancy"},
}
# The lists that schema 1 cut, and the keys that say how long they were.
_LENGTHS = {
    "steps": {"steps": "steps_total", "by_device": "by_device_total"},
    "launches": {"bound": "bound_total", "tiny": "tiny_total"},
    "critical_path": {"steps": "steps_in_all"},
    "offenders": {"by_device": "by_device_found"},
    "bandwidth": {"ops": "ops_found", "low_occupancy": "low_occupancy_found"},
}
# The columns that had other names in schema 1.
_COLUMNS = {
    "marked_by": "told_by",
    "recorded_wait_ps": "told_wait_ps",
    "coverage_ratio": "told_ratio",
    "example": "shown",
}
# Where schema 1 has words, of the critical path: the column, and what stands there today.
_EDGES = {
    "order in a queue": Dependency.QUEUE_ORDER.value,
    "order on a thread of the host": Dependency.THREAD_ORDER.value,
    "members of a collective": Dependency.COLLECTIVE.value,
    "an asynchronous pair's done": Dependency.ASYNC_DONE.value,
    "an operand": Dependency.OPERAND.value,
    "a lane waits for a lane": Dependency.STREAM_WAIT.value,
    "a thread waits for a lane": Dependency.THREAD_WAIT.value,
    "a call returns behind its rows": Dependency.CALL_RETURN.value,
    "a copy that a program waited for": Dependency.COPY_WAIT.value,
}
_REMOVED = {"collective transfers": Removed.COLLECTIVE_TRANSFERS.value, "the host": Removed.HOST.value}
_WORDS = {"edges": ("edge", _EDGES), "what_if": ("what", _REMOVED), "step_what_if": ("what", _REMOVED)}


def _explanation(empty: Explanation, document: Mapping[str, Any], file: Path) -> Explanation:
    """The explanation with every table of schema 1, and where it has none the reason why."""
    reasons = document["lacking"]
    results = {}
    for name in _ANALYSES:
        nothing, data = getattr(empty, name), document.get(name)
        if data is None:
            missing = f"{file}, of schema 1, holds no {name}. {REMEDY}"
            results[name] = replace(nothing, lacking=reasons.get(name, missing))
        elif name == "critical_path" and all(step["shown"] != "median" for step in data["steps"]):
            missing = f"{file}, of schema 1, does not hold the step of median length among its first steps. {REMEDY}"
            results[name] = replace(nothing, lacking=missing)
        else:
            keys = {field.name: field.name for field in fields(nothing) if field.name not in _UNKNOWN}
            keys |= _KEYS.get(name, {})
            values = {field: _value(getattr(nothing, field), data[key]) for field, key in keys.items()}
            if name == "critical_path":
                for field, (column, words) in _WORDS.items():
                    values[field] = values[field].assign(**{column: values[field][column].replace(words)})
                steps = values["steps"]
                # What is neither a step nor a phase stands for the whole trace, which has no name today.
                is_whole = steps["step"].isna() & ~steps["name"].isin(document["compared"])
                values["steps"] = steps.assign(name=steps["name"].mask(is_whole))
            results[name] = replace(nothing, **values, lacking="")
    # Of the compared phases, no key says how much ran in them.
    intervals = [kind["intervals"] for device in document["devices"] for kind in device["kinds"].values()]
    rows = None if document["compared"] else sum(intervals)
    return replace(empty, **results, devices=len(document["devices"]), rows=rows)


def _value(empty: Any, value: Any) -> Any:
    """What a key of schema 1 holds, as a value of the type of `empty`."""
    if isinstance(empty, pd.DataFrame):
        return _like(empty, [value] if isinstance(value, Mapping) else value)
    return "" if value is None else tuple(value) if isinstance(value, list) else value


def _note(document: Mapping[str, Any], file: Path) -> str:
    """What a report of schema 1 cannot show."""
    lengths = [
        (f"{name}.{key}", len(document[name][key]), document[name][of])
        for name, keys in _LENGTHS.items()
        if document.get(name)
        for key, of in keys.items()
    ]
    cut = [f"{there:,} of {number:,} rows of {key}" for key, there, number in lengths if there < number]
    holds = f"; it holds {', '.join(cut)}" if cut else ""
    parts = "the single idle gaps, the launch queues over time, the rounds of phases and their parts of time"
    return f"{file}, of schema 1, does not hold {parts}{holds}. {REMEDY}"


def _busy_only(partition: pd.DataFrame, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The partition of a phase, of which schema 1 holds only the busy times; what it does not hold is null."""
    columns = {name: "Int64" if dtype == "int64" else dtype for name, dtype in dtypes(partition).items()}
    return frame(
        columns | {"busy_ps": "int64"},
        {"device": [row["device"] for row in rows], "busy_ps": [row["busy_ps"] for row in rows]},
    )


def _advice(document: Mapping[str, Any]) -> Advice:
    types = {type_of(device["device"]) for device in document["devices"]}
    form = formats.by_name(document["trace"]["format"])
    findings = document["findings"] or ()
    return Advice(
        tuple(Finding(row["rule"], row["cost_ps"], row["share"], row["evidence"]) for row in findings),
        backend=types.pop() if len(types) == 1 else "",
        xla=form is not None and form.xla,
        program=_program(form),
    )


def _program(form: formats.Format | None) -> Program:
    """The framework of a report of schema 1, which has only the format: the one that mostly writes it."""
    names = {**FORMATS, "jax-json": Framework.JAX}
    framework = names.get(form.name) if form else None
    return Program(framework, f"the format {form.name}") if form and framework else Program()


def _like(table: pd.DataFrame, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows as a frame with the columns of `table`; one that the rows lack is null."""
    keys = {name: _COLUMNS.get(name, name) for name in table.columns}
    there = {name: key for name, key in keys.items() if all(key in row for row in rows)}
    return frame(dtypes(table), {name: [row[key] for row in rows] for name, key in there.items()}, len(rows))


def _breakdown(empty: Breakdown, document: Mapping[str, Any]) -> Breakdown:
    """A breakdown with the tables that schema 1 holds of each."""
    times = document["concurrency"] or []
    return replace(
        empty,
        overlap=_like(empty.overlap, document["overlap"]),
        pairs=_like(empty.pairs, document["device_pairs"]),
        concurrency=frame(dtypes(empty.concurrency), {"devices": range(len(times)), "time_ps": times}),
    )
