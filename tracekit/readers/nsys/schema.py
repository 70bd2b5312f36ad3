"""The schema of an SQLite database: which of its tables hold together, and which are damaged.

SQLite refuses a database of which one definition is damaged, and needs none but those of the tables that it is asked
for; `PRAGMA writable_schema = ON` makes it leave out those that it cannot read, and no longer compare names, so that
is done here (https://www.sqlite.org/pragma.html#pragma_writable_schema). Neither way it sees that a definition has
fewer columns than the rows, as after a comment that lost its end, so that each value stands in another column. Records
and pages are laid out as https://www.sqlite.org/fileformat2.html says.
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from tracekit.readers.losses import Lost
from tracekit.readers.nsys.pages import DEEPEST, INNER, PAGES, ROWS, Page, below, number_at, tree, values_in
from tracekit.units import quantity
from tracekit.vocabulary.losses import Loss

VIEW = "a view, not a table"
COMPUTED = "columns that are computed, not stored"
SHADOWED = "a column of its own called rowid"
DAMAGED = "its definition is damaged"

_TABLE = re.compile(
    r"""\s*CREATE\s+TABLE\s+(?:"((?:[^"]|"")*)"|'((?:[^']|'')*)'|\[([^\]]*)\]|`((?:[^`]|``)*)`|([^\s("'\[`]+))""",
    re.IGNORECASE,
)
_NOTHING = np.zeros(0, np.int64)
_FEW = 9
_KINDS = ("table", "index", "view", "trigger")
# How PRAGMA table_xinfo tells computed columns, of which the first are not in the rows.
_VIRTUAL, _STORED = 2, 3


@dataclass(frozen=True)
class Schema:
    """The columns of each table, the words of their types and the page that its rows begin at, those whose rows have
    numbers of their own, why some tables are not read, what else is lost, and how many pages there are that belong to
    a table and that it does not lead to."""

    tables: Mapping[str, frozenset[str]]
    words: Mapping[str, frozenset[str]]
    roots: Mapping[str, int]
    with_keys: frozenset[str]
    refused: Mapping[str, str]
    lost: Sequence[Lost]
    pages_without_table: int


@dataclass(frozen=True)
class _Entry:
    """A row of the schema: its type, its name, that of its table, the page that its rows begin at, and the name of the
    table that its text declares, None of anything else."""

    kind: str | None
    name: str | None
    table: str | None
    root: object
    declared: str | None

    @property
    def is_table(self) -> bool:
        """Whether SQLite may take it for a table, or it was one before its text was damaged: views and triggers have no
        rows, and indices are not called as their tables are."""
        return self.declared is not None or (self.kind == "table" and _is_page(self.root) and self.name == self.table)

    @property
    def is_strange(self) -> bool:
        """Whether it is a row of something else, as of a page of a table in the place of one of the schema."""
        return self.kind not in _KINDS and self.name is None and self.table is None and not self.is_table

    @property
    def known(self) -> str | None:
        """The name that at least two of its three places tell."""
        names = Counter(name for name in (self.declared, self.name, self.table) if name)
        return next((name for name, count in names.most_common(1) if count > 1), None)


def schema(connection: sqlite3.Connection, page: Page | None, is_damaged: bool) -> Schema:
    """The schema of a database, of which `page` gives the bytes of a page, where it is in a file.

    Where SQLite leaves out what it cannot read (`is_damaged`), a table is read if the places that tell its name agree,
    or two of them with its text, and no other one tells it. Two tables never share their rows: of those that seem to,
    the one is read whose columns are as many as the values there.
    """
    ((pages,),) = connection.execute("PRAGMA page_count")
    entries, lost = _entries(connection, is_damaged)
    refused = {entry.name: VIEW for entry in entries if entry.kind == "view" and entry.name and not entry.is_table}
    own = [entry for entry in entries if entry.is_table]
    if strange := sum(entry.is_strange for entry in entries):
        lost.append(Lost(Loss.TABLES, None, None, f"damaged in the schema: {quantity(strange, 'entry', 'entries')}"))
    times = Counter(name.lower() for entry in own for name in {entry.known, entry.declared} if name)
    tables: dict[str, frozenset[str]] = {}
    words: dict[str, frozenset[str]] = {}
    roots: dict[object, list[str]] = {}
    fitting, with_keys = set(), set()
    for entry in own:
        name = entry.known
        if name is None:
            lost.append(Lost(Loss.TABLES, 1, len(own), "of which the schema does not tell the name"))
        columns = _columns(connection, name) if name and name == entry.declared and times[name.lower()] == 1 else []
        if name is None or not columns or not _is_page(entry.root):
            refused |= {each: DAMAGED for each in (name, entry.name, entry.table, entry.declared) if each}
            continue
        tables[name] = frozenset(column for column, *_ in columns)
        words[name] = frozenset(word for _, kind, *_ in columns for word in kind.split())
        roots.setdefault(entry.root, []).append(name)
        if any(is_number for _, _, is_number, _ in columns):
            with_keys.add(name)
        stored = sum(hidden != _VIRTUAL for *_, hidden in columns)
        values = _values(page, entry.root, stored) if page else None
        if values == stored:
            fitting.add(name)
        if values is not None and values > stored:
            refused[name] = DAMAGED
        elif any(hidden in (_VIRTUAL, _STORED) for *_, hidden in columns):
            refused[name] = COMPUTED
        elif any(column.lower() == "rowid" and not is_number for column, _, is_number, _ in columns):
            refused[name] = SHADOWED
    for names in roots.values():
        if len(names) > 1:
            right = [name for name in names if name in fitting]
            refused |= {name: DAMAGED for name in names if [name] != right}
    of_tables = {name: root for root, names in roots.items() for name in names if isinstance(root, int)}
    return Schema(
        tables,
        words,
        of_tables,
        frozenset(with_keys),
        refused,
        lost,
        _pages_without_table(page, entries, pages) if page else 0,
    )


