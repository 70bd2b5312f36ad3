"""How two dumps of one trace differ (dump_version.py), item by item; needs no tracekit.

Values are compared exactly: integers and texts alike, floats to the last bit, null like null. A categorical column is
compared by what it says, not by its codes. With `figures_only`, sentences count only as being there or not (SENTENCES),
and texts and whole pictures, whose words move everything else, not at all: their panels do.
"""

import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

# An item of a dump: its kind (dump_version.KINDS) and plain data.
Item = tuple[str, Any]
Dump = Mapping[str, Item]
Bools = NDArray[np.bool_]

# Columns of frames and names in data that hold sentences, titles, or tables of text.
SENTENCES = {
    *("concurrency_reason", "headline", "important", "lacking", "left_out", "missing", "note", "notes", "reason"),
    *("reasons", "said", "sentence", "tables", "title", "verdict", "verdicts", "window_reason"),
}
# Where a name is a sentence only there.
_SENTENCES_AT = ("*/collectives/alone/",)
_WORDS = ("text", "picture")
_LONGEST = 160
_ORDER = "order of categories"


class Difference(NamedTuple):
    """One thing that differs: `where` in the item (a column, the path of a number), `what` of it, and how."""

    key: str
    where: str
    what: str
    detail: str


@dataclass
class Comparison:
    """The result: by kind how many items were compared and how many are equal, and what differs.

    `orders` are categorical columns that say the same and count their categories in another order.
    """

    compared: Counter[str] = field(default_factory=Counter)
    equal: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    orders: list[Difference] = field(default_factory=list)


def compare(before: Dump, after: Dump, figures_only: bool = False, errors_too: bool = False) -> Comparison:
    """Compare two dumps of one trace.

    A traceback is a difference even where both end in it; not with `errors_too`, where only its class counts.
    """
    result = Comparison()
    for key in [*before, *(key for key in after if key not in before)]:
        kind = (before.get(key) or after[key])[0]
        if figures_only and kind in _WORDS:
            continue
        every = _item(key, before.get(key), after.get(key), figures_only, errors_too)
        differences = [difference for difference in every if difference.what != _ORDER]
        result.compared[kind] += 1
        result.equal[kind] += not differences
        result.differences += differences
        result.orders += [difference for difference in every if difference.what == _ORDER]
    return result


def _item(key: str, before: Item | None, after: Item | None, figures_only: bool, errors_too: bool) -> list[Difference]:
    if before is None or after is None:
        what, there = ("missing", before) if after is None else ("added", after)
        return [Difference(key, "", what, f"{what}: {_short(there)}")]
    (kind, old), (other, new) = before, after
    if kind != other:
        return [Difference(key, "", "kind", f"{_short(before)} -> {_short(after)}")]
    if kind in ("refusal", "failure"):
        return _error(key, kind, old, new, figures_only, errors_too)
    ways = {
        "frame": lambda: _frame(key, old, new, figures_only),
        "array": lambda: _array(key, old, new),
        "data": lambda: _data(key, old, new, figures_only),
        "panel": lambda: _pixels(key, old, new),
        "picture": lambda: _pixels(key, old, new),
        "text": lambda: _lines(key, old, new),
        "bytes": lambda: _bytes(key, old, new, figures_only),
    }
    return list(ways[kind]())


def _error(
    key: str, kind: str, old: Mapping[str, str], new: Mapping[str, str], figures_only: bool, errors_too: bool
) -> list[Difference]:
    detail = " -> ".join(f"{end['class']}: {end['sentence']}"[:_LONGEST] for end in (old, new))
    if kind == "failure" and not errors_too:
        return [Difference(key, "", "failure", detail)]
    if old["class"] != new["class"]:
        return [Difference(key, "class", "class", detail)]
    if old["sentence"] != new["sentence"] and not figures_only and not errors_too:
        return [Difference(key, "sentence", "text", detail)]
    return []


def is_sentence(key: str, path: str) -> bool:
    """Whether what stands at `path` of an item is for people: its wording is no figure."""
    parts = [key.rpartition("/")[2], *path.split("/")]
    return any(part in SENTENCES for part in parts) or any(fnmatch(f"{key}/{path}", glob) for glob in _SENTENCES_AT)


