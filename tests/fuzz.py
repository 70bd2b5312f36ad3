"""Mutants of small traces, read and reported: `python -m tests.fuzz --seconds 600 --seed 1 --keep DIR`.

Mutants keep the structure of their format, so that they reach what stands behind the first check: fields of protobuf
messages, values of JSON, cells and tables of SQLite, manifests and tables of summaries, members of nsys-jax archives,
tables of directories of Parquet, and of all cut, doubled and overwritten bytes. A mutant is an answer or a TraceError
of one sentence that names the file; a find is anything else: another exception, a signal, a read of more than
`SLOWEST_S`, or of more memory than 500 MB and four times the size of the mutant.

Mutants are tried in a process of their own, with everything imported and compiled. `--kept FILE` tries a kept one
again.
"""

import argparse
import gzip
import io
import json
import os
import queue
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

import tracekit
from tests.readers import nsys_jax_archives, rocprof_files
from tests.readers.nsys.exports import as_parquet
from tests.readers.nsys_jax_archives import RANGES
from tracekit import readers
from tracekit.readers import protobuf_decoder as protobuf
from tracekit.readers import summary
from tracekit.readers.summary import HostTrace
from tracekit.readers.xspace import xspace_file
from tracekit.readers.xspace.programs import programs

DATA = Path(__file__).parent / "data"
SLOWEST_S = 20.0  # of processor time
MOST_BYTES, MOST_TIMES_SIZE = 500 << 20, 4
_DIRECTORY = "_pqtdir"  # a mutant of that name is packed
_REPORTED = 0.12  # of the mutants that are read, so many get a whole report as well, which takes ten times as long
# Where a process is ended: what it does then is a find.
_ENDED_S, _ENDED_BYTES = 180.0, 4 << 30

_NUMBERS = (0, 1, 2, 127, 128, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**30, 0.5, -0.5, 1e300, float("nan")),
    *(float("inf"), "", "x", "0", "-1", "nan", "9" * 5000, "\ud800", "\0", "é" * 3, "x" * 5000, [], [1], [[]], {}),
    *({"a": 1}, ["x", None], "[1,2]<=[99999999,99999999]", "{{0,1},{2,3}}", "gpu:0", "ProfilerStep#" + "9" * 30),
)
_CELLS: tuple[Any, ...] = (
    None,
    0,
    -1,
    1,
    2**31,
    2**62,
    2**63 - 1,
    -(2**63),
    0.5,
    1e300,
    "x",
    "",
    b"\xff\x00",
    "9" * 40,
)


class Find(NamedTuple):
    """A mutant that is neither an answer nor one sentence: what it ended in, and its bytes."""

    name: str
    ended_in: str
    content: bytes


class WorkerEnded(Exception):
    """The process that tries mutants has ended, or was to be ended."""


class Mutant(NamedTuple):
    """A mutant of the seed of that name, and whether it is reported as well."""

    name: str
    content: bytes
    is_reported: bool


def varint(value: int) -> bytes:
    """The varint of an unsigned number."""
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def fields_of(message: bytes) -> list[tuple[int, int, bytes]] | None:
    """Number, wire type and value of each field; None of bytes that are no message."""
    try:
        return [(number, kind, message[at:end]) for number, kind, at, end in protobuf.fields(message, 0, len(message))]
    except protobuf.Broken:
        return None


def message_of(fields: list[tuple[int, int, bytes]]) -> bytes:
    """The message of such fields."""
    return b"".join(
        varint(number << 3 | kind) + (varint(len(value)) if kind == protobuf.LENGTH else b"") + value
        for number, kind, value in fields
    )


def mutated_message(chance: random.Random, message: bytes) -> bytes:
    """The message with one field of it, or of a message in it, changed; lengths around it are mostly kept right."""
    fields = fields_of(message)
    if not fields:
        return mutated_bytes(chance, message)
    at = chance.randrange(len(fields))
    number, kind, value = fields[at]
    if kind == protobuf.LENGTH and value and chance.random() < 0.8:
        inner = fields_of(value)
        value = mutated_message(chance, value) if inner else mutated_bytes(chance, value)
        fields[at] = (number, kind, value)
        return message_of(fields)
    match chance.randrange(8):
        case 0:
            del fields[at]
        case 1:
            fields.insert(chance.randrange(len(fields) + 1), fields[at])
        case 2:
            fields[at] = (chance.randrange(1, 20), kind, value)
        case 3:
            fields[at] = (number, protobuf.FIXED64, chance.randbytes(8))
        case 4:
            fields[at] = (number, protobuf.LENGTH, chance.choice([b"", b"abcd", b"\x80\xff", message, value * 3]))
        case 5:
            return message_of(fields[:at]) + varint(number << 3 | protobuf.LENGTH) + varint(chance.choice(_NUMBERS))
        case 6:
            return message[: chance.randrange(len(message) + 1)]
        case _:
            fields[at] = (number, protobuf.VARINT, varint(chance.choice(_NUMBERS)))
    return message_of(fields)


