"""A small archive of nsys-jax with each of its cells, columns and tables damaged in turn: nothing that changes a figure
is silent."""

import io
import math
import re
import zipfile

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tests.readers.damage import figures
from tests.readers.nsys_jax_archives import program
from tracekit.errors import TraceError
from tracekit.readers import nsys_jax
from tracekit.readers.bounds import bounded

TRACE, THREADS, DEVICES = "nvtx_gpu_proj_trace/trace.parquet", "thread-metadata.parquet", "device-metadata.parquet"
DUMP = "dump/module_0040.jit_f.sm_9.0_gpu_after_optimizations.hlo.pb"
STEP = "TSL:XlaModule:#hlo_module=jit_f,program_id=40#"
# Name, projected start and duration, start and duration on the host, thread, id, parent; ns.
RANGES = (
    (None, 0, 900, None, None, 7, None, None),
    ("TSL:XlaCompile:#module=jit_f,program_id=40#", 1000, 5, 900, 50, 6, 1, None),
    (STEP, 2000, 90, 1800, 100, 7, 2, None),
    ("TSL:Thunk:#hlo_op=while#", 2000, 10, 1810, 10, 7, 3, 2),
    ("TSL:Thunk:#name=jit(f)/dot,hlo_op=dot#", 2000, 10, 1812, 2, 7, 4, 3),
    ("TSL:Thunk:#name=jit(f)/psum,hlo_op=all-reduce#", 2015, 75, 1830, 2, 7, 5, 2),
    ("NCCL:ncclGroupEnd", 2015, 75, 1831, 1, 7, 6, 5),
    ("train#step_num=3#", 2000, 95, 1790, 300, 6, 7, None),
    (STEP, 2010, 80, 1805, 100, 9, 8, None),
    ("TSL:Thunk:#name=jit(f)/dot,hlo_op=dot#", 2012, 20, 1815, 2, 9, 9, 8),
    ("TSL:Thunk:#name=jit(f)/psum,hlo_op=all-reduce#", 2040, 50, 1835, 2, 9, 10, 8),
)
NAMES = ("Name", "Projected Start", "Projected Duration", "Orig Start", "Orig Duration", "TID", "RangeId", "ParentId")
GPU, CUDA = "TARGET_INFO_GPU", "TARGET_INFO_NVTX_CUDA_DEVICE"


def whole():
    """The tables of a process that drives two GPUs by a thread each, and the program that both ran, by their names."""
    columns = dict(zip(NAMES, zip(*RANGES, strict=True), strict=True))
    levels = [None if row[6] is None else 0 if row[7] is None else 2 if row[7] in (3, 5) else 1 for row in RANGES]
    launchers = [f"XlaLauncher:#global={device},local={device - 8},process=4,partition=0#" for device in (8, 9)]
    names = [f"Xla:#global={device},local={device - 8},process=4,slice=0#" for device in (8, 9)]
    threads = {"Name": ["python", *launchers, "cuda-EvtHandlr"], "Priority": [20] * 4}
    facts = {"name": ["H100"] * 2, "totalMemory": [80 << 30] * 2, "memoryBandwidth": [3_352_320_000_000] * 2}
    facts |= {"uuid": ["a", "b"]}
    return {
        TRACE: {**columns, "Lvl": levels, "PID": [6] * len(RANGES), "Rank": [0] * len(RANGES)},
        THREADS: {**threads, "PID": [6] * 4, "TID": [6, 7, 9, 11]},
        DEVICES: {
            **{str((GPU, name)): values for name, values in facts.items()},
            str((CUDA, "name")): names,
            "cuDevice": [0, 1],
        },
        DUMP: program(1, 2, ("while", "dot", "all-reduce")),
    }


def member(content):
    """A table, whose columns are lists or arrays, as Parquet; bytes as they are."""
    if isinstance(content, bytes):
        return content
    data = io.BytesIO()
    parquet.write_table(pa.table({column: pa.array(cells) for column, cells in content.items()}), data)
    return data.getvalue()


