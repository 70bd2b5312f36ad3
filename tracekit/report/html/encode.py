"""Columns of integers and texts as HTML script elements: byte planes, zlib, base64."""

import base64
import html
import json
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# JavaScript's numbers are doubles: integers are exact below 2**53. A signed one has its sign in its lowest bit.
EXACT_BITS = 52


@dataclass(frozen=True)
class Column:
    """Integers ready to be written: `planes` bytes each, one plane after the other, lowest first, zlib-compressed.

    Signed ones are 2 x, or -2 x - 1 below zero (zigzag), so that small ones have few bytes.
    """

    name: str
    length: int
    planes: int
    signed: bool
    packed: bytes

    @property
    def told(self) -> dict[str, Any]:
        """What a reader must know to decode it."""
        return {"length": self.length, "planes": self.planes, "signed": self.signed}


def column(name: str, values: NDArray[np.integer[Any]]) -> Column:
    """`values` (n,) in as many byte planes as the largest needs; with times of 4.29 ms = 2**32 ps, that is often 5."""
    wide = np.asarray(values, np.int64)
    signed = bool(len(wide)) and int(wide.min()) < 0
    # Twice a number of 63 bits still fits an unsigned one of 64.
    plain = ((wide << 1) ^ (wide >> 63)).view(np.uint64) if signed else wide.view(np.uint64)
    planes = (int(plain.max()).bit_length() + 7) // 8 if len(plain) else 0
    split = plain.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :planes].T
    return Column(name, len(wide), planes, signed, zlib.compress(np.ascontiguousarray(split).tobytes(), 6))


def text(value: object) -> str:
    """`value` as JSON in ASCII that no HTML parser takes for markup; lone surrogates and U+2028 are escaped."""
    plain = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def packed(value: object) -> bytes:
    """`value` as JSON, zlib-compressed."""
    return zlib.compress(text(value).encode("ascii"), 6)


def element(name: str, content: bytes) -> str:
    """A script element that no browser runs, with `content` in base64."""
    return f'<script type="text/plain" data-column="{html.escape(name)}">{base64.b64encode(content).decode()}</script>'
