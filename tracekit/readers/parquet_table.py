"""A table of Parquet that may be damaged: its columns as numbers and texts, whatever types they have.

No metadata of pandas is asked, which may be damaged too, and speak of other columns.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from tracekit.readers.losses import Lost
from tracekit.vocabulary.losses import Loss

_MOST = 1 << 63


@dataclass(frozen=True)
class ParquetTable:
    """A table, called after its file. Of a column that it lacks all is null; of two of one name it has the first.

    What is of another type is null too, and counted, where the method is given a list of what is lost.
    """

    name: str
    columns: pa.Table

    def __contains__(self, column: str) -> bool:
        return column in self.columns.schema.names

    def __len__(self) -> int:
        rows: int = self.columns.num_rows
        return rows

    def integers(self, column: str, lost: list[Lost] | None = None) -> pd.arrays.IntegerArray:
        """A column of numbers, null where they are not whole."""
        cells = self._cells(column)
        kind, bad = cells.type, np.zeros(len(cells), bool)
        is_null = cells.is_null(nan_is_null=pa.types.is_floating(kind)).to_numpy()
        if pa.types.is_integer(kind):
            numbers = cells.fill_null(0).to_numpy()
            bad = numbers >= np.uint64(_MOST) if kind == pa.uint64() else bad
            values = numbers.astype(np.int64)
        elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            numbers = np.where(is_null, 0, cells.cast(pa.float64(), safe=False).to_numpy())
            bad = ~(np.abs(numbers) < _MOST) | (numbers != np.trunc(numbers))
            values = np.where(bad, 0, numbers).astype(np.int64)
        else:
            bad, values = ~is_null, np.zeros(len(cells), np.int64)
        self._count(column, int(bad.sum()), "integers", lost)
        return pd.arrays.IntegerArray(values, is_null | bad)

    def texts(self, column: str, lost: list[Lost] | None = None) -> pd.Series:
        """A column of texts, null where bytes are none."""
        cells = self._cells(column)
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
            self._count(column, len(cells) - cells.null_count, "texts", lost)
            return pd.Series([None] * len(cells), dtype="str")
        try:
            cells.validate(full=True)
        except pa.ArrowInvalid:  # one bad byte must not cost the file
            whole = pa.array(map(_text, cells.cast(pa.large_binary()).to_pylist()), pa.large_string())
            self._count(column, whole.null_count - cells.null_count, "texts", lost)
            cells = whole
        return pd.Series(cells.to_pandas(), dtype="str")

    def _cells(self, column: str) -> pa.ChunkedArray:
        places = self.columns.schema.get_all_field_indices(column)
        return self.columns.column(places[0]) if places else pa.chunked_array([pa.nulls(len(self))])

    def _count(self, column: str, bad: int, what: str, lost: list[Lost] | None) -> None:
        if bad and lost is not None:
            evidence = f"{column} in {self.name} contains values that are not {what}"
            lost.append(Lost(Loss.DETAILS, bad, len(self), evidence))


def _text(part: bytes | None) -> str | None:
    try:
        return None if part is None else part.decode()
    except UnicodeDecodeError:
        return None
