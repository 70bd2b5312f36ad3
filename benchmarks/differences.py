"""How two dumps of one trace differ (dump_version.py), item by item; needs no tracekit.

Values are compared exactly: integers and texts alike, floats to the last bit, null like null. A categorical column is
compared by what it says, not by its codes. What differs is `wording` where only people read it: texts, sentences that
are there on both sides (SENTENCES), and pictures of which every panel is equal without its words.
"""

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
_SENTENCES_AT = (
    *("*/collectives/alone/", "*/collectives/alone", "*/sections/*/data/alone"),
    *("*/findings/*/next", "*/sections/0/data/*/next"),  # what to try; of an offender, `next` is a name
)
# What differs, where that is no figure.
WORDING, ORDER = "wording", "order of categories"
_LONGEST = 160


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
    """Compare two dumps of one trace; with `figures_only` without wording.

    A traceback is a difference even where both end in it; not with `errors_too`, where only its class counts.
    """
    result = Comparison()
    # Where one side ended, everything that stands below it is missing: that is told once.
    ended = tuple(f"{key}/" for key in {*before, *after} if _is_error(before.get(key)) != _is_error(after.get(key)))
    for key in [*before, *(key for key in after if key not in before)]:
        if key.startswith(ended):
            continue
        kind = (before.get(key) or after[key])[0]
        if figures_only and kind == "text":
            continue
        every = _item(key, before.get(key), after.get(key), errors_too)
        if kind == "picture" and every and _panels_equal(key, before, after):
            every = [difference._replace(what=WORDING) for difference in every]
        result.orders += [difference for difference in every if difference.what == ORDER]
        left_out = (ORDER, WORDING) if figures_only else (ORDER,)
        differences = [difference for difference in every if difference.what not in left_out]
        result.compared[kind] += 1
        result.equal[kind] += not differences
        result.differences += differences
    return result


def _is_error(item: Item | None) -> bool:
    return item is not None and item[0] in ("refusal", "failure")


def _panels_equal(key: str, before: Dump, after: Dump) -> bool:
    """Whether a picture has panels, and all of them are equal on both sides; the report's is that of the timeline."""
    start = f"{'pictures/gantt' if key == 'files/gantt.png' else key}/panel"
    panels = [name for name in {*before, *after} if name.startswith(start)]
    return bool(panels) and not any(_item(name, before.get(name), after.get(name), False) for name in panels)


def _item(key: str, before: Item | None, after: Item | None, errors_too: bool) -> list[Difference]:
    if before is None or after is None:
        what, there = ("missing", before) if after is None else ("added", after)
        return [Difference(key, "", what, f"{what}: {_short(there)}")]
    (kind, old), (other, new) = before, after
    if kind != other:
        return [Difference(key, "", "kind", f"{_short(before)} -> {_short(after)}")]
    if kind in ("refusal", "failure"):
        return _error(key, kind, old, new, errors_too)
    ways: Mapping[str, Callable[[str, Any, Any], Iterator[Difference]]] = {
        "frame": _frame,
        "array": _array,
        "data": _data,
        "panel": _pixels,
        "picture": _pixels,
        "text": _text,
        "bytes": _bytes,
    }
    return list(ways[kind](key, old, new))


def _error(key: str, kind: str, old: Mapping[str, str], new: Mapping[str, str], errors_too: bool) -> list[Difference]:
    detail = _sides(*(f"{end['class']}: {end['sentence']}" for end in (old, new)))
    if kind == "failure" and not errors_too:
        return [Difference(key, "", "failure", detail)]
    if old["class"] != new["class"]:
        return [Difference(key, "class", "class", detail)]
    if old["sentence"] != new["sentence"] and not errors_too:
        return [Difference(key, "sentence", WORDING, detail)]
    return []


def is_sentence(key: str, path: str) -> bool:
    """Whether what stands at `path` of an item is for people: its wording is no figure."""
    parts = [key.rpartition("/")[2], *path.split("/")]
    return any(part in SENTENCES for part in parts) or any(fnmatch(f"{key}/{path}", glob) for glob in _SENTENCES_AT)


