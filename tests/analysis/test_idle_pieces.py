"""Pieces are cut, clipped and joined point by point."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit import intervals as iv
from tracekit.analysis.idle import Pieces, clip, concatenate, cut


@st.composite
def some_pieces(draw):
    edges = sorted(draw(st.sets(st.integers(0, 40), max_size=12)))
    spans = [(a, b) for a, b in pairwise(edges) if draw(st.booleans())]
    count = len(spans)
    return Pieces(
        np.array([a for a, _ in spans], np.int64),
        np.array([b for _, b in spans], np.int64),
        np.zeros(count, np.int8),
        np.arange(count) + 100,
        np.arange(count),
    )


sets = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=5).map(
    lambda rows: iv.union(iv.intervals([a for a, _ in rows], [a + size for a, size in rows]))
)


def points(pieces):
    """Label, next row and interval of every point."""
    columns = [column.tolist() for column in pieces.columns()]
    return {p: tuple(rest) for start, end, *rest in zip(*columns, strict=True) for p in range(start, end)}


def points_in(spans):
    return {p for start, end in spans.tolist() for p in range(start, end)}


@settings(max_examples=100)
@given(some_pieces(), sets, sets)
def test_the_first_claim_takes_its_points_and_no_point_is_lost(pieces, first, second):
    cut_pieces = cut(pieces, [(5, first), (6, second)])
    before, after = points(pieces), points(cut_pieces)
    assert (cut_pieces.end > cut_pieces.start).all()
    expected = {
        p: (5 if p in points_in(first) else 6 if p in points_in(second) else label, *rest)
        for p, (label, *rest) in before.items()
    }
    assert after == expected


@settings(max_examples=100)
@given(some_pieces(), sets)
def test_clipping_keeps_the_points_inside_the_windows(pieces, windows):
    clipped = clip(pieces, windows)
    assert points(clipped) == {p: rest for p, rest in points(pieces).items() if p in points_in(windows)}
    assert (clipped.end > clipped.start).all()


def test_nothing_joined_is_no_piece():
    assert len(concatenate([])) == 0
