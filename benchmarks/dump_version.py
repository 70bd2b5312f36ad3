"""Write down everything that one version of tracekit says of a trace, as plain data that needs no tracekit to be read.

`compare_versions.py` runs this program once with each version. It prints which tracekit it found, then reads one job a
line from stdin, {"at", "trace", "parts", "out"}, and writes for each the pickle `out`: key -> Item. How a
version is asked stands in version_first.py for 54ffded, and in version_today.py for the tree.
"""

import dataclasses
import hashlib
import importlib
import io
import json
import os
import pickle
import sys
import tempfile
import time
import zlib
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from fnmatch import fnmatch
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import version_first
import version_today
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image
from version_first import Words, fields, resolve
from version_today import RENAMED_KEYS, RENAMED_NAMES, RENAMED_VALUES


class Item(NamedTuple):
    """One thing that a version says: `kind` is a key of KINDS, `value` plain data."""

    kind: str
    value: Any


KINDS = {
    "frame": "tables: columns, dtypes, values, nulls",
    "array": "arrays",
    "data": "numbers, and what holds them",
    "panel": "pictures without their words, a panel at a time",
    "picture": "pictures, pixel by pixel",
    "text": "texts",
    "bytes": "files of other tools",
    "refusal": "sentences in place of an answer",
    "failure": "tracebacks",
}


class NotPlainError(Exception):
    """A value holds frames, arrays or figures."""


def items(key: str, value: Any) -> Iterator[tuple[str, Item]]:
    """Every item of `value`, which may be anything that a part gives, down to plain data."""
    if isinstance(value, pd.DataFrame | pd.Series):
        yield key, Item("frame", _frame(value.to_frame() if isinstance(value, pd.Series) else value))
    elif isinstance(value, np.ndarray):
        yield key, Item("array", value if value.dtype != object else np.array(plain(value.tolist()), object))
    elif isinstance(value, Figure):
        yield from _drawing(key, value)
    elif isinstance(value, Path) and value.is_dir():
        for path in sorted(value.iterdir()):
            yield from _file(f"{key}/{path.name}", path)
    elif isinstance(value, Words):
        yield key, Item("text", str(value))
    elif dataclasses.is_dataclass(value):
        yield from items(key, fields(value))
    elif isinstance(value, Mapping | list | tuple):
        try:
            yield key, Item("data", plain(value))
        except NotPlainError:
            parts = value.items() if isinstance(value, Mapping) else enumerate(value)
            for name, inside in parts:
                yield from items(f"{key}/{name}", inside)
    else:
        yield key, Item("data", plain(value))


def plain(value: Any) -> Any:
    """`value` as lists, dicts with texts as keys, numbers, texts and None; raises NotPlainError where it is more."""
    if value is None or (isinstance(value, bool | int | float) and not isinstance(value, np.generic | Enum)):
        return value
    if isinstance(value, Words):
        raise NotPlainError("a text for people stands by itself")
    if isinstance(value, str):
        return str(value.value) if isinstance(value, Enum) else str(value)
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Fraction | PurePath):
        return str(value)
    if value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(inside) for inside in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(inside) for inside in value), key=repr)
    if dataclasses.is_dataclass(value):
        return plain(fields(value))
    raise NotPlainError(f"a {type(value).__name__} is no plain data")


def _frame(frame: pd.DataFrame) -> dict[str, Any]:
    """A frame as its columns in order, each a dict with `name` and `dtype`; an index that only counts is left out."""
    columns = [_column(str(name), frame.iloc[:, place]) for place, name in enumerate(frame.columns)]
    if not frame.index.equals(pd.RangeIndex(len(frame))):
        columns.insert(0, _column("(index)", pd.Series([plain(label) for label in frame.index], dtype=object)))
    return {"rows": len(frame), "columns": columns}


def _column(name: str, column: pd.Series) -> dict[str, Any]:
    """A column: `codes` (-1 is null) and `categories`, or `values` and which are `null`."""
    dtype, null = column.dtype, column.isna().to_numpy(bool)
    if isinstance(dtype, pd.CategoricalDtype):
        labels = [plain(label) for label in dtype.categories]
        return {"name": name, "dtype": "category", "codes": column.cat.codes.to_numpy(np.int32), "categories": labels}
    values: Any
    if isinstance(dtype, np.dtype) and dtype.kind in "biufmM":
        values = column.to_numpy()
    elif (inside := getattr(dtype, "numpy_dtype", None)) is not None:
        values = column.to_numpy(inside, na_value=inside.type(0))
    else:
        values = [None if is_null else plain(value) for value, is_null in zip(column, null, strict=True)]
    return {"name": name, "dtype": str(dtype), "values": values, "null": null}