def mutated_bytes(chance: random.Random, content: bytes) -> bytes:
    """The bytes with a part cut off, doubled or overwritten."""
    first, last = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    last = min(last, first + chance.choice([1, 8, 64, 4096]))
    match chance.randrange(5):
        case 0:
            return content[:first]
        case 1:
            return content[:last] + content[first:]
        case 2:
            return content[:first] + bytes(last - first) + content[last:]
        case 3:
            return content + chance.choice([bytes(4096), content, b"\xff" * 9])
        case _:
            return content[:first] + chance.randbytes(last - first) + content[last:]


def mutated_json(chance: random.Random, content: bytes) -> bytes:
    """The document with one value of it changed, left out, doubled or nested."""
    document = json.loads(content)
    holder, key = chance.choice(list(_places(chance, document)))
    match chance.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, holder[key])
        case 2 if isinstance(holder, dict):
            holder[chance.choice(["ts", "dur", "args", "ph", "name", "pid", "x"])] = holder[key]
        case 3:
            for _ in range(chance.choice([1, 3, 300, 900])):
                holder[key] = [holder[key]] if chance.random() < 0.5 else {"a": holder[key]}
        case _:
            holder[key] = chance.choice(_VALUES)
    text = json.dumps(document).encode("utf-8", "surrogatepass")
    return mutated_bytes(chance, text) if chance.random() < 0.1 else text


def _places(chance: random.Random, value: Any) -> Iterator[tuple[Any, Any]]:
    """Some places in a document, one a level on each way down."""
    for _ in range(8):
        at = value
        while isinstance(at, dict | list) and at:
            key = chance.choice(list(at)) if isinstance(at, dict) else chance.randrange(len(at))
            yield at, key
            at = at[key]


def mutated_sqlite(chance: random.Random, content: bytes) -> bytes:
    """The database with a cell, a table or its schema changed, or some of its bytes."""
    if chance.random() < 0.3:
        return mutated_bytes(chance, content)
    with closing(sqlite3.connect(":memory:")) as base:
        base.deserialize(content)
        tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = chance.choice(tables)
        columns = [name for _, name, *_ in base.execute(f'PRAGMA table_info("{table}")')]
        column = chance.choice(columns)
        (rows,) = base.execute(f'SELECT count(*) FROM "{table}"').fetchone()
        row = f'(SELECT rowid FROM "{table}" LIMIT 1 OFFSET {chance.randrange(max(rows, 1))})'
        place = "" if chance.random() < 0.2 else f"WHERE rowid = {row}"
        change = chance.choice(
            [
                f'DELETE FROM "{table}"',
                f'DROP TABLE "{table}"',
                f'ALTER TABLE "{table}" RENAME TO "{table}_V{chance.randrange(12)}"',
                f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "other"',
                *[f'UPDATE OR IGNORE "{table}" SET "{column}" = ? {place}'] * 8,
            ]
        )
        with suppress(sqlite3.Error):
            base.execute(change, (chance.choice(_CELLS),) if "?" in change else ())
        base.commit()
        return bytes(base.serialize())


def mutated_archive(chance: random.Random, content: bytes) -> bytes:
    """The archive with one of its members changed, mostly the first, or some of its bytes."""
    return mutated_bytes(chance, content) if chance.random() < 0.1 else mutated_directory(chance, content)