def is_lost_column(name: str, columns: frozenset[str], words: frozenset[str]) -> bool:
    """Whether the name of a column that a table lacks was damaged: a letter of it became another, or a blank beside it
    one more, or a word before it, so that it became the type of that."""
    return name in words or any(_is_near(name, column) for column in columns)


def _is_near(name: str, other: str) -> bool:
    if len(other) == len(name) + 1:
        return name in (other[:-1], other[1:])
    return len(other) == len(name) and sum(map(str.__ne__, name, other)) == 1


def _pages_without_table(page: Page, entries: Sequence[_Entry], most: int) -> int:
    """How many pages of rows there are that no entry of the schema leads to, as SQLite itself only tells where there
    are no views; of the pages that the file should have, `most` are there."""
    head = page(1)
    count = min(number_at(head, 28, 4), most)
    # Where the file is not told to have pages, SQLite counts them; and other pages may begin as those of rows do.
    if not head or not count or number_at(head, 52, 4) or count >= PAGES << 24:
        return 0
    reached = np.zeros(count + 1, bool)
    reached[:2] = True
    for root in [1, *(entry.root for entry in entries if isinstance(entry.root, int) and 1 < entry.root <= count)]:
        reached[root] = True
        level = np.array([root])
        for _ in range(DEEPEST):
            level = np.concatenate([_NOTHING, *(below(page(number), number) for number in level.tolist())])
            level = np.unique(level[(level > 0) & (level <= count)])
            level = level[~reached[level]]  # pages that hold each other are looked at once
            reached[level] = True
            if not len(level) or page(int(level[0]))[:1] not in INNER:  # all leaves are as deep as the first
                break
    free = number_at(head, 32, 4)
    for _ in range(count):
        if not 0 < free <= count or reached[free]:
            break
        trunk = page(free)
        leaves = np.frombuffer(trunk, ">u4")[2 : 2 + number_at(trunk, 4, 4)]
        reached[free] = reached[leaves[leaves <= count]] = True
        free = number_at(trunk, 0, 4)
    return sum(page(number)[:1] in (bytes([ROWS]), bytes([PAGES])) for number in np.flatnonzero(~reached).tolist())


def _entries(connection: sqlite3.Connection, is_damaged: bool) -> tuple[list[_Entry], list[Lost]]:
    """The rows of the schema, and that it breaks off, where it `is_damaged`."""
    entries: list[_Entry] = []
    query = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master ORDER BY rowid"
    try:
        entries += map(_entry, connection.execute(query))
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        if not is_damaged:
            raise
        with suppress(sqlite3.DatabaseError, UnicodeDecodeError):  # Python reads one ahead, and loses that before
            entries += map(_entry, connection.execute(f"{query} LIMIT 1 OFFSET {len(entries)}"))
        return entries, [Lost(Loss.TABLES, 1, None, f"the schema is damaged after {len(entries):,} entries")]
    return entries, []


def _entry(row: Sequence[object]) -> _Entry:
    kind, name, table, root, sql = (_text(value) if isinstance(value, bytes) else value for value in row)
    match = _TABLE.match(sql) if isinstance(sql, str) else None
    declared = next((re.sub(r"([\"'`])\1", r"\1", each) for each in match.groups() if each), None) if match else None
    kind, name, table = (each if isinstance(each, str) else None for each in (kind, name, table))
    return _Entry(kind, name, table, root, declared)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _is_page(root: object) -> bool:
    """Whether rows may begin at a page of that number; at the first the schema does."""
    return isinstance(root, int) and root > 1


def _columns(connection: sqlite3.Connection, table: str) -> list[tuple[str, str, bool, int]]:
    """The name and type of each column of a table, whether it is the number of the row, and how it is hidden."""
    query = "SELECT name, type, pk AND upper(type) = 'INTEGER', hidden FROM pragma_table_xinfo(?)"
    found = connection.execute(query, (table,))
    return [(_text(name), _text(kind), bool(is_number), hidden) for name, kind, is_number, hidden in found]


def _values(page: Page, root: object, stored: int) -> int | None:
    """How many values the rows of the table whose pages begin at `root` have, None if that cannot be told: those of the
    shortest in its first page with rows; where that has more than are `stored`, in most of a few, as one page may have
    been replaced by that of another table."""
    number = root if isinstance(root, int) else 0
    for _ in range(DEEPEST):
        content = page(number)
        if not content or content[0] not in (ROWS, PAGES):
            return None
        if content[0] == ROWS:
            break
        number = number_at(content, number_at(content, 12, 2) if number_at(content, 3, 2) else 8, 4)
    values = values_in(page(number))
    if values is None or values <= stored or not isinstance(root, int):
        return values
    of_rows = [part.page for part in tree(page, root).parts]
    counts = Counter(values_in(page(number)) for number in of_rows[:: max(1, len(of_rows) // _FEW)])
    return max(
        (count for count in counts if count is not None), key=lambda count: (counts[count], count), default=values
    )