def _frame(key: str, old: Mapping[str, Any], new: Mapping[str, Any], figures_only: bool) -> Iterator[Difference]:
    before, after = ({column["name"]: column for column in frame["columns"]} for frame in (old, new))
    for name in before.keys() ^ after.keys():
        what = "missing" if name in before else "added"
        yield Difference(key, name, what, f"the column {name} is {what}")
    shared = [name for name in before if name in after]
    if shared != [name for name in after if name in before]:
        yield Difference(key, "", "order of columns", f"{[*before]} -> {[*after]}"[:_LONGEST])
    rows = min(old["rows"], new["rows"])
    pairs = {name: (_Column.of(before[name]), _Column.of(after[name])) for name in shared}
    for name, (first, second) in pairs.items():
        if first.dtype != second.dtype:
            yield Difference(key, name, "dtype", f"{name}: {first.dtype} -> {second.dtype}")
        elif first.categories != second.categories:
            yield Difference(key, name, _ORDER, f"{name}: {first.categories} -> {second.categories}"[:_LONGEST])
    sentences = {name for name in shared if figures_only and is_sentence(key, name)}
    same = {name: pair[0].equal(pair[1], rows, name in sentences) for name, pair in pairs.items()}
    if old["rows"] != new["rows"]:
        differs = ~np.logical_and.reduce([*same.values(), np.ones(rows, bool)])
        at = int(differs.argmax()) if differs.any() else rows
        longer = 0 if old["rows"] > new["rows"] else 1
        row = {name: pair[longer].at(at) for name, pair in pairs.items()}
        detail = f"{old['rows']} -> {new['rows']} rows; the first that differs is {at}, of the longer {row}"
        yield Difference(key, "", "rows", detail[: 2 * _LONGEST])
        return
    wrong = [name for name in shared if not same[name].all()]
    if set(wrong) - sentences and _same_rows({name: pair for name, pair in pairs.items() if name not in sentences}):
        at = int((~np.logical_and.reduce([same[name] for name in wrong])).argmax())
        yield Difference(key, "", "order of rows", f"the same {rows} rows in another order, from row {at} on")
        return
    for name in wrong:
        (first, second), at = pairs[name], int((~same[name]).argmax())
        detail = f"{name}: row {at} of {rows}: {first.at(at)!r} -> {second.at(at)!r}"[:_LONGEST]
        yield Difference(key, name, "value", f"{detail}; {int((~same[name]).sum())} rows differ{first.by(second)}")


class _Column(NamedTuple):
    """A column of a dump: numbers or objects (n,), and which of them are null."""

    dtype: str
    values: NDArray[Any]
    null: Bools
    categories: tuple[Any, ...]

    @classmethod
    def of(cls, column: Mapping[str, Any]) -> "_Column":
        if "codes" in column:
            labels, codes = tuple(column["categories"]), column["codes"]
            return cls(column["dtype"], _objects([*labels, None])[codes], codes < 0, labels)
        values = column["values"]
        values = _objects(values) if isinstance(values, list) else values
        return cls(column["dtype"], values, column["null"], ())

    def equal(self, other: "_Column", rows: int, sentence: bool) -> Bools:
        """Which of the first `rows` are equal; of a sentence, whether there is one."""
        null, its = self.null[:rows], other.null[:rows]
        old, new = self.values[:rows], other.values[:rows]
        if sentence:
            same: Bools = (null | _equal(old, "")) == (its | _equal(new, ""))
        else:
            same = (null & its) | (~null & ~its & _equal(old, new))
        return same

    def at(self, row: int) -> Any:
        if self.null[row]:
            return None
        value = self.values[row]
        return value.item() if isinstance(value, np.generic) else value

    def by(self, other: "_Column") -> str:
        """By how much floats differ at most."""
        if self.values.dtype.kind != "f" or other.values.dtype.kind != "f":
            return ""
        both = ~self.null & ~other.null
        old, new = self.values[both], other.values[both]
        largest = np.maximum(np.maximum(np.abs(old), np.abs(new)), np.finfo(float).tiny)
        return f", by at most {(np.abs(old - new) / largest).max():.1e} of them" if both.any() else ""


