"""The axis of time: its ticks, and points on it as a user types and reads them, in exact picoseconds."""

import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from tracekit import units
from tracekit.errors import TracekitError

_SIZES = {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6, "μs": 10**6, "ms": 10**9, "s": 10**12, "min": 60 * 10**12}
_TIME = re.compile(r"([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:e[+-]?\d{1,3})?)\s*([a-zµμ]*)", re.IGNORECASE)
# No trace is longer: its picoseconds are int64.
_LONGEST = 2**63
# More digits than these behind or before the point are not read but counted.
_MOST_DECIMALS, _MOST_DIGITS = 3, 5


def parse(text: str, option: str) -> int:
    """The picoseconds of `12ms`, `1.5 s` or `300us`; of no part of a picosecond.

    Only 0 needs no unit. Raises TracekitError, which names the `option`, for anything else.
    """
    match = _TIME.fullmatch(text.strip())
    number, unit = (match[1], match[2]) if match else ("", "")
    size = _SIZES.get(unit) or _SIZES.get(unit.lower())
    value = Fraction(Decimal(number.replace("_", ""))) if match else Fraction(0)
    if not match or (unit and not size) or abs(value) * (size or 1) > _LONGEST:
        raise TracekitError(
            f"{option} {text!r} is not a time: give a number and ps, ns, us, ms, s or min, as in 12.5ms."
        )
    if not size:
        if value:
            raise TracekitError(
                f"{option} {text!r} could be of any unit: say {number}s, {number}ms, {number}us, {number}ns or "
                f"{number}ps."
            )
        size = 1
    return int(value * size)


def _decimal(ps: int, size: int, decimals: int | None = None) -> str:
    """`ps` in units of `size` ps (a power of ten) with every digit, or with exactly so many behind the point."""
    digits = len(str(size)) - 1
    whole, rest = divmod(abs(ps), size)
    behind = f"{rest:0{digits}d}"[:digits] if digits else ""
    behind = behind.rstrip("0") if decimals is None else behind[:decimals]
    return f"{'-' if ps < 0 else ''}{whole}{f'.{behind}' if behind else ''}"


def ticks(start_ps: int, end_ps: int, most: int) -> tuple[list[tuple[int, str]], str, int]:
    """The ticks of an axis from `start_ps` to `end_ps`, about `most` of them at round times.

    Returns them as (ps since `start_ps`, label), the symbol of their unit, and the time in ps that they are counted
    from: 0, or `start_ps` itself where the labels would have too many digits.
    """
    length = end_ps - start_ps
    step = next(step for step in _steps() if length // step < most)
    if step > length:  # could leave the axis without a tick
        step = max(step for step in _steps() if step <= length)
    for size, symbol in (units.time_unit(max(end_ps, 1)), units.time_unit(max(length, 1))):
        decimals = _decimals(step, size)
        if decimals <= _MOST_DECIMALS and end_ps // size < 10**_MOST_DIGITS:
            first = -(-start_ps // step) * step
            return (
                [(at - start_ps, _decimal(at, size, decimals)) for at in range(first, end_ps + 1, step)],
                symbol,
                0,
            )
    size, symbol = units.time_unit(max(length, 1))
    decimals = _decimals(step, size)
    return [(at, _decimal(at, size, decimals)) for at in range(0, length + 1, step)], symbol, start_ps


def _decimals(step: int, size: int) -> int:
    """How many digits behind the point tell multiples of `step` apart, in units of `size`."""
    return len(_decimal(step % size, size).partition(".")[2])


def _steps() -> Sequence[int]:
    return [digits * 10**power for power in range(19) for digits in (1, 2, 5)]
