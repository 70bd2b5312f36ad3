"""What stands on a figure, for tests: its words, the area filled by colour; and sets of points to fill it with."""

from collections import defaultdict

import numpy as np
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.patches import PathPatch

from tracekit import intervals as iv

# Any merged set of integer points in 0 to 60.
WINDOW = (0, 60)
pairs = st.tuples(st.integers(0, 55), st.integers(0, 5)).map(lambda p: (p[0], p[0] + p[1]))
interval_sets = st.lists(pairs, max_size=12).map(lambda rows: iv.union(np.array(rows, np.int64).reshape(-1, 2)))


def points(a) -> set[int]:
    """The integer points that a set holds."""
    return {p for start, end in a.tolist() for p in range(start, end)}


def words(figure) -> list[str]:
    """All words, in the order of drawing: those of the page, then those of its axes."""
    return [text.get_text() for part in (figure, *figure.axes) for text in part.texts]


def filled_boxes(axes) -> dict[str, np.ndarray]:
    """The boxes (x0, x1, y0, y1) that are seen of each colour on `axes`, in its own units.

    A shape may hold those that are painted over it.
    """
    shapes = [patch for patch in axes.patches if isinstance(patch, PathPatch)]
    boxes_of_shapes = [boxes(shape) for shape in shapes]
    visible: dict[str, list[tuple[float, ...]]] = {}
    over = defaultdict(list)
    for shape, own in zip(shapes[::-1], boxes_of_shapes[::-1], strict=True):
        parts = [part for box in own for part in without(box, over[box[:2]])]
        visible.setdefault(to_hex(shape.get_facecolor()).upper(), []).extend(parts)
        for x0, x1, y0, y1 in own:
            over[x0, x1].append((y0, y1))
    return {colour: np.array(sorted(rows)).reshape(-1, 4) for colour, rows in visible.items()}


def without(box, covers) -> list[tuple[float, ...]]:
    """What is left of a box below others of the same width, given by their (y0, y1)."""
    x0, x1, low, high = box
    parts = []
    for y0, y1 in sorted(cover for cover in covers if low <= cover[0] and cover[1] <= high):
        parts.append((x0, x1, low, y0))
        low = max(low, y1)
    return [part for part in (*parts, (x0, x1, low, high)) if part[3] > part[2]]


def boxes(shape: PathPatch) -> list[tuple[float, ...]]:
    """The boxes (x0, x1, y0, y1) of one shape, which differ."""
    corners = shape.get_path().vertices.reshape(-1, 5, 2)
    x, y = corners[:, :, 0], corners[:, :, 1]
    result = list(map(tuple, np.stack([x.min(1), x.max(1), y.min(1), y.max(1)], axis=1).tolist()))
    assert len(set(result)) == len(result)
    return result


def area(boxes: np.ndarray) -> float:
    """The area of disjoint boxes."""
    return float(((boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2])).sum())
