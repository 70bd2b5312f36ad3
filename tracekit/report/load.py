"""A report that was saved, read back: one of this version as it was, one of schema 1 as far as it goes."""

import os
from collections.abc import Iterable, Mapping, Sequence
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
from tracekit.errors import TracekitError, reason
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
        return _checked(*_of_schema_1(document, file), directory)
    report, absent = restore(_empty(), document, directory)
    if absent:
        unknown = {
            name: replace(getattr(report.explanation, name), lacking=f"{file} holds no {name}. {REMEDY}")
            for name in _ANALYSES
            if {"explanation", f"explanation.{name}"} & {*absent}
        }
        note = f"{file}, of another version of tracekit, does not hold {', '.join(absent)}. {REMEDY}"
        report = replace(report, explanation=replace(report.explanation, **unknown), notes=(*report.notes, note))
    return _checked(report, absent, directory)


def _checked(report: Report, absent: Sequence[str], directory: Path) -> Report:
    """The report, if its parts fit together; `absent` are those that its files lack."""
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


class _Rows:
    """The rows of a summary.json of schema 1 as frames, and the names of the columns that are `absent` from some."""

    def __init__(self) -> None:
        self.absent: dict[str, None] = {}

    def like(self, table: pd.DataFrame, rows: Sequence[Mapping[str, Any]], name: str) -> pd.DataFrame:
        """The rows called `name` as a frame with the columns of `table`; what they lack is null, but for the device
        that they are of. Raises KeyError where they lack that."""
        keys = {column: _COLUMNS.get(column, column) for column in table.columns}
        there = {column: key for column, key in keys.items() if any(key in row for row in rows)}
        if "device" in table and any(row.get("device") is None for row in rows):
            raise KeyError(f"{name}.device")
        if rows:
            lacking = (
                key for column, key in keys.items() if column not in _NEW and not all(key in row for row in rows)
            )
            self.absent |= dict.fromkeys(f"{name}.{key}" for key in lacking)
        columns = {column: [row.get(key) for row in rows] for column, key in there.items()}
        return frame(dtypes(table), columns, len(rows))


def _of_schema_1(document: Mapping[str, Any], file: Path) -> tuple[Report, list[str]]:
    """The report in a summary.json of schema 1, which has no frames: all that its keys hold, and a note of what they
    lack; and the names of the columns that a whole one has."""
    empty, rows = _empty(), _Rows()
    try:
        devices = [{**device, **device["partition"]} for device in document["devices"]]
        counts = [
            {"device": device["device"], "kind": kind, "events": device["kinds"][key]["intervals"]}
            for device in devices
            for kind, key in (("compute", "compute"), ("collective", "collective"), ("memcpy", "memory"))
        ]
        window = document["trace"]["window_ps"]
        start = devices[0]["window_start_ps"] if devices else 0
        verdicts = {name: _text(verdict) for name, verdict in document["verdicts"].items()}
        phase_names = _texts(phase["name"] for phase in document["phases"])
        stretches = [{"name": phase["name"], **row} for phase in document["phases"] for row in phase["stretch"]]
        report = replace(
            empty,
            trace=Origin(
                source=_text(document["trace"]["source"]),
                format=_text(document["trace"]["format"]),
                hosts=_texts(document["trace"]["hosts"]),
                runs=_texts(document["trace"]["runs"]),
                models=(),
                clocks=rows.like(empty.trace.clocks, document["trace"]["clocks"], "trace.clocks"),
                events=rows.like(empty.trace.events, counts, "devices"),
            ),
            windows={} if window is None else {"": np.array([[start, start + window]], np.int64)},
            clock_of={device["device"]: "" for device in devices},
            whole=replace(
                _breakdown(empty.whole, document, rows, ""),
                partition=rows.like(empty.whole.partition, devices, "devices"),
            ),
            phases=replace(
                empty.phases,
                table=rows.like(empty.phases.table, document["phases"], "phases"),
                stretch=rows.like(empty.phases.stretch, stretches, "phases.stretch"),
            ),
            inside={
                phase["name"]: replace(
                    _breakdown(replace(empty.whole, name=phase["name"]), phase, rows, "phases."),
                    partition=_busy_only(empty.whole.partition, phase["busy"]),
                )
                for phase in document["phases"]
            },
            verdict=next((verdicts[name] for name in verdicts if name not in phase_names), None),
            verdicts={name: verdicts[name] for name in phase_names},
            headline=_text(document["headline"]),
            notes=(*_texts(document["notes"]), _note(document, file)),
            known_by=rows.like(empty.known_by, document["known_by"], "known_by"),
            guessed=rows.like(
                empty.guessed, [row | {"events": row["intervals"]} for row in document["guessed"]], "guessed"
            ),
            explanation=_explanation(empty.explanation, document, file, rows),
            advice=_advice(document),
            compared=_texts(document["compared"]),
        )
    except FAULTS as error:
        raise TracekitError(f"{file} is damaged: {reason(error)}. {REMEDY}") from None
    absent = [*rows.absent]
    if absent:
        report = replace(report, notes=(*report.notes, f"{file} does not hold {', '.join(absent)}. {REMEDY}"))
    return report, absent


