"""Summaries: the trace of one host's file as one small file, which is read in place of the file that it was made of.

A summary leaves nothing out. What makes it small, some thirtieth of an XSpace, is what a trace's columns are like: most
are the same from row to row or grow by next to the same. So every number is the difference to that of the row before, a
time the length of its row and the gap before it, a launch that is a span too that span's place, and a text a number
among the texts of its column; zstd packs what is left. Whatever is computed over many hosts, and what only rows answer,
is therefore the same from summaries as from the files: both are merged as `readers.merge` says, clocks and all.

The file is a zip archive (stored, as its parts are packed) of a manifest, which stands first and tells a summary from
other archives, of Parquet tables named after the frames of `Trace`, of `labels.parquet`, the texts, and, where a run of
many hosts can do without most of its rows, of `reduced.tracekit.zip`: a summary of those that it needs, beside when
each device computed, which the rows tell.
"""

import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from tracekit import heap
from tracekit import intervals as iv
from tracekit.columns import categorical, concat, frame, places_of, rising, text_dtype
from tracekit.devices import is_known
from tracekit.errors import TraceError, reason
from tracekit.readers import losses, unpacking
from tracekit.readers.content import Content
from tracekit.readers.losses import Lost
from tracekit.trace import FRAME_COLUMNS, HOST_WORK_COLUMNS, LOSS_COLUMNS, MERGED_COLUMNS, Trace
from tracekit.version import __version__
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.losses import Loss

SUFFIX = ".tracekit.zip"
VERSION = 1
"""Raised when what wrote the numbers of before would be misread; a column more does not raise it."""
REDUCTION = 1
"""Raised when `timeline.reduction` leaves out other rows than before: what summaries of before say of it is passed
over."""

_MANIFEST, _LABELS, _REDUCED = "tracekit-summary.json", "labels", "reduced.tracekit.zip"
# How a zip archive begins whose first member is the manifest: the name stands behind a header of 30 bytes.
_ZIP, _NAME_AT = b"PK\x03\x04", 30
# Fewer different values are written once each, with their numbers.
_MOST_VALUES, _SAMPLE = 256, 1 << 16
# Of a host of a million events, 2.76 MB and 0.8 s; of level 9, 2.97 MB and 0.5 s. What workers hand over is read once.
_ZSTD_LEVEL, _QUICK_LEVEL = 15, 3
# What is left of the rows may be so much of a summary, else it stands without: small ones are read whole as soon.
_MOST_BESIDE = 0.25
_REMEDY = "Make it again from the trace: tracekit summarise TRACE."
# What reading a damaged file raises.
_FAULTS = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError),
    *(zipfile.BadZipFile, zlib.error, pa.ArrowException, msgspec.ValidationError, TraceError),
)
# What launches and spans have in common.
_CALL = tuple(HOST_WORK_COLUMNS)
_OTHER_TYPES = {pa.float64(): pd.Float64Dtype(), pa.bool_(): pd.BooleanDtype()}
# Of no more texts the lists and dtypes are shared (tracekit.columns), others are never Python's.
_FEW_TEXTS, _STRINGS = 2048, {pa.string(): pd.StringDtype(na_value=np.nan)}
# In these columns the frames of a trace may share the texts of the largest.
_SHARED, _MOST_UNUSED = ("name", "framework_op", "source"), 1 << 16
_OF_DTYPE = {"Float64": pa.float64(), "boolean": pa.bool_()}
_MOST_RATIO = {"occupancy_ratio": 1.0, "drift_ppm": 1e6}

# The columns of times of one row beside that before, and the most of a time: sums of two of them are numbers, too.
_GAP, _LENGTH = "gap_ps", "length_ps"
# What tells when each device computed.
_OF_COMPUTE = ["device", "kind", "start_ps", _GAP, _LENGTH]
_MOST_PS = 1 << 62
_NO_BOUND = 1 << 60
_MOST_MANIFEST_BYTES = 16 << 20

# The frames that no other one needs, and what it is to lose one: nothing but its own figures rests on that of memory.
_ALONE = {"memory": Loss.DETAILS, **dict.fromkeys(("host_work", "syncs", "operands"), Loss.TABLES)}

