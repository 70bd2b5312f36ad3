"""What a file shows to be missing from it, as rows of `Trace.losses`."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tracekit import intervals as iv
from tracekit.columns import concat, frame, labels
from tracekit.trace import FRAME_COLUMNS, LOSS_COLUMNS, Trace
from tracekit.units import quantity
from tracekit.vocabulary.losses import DAMAGE, Loss, damage, loss

_LONGEST = 200
# More bytes than one event, and than all events of a file, can move (35 TB, 72 PB): int64 then holds every sum of them.
_MOST_BYTES, _MOST_BYTES_IN_ALL = 1 << 45, 1 << 56
# Names of kernels reach some thousand letters. Each table of a report holds them anew.
_MOST_LETTERS, _NAMES = 10_000, ("name", "hlo_op", "hlo_module", "program", "framework_op")


class Lost(NamedTuple):
    """What is lost: how many of how many, None where that is not counted, and what says so."""

    what: Loss
    lost: int | None = None
    total: int | None = None
    evidence: str | None = None


def from_messages(messages: Iterable[object]) -> list[Lost]:
    """What a profiler's own messages say was lost; equal messages count once."""
    texts = [" ".join(str(message).split()) for message in messages]
    losses = [(loss(text), text) for text in dict.fromkeys(texts)]
    return [Lost(lost[0], lost[1], None, text[:_LONGEST]) for lost, text in losses if lost]


def notes(losses: Iterable[Lost]) -> list[str]:
    """The sentences on those of the losses that are damage."""
    return [damage(*each) for each in losses if each.what in DAMAGE]


def table(host: str, losses: Iterable[Lost]) -> pd.DataFrame:
    """The losses of a host's file (LOSS_COLUMNS)."""
    rows = list(losses)
    columns = {
        "host": [host] * len(rows),
        "what": [each.what.value for each in rows],
        "lost": pd.array([each.lost for each in rows], "Int64"),
        "total": pd.array([each.total for each in rows], "Int64"),
        "evidence": [each.evidence for each in rows],
    }
    return frame(LOSS_COLUMNS, columns)


def without_impossible_sizes(trace: Trace) -> Trace:
    """The trace of a file in which no event moves fewer than 0 bytes, or more than a machine does; what did is null,
    and counted as lost."""
    sizes = trace.events["bytes"].to_numpy(np.int64, na_value=0)
    most = _MOST_BYTES
    if iv.sum_exactly(sizes[(sizes > 0) & (sizes <= most)]) > _MOST_BYTES_IN_ALL:
        most = _MOST_BYTES_IN_ALL // len(sizes)
    impossible = (sizes < 0) | (sizes > most)
    if not (count := int(impossible.sum())):
        return trace
    lost = [Lost(Loss.DETAILS, count, None, "sizes of copies and collectives that no machine moves")]
    host = str(trace.hosts["host"].iloc[0]) if len(trace.hosts) else ""
    return replace(
        trace,
        events=trace.events.assign(bytes=trace.events["bytes"].mask(impossible)),
        losses=concat(LOSS_COLUMNS, [trace.losses, table(host, lost)]),
        notes=(*trace.notes, *notes(lost)),
    )


def with_bounded_names(trace: Trace) -> Trace:
    """The trace of a file with its longest names shortened in their middle, where a number keeps them apart."""
    new: dict[str, str] = {}
    frames: dict[str, Any] = {}
    for name in FRAME_COLUMNS:
        table = getattr(trace, name)
        for column in (each for each in _NAMES if each in table):
            long = {text: _bounded(text) for text in labels(table[column].array) if len(text) > _MOST_LETTERS}
            if long:
                renamed = table[column].cat.rename_categories(long)
                frames[name] = frames.get(name, table).assign(**{column: renamed})
                new |= long
    if not new:
        return trace
    note = f"{quantity(len(new), 'name')} of more than {_MOST_LETTERS:,} letters: their middle is left out."
    return replace(trace, **frames, notes=(*trace.notes, note))


def _bounded(text: str) -> str:
    half = _MOST_LETTERS // 2
    return f"{text[:half]}… {hashlib.sha256(text.encode()).hexdigest()[:12]} …{text[-half:]}"