def _objects(values: list[Any]) -> NDArray[Any]:
    return np.fromiter(values, object, len(values))


def _equal(old: Any, new: Any) -> Bools:
    """Whether values (n,) are equal, one by one; numbers of different types as Python compares them, which is exact."""
    old, new = np.asarray(old), np.asarray(new)
    if old.dtype != new.dtype:
        old, new = old.astype(object), new.astype(object)
    same: Bools = np.broadcast_to(np.asarray(old == new, bool), old.shape)
    return same


def _same_rows(pairs: Mapping[str, tuple[_Column, _Column]]) -> bool:
    """Whether the rows are the same, in whatever order."""

    def rows(columns: Sequence[_Column]) -> NDArray[Any]:
        texts = [[repr(column.at(row)) for row in range(len(column.values))] for column in columns]
        return np.sort(pd.util.hash_pandas_object(pd.DataFrame(dict(enumerate(texts))), index=False).to_numpy())

    before, after = zip(*pairs.values(), strict=True)
    return bool((rows(before) == rows(after)).all())


def _array(key: str, old: NDArray[Any], new: NDArray[Any]) -> Iterator[Difference]:
    if old.dtype != new.dtype:
        yield Difference(key, "", "dtype", f"{old.dtype} -> {new.dtype}")
    if old.shape != new.shape:
        yield Difference(key, "", "rows", f"shape {old.shape} -> {new.shape}")
        return
    same = _equal(old, new)
    if old.dtype.kind == "f" and new.dtype.kind == "f":
        same = same | (np.isnan(old) & np.isnan(new))
    if not same.all():
        at = tuple(int(place) for place in np.unravel_index(int((~same).argmax()), same.shape))
        detail = f"at {at} of {old.shape}: {old[at]!r} -> {new[at]!r}; {int((~same).sum())} values differ"
        yield Difference(key, "", "value", detail)


def _data(key: str, old: Any, new: Any, figures_only: bool) -> Iterator[Difference]:
    """Leaf by leaf; leaves that differ only in places of lists are one difference."""
    before, after = (dict(_leaves(key, "", data, figures_only)) for data in (old, new))
    wrong: dict[tuple[str, str], list[str]] = {}
    for path in [*before, *(path for path in after if path not in before)]:
        what = "missing" if path not in after else "added" if path not in before else "value"
        if what == "value" and _alike(before[path], after[path]):
            continue
        generic = re.sub(r"(^|/)\d+(?=/|$)", r"\1*", path)
        sides = [f"{leaves[path]!r}"[:_LONGEST] if path in leaves else "nothing" for leaves in (before, after)]
        wrong.setdefault((generic, what), []).append(f"{path or 'it'}: {' -> '.join(sides)}")
    for (generic, what), details in wrong.items():
        more = f"; {len(details) - 1} more like it" if len(details) > 1 else ""
        yield Difference(key, generic, what, details[0] + more)


def _alike(old: Any, new: Any) -> bool:
    """Whether two leaves are equal and of one type; NaN is NaN."""
    return type(old) is type(new) and (old == new or (old != old and new != new))


def _leaves(key: str, path: str, value: Any, figures_only: bool) -> Iterator[tuple[str, Any]]:
    if figures_only and is_sentence(key, path):
        yield path, bool(value)
    elif isinstance(value, dict) and value:
        for name, inside in value.items():
            yield from _leaves(key, f"{path}/{name}".lstrip("/"), inside, figures_only)
    elif isinstance(value, list) and value:
        for place, inside in enumerate(value):
            yield from _leaves(key, f"{path}/{place}".lstrip("/"), inside, figures_only)
    else:
        yield path, value