def read(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return bounded(nsys_jax.read(path))


def frames(trace):
    hosts = trace.hosts[["host", "world_size"]]
    return [*figures(trace), hosts.to_csv()]


REFUSAL = re.compile(
    r".*/a\.zip is no whole archive of nsys-jax: (none of its 10 projected ranges has a name, an id and a valid time|"
    r"its table of projected ranges has no column '[A-Za-z ]+')\. Copy it again, in binary mode, or give its report, "
    r"exported with `nsys export --type sqlite`\."
)
# Of device work; what rests on these is withheld by other kinds of losses than details.
WORK = ["device", "name", "kind"]
TEXTS = (None, "damaged", b"\xff", "")
NUMBERS = (None, -1, 2**62, math.nan, 0.5, 0)
COLUMNS = (..., None, "damaged", 0.5, b"damaged", [1])


def with_cell(cells, row, value):
    """A column with another value in a row: of its own type, or of floats, or with bytes that are no text."""
    cells = [*cells]
    cells[row] = value
    if isinstance(value, float):
        return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
    if isinstance(value, bytes):
        return pa.array([cell.encode() if isinstance(cell, str) else cell for cell in cells]).view("string")
    return pa.array(cells)


def changes(cells, each, first):
    """(value, damaged column) for `each` values of each cell in turn from the `first` on, and for the whole column,
    which is None where it goes (`...`)."""
    values = TEXTS if any(isinstance(cell, str) for cell in cells) else NUMBERS
    for row in range(len(cells)):
        for turn in range(each):
            value = values[(first + row * each + turn) % len(values)]
            yield value, with_cell(cells, row, value)
    for value in COLUMNS:
        yield value, None if value is ... else pa.array([value] * len(cells))


# Ranges are called as their makers like, as are GPUs.
ANY_TEXT = {"Name", "Text", str((GPU, "name"))}
# Any time may be the first, and any number tells work and launches of one id apart from others.
ANY_NUMBER = {"Projected Start", "Start", "Orig Start", "RangeId", "Range ID"}
# A range may take no time on the GPU or, by the clock, on the host.
ANY_LENGTH = {"Projected Duration", "Orig Duration"}
# What CUDA does not tell of a GPU; the tables of GPUs and of their names stand side by side, and one may be longer.
MAY_BE_UNKNOWN = {*(str((GPU, name)) for name in ("name", "totalMemory", "memoryBandwidth")), str((CUDA, "name"))}


def is_legal(column, value):
    """Whether another archive may hold this, so that nothing tells that it is damage."""
    if value in (..., None) or (isinstance(value, float) and math.isnan(value)):
        return column in MAY_BE_UNKNOWN
    if isinstance(value, str):
        return column in ANY_TEXT or (column in MAY_BE_UNKNOWN and value != "")
    if value == 0:
        return column in ANY_NUMBER | ANY_LENGTH | MAY_BE_UNKNOWN
    return value in (-1, 2**62) and column in ANY_NUMBER


def silent_changes(path, tables, name, each, whole_columns=()):
    """The changes of a table, but for `whole_columns`, that change figures without a loss or a note, or device work
    with a loss of details alone; and why the file was refused for a change of other columns."""
    members = {other: member(content) for other, content in tables.items()}
    undamaged = read(path, members)
    assert not len(undamaged.losses)
    own, work = frames(undamaged), undamaged.events[WORK].to_csv()
    silent, refused = [], {}
    for number, column in enumerate(column for column in tables[name] if column not in whole_columns):
        for value, damaged in changes(tables[name][column], each, number):
            content = {**tables[name], column: damaged}
            data = member({other: cells for other, cells in content.items() if cells is not None})
            try:
                trace = read(path, {**members, name: data})
            except TraceError as error:
                refused[column] = str(error)
                continue
            is_withheld = {*trace.losses["what"]} - {"details"}
            is_same_work = trace.events[WORK].to_csv() == work
            is_told = is_withheld or (is_same_work and (len(trace.losses) or trace.notes != undamaged.notes))
            if not is_told and frames(trace) != own and not is_legal(column, value):
                silent.append((column, value, damaged))
    return silent, refused


@pytest.mark.parametrize(("name", "each"), [(TRACE, 1), (THREADS, 3), (DEVICES, 3)])
def test_any_one_value_that_is_damaged_costs_itself_and_is_told(tmp_path, name, each):
    """Nothing that changes a figure is silent, but what another archive may hold."""
    silent, refused = silent_changes(tmp_path / "a.zip", whole(), name, each)
    assert not silent
    # Whole columns that are gone, or of another type; without a range nothing is left.
    assert {*refused} <= ({*NAMES, "PID"} if name == TRACE else set())
    assert all(map(REFUSAL.fullmatch, refused.values()))


def test_any_one_value_that_is_damaged_is_told_where_newer_versions_call_the_columns_otherwise(tmp_path):
    tables = whole()
    old = tables[TRACE]
    ends = [start + length for start, length in zip(old["Projected Start"], old["Projected Duration"], strict=True)]
    newer = {"Text": old["Name"], "Start": old["Projected Start"], "End": ends, "PID": old["PID"], "TID": old["TID"]}
    tables[TRACE] = {**newer, "Range ID": old["RangeId"], "Parent ID": old["ParentId"], "Lvl": old["Lvl"]}
    silent, refused = silent_changes(tmp_path / "a.zip", tables, TRACE, 1, {*old})
    assert not silent
    assert {*refused} <= {*tables[TRACE]} - {*old}
    assert all(map(REFUSAL.fullmatch, refused.values()))
