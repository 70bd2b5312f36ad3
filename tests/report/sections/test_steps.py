"""What the report says of steps."""

import json

import pytest

from tests.report.sections.brief import brief, lines_of
from tests.stepped import annotations, join, timeline, work
from tracekit.analysis.steps import steps
from tracekit.report.section import Missing
from tracekit.report.sections.steps import section

MS = 10**9


def section_of(frames, spans=None):
    return section(steps(timeline(frames, spans)))


def run(walls, *more, idle=(), name="train"):
    """Steps of such walls in ms, in which gpu:0 computes for all but 1 ms; in those of `idle` the host comes late."""
    marks, rows, start = [], [], 0
    for step, wall in enumerate(walls):
        end = start + wall * MS
        marks.append((name, step, start, end))
        begin = end - MS if step in idle else start + MS
        rows.append(("gpu:0", "compute", begin, end, start))
        start = end
    return work(*rows, *more), annotations(*marks)


def test_steps_alike_are_one_sentence_and_one_table():
    result = section_of(*run([10, 10, 10, 10, 10]))
    assert result.sentences == ("5 steps (train): median 10.00 ms (IQR 0 % of it).",)
    assert list(brief(result).values()) == [
        (
            "Time of a typical step",
            ["device", "compute", "exposed comm.", "exposed copy", "idle"],
            [["gpu:0", "90.0 %", "0 %", "0 %", "10.0 %"]],
        )
    ]


def test_one_step_has_a_length_and_no_median():
    result = section_of(*run([10]))
    assert result.sentences == ("1 step (train): 10.00 ms.",)
    tables = {table.key: table for table in result.tables}
    columns = {key: [column.head for column in table.columns] for key, table in tables.items()}
    lengths = dict(zip(columns["steps.lengths"], tables["steps.lengths"].rows[0], strict=True))
    assert lengths["mean"] == 10 * MS
    assert {lengths[name] for name in ("median", "min", "p90", "max")} == {Missing("only one step counts")}
    each = dict(zip(columns["steps.each"], tables["steps.each"].rows[0], strict=True))
    assert each["of median"] == Missing("only one step counts")


def test_a_slow_step_is_named_with_its_reason():
    result = section_of(*run([10, 10, 10, 40, 10, 30, 10], idle=(3,)))
    assert result.sentences == (
        "7 steps (train): median 10.00 ms (IQR 100 % of it). Step 3 took 40.00 ms: gpu:0 idled 38.00 ms longer; 1 more "
        "slow step.",
    )
    assert brief(result)["steps.each"] == (
        "Steps, outliers first",
        ["step", "wall", "of median", "remarks"],
        [
            ["3", "40.00 ms", "4.00x", "gpu:0 idled 38.00 ms longer"],
            ["5", "30.00 ms", "3.00x", "gpu:0 computed 20.00 ms longer"],
        ],
    )


def test_slow_steps_stand_for_what_they_took_beyond_the_median():
    slow = section_of(*run([10, 10, 10, 40, 10, 30, 10], idle=(3,)))
    assert slow.share == pytest.approx((30 + 20) / 120)
    assert section_of(*run([10, 10, 10, 4, 10, 10])).share == 0.0


def test_what_all_devices_did_longer_reads_as_of_several():
    marks, rows, start = [], [], 0
    for step, wall in enumerate([10, 10, 10, 40, 10, 10]):
        end = start + wall * MS
        marks.append(("train", step, start, end))
        for device in ("gpu:0", "gpu:1"):
            rows += [(device, "compute", start + MS, start + 5 * MS, start)]
            rows += [(device, "collective", start + 5 * MS, end, start)]
        start = end
    (sentence,) = section_of(work(*rows), annotations(*marks)).sentences
    assert sentence.endswith("Step 3 took 40.00 ms: all devices ran collectives up to 30.00 ms longer.")


def test_a_fast_step_is_told_as_such():
    result = section_of(*run([10, 10, 10, 4, 10, 10]))
    assert brief(result)["steps.each"][2] == [["3", "4.00 ms", "0.40x", "shorter"]]


def test_steps_left_out_are_told_with_the_reason():
    frames, spans = run([90, 40, 10, 10, 10, 10, 10, 10])
    (sentence,) = section_of(frames, join([spans, annotations(("backend_compile", None, 0, 50 * MS))])).sentences
    assert sentence.startswith("6 steps (train): ")
    assert sentence.endswith(" of it). Left out: step 0 (compiling), step 1 (warm-up).")


