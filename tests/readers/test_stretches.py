"""Parts of a JSON file in which nothing stands, against a plain regular expression."""

import random
import re

import pytest

from tracekit.readers import stretches
from tracekit.readers.losses import Lost
from tracekit.readers.stretches import FIT, NO_EVENT, ZEROS, Stretches
from tracekit.vocabulary.losses import Loss

EVENT = b'{"ph": "X", "ts": 1, "name": "a", "pid": 1},'


def seen(text, piece=1 << 20):
    found = Stretches(b'"ph"')
    for begin in range(0, len(text), piece):
        found.see(text[begin : begin + piece])
    return found


@pytest.mark.parametrize("piece", [16, 100, 1 << 20])
@pytest.mark.parametrize(
    ("before", "run", "behind", "zeros", "blanks"),
    [
        (b"", b" " * 999, EVENT, 0, 0),
        (b"", b"\0" * 999, EVENT, 0, 0),
        (EVENT, b" " * 999, b"", 0, 0),
        (EVENT, b"\0" * 999, b"", 0, 0),
        (EVENT, b" " * 511, EVENT, 0, 0),
        (EVENT[:-1], b" " * 512, EVENT, 0, 512),
        (EVENT, b"\r\n\t" * 200, EVENT, 0, 600),
        (EVENT[:20], b" " * 999, EVENT[20:].lstrip(), 0, 999),
        (EVENT, b"\0" * 7, EVENT, 7, 0),
        (EVENT, b" " + b"\0" * 999 + b"\n", EVENT, 999, 0),
        (EVENT, b" " * 600 + b"\0" * 300, EVENT, 300, 600),
        (b'{"k": 1, ', b" " * 999, b'"traceEvents": [' + EVENT, 0, 0),
        (b'{"k": "v', b" " * 999, b'w", "traceEvents": [' + EVENT, 0, 0),
        (b'{"k": "v', b" " * 4095, b'w", "traceEvents": [' + EVENT, 0, 0),
        (b'{"k": "v', b" " * 4096, b'w", "traceEvents": [' + EVENT, 0, 4096),
        (b'{"k": "v', b" " * 999, b'"traceEvents": [' + EVENT, 0, 999),
        (EVENT[:-1] + b"]", b" " * 999, b"}", 0, 0),
        (EVENT[:-1], b" " * 999, b"]}", 0, 999),
    ],
)
def test_zeros_and_more_blanks_than_anyone_writes_are_counted_but_at_the_ends(
    piece, before, run, behind, zeros, blanks
):
    found = seen(before + run + behind, piece)
    assert (found.zeros, found.blanks(2)) == (zeros, blanks)


def test_what_a_writer_leaves_everywhere_is_how_it_writes():
    padded = EVENT[:-1] + b"," + b" " * 600
    text = padded * 20 + EVENT[:10] + b" " * 700 + EVENT[19:]
    assert seen(text).blanks(20) == 700
    assert seen(padded * 6 + EVENT).blanks(6) == 6 * 600
    # Of many events, one in a hundred is.
    assert [seen(padded * 9 + EVENT).blanks(events) for events in (899, 901)] == [0, 9 * 600]


@pytest.mark.parametrize("seed", range(40))
def test_runs_are_found_wherever_they_are(seed):
    rng = random.Random(seed)
    parts = [rng.choice([EVENT, b"x", b" " * rng.randrange(1200), b"\n" * rng.randrange(600)]) for _ in range(60)]
    text = b"".join(parts)
    expected = [match.span() for match in re.finditer(rb"[ \t\r\n\0]{512,}", text)]
    assert [*stretches._runs(text)] == expected
    assert stretches.empty(text) == sum(end - begin for begin, end in expected)


@pytest.mark.parametrize("seed", range(60))
def test_zeros_and_blanks_are_those_of_the_whole_text_however_it_is_cut(seed):
    """Behind the first event, so that no run is before it, and of so many events that no run is usual."""
    rng = random.Random(seed)
    empty = [
        b" " * 511,
        b" " * 512,
        b"\n" * 700,
        b"\0" * 600,
        b"\0" * 9,
        b" " * 520 + b"\0" * 9,
        b"\0" * 9 + b" " * 505,
    ]
    text = b"".join(rng.choice([EVENT, b"]", b"}", b"x", *empty]) for _ in range(40))
    text = rng.choice([b"", b" " * 600, b"\0\0"]) + EVENT + text
    found, at = Stretches(b'"ph"'), rng.choice([0, len(EVENT) + 600])
    pieces = [text[:at]]
    while at < len(text):
        pieces.append(text[at : at + rng.choice([1, 64, 512, 700, 3000])])
        at += len(pieces[-1])
    for piece in pieces:
        found.see(piece)
    inner = text.strip(b"\0\t\n\r ")
    runs = [*re.finditer(rb"[ \t\r\n\0]{512,}", inner)]
    blanks = [
        (len(run[0]) - run[0].count(0), inner[run.start() - 1 : run.start()] + inner[run.end() : run.end() + 1])
        for run in runs
    ]
    assert (found.size, found.runs, found.zeros) == (len(text), len(runs), inner.count(0))
    # What stands between two letters is that of a text.
    assert found.blanks(10**6) == sum(
        size for size, pair in blanks if pair not in (b"]]", b"]}", b"}}") and size >= (4096 if pair == b"xx" else 512)
    )


def test_as_many_events_are_lost_as_fit_into_what_is_lost():
    text = EVENT * 50 + b"\0" * len(EVENT) * 10 + EVENT * 50
    assert seen(text).lost(100) == [
        Lost(Loss.BYTES, 10 * len(EVENT), len(text), ZEROS),
        Lost(Loss.EVENTS, 10, None, FIT),
    ]
    assert seen(EVENT * 100).lost(80, 20 * len(EVENT)) == [
        Lost(Loss.BYTES, 20 * len(EVENT), 100 * len(EVENT), NO_EVENT),
        Lost(Loss.EVENTS, 20, None, FIT),
    ]
    assert seen(EVENT * 100).lost(100) == []
    assert seen(EVENT[:9] + b"\0" + EVENT).lost(1) == [Lost(Loss.BYTES, 1, len(EVENT) + 10, ZEROS)]
