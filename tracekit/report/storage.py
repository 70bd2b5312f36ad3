"""Frozen dataclasses of frames and figures as files and back: a summary.json, and each frame in Parquet beside it."""

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd

from tracekit import cores
from tracekit.errors import TracekitError, reason
from tracekit.files import FRAMES, SUMMARY, regular_bytes, writing
from tracekit.readers import unpacking

SCHEMA = 2
# The key of summary.json that holds what `restore` needs and no other key says.
_STATE = "report"
_MOST_THREADS = 4
REMEDY = "Make the report again from its trace: tracekit report TRACE."

# What values of another type, or beyond their range, raise where they are used.
FAULTS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)

T = TypeVar("T")


def write(summary: Mapping[str, Any], value: Any, directory: str | os.PathLike[str]) -> None:
    """Write `summary` and what `restore` needs to give `value`, a dataclass, back; into `directory`, a draft, which is
    made if need be."""
    out = Path(directory)
    frames: dict[str, pd.DataFrame] = {}
    state = _plain(value, "", frames)
    document = {**summary, _STATE: {"fields": state, "frames": {name: dtypes(frames[name]) for name in frames}}}
    (out / FRAMES).mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(cores.threads(_MOST_THREADS)) as pool:  # Arrow holds no GIL while it compresses
        writing = [pool.submit(write_frame, table, out / FRAMES / f"{name}.parquet") for name, table in frames.items()]
    for frame in writing:
        frame.result()
    document[_STATE]["digests"] = {name: _digest((out / FRAMES / f"{name}.parquet").read_bytes()) for name in frames}
    (out / SUMMARY).write_text(_json(document) + "\n", "utf-8")


def write_frame(frame: pd.DataFrame, path: Path, compression: str = "zstd") -> None:
    """Write a frame as Parquet.

    Times and ids follow each other closely, so their differences (DELTA_BINARY_PACKED of Parquet's Encodings.md) take
    half of the time and less than half of the bytes that a dictionary does; what is least and most of texts, which
    nobody asks for, would take a third of the time of all.
    """
    from pyarrow import Table, parquet, types

    table = Table.from_pandas(frame, preserve_index=False)
    integers = [field.name for field in table.schema if types.is_int64(field.type)]
    with writing(path) as file:
        parquet.write_table(
            table,
            file,
            compression=compression,
            use_dictionary=[name for name in table.column_names if name not in integers],
            column_encoding=dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
            write_statistics=integers,
        )