def _frame(key: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
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
            yield Difference(key, name, ORDER, f"{name}: {first.categories} -> {second.categories}"[:_LONGEST])
    same = {name: first.equal(second, rows) for name, (first, second) in pairs.items()}
    worded = {name for name in shared if is_sentence(key, name) and pairs[name][0].there(pairs[name][1], rows).all()}
    if old["rows"] != new["rows"]:
        differs = ~np.logical_and.reduce([*same.values(), np.ones(rows, bool)])
        at = int(differs.argmax()) if differs.any() else rows
        longer = 0 if old["rows"] > new["rows"] else 1
        row = {name: pair[longer].at(at) for name, pair in pairs.items()}
        detail = f"{old['rows']} -> {new['rows']} rows; the first that differs is {at}, of the longer {row}"
        yield Difference(key, "", "rows", detail[: 2 * _LONGEST])
        return
    wrong = [name for name in shared if not same[name].all()]
    if set(wrong) - worded and _same_rows({name: pair for name, pair in pairs.items() if name not in worded}):
        at = int((~np.logical_and.reduce([same[name] for name in wrong])).argmax())
        yield Difference(key, "", "order of rows", f"the same {rows} rows in another order, from row {at} on")
        return
    for name in wrong:
        (first, second), at = pairs[name], int((~same[name]).argmax())
        detail = f"{name}: row {at} of {rows}: {_sides(first.at(at), second.at(at))}"
        what = WORDING if name in worded else "value"
        yield Difference(key, name, what, f"{detail}; {int((~same[name]).sum())} rows differ{first.by(second)}")


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

    def equal(self, other: "_Column", rows: int) -> Bools:
        """Which of the first `rows` are equal."""
        null, its = self.null[:rows], other.null[:rows]
        same: Bools = (null & its) | (~null & ~its & _equal(self.values[:rows], other.values[:rows]))
        return same

    def there(self, other: "_Column", rows: int) -> Bools:
        """Which of the first `rows` hold a text on both sides, or on neither."""
        sides = [column.null[:rows] | _equal(column.values[:rows], "") for column in (self, other)]
        same: Bools = sides[0] == sides[1]
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


def _data(key: str, old: Any, new: Any) -> Iterator[Difference]:
    """Leaf by leaf; leaves that differ only in places of lists are one difference."""
    before, after = (dict(_leaves(key, "", data)) for data in (old, new))
    wrong: dict[tuple[str, str], list[str]] = {}
    for path in [*before, *(path for path in after if path not in before)]:
        what = "missing" if path not in after else "added" if path not in before else "value"
        if what == "value":
            if _alike(before[path], after[path]):
                continue
            if is_sentence(key, path) and bool(before[path]) == bool(after[path]):
                what = WORDING
        generic = re.sub(r"(^|/)\d+(?=/|$)", r"\1*", path)
        detail = _sides(before.get(path, "nothing"), after.get(path, "nothing"))
        wrong.setdefault((generic, what), []).append(f"{path or 'it'}: {detail}")
    for (generic, what), details in wrong.items():
        more = f"; {len(details) - 1} more like it" if len(details) > 1 else ""
        yield Difference(key, generic, what, details[0] + more)


def _alike(old: Any, new: Any) -> bool:
    """Whether two leaves are equal and of one type; NaN is NaN."""
    return type(old) is type(new) and (old == new or (old != old and new != new))


def _leaves(key: str, path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The path of each leaf and the leaf; what is for people is one, whatever is inside."""
    if is_sentence(key, path) or not value or not isinstance(value, dict | list):
        yield path, value
        return
    for name, inside in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(key, f"{path}/{name}".lstrip("/"), inside)


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


def _text(key: str, old: str, new: str) -> Iterator[Difference]:
    if old != new:
        yield Difference(key, "", WORDING, _lines(old, new))


def _lines(old: str, new: str) -> str:
    """The first line that differs."""
    before, after = old.split("\n"), new.split("\n")
    places = [at for at, (was, became) in enumerate(zip(before, after, strict=False)) if was != became]
    at = places[0] if places else min(len(before), len(after))
    detail = _sides(*(lines[at] if at < len(lines) else None for lines in (before, after)))
    lines = f"; {len(after)} lines now" if len(before) != len(after) else ""
    return f"line {at + 1} of {len(before)}: {detail}{lines}"


def _bytes(key: str, old: bytes, new: bytes) -> Iterator[Difference]:
    if old == new:
        return
    if not key.endswith(".pftrace"):
        # Bytes that are no UTF-8 still differ where they differ.
        yield Difference(key, "", "bytes", _lines(*(side.decode("utf-8", "backslashreplace") for side in (old, new))))
        return
    for worded in (False, True):
        before, after = ([_message(packet, worded) for _, packet in _parts(side)] for side in (old, new))
        if before != after:
            break
    else:
        yield Difference(key, "", "bytes", "the bytes differ and what they say does not")
        return
    places = [at for at, (was, became) in enumerate(zip(before, after, strict=False)) if was != became]
    at = places[0] if places else min(len(before), len(after))
    detail = _sides(*(packets[at] if at < len(packets) else None for packets in (before, after)))
    detail = f"packet {at}: {detail}; {len(places)} of {len(before)} packets differ"
    what = WORDING if worded else "packets"
    yield Difference(key, "", what, detail if len(before) == len(after) else f"{detail}, {len(after)} now")


def _sides(old: Any, new: Any) -> str:
    """Both sides, of long ones from shortly before where they differ."""
    texts = [f"{side!r}" for side in (old, new)]
    same = next((at for at, (was, became) in enumerate(zip(*texts, strict=False)) if was != became), 0)
    cut = max(same - _LONGEST // 4, 0) if max(map(len, texts)) > _LONGEST else 0
    excerpts = [("…" if cut else "") + text[cut : cut + _LONGEST] for text in texts]
    return " -> ".join(excerpts)


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


def _message(message: bytes, worded: bool) -> Any:
    """A message as nested lists of its fields, texts as texts; without `worded` one of several words is left out."""
    try:
        text = message.decode()
        if text.isprintable():
            return text if worded or " " not in text else "(words)"
    except UnicodeDecodeError:
        pass
    try:
        parts = list(_parts(message))
    except ValueError:
        return message
    return [(number, _message(value, worded) if isinstance(value, bytes) else value) for number, value in parts]


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
