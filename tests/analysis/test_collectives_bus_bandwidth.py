import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.analysis.collectives import rates
from tracekit.vocabulary.collectives import OPERATIONS

PS_PER_S = 10**12


def rate(operation: str, moved: int = 1000, time: int = PS_PER_S, ranks: int = 4, size: int = 4) -> dict:
    columns = rates([operation], *(np.array([value]) for value in (0, moved, time, ranks, size)))
    return {name: None if pd.isna(values[0]) else values[0] for name, values in columns.items()}


@pytest.mark.parametrize(
    ("operation", "bus"),
    [
        ("all-reduce", 1500.0),  # 2 (n - 1) / n
        ("all-gather", 750.0),  # (n - 1) / n
        ("reduce-scatter", 750.0),
        ("all-to-all", 750.0),
        ("collective-broadcast", 1000.0),
        ("reduce", 1000.0),
        ("collective-permute", 1000.0),
        ("send", 1000.0),
        ("recv", 1000.0),
    ],
)
def test_the_bus_bandwidth_is_that_of_nccls_tests(operation, bus):
    assert rate(operation) == {
        "algorithm_bytes_per_s": 1000.0,
        "bus_bytes_per_s": bus,
        "at_least": False,
        "reason": None,
    }


def test_a_kernel_that_may_run_several_collectives_has_no_bus_bandwidth():
    assert rate("send-recv") == {
        "algorithm_bytes_per_s": 1000.0,
        "bus_bytes_per_s": None,
        "at_least": False,
        "reason": "which collective its kernel ran is not known, so its bus bandwidth is not",
    }


def test_the_devices_seen_count_where_the_ranks_are_not_told():
    assert rate("all-gather", ranks=0, size=2)["bus_bytes_per_s"] == 500.0


def test_a_rank_that_is_not_shown_makes_the_rate_a_lower_bound():
    lower_bound = rate("all-reduce", ranks=4, size=2)
    assert (lower_bound["bus_bytes_per_s"], lower_bound["at_least"], lower_bound["reason"]) == (1500.0, True, None)


def test_one_device_alone_gives_a_lower_bound_and_no_bus_bandwidth_without_its_ranks():
    assert rate("all-reduce", ranks=0, size=1) == {
        "algorithm_bytes_per_s": 1000.0,
        "bus_bytes_per_s": None,
        "at_least": True,
        "reason": "seen on one device only, so its waiting is not known; how many ranks took part is not known, so its "
        "bus bandwidth is not",
    }


def test_what_is_missing_is_null_and_says_why():
    assert rate("all-reduce", moved=-1) == {
        "algorithm_bytes_per_s": None,
        "bus_bytes_per_s": None,
        "at_least": False,
        "reason": "the trace does not say how many bytes it moved",
    }
    assert rate("all-reduce", time=0)["reason"] == "no time is left after the last start"
    assert rate("all-reduce", time=0)["algorithm_bytes_per_s"] is None
    assert rate("all-reduce", ranks=1, size=1)["reason"] == "one rank alone moves nothing between ranks"
    assert rate("all-reduce", moved=0)["algorithm_bytes_per_s"] == 0.0


def by_hand(operation: str, moved: int, time: int, ranks: int, size: int) -> tuple:
    """The algorithm and the bus bandwidth of one collective, whether it is a lower bound, and why it lacks one."""
    n = ranks or (size if size > 1 else 0)
    bus = OPERATIONS[operation].bus if operation in OPERATIONS else None
    algorithm = moved * 1e12 / time if moved >= 0 and time else None
    reasons = ["seen on one device only, so its waiting is not known"] if size == 1 != n else []
    if moved < 0:
        reasons.append("the trace does not say how many bytes it moved")
    elif not time:
        reasons.append("no time is left after the last start")
    elif bus is None:
        reasons.append("which collective its kernel ran is not known, so its bus bandwidth is not")
    elif bus and n == 0:
        reasons.append("how many ranks took part is not known, so its bus bandwidth is not")
    elif bus and n == 1:
        reasons.append("one rank alone moves nothing between ranks")
    factor = None if algorithm is None or bus is None else bus * (n - 1) / n if bus and n > 1 else None if bus else 1
    rate_of_bus = None if factor is None else pytest.approx(algorithm * factor)
    is_bound = algorithm is not None and (n == 0 or size < n)
    return None if algorithm is None else pytest.approx(algorithm), rate_of_bus, is_bound, "; ".join(reasons) or None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["all-reduce", "all-gather", "send", "send-recv", "kernel"]),
            st.sampled_from([-1, 0, 1, 4096]),
            st.sampled_from([0, 1, 3000]),
            st.integers(0, 4),
            st.integers(1, 4),
        ),
        min_size=1,
    )
)
def test_rates_of_many_are_those_of_each(many):
    operation, *columns = zip(*many, strict=True)
    operations = sorted(set(operation))
    table = rates(operations, np.array([operations.index(name) for name in operation]), *map(np.array, columns))
    told = [tuple(None if pd.isna(value) else value for value in row) for row in zip(*table.values(), strict=True)]
    assert told == [by_hand(*each) for each in many]
