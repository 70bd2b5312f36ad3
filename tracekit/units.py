"""How times, shares, amounts, rates, counts and long names read, on every face alike.

The page's scripts have what they need of it in report/html/units.js, and a test holds both equal. What is missing is a
dash. Digits are rounded half away from zero, and what rounds up to a whole of the next unit is told in that unit:
999,999,999 ps are 1.00 ms.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

_NO_SIGN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Inside words and emoji they are harmless, but terminals do not agree on how wide what they join is.
_JOINERS = "\u200c\u200d"
# What selects how the sign before it looks: that of an emoji, or of a Chinese character.
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
# What else cannot be seen, and could hide a text in a name: Unicode's Cf, as marks of direction, spaces without a width
# and tags, what else is Default_Ignorable_Code_Point, and the blank of Braille.
_HIDDEN = (
    "\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e"
    "\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
# Joiners and selectors have a place behind a sign that is no Latin one; elsewhere they are hidden too.
_UNSEEN = re.compile(
    f"(?<=[^\x00-\u024f\\s{_HIDDEN}{_JOINERS}{_SELECTORS}])([{_SELECTORS}]?[{_JOINERS}]|[{_SELECTORS}])"
    f"|[{_HIDDEN}{_JOINERS}{_SELECTORS}]"
)
# What Python makes of bytes that are no UTF-8.
_NO_UNICODE = re.compile("[\udc80-\udcff]")

# No trace is of a Unix time, in ns, outside of these.
YEAR_2000_NS, YEAR_2200_NS = 946_684_800 * 10**9, 7_258_118_400 * 10**9

DASH = "-"
_TIMES = (("ps", 1), ("ns", 10**3), ("µs", 10**6), ("ms", 10**9), ("s", 10**12))
_BYTES = (("B", 1), ("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30), ("TiB", 2**40))
_PREFIXES = (("", 1), ("k", 10**3), ("M", 10**6), ("G", 10**9), ("T", 10**12), ("P", 10**15))
# How far apart the ticks of an axis may be, and how many digits they may have behind and before the point.
_STEPS = tuple(digits * 10**power for power in range(19) for digits in (1, 2, 5))
_MOST_DECIMALS, _MOST_DIGITS = 3, 5
_NUMBER_AND_UNIT = re.compile(r"(?<=\d) (?=%|(?:[pnµum]?s|[KMGT]i?B|B|[kMGTP]?(?:B|FLOP)/s|ppm)(?!\w))")
_SPACES = re.compile(r"[ \t-\r]+")
# Of a shorter text than this only the beginning is kept: halves of it would say nothing.
_LEAST_HALVES = 12


def time(ps: Any) -> str:
    """Picoseconds in the unit that fits, with two digits behind the point up to 100 of it and one beyond: 12.35 ms."""
    if _is_missing(ps):
        return DASH
    sign, length = "-" if ps < 0 else "", abs(ps)
    if _nearest(length) < 1000:
        return f"{sign if _nearest(length) else ''}{_nearest(length)} ps"
    for symbol, of in _TIMES[1:]:
        decimals = 2 if _nearest(length / (of // 100)) < 10_000 else 1
        number = _nearest(length / (of // 10**decimals))
        if number < 1000 * 10**decimals or symbol == "s":
            break
    return f"{sign}{_point(number, decimals)} {symbol}"


def device_time(ps: Any, devices: int | None) -> str:
    """A time that is the sum over so many devices, which says so: 1.46 s summed over 4 devices; None for some."""
    return time(ps) if devices == 1 else f"{time(ps)} summed over {'the' if devices is None else devices} devices"


def time_unit(length_ps: int) -> tuple[int, str]:
    """The largest unit of time that is no longer than `length_ps`: its picoseconds and its symbol."""
    return next(((of, symbol) for symbol, of in reversed(_TIMES) if of <= length_ps), (1, "ps"))


def time_scale(length_ps: int, largest_ps: int, most: float) -> tuple[int, int, str, int, bool]:
    """How the ticks of an axis of time are told that shows `length_ps` up to the time `largest_ps`, about `most` ticks.

    Their distance, 1, 2 or 5 times a power of ten; picoseconds and symbol of their unit; their digits behind the point;
    and whether times themselves fit, or would have too many digits, so that what has passed since the start must do.
    """
    step = next(step for step in _STEPS if length_ps // step < most)
    if step > length_ps:  # could leave the axis without a tick
        step = max((step for step in _STEPS if step <= length_ps), default=1)
    for size, symbol in (time_unit(max(largest_ps, 1)), time_unit(max(length_ps, 1))):
        decimals = next(decimals for decimals in range(len(str(size))) if step * 10**decimals % size == 0)
        if decimals <= _MOST_DECIMALS and largest_ps // size < 10**_MOST_DIGITS:
            return step, size, symbol, decimals, True
    return step, size, symbol, decimals, False


def decimal(ps: int, size: int, decimals: int) -> str:
    """`ps` in units of `size` ps, with so many digits behind the point and no unit."""
    whole, rest = divmod(abs(ps) * 10**decimals // size, 10**decimals)
    return f"{'-' if ps < 0 else ''}{whole}{f'.{rest:0{decimals}d}' if decimals else ''}"


def exact(ps: int) -> str:
    """Picoseconds with every digit, in the largest unit in which they have a whole part: 1.250000001 s."""
    of, symbol = time_unit(abs(ps)) if ps else (10**12, "s")
    whole, rest = divmod(abs(ps), of)
    behind = f"{rest:0{len(str(of)) - 1}d}".rstrip("0") if rest else ""
    return f"{'-' if ps < 0 else ''}{whole}{f'.{behind}' if behind else ''} {symbol}"


def percent(part: Any, whole: int = 1) -> str:
    """A ratio in 0..1, or a part of a whole, as a percentage that says 100 or 0 only where it is exactly that."""
    if _is_missing(part) or not whole:
        return DASH
    if part == 0 or part == whole:
        return "100 %" if part else "0 %"
    ratio = part / whole
    if 0 < ratio < 0.001:
        return "<0.1 %"
    if ratio > 0.999 and part < whole:
        return ">99.9 %"
    return f"{'-' if ratio < 0 else ''}{_point(_nearest(abs(ratio) * 1000), 1)} %"


def told_apart(values: Sequence[float], text: Callable[[Any], str]) -> list[str]:
    """Values as `text` writes them (`percent`, `time` or `factor`); with more digits behind the point, nine at most,
    where different values would read alike: 0.214 %, 0.206 %."""
    texts = [text(value) for value in values]
    sizes: dict[str, float] = {"%": 0.01, "x": 1.0, **dict(_TIMES)}
    sign = re.search(r"(%|x|[pnµm]?s)$", texts[0])
    if len({*values}) == len({*texts}) or sign is None:
        return texts
    gap = "" if sign[0] == "x" else " "
    for decimals in range(2, 10):
        texts = [f"{value / sizes[sign[0]]:.{decimals}f}{gap}{sign[0]}" for value in values]
        if len({*values}) == len({*texts}):
            break
    return texts


def percent_axis(ratios: Sequence[float]) -> list[str]:
    """The ratios at the ticks of an axis, which are round, as percentages: all with as many digits behind the point as
    one of them needs."""
    decimals = next((n for n in range(9) if all(abs(round(100 * it, n) - 100 * it) < 1e-9 for it in ratios)), 9)
    return [f"{100 * ratio:.{decimals}f} %" for ratio in ratios]


def whole_percent(ratio: float) -> str:
    """A ratio in 0..1 in whole percents, without their sign, for a narrow cell: 0 and 100 only where that is exact."""
    if ratio in (0, 1):
        return "100" if ratio else "0"
    return "<1" if ratio < 0.01 else ">99" if ratio > 0.99 else str(_nearest(100 * ratio))


def confidence(level: float) -> str:
    """A level of confidence or of chance, a ratio in 0..1, in whole percents: 95 %."""
    return f"{whole_percent(level)} %"


def change(ratio: Any) -> str:
    """What a new value over the old one changes: -28.0 %, `<0.1 % less` where it is less than that, 0 % for nothing."""
    if _is_missing(ratio):
        return DASH
    if ratio == 1:
        return "0 %"
    tenths = _nearest(abs(float(ratio) - 1) * 1000)
    if not tenths:
        return "<0.1 % less" if ratio < 1 else "<0.1 % more"
    return f"{'-' if ratio < 1 else '+'}{_point(tenths, 1)} %"


def factor(value: Any) -> str:
    """A speedup or a stretch: 1.97x."""
    return DASH if _is_missing(value) else f"{_point(_nearest(float(value) * 100), 2)}x"


def size(value: Any) -> str:
    """Bytes in powers of 1024, as buffers have them, with three digits where they are no whole number: 64 MiB."""
    if _is_missing(value):
        return DASH
    for symbol, of in _BYTES:
        number = f"{value // of}" if value % of == 0 else _three_digits(value / of)
        if float(number) < 1024 or symbol == _BYTES[-1][0]:
            break
    return f"{number} {symbol}"


def rate(per_s: Any, unit: str) -> str:
    """A rate in powers of 1000, as datasheets have them, with three digits: 26.8 GB/s for the `unit` B/s."""
    if _is_missing(per_s):
        return DASH
    for prefix, of in _PREFIXES:
        number = _three_digits(per_s / of)
        if float(number) < 1000 or prefix == _PREFIXES[-1][0]:
            break
    return f"{number} {prefix}{unit}".rstrip()


def count(number: Any) -> str:
    """A count with its thousands apart: 1,234."""
    return DASH if _is_missing(number) else f"{int(number):,}"


def compact_count(number: int) -> str:
    """A count for a narrow column: 9,999, 10k, 1.2M."""
    if number < 10_000:
        return f"{number:,}"
    return f"{_nearest(number / 1e3)}k" if number < 999_500 else f"{_point(_nearest(number / 1e5), 1)}M"


def ppm(value: Any) -> str:
    """How fast a clock drifts, in parts per million, with three digits: 20 ppm, -0.5 ppm."""
    if _is_missing(value):
        return DASH
    return f"{number(value) if abs(value) < 999.5 else count(_nearest(value))} ppm"


def mean(value: Any) -> str:
    """A mean of counts: 3.72."""
    return DASH if _is_missing(value) else f"{float(value):,.2f}"


def number(value: Any) -> str:
    """A number of no known unit, with three digits: 6.04, 0.00123."""
    return DASH if _is_missing(value) else f"{float(value):,.3g}"


def quantity(number: int, noun: str, plural: str = "") -> str:
    """So many of something: 1 row, 1,234 rows, 2 copies."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def short(name: Any, most: int) -> str:
    """A name in one line of at most `most` characters, without its middle: templates of one kernel differ at both ends.

    A kernel loses its return type, which is always void.
    """
    if _is_missing(name):
        return DASH
    text = _SPACES.sub(" ", str(name)).strip(" ").removeprefix("void ")
    if len(text) <= most:
        return text
    tail = most - most // 2 - 1 if most >= _LEAST_HALVES else 0
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def unbroken(text: str) -> str:
    """`text` with a no-break space between each number and its unit, so that no line ends between them."""
    return _NUMBER_AND_UNIT.sub("\u00a0", text)