def mutated_directory(chance: random.Random, content: bytes) -> bytes:
    """The archive, which stands for a directory, with one of its members changed, mostly the first, emptied or gone."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = next(iter(members)) if chance.random() < 0.5 else chance.choice([*members])
    mutate = {".parquet": mutated_parquet, ".pb": mutated_message}.get(Path(name).suffix, mutated_json)
    members[name] = _changed(chance, members[name], mutate)
    if chance.random() < 0.05:
        del members[name]
    elif chance.random() < 0.05:
        members[name] = b""
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w", chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for member, data in members.items():
            archive.writestr(zipfile.ZipInfo(member), data, archive.compression)
    return changed.getvalue()


def mutated_parquet(chance: random.Random, content: bytes) -> bytes:
    """The table with a cell, a column, its type or its number of rows changed, or some of its bytes."""
    if chance.random() < 0.1:
        return mutated_bytes(chance, content)
    table = parquet.read_table(io.BytesIO(content))
    at = chance.randrange(table.num_columns)
    column, name = table.column(at), table.column_names[at]
    values = column.to_pylist()
    match chance.randrange(7):
        case 0:
            table = table.drop_columns([name])
        case 6:
            other = chance.choice(["", name.upper(), f"{name}.", 'a" CHECK (1) CONSTRAINT "a', "\0", "x" * 5000])
            table = table.append_column(other, column) if chance.random() < 0.5 else _renamed(table, at, other)
        case 1:
            table = table.slice(chance.randrange(len(values) + 1), chance.choice([0, 1, len(values)]))
        case 2:
            table = table.take([chance.randrange(len(values))] * chance.choice([1, 1000, 1 << 20]))
        case 3:
            others: list[Any] = [[0.5] * len(values), ["x"] * len(values), [[1]] * len(values), [True] * len(values)]
            table = table.set_column(at, name, pa.array(chance.choice(others)))
        case _:
            cell = chance.choice(_CELLS)
            cells = [cell] * len(values)
            if chance.random() < 0.7:
                cells = [*values]
                cells[chance.randrange(len(values))] = cell
            with suppress(pa.ArrowException, OverflowError, TypeError):  # it is of another type
                table = table.set_column(at, name, pa.array(cells, column.type))
    changed = io.BytesIO()
    parquet.write_table(table, changed, compression="zstd")
    return changed.getvalue()


def _renamed(table: pa.Table, at: int, name: str) -> pa.Table:
    return table.rename_columns([name if place == at else have for place, have in enumerate(table.column_names)])


Mutate = Callable[[random.Random, bytes], bytes]
# What a summary holds of a capture.json.
_CAPTURE = {
    "schema": 1,
    "exit_code": 1,
    "usable_cores": 2,
    "commit": None,
    "xla_flags": "",
    "machines": {"gpu": "m"},
    "machine": {
        "cores": 2,
        "load_average": [3.0, 2.5],
        "throttled": {"periods": 0, "throttled_s": 0.0},
        "samples": {
            "unix_ns": [1795728427391000000, 1795728427608637602],
            **{f"{who}_cpu_s": [0.0, 0.07] for who in ("own", "other", "stolen")},
            "frequency_mhz": [2596.1, 2596.1],
        },
        "lacking": {},
    },
}


@cache
def seeds() -> dict[str, tuple[bytes, Mutate]]:
    """The small traces of the tests by the name that their mutants have, and how to mutate each."""
    mutations: dict[str, Mutate] = {".pb": mutated_message, ".json": mutated_json, ".sqlite": mutated_sqlite}
    found: dict[str, tuple[bytes, Mutate]] = {}
    for path in sorted([*DATA.iterdir(), *(DATA / "generated").rglob("*")]):
        name = path.name.removesuffix(".gz")
        mutate = mutations.get(Path(name).suffix)
        if path.is_file() and mutate and name != "expected.json":
            content = path.read_bytes()
            found[name] = (gzip.decompress(content) if path.name.endswith(".gz") else content, mutate)
    host = readers.host_trace(DATA / "generated" / "gpu.xplane.pb")
    summarised = HostTrace(replace(host.trace, source="gpu.xplane.pb"), host.world_size, _CAPTURE, is_fitted=True)
    found["gpu.tracekit.zip"] = (summary.to_bytes(summarised), mutated_archive)
    found["gpu.nsys-jax.zip"] = (_nsys_jax(), mutated_archive)
    found[f"gpu{_DIRECTORY}"] = (_nsys_parquet(), mutated_directory)
    found["10_results.json"] = (json.dumps({"rocprofiler-sdk-tool": [rocprof_files.whole()]}).encode(), mutated_json)
    return found


def _nsys_jax() -> bytes:
    """An archive of nsys-jax of a program that the generated XSpace holds."""
    space = xspace_file.read(DATA / "generated" / "gpu.xplane.pb", ["Hlo Proto"])
    proto = programs(space).protos["jit_train(7)"]
    ops = ["dot.3", "fusion.4", "all-reduce-start.5", "fusion.8", "all-gather-start.9", "no op of it"]
    step = ("TSL:XlaModule:#hlo_module=jit_train,program_id=7#", 2000, 9000, 1800, 900, 2, None)
    thunks = [
        (f"TSL:Thunk:#name=a,hlo_op={op}#", 2000 + 900 * at, 800, 1810 + at, 1, 10 + at, 2) for at, op in enumerate(ops)
    ]
    content, name = io.BytesIO(), "XlaLauncher:#global=3,local=0,process=3,partition=0#"
    dump = ("module_0007.jit_train.sm_8.0_gpu_after_optimizations.hlo.pb", proto)
    nsys_jax_archives.archive(content, nsys_jax_archives.table([*RANGES[:1], step, *thunks]), 3, name, [dump])
    return content.getvalue()


def _nsys_parquet() -> bytes:
    """The generated export of Nsight Systems as a directory of Parquet, packed."""
    content = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(content, "w") as archive:
        for file in sorted(as_parquet(DATA / "generated" / "gpu.sqlite", Path(folder) / "a").iterdir()):
            archive.writestr(zipfile.ZipInfo(file.name), file.read_bytes(), archive.compression)
    return content.getvalue()


def mutant(seed: int, number: int, only: str = "") -> Mutant:
    """The mutant of that number; the same `seed` always gives the same. `only` takes seeds whose name ends so."""
    chance = random.Random(f"{seed}-{number}")
    names = [name for name in seeds() if name.endswith(only)]
    # A large trace takes longer and holds more of the same.
    (name,) = chance.choices(names, [len(seeds()[name][0]) ** -0.5 for name in names])
    content, mutate = seeds()[name]
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        content = _changed(chance, content, mutate)
    return Mutant(name, content, chance.random() < _REPORTED)


def _changed(chance: random.Random, content: bytes, mutate: Mutate) -> bytes:
    """The content mutated; where an earlier mutation left nothing of its structure, by its bytes."""
    try:
        return mutate(chance, content)
    except Exception:  # of many libraries
        return content if mutate is mutated_directory else mutated_bytes(chance, content)


def outcome(path: Path, is_reported: bool) -> str:
    """What a mutant at `path` ends in: "answer", "refusal", or what it should not."""
    begun = time.process_time()
    try:
        if is_reported:
            with tempfile.TemporaryDirectory() as folder:
                tracekit.report(path, Path(folder) / "report")
                summary = (Path(folder) / "report" / "summary.json").read_text("utf-8")
            json.loads(summary, parse_constant=_no_json)
        else:
            tracekit.read(path)
        ended = "answer"
    except tracekit.TraceError as error:
        text = str(error)
        if error.__cause__ is not None:
            ended = _where(error.__cause__)
        elif str(path) not in text or "\n" in text or not text.endswith("."):
            ended = f"no sentence on the file: {text[:200]}"
        else:
            ended = "refusal"
    except Exception as error:
        ended = _where(error)
    took = time.process_time() - begun
    return ended if took < SLOWEST_S else f"{took:.0f} s: {ended}"


def _no_json(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _where(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "tracekit" in frame.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} at {place}: {str(error)[:120]}"


def fuzz(seed: int, mutants: int, only: str = "") -> tuple[Counter[str], list[Find]]:
    """How many of the first mutants of `seed` end in what, in this process, and the finds, one of each kind."""
    counts, finds = Counter[str](), dict[str, Find]()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(mutants):
            one = mutant(seed, number, only)
            _count(counts, finds, one, _tried(one, Path(folder)))
    return counts, list(finds.values())


def _tried(one: Mutant, folder: Path) -> str:
    path = folder / one.name
    if one.name.endswith(_DIRECTORY):
        shutil.rmtree(path, ignore_errors=True)
        with zipfile.ZipFile(io.BytesIO(one.content)) as archive:
            archive.extractall(path)
    else:
        path.write_bytes(one.content)
    return outcome(path, one.is_reported)


def _count(counts: Counter[str], finds: dict[str, Find], one: Mutant, ended: str) -> None:
    counts["whole reports"] += one.is_reported and ended == "answer"
    counts[ended if ended in ("answer", "refusal") else "find"] += 1
    if ended not in ("answer", "refusal"):
        finds.setdefault(ended.partition(":")[0] + ended.partition(":")[2][:6], Find(one.name, ended, one.content))


def _work(seed: int, number: int, only: str) -> None:
    """Try mutants from that number on, and print a line of JSON for each; ends where its reader does."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        for name, (content, _) in seeds().items():
            _tried(Mutant(name, content, True), Path(folder))
        print(json.dumps(["warm", 0]), flush=True)
        while True:
            one = mutant(seed, number, only)
            before = _peak_bytes(is_reset=True)
            ended = _tried(one, Path(folder))
            grown = _peak_bytes() - before
            if grown > MOST_BYTES + MOST_TIMES_SIZE * len(one.content):
                ended = f"{grown >> 20} MB: {ended}"
            print(json.dumps([ended, grown]), flush=True)
            number += 1


