"""What commands print on: a console that is plain in a pipe, names made harmless, and progress on stderr."""

import io
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tracekit.units import safe, spelt, unbroken

_AFTER_S = 1.0
# Letters that take no column of their own stand on others.
_LETTERS_A_COLUMN = 4
# Where COLUMNS is 0 or 2, lines are cut by the terminal instead; where it is 99999999, they take memory for nothing.
_NARROWEST, _WIDEST = 20, 1000
# Beyond ASCII, what tracekit itself writes, for a terminal that shows nothing else.
_PLAIN = str.maketrans({"…": "...", "\u2013": "-", "\u2014": "-", "µ": "u", "·": ".", "\u00a0": " "})


def console(file: TextIO | None = None, *, width: int | None = None) -> Console:
    """A console on stdout, or on `file`: colours only on a terminal, as NO_COLOR, FORCE_COLOR and TERM say.

    What the stream cannot encode becomes an escape, so that no name in a trace can end a report.
    """
    stream = file or sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    on = Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
    on.width = min(max(on.width, _NARROWEST), _WIDEST)
    return on


def tell(sentence: str) -> None:
    """Print one line on stderr, made safe; where that is closed or full, nobody can be told."""
    if sys.stderr is not None:  # else print would take stdout
        with suppress(OSError, ValueError):
            print(safe(spelt(sentence)), file=sys.stderr, flush=True)


def show(lines: Iterable[str]) -> None:
    """Print lines on stdout, made safe, in the letters that it can show."""
    on = console()
    for line in lines:
        print(printable(line, on))


def is_unicode(on: Console) -> bool:
    """Whether the terminal or file shows more than ASCII."""
    return on.encoding.lower().replace("-", "").startswith("utf")


def printable(text: str, on: Console) -> str:
    """`text` made safe, in the letters that `on` can show."""
    text = safe(spelt(text))
    return text if is_unicode(on) else text.translate(_PLAIN)


def cut(text: str, width: int) -> str:
    """`text` in at most `width` columns of a terminal, but one at least, without its middle where it is longer."""
    width = max(width, 1)
    if cell_len(text) <= width:
        return text
    near = _LETTERS_A_COLUMN * width  # of the letters of a long name, those that may be shown are looked at
    head = set_cell_size(text[:near], width // 2).rstrip()
    tail = text[-near:]
    while cell_len(tail) > width - cell_len(head) - 1:
        tail = tail[1:]
    return f"{head}…{tail}"


def padded(text: str, width: int) -> str:
    """`text` in exactly `width` columns of a terminal."""
    return set_cell_size(cut(text, width), width)


def folded(text: str, width: int) -> list[str]:
    """`text` cut at its spaces into lines of at most `width` columns; a longer word is cut, a number keeps its unit."""
    lines, line = [], ""
    for word in filter(None, unbroken(text).split(" ")):
        if line and cell_len(line) + 1 + cell_len(word) <= width:
            line = f"{line} {word}"
            continue
        if line:
            lines.append(line)
        *whole, line = chop_cells(word, width) or [""]
        lines += whole
    return [cut_line.replace("\u00a0", " ") for cut_line in [*lines, line]]


def wrapped(text: str, on: Console, mark: str = "") -> list[str]:
    """The lines of a sentence after a `mark`, aligned behind it, none wider than the console."""
    lines = folded(printable(text, on), max(on.width - len(mark), 8))
    return [(mark if at == 0 else " " * len(mark)) + line for at, line in enumerate(lines)]


@contextmanager
def progress(steps: Sequence[str]) -> Iterator[Callable[[str], None]]:
    """A bar on stderr that appears after a second, and only on a terminal; yields what is told which step begins."""
    on = console(sys.stderr or io.StringIO())
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=on,
        transient=True,
        disable=not on.is_terminal,
    )
    task = bar.add_task("", total=len(steps))
    timer = threading.Timer(_AFTER_S, bar.start)
    timer.daemon = True

    def step(what: str) -> None:
        bar.update(task, description=what, completed=steps.index(what))

    timer.start()
    try:
        yield step
    finally:
        timer.cancel()
        timer.join()
        if on.is_terminal:  # elsewhere rich 14.0 would end a line that was never begun
            bar.stop()
