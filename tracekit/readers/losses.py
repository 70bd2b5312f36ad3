"""What a file shows to be missing from it, as rows of `Trace.losses`."""

from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from tracekit.columns import frame
from tracekit.trace import LOSS_COLUMNS
from tracekit.vocabulary.losses import DAMAGE, Loss, damage, loss

_LONGEST = 200


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