# Of a mutant of 27 kB that had a million hosts a report took 700 MB.
_MOST_ROWS = {"hosts": 10_000, "devices": 10_000}

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class HostTrace:
    """What one file of a run holds: its `trace`, as its reader gives it, and what is known of it besides.

    `world_size`: how many ranks its job had, None where the file does not say. `capture`: what `capture.json` beside it
    says, and `notes` what was chosen or skipped to find it; both only of a summary, as a run tells them of all files.
    `is_fitted`: whether the devices are on the clock of their host already (readers.device_clocks). `place`: the path
    or URL at which it was read, of a run.
    """

    trace: Trace
    world_size: int | None = None
    capture: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    is_fitted: bool = False
    place: str = field(default="", compare=False)


@dataclass(frozen=True)
class _Texts:
    """The texts of a column in the order of their numbers; they stay Arrow's, as millions of them may take next to
    nothing in a file."""

    array: pa.Array

    @cached_property
    def dtype(self) -> tuple[pd.CategoricalDtype, Column]:
        """A dtype of them, and which of its categories each is, -1 behind the last: of -1."""
        different = self.array.dictionary_encode()
        categories = pd.Index(different.dictionary.to_pandas(types_mapper=_STRINGS.get))
        places = np.append(different.indices.to_numpy(), -1).astype(np.min_scalar_type(~len(categories)))
        return text_dtype(categories), places


class _Manifest(msgspec.Struct):
    """What the manifest of a summary of this version says."""

    source: str
    format: str
    notes: tuple[str, ...]
    world_size: int | None
    capture: dict[str, Any] | None
    skipped: tuple[str, ...]
    steps: dict[str, dict[str, Annotated[int, msgspec.Meta(ge=1, le=(1 << 63) - 1)]]]
    # A summary of before its devices were put on the clock of their host does not say so.
    device_clocks_fitted: bool = False


def is_summary(content: Content, sure: bool) -> bool:
    """Whether a file is a summary."""
    head = b"" if content.gzipped else content.head
    return head.startswith(_ZIP) and head[_NAME_AT:].startswith(_MANIFEST.encode())


def to_bytes(host: HostTrace) -> bytes:
    """The summary of a host's trace as bytes: in this form a worker hands over what it has read."""
    buffer = BytesIO()
    _write(_members(host, _QUICK_LEVEL), buffer)
    return buffer.getvalue()


def from_bytes(summary: bytes, path: Path) -> HostTrace:
    """What `to_bytes` was given; `path` is what an error names. Raises what `read` raises, of any size."""
    return _read(BytesIO(summary), path, False)


def write(host: HostTrace, file: Path | BytesIO, reduced: Trace | None = None) -> None:
    """Write the summary of a host's trace to `file`; and, where that is small beside it, what is left of the trace as
    it is `reduced` (`timeline.reduction`), None if that is not known."""
    members = _members(host, _ZSTD_LEVEL)
    if reduced is not None and reduced is not host.trace:
        without = reduced.changed(merged=reduced.merged.iloc[:0])  # which the rows tell
        left = BytesIO()
        _write(_members(HostTrace(without, is_fitted=host.is_fitted), _ZSTD_LEVEL), left)
        if len(left.getbuffer()) <= _MOST_BESIDE * sum(map(len, members.values())):
            members[_REDUCED] = left.getvalue()
    _write(members, file)


def _write(members: Mapping[str, bytes], file: Path | BytesIO) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(_member(name), content)


def _members(host: HostTrace, level: int) -> dict[str, bytes]:
    """What the archive of a host's summary holds, by name, packed as closely as the `level` of zstd says."""
    trace = host.trace
    tables: dict[str, pa.Table] = {}
    steps: dict[str, dict[str, int]] = {}
    labels: list[pa.Table] = []
    for name in FRAME_COLUMNS:
        place = _places(trace.launches, trace.spans) if name == "launches" else None
        if len(getattr(trace, name)):
            tables[name], steps[name] = _packed(getattr(trace, name), place)
        for column, values in getattr(trace, name).items():
            if isinstance(values.dtype, pd.CategoricalDtype):
                # An older pyarrow keeps the type that pandas gives its texts.
                texts = pa.array(values.cat.categories, pa.string()).cast(pa.string())
                where = {"frame": pa.repeat(name, len(texts)), "column": pa.repeat(str(column), len(texts))}
                labels.append(pa.table({**where, "label": texts}))
    manifest = {
        "tracekit_summary": VERSION,
        "tracekit": __version__,
        "source": trace.source,
        "format": trace.format,
        "notes": trace.notes,
        "world_size": host.world_size,
        "capture": host.capture,
        "skipped": host.notes,
        "device_clocks_fitted": host.is_fitted,
        "reduction": REDUCTION,
        "steps": steps,
    }
    tables[_LABELS] = pa.concat_tables(labels).combine_chunks()
    members = {_MANIFEST: json.dumps(manifest, indent=1).encode()}
    return members | {f"{name}.parquet": _parquet(table, level) for name, table in tables.items()}


