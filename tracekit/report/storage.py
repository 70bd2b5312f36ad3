"""A report as files and back: figures and sentences in summary.json, frames in Parquet beside it.

The keys of summary.json are documented in docs/summary.md; none is renamed within a schema.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd

from tracekit.analysis.advice import Advice, Finding
from tracekit.analysis.explain import ANALYSES
from tracekit.columns import frame, records
from tracekit.devices import type_of
from tracekit.errors import TracekitError
from tracekit.files import replaced
from tracekit.intervals import total
from tracekit.readers import formats
from tracekit.report.build import analyse
from tracekit.report.model import Origin, Report, Stretch
from tracekit.report.section import plain, plain_value
from tracekit.report.sections.sections import highlights, in_one_line
from tracekit.timeline.unions import CELLS
from tracekit.trace import EVENT_COLUMNS, Trace

SCHEMA = 2
SUMMARY, FRAMES = "summary.json", "frames"
MAX_GUESSES = 20
# The key of summary.json that holds what `load` needs and no other key says.
_STATE = "report"
_REMEDY = "Make the report again from its trace: tracekit report TRACE."
_NO_ROWS = "the trace holds no device rows"
_NOT_ALIGNED = "the hosts' clocks are not aligned"


def summary(report: Report) -> dict[str, Any]:
    """The report as plain data: integers are picoseconds, ratios in 0..1, a missing figure None with its reason."""
    trace, whole = report.trace, report.whole
    windows = list(report.windows.values())
    aligned = len(windows) < 2
    return {
        "schema": SCHEMA,
        "trace": {
            "source": trace.source,
            "format": trace.format,
            "hosts": list(trace.hosts),
            "window_ps": total(windows[0]) if len(windows) == 1 else None,
            "window_reason": _NO_ROWS if not windows else None if aligned else _NOT_ALIGNED,
            "runs": list(trace.runs),
            "clocks": plain(trace.clocks),
        },
        "headline": report.headline,
        "devices": _devices(report),
        "overlap": plain(whole.overlap),
        "device_pairs": plain(whole.pairs),
        "concurrency": _concurrency(whole),
        "concurrency_reason": None if aligned else _NOT_ALIGNED,
        "parallelism": whole.parallelism,
        "phases": [_phase(report, row) for row in records(report.phases)],
        "verdicts": report.verdicts,
        "important": [*map(in_one_line, highlights(report.sections))],
        "compared": list(report.compared),
        **{section.key: None if section.lacking else section.data for section in report.sections},
        "lacking": {section.key: section.lacking for section in report.sections if section.lacking},
        "known_by": plain(report.known_by),
        "guessed": plain(report.guessed.head(MAX_GUESSES)),
        "notes": list(report.notes),
    }


def save(report: Report, directory: str | Path) -> Path:
    """Write summary.json and the frames of a report into `directory`, made if need be, and return it.

    Each file is complete or not there. Raises TracekitError where it cannot be written.
    """
    out = Path(directory)
    frames: dict[str, pd.DataFrame] = {}
    state = _plain(report, "", frames)
    document = summary(report) | {_STATE: {"fields": state, "frames": {name: _dtypes(frames[name]) for name in frames}}}
    try:
        (out / FRAMES).mkdir(parents=True, exist_ok=True)
        for name, table in frames.items():
            replaced(out / FRAMES / f"{name}.parquet", partial(table.to_parquet, index=False, compression="zstd"))
        for file in (out / FRAMES).glob("*.parquet"):  # of a report that was there before
            if file.stem not in frames:
                file.unlink()
        text = json.dumps(document, indent=1) + "\n"
        replaced(out / SUMMARY, lambda path: path.write_text(text, "utf-8"))
    except OSError as error:
        raise TracekitError(f"The report cannot be written to {out}: {error}. Give another --out.") from None
    return out


def is_saved(directory: str | os.PathLike[str]) -> bool:
    """Whether a report was saved into `directory`."""
    return (Path(directory) / SUMMARY).is_file()


def load(directory: str | os.PathLike[str]) -> Report:
    """The report that was saved into `directory`: equal to the one that was saved.

    A summary.json of schema 1 gives what it holds; what it lacks is empty, and `lacking` says why. Raises TracekitError
    where there is none, or where it is of a schema that this version does not know.
    """
    place = Path(directory)
    try:
        document = json.loads((place / SUMMARY).read_text("utf-8"))
    except FileNotFoundError:
        raise TracekitError(f"{place} holds no report: {SUMMARY} is not there.") from None
    except (OSError, ValueError) as error:
        raise TracekitError(f"{place / SUMMARY} cannot be read: {error}. {_REMEDY}") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema == 1:
        return _of_schema_1(document, place)
    if schema != SCHEMA or not isinstance(document.get(_STATE), dict):
        raise TracekitError(
            f"{place / SUMMARY} has schema {schema}, this version of tracekit reads {SCHEMA}. {_REMEDY}"
        )
    try:
        dtypes = document[_STATE]["frames"]
        report = _restored(Report, document[_STATE]["fields"], lambda name: _frame(place, name, dtypes[name]))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise TracekitError(f"The report in {place} is damaged: {error}. {_REMEDY}") from None
    assert isinstance(report, Report)
    return report


def _concurrency(stretch: Stretch) -> list[int] | None:
    """The time with exactly k devices busy; None where their clocks are not aligned."""
    times = [int(time) for time in stretch.concurrency["time_ps"]]
    return times or None


def _devices(report: Report) -> list[dict[str, Any]]:
    counts = report.trace.intervals.set_index(["device", "kind"])["intervals"]
    devices = []
    for row in records(report.whole.partition):
        union_ps = {"compute": 0, "collective": 0, "memory": 0}
        for cell in CELLS[1:]:
            for kind in cell.split("+"):
                union_ps[kind] += row[cell]
        number = {
            kind: int(counts.get((row["device"], kind), 0)) for kind in ("compute", "collective", "memcpy", "memset")
        }
        number["memory"] = number.pop("memcpy") + number.pop("memset")
        devices.append(
            {
                **{key: row[key] for key in ("device", "window_start_ps", "window_ps", "span_ps", "busy_ps")},
                "kinds": {kind: {"intervals": number[kind], "union_ps": union_ps[kind]} for kind in union_ps},
                "partition": {cell: row[cell] for cell in CELLS},
            }
        )
    return devices


def _phase(report: Report, row: dict[str, Any]) -> dict[str, Any]:
    name = row["name"]
    inside: Stretch = report.inside[name]
    stretch = report.stretch[report.stretch["name"] == name].drop(columns="name")
    return {
        **{key: plain_value(value) for key, value in row.items()},
        "busy": plain(inside.partition[["device", "busy_ps"]]),
        "stretch": plain(stretch),
        "overlap": plain(inside.overlap),
        "device_pairs": plain(inside.pairs),
        "concurrency": _concurrency(inside),
        "parallelism": inside.parallelism,
        "verdict": report.verdicts[name],
    }


def _of_schema_1(document: Mapping[str, Any], place: Path) -> Report:
    """The report in a summary.json of schema 1, which has no frames: its tables, figures and sentences; of the
    explanation only the findings."""
    empty = analyse(Trace(frame(EVENT_COLUMNS)))
    why = f"{place / SUMMARY} is of schema 1, which does not hold this. {_REMEDY}"
    try:
        explanation = replace(
            empty.explanation,
            **{
                task.name: replace(
                    getattr(empty.explanation, task.name), lacking=document["lacking"].get(task.name, why)
                )
                for task in ANALYSES
            },
        )
        devices = [{**device, **device["partition"]} for device in document["devices"]]
        counts = [
            {"device": device["device"], "kind": kind, "intervals": device["kinds"][key]["intervals"]}
            for device in devices
            for kind, key in (("compute", "compute"), ("collective", "collective"), ("memcpy", "memory"))
        ]
        types = {type_of(device["device"]) for device in devices}
        window = document["trace"]["window_ps"]
        start = devices[0]["window_start_ps"] if devices else 0
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
                intervals=_like(empty.trace.intervals, counts),
            ),
            windows={} if window is None else {"": np.array([[start, start + window]], np.int64)},
            clock_of={device["device"]: "" for device in devices},
            whole=replace(_stretch_of(empty.whole, document), partition=_like(empty.whole.partition, devices)),
            phasing=replace(
                empty.phasing,
                table=_like(empty.phasing.table, document["phases"]),
                stretch=_like(empty.phasing.stretch, stretches),
            ),
            inside={
                phase["name"]: _stretch_of(replace(empty.whole, name=phase["name"]), phase)
                for phase in document["phases"]
            },
            verdicts=document["verdicts"],
            headline=document["headline"],
            notes=(*document["notes"], why),
            known_by=_like(empty.known_by, document["known_by"]),
            guessed=_like(empty.guessed, document["guessed"]),
            explanation=explanation,
            advice=Advice(
                tuple(
                    Finding(row["rule"], row["cost_ps"], row["share"], row["evidence"])
                    for row in document["findings"] or ()
                ),
                backend=types.pop() if len(types) == 1 else "",
                xla=(form := formats.named(document["trace"]["format"])) is not None and form.xla,
            ),
            compared=tuple(document["compared"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TracekitError(f"{place / SUMMARY} is damaged: {error!r}. {_REMEDY}") from None


def _like(table: pd.DataFrame, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows as a frame with the columns of `table`."""
    return frame(_dtypes(table), {name: [row[name] for row in rows] for name in table.columns})


