"""What the steps took: hand-made runs whose answer is known, an oracle of points, and a real capture."""

import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.stepped import annotations, join, timeline, work
from tracekit.analysis.steps import PARTS, STEP_COLUMNS, SUMMARY_COLUMNS, TYPICAL_COLUMNS, steps
from tracekit.timeline.timeline import timeline_of
from tracekit.timeline.unions import CELLS


def measure(device_work, spans=None):
    return steps(timeline(device_work, spans))


def regular(length=10, **slow):
    """Six steps of two devices, each computing for 6 and reducing for 2 of 10; `slow` changes a row of a step."""
    marks, row_tuples = [], []
    start = 0
    for step in range(6):
        here = {"gpu:0": (6, 2), "gpu:1": (6, 2), "wait": 0, **(slow if step == 3 else {})}
        end = start + here["wait"] + max(here["gpu:0"][0], here["gpu:1"][0]) + 4
        marks.append(("train", step, start, end))
        for device in ("gpu:0", "gpu:1"):
            begin = start + 1 + here["wait"]
            compute = begin + here[device][0]
            row_tuples += [(device, "compute", begin, compute, start), (device, "collective", compute, end - 1, start)]
        start = end
    return work(*row_tuples), annotations(*marks)


def test_programs_beside_each_other_are_measured_each_on_its_own_devices():
    parts, marks = [], []
    for process, device, count, length in (("1", "gpu:0", 30, 10), ("2", "gpu:1", 8, 40)):
        begins = [length * k for k in range(count)]
        items = [(device, "compute", at, at + length, at) for at in begins]
        parts.append(work(*items, process=process, first_id=1000 * int(process)))
        marks.append(annotations(*(("train", k, at, at + length) for k, at in enumerate(begins)), process=process))
    result = measure(tuple(join(list(frames)) for frames in zip(*parts, strict=True)), join(marks))
    assert result.summary[["name", "steps", "counted", "median_ps"]].values.tolist() == [
        ["train (process 1)", 30, 30, 10],
        ["train (process 2)", 8, 8, 40],
    ]
    assert result.table["did_nothing"].tolist() == [0] * 38
    assert result.typical[["name", "device", "compute_ps"]].values.tolist() == [
        ["train (process 1)", "gpu:0", 300],
        ["train (process 2)", "gpu:1", 320],
    ]


def blame(result):
    row = result.table.iloc[3]
    return row["slow_device"], row["slow_part"], row["slow_ps"]


@pytest.mark.parametrize(
    ("evaluated", "long", "slow"),
    [
        (("gpu:0", "gpu:1"), 0, ("all devices", "compute", 30, "jit_eval")),
        (("gpu:1",), 0, ("gpu:1", "compute", 30, "jit_eval")),
        ((), 30, ("all devices", "compute", 30, None)),  # the program of all steps took longer
    ],
)
def test_a_program_that_few_steps_run_is_named_where_it_made_one_slow(evaluated, long, slow):
    marks, rows_of, programs, start = [], [], [], 0
    for step in range(7):
        end = start + 20 + (30 if step == 4 else 0)
        marks.append(("train", step, start, end))
        for device in ("gpu:0", "gpu:1"):
            trained = start + 20 + (long if step == 4 else 0)
            rows_of.append((device, "compute", start, trained, start))
            programs.append("jit_train")
            if step == 4 and device in evaluated:
                rows_of.append((device, "compute", trained, end, start))
                programs.append("jit_eval")
        start = end
    table = measure(work(*rows_of, hlo_module=programs), annotations(*marks)).table
    columns = ["slow_device", "slow_part", "slow_ps", "slow_program"]
    assert table[columns].astype(object).where(table[columns].notna(), None).iloc[4].tolist() == [*slow]
    assert table["slow_program"].drop(4).isna().all()


def test_the_parts_of_a_step_are_measured_on_each_device():
    device_work = work(
        ("gpu:0", "compute", 1, 6, 0),
        ("gpu:0", "collective", 4, 8, 0),
        ("gpu:0", "memcpy", 7, 10, 0),
        ("gpu:1", "collective", 2, 8, 0),
        ("gpu:0", "compute", 11, 14, 10),
    )
    result = measure(device_work, annotations(("train", 0, 0, 10), ("train", 1, 10, 16)))
    columns = [
        "place", "device", "wall_ps", "busy_ps", "idle", "compute", "collective", "compute+collective", "memory",
        "collective+memory", "hidden_collective_ps", "exposed_collective_ps", "hidden_memory_ps", "exposed_memory_ps",
        "rows", "did_nothing", "last_end_ps",
    ]  # fmt: skip
    assert list(result.by_device[columns].fillna(-1).itertuples(index=False, name=None)) == [
        (0, "gpu:0", 10, 9, 1, 3, 1, 2, 2, 1, 2, 2, 0, 2, 3, False, 10),
        (1, "gpu:0", 6, 3, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, False, 14),
        (0, "gpu:1", 10, 6, 4, 0, 6, 0, 0, 0, 0, 6, 0, 0, 1, False, 8),
        (1, "gpu:1", 6, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, True, -1),
    ]
    assert result.table["did_nothing"].tolist() == [0, 1]