def _peak_bytes(is_reset: bool = False) -> int:
    """The most memory that this process has held since it was reset; 0 where the system does not tell."""
    with suppress(OSError):
        if is_reset:
            Path("/proc/self/clear_refs").write_text("5")
        (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) << 10
    return 0


def watched(seed: int, seconds: float, only: str, counts: Counter[str], finds: dict[str, Find]) -> Iterator[int]:
    """Count as `fuzz`, for so many seconds, in a process that is ended, and replaced, where a mutant takes too much;
    gives the number of each mutant that is a find of a new kind."""
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        command = [sys.executable, "-m", "tests.fuzz", "--worker", str(number), "--seed", str(seed), "--only", only]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lines = lines_of(process)
        try:
            while time.monotonic() < until:
                try:
                    ended, grown = line_of(process, lines)
                except WorkerEnded as error:
                    ended, grown = str(error), 0
                if ended == "warm":
                    continue
                known = len(finds)
                _count(counts, finds, mutant(seed, number, only), ended)
                counts["MB at most"] = max(counts["MB at most"], grown >> 20)
                if len(finds) > known:
                    yield number
                number += 1
                if process.poll() is not None or ended.startswith("more than"):
                    break
        finally:
            process.kill()
            process.wait()


def lines_of(process: "subprocess.Popen[str]") -> "queue.Queue[str]":
    """What the process prints, line by line as it comes, and "" at its end."""

    def pass_on() -> None:
        for line in process.stdout or ():
            lines.put(line)
        lines.put("")

    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=pass_on, daemon=True).start()
    return lines


