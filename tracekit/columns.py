"""Frames with the columns and dtypes that a contract promises: made column by column, joined, and checked.

Rows that are equal in some columns are found here too, with whole columns at a time: no Python object a row.
"""

import mmap
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache, lru_cache
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tracekit import heap
from tracekit.errors import TraceError
from tracekit.jit import loop
from tracekit.units import spelt

# What a spreadsheet takes for a formula where a field of CSV starts with it, also in full width or behind what some of
# them strip, and the mark that keeps it from that: https://owasp.org/www-community/attacks/CSV_Injection
_BLANK, _SIGN = "\\s\x00-\x1f\x7f-\xa0\u200b\u2060\ufeff", "-=+@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"
_FORMULA = re.compile(f"[{_BLANK}]*[{_SIGN}]|[\t\r']")
# Where `;`, as in most of Europe, or a tab is what separates a list, a field begins behind each of them, in quotes too.
_SEPARATORS = frozenset(";\t\r\n")
_INSIDE = re.compile(f"(?<![;{_BLANK}])([;{_BLANK}]++)(?=[{_SIGN}'])")
_NO_FORMULA = "'"
_NO_LABELS = pd.CategoricalDtype(pd.Index([], dtype="str"))
_INTEGERS, _FLOATS = pd.Int64Dtype(), pd.Float64Dtype()
# With more of them per row, a hash table is quicker than a count of each.
_MOST_KEYS = 4
# Columns with more categories than this, or longer ones, have a dtype each: what is shared is kept.
_MOST_SHARED, _MOST_LETTERS = 2048, 200_000
# So many texts of a column are Python's at once.
_TEXTS_AT_ONCE = 1 << 14
# So much, and so much a row, is worth giving back, which looks through all that is free: of six million events of 61
# hosts the peak is 0.86 GB, and 1.31 without.
_WORTH_A_ROW, _WORTH_BYTES = 16, 1 << 26
# Zeros of so many rows on are pages of their own.
_MAPPED_FROM = 1 << 17

N = TypeVar("N", np.int64, np.float64)


def frame(
    columns: Mapping[str, Any],
    data: Mapping[str, Any] | pd.DataFrame | Sequence[Sequence[Any]] = (),
    length: int = 0,
) -> pd.DataFrame:
    """A frame with exactly `columns`, in that order and of those dtypes; what `data` lacks is null.

    `columns` maps name to dtype; "category" takes any categorical of strings, a CategoricalDtype has its categories in
    its order. `data` are columns by name, of one length (further ones are left out), or rows, each with a value per
    column; `length` counts only if there are none. None, NaN and NA are null. Raises ValueError or TypeError where a
    value is not of its column's dtype, or null where that has none, KeyError where `data` lacks such a column.

    The values go straight to their dtype: DataFrame(rows).astype(columns) takes five times as long for a small frame,
    and rounds integers above 2**53 beside a None, which it takes for floats first.
    """
    if not isinstance(data, Mapping | pd.DataFrame):
        data = dict(zip(columns, zip(*data, strict=True), strict=True)) if len(data) else {}
    if len(data.keys()):
        length = len(data) if isinstance(data, pd.DataFrame) else len(next(iter(data.values())))
    elif not length and all(type(dtype) is str for dtype in columns.values()):  # equal dtypes may differ in their order
        return _empty(tuple(columns.items())).copy(deep=False)
    filled = {
        name: _column(data[name], dtype) if name in data else _nulls(name, dtype, length)
        for name, dtype in columns.items()
    }
    return pd.DataFrame(filled, copy=False)


@lru_cache(256)
def _empty(columns: tuple[tuple[str, str], ...]) -> pd.DataFrame:
    """A frame without rows, made once: what a file does not hold is many of them, of half a millisecond each."""
    return pd.DataFrame({name: _nulls(name, dtype, 0) for name, dtype in columns}, copy=False)