def _member(name: str) -> zipfile.ZipInfo:
    """The member of that name, of no time: the summary of a file is always the same bytes."""
    return zipfile.ZipInfo(name)


def _parquet(table: pa.Table, level: int) -> bytes:
    few = [name for name in table.column_names if len(table[name].slice(0, _SAMPLE).unique()) <= _MOST_VALUES]
    many = [name for name in table.column_names if name not in few and pa.types.is_integer(table[name].type)]
    buffer = BytesIO()
    parquet.write_table(
        table,
        buffer,
        compression="zstd",
        compression_level=level,
        use_dictionary=few,
        column_encoding=dict.fromkeys(many, "BYTE_STREAM_SPLIT"),
        write_statistics=False,
        store_schema=False,
    )
    return buffer.getvalue()


def _places(calls: pd.DataFrame, spans: pd.DataFrame) -> Column | None:
    """The place of each call among the spans; None where not each is one of them."""
    keys: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for name in _CALL:
        if isinstance(spans[name].dtype, pd.CategoricalDtype):
            place = spans[name].cat.categories.get_indexer(calls[name].cat.categories)
            # A text that no span has is none of theirs, nor null.
            keys[name] = np.append(np.where(place < 0, -2, place), -1)[calls[name].cat.codes]
            own[name] = spans[name].cat.codes.to_numpy(np.int64)
        else:
            keys[name], own[name] = calls[name].to_numpy(), spans[name].to_numpy()
    first = pd.DataFrame(own).drop_duplicates().reset_index(names="place")
    places = pd.DataFrame(keys).merge(first, on=list(_CALL), how="left")["place"]
    return None if places.empty or places.isna().any() else places.to_numpy(np.int64)


