"""What events are too long: what a part of the file that is gone leaves, of one event and of another behind it.

Where the file is valid JSON all the same, the part begins and ends within texts, and is one of them. Of the values of
arguments real texts may be as long: programs, stacks, sources, images in base64, traces. So of those nothing is told as
lost. Nor is a name, which may be a prompt, unless it is a page of a server. But no category or key is as long, whether
JSON keeps it or another one of its name.
"""

import re
from collections.abc import Iterable
from heapq import nlargest

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from tracekit.readers.chrome.json_text import LONG_BYTES, Text
from tracekit.readers.losses import Lost
from tracekit.readers.stretches import FAR_BYTES, usual
from tracekit.units import quantity
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
# A key among arguments that is so long: what stands in a text has backslashes before its quotes.
_LONG_KEY = re.compile(rb'(?<!\\)"(?:[^"\\]|\\.){%d,}+"\s*+:' % LONG_BYTES, re.DOTALL)
_NEAR_BYTES = FAR_BYTES // 2
# What proxies and servers write in place of a part of a file.
_PAGE = re.compile(r"<(?:!doctype|html|head|body|\?xml)\b", re.IGNORECASE)
INSIDE = "inside of other values"


def sizes(args: pa.Array, phases: pa.DictionaryArray) -> tuple[NDArray[np.int64], int, NDArray[np.int64]]:
    """How long the longest of the arguments of some events are, without long ones of metadata, how many events the
    texts of long ones hold, and how long all of _NEAR_BYTES or more are; each without keys that are long."""
    length = np.diff(np.frombuffer(args.buffers()[1], np.int32)[: len(args) + 1])
    longest = length.max(initial=0)
    if longest < LONG_BYTES:
        return np.array([longest], np.int64), 0, np.zeros(0, np.int64)
    rows = np.flatnonzero(length >= LONG_BYTES)
    texts = args.take(pa.array(rows)).to_pylist()
    found = quoted(texts)
    length = length.copy()
    for row, text in zip(rows.tolist(), texts, strict=True):
        if len(text) >= FAR_BYTES:
            length[row] -= sum(len(key[0]) for key in _LONG_KEY.finditer(text))
    far = length[length >= _NEAR_BYTES].astype(np.int64)
    kinds = phases.dictionary.to_pylist()
    if b'"M"' in kinds:
        rows = rows[phases.indices.to_numpy()[rows] != kinds.index(b'"M"')]
    others = length[length < LONG_BYTES].max(initial=0)
    return np.append(np.sort(length[rows])[-_KEPT:], others).astype(np.int64), found, far


def of_names(names: pd.Categorical, longest: int) -> NDArray[np.int64]:
    """How long the names of events are that are _NEAR_BYTES or more, of which the `longest` has so many bytes:
    annotations may hold a prompt, but no page."""
    if longest < _NEAR_BYTES:  # of many names, to look at each takes long
        return np.zeros(0, np.int64)
    is_long = [len(text) >= _NEAR_BYTES and not _PAGE.search(text) for text in names.categories]
    codes = names.codes[np.append(is_long, False)[names.codes]]
    return np.array([len(names.categories[code]) for code in codes.tolist()], np.int64)


def quoted(texts: Iterable[bytes]) -> int:
    """How many events stand in texts, with backslashes before their quotes; of a text that holds few, none."""
    counts = [text.count(_QUOTED) for text in texts if len(text) >= LONG_BYTES]
    return sum(count for count in counts if count >= _FEWEST)


def lost(
    text: Text,
    events: int,
    args: NDArray[np.int64],
    far: NDArray[np.int64],
    names: Iterable[bytes],
) -> list[Lost]:
    """What is lost of a file of so many events in what is no event, or in values that hold some; `args`: how long the
    longest of their arguments are, `far` how long all of these and of their names of _NEAR_BYTES or more."""
    damaged = min(text.mended + text.stretches.runs, _KEPT - 1)
    longest = sum(_at(each, damaged) for each in (args.tolist(), map(len, names)))
    least = max(_OFTEN * text.stretches.mean(events), longest + LONG_BYTES)
    is_told = bool(text.odd or text.stretches.runs or text.nested)
    more = sum(size for size in text.odd if size >= least) if is_told else _beside_arguments(text, events, far)
    found = text.stretches.lost(events, more)
    return [*found, Lost(Loss.EVENTS, text.nested, None, INSIDE)] if text.nested else found


def _beside_arguments(text: Text, events: int, far: NDArray[np.int64]) -> int:
    """How many bytes stand in names, keys and the like that are as long as many events, where not many are so: what the
    distances of two events are more than `far`, the sizes of long arguments and names."""
    last = text.stretches.size - text.after - text.stretches.marked if text.stretches.marked >= 0 else 0
    gaps = np.sort(np.array([*text.stretches.gaps, last], np.int64))[::-1]
    own = np.zeros(len(gaps), np.int64)
    own[: len(far)] = np.sort(far)[::-1][: len(gaps)]
    least = max(FAR_BYTES, _TIMES * text.stretches.mean(events))
    sizes_beside = (gaps - own)[gaps - np.maximum(own, _NEAR_BYTES) >= least]
    return int(sizes_beside.sum()) if len(sizes_beside) < usual(events) else 0


def note(text: Text, events: int, args: NDArray[np.int64], quoted_events: int) -> list[str]:
    """A note on events that stand in texts, and on arguments that are so much longer than all others that they may hold
    what stood elsewhere."""
    if quoted_events:
        return [f"{quantity(quoted_events, 'event')} inside of names or arguments were not read."]
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