def test_steps_of_two_names_are_told_apart():
    marks, rows = [], []
    for step in range(6):
        start = 100 * step * MS
        marks += [("train", step, start, start + 60 * MS), ("eval", step, start + 60 * MS, start + 100 * MS)]
        late = 30 * MS if step == 4 else 0
        rows += [
            ("gpu:0", "compute", start + 1, start + 60 * MS - late, start),
            ("gpu:0", "compute", start + 61 * MS, start + 100 * MS, start + 60 * MS),
        ]
        if late:
            marks[-2:] = [("train", step, start, start + 30 * MS), ("eval", step, start + 30 * MS, start + 100 * MS)]
    result = section_of(work(*rows), annotations(*marks))
    assert result.sentences == (
        "6 steps (train): median 60.00 ms (IQR 0 % of it).",
        "6 steps (eval): median 40.00 ms (IQR 0 % of it). Step 4 took 70.00 ms: gpu:0 idled 30.00 ms longer.",
    )
    assert [row[:2] for row in brief(result)["steps.parts"][2]] == [["train", "gpu:0"], ["eval", "gpu:0"]]
    assert [row[0] for row in brief(result)["steps.each"][2]] == ["eval 4", "train 4"]


def test_steps_of_hosts_whose_clocks_are_not_aligned_are_told_apart():
    parts = [
        (work((f"{host}/gpu:0", "compute", MS, 9 * MS, 0), host=host, clock=host), annotations(mark, host=host))
        for host, mark in (("a", ("train", 0, 0, 10 * MS)), ("b", ("train", 0, 0, 20 * MS)))
    ]
    frames = tuple(join([part[0][which] for part in parts]) for which in range(2))
    assert section_of(frames, join([part[1] for part in parts])).sentences == (
        "1 step (train) on the clock of b: 20.00 ms.",
        "1 step (train) on the clock of a: 10.00 ms.",
    )


def test_a_device_that_did_nothing_is_told():
    result = section_of(*run([10, 10, 10], ("gpu:1", "memcpy", 12 * MS, 13 * MS, 11 * MS)))
    assert result.sentences[1] == "gpu:1 was idle throughout 2 of 3 steps."
    assert brief(result)["steps.each"][2] == [
        ["0", "10.00 ms", "1.00x", "gpu:1 idle throughout"],
        ["2", "10.00 ms", "1.00x", "gpu:1 idle throughout"],
    ]


def test_work_that_nothing_links_to_its_step_is_told():
    result = section_of(*run([10, 10, 10], ("gpu:0", "memcpy", 12 * MS, 13 * MS)))
    assert result.sentences[1] == "25.0 % of the events have no step number, and count in the step in which they start."


def test_executions_are_called_so():
    frames = work(
        *(("tpu:0", "compute", start * MS, (start + 9) * MS) for start in (1, 11, 21)),
        run_id=[1, 2, 3],
        hlo_module=["jit_f"] * 3,
    )
    assert section_of(frames).sentences == ("3 steps (executions of jit_f): median 10.00 ms (9.00 ms to 10.00 ms).",)


def test_of_many_devices_those_that_idle_most_are_shown():
    rows = [(f"gpu:{n}", "compute", 0, n * MS, 0) for n in range(1, 12)]
    result = section_of(work(*rows), annotations(("train", 0, 0, 12 * MS)))
    title, _, table = brief(result)["steps.parts"]
    assert title == "Time of a typical step, idlest devices first"
    assert [row[0] for row in table] == [f"gpu:{n}" for n in range(1, 9)]


def test_the_data_are_plain_and_whole():
    result = section_of(*run([10, 10, 10, 40, 10, 10]))
    data = json.loads(json.dumps(result.data))
    assert list(data) == [
        "marked_by",
        "nested",
        "summary",
        "devices",
        "steps_total",
        "steps",
        "by_device_total",
        "by_device",
    ]
    assert data["marked_by"] == "annotation"
    assert data["steps_total"] == len(data["steps"]) == 6
    assert data["steps"][3]["outlier"] is True
    assert data["steps"][3]["slow_device"] == "gpu:0"
    assert data["steps"][0]["slow_device"] is None


def test_long_lists_are_cut_and_their_length_is_told():
    result = section_of(*run([1] * 1003))
    assert (result.data["steps_total"], len(result.data["steps"])) == (1003, 1000)


def test_without_steps_only_the_reason_is_told():
    result = section_of(work(("gpu:0", "compute", 0, 5, 0)))
    assert (result.sentences, result.tables, result.data) == ((), (), None)
    assert result.lacking


@pytest.mark.parametrize("walls", [[10], [10, 12, 11], [10] * 30])
def test_the_tables_fit_80_columns(walls):
    assert max(map(len, lines_of(section_of(*run(walls))))) <= 80
