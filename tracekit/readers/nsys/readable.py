"""Which rows of a table of an SQLite database can be read where some of its pages are damaged, and how many are lost.

SQLite reads a table in the order of the numbers of its rows and stops at the first page that it cannot read. The pages
above tell which numbers each page holds, so that reading can go on behind it. `nsys export` numbers the rows of a table
from 1 on, without a gap; so how many are lost is known where that holds for all that are left.
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tracekit.readers.nsys import pages
from tracekit.readers.nsys.pages import Page, Part, Tree

# In SQLite's words on damage: "On tree page 7 cell 3: ...", "Page 7: ..."; it stops after so many.
_TOLD = "*** in database"
_PAGE = re.compile(r"\bpage (\d{1,10})", re.IGNORECASE)
_OF_BELOW = "Child page depth differs"
_MOST_TOLD = 100
_MORE = 0  # which is the number of no page
# In one stretch.
_MOST_ROWS = 1 << 18
_LAST_PAGES = 256
# In one sum, of which SQLite takes no more than 1,000.
_ADDED = 100
_OF_DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)


class Stretch(NamedTuple):
    """Rows of a table that can be read: so many, from the first whose number is no less than `first` on."""

    first: int
    rows: int


@dataclass(frozen=True)
class Readable:
    """What can be read of a table: the `stretches` in order, None for all that SQLite finds itself; and how many rows
    of how many are lost, None where that is not known. Where it is not `is_exact` they are no more than these.
    `strayed`: how many pages of rows may stand elsewhere in the file, None where they may be many.
    """

    stretches: Sequence[Stretch] | None
    lost: int | None
    total: int | None
    is_exact: bool = True
    strayed: int | None = None

    @property
    def is_gone(self) -> bool:
        """Whether no row can be read."""
        return self.stretches is not None and not self.stretches


@dataclass(frozen=True)
class Table:
    """A table: its name and its columns, the page that its rows begin at, and whether these have no numbers of their
    own, but those that SQLite gave them."""

    name: str
    columns: Sequence[str]
    root: int
    is_numbered: bool

    def query(self, rest: str, has_cells: bool = True) -> str:
        """A query for the numbers of rows, and whether each of their cells can be read. Not by an index, which may be
        damaged."""
        # To add values up, SQLite reads each to its end, and Python gets but one.
        names = [f'"{column}"' for column in self.columns] if has_cells else []
        cells = "".join(f", {' + '.join(names[at : at + _ADDED])}" for at in range(0, len(names), _ADDED))
        return f'SELECT rowid{cells} FROM "{self.name}" NOT INDEXED {rest}'


@dataclass(frozen=True)
class _Read:
    """What was read of a part of a table: the numbers of its rows, and of those of them that can be read, in order."""

    part: Part
    keys: Sequence[int]
    good: Sequence[int]

    @property
    def is_dense(self) -> bool:
        """Whether its rows are numbered without a gap."""
        return bool(self.keys) and self.keys[-1] - self.keys[0] + 1 == len(self.keys)


def readable(connection: sqlite3.Connection, page: Page | None, table: Table) -> Readable | None:
    """What can be read of a table, None where nothing is known to be lost.

    A row can be read where each of its cells can. Takes a query for each page of rows, and one for each row of a page
    with cells that go on in pages that cannot be read.
    """
    rows = _scanned(connection, table)
    told = wrong_pages(connection, f'"{table.name}"')
    tree = pages.tree(page, table.root) if page else Tree((), ())
    foreign = _foreign(page, tree) if page else set()
    if rows is not None and not foreign:
        return _all_read(table, tree, _numbers(told), *rows) if told else None
    read = _parts(connection, page, table, tree, foreign) if page else []
    if not page or not any(each.good for each in read):
        return Readable([], None, None)
    lost, is_exact = _lost(page, table, read, _numbers(told) & {*tree.pages, _MORE})
    good = sum(len(each.good) for each in read)
    total = None if lost is None else good + lost
    bad = [each.part.depth for each in read if not each.keys]
    depth = next(each.part.depth for each in read if each.keys)  # of all pages of rows
    return Readable(_stretches(read), lost, total, is_exact, len(bad) if {*bad} <= {depth} else None)


def _numbers(told: str) -> set[int]:
    """The pages that SQLite finds something wrong with, of indices too, and _MORE where it may not have told all."""
    lines = told.splitlines()
    # A page is not wrong for one below it that cannot be read.
    found = {int(number) for line in lines if _OF_BELOW not in line for number in _PAGE.findall(line)}
    return found | {_MORE} if len(lines) >= _MOST_TOLD else found


def _scanned(connection: sqlite3.Connection, table: Table) -> tuple[int, int] | None:
    """How many rows there are and the number of the last, None if not all can be read in order."""
    count, last = 0, pages.FIRST
    # As the columns are read: in damaged pages SQLite may find other rows without a condition.
    query = table.query(f"WHERE rowid > {pages.FIRST} ORDER BY rowid")
    try:
        for key, *_ in connection.execute(query):
            if key <= last:
                return None
            count, last = count + 1, key
    except _OF_DAMAGE:
        return None
    return count, last


def _all_read(table: Table, tree: Tree, wrong: Collection[int], count: int, last: int) -> Readable | None:
    """What is lost of a table of which SQLite reads all rows that it finds, and finds pages `wrong`, if those are its
    own: a page may have lost some of its rows, or some of the pages below it."""
    if wrong and not tree.pages.intersection(wrong):
        return None
    if not table.is_numbered or tree.last_pages.intersection(wrong) or not wrong:
        return Readable(None, None, None)
    lost = last - count if count else 0
    return Readable(None, lost, last, is_exact=False) if lost > 0 else None


def _foreign(page: Page, tree: Tree) -> set[int]:
    """The pages whose rows have more or fewer values than those of most: one of another table may hold rows of the same
    numbers, which SQLite does not see."""
    values = {part.page: _values(page(part.page)) for part in tree.parts}
    counts = Counter(filter(None, values.values()))
    # The definition does not tell: Nsight adds columns to tables that have rows already.
    usual = max(counts, key=counts.__getitem__, default=None)
    return {number for number, count in values.items() if count not in (usual, None)}


def _values(content: bytes) -> int | None:
    return pages.values_at(content, pages.place_of(content, 0)) if pages.rows_in(content) else None


def _parts(
    connection: sqlite3.Connection, page: Page, table: Table, tree: Tree, foreign: Collection[int]
) -> list[_Read]:
    """What can be read of each part of a table."""
    read = []
    for part in tree.parts:
        count = 0 if part.page in foreign else pages.rows_in(page(part.page))
        read.append(_Read(part, *_part(connection, table, part, count)) if count else _Read(part, (), ()))
    return read


def _part(connection: sqlite3.Connection, table: Table, part: Part, count: int) -> tuple[Sequence[int], Sequence[int]]:
    """The numbers of the `count` rows of a part, and of those of them that can be read, none of a damaged one."""
    bounds = (part.first, count)
    for has_cells in (True, False):
        # The number of rows, as SQLite looks at the next page for one more, even behind the last number.
        query = table.query("WHERE rowid >= ? ORDER BY rowid LIMIT ?", has_cells)
        try:
            keys = [key for key, *_ in connection.execute(query, bounds)]
        except _OF_DAMAGE:
            continue
        if len(keys) != count or keys[-1] > part.last or any(after <= before for before, after in pairwise(keys)):
            break
        numbers = range(keys[0], keys[-1] + 1) if keys[-1] - keys[0] + 1 == count else keys  # which takes no memory
        return numbers, numbers if has_cells else [key for key in keys if _is_readable(connection, table, key)]
    return (), ()


def _is_readable(connection: sqlite3.Connection, table: Table, key: int) -> bool:
    try:
        return bool(connection.execute(table.query("WHERE rowid = ?"), (key,)).fetchall())
    except _OF_DAMAGE:
        return False


def _stretches(read: Sequence[_Read]) -> list[Stretch]:
    """The rows that can be read, of parts beside each other together."""
    stretches: list[Stretch] = []
    goes_on = False
    for each in read:
        goes_on = goes_on and bool(each.keys)
        if each.keys is each.good and each.keys and goes_on and stretches[-1].rows + len(each.keys) <= _MOST_ROWS:
            stretches[-1] = Stretch(stretches[-1].first, stretches[-1].rows + len(each.keys))
            continue
        good = set(each.good)
        for key in each.keys:
            if key in good and goes_on and stretches[-1].rows < _MOST_ROWS:
                stretches[-1] = Stretch(stretches[-1].first, stretches[-1].rows + 1)
            elif key in good:
                stretches.append(Stretch(key, 1))
            goes_on = key in good
    return stretches


def _lost(page: Page, table: Table, read: Sequence[_Read], wrong: Collection[int]) -> tuple[int | None, bool]:
    """How many rows are lost, None if that is not known, and whether that is exact, or no fewer. Of the pages `wrong`
    some rows may be lost, though others can be read; so they may of all pages where `wrong` has one that is no part's.
    """
    of_parts = {each.part.page for each in read}
    last = read[-1]
    depth = next(each.part.depth for each in read if each.keys)  # of all pages of rows
    is_whole = bool(last.keys) and last.part.page not in wrong
    room = _room(page, read)
    behind = 0 if is_whole else room - len(last.keys) if room is not None and last.part.depth == depth else None
    if behind is None:
        return None, False
    is_exact = is_whole and of_parts.issuperset(wrong)
    if table.is_numbered and (_is_dense(read, wrong) or not of_parts.issuperset(wrong)):
        end = last.keys[-1] if last.keys else last.part.first - 1
        below_end = end - sum(len(each.good) for each in read)
        return (below_end + behind, is_exact) if below_end >= 0 else (None, False)  # not where numbers are negative
    lost: int | None = behind
    for each in read:
        lost_here: int | None = len(each.keys) - len(each.good)
        if each is not last and (not each.keys or each.part.page in wrong):
            is_counted = table.is_numbered and each.part.last > 0  # and has no negative numbers
            first = max(each.part.first, 1) if is_counted else each.part.first
            most = None if first == pages.FIRST else each.part.last - first + 1
            sizes = [size for size in (most, room if each.part.depth == depth else None) if size is not None]
            lost_here = min(sizes) - len(each.good) if sizes else None
            is_exact = False
        if lost is None or lost_here is None:
            return None, False
        lost += lost_here
    return lost, is_exact


def _is_dense(read: Sequence[_Read], wrong: Collection[int]) -> bool:
    """Whether all rows that can be read are numbered from 1 on without a gap, but for those that may be lost."""
    sound = [each.is_dense if each.keys and each.part.page not in wrong else None for each in read]
    ends = [range(1), *(each.keys for each in read)]
    is_numbered_on = all(
        after[0] == before[-1] + 1
        for (before, after), (is_sound, is_next_sound) in zip(pairwise(ends), pairwise([True, *sound]), strict=True)
        if is_sound and is_next_sound
    )
    return True in sound and False not in sound and is_numbered_on


def _room(page: Page, read: Sequence[_Read]) -> int | None:
    """As many rows as fit into a page if none is shorter than the shortest of the last pages that can be read."""
    contents = [page(each.part.page) for each in read if each.keys][-_LAST_PAGES:]
    shortest = min(
        (pages.size_at(content, place) for content in contents for place in pages.places_in(content)), default=0
    )
    return len(contents[0]) // shortest if shortest > 0 else None


def wrong_pages(connection: sqlite3.Connection, of: str) -> str:
    """What SQLite finds wrong with pages: with as many as `of` says, or with those of that table. It computes all
    columns for that, so there must be none that are not stored."""
    connection.execute("PRAGMA ignore_check_constraints = ON")
    try:
        found = [
            text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
            for (text,) in connection.execute(f"PRAGMA quick_check({of})")
        ]
    except _OF_DAMAGE as error:
        return first_line(error)
    return next((text for text in found if text.startswith(_TOLD)), "")  # others are of values


def first_line(error: sqlite3.Error | UnicodeDecodeError) -> str:
    """What an error of SQLite says."""
    # Python fails to decode SQLite's message where it quotes broken bytes of the file.
    text = error.object.decode("utf-8", "replace") if isinstance(error, UnicodeDecodeError) else str(error)
    return text.partition("\n")[0].rstrip(".")