def _is_missing(value: Any) -> bool:
    """Whether it is None, NaN, NaT or pandas.NA; told without pandas, which a program under capture need not load."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def _nearest(value: float) -> int:
    """The nearest integer, of two the larger."""
    low = math.floor(value)
    return low + (value - low >= 0.5)


def _point(number: int, decimals: int) -> str:
    """An integer of so many digits behind the point."""
    return f"{number // 10**decimals}.{number % 10**decimals:0{decimals}d}"


def _three_digits(value: float) -> str:
    decimals = next((digits for digits in (2, 1) if _nearest(value * 10**digits) < 1000), 0)
    number = _nearest(value * 10**decimals)
    return _point(number, decimals) if decimals else str(number)


def others(numbers: Collection[int], last: int, first: int = 0) -> tuple[int, str]:
    """How many of the numbers from `first` to `last` are not in `numbers`, and which: `2, 5-7`.

    It takes no longer where that is a billion.
    """
    known = sorted({number for number in numbers if first <= number <= last})
    starts, ends = [first, *(number + 1 for number in known)], [*(number - 1 for number in known), last]
    runs = [(start, end) for start, end in zip(starts, ends, strict=True) if start <= end]
    return sum(end - start + 1 for start, end in runs), _listed(runs)


def listed_numbers(numbers: Collection[int]) -> str:
    """The numbers, those in a row as one: `2, 5-7`."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        start, _ = runs.pop() if runs and runs[-1][1] == number - 1 else (number, number)
        runs.append((start, number))
    return _listed(runs)


