"""Times as a user types them, in exact picoseconds."""

import re
from decimal import Decimal
from fractions import Fraction

from tracekit.errors import TracekitError

_SIZES = {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6, "μs": 10**6, "ms": 10**9, "s": 10**12}
_SIZES |= {"min": 60 * 10**12, "h": 3600 * 10**12}
_TIME = re.compile(r"([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:e[+-]?\d{1,3})?)\s*([a-zµμ]*)", re.IGNORECASE)
# No trace is longer: its picoseconds are int64.
_LONGEST = 2**63


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
            f"{option} {text!r} is not a time: give a number and ps, ns, us, ms, s, min or h, as in 12.5ms."
        )
    if not size:
        if value:
            raise TracekitError(
                f"{option} {text!r} could be of any unit: say {number}s, {number}ms, {number}us, {number}ns or "
                f"{number}ps."
            )
        size = 1
    return int(value * size)
