"""A report as files and back: figures and sentences in summary.json, frames in Parquet beside it."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd

from tracekit.analysis.advice import Advice, Finding
from tracekit.analysis.explain import ANALYSES
from tracekit.columns import frame
from tracekit.devices import type_of
from tracekit.errors import TracekitError
from tracekit.files import replaced
from tracekit.readers import formats
from tracekit.report.build import analyse
from tracekit.report.model import Origin, Report, Stretch
from tracekit.report.summary import SCHEMA, summary
from tracekit.trace import EVENT_COLUMNS, Trace

SUMMARY, FRAMES = "summary.json", "frames"
# The key of summary.json that holds what `load` needs and no other key says.
_STATE = "report"
_REMEDY = "Make the report again from its trace: tracekit report TRACE."


def save(report: Report, directory: str | Path) -> Path:
    """Write summary.json and the frames of a report into `directory`, made if need be, and return it.

    Each file is complete or not there. Raises TracekitError where it cannot be written.
    """
    out = Path(directory)
    frames: dict[str, pd.DataFrame] = {}
    state = _plain(report, "", frames)
    held = summary(report) | {_STATE: {"fields": state, "frames": {name: _dtypes(frames[name]) for name in frames}}}
    try:
        (out / FRAMES).mkdir(parents=True, exist_ok=True)
        for name, table in frames.items():
            _replaced(out / FRAMES / f"{name}.parquet", _writer(table))
        for file in (out / FRAMES).glob("*.parquet"):  # of a report that was there before
            if file.stem not in frames:
                file.unlink()
        text = json.dumps(held, indent=1) + "\n"
        _replaced(out / SUMMARY, lambda path: path.write_text(text, "utf-8"))
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
        held = json.loads((place / SUMMARY).read_text("utf-8"))
    except FileNotFoundError:
        raise TracekitError(f"{place} holds no report: {SUMMARY} is not there.") from None
    except (OSError, ValueError) as error:
        raise TracekitError(f"{place / SUMMARY} cannot be read: {error}. {_REMEDY}") from None
    schema = held.get("schema") if isinstance(held, dict) else None
    if schema == 1:
        return _of_schema_1(held, place)
    if schema != SCHEMA or not isinstance(held.get(_STATE), dict):
        raise TracekitError(
            f"{place / SUMMARY} has schema {schema}, this version of tracekit reads {SCHEMA}. {_REMEDY}"
        )
    try:
        dtypes = held[_STATE]["frames"]
        report = _restored(Report, held[_STATE]["fields"], lambda name: _frame(place, name, dtypes[name]))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise TracekitError(f"The report in {place} is damaged: {error}. {_REMEDY}") from None
    assert isinstance(report, Report)
    return report


def _of_schema_1(held: Mapping[str, Any], place: Path) -> Report:
    """The report in a summary.json of schema 1, which held no frames: its tables, figures and sentences; of the
    explanation only the findings."""
    empty = analyse(Trace(frame(EVENT_COLUMNS)))
    why = f"{place / SUMMARY} is of schema 1, which does not hold this. {_REMEDY}"
    try:
        explanation = replace(
            empty.explanation,
            **{
                task.name: replace(getattr(empty.explanation, task.name), lacking=held["lacking"].get(task.name, why))
                for task in ANALYSES
            },
        )
        devices = [{**device, **device["partition"]} for device in held["devices"]]
        counts = [
            {"device": device["device"], "kind": kind, "intervals": device["kinds"][key]["intervals"]}
            for device in devices
            for kind, key in (("compute", "compute"), ("collective", "collective"), ("memcpy", "memory"))
        ]
        window = held["trace"]["window_ps"]
        start = devices[0]["window_start_ps"] if devices else 0
        stretches = [{"name": phase["name"], **row} for phase in held["phases"] for row in phase["stretch"]]
        return replace(
            empty,
            trace=Origin(
                source=held["trace"]["source"],
                format=held["trace"]["format"],
                hosts=tuple(held["trace"]["hosts"]),
                runs=tuple(held["trace"]["runs"]),
                models=(),
                clocks=_like(empty.trace.clocks, held["trace"]["clocks"]),
                intervals=_like(empty.trace.intervals, counts),
            ),
            windows={} if window is None else {"": np.array([[start, start + window]], np.int64)},
            clock_of={device["device"]: "" for device in devices},
            whole=replace(_stretch_of(empty.whole, held), partition=_like(empty.whole.partition, devices)),
            phasing=replace(
                empty.phasing,
                table=_like(empty.phasing.table, held["phases"]),
                stretch=_like(empty.phasing.stretch, stretches),
            ),
            inside={
                phase["name"]: _stretch_of(replace(empty.whole, name=phase["name"]), phase) for phase in held["phases"]
            },
            verdicts=held["verdicts"],
            headline=held["headline"],
            notes=(*held["notes"], why),
            known_by=_like(empty.known_by, held["known_by"]),
            guessed=_like(empty.guessed, held["guessed"]),
            explanation=explanation,
            advice=Advice(
                tuple(
                    Finding(row["rule"], row["cost_ps"], row["share"], row["evidence"])
                    for row in held["findings"] or ()
                ),
                backend=_only({type_of(device["device"]) for device in devices}),
                xla=(form := formats.named(held["trace"]["format"])) is not None and form.xla,
            ),
            compared=tuple(held["compared"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TracekitError(f"{place / SUMMARY} is damaged: {error!r}. {_REMEDY}") from None


def _like(table: pd.DataFrame, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows as a frame with the columns of `table`."""
    return frame(_dtypes(table), {name: [row[name] for row in rows] for name in table.columns})


def _stretch_of(empty: Stretch, held: Mapping[str, Any]) -> Stretch:
    """A stretch with the tables that schema 1 holds of each."""
    times = held["concurrency"] or []
    return replace(
        empty,
        overlap=_like(empty.overlap, held["overlap"]),
        pairs=_like(empty.pairs, held["device_pairs"]),
        concurrency=frame(_dtypes(empty.concurrency), {"devices": range(len(times)), "time_ps": times}),
    )


def _only(values: set[str]) -> str:
    return values.pop() if len(values) == 1 else ""


def _writer(table: pd.DataFrame) -> Callable[[Path], object]:
    return lambda path: table.to_parquet(path, index=False, compression="zstd")


def _replaced(path: Path, fill: Callable[[Path], object]) -> None:
    replaced(path, fill)


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