def _drawing(key: str, figure: Figure) -> Iterator[tuple[str, Item]]:
    """The picture as it is saved, and of each axes in it the pixels without words."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "figure.png")
        figure.save(path) if hasattr(figure, "save") else figure.savefig(path)
        yield key, Item("picture", path.read_bytes())
    for words in figure.findobj(Text):
        words.set_visible(False)
    canvas: Any = figure.canvas
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())
    for place, axes in enumerate(figure.axes):
        left, bottom, right, top = (round(edge) for edge in axes.bbox.extents)
        panel = pixels[len(pixels) - top : len(pixels) - bottom, left:right]
        yield f"{key}/panel {place}", Item("panel", _png(panel))
    yield f"{key}/panels", Item("data", len(figure.axes))


def _png(pixels: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    if pixels.size:
        Image.fromarray(np.ascontiguousarray(pixels)).save(file, "png", compress_level=1)
    return file.getvalue()


def _file(key: str, path: Path) -> Iterator[tuple[str, Item]]:
    """A file as what it holds."""
    if path.suffix == ".json":
        yield key, Item("data", json.loads(path.read_text("utf-8")))
    elif path.suffix == ".parquet":
        yield from items(key, pd.read_parquet(path))
    elif path.suffix == ".png":
        yield key, Item("picture", path.read_bytes())
    elif path.suffix == ".html":
        yield from _page(key, path.read_text("utf-8"))
    elif path.name == "overlap.csv":  # it holds sentences, so that its columns are compared one by one
        yield from items(key, pd.read_csv(path, dtype=str, keep_default_na=False))
    elif path.suffix == ".md":
        yield key, Item("text", path.read_text("utf-8"))
    else:
        yield key, Item("bytes", path.read_bytes())


class _Page(HTMLParser):
    """The words and figures of a page by section, and the content of its data."""

    def __init__(self) -> None:
        super().__init__()
        self.words: dict[str, list[str]] = {}
        self.figures: dict[str, list[str]] = {}
        self.data: dict[str, str] = {}
        self._section, self._inside = "head", ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in ("section", "main", "footer"):
            self._section = attributes.get("id") or tag
        if tag in ("script", "style"):
            self._inside = attributes.get("data-column") or attributes.get("id") or tag
        if tag in ("data", "time", "meter"):
            self.figures.setdefault(self._section, []).append(attributes.get("value") or "")
        if tag == "i" and attributes.get("style"):
            self.figures.setdefault(f"{self._section} bars", []).append(
                f"{attributes.get('class')} {attributes['style']}"
            )

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.data[self._inside] = data
        elif data.strip():
            self.words.setdefault(self._section, []).append(" ".join(data.split()))


def _page(key: str, html: str) -> Iterator[tuple[str, Item]]:
    """The page's words and figures by section, and its timeline decoded; scripts and styles are no figure."""
    page = _Page()
    page.feed(html)
    page.close()
    for section, words in page.words.items():
        yield f"{key}/words/{section}", Item("text", "\n".join(words))
    for section, figures in page.figures.items():
        yield f"{key}/figures/{section}", Item("data", figures)
    header = json.loads(page.data["timeline-header"])
    yield f"{key}/timeline/header", Item("data", header)
    for name, content in page.data.items():
        if name in header["columns"]:
            yield f"{key}/timeline/{name}", Item("array", _integers(content, **header["columns"][name]))
    yield f"{key}/timeline/named", Item("data", json.loads(zlib.decompress(b64decode(page.data["named"]))))


def _integers(content: str, length: int, planes: int, signed: bool) -> np.ndarray[Any, Any]:
    """The integers of a column of the page: byte planes, lowest first, zigzag where signed."""
    split = np.frombuffer(zlib.decompress(b64decode(content)), np.uint8).reshape(planes, length)
    wide = np.zeros((length, 8), np.uint8)
    wide[:, :planes] = split.T
    values = wide.view("<u8").reshape(length)
    return ((values >> 1) ^ (0 - (values & 1))).view(np.int64) if signed else values.view(np.int64)


