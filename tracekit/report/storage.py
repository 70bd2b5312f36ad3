"""Frozen dataclasses of frames and figures as files and back: a summary.json, and each frame in Parquet beside it."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd

from tracekit.errors import TracekitError
from tracekit.files import replaced

SCHEMA = 2
SUMMARY, FRAMES = "summary.json", "frames"
# The key of summary.json that holds what `restore` needs and no other key says.
_STATE = "report"
REMEDY = "Make the report again from its trace: tracekit report TRACE."

T = TypeVar("T")


def write(summary: Mapping[str, Any], value: Any, directory: str | os.PathLike[str]) -> Path:
    """Write `summary` and what `restore` needs to give `value`, a dataclass, back; into `directory`, which is made if
    need be and returned.

    Each file is complete or not there. Raises TracekitError where it cannot be written.
    """
    out = Path(directory)
    frames: dict[str, pd.DataFrame] = {}
    state = _plain(value, "", frames)
    document = {**summary, _STATE: {"fields": state, "frames": {name: dtypes(frames[name]) for name in frames}}}
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
    """Whether a report was saved into `directory`: a summary.json there may be that of another program."""
    try:
        document = read(directory)
    except TracekitError:
        return (Path(directory) / FRAMES).is_dir()
    return {"schema", "headline"} <= document.keys()


def read(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """The summary.json in `directory`, with its `schema`. Raises TracekitError where there is none."""
    place = Path(directory)
    try:
        document = json.loads((place / SUMMARY).read_text("utf-8"))
    except FileNotFoundError:
        raise TracekitError(f"{place} holds no report: {SUMMARY} is not there.") from None
    except (OSError, ValueError) as error:
        raise TracekitError(f"{place / SUMMARY} cannot be read: {error}. {REMEDY}") from None
    return document if isinstance(document, dict) else {}


def restore(kind: type[T], document: Mapping[str, Any], directory: str | os.PathLike[str]) -> T:
    """The value of the dataclass `kind` that was written into `directory`, of which `document` is the summary.json.

    Raises TracekitError where it is of a schema that this version does not know, or damaged.
    """
    place, schema = Path(directory), document.get("schema")
    if schema != SCHEMA or not isinstance(document.get(_STATE), dict):
        raise TracekitError(f"{place / SUMMARY} has schema {schema}, this version of tracekit reads {SCHEMA}. {REMEDY}")
    try:
        frames = document[_STATE]["frames"]
        value = _restored(kind, document[_STATE]["fields"], lambda name: _frame(place, name, frames[name]))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise TracekitError(f"The report in {place} is damaged: {error}. {REMEDY}") from None
    assert isinstance(value, kind)
    return value


def dtypes(frame: pd.DataFrame) -> dict[str, str | list[str]]:
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
    # From numpy 2.5 on, NDArray[…] is a named alias, whose own origin is the array.
    origin = get_origin(getattr(origin, "__value__", None)) or origin
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