def joined(columns: Mapping[str, Any], parts: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """The frame of `columns` whose rows are those of `parts`, one after the other: each part has columns by name, of
    one length, as `frame` takes them; what it lacks is null. Categories are united in order.

    The parts lose each column as it is joined, so that none is held twice for longer; made a frame first, each would be
    filled with nulls, and looked through again for every column that is taken out.
    """
    parts = [part for part in parts if len(part) and len(next(iter(part.values())))]
    lengths = [len(next(iter(part.values()))) for part in parts]
    filled = {}
    for name, dtype in columns.items():
        if not any(name in part for part in parts):
            filled[name] = _nulls(name, dtype, sum(lengths))
            continue
        arrays = [
            _column(part.pop(name), dtype) if name in part else _nulls(name, dtype, length)
            for part, length in zip(parts, lengths, strict=True)
        ]
        filled[name] = _joined(arrays) if len(arrays) > 1 else _only(arrays)
    return pd.DataFrame(filled, copy=False)


def concat(columns: Mapping[str, Any], frames: Iterable[pd.DataFrame], *, is_last_use: bool = False) -> pd.DataFrame:
    """The rows of `frames`, all with `columns`, one after the other; categories are united in order.

    With `is_last_use` each column is taken out of the frames when it is joined: then none is held twice for longer, and
    what many of them took goes back to the system.
    """
    tables = [table for table in frames if len(table)]
    if not tables:
        return frame(columns)
    if not is_last_use:
        return frame(columns, {name: _joined([table[name].array for table in tables]) for name in columns})
    join, data, freed = _joined if len(tables) > 1 else _only, {}, 0
    parts = [taken_out(table) for table in tables]
    for name in columns:
        data[name] = join([part.pop(name) for part in parts])
        freed += data[name].nbytes
        if freed >= max(_WORTH_BYTES, _WORTH_A_ROW * len(data[name])) and join is _joined:
            heap.give_back()
            freed = 0
    return frame(columns, data)


def taken_out(table: pd.DataFrame) -> dict[str, Any]:
    """The columns of a frame by name, which it then lacks. pandas takes several times as long to take them out one
    by one: of the frames of a thousand hosts, some seconds."""
    columns = {str(name): table[name].array for name in table}
    pd.DataFrame.__init__(table, index=table.index)  # type: ignore[call-arg]
    return columns


def categorical(labels: Sequence[str | None] | pa.Array, which: NDArray[np.integer[Any]]) -> pd.Categorical:
    """The categorical column `labels[which]`, without a string per row; None is null, and labels may repeat."""
    if len(labels) > _MOST_SHARED:
        return _of_many(labels, which)
    labels = labels.to_pylist() if isinstance(labels, pa.Array) else labels
    place = {label: code for code, label in enumerate(dict.fromkeys(label for label in labels if label is not None))}
    # Of the width that pandas takes: a column of eight bytes a row less to fill, and to look through for what it is.
    codes = np.array([-1 if label is None else place[label] for label in labels], np.min_scalar_type(~len(place)))
    is_shared = len(place) <= _MOST_SHARED and sum(map(len, place)) <= _MOST_LETTERS
    dtype = _of_labels(tuple(place)) if is_shared else text_dtype(_strings(list(place)))
    return pd.Categorical.from_codes(codes[which], dtype=dtype, validate=False)


def _of_many(labels: Sequence[str | None] | pa.Array, which: NDArray[np.integer[Any]]) -> pd.Categorical:
    """The same of many labels, which Arrow numbers: a dict of them takes 100 bytes a label."""
    if not isinstance(labels, pa.Array):
        try:
            labels = pa.array(labels, pa.large_string())
        except UnicodeEncodeError:
            labels = pa.array([label and spelt(label) for label in labels], pa.large_string())
    encoded = labels.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy()
    if len(encoded.dictionary) < _MOST_SHARED:  # with null one more
        return categorical([*encoded.dictionary.to_pylist(), None], codes[which])
    codes = codes.astype(np.min_scalar_type(~len(encoded.dictionary)))
    return pd.Categorical.from_codes(codes[which], dtype=text_dtype(_index(encoded.dictionary)), validate=False)


def in_order(column: pd.Categorical) -> pd.Categorical:
    """The column with those categories alone that stand in it, in their own order."""
    if len(column) <= _MOST_SHARED:
        return _sorted_categorical([*texts(column)])
    used = rising(column.codes[column.codes >= 0].astype(np.int64))
    categories = arrow_texts(column.categories[used])
    order = pc.sort_indices(categories)
    place = np.full(len(column.categories) + 1, -1, np.min_scalar_type(~len(used)))
    place[used[order.to_numpy()]] = np.arange(len(used))
    dtype = text_dtype(_index(categories.take(order)))
    return pd.Categorical.from_codes(place[column.codes], dtype=dtype, validate=False)


def many(texts: Iterable[str | None]) -> list[str | None] | pa.Array:
    """Labels for `categorical`, a list of few and an array of many, of which few are Python's at once."""
    texts = iter(texts)
    few = [*islice(texts, _MOST_SHARED + 1)]
    if len(few) <= _MOST_SHARED:
        return few
    parts = chain([few], iter(lambda: [*islice(texts, _TEXTS_AT_ONCE)], []))
    return pa.concat_arrays([pa.array(part, pa.large_string()) for part in parts])


def arrow_texts(texts: pd.Index) -> pa.Array:
    """The categories of a column as Arrow has them."""
    array = pa.array(texts, pa.large_string())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _index(texts: pa.Array) -> pd.Index:
    index: pd.Index = pd.Index(pd.array(texts.cast(pa.large_string()), dtype="str"))
    return index


@lru_cache(256)
def _of_labels(labels: tuple[str, ...]) -> pd.CategoricalDtype:
    """A dtype with these categories; the planes of a file share theirs, and columns that do are joined at once."""
    return pd.CategoricalDtype(_strings(labels))


def no_formula(text: str) -> str:
    """`text` as a field of CSV that no spreadsheet takes for a formula, nor what stands in it behind a separator of
    another language."""

    def marked(run: re.Match[str]) -> str:
        return run[0] if _SEPARATORS.isdisjoint(run[0]) else run[0] + _NO_FORMULA

    return (_NO_FORMULA if _FORMULA.match(text) else "") + _INSIDE.sub(marked, text)


def _strings(labels: Sequence[Any]) -> pd.Index:
    index: pd.Index
    try:
        index = pd.Index([*labels], dtype="str")
    except UnicodeEncodeError:
        index = pd.Index([spelt(label) for label in labels], dtype="str")
    return index


def by_label(column: pd.Categorical, value_of: Callable[[str], Any], null: Any = False) -> NDArray[Any]:
    """`value_of` the text in every row of a categorical column, asked once for each text; `null` where it is null."""
    return np.take([*map(value_of, each_label(column)), null], column.codes, axis=0)


def labels(column: pd.Categorical) -> list[str]:
    """The categories of a column; an index of strings takes forty times as long to iterate."""
    texts: list[str] = column.categories.to_numpy(object).tolist()
    return texts


def each_label(column: pd.Categorical) -> Iterable[str]:
    """The categories of a column one after the other, of which few are there at once."""
    if len(column.categories) <= _TEXTS_AT_ONCE:
        return labels(column)
    parts = range(0, len(column.categories), _TEXTS_AT_ONCE)
    return chain.from_iterable(
        column.categories[begin : begin + _TEXTS_AT_ONCE].to_numpy(object).tolist() for begin in parts
    )


def texts(column: pd.Categorical) -> Iterator[Any]:
    """The text of each row, None where it is null; few are there at once."""
    if len(column.categories) <= _TEXTS_AT_ONCE:
        return map([*labels(column), None].__getitem__, column.codes.tolist())
    parts = range(0, len(column), _TEXTS_AT_ONCE)
    return chain.from_iterable(texts_at(column, np.arange(len(column))[begin:][:_TEXTS_AT_ONCE]) for begin in parts)


def texts_at(column: pd.Categorical, places: NDArray[np.integer[Any]]) -> NDArray[np.object_]:
    """The texts of a categorical column in some places, None where it is null. Only those that stand there are made: of
    600,000 categories all take 36 MB, which `astype(object)` of any part of the column takes too."""
    used, which = np.unique(column.codes[places], return_inverse=True)
    texts = column.categories.take(used[used >= 0]).to_numpy(object).tolist()
    if len(used) > len(texts):
        texts = [None, *texts]
    return np.array(texts, object)[which]


def constant(value: str, length: int) -> pd.Categorical:
    """A categorical column that holds `value` `length` times."""
    return categorical([value], np.zeros(length, np.int64))


def distinct(*columns: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which distinct combination of the columns (each (n,)) every row has, in order of appearance, shape (n,), and the
    first row of each."""
    rows = len(columns[0])
    which: NDArray[np.int64] | None = None
    count, first = min(rows, 1), np.zeros(min(rows, 1), np.int64)
    number = loop(_number_as_they_appear, rows, is_worth_starting=False)
    for column in columns:
        codes, values = _codes(column)
        if values < 2:
            continue
        if which is None:
            which = codes  # which is new where it has several values
        else:
            which *= values  # in place, as a column has millions of rows
            which += codes
        count, first = _as_they_appear(which, count * values, number)
    which = np.zeros(rows, np.int64) if which is None else which
    return which, first


def _as_they_appear(key: NDArray[np.int64], count: int, number: Callable[..., int]) -> tuple[int, NDArray[np.int64]]:
    """How many distinct keys there are among these, 0..count-1, and the first row of each; the keys are made their
    numbers in order of appearance, by the loop `number` where it is compiled."""
    is_dense = count <= _MOST_KEYS * len(key)
    if is_dense and number is not _number_as_they_appear:
        first = np.empty(min(count, len(key)), np.int64)
        used = number(key, np.full(count, -1, np.int32), first)
        return used, first[:used].copy()
    codes, keys = numbered(key, count) if is_dense else pd.factorize(key)
    first = np.zeros(len(keys), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    by_row = np.argsort(first)
    place = np.empty(len(keys), np.int64)
    place[by_row] = np.arange(len(keys))
    key[:] = place[codes]
    return len(keys), first[by_row]


def _number_as_they_appear(key: NDArray[np.int64], numbers: NDArray[np.int32], first: NDArray[np.int64]) -> int:
    """Write the number of each key over it, and to `first` where each stands first; `numbers`, one for each key that
    may be there, are -1. How many there are. A seventh of the time of numpy, which goes over the rows six times."""
    count = 0
    for row in range(len(key)):
        number = numbers[key[row]]
        if number < 0:
            number = count
            numbers[key[row]] = number
            first[number] = row
            count += 1
        key[row] = number
    return count


def _codes(column: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """Numbers 0..count-1 for the values of a column, some maybe of none, and their count."""
    if len(column) and isinstance(column.dtype, np.dtype) and column.dtype.kind in "iub":
        least, most = column.min(), column.max()
        count = int(most) - int(least) + 1
        if count <= _MOST_KEYS * len(column):  # as those of names and lines are: in a third of a hash table's time
            if count == 1:
                return column, 1
            if column.dtype == np.uint64:  # may be more than int64 holds
                column = column - least
                least = 0
            codes = column.astype(np.int64)
            codes -= int(least)
            return codes, count
    codes, values = pd.factorize(column, use_na_sentinel=False)
    return codes, len(values)


def rising(values: NDArray[np.int64], without: Sequence[NDArray[np.int64]] = ()) -> NDArray[np.int64]:
    """The distinct values, but for those `without`, in rising order. Of half a million times or ids np.unique, which
    since numpy 2.3 hashes integers, takes 80 to 240 ms, sorting them 24, and a mark for each, where they lie close, 1.
    """
    if not len(values):
        return values
    least, most = int(values.min()), int(values.max())
    if most - least < _MOST_KEYS * len(values):
        is_there = np.zeros(most - least + 1, np.bool_)
        is_there[values - least] = True
        for others in without:
            is_there[others[(others >= least) & (others <= most)] - least] = False
        return np.flatnonzero(is_there) + least
    ordered = np.sort(values)
    ordered = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return np.asarray(ordered[~np.isin(ordered, np.concatenate(without))] if without else ordered)


def distinct_beside(key: NDArray[np.int64], values: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """How many distinct values, 0 or more, stand beside each of the keys 0..count-1 (both (n,)), shape (count,)."""
    pairs = values * count
    pairs += key
    pairs.sort(kind="stable")  # in place, and quickly where the values rise
    is_new = np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]
    return np.bincount(pairs[is_new] % max(count, 1), minlength=count)


def order_by(key: NDArray[np.integer[Any]], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order of n rows by their keys, of equal ones by their values, of equal ones as they stand.

    In linear time where the keys are few and the values come in a few runs that rise, as times of threads do.
    """
    order = np.argsort(values, kind="stable")
    if len(key) and key.min() >= 0:  # numpy orders numbers of at most two bytes in linear time
        key = key.astype(np.min_scalar_type(key.max()))
    return order[np.argsort(key[order], kind="stable")]


def places_of(key: NDArray[np.integer[Any]], count: int) -> list[NDArray[np.int64]]:
    """The places of each of the numbers 0..count-1 in `key` (n,), in order; other numbers are left out."""
    if len(key) and key.dtype.itemsize > 2:  # numpy orders numbers of at most two bytes in linear time
        key = key.astype(np.result_type(np.min_scalar_type(key.min()), np.min_scalar_type(key.max())))
    order = np.argsort(key, kind="stable")
    in_order = key[order]
    heads = np.flatnonzero(np.append(True, in_order[1:] != in_order[:-1])[: len(key)])
    edges = np.append(heads, len(key))[np.searchsorted(in_order[heads], np.arange(count + 1))]
    return np.split(order, edges)[1:-1]


def largest(values: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The places of the `count` largest of the values, the largest first, of equal ones the first."""
    places = np.arange(len(values))
    if len(values) > count:
        # Each of `count` blocks has a value as large as the least of their largest: so many to sort are enough.
        blocks = np.arange(count) * len(values) // count
        places = np.flatnonzero(values >= np.maximum.reduceat(values, blocks).min())
    return np.asarray(places[np.argsort(-values[places], kind="stable")[:count]])


def numbered(key: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Keys 0..count-1 numbered in their order, without gaps, and the key of each number."""
    if count > _MOST_KEYS * len(key):
        return pd.factorize(key, sort=True)
    is_used = np.bincount(key, minlength=count) > 0
    return (np.cumsum(is_used) - 1)[key], np.flatnonzero(is_used)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a small table as dicts."""
    if table.empty:  # as most tables of a small trace are
        return []
    names = [str(name) for name in table.columns]
    columns = (_boxed(table[name]) for name in table.columns)
    # pandas' own takes twice as long.
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _boxed(column: pd.Series) -> list[Any]:
    """The values of a column as Python's own, None where a nullable one is null."""
    values = column.tolist()
    if isinstance(column.dtype, np.dtype) and column.dtype != object:
        return values
    if isinstance(column.dtype, pd.StringDtype | pd.CategoricalDtype):  # what of these is null, pandas makes NaN
        return [None if isinstance(value, float) and np.isnan(value) else value for value in values]
    return [None if value is pd.NA else value.item() if isinstance(value, np.generic) else value for value in values]


def check(what: str, table: pd.DataFrame, columns: Mapping[str, Any], required: Sequence[str] = ()) -> None:
    """Raise TraceError unless `table`, called `what` there, has exactly `columns`, with no null in those `required`."""
    if list(table.columns) != list(columns):
        raise TraceError(f"{what} has columns {list(table.columns)}; the contract wants {list(columns)}.")
    # All dtypes at once: for each column by itself, pandas would make a Series first.
    for (name, dtype), have in zip(columns.items(), table.dtypes, strict=True):
        if isinstance(dtype, pd.CategoricalDtype):
            good = isinstance(have, pd.CategoricalDtype) and list(have.categories) == list(dtype.categories)
        else:
            good = isinstance(have, pd.CategoricalDtype) if _any_strings(dtype) else have == dtype
        if not good:
            raise TraceError(f"{what}.{name} has dtype {have}; the contract wants {dtype}.")
        can_be_null = not isinstance(have, np.dtype) or have.kind not in "iub"
        if len(table) and name in required and can_be_null and _has_null(table[name].array):
            raise TraceError(f"{what}.{name} holds nulls; every row needs one.")


def _has_null(column: Any) -> bool:
    return bool(column.codes.min() < 0 if isinstance(column, pd.Categorical) else column.isna().any())


def _column(values: Any, dtype: Any) -> Any:
    values = values.array if isinstance(values, pd.Series) else values
    have = getattr(values, "dtype", None)
    if _any_strings(dtype):
        if isinstance(have, pd.CategoricalDtype):
            return values
        plain = isinstance(values, list | tuple) and all(value is None or type(value) is str for value in values)
        return _sorted_categorical(values) if plain else pd.Series(values).astype("category").array
    if isinstance(dtype, pd.CategoricalDtype):  # equal dtypes may still order their categories differently
        return _column(values, "category").set_categories(dtype.categories)
    dtype = _dtype(dtype)
    if isinstance(dtype, np.dtype):
        is_safe = have is None or (isinstance(values, np.ndarray) and values.dtype.kind in "iub")
        return np.asarray(values, dtype) if is_safe else pd.Series(values).astype(dtype).array
    if have == dtype:
        return values
    try:
        return pd.array(values, dtype=dtype)
    except UnicodeEncodeError:
        return pd.array([spelt(value) if isinstance(value, str) else value for value in values], dtype=dtype)


def _sorted_categorical(values: Sequence[str | None]) -> pd.Categorical:
    """What `Series.astype("category")` makes of strings, in a quarter of its time where they are few."""
    labels = sorted({value for value in values if value is not None})
    code = {None: -1} | {label: at for at, label in enumerate(labels)}
    codes = np.fromiter(map(code.__getitem__, values), np.int64, len(values))
    is_shared = len(labels) <= _MOST_SHARED and sum(map(len, labels)) <= _MOST_LETTERS
    dtype = _of_labels(tuple(labels)) if is_shared else text_dtype(_strings(labels))
    return pd.Categorical.from_codes(codes, dtype=dtype, validate=False)


def _nulls(name: str, dtype: Any, length: int) -> Any:
    if _any_strings(dtype):
        return pd.Categorical.from_codes(np.full(length, -1, np.int8), dtype=_NO_LABELS, validate=False)
    if isinstance(exact := _dtype(dtype), np.dtype):
        if length:
            raise KeyError(name)
        return np.empty(0, exact)
    if exact == _INTEGERS:
        return pd.arrays.IntegerArray(zeros(length, np.int64), np.ones(length, np.bool_))
    if exact == _FLOATS:
        return pd.arrays.FloatingArray(zeros(length, np.float64), np.ones(length, np.bool_))
    return pd.array([None], dtype=exact).repeat(length)


def zeros(length: int, dtype: type[N]) -> NDArray[N]:
    """Zeros (length,) of eight bytes each, of which those that are not written take no memory: of a large column the
    allocator may have some to give that it must clear first."""
    if length < _MAPPED_FROM or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(length, dtype)
    try:
        pages = mmap.mmap(-1, length * np.dtype(dtype).itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:  # there are as many mappings as there may be, or no memory, which numpy says
        return np.zeros(length, dtype)
    return np.frombuffer(pages, dtype)


@cache
def _dtype(dtype: Any) -> Any:
    return pd.api.types.pandas_dtype(dtype)


def _any_strings(dtype: Any) -> bool:
    """Whether a column may have any strings as categories; a CategoricalDtype is equal to "category" too."""
    return isinstance(dtype, str) and dtype == "category"


def _joined(arrays: Sequence[Any]) -> Any:
    """Arrays of one dtype one after the other; what categoricals of strings are of is united in order.

    pandas.concat and union_categoricals give the same, and take six times as long for small columns.
    """
    if isinstance(arrays[0].dtype, np.dtype):
        return np.concatenate([np.asarray(array) for array in arrays])
    if not isinstance(arrays[0], pd.Categorical):
        length = sum(map(len, arrays))
        if arrays[0].dtype not in (_INTEGERS, _FLOATS) or length < _MAPPED_FROM:
            return type(arrays[0])._concat_same_type(arrays)
        return _joined_numbers(arrays, length)
    first, *others = (array.categories for array in arrays)
    if all(first is other or first.equals(other) for other in others):
        dtype = arrays[0].dtype if first.dtype == "str" and not arrays[0].ordered else text_dtype(first)
        all_codes = np.concatenate([array.codes for array in arrays])
        return pd.Categorical.from_codes(all_codes, dtype=dtype, validate=False)
    # The code of each part's categories among all, and of a null, whose code is -1, after them.
    united, texts = pd.factorize(np.concatenate([array.categories.to_numpy(object) for array in arrays]))
    firsts = np.cumsum([0, *(len(array.categories) for array in arrays)])
    narrow = np.min_scalar_type(~len(texts))  # as pandas has it: half of a column's time and memory
    codes = [
        np.append(united[start:end], -1).astype(narrow)[array.codes]
        for array, start, end in zip(arrays, firsts[:-1], firsts[1:], strict=True)
    ]
    return pd.Categorical.from_codes(np.concatenate(codes), categories=pd.Index(texts, dtype="str"))


def _only(arrays: Sequence[Any]) -> Any:
    """The one array that there is, not copied; a categorical as small as it is when joined."""
    (array,) = arrays
    if isinstance(array, pd.Categorical):
        return _joined(arrays)
    return np.asarray(array) if isinstance(array.dtype, np.dtype) else array


def _joined_numbers(arrays: Sequence[Any], length: int) -> Any:
    """Nullable numbers one after the other. What is null is not written: the bytes of copies, which few lanes have,
    take a tenth of a column."""
    values = zeros(length, arrays[0].dtype.numpy_dtype.type)
    is_null, at = np.concatenate([array.isna() for array in arrays]), 0
    for array in arrays:
        its = slice(at, at := at + len(array))
        np.copyto(values[its], array.to_numpy(values.dtype, na_value=0), where=~is_null[its])
    return type(arrays[0])(values, is_null)


def text_dtype(categories: pd.Index) -> pd.CategoricalDtype:
    """A dtype with these categories, which must differ; without any they may be of objects.

    To see that they differ pandas fills a hash table with Python's strings, 100 bytes a text, and keeps it with the
    categories; a copy of them is without.
    """
    dtype = pd.CategoricalDtype(categories if categories.dtype == "str" else categories.astype("str"))
    return dtype if len(categories) <= _MOST_SHARED else deepcopy(dtype)