def dump(path: str, parts: Sequence[str], first: bool) -> dict[str, Item]:
    """What the tracekit of this process says of the trace at `path`: reading it, and of `parts` (globs on keys)."""
    answers: dict[str, Item] = {}
    ways = version_first.WAYS if first else version_first.WAYS | version_today.WAYS
    with tempfile.TemporaryDirectory() as scratch:
        subject = (version_first if first else version_today).Subject(path, Path(scratch))
        for part, ask in ways.items():
            if part != "trace" and not any(fnmatch(part, glob) for glob in parts):
                continue
            try:
                answer = ask(subject)
                if answer is not None:
                    answers.update(pair if first else rename(*pair) for pair in items(part, answer))
            except Exception as error:  # whatever a version ends in is what it says
                refused = isinstance(error, resolve("TracekitError"))
                ending = {"class": type(error).__name__, "sentence": str(error).replace(scratch, "SCRATCH")}
                answers[part] = Item("refusal" if refused else "failure", ending)
                if part == "trace":
                    break
    return answers


def rename(key: str, item: Item) -> tuple[str, Item]:
    """An item of today under the key, with the names and the values, that 54ffded has."""
    for today, before in RENAMED_KEYS:
        if key.startswith(today):
            key = before + key.removeprefix(today)
            break
    names = {today: before for glob, today, before in RENAMED_NAMES if fnmatch(key, glob)}
    values: dict[str, dict[str, str]] = {}
    for glob, name, today, before in RENAMED_VALUES:
        if fnmatch(key, glob):
            values.setdefault(name, {})[today] = before
    if item.kind == "data" and (names or values):
        return key, Item("data", _rename_in_data(item.value, names, values, ""))
    if item.kind == "frame" and (names or values):
        columns = [
            _rename_in_column({**column, "name": names.get(column["name"], column["name"])}, values)
            for column in item.value["columns"]
        ]
        return key, Item("frame", {**item.value, "columns": columns})
    return key, item


def _rename_in_data(value: Any, names: Mapping[str, str], values: Mapping[str, Mapping[str, str]], under: str) -> Any:
    if isinstance(value, dict):
        pairs = ((names.get(name, name), inside) for name, inside in value.items())
        return {name: _rename_in_data(inside, names, values, name) for name, inside in pairs}
    if isinstance(value, list):
        return [_rename_in_data(inside, names, values, under) for inside in value]
    return values.get(under, {}).get(value, value) if isinstance(value, str) else value


def _rename_in_column(column: dict[str, Any], values: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    new_texts = values.get(column["name"], {})
    texts = "categories" if "categories" in column else "values"
    if not new_texts or not isinstance(column[texts], list):
        return column
    return {**column, texts: [new_texts.get(text, text) if isinstance(text, str) else text for text in column[texts]]}


def digest(package: Path) -> str:
    """A digest of all modules of a package."""
    total = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        total.update(f"{path.relative_to(package)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def main() -> None:
    """Answer the jobs of stdin until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a version prints is no answer
    import tracekit

    # Files and pages name the version that wrote them: not a difference.
    importlib.import_module("tracekit.version").__version__ = "0"  # type: ignore[attr-defined]
    package = Path(tracekit.__file__).parent
    modules = digest(package)
    others = {name: importlib.import_module(name).__version__ for name in ("numpy", "pandas", "matplotlib", "pyarrow")}
    facts = {"package": str(package), "digest": modules, "versions": {"python": sys.version, **others}}
    print(json.dumps(facts), file=answers, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        os.chdir(job["at"])
        began = time.perf_counter()
        dumped = dump(job["trace"], job["parts"], modules == version_first.DIGEST)
        draft = Path(job["out"] + ".draft")
        draft.write_bytes(zlib.compress(pickle.dumps({key: tuple(item) for key, item in dumped.items()}, 5), 1))
        draft.replace(job["out"])
        print(json.dumps({"seconds": time.perf_counter() - began}), file=answers, flush=True)


if __name__ == "__main__":
    main()