def _digest(content: bytes) -> str:
    """What tells a frame from that of another report, which a copy that was interrupted leaves beside this summary."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _json(value: Any, indent: str = "") -> str:
    """JSON for readers too: what holds no lists and mappings, such as a row of a table, is one line.

    `json.dumps` with an indent is a loop in Python: of 400,000 values, half of the time of writing the tables.
    """
    if not isinstance(value, dict | list) or not any(isinstance(part, dict | list) for part in _parts(value)):
        return json.dumps(value)
    parts, inner = [_json(part, indent + " ") for part in _parts(value)], f"\n{indent} "
    if isinstance(value, list):
        return f"[{inner}{f',{inner}'.join(parts)}\n{indent}]"
    named = [f"{json.dumps(key)}: {part}" for key, part in zip(value, parts, strict=True)]
    return f"{{{inner}{f',{inner}'.join(named)}\n{indent}}}"


def _parts(value: dict[str, Any] | list[Any]) -> Collection[Any]:
    return value if isinstance(value, list) else value.values()


def read(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """The summary.json in `directory`, with its `schema`. Raises TracekitError where there is none."""
    place = Path(directory)
    try:
        document = json.loads(regular_bytes(place / SUMMARY).decode("utf-8"))
    except FileNotFoundError:
        raise TracekitError(f"{place} holds no report: {SUMMARY} is not there.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise TracekitError(f"{place / SUMMARY} cannot be read: {error}. {REMEDY}") from None
    return document if isinstance(document, dict) else {}


def restore(empty: T, document: Mapping[str, Any], directory: str | os.PathLike[str]) -> tuple[T, list[str]]:
    """The dataclass that was written into `directory`, of which `document` is the summary.json, and what is absent.

    What an earlier version did not write has its default, or is null, a column of nulls, or no items; a frame is that
    of `empty`, a value of the same type. Raises TracekitError where the file is of a schema that this version does not
    know, or damaged: where something is malformed, or a figure, text or mapping without a default is absent.
    """
    place, schema = Path(directory), document.get("schema")
    if schema != SCHEMA or not isinstance(document.get(_STATE), dict):
        raise TracekitError(f"{place / SUMMARY} has schema {schema}, this version of tracekit reads {SCHEMA}. {REMEDY}")
    try:
        state = document[_STATE]
        saved = _Saved(place, state["frames"], state.get("digests", {}), empty)
        return saved.value(type(empty), state["fields"], ""), saved.absent
    except (*FAULTS, OSError, SyntaxError) as error:  # of the last, the name of a dtype
        raise TracekitError(f"The report in {place} is damaged: {reason(error)}. {REMEDY}") from None


def dtypes(frame: pd.DataFrame) -> dict[str, str | list[str]]:
    """The dtype of each column; of a categorical one its categories, of which Parquet keeps those that occur."""
    return {
        str(name): list(dtype.categories) if isinstance(dtype, pd.CategoricalDtype) else str(dtype)
        for name, dtype in frame.dtypes.items()
    }


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


class _Saved:
    """What `_plain` made of a value, read back; what the files lack is as in `empty`, and `absent` names it."""

    def __init__(
        self,
        place: Path,
        dtypes: Mapping[str, Mapping[str, str | list[str]]],
        digests: Mapping[str, str],
        empty: Any,
    ) -> None:
        self.place, self.dtypes, self._digests = place, dtypes, digests
        self.absent: list[str] = []
        saved = [place / SUMMARY, *(place / FRAMES).glob("*.parquet")]
        self._files = unpacking.ParquetFiles(sum(file.stat().st_size for file in saved))
        self._empty = {type(value): value for value in _dataclasses(empty)}

    def value(self, kind: Any, data: Any, name: str, empty: Any = None) -> Any:
        """The value of the type `kind`, called `name` in the whole, of which `data` was made."""
        origin, inner = get_origin(kind), get_args(kind)
        # From numpy 2.5 on, NDArray[…] is a named alias, whose own origin is the array.
        origin = get_origin(getattr(origin, "__value__", None)) or origin
        if origin in (UnionType, Union):
            (some,) = (part for part in inner if part is not NoneType)
            return None if data is None else self.value(some, data, name)
        form: Any = str if kind is pd.DataFrame else dict if is_dataclass(kind) else _FORMS.get(origin or kind, object)
        if not isinstance(data, form):
            raise ValueError(f"{name} is {data!r}")
        if kind is pd.DataFrame:
            return self._frame(data, name, empty)
        if is_dataclass(kind):
            hints = get_type_hints(kind)
            return kind(
                **{field.name: self._field(kind, field, hints[field.name], data, name) for field in fields(kind)}
            )  # type: ignore[operator]
        if origin is np.ndarray:
            return np.array(data, np.int64).reshape(-1, 2)
        if origin is tuple:
            kinds = [inner[0]] * len(data) if inner[-1] is Ellipsis else inner
            return tuple(self.value(*part, f"{name}.{at}") for at, part in enumerate(zip(kinds, data, strict=True)))
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {key: self.value(inner[1], value, f"{name}.{key}") for key, value in data.items()}
        return data

    def _field(self, kind: Any, field: Field[Any], hint: Any, data: Mapping[str, Any], name: str) -> Any:
        part = f"{name}.{field.name}".lstrip(".")
        empty = getattr(self._empty.get(kind), field.name, None)
        if field.name in data:
            return self.value(hint, data[field.name], part, empty)
        self.absent.append(part)
        if field.default is not MISSING:
            return field.default
        if field.default_factory is not MISSING:
            return field.default_factory()
        if get_origin(hint) in (UnionType, Union):
            return None
        if hint is pd.DataFrame or is_dataclass(hint):
            return empty
        if get_origin(hint) is tuple:
            return ()
        raise ValueError(f"{part} is absent")

    def _frame(self, stem: str, name: str, empty: pd.DataFrame) -> pd.DataFrame:
        content = regular_bytes(self.place / FRAMES / f"{stem}.parquet")
        if stem in self._digests and self._digests[stem] != _digest(content):
            raise ValueError(f"{FRAMES}/{stem}.parquet is not the one that was saved with {SUMMARY}")
        # pandas' own opens each file as a data set, which takes twice as long; a frame is too small for threads.
        with self._files.opened(content) as file:
            frame: pd.DataFrame = file.read(use_threads=False).to_pandas(use_threads=False)
        dtypes: dict[str, Any] = {
            column: dtype if isinstance(dtype, str) else pd.CategoricalDtype(pd.Index(dtype, dtype="str"))
            for column, dtype in self.dtypes[stem].items()
        }
        # Casts of what has the dtype already took longer than reading; so does a cast of all columns in one.
        have = frame.dtypes
        for there, saved in dtypes.items():
            if have[there] != saved:
                if isinstance(saved, pd.CategoricalDtype) and not (_values(frame[there]) <= {*saved.categories}):
                    raise ValueError(f"{name}.{there} holds what is none of its values")
                frame[there] = frame[there].astype(saved)
        for column, dtype in empty.dtypes.items():
            if column not in frame:
                self.absent.append(f"{name}.{column}")
                frame[column] = pd.array([pd.NA] * len(frame), _NULLABLE.get(str(dtype), dtype))
        return frame


def _values(column: pd.Series) -> set[Any]:
    """The different values of a column but null."""
    return {*(column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column.dropna().unique())}


# What JSON has for values of a type.
_FORMS: Mapping[Any, Any] = {
    str: str,
    bool: bool,
    int: int,
    float: (int, float),
    np.ndarray: list,
    tuple: list,
    Mapping: dict,
}
# The dtypes that hold nulls for those that do not.
_NULLABLE = {"int64": "Int64", "bool": "boolean"}


def _dataclasses(value: Any) -> list[Any]:
    """`value` and the dataclasses in its fields."""
    parts = [getattr(value, field.name) for field in fields(value)]
    return [value, *(inner for part in parts if is_dataclass(part) for inner in _dataclasses(part))]