def _pixels(key: str, old: bytes, new: bytes) -> Iterator[Difference]:
    if old == new:
        return
    before, after = (_decode(png) for png in (old, new))
    if before.shape != after.shape:
        yield Difference(key, "", "size", f"{before.shape[1::-1]} -> {after.shape[1::-1]} pixels")
        return
    differs = (before != after).any(axis=-1)
    if differs.any():
        y, x = np.unravel_index(int(differs.argmax()), differs.shape)
        detail = f"{int(differs.sum())} of {differs.size} pixels; the first at x {x}, y {y}"
        yield Difference(key, "", "pixels", f"{detail}: {before[y, x].tolist()} -> {after[y, x].tolist()}")


def _decode(png: bytes) -> NDArray[np.uint8]:
    """The pixels (height, width, 4) of a PNG; none of an empty panel."""
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGBA")) if png else np.zeros((0, 0, 4), np.uint8)


def _lines(key: str, old: str, new: str) -> Iterator[Difference]:
    if old == new:
        return
    before, after = old.split("\n"), new.split("\n")
    places = [at for at, (was, became) in enumerate(zip(before, after, strict=False)) if was != became]
    at = places[0] if places else min(len(before), len(after))
    sides = [lines[at][:_LONGEST] if at < len(lines) else "nothing" for lines in (before, after)]
    detail = f"line {at + 1} of {len(before)}: {sides[0]!r} -> {sides[1]!r}"
    yield Difference(key, "", "text", detail if len(before) == len(after) else f"{detail}; {len(after)} lines now")


def _bytes(key: str, old: bytes, new: bytes, figures_only: bool) -> Iterator[Difference]:
    if old == new:
        return
    if not key.endswith(".pftrace"):
        # Bytes that are no UTF-8 still differ where they differ.
        yield from _lines(key, *(side.decode("utf-8", "backslashreplace") for side in (old, new)))
        return
    before, after = ([_message(packet, figures_only) for _, packet in _parts(side)] for side in (old, new))
    if before == after:  # what differs are sentences
        if not figures_only:
            yield Difference(key, "", "bytes", "the bytes differ and what they say does not")
        return
    places = [at for at, (was, became) in enumerate(zip(before, after, strict=False)) if was != became]
    at = places[0] if places else min(len(before), len(after))
    sides = [f"{packets[at]}"[: 2 * _LONGEST] if at < len(packets) else "nothing" for packets in (before, after)]
    detail = f"packet {at}: {sides[0]} -> {sides[1]}; {len(places)} of {len(before)} packets differ"
    yield Difference(key, "", "packets", detail if len(before) == len(after) else f"{detail}, {len(after)} now")


def _parts(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: number, and an integer or bytes; raises ValueError where it is none.

    https://protobuf.dev/programming-guides/encoding.
    """
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while at < len(message):
            value |= (message[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if message[at - 1] < 0x80:
                return value
        raise ValueError("a number is cut")

    while at < len(message):
        number, wire = divmod(varint(), 8)
        if wire == 0:
            yield number, varint()
            continue
        length = {1: 8, 5: 4, 2: -1}.get(wire)
        if length is None or not number:
            raise ValueError(f"no field: number {number}, type {wire}")
        length = varint() if length < 0 else length
        if at + length > len(message):
            raise ValueError("a field is cut")
        yield number, message[at : at + length]
        at += length


def _message(message: bytes, figures_only: bool) -> Any:
    """A message as nested lists of its fields; a text where it is one, of which only words of one piece are figures."""
    try:
        text = message.decode()
        if text.isprintable():
            return "(a sentence)" if figures_only and " " in text else text
    except UnicodeDecodeError:
        pass
    try:
        return [
            (number, _message(value, figures_only) if isinstance(value, bytes) else value)
            for number, value in _parts(message)
        ]
    except ValueError:
        return message


def _short(item: Item | None) -> str:
    """An item in a few words."""
    if item is None:
        return "nothing"
    kind, value = item
    if kind == "frame":
        return f"a frame of {value['rows']} rows"
    if kind in ("data", "refusal", "failure"):
        return f"{kind} {value!r}"[:_LONGEST]
    return f"{kind} of {value.shape if kind == 'array' else len(value)}"