def _packed(table: pd.DataFrame, place: Column | None) -> tuple[pa.Table, dict[str, int]]:
    """The columns of a frame as they are written, and the step of those whose numbers are all multiples of one.

    `place` (n,): of which spans its rows repeat the columns of a call.
    """
    columns: dict[str, pa.Array] = {}
    steps: dict[str, int] = {}

    def add(name: str, numbers: Column, valid: Mask | None = None) -> None:
        steps[name] = max(int(np.gcd.reduce(numbers)), 1) if len(numbers) else 1
        columns[name] = pa.array(numbers // steps[name], mask=None if valid is None or valid.all() else ~valid)

    if place is not None:
        table = table.drop(columns=list(_CALL))
        add("span", np.diff(place, prepend=0))
    elif "end_ps" in table:
        start, end = (table[name].to_numpy() for name in ("start_ps", "end_ps"))
        table = table.drop(columns=["start_ps", "end_ps"])
        starts, gaps = np.diff(start, prepend=0), start - np.append(0, end)[:-1]
        add(*min(("gap_ps", gaps), ("start_ps", starts), key=lambda column: _bits(column[1])))
        add("length_ps", end - start)
    for name in map(str, table.columns):
        values = table[name]
        if isinstance(values.dtype, pd.CategoricalDtype):
            codes = values.cat.codes.to_numpy().astype(np.int64)
            add(name, _differences(codes, codes >= 0), codes >= 0)
        elif str(values.dtype).lower() == "int64":
            valid = values.notna().to_numpy(bool)
            add(name, _differences(values.to_numpy(np.int64, na_value=0), valid), valid)
        else:
            columns[name] = pa.array(values)
    # What is null throughout takes no place, but that a frame keeps its length.
    there = {name: column for name, column in columns.items() if column.null_count < len(column)}
    there = there or dict([*columns.items()][: min(len(table), 1)])
    return pa.table(there), {name: steps[name] for name in there if name in steps}


def _bits(numbers: Column) -> float:
    """About how many bits tell the numbers."""
    return float(np.log2(np.abs(numbers.astype(float)) + 1).sum())


def _differences(numbers: Column, valid: Mask) -> Column:
    """By how much each number (n,) is more than the last valid one before it, of the first than 0."""
    if not valid.all():
        last = np.maximum.accumulate(np.where(valid, np.arange(len(numbers)), -1))
        numbers = np.append(numbers, 0)[last]
    return np.diff(numbers, prepend=0)


def read(path: Path) -> HostTrace:
    """What the summary at `path` was made of. Raises TraceError where it is damaged, or of a version that this one does
    not know."""
    return _read(path, path, True)


def _read(file: Path | BytesIO, path: Path, is_bounded: bool) -> HostTrace:
    try:
        with unpacking.opened_zip(file) as archive:
            manifest = _manifest(archive)
            if manifest["tracekit_summary"] == VERSION:
                packed = unpacking.size_of(file) if is_bounded else _NO_BOUND
                return _host(archive, msgspec.convert(manifest, _Manifest), unpacking.ParquetFiles(packed))
    except _FAULTS as error:
        raise _damaged(path, error) from None
    raise TraceError(
        f"{path} is a summary of version {manifest['tracekit_summary']}, written by tracekit {manifest['tracekit']}; "
        f"this is tracekit {__version__}, which reads version {VERSION}. Use that one, or summarise the trace again."
    )


def read_reduced(path: Path) -> HostTrace | None:
    """What a run of many hosts needs of the summary at `path` (`timeline.reduction`), in a quarter of the time of
    reading and reducing all of it; None where the summary does not say it, does not fit to its rows, is of another
    version, or damaged: then `read` tells."""
    try:
        with unpacking.opened_zip(path) as archive:
            manifest = _current(_manifest(archive))
            # As `write` stores it: what is packed twice may hold more than either bound.
            is_stored = any(
                member.filename == _REDUCED and member.compress_type == zipfile.ZIP_STORED
                for member in archive.infolist()
            )
            if manifest is None or not manifest.device_clocks_fitted or not is_stored or archive.testzip():
                return None
            files = unpacking.ParquetFiles(unpacking.size_of(path))
            with unpacking.opened_zip(BytesIO(archive.read(_REDUCED))) as part:
                its_manifest = _current(_manifest(part))
                if its_manifest is None or its_manifest.source != manifest.source:
                    return None
                trace = _host(part, its_manifest, files, salvages=False).trace
            texts = _texts(_table(archive, _LABELS, files, ("frame", "column")))
            its_texts = {column: texts["events", column] for column in ("device", "kind")}
            table = _table(archive, "events", files, columns=_OF_COMPUTE)
            steps = {name: step for name, step in manifest.steps["events"].items() if name in table.column_names}
            _check("events", table, steps, its_texts)
            if trace.counts["rows"].min() < 1 or trace.row_count != table.num_rows:
                return None
            trace = trace.changed(merged=merged_compute(_unpacked(table, steps, its_texts)))
    except _FAULTS:
        return None
    return HostTrace(trace, manifest.world_size, manifest.capture, manifest.skipped, is_fitted=True)


def _current(manifest: dict[str, Any]) -> _Manifest | None:
    """The manifest of a summary of which this version knows what its parts say, also what is left of its rows."""
    if manifest["tracekit_summary"] != VERSION or manifest.get("reduction") != REDUCTION:
        return None
    return msgspec.convert(manifest, _Manifest)


def merged_compute(events: Mapping[str, Any] | pd.DataFrame) -> pd.DataFrame:
    """When each device of the `events` of a host (EVENT_COLUMNS, of which it takes device, kind and times) computed
    (MERGED_COLUMNS), device by device."""
    device, kind = (pd.Categorical(events[name]) for name in ("device", "kind"))
    start, end = (np.asarray(events[edge]) for edge in ("start_ps", "end_ps"))
    is_compute = np.append(kind.categories == Kind.COMPUTE, False)[kind.codes] & (end > start)
    spans, code = [iv.EMPTY], [np.zeros(0, np.int64)]
    for number, places in enumerate(places_of(np.where(is_compute, device.codes, -1), len(device.categories))):
        if is_known(str(device.categories[number])):
            spans.append(iv.union(iv.intervals(start[places], end[places])))
            code.append(np.full(len(spans[-1]), number))
    whole = np.concatenate(spans)
    named = pd.Categorical.from_codes(np.concatenate(code), dtype=device.dtype)
    return frame(MERGED_COLUMNS, {"device": named, "start_ps": whole[:, 0], "end_ps": whole[:, 1]})


def source_of(path: Path) -> str:
    """The path of the trace that the summary at `path` was made of. Raises TraceError where that is no summary."""
    try:
        with unpacking.opened_zip(path) as archive:
            return str(_manifest(archive)["source"])
    except _FAULTS as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> TraceError:
    return TraceError(f"{path} is a damaged summary: {reason(error)}. {_REMEDY}")


def _manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    if archive.getinfo(_MANIFEST).file_size > _MOST_MANIFEST_BYTES:
        raise ValueError(f"{_MANIFEST} is larger than any that tracekit writes")
    try:
        manifest = json.loads(archive.read(_MANIFEST))
    except _FAULTS as error:
        raise ValueError(f"{_MANIFEST}: {reason(error)}") from None
    if not isinstance(manifest, dict) or not {"tracekit_summary", "tracekit", "source"} <= manifest.keys():
        raise ValueError(f"{_MANIFEST} is not what tracekit writes")
    return manifest


def _host(
    archive: zipfile.ZipFile, manifest: _Manifest, files: unpacking.ParquetFiles, salvages: bool = True
) -> HostTrace:
    """What an archive holds; what is damaged and needed by nothing else is lost, unless it `salvages` nothing."""
    try:
        texts = _texts(_table(archive, _LABELS, files, ("frame", "column")))
    except _FAULTS as error:
        raise ValueError(f"{_LABELS}.parquet: {reason(error)}") from None
    _give_back(sum(len(each.array) for each in texts.values()))
    there = {name for name in FRAME_COLUMNS if f"{name}.parquet" in archive.namelist()}
    if there - manifest.steps.keys() or manifest.steps.keys() - there - _ALONE.keys():
        raise ValueError("its tables are not those that it names")
    frames: dict[str, Any] = {}
    absent: list[str] = []
    lost: list[Lost] = []
    # What has neither rows nor labels a Trace makes itself, in less time.
    for name in dict.fromkeys([*manifest.steps, *(name for name, _ in texts), "events"]):
        its_texts = {column: texts[name, column] for column in FRAME_COLUMNS[name] if (name, column) in texts}
        try:
            table = _table(archive, name, files) if name in manifest.steps else pa.table({})
            steps = manifest.steps.get(name, {})
            frames[name] = _frame(name, table, steps, its_texts, frames)
            absent += [f"{name}.{column}" for column in steps if column not in table.column_names]
        except _FAULTS as error:
            evidence = f"{name}.parquet: {reason(error)}"
            if name not in _ALONE or not salvages:
                raise ValueError(evidence) from None
            lost.append(Lost(_ALONE[name], 1, None, f"the summary's {evidence}"))
        _give_back(sum(len(each.array) for each in its_texts.values()))
    if absent and not salvages:
        raise ValueError(f"it lacks {', '.join(absent)}")
    if absent:
        evidence = f"the summary of {Path(manifest.source).name} lacks {', '.join(absent)}"
        lost.append(Lost(Loss.DETAILS, len(absent), None, evidence))
    if lost:
        host = next(iter(frames["hosts"]["host"]), "") if "hosts" in frames else ""
        told = losses.table(host, lost)
        frames["losses"] = concat(LOSS_COLUMNS, [frames["losses"], told]) if "losses" in frames else told
    notes = (*losses.notes(lost), *manifest.notes)
    trace = Trace(**frames, notes=notes, source=manifest.source, format=manifest.format)
    return HostTrace(trace, manifest.world_size, manifest.capture, manifest.skipped, manifest.device_clocks_fitted)


def _frame(
    name: str,
    table: pa.Table,
    steps: Mapping[str, int],
    texts: Mapping[str, _Texts],
    before: Mapping[str, pd.DataFrame],
) -> pd.DataFrame:
    """The frame `name` from its table; `texts` are those of its columns, and `before` the frames that stand first."""
    _check(name, table, steps, texts)
    data = _unpacked(table, steps, texts)
    if "span" in data:
        data |= _calls(before["spans"], data["span"], texts)
    for column, its_texts in texts.items():
        if column not in data:
            data[column] = _text(column, np.full(table.num_rows, -1), its_texts)
    return frame(FRAME_COLUMNS[name], data, table.num_rows)


def _give_back(texts: int) -> None:
    """Return what reading so many texts took and no longer needs, where it is worth the time."""
    if texts > _MOST_UNUSED:
        heap.give_back()


def _texts(table: pa.Table) -> dict[tuple[str, str], _Texts]:
    """The texts of each column of each frame; columns with the same share them, as they did in the trace. Raises
    ValueError where one is null, or of no frame."""
    if not table.num_rows:
        return {}
    _give_back(table.num_rows)
    frames, columns = [*FRAME_COLUMNS], [*dict.fromkeys(column for of in FRAME_COLUMNS.values() for column in of)]
    of_frame, of_column = _place_in(table["frame"], frames), _place_in(table["column"], columns)
    texts = _strings_of(table["label"]).combine_chunks()
    texts.validate(full=True)
    if texts.null_count or of_frame.min() < 0:
        raise ValueError("a text is null, or of no table")
    keys = of_frame * len(columns) + of_column
    keys[of_column < 0] = -1  # a column of a later version
    order = np.argsort(keys, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)
    texts_of: dict[tuple[str, str], _Texts] = {}
    for rows in parts:
        if keys[rows[0]] >= 0:
            own = texts.take(pa.array(rows))
            same = (other for other in texts_of.values() if other.array.equals(own))
            texts_of[frames[of_frame[rows[0]]], columns[of_column[rows[0]]]] = next(same, _Texts(own))
    return texts_of


def _place_in(column: pa.ChunkedArray, texts: list[str]) -> Column:
    """The place of each text of a column (n,) among others, -1 where it is none of them."""
    places = [np.zeros(0, np.int64)]
    for chunk in column.chunks:
        chunk = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        place = pc.index_in(_strings_of(chunk.dictionary), pa.array(texts)).fill_null(-1).to_numpy()
        places.append(np.append(place, -1)[chunk.indices.fill_null(len(place)).to_numpy()])
    return np.concatenate(places)


def _strings_of(column: Any) -> Any:
    """A column of Arrow as texts. Raises ValueError where it is of another type."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise ValueError("its texts are of another type")
    return column.cast(pa.string())


def _table(
    archive: zipfile.ZipFile,
    name: str,
    files: unpacking.ParquetFiles,
    dictionaries: Sequence[str] = (),
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """A table of the archive, of which some `columns` are read as `dictionaries`, and of all only some, if so asked."""
    # A data set, which pyarrow.parquet.read_table opens, and threads take longer than so small a table.
    with files.opened(archive.read(f"{name}.parquet"), dictionaries) as file:
        return file.read(columns, use_threads=False)


def _check(name: str, table: pa.Table, steps: Mapping[str, int], texts: Mapping[str, _Texts]) -> None:
    """Raise ValueError where a column of the frame `name` is not written as `_packed` does, or holds a ratio that is
    none, or where it has more rows than a file has hosts or devices; columns of later versions are passed over."""
    if table.num_rows > _MOST_ROWS.get(name, table.num_rows):
        raise ValueError(f"it has {table.num_rows:,} rows, and no file is of more than {_MOST_ROWS[name]:,} {name}")
    for column in table.column_names:
        dtype = FRAME_COLUMNS[name].get(column, "int64" if column in ("span", _GAP, _LENGTH) else None)
        if dtype is None:
            continue
        is_text = dtype == "category" or isinstance(dtype, pd.CategoricalDtype)
        is_number = is_text or str(dtype).lower() == "int64"
        has_texts = column in texts or (is_text and table[column].null_count == table.num_rows)
        if is_number != (column in steps) or is_text != has_texts:
            raise ValueError(f"{name}.{column} is not as tracekit writes it")
        if table[column].type != (pa.int64() if is_number else _OF_DTYPE[dtype]):
            raise ValueError(f"{name}.{column} is of type {table[column].type}")
        if column in _MOST_RATIO:
            values = table[column].drop_null().to_numpy()
            if not (np.abs(values) <= _MOST_RATIO[column]).all():
                raise ValueError(f"{name}.{column} holds what is no ratio")


def _text(name: str, codes: Column, texts: _Texts) -> pd.Categorical:
    """The column `name` that has the texts of these numbers, null where one is -1."""
    if len(codes) and codes.min() < -1:
        raise ValueError("a number of no text")
    most_unused = _MOST_UNUSED if name in _SHARED else _FEW_TEXTS
    if len(texts.array) > max(len(codes), most_unused):  # those of no row would take more than all rows do
        used = rising(codes[codes >= 0])
        texts = _Texts(texts.array.take(pa.array(used)))
        codes = np.where(codes < 0, -1, np.searchsorted(used, codes))
    if len(texts.array) <= _FEW_TEXTS:
        return categorical([*texts.array.to_pylist(), None], codes)
    dtype, places = texts.dtype
    return pd.Categorical.from_codes(places[codes], dtype=dtype, validate=False)


def _calls(spans: pd.DataFrame, place: Column, texts: Mapping[str, _Texts]) -> dict[str, Any]:
    """The columns of calls that repeat those of the spans at `place` (n,); `texts` are those of the calls."""
    if len(place) and not 0 <= place.min() <= place.max() < len(spans):
        raise ValueError("launches are spans that are not there")
    data: dict[str, Any] = {}
    for name in _CALL:
        values = spans[name].array
        if isinstance(values, pd.Categorical):
            own = texts.get(name, _Texts(pa.array([], pa.string())))
            codes = pc.index_in(pa.array(values.categories, pa.string()), own.array).fill_null(-1).to_numpy()
            data[name] = _text(name, np.append(codes, -1)[values.codes[place]], own)
        else:
            data[name] = values[place]
    return data


def _unpacked(table: pa.Table, steps: Mapping[str, int], texts: Mapping[str, _Texts]) -> dict[str, Any]:
    """The columns of a frame from what `_packed` made of them; `texts` are those of its columns of texts."""
    data: dict[str, Any] = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if name not in steps:
            data[name] = column.to_pandas(types_mapper=_OTHER_TYPES.get)
            continue
        null = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        numbers = (column if null is None else column.fill_null(0)).to_numpy()
        if name.endswith("_ps"):
            # A gap may lie between the first and the last time that there are.
            most_ps = 2 * _MOST_PS if name == _GAP else _MOST_PS
            _refuse_beyond(name, numbers, float(steps[name]), name not in (_GAP, _LENGTH), most_ps)
        numbers = numbers * np.int64(steps[name])
        if name not in (_GAP, _LENGTH):
            numbers = np.cumsum(numbers)
        if name in texts:
            data[name] = _text(name, numbers if null is None else np.where(null, -1, numbers), texts[name])
        else:
            data[name] = numbers if null is None else pd.arrays.IntegerArray(np.where(null, 0, numbers), null)
    if _GAP in data:
        _refuse_beyond("start_ps", data[_GAP].astype(float) + data[_LENGTH], 1.0, True)
        data["start_ps"] = np.cumsum(data[_GAP] + data[_LENGTH]) - data[_LENGTH]
    if _LENGTH in data:
        if len(data[_LENGTH]) and data[_LENGTH].min() < 0:
            raise ValueError("a row ends before it starts")
        _refuse_beyond("end_ps", data["start_ps"].astype(float) + data[_LENGTH], 1.0, False)
        data["end_ps"] = data["start_ps"] + data[_LENGTH]
    return data


def _refuse_beyond(
    name: str, numbers: NDArray[Any], step: float, are_differences: bool, most_ps: int = _MOST_PS
) -> None:
    """Raise ValueError where a time that the numbers tell is more than a trace holds: in int64 it would be another."""
    times = numbers.astype(float) * step
    if not (np.abs(np.cumsum(times) if are_differences else times) < most_ps).all():
        raise ValueError(f"{name} holds times of more than {most_ps // (86_400 * 10**12)} days")
