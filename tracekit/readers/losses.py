"""What a file shows to be missing from it, as rows of `Trace.losses`."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import pandas as pd

from tracekit.columns import frame
from tracekit.trace import LOSS_COLUMNS
from tracekit.units import quantity
from tracekit.vocabulary.losses import DAMAGE, Loss, damage, loss

_LONGEST = 200
# A profiler that fails may say so at every event.
_MOST = 100


class Lost(NamedTuple):
    """What is lost: how many of how many, None where that is not counted, and what says so."""

    what: Loss
    lost: int | None = None
    total: int | None = None
    evidence: str | None = None


def from_messages(messages: Iterable[object]) -> list[Lost]:
    """What a profiler's own messages say was lost; equal messages count once. Of many different ones the last are one
    loss of each kind."""
    texts = dict.fromkeys(map(_one_line, messages))
    losses = [Lost(*lost, None, text[:_LONGEST]) for text in texts if (lost := loss(text))]
    more: dict[Loss, list[int | None]] = {}
    for each in losses[_MOST:]:
        more.setdefault(each.what, []).append(each.lost)
    return losses[:_MOST] + [
        Lost(what, None if None in lost else sum(filter(None, lost)), None, quantity(len(lost), "more message"))
        for what, lost in more.items()
    ]


def told(messages: Iterable[tuple[str, object]]) -> list[str]:
    """The notes on a profiler's own messages, each with what it is, such as "Profiler error": one for each text, with
    how often it stands there. Of many different texts the first are told, and how many more there are."""
    counts = Counter((what, _one_line(message)) for what, message in messages)
    texts = [
        f"{what}: {text}" if count == 1 else f"{what}, {count:,} times: {text}"
        for (what, text), count in islice(counts.items(), _MOST)
    ]
    if more := len(counts) - len(texts):
        others = quantity(more, "other error or warning", "other errors and warnings")
        texts.append(f"The profiler wrote {others}, which {'is' if more == 1 else 'are'} not listed here.")
    return texts


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


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
