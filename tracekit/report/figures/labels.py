"""Words on a figure: names made safe and short, shares and times made readable; no drawing."""

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from matplotlib import font_manager
from matplotlib.backends.backend_agg import RendererAgg

from tracekit import units

# Bundled with matplotlib, so that a figure looks the same on every machine.
FONT = "DejaVu Sans"
DPI = 150

_THREAD = re.compile(r"(?:tf_)?(?P<base>.+?)/(?P<number>-?\d{6,})")


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(font_manager.get_font(font_manager.findfont(FONT, fallback_to_default=False)).get_charmap())


def plain(name: object) -> str:
    """`name` on one line, with a box for each character that the font lacks (matplotlib would warn about each)."""
    words = " ".join(str(name).split())
    return "".join(char if ord(char) in _glyphs() and char.isprintable() else "\u25a1" for char in words)


def short_names(names: Sequence[str], limit: int = 24) -> list[str]:
    """One label for each of the distinct `names`, unique and at most about `limit` characters.

    A thread's number (`tf_XLAPjRtCpuClient/-321539782615735191`) shrinks to its last digits, and goes where the rest of
    the name is unique without it. Names that still agree are numbered.
    """
    parts = [_THREAD.fullmatch(plain(name)) for name in names]
    bases = [part["base"] if part else plain(name) for part, name in zip(parts, names, strict=True)]
    short: list[str] = []
    for part, base in zip(parts, bases, strict=True):
        tail = f" …{part['number'][-4:]}" if part and bases.count(base) > 1 else ""
        short.append(units.short(base, limit - len(tail)) + tail)
    return [
        label if short.count(label) == 1 else f"{label} #{1 + short[:i].count(label)}" for i, label in enumerate(short)
    ]


def wrap(text: str, width: float, measure: Callable[[str], float], lines: int) -> list[str]:
    """`text` broken between words into at most `lines` lines no wider than `width`; the rest becomes an ellipsis.

    A number stays with its percent sign.
    """
    wrapped, words = [""], plain(text).replace(" %", "\u00a0%").split(" ")
    for i, word in enumerate(words):
        longer = f"{wrapped[-1]} {word}".lstrip()
        if measure(longer) <= width:
            wrapped[-1] = longer
        elif len(wrapped) < lines and wrapped[-1]:
            wrapped.append(cut(word, width, measure))
        else:
            wrapped[-1] = cut(" ".join([wrapped[-1], *words[i:]]).lstrip(), width, measure)
            break
    return [line.replace("\u00a0", " ") for line in wrapped]


def cut(text: str, width: float, measure: Callable[[str], float]) -> str:
    """`text`, or as much of its start as measures at most `width` with an ellipsis."""
    if measure(text) <= width:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(text[:middle].rstrip() + "…") <= width else (low, middle - 1)
    return text[:low].rstrip() + "…"


@lru_cache(4096)
def measure(text: str, size: float, bold: bool = False) -> float:
    """The width of one line of `text` in px at DPI; `$` and `_` are plain characters."""
    font = font_manager.FontProperties(family=FONT, size=size, weight="bold" if bold else "normal")
    renderer: Any = RendererAgg(1, 1, DPI)  # type: ignore[no-untyped-call]
    return float(renderer.get_text_width_height_descent(text, font, ismath=False)[0])


def spaced(marks: Sequence[tuple[float, str]], size: float) -> list[tuple[float, str]]:
    """As many of the (y, label), given from the top down, as stand apart at this font size."""
    apart: list[tuple[float, str]] = []
    for y, label in marks:
        if not apart or apart[-1][0] - y >= size * DPI / 72:
            apart.append((y, label))
    return apart
