"""Any rows of few devices, for tests that count points."""

from hypothesis import strategies as st

KINDS = {"compute": "compute", "collective": "collective", "memcpy": "memory", "memset": "memory"}


@st.composite
def some_rows(draw):
    fields = st.tuples(
        st.sampled_from(["gpu:0", "gpu:1", "gpu:10"]),
        st.sampled_from(list(KINDS)),
        st.integers(0, 30),
        st.integers(0, 9),
    )
    rows = [
        (device, kind, start, start + size)
        for device, kind, start, size in draw(st.lists(fields, min_size=1, max_size=14))
    ]
    way = st.sampled_from(["H2D", "D2H", None])
    return [(*row, "op", draw(way) if row[1] == "memcpy" else None) for row in rows]
