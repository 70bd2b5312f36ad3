"""The frames of a trace as tables: Parquet, Arrow, CSV and JSON lines, all from the same Arrow table.

From Parquet and Arrow the dtypes come back as the contract of the frames says (docs/events-frame.md). CSV and JSON have
no categories and no dtypes; null is an empty field, or null.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from tracekit.columns import categorical, no_formula
from tracekit.export import FRAMES, gz
from tracekit.export.protobuf_encoder import utf8
from tracekit.files import writing
from tracekit.trace import Trace
from tracekit.version import __version__

SCHEMA = 1
_AT_ONCE = 2**14  # rows that are made text at once


def about(trace: Trace) -> dict[str, Any]:
    """What every table says of its trace."""
    return {
        "schema": SCHEMA,
        "tracekit": __version__,
        "source": trace.source,
        "format": trace.format,
        "runs": list(trace.runs),
        "notes": list(trace.notes),
    }


def contents(trace: Trace, suffix: str) -> dict[str, Any]:
    """What `trace.json` beside the tables says of the trace, and of each file: its rows, the dtypes of its columns."""
    frames = {}
    for name in FRAMES:
        table: pd.DataFrame = getattr(trace, name)
        columns = {str(column): str(dtype) for column, dtype in table.dtypes.items()}
        frames[name] = {"file": name + suffix, "rows": len(table), "columns": columns}
    return {**about(trace), "frames": frames}


def table(trace: Trace, name: str, relabel: Callable[[str], str] = lambda label: label) -> pa.Table:
    """One frame as an Arrow table, its categories passed through `relabel`; lone surrogates are written as escapes."""
    frame: pd.DataFrame = getattr(trace, name)
    columns = {column: _readable(frame[column], relabel) for column in frame}
    arrow = pa.Table.from_pandas(pd.DataFrame(columns, index=frame.index), preserve_index=False)
    for place, field in enumerate(arrow.schema):
        if pa.types.is_dictionary(field.type) and pa.types.is_null(field.type.value_type):
            # Without categories, from_pandas cannot tell that they would be text.
            nulls = pa.array(np.zeros(len(frame), np.int8), mask=np.ones(len(frame), bool))
            column = pa.DictionaryArray.from_arrays(nulls, pa.array([], pa.large_string()))
            arrow = arrow.set_column(place, field.name, column)
    metadata = {**(arrow.schema.metadata or {}), "tracekit": json.dumps({**about(trace), "frame": name})}
    return arrow.replace_schema_metadata(metadata)


def _readable(column: pd.Series, relabel: Callable[[str], str]) -> pd.Series:
    """The column with labels that every format can hold."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column
    before = [str(label) for label in column.cat.categories]
    after = [relabel(utf8(label).decode()) for label in before]
    if before == after:
        return column
    # Null has code -1: the last of the labels.
    return pd.Series(categorical([*after, None], column.cat.codes.to_numpy().astype(np.int64)), index=column.index)


def write(trace: Trace, name: str, path: Path, to: str, gzip: bool = False) -> None:
    """Write one frame as Parquet or as an Arrow IPC file, which is also Feather, both compressed with zstd inside; as
    CSV; or as JSON lines, one object a row, integers exact. `gzip` compresses the last two.

    In CSV, a text that a spreadsheet would take for a formula stands behind a `'`, and so does one that begins with it.
    """
    if to in ("parquet", "arrow"):
        write_table = pa.parquet.write_table if to == "parquet" else pa.feather.write_feather
        with writing(path) as file:
            write_table(table(trace, name), file, compression="zstd")
    elif to == "csv":
        marked = table(trace, name, no_formula)
        gz.write(path, _csv_blocks(marked), gzip)
    else:
        gz.write(path, _json_blocks(table(trace, name)), gzip)


def _csv_blocks(table: pa.Table) -> Iterator[bytes]:
    for first in range(0, max(table.num_rows, 1), _AT_ONCE):
        sink = pa.BufferOutputStream()
        options = pa.csv.WriteOptions(include_header=first == 0)
        pa.csv.write_csv(table.slice(first, _AT_ONCE), sink, options)
        yield sink.getvalue().to_pybytes()


def _json_blocks(table: pa.Table) -> Iterator[bytes]:
    keys = {column: f"{json.dumps(column)}: " for column in table.column_names}
    for first in range(0, table.num_rows, _AT_ONCE):
        part = table.slice(first, _AT_ONCE).combine_chunks()
        fields = [_json_fields(part[column].combine_chunks(), key) for column, key in keys.items()]
        inside = pc.binary_join_element_wise(*fields, _text(", "))
        lines = pc.binary_join_element_wise(_text("{"), inside, _text("}\n"), _text(""))
        _, offsets, data = lines.buffers()
        first_byte, last_byte = np.frombuffer(offsets, np.int64)[[0, len(lines)]].tolist()
        yield data.slice(first_byte, last_byte - first_byte).to_pybytes()


def _text(value: str) -> pa.Scalar:
    return pa.scalar(value, pa.large_string())


def _json_fields(column: pa.Array, key: str) -> pa.Array:
    """`"key": value` for each value of a column."""
    if pa.types.is_dictionary(column.type):
        labels = [key + json.dumps(label, ensure_ascii=False) for label in column.dictionary.to_pylist()]
        texts = pa.array(labels, pa.large_string()).take(column.indices)
    else:
        if pa.types.is_floating(column.type):  # JSON has no infinity
            column = pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
        texts = pc.binary_join_element_wise(_text(key), column.cast(pa.large_string()), _text(""))
    return texts.fill_null(f"{key}null")
