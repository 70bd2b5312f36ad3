import json

from tests.frames import events
from tests.offender_frames import COLLECTIVES, OPS, STEP, gaps, offenders_of, step
from tests.report.sections.brief import brief, lines_of
from tracekit.report.sections.offenders import section


def test_the_first_offender_is_said_with_its_step_source_wait_and_what_ran_meanwhile():
    result = section(offenders_of(step(), gaps(("gpu:0", 230, 260, "host-bound", 3)), STEP, OPS, COLLECTIVES))
    assert result.sentences == (
        "Largest loss: exposed all-reduce on gpu:0, 100 ps (33.3 % of the window).",
        "The collective was exposed for 100 ps in step 5 (m.py:2).",
        "It waited 70 ps for gpu:1, the last to arrive.",
        "gpu:0 copied for 50 ps of it.",
        "Meanwhile the other device was busy 100 % of the time, mostly with slow.",
        "1 other device loses less to it.",
    )
    assert list(brief(result).values()) == [
        (
            "Top offenders, each on the device that loses most to it",
            ["what", "device", "lost", "n", "of window", "where"],
            [
                ["all-reduce", "gpu:0", "100 ps", "1", "33.3 %", "m.py:2"],
                ["MemcpyD2H", "gpu:0", "30 ps", "1", "10.0 %", "-"],
                ["idle: host-bound", "gpu:0", "30 ps", "1", "10.0 %", "before m.py:3"],
            ],
        )
    ]
    json.dumps(result.data, allow_nan=False)
    assert (result.data["groups"], result.data["instances_found"], len(result.data["by_device"])) == (3, 4, 4)


def test_long_names_fit_the_table_and_nccl_kernels_stand_without_their_arguments():
    name = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)"
    table = events(("rank0/gpu:0", "collective", 0, 9, name), ("rank0/gpu:0", "memcpy", 9, 12, "copy-start.3", "H2D"))
    result = section(offenders_of(table))
    ((_, head, rows),) = brief(result).values()
    assert rows == [
        ["ncclKernel_AllReduce_RING_LL_Sum_float", "rank0/gpu:0", "9 ps", "1", "75.0 %", "-"],
        ["H2D copy-start", "rank0/gpu:0", "3 ps", "1", "25.0 %", "-"],
    ]
    assert len(head) == 6
    lines = lines_of(result)
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("ncclKernel_AllReduce_RING_LL_Sum_float") for line in lines)
    assert max(map(len, lines_of(result, 60))) <= 60


def test_several_idle_devices_beside_are_told():
    table = events(
        ("gpu:0", "collective", 0, 8),
        ("gpu:0", "compute", 8, 9),
        ("gpu:1", "compute", 6, 9),
        ("gpu:2", "compute", 8, 9),
    )
    assert section(offenders_of(table, gaps())).sentences == (
        "Largest loss: exposed op on gpu:0, 8 ps (88.9 % of the window).",
        "The collective was exposed for 8 ps.",
        "Meanwhile the 2 other devices were busy 12.5 % of the time on average, mostly with op.",
    )
    table = events(("gpu:0", "collective", 0, 8), ("gpu:1", "compute", 8, 9), ("gpu:2", "compute", 8, 9))
    assert section(offenders_of(table, gaps())).sentences[2] == "Meanwhile every other device was idle."
    busy = [("gpu:1", "compute", 0, 8), ("gpu:2", "compute", 0, 8)]
    table = events(("gpu:0", "collective", 0, 8), *busy, ("gpu:0", "compute", 8, 9))
    assert (
        section(offenders_of(table, gaps()))
        .sentences[2]
        .startswith("Meanwhile every other device was busy 100 % of the time, ")
    )


def test_the_longest_of_several_is_told_by_what_was_exposed_of_it():
    table = events(("gpu:0", "collective", 0, 8), ("gpu:0", "compute", 4, 9), ("gpu:0", "collective", 10, 12))
    assert section(offenders_of(table, gaps())).sentences[:2] == (
        "Largest loss: exposed op on gpu:0, 6 ps (50.0 % of the window).",
        "The longest of 2 collectives was exposed for 4 ps.",
    )


def test_a_trace_without_offenders_says_so_and_one_without_work_why():
    result = section(offenders_of(events(("gpu:0", "compute", 0, 9))))
    assert (result.sentences, brief(result)) == (("No collective, copy or idle gap costs any time.",), {})
    result = section(offenders_of(events(("cpu:?", "memcpy", 0, 9)), gaps()))
    assert result.lacking
    assert result.data is None