# What schema 1 does not hold of an analysis, and the keys of what it holds under another name than that of the field.
_UNKNOWN = {"gaps", "depth", "by_host", "by_group", "lacking", "busy_ratio", "queued_ratio", "unexplained", "is_part"}
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
# The columns that schema 1 knew nothing of.
_NEW = frozenset(
    {"drift_ppm", "known_ps", "known_ratio", "known_flops_per_s", "known_flops_ratio", "peak_of", "last_end_ps"}
    | {"gain_ps"}
)
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


def _explanation(empty: Explanation, document: Mapping[str, Any], file: Path, rows: _Rows) -> Explanation:
    """The explanation with every table of schema 1, and where it has none the reason why."""
    reasons = document["lacking"]
    results = {}
    for name in _ANALYSES:
        nothing, data = getattr(empty, name), document.get(name)
        if data is None:
            missing = f"{file}, of schema 1, holds no {name}. {REMEDY}"
            results[name] = replace(nothing, lacking=_text(reasons.get(name) or missing))
        elif name == "critical_path" and all(step["shown"] != "median" for step in data["steps"]):
            missing = f"{file}, of schema 1, does not hold the step of median length among its first steps. {REMEDY}"
            results[name] = replace(nothing, lacking=missing)
        else:
            keys = {field.name: field.name for field in fields(nothing) if field.name not in _UNKNOWN}
            keys |= _KEYS.get(name, {})
            values = {
                field: _value(getattr(nothing, field), data[key], rows, f"{name}.{key}") for field, key in keys.items()
            }
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
    number = None if document["compared"] else sum(intervals)
    return replace(empty, **results, devices=len(document["devices"]), rows=number)


def _text(value: Any) -> str:
    """The value. Raises TypeError where it is no text."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    """The values. Raises TypeError where one is no text."""
    return tuple(map(_text, values))


def _value(empty: Any, value: Any, rows: _Rows, key: str) -> Any:
    """What a key of schema 1 holds, as a value of the type of `empty`."""
    if isinstance(empty, pd.DataFrame):
        return rows.like(empty, [value] if isinstance(value, Mapping) else value, key)
    return "" if value is None else _texts(value) if isinstance(value, list) else value


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


def _breakdown(empty: Breakdown, document: Mapping[str, Any], rows: _Rows, place: str) -> Breakdown:
    """A breakdown with the tables that schema 1 holds of each, in the keys that begin with `place`."""
    times = document["concurrency"] or []
    return replace(
        empty,
        overlap=rows.like(empty.overlap, document["overlap"], f"{place}overlap"),
        pairs=rows.like(empty.pairs, document["device_pairs"], f"{place}device_pairs"),
        concurrency=frame(dtypes(empty.concurrency), {"devices": range(len(times)), "time_ps": times}),
    )
