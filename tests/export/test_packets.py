"""Slices of threads are spread over layers on which they nest."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracekit.export.packets import layers, nested
from tracekit.jit import compiled


def spread(*slices: tuple[int, int, int]) -> tuple[list[int], list[int]]:
    layer, order = nested(*(np.array(column, np.int64) for column in zip(*slices, strict=True)))
    return layer.tolist(), order.tolist()


def test_slices_inside_each_other_share_a_layer():
    assert spread((0, 0, 9), (0, 0, 4), (0, 4, 8)) == ([0, 0, 0], [0, 1, ~1, 2, ~2, ~0])


def test_a_slice_that_outlasts_the_one_it_began_in_has_a_layer_of_its_own():
    assert spread((0, 0, 5), (0, 3, 8), (0, 6, 7)) == ([0, 1, 0], [0, 1, ~0, 2, ~2, ~1])


def test_equal_slices_nest_and_empty_ones_close_before_the_next_opens():
    assert spread((0, 1, 3), (0, 1, 3), (0, 2, 2), (0, 2, 2)) == ([0, 0, 0, 0], [0, 1, 2, ~2, 3, ~3, ~1, ~0])


def test_threads_are_apart():
    assert spread((0, 0, 9), (1, 5, 12)) == ([0, 0], [0, ~0, 1, ~1])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 6)), min_size=1, max_size=30))
def test_on_every_layer_what_opened_last_closes_first_and_nothing_is_lost(slices):
    slices = sorted(
        ((thread, start, start + lasts) for thread, start, lasts in slices), key=lambda a: (a[0], a[1], -a[2])
    )
    layer, order = spread(*slices)
    assert sorted(order) == sorted([*range(len(slices)), *(~place for place in range(len(slices)))])
    stacks: dict[tuple[int, int], list[int]] = {}
    for event in order:
        place = event if event >= 0 else ~event
        stack = stacks.setdefault((slices[place][0], layer[place]), [])
        if event >= 0:
            assert all(slices[place][2] <= slices[outer][2] for outer in stack)
            stack.append(event)
        else:
            assert stack.pop() == place
    # The first layer that does: below it, something overlaps without nesting.
    for place, (thread, start, end) in enumerate(slices):
        for below in range(layer[place]):
            assert any(
                slices[other][0] == thread and layer[other] == below and start < slices[other][2] < end
                for other in range(place)
            )


def test_compiled_it_is_the_same():
    rng = np.random.default_rng(7)
    start = np.sort(rng.integers(0, 500, 400))
    columns = np.repeat([0, 1], [150, 250]), start, start + rng.integers(0, 30, 400)
    at = np.lexsort((-columns[2], columns[1], columns[0]))
    columns = [column[at] for column in columns]
    assert [column.tolist() for column in compiled(layers)(*columns)] == [
        column.tolist() for column in layers(*columns)
    ]
