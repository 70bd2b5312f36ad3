"""The event loops of the XSpace decoder, in numba's subset of Python: plain on small files, compiled on large ones."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.readers.xplane import wire

# Below this the plain loops (0.7 s a MB) are done before numba is imported and its code loaded (0.8 s, 3 s at first).
COMPILE_FROM_BYTES = 2_000_000


def scan(buf: Any, pos: int, end: int, where: NDArray[np.int64]) -> int:
    """Count the events of the line in [pos, end) and note where each other field's value stands."""
    count = 0
    while pos < end:
        tag, after = wire.varint(buf, pos, end)
        number = tag >> 3
        if number <= 0:
            raise wire.Broken(pos)
        if tag == 34:  # field 4, length-delimited: an event
            count += 1
        elif number < 16:
            where[number] = after
        pos = wire.skip(buf, after, end, tag & 7)
    return count


def decode(
    buf: Any,
    pos: int,
    end: int,
    row: int,
    stat_rows: NDArray[np.int64],
    far_ids: NDArray[np.int64],
    far_rows: NDArray[np.int64],
    metadata_id: NDArray[np.int64],
    offset_ps: NDArray[np.int64],
    duration_ps: NDArray[np.int64],
    occurrences: NDArray[np.int64],
    values: NDArray[np.int64],
    types: NDArray[np.uint8],
) -> None:
    """Write the events of the line in [pos, end) to the columns from `row` on.

    `stat_rows` is indexed by stat id and gives the row of `values` and `types`, -1 for stats that are not wanted; ids
    beyond it are looked up in `far_ids` and `far_rows`, since an id may be huge.
    """
    while pos < end:
        tag, after = wire.varint(buf, pos, end)
        if tag != 34:  # not field 4, an event
            pos = wire.skip(buf, after, end, tag & 7)
            continue
        size, at = wire.varint(buf, after, end)
        if size < 0 or size > end - at:
            raise wire.Broken(after)
        pos = at + size
        while at < pos:
            # A tag is one byte; two are a field that is not known here.
            tag = buf[at] & 0xFF
            after = at + 1
            if tag > 127:
                tag, after = wire.varint(buf, at, pos)
            if tag == 8:
                metadata_id[row], at = wire.varint(buf, after, pos)
            elif tag == 16:
                offset_ps[row], at = wire.varint(buf, after, pos)
                occurrences[row] = -1
            elif tag == 24:
                duration_ps[row], at = wire.varint(buf, after, pos)
            elif tag == 40:  # a oneof: the offset is then not set
                occurrences[row], at = wire.varint(buf, after, pos)
                offset_ps[row] = 0
            elif tag == 34:  # field 4: a stat
                size, inner = wire.varint(buf, after, pos)
                if size < 0 or size > pos - inner:
                    raise wire.Broken(after)
                at = inner + size
                slot = stat_rows[0] if len(stat_rows) else -1  # an id of 0 is not written
                kind = 0
                value = 0
                while inner < at:
                    tag = buf[inner] & 0xFF
                    after = inner + 1
                    if tag > 127:
                        tag, after = wire.varint(buf, inner, at)
                    if tag == 8:
                        stat_id, inner = wire.varint(buf, after, at)
                        slot = -1
                        if 0 <= stat_id < len(stat_rows):
                            slot = stat_rows[stat_id]
                        else:
                            for far in range(len(far_ids)):
                                if far_ids[far] == stat_id:
                                    slot = far_rows[far]
                        if slot < 0:  # not wanted: its value need not be looked at
                            inner = at
                    elif tag == 24 or tag == 32 or tag == 56:  # uint64, int64, ref
                        value, inner = wire.varint(buf, after, at)
                        kind = tag >> 3
                    elif tag == 42 or tag == 50:  # str, bytes
                        inner = wire.skip(buf, after, at, 2)
                        value = after
                        kind = tag >> 3
                    elif tag == 17:  # double
                        inner = wire.skip(buf, after, at, 1)
                        value = 0
                        for byte in range(7):
                            value |= (buf[after + byte] & 0xFF) << (8 * byte)
                        top = buf[after + 7] & 0xFF
                        # The top byte is added signed, so that compiled int64 arithmetic cannot overflow.
                        value += (top - 256 if top > 127 else top) * 72057594037927936
                        kind = 2
                    elif tag <= 7:
                        raise wire.Broken(inner)
                    else:
                        inner = wire.skip(buf, after, at, tag & 7)
                if kind and slot >= 0:
                    values[slot, row] = value
                    types[slot, row] = kind
            elif tag <= 7:
                raise wire.Broken(at)
            else:
                at = wire.skip(buf, after, pos, tag & 7)
        row += 1


def view(buf: Any) -> tuple[Any, Any, Any]:
    """`scan`, `decode` and the view of `buf` they take: compiled if the file is large and numba is there."""
    compiled = _compiled() if len(buf) >= COMPILE_FROM_BYTES else None
    return (scan, decode, buf) if compiled is None else (*compiled, np.frombuffer(buf, np.uint8))


@lru_cache(maxsize=1)
def _compiled() -> tuple[Any, Any] | None:
    try:
        import numba
        from numba.extending import register_jitable
    except ImportError:
        return None
    register_jitable(wire.varint)
    register_jitable(wire.skip)
    jit = numba.njit(cache=True, nogil=True)
    return jit(scan), jit(decode)
