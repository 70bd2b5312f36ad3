"""Mutants of small traces, read and reported: `python -m tests.fuzz --seconds 600 --seed 1 --keep DIR`.

Mutants keep the structure of their format, so that they reach what stands behind the first check: fields of protobuf
messages, values of JSON, cells and tables of SQLite, and of all three cut, doubled and overwritten bytes. A mutant is
an answer or a TraceError of one sentence that names the file; a find is anything else, or a read of more than
`SLOWEST_S`.
"""

import argparse
import gzip
import json
import random
import sqlite3
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import tracekit
from tracekit.readers import protobuf_decoder as protobuf

DATA = Path(__file__).parent / "data"
SLOWEST_S = 20.0
_REPORTED = 0.05  # of the mutants that are read, so many are reported as well, which takes longer

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
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "copy.sqlite"
        path.write_bytes(content)
        base = sqlite3.connect(path)
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
        base.close()
        return path.read_bytes()


Mutate = Callable[[random.Random, bytes], bytes]


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
    return found


def outcome(path: Path, is_reported: bool) -> str:
    """What a mutant at `path` ends in: "answer", "refusal", or what it should not."""
    begun = time.monotonic()
    try:
        trace = tracekit.read(path)
        if is_reported:
            tracekit.analyse(trace)
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
    took = time.monotonic() - begun
    return ended if took < SLOWEST_S else f"{took:.0f} s: {ended}"


def _where(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "tracekit" in frame.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} at {place}: {str(error)[:120]}"


def fuzz(seed: int, mutants: int, seconds: float = float("inf"), only: str = "") -> tuple[Counter[str], list[Find]]:
    """How many of at most so many mutants end in what, within `seconds`, and the finds, one of each kind.

    `only` takes the seeds whose name ends so. The same `seed` gives the same mutants.
    """
    chance, counts, finds = random.Random(seed), Counter[str](), dict[str, Find]()
    inputs = {name: entry for name, entry in seeds().items() if name.endswith(only)}
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(mutants):
            if time.monotonic() > until:
                break
            name = chance.choice(list(inputs))
            content, mutate = inputs[name]
            for _ in range(chance.choice([1, 1, 1, 2, 4])):
                content = _changed(chance, content, mutate)
            path = Path(folder) / name
            path.write_bytes(content)
            ended = outcome(path, chance.random() < _REPORTED)
            counts[ended if ended in ("answer", "refusal") else "find"] += 1
            if ended not in ("answer", "refusal"):
                finds.setdefault(ended.partition(":")[0] + ended.partition(":")[2][:6], Find(name, ended, content))
    return counts, list(finds.values())


def _changed(chance: random.Random, content: bytes, mutate: Mutate) -> bytes:
    """The content mutated; where an earlier mutation left nothing of its structure, by its bytes."""
    try:
        return mutate(chance, content)
    except (ValueError, sqlite3.Error, IndexError, RecursionError):
        return mutated_bytes(chance, content)


def main() -> int:
    """Fuzz for a while, keep the finds, and say what was seen; 1 where there is a find."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=600)
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--only", default="", help="only seeds whose name ends so, such as .sqlite")
    options.add_argument("--keep", type=Path, default=Path("fuzz-finds"))
    given = options.parse_args()
    print(f"seed {given.seed}", flush=True)
    counts, finds = fuzz(given.seed, 10**9, given.seconds, given.only)
    print(", ".join(f"{count} {ended}" for ended, count in counts.items()))
    for number, find in enumerate(finds):
        given.keep.mkdir(parents=True, exist_ok=True)
        path = given.keep / f"{given.seed}-{number}-{find.name}"
        path.write_bytes(find.content)
        print(f"{path}: {find.ended_in}")
    return int(bool(finds))


if __name__ == "__main__":
    raise SystemExit(main())
