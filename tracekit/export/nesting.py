"""Slices of one thread may overlap without nesting; a track of Perfetto holds only slices that nest."""

import numpy as np
from numpy.typing import NDArray

from tracekit.jit import loop

Ints = NDArray[np.int64]


def nested(thread: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Spread n slices over as few layers of their threads as nesting wants, and say in which order they open and close.

    The slices stand by thread, then start, the longest first. Returns `layer` (n,), from 0 within each thread, and
    `order` (2n,): slice i opens at i and closes at ~i, such that on each layer the last one opened closes first. A
    slice goes to the first layer where it lies inside what is open, or nothing is.
    """
    return loop(layers, len(start))(thread, start, end)


def layers(thread: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """See `nested`; plain, or compiled."""
    n = len(start)
    layer, order = np.zeros(n, np.int64), np.empty(2 * n, np.int64)
    # What is open: the innermost slice of each layer, and below each slice the one that holds it.
    top, below = np.full(n + 1, -1), np.full(n, -1)
    used, at = 0, 0
    for i in range(n + 1):
        if i == n or (i and thread[i] != thread[i - 1]):
            for one in range(used):
                while top[one] >= 0:
                    order[at] = ~top[one]
                    at += 1
                    top[one] = below[top[one]]
            used = 0
        if i == n:
            break
        one = 0
        while True:
            while top[one] >= 0 and end[top[one]] <= start[i]:
                order[at] = ~top[one]
                at += 1
                top[one] = below[top[one]]
            if top[one] < 0 or end[top[one]] >= end[i]:
                break
            one += 1
        layer[i], below[i], top[one] = one, top[one], i
        order[at] = i
        at += 1
        used = max(used, one + 1)
    return layer, order
