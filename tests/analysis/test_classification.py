"""What told the kinds, against a sweep over every picosecond; and which names were only guessed."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frames import events
from tracekit.analysis.classification import LEVELS, guessed, known_by
from tracekit.analysis.overlap import partition

NAMES = [level.value for level in LEVELS]


def level_frame(*rows: tuple) -> pd.DataFrame:
    """Rows of (device, level or None, start, end[, name[, kind]])."""
    full = [(*row, *("op", "compute")[len(row) - 4 :]) for row in rows]
    frame = events(*[(device, kind, start, end, name) for device, _, start, end, name, kind in full])
    frame["known_by"] = pd.Categorical([row[1] for row in full])
    return frame


def shares(frame: pd.DataFrame) -> dict[str, int]:
    return {row["level"]: row["busy_ps"] for row in known_by(frame).to_dict("records") if row["busy_ps"]}


def test_time_of_several_levels_counts_for_the_least_trustworthy():
    frame = level_frame(("gpu:0", "opcode", 0, 10), ("gpu:0", "name", 4, 6), ("gpu:0", "nothing", 5, 8))
    assert shares(frame) == {"opcode": 6, "name": 1, "nothing": 3}


def test_the_levels_are_listed_by_trust_with_their_share_of_the_busy_time():
    table = known_by(level_frame(("gpu:0", "rule", 0, 30), ("gpu:1", "stat", 0, 10)))
    assert table["level"].tolist() == ["rule", "opcode", "stat", "stream", "name", "nothing"]
    assert table["ratio"].tolist() == [0.75, 0, 0.25, 0, 0, 0]


def test_rows_without_a_level_count_as_told_by_nothing():
    frame = level_frame(("gpu:0", None, 0, 3), ("gpu:0", "hearsay", 5, 6))
    assert shares(frame) == {"nothing": 4}
    assert guessed(frame)[["level", "device_time_ps"]].to_numpy().tolist() == [["nothing", 4]]


def test_rows_on_an_unknown_device_are_no_busy_time():
    frame = level_frame(("cpu:?", "name", 0, 9, "copy"), ("cpu:0", "opcode", 0, 5))
    assert shares(frame) == {"opcode": 5}
    assert len(guessed(frame)) == 0


def test_without_rows_there_are_no_shares():
    assert known_by(events())["busy_ps"].tolist() == [0] * 6
    assert known_by(events())["ratio"].isna().all()
    assert guessed(events()).columns.tolist() == ["name", "kind", "level", "events", "device_time_ps", "ratio"]
    assert len(guessed(events())) == 0


def test_a_guessed_name_is_measured_by_its_union_on_each_device_and_the_longest_comes_first():
    frame = level_frame(
        ("gpu:0", "name", 0, 10, "nccl", "collective"),
        ("gpu:0", "name", 5, 12, "nccl", "collective"),
        ("gpu:1", "name", 0, 4, "nccl", "collective"),
        ("gpu:1", "nothing", 0, 20, "mine"),
        ("gpu:1", "opcode", 0, 40, "fusion"),
        ("gpu:0", "stat", 50, 58, "nccl", "memcpy"),
    )
    assert guessed(frame).to_dict("records") == [
        {"name": "mine", "kind": "compute", "level": "nothing", "events": 1, "device_time_ps": 20, "ratio": 20 / 60},
        {"name": "nccl", "kind": "collective", "level": "name", "events": 3, "device_time_ps": 16, "ratio": 16 / 60},
    ]


def test_numbered_copies_of_an_op_are_one_name():
    frame = level_frame(
        ("tpu:0", "nothing", 0, 3, "rpa.17"), ("tpu:0", "nothing", 5, 6, "rpa.2.1"), ("tpu:0", "nothing", 6, 7, "rpa")
    )
    guesses = guessed(frame)
    assert guesses[["name", "events", "device_time_ps"]].values.tolist() == [["rpa", 3, 5]]


def test_sums_over_many_devices_do_not_overflow():
    long = 2**62
    frame = level_frame(*[(f"gpu:{k}", "name", 0, long, "k") for k in range(8)])
    assert (shares(frame), guessed(frame)["device_time_ps"].tolist()) == ({"name": 8 * long}, [8 * long])


def test_the_frame_is_left_as_it_was():
    frame = level_frame(("gpu:0", "name", 5, 9), ("gpu:0", None, 0, 6))
    before = frame.copy(deep=True)
    known_by(frame), guessed(frame)
    assert frame.equals(before)


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["gpu:0", "gpu:1", "cpu:?"]),
        st.sampled_from([*NAMES, None]),
        st.integers(0, 40),
        st.integers(0, 25),
        st.sampled_from(["a", "b", "a.1"]),
        st.sampled_from(["compute", "memcpy"]),
    ),
    max_size=25,
)


@settings(max_examples=50)
@given(ROWS)
def test_shares_and_guesses_agree_with_a_sweep_over_every_picosecond(rows):
    rows = [(device, level, start, start + length, *rest) for device, level, start, length, *rest in rows]
    busy = dict.fromkeys(NAMES, 0)
    names: dict[tuple[str, str, str], int] = {}
    for device in ("gpu:0", "gpu:1"):
        for at in range(70):
            here = [
                (NAMES.index(level or "nothing"), name.removesuffix(".1"), kind)
                for on, level, start, end, name, kind in rows
                if on == device and start <= at < end
            ]
            if here:
                busy[NAMES[max(level for level, _, _ in here)]] += 1
            for level, name, kind in {guess for guess in here if guess[0] >= NAMES.index("name")}:
                key = (name, kind, NAMES[level])
                names[key] = names.get(key, 0) + 1
    frame = level_frame(*rows)
    guesses = guessed(frame)
    assert dict(zip(*known_by(frame)[["level", "busy_ps"]].values.T, strict=True)) == busy
    assert sum(busy.values()) == sum(partition(frame)["busy_ps"])
    assert {
        (row["name"], row["kind"], row["level"]): row["device_time_ps"]
        for row in guesses.to_dict("records")
        if row["device_time_ps"]
    } == names
    assert guesses["device_time_ps"].is_monotonic_decreasing


@pytest.mark.parametrize("count", [300, 70_000])
def test_many_distinct_names_are_told_apart(count):
    frame = level_frame(*[("gpu:0", "nothing", 10 * at, 10 * at + 1 + at % 5, f"k{at}_") for at in range(count)])
    guesses = guessed(frame)
    assert len(guesses) == count
    assert guesses["device_time_ps"].sum() == shares(frame)["nothing"] == sum(1 + at % 5 for at in range(count))


def test_of_guesses_of_as_much_time_the_first_by_name_stands_first():
    rows = [("gpu:0", "name", at, at + 5, name) for at, name in ((0, "b"), (10, "c"), (20, "a"))]
    assert guessed(level_frame(*rows))["name"].tolist() == ["a", "b", "c"]
