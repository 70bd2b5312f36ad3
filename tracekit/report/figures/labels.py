"""Words on a figure: names made safe and short, shares and times made readable; no drawing."""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from matplotlib import font_manager
from matplotlib.backends.backend_agg import RendererAgg

# Bundled with matplotlib, so that a figure looks the same on every machine.
FONT = "DejaVu Sans"
DPI = 150

_UNITS = ((10**12, "s"), (10**9, "ms"), (10**6, "µs"), (10**3, "ns"), (1, "ps"))
_THREAD = re.compile(r"(?:tf_)?(?P<base>.+?)/(?P<number>-?\d{6,})")


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(font_manager.get_font(font_manager.findfont(FONT, fallback_to_default=False)).get_charmap())


def plain(name: object) -> str:
    """`name` on one line, with a box for each character that the font lacks (matplotlib would warn about each)."""
    words = " ".join(str(name).split())
    return "".join(char if ord(char) in _glyphs() and char.isprintable() else "\u25a1" for char in words)


def short(names: Sequence[str], limit: int = 24) -> list[str]:
    """One label for each of the distinct `names`, unique and at most about `limit` characters.

    A thread's number (`tf_XLAPjRtCpuClient/-321539782615735191`) shrinks to its last digits, and goes where the rest of
    the name is unique without it. Names that still agree are numbered.
    """
    parts = [_THREAD.fullmatch(plain(name)) for name in names]
    bases = [part["base"] if part else plain(name) for part, name in zip(parts, names, strict=True)]
    made: list[str] = []
    for part, base in zip(parts, bases, strict=True):
        tail = f" …{part['number'][-4:]}" if part and bases.count(base) > 1 else ""
        head = (
            base if len(base + tail) <= limit else f"{base[: limit // 2]}…{base[len(tail) + limit // 2 + 1 - limit :]}"
        )
        made.append(head + tail)
    return [
        label if made.count(label) == 1 else f"{label} #{1 + made[:i].count(label)}" for i, label in enumerate(made)
    ]


def percent(part: int, whole: int) -> str:
    """`part` of `whole` as a percentage that says 0 % and 100 % only where that is exact."""
    tenths = round(1000 * part / whole)
    if tenths == 0 and part > 0:
        return "<0.1 %"
    if tenths == 1000 and part < whole:
        return ">99.9 %"
    return f"{tenths // 10} %" if part in (0, whole) else f"{tenths / 10:.1f} %"


def share(ratio: float) -> str:
    """A ratio in 0..1 as `percent` tells it."""
    return percent(*Fraction(ratio).as_integer_ratio())


def unit(length_ps: int) -> tuple[int, str]:
    """The largest unit of time that is no longer than `length_ps`: its picoseconds and its symbol."""
    return next((pair for pair in _UNITS if pair[0] <= length_ps), _UNITS[-1])


def time(length_ps: int) -> str:
    """A length with three significant digits in the unit that fits: 1.23 ms."""
    size, symbol = unit(length_ps)
    value = length_ps / size
    decimals = 0 if size == 1 or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{decimals}f} {symbol}"


def wrap(text: str, width: float, measure: Callable[[str], float], lines: int) -> list[str]:
    """`text` broken between words into at most `lines` lines no wider than `width`; the rest becomes an ellipsis.

    A number stays with its percent sign.
    """
    made, words = [""], plain(text).replace(" %", "\u00a0%").split(" ")
    for i, word in enumerate(words):
        longer = f"{made[-1]} {word}".lstrip()
        if measure(longer) <= width:
            made[-1] = longer
        elif len(made) < lines and made[-1]:
            made.append(cut(word, width, measure))
        else:
            made[-1] = cut(" ".join([made[-1], *words[i:]]).lstrip(), width, measure)
            break
    return [line.replace("\u00a0", " ") for line in made]


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