def line_of(process: "subprocess.Popen[str]", lines: "queue.Queue[str]") -> Any:
    """The value of the next line, of JSON; raises WorkerEnded where the process has ended, or takes too much."""
    until = time.monotonic() + _ENDED_S
    while time.monotonic() < until:
        with suppress(queue.Empty):
            if line := lines.get(timeout=0.2):
                return json.loads(line)
            code = process.wait()
            raise WorkerEnded(f"ended by itself: {signal.Signals(-code).name if code < 0 else code}")
        with suppress(OSError):
            if int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4096 > _ENDED_BYTES:
                raise WorkerEnded(f"more than {_ENDED_BYTES >> 30} GB: it is ended")
    raise WorkerEnded(f"more than {_ENDED_S:.0f} s: it is ended")


def main() -> int:
    """Fuzz for a while, keep the finds, and say what was seen; 1 where there is a find."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=600)
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--only", default="", help="only seeds whose name ends so, such as .sqlite")
    options.add_argument("--keep", type=Path, default=Path("fuzz-finds"))
    options.add_argument("--kept", type=Path, help="try this mutant, and say what it ends in")
    options.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.kept:
        with tempfile.TemporaryDirectory() as folder:
            print(ended := _tried(Mutant(given.kept.name, given.kept.read_bytes(), True), Path(folder)))
        return int(ended not in ("answer", "refusal"))
    if given.worker is not None:
        _work(given.seed, given.worker, given.only)
    print(f"seed {given.seed}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    counts, finds = Counter[str](), dict[str, Find]()
    with suppress(KeyboardInterrupt):
        for number in watched(given.seed, given.seconds, given.only, counts, finds):
            find = [*finds.values()][-1]
            given.keep.mkdir(parents=True, exist_ok=True)
            path = given.keep / f"{given.seed}-{number}-{find.name}"
            path.write_bytes(find.content)
            print(f"{path}: {find.ended_in}", flush=True)
    print(", ".join(f"{count} {ended}" for ended, count in counts.items()))
    return int(bool(finds))


if __name__ == "__main__":
    raise SystemExit(main())