def _listed(runs: Iterable[tuple[int, int]]) -> str:
    return ", ".join(str(start) if start == end else f"{start}-{end}" for start, end in runs)


def spelt(text: str) -> str:
    """`text` in Unicode: the bytes of a file's name that are none stand as escapes, such as `\\xff`."""
    if text.isascii():
        return text
    bytes_spelt = _NO_UNICODE.sub(lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", text)
    return bytes_spelt.encode("utf-8", "backslashreplace").decode("utf-8")


def revealed(text: str) -> str:
    """`text` with a sign, U+FFFD, for each character that cannot be seen or turns the text around, but for controls.

    What joins the letters of a word or the parts of an emoji, and what selects how a sign looks, stays in its place.
    """
    return text if text.isascii() else _UNSEEN.sub(lambda match: match[1] or "\N{REPLACEMENT CHARACTER}", text)


def safe(text: str) -> str:
    """`text` on one line and without what a terminal would obey: control and direction characters have a sign each, and
    so has what cannot be seen (`revealed`)."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_sign, revealed(text)))


def _sign(letter: str) -> str:
    if unicodedata.category(letter) not in _NO_SIGN:
        return letter
    if letter in _JOINERS:
        return ""
    code = ord(letter)
    if letter in "\t\n\r\u2028\u2029":
        return " "
    return chr(0x2400 + code) if code < 0x20 else "\N{REPLACEMENT CHARACTER}"
