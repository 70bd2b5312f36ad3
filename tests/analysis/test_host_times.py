"""What a thread did in a stretch, moment by moment."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracekit import intervals as iv
from tracekit.analysis.host_times import Doing, HostTimes

SETS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=4)
STRETCHES = st.lists(st.integers(0, 40), max_size=6, unique=True).map(sorted)


def merged(pairs):
    return iv.union(np.array([(start, start + length) for start, length in pairs], np.int64).reshape(-1, 2))


@given(SETS, SETS, SETS, STRETCHES)
def test_the_pieces_of_a_stretch_are_what_the_thread_did_at_each_moment_of_it(waiting, calling, working, edges):
    edges = np.array(edges, np.int64)
    start, end = edges[:-1:2], edges[1::2]
    sets = merged(waiting), merged(calling), merged(working)
    pieces = list(zip(*(column.tolist() for column in HostTimes(*sets).split(start, end)), strict=True))
    at = {}
    for place, doing, since, until in pieces:
        assert since < until
        at.update(dict.fromkeys(range(since, until), (place, doing)))
    assert sum(until - since for *_, since, until in pieces) == len(at)
    for place, (low, high) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        for moment in range(low, high):
            doings = [
                doing for doing, times in zip(Doing, sets, strict=False) if iv.clip(times, (moment, moment + 1)).size
            ]
            assert at.pop(moment) == (place, min(doings, default=Doing.UNRECORDED))
    assert at == {}
    assert all(earlier[:2] != later[:2] for earlier, later in pairwise(pieces))