def test_the_work_of_a_step_ends_on_each_device_with_its_own_last_row():
    rows = [(f"gpu:{at}", "compute", start, 7 - at, 0) for at in range(3) for start in (1, 2)]
    assert measure(work(*rows), annotations(("train", 0, 0, 10))).by_device["last_end_ps"].tolist() == [7, 6, 5]
    rows = [("gpu:0", "compute", at, at + 2, 10 * (at // 10)) for at in (1, 4, 11, 14, 21, 24)]
    marks = annotations(*(("train", step, 10 * step, 10 * step + 10) for step in range(3)))
    assert measure(work(*rows), marks).by_device["last_end_ps"].tolist() == [6, 16, 26]


def test_the_summary_counts_the_steps_that_are_not_left_out():
    device_work, spans = regular()
    result = measure(device_work, join([spans, annotations(("backend_compile", None, 2, 5))]))
    assert result.table["left_out"].isna().tolist() == [False] + [True] * 5
    assert result.summary.to_dict("records") == [
        {
            "clock": "",
            "name": "train",
            "marked_by": "annotation",
            "steps": 6,
            "counted": 5,
            "outliers": 0,
            "median_ps": 10,
            "mean_ps": 10,
            "min_ps": 10,
            "p90_ps": 10,
            "max_ps": 10,
            "spread": 0.0,
            "note": pytest.approx(float("nan"), nan_ok=True),
        }
    ]


@pytest.mark.parametrize(
    ("late", "always", "told"),
    [
        ((0, 150, 0), 0, "step 0 took 150 ps longer as gpu:1 began it 150 ps behind the others"),
        (
            (0, 150, 148, 0), 0,
            "step 0 took 150 ps longer as gpu:1 began it 150 ps behind the others, and 1 other device nearly",
        ),
        ((0, 150), 0, "step 0 took 150 ps longer as gpu:1 began it 150 ps behind the others"),
        ((150, 150, 150), 0, None),
        ((0, 40, 0), 0, None),
        ((0, 150, 0), 30, "step 0 took 150 ps longer as gpu:1 began it 150 ps behind the others"),
        ((0, 0, 0), 80, None),
    ],
)  # fmt: skip
def test_a_device_whose_rank_starts_late_is_named_where_that_makes_a_step_warm_up(late, always, told):
    """Step 0 is 150 longer; of it each device is `late`, and the second one is `always` late, as a pipeline's stage."""
    rows, marks, begin = [], [], 0
    for step in range(7):
        end = begin + (350 if step == 0 else 200)
        marks.append(("train", step, begin, end))
        for device, behind in enumerate(late):
            start = begin + 1 + (behind if step == 0 else 0) + (always if device == 1 else 0)
            rows += [
                (f"gpu:{device}", "compute", start, start + 10, begin),
                (f"gpu:{device}", "compute", end - 9, end, end - 9),
            ]
        begin = end
    result = steps(timeline(work(*rows), annotations(*marks)))
    assert result.table["left_out"].fillna("").tolist()[:2] == ["warm-up", ""]
    assert result.summary["note"].fillna("").tolist() == [told or ""]


def test_a_last_step_of_two_that_has_no_work_was_cut():
    device_work = work(("gpu:0", "compute", 1, 9, 1), ("gpu:1", "compute", 1, 9, 1))
    marks = annotations(("train", 0, 0, 10), ("train", 1, 10, 11))
    result = measure(device_work, marks)
    assert result.table["left_out"].fillna("").tolist() == ["", "cut"]
    assert result.summary[["counted", "median_ps"]].to_numpy().tolist() == [[1, 10]]
    both = join([device_work[0], work(("gpu:0", "compute", 10, 11, 10))[0]]), device_work[1]
    assert measure(both, marks).table["left_out"].fillna("").tolist() == ["", "cut"]  # the other device has none


def test_the_typical_step_is_made_of_those_that_count_and_are_no_outlier():
    result = measure(*regular(**{"gpu:0": (26, 2)}))
    assert result.table["outlier"].tolist() == [False, False, False, True, False, False]
    columns = ["device", "steps", "wall_ps", "compute_ps", "collective_ps", "memory_ps", "idle_ps", "compute_ratio"]
    assert list(result.typical[columns].itertuples(index=False, name=None)) == [
        ("gpu:0", 5, 50, 30, 10, 0, 10, 0.6),
        ("gpu:1", 5, 50, 30, 10, 0, 10, 0.6),
    ]


def test_steps_that_last_no_time_are_made_of_no_shares():
    marks = annotations(("warm up", 0, 3, 3), *(("train", at, 10 * at, 10 * at + 10) for at in range(1, 4)))
    typical = steps(timeline(work(*(("gpu:0", "compute", at, at + 5, at) for at in (12, 22, 32))), marks)).typical
    assert typical["wall_ps"].tolist() == [0, 37]
    for part in PARTS:
        assert [pd.isna(ratio) for ratio in typical[f"{part}_ratio"].tolist()] == [True, False]


def test_a_slow_step_is_laid_to_the_device_that_worked_longer_and_not_to_the_one_that_waited():
    result = measure(*regular(**{"gpu:1": (26, 2)}))
    assert blame(result) == ("gpu:1", "compute", 20)


def test_who_worked_longer_is_named_even_where_others_waited_for_more_than_that():
    # In step 3 gpu:1 computes for 12 longer and reduces for 8 longer; gpu:0 has waited for 20 in the same collective.
    marks, row_tuples, start = [], [], 0
    for step in range(6):
        late, end = (12, start + 30) if step == 3 else (0, start + 10)
        marks.append(("train", step, start, end))
        for device, compute in (("gpu:0", start + 6), ("gpu:1", start + 6 + late)):
            row_tuples += [(device, "compute", start, compute, start), (device, "collective", compute, end, start)]
        start = end
    assert blame(measure(work(*row_tuples), annotations(*marks))) == ("gpu:1", "compute", 12)


def test_a_slow_step_in_which_all_idled_is_laid_to_all():
    assert blame(measure(*regular(wait=30))) == ("all devices", "idle", 30)


def test_a_slow_step_that_no_part_explains_by_half_is_laid_to_the_part_that_grew_most():
    marks, row_tuples, start = [], [], 0
    for step in range(6):
        # (computes, copies, reduces, idles): 20 longer in step 3, of which no part is more than 8.
        parts = (8, 4, 12, 6) if step == 3 else (2, 2, 4, 2)
        end = start + sum(parts)
        marks.append(("train", step, start, end))
        at = start + parts[3]
        for kind, size in zip(("compute", "memcpy", "collective"), parts, strict=False):
            row_tuples.append(("gpu:0", kind, at, at + size, start))
            at += size
        start = end
    assert blame(measure(work(*row_tuples), annotations(*marks))) == ("gpu:0", "collective", 8)


def test_a_step_that_is_not_slow_is_laid_to_none():
    assert measure(*regular()).table["slow_part"].isna().all()


def test_walls_of_touching_windows_sum_to_the_whole():
    result = measure(*regular(wait=7))
    table = result.table
    assert table["wall_ps"].sum() == table["end_ps"].iloc[-1] - table["start_ps"].iloc[0]


def test_without_steps_every_frame_is_empty_and_it_is_said_why():
    result = measure(work(("gpu:0", "compute", 0, 5, 0)))
    assert result.lacking
    assert [list(frame.columns) for frame in (result.table, result.summary, result.typical)] == [
        list(STEP_COLUMNS),
        list(SUMMARY_COLUMNS),
        list(TYPICAL_COLUMNS),
    ]
    assert result.table.empty
    assert result.by_device.empty


@st.composite
def a_run(draw):
    """Annotations beside each other, and rows of two devices that were launched at some time or are not linked."""
    at, marks = draw(st.integers(0, 4)), []
    for number in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 6))
        marks.append(("train", number, at, at + size))
        at += size + draw(st.integers(0, 3))
    row_tuples = []
    for _ in range(draw(st.integers(1, 8))):
        launched = draw(st.one_of(st.none(), st.integers(0, 25)))
        start = (0 if launched is None else launched) + draw(st.integers(0, 9))
        kind = draw(st.sampled_from(["compute", "collective", "memcpy"]))
        row_tuples.append(
            (draw(st.sampled_from(["gpu:0", "gpu:1"])), kind, start, start + draw(st.integers(1, 9)), launched)
        )
    return marks, row_tuples


def windows_of(marks, row_tuples):
    """The windows by the words of the definition, and the step of each launched row (None: of none)."""
    ends = [end for *_, end in marks]
    step_of = [
        None if launched < marks[0][2] else next((k for k, end in enumerate(ends) if launched < end), None)
        for *_, launched in row_tuples
    ]
    before = [row[3] for row in row_tuples if row[4] < marks[0][2] and row[1] != "memcpy"]
    first, reach, windows = max([marks[0][2], *before]), None, []
    for step, (*_, end) in enumerate(marks):
        mine = [row for row, its in zip(row_tuples, step_of, strict=True) if its == step]
        work_ends = [row[3] for row in mine if row[1] != "memcpy"] or [row[3] for row in mine]
        done_at = max([end, *work_ends, *([reach] if reach is not None else [])])
        windows.append((min(first, done_at) if reach is None else reach, done_at))
        reach = done_at
    return windows, step_of


# In rare runs of this test most of the first programs launch too little to be looked at here.
@settings(max_examples=40, suppress_health_check=[HealthCheck.filter_too_much])
@given(a_run())
def test_windows_rows_and_cells_are_those_of_the_definition(run):
    marks, row_tuples = run
    linked, loose = [row for row in row_tuples if row[4] is not None], [row for row in row_tuples if row[4] is None]
    windows, step_of = windows_of(marks, linked)
    # Where launches tell the work of few steps, rows may count by their time, or not at all: other tests look at that.
    told = {step for row, step in zip(linked, step_of, strict=True) if step is not None and row[1] != "memcpy"}
    assume(2 * len(told) >= len(marks) and told)
    result = measure(work(*linked, *loose), annotations(*marks))
    assert list(zip(result.table["start_ps"], result.table["end_ps"], strict=True)) == windows
    kinds = {"compute": "compute", "collective": "collective", "memcpy": "memory"}
    for row in result.by_device.to_dict("records"):
        kinds_by_point = [
            {
                kinds[kind]
                for device, kind, begin, end, _ in row_tuples
                if device == row["device"] and begin <= point < end
            }
            for point in range(*windows[row["place"]])
        ]
        assert [row[cell] for cell in CELLS] == [
            sum(kinds_at == set(cell.split("+")) - {"idle"} for kinds_at in kinds_by_point) for cell in CELLS
        ]
        start, end = windows[row["place"]]
        mine = [device for (device, *_), its in zip(linked, step_of, strict=True) if its == row["place"]]
        mine += [device for device, _, begin, *_ in loose if start <= begin < end]
        assert row["rows"] == mine.count(row["device"])
        assert row["did_nothing"] == (row["rows"] == 0)


def test_a_real_capture_of_annotated_steps_tells_the_one_that_compiles_and_the_one_whose_host_slept(pytestconfig):
    result = steps(timeline_of(pytestconfig.rootpath / "tests" / "data" / "stepped-cpu.xplane.pb.gz"))
    assert result.table["step"].tolist() == list(range(8))
    assert result.table["left_out"].fillna("").tolist() == ["compiles", *[""] * 7]
    assert result.table["outlier"].tolist() == [False] * 5 + [True, False, False]
    assert result.table[["slow_device", "slow_part"]].iloc[5].tolist() == ["all devices", "idle"]
    # Each step runs five thunks on each device, whenever it was dispatched, and the last three were dispatched ahead.
    assert result.by_device["rows"].tolist() == [5] * 16
    assert not result.table["rows_by_time"].any()
    late = result.table["device_end_ps"] > result.table["host_end_ps"]
    assert late.sum() >= 6


def test_a_slow_step_is_measured_against_the_median_of_those_that_count_and_are_no_outlier():
    lengths = (20, 22, 24, 21, 60, 23)  # without the outlier 20, 21, 22, 23, 24
    starts = [sum(lengths[:step]) for step in range(6)]
    device_work = work(*(("gpu:0", "compute", at, at + size, at) for at, size in zip(starts, lengths, strict=True)))
    marks = (("train", step, at, at + lengths[step]) for step, at in enumerate(starts))
    result = measure(device_work, annotations(*marks))
    assert result.table["outlier"].tolist() == [False] * 4 + [True, False]
    assert result.table[["slow_device", "slow_part", "slow_ps"]].iloc[4].tolist() == ["gpu:0", "compute", 38]


@pytest.mark.parametrize(("lost", "reason"), [((), None), ((5,), None), ((4, 5), "cut")])
def test_a_last_step_was_cut_if_more_than_a_tenth_of_its_launches_have_no_row(lost, reason):
    rows = [("gpu:0", "compute", 20 * at + 1, 20 * at + 19, 20 * at) for at in range(20)]
    events, launches = work(*rows)
    launches["name"] = pd.Categorical(["cudaLaunchKernel"] * len(launches))
    answered = [place for place in range(20) if place - 10 not in lost]
    marks = annotations(("train", 0, 0, 200), ("train", 1, 200, 400))
    result = measure((events.iloc[answered].reset_index(drop=True), launches), marks)
    assert [None if pd.isna(each) else each for each in result.table["left_out"]] == [None, reason]
