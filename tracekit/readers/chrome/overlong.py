"""What events are too long: what a part of the file that is gone leaves, of one event and of another behind it.

Where the file is valid JSON all the same, the part begins and ends within texts, and is one of them. Real texts may be
as long: programs, stacks, sources, images in base64. So only what holds events itself is told as lost.
"""

from collections.abc import Iterable
from heapq import nlargest

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit.readers.chrome.json_text import LONG_BYTES, Text
from tracekit.readers.losses import Lost
from tracekit.vocabulary.losses import Loss

# The sizes that are kept; so many may be of what is damaged, which tells nothing of the others.
_KEPT = 16
# Of an event that is no JSON, how many times as long as others.
_OFTEN = 8
_QUOTED = rb"\"ph\""
# A text of fewer is about events.
_FEWEST = 4
# What one text is told of that is so long, and so many times as long as any other.
_LONG_TEXT, _TIMES = 1 << 14, 16
INSIDE, QUOTED = "inside of other values", "inside of a text"


def sizes(args: pa.Array, phases: pa.DictionaryArray) -> tuple[NDArray[np.int64], int]:
    """How long the longest of the arguments of some events are, without long ones of metadata, and how many events the
    texts of long ones hold."""
    length = np.diff(np.frombuffer(args.buffers()[1], np.int32)[: len(args) + 1])
    longest = length.max(initial=0)
    if longest < LONG_BYTES:
        return np.array([longest], np.int64), 0
    rows = np.flatnonzero(length >= LONG_BYTES)
    found = quoted(args.take(pa.array(rows)).to_pylist())
    kinds = phases.dictionary.to_pylist()
    if b'"M"' in kinds:
        rows = rows[phases.indices.to_numpy()[rows] != kinds.index(b'"M"')]
    others = length[length < LONG_BYTES].max(initial=0)
    return np.append(np.sort(length[rows])[-_KEPT:], others).astype(np.int64), found


def quoted(texts: Iterable[bytes]) -> int:
    """How many events stand in texts, with backslashes before their quotes; of a text that holds few, none."""
    counts = [text.count(_QUOTED) for text in texts if len(text) >= LONG_BYTES]
    return sum(count for count in counts if count >= _FEWEST)


def lost(text: Text, events: int, args: NDArray[np.int64], names: Iterable[bytes], quoted_events: int) -> list[Lost]:
    """What is lost of a file of so many events in what is no event, or in values that hold some; `args`: how long the
    longest of their arguments are."""
    damaged = min(text.mended + text.stretches.runs, _KEPT - 1)
    longest = sum(_at(each, damaged) for each in (args.tolist(), map(len, names)))
    least = max(_OFTEN * text.stretches.mean(events), longest + LONG_BYTES)
    found = text.stretches.lost(events, sum(size for size in text.odd if size >= least))
    reasons = {INSIDE: text.nested, QUOTED: quoted_events}
    return [*found, *(Lost(Loss.EVENTS, count, None, reason) for reason, count in reasons.items() if count)]


def note(text: Text, events: int, args: NDArray[np.int64]) -> list[str]:
    """A note on arguments that are so much longer than all others that they may hold what stood elsewhere."""
    longest, other = (_at(args.tolist(), place) for place in (0, 1))
    is_alone = _LONG_TEXT <= longest >= _TIMES * other and events >= _KEPT
    if not is_alone or text.odd or text.stretches.runs:
        return []
    return [
        f"The arguments of one event take {longest:,} bytes, those of all others {other:,} or less: if a part of the "
        "file was overwritten, events are missing."
    ]


def _at(values: Iterable[int], place: int) -> int:
    """The value at a place of the largest; 0 where there are fewer."""
    largest = nlargest(place + 1, values)
    return largest[place] if place < len(largest) else 0