def _stretch_of(empty: Stretch, document: Mapping[str, Any]) -> Stretch:
    """A stretch with the tables that schema 1 holds of each."""
    times = document["concurrency"] or []
    return replace(
        empty,
        overlap=_like(empty.overlap, document["overlap"]),
        pairs=_like(empty.pairs, document["device_pairs"]),
        concurrency=frame(_dtypes(empty.concurrency), {"devices": range(len(times)), "time_ps": times}),
    )


def _dtypes(frame: pd.DataFrame) -> dict[str, str | list[str]]:
    """The dtype of each column; of a categorical one its categories, of which Parquet keeps those that occur."""
    return {
        str(name): list(dtype.categories) if isinstance(dtype, pd.CategoricalDtype) else str(dtype)
        for name, dtype in frame.dtypes.items()
    }


def _frame(place: Path, name: str, dtypes: Mapping[str, str | list[str]]) -> pd.DataFrame:
    frame = pd.read_parquet(place / FRAMES / f"{name}.parquet")
    return frame.astype(
        {
            column: dtype if isinstance(dtype, str) else pd.CategoricalDtype(pd.Index(dtype, dtype="str"))
            for column, dtype in dtypes.items()
        }
    )


def _plain(value: Any, name: str, frames: dict[str, pd.DataFrame]) -> Any:
    """`value` as JSON has it; a frame goes into `frames`, and its name stands in its place."""
    if isinstance(value, pd.DataFrame):
        frames[name] = value
        return name
    if is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name), f"{name}.{field.name}".lstrip("."), frames)
            for field in fields(value)
        }
    if isinstance(value, Mapping):
        # Names of phases and devices may hold anything, so files are numbered.
        return {key: _plain(part, f"{name}.{at}", frames) for at, (key, part) in enumerate(value.items())}
    if isinstance(value, tuple | list):
        return [_plain(part, f"{name}.{at}", frames) for at, part in enumerate(value)]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def _restored(kind: Any, data: Any, frame: Callable[[str], pd.DataFrame]) -> Any:
    """What `_plain` made `data` of, a value of the type `kind`."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is pd.DataFrame:
        return frame(data)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{field.name: _restored(hints[field.name], data[field.name], frame) for field in fields(kind)})  # type: ignore[operator]
    if origin in (UnionType, Union):
        (some,) = (part for part in inner if part is not NoneType)
        return None if data is None else _restored(some, data, frame)
    if origin is np.ndarray:
        return np.array(data, np.int64).reshape(-1, 2)
    if origin is tuple:
        kinds = [inner[0]] * len(data) if inner[-1] is Ellipsis else inner
        return tuple(_restored(part, value, frame) for part, value in zip(kinds, data, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _restored(inner[1], value, frame) for key, value in data.items()}
    return data
