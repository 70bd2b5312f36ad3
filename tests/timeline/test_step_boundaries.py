"""What tells the steps, where each begins and ends, and which rows are of which step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stepped import annotations, boundaries, join, steps_of, table, work
from tracekit.timeline import step_boundaries
from tracekit.timeline.rows import rows
from tracekit.timeline.step_boundaries import compiler_spans, compiler_times, steps_inside

WINDOW = ("step", "start_ps", "end_ps")
US = 10**6


def both(*parts):
    """Work of several hosts as one."""
    return tuple(join(list(frames)) for frames in zip(*parts, strict=True))


class TestAnnotations:
    def test_a_step_whose_host_waits_for_its_work_ends_with_its_annotation(self):
        device_work = work(("gpu:0", "compute", 12, 18, 11), ("gpu:0", "compute", 32, 38, 31))
        steps = boundaries(device_work, annotations(("train", 7, 10, 20), ("train", 8, 30, 40)))
        assert table(steps, *WINDOW, "host_start_ps", "device_start_ps", "device_end_ps") == [
            (7, 10, 20, 10, 12, 18),
            (8, 20, 40, 30, 32, 38),
        ]
        assert table(steps, "name", "marked_by", "clock", "wall_ps") == [
            ("train", "annotation", "", 10),
            ("train", "annotation", "", 20),
        ]

    def test_work_dispatched_ahead_counts_in_the_step_that_launched_it(self):
        device_work = work(
            ("gpu:0", "compute", 2, 10, 1),
            ("gpu:0", "compute", 10, 20, 3),
            ("gpu:0", "collective", 20, 30, 5),
        )
        steps = boundaries(device_work, annotations(("train", 0, 0, 2), ("train", 1, 2, 4), ("train", 2, 4, 6)))
        assert table(steps, *WINDOW) == [(0, 0, 10), (1, 10, 20), (2, 20, 30)]
        assert steps_of(steps, device_work) == [0, 1, 2]

    def test_a_copy_ahead_neither_opens_its_step_nor_does_one_behind_hold_it_open(self):
        device_work = work(
            ("gpu:0", "compute", 2, 10, 1),
            ("gpu:0", "memcpy", 3, 5, 2),  # the next step's batch
            ("gpu:0", "memcpy", 10, 15, 1),  # this step's loss
            ("gpu:0", "compute", 10, 20, 2),
        )
        steps = boundaries(device_work, annotations(("train", 0, 0, 2), ("train", 1, 2, 4)))
        assert table(steps, *WINDOW, "device_start_ps", "device_end_ps") == [(0, 0, 10, 2, 15), (1, 10, 20, 3, 20)]

    def test_a_program_is_not_done_before_its_own_copies_are(self):
        device_work = work(("tpu:0", "compute", 2, 10, 1), ("tpu:0", "memcpy", 10, 15, 1), run_id=[5, 5])
        assert table(boundaries(device_work, annotations(("train", 0, 0, 2))), *WINDOW) == [(0, 0, 15)]

    def test_a_step_of_copies_alone_ends_with_them(self):
        device_work = work(("gpu:0", "memcpy", 2, 10, 1))
        assert table(boundaries(device_work, annotations(("load", 0, 0, 2))), *WINDOW) == [(0, 0, 10)]

    def test_annotations_of_a_host_that_ran_ahead_tell_no_steps_without_launches(self):
        """Six steps of 20 on the device, which the host went through in 2 each."""
        device_work = work(*(("gpu:0", "compute", 10 * at, 10 * at + 10) for at in range(12)))
        steps = boundaries(device_work, annotations(*(("train", at, 2 * at, 2 * at + 2) for at in range(6))))
        assert steps.lacking.startswith("The steps are not known: no launch tells the step of the devices' work")
        assert len(steps.table) == 0
        assert steps_of(steps, device_work) == [-1] * 12

    def test_hosts_ran_ahead_whose_devices_were_busy_at_most_ends_of_their_steps(self):
        """The devices begin in the first, the third or the fourth of six steps of the host."""
        for begin, is_told in ((1, False), (5, False), (7, True)):
            device_work = work(*(("gpu:0", "compute", begin + 10 * at, begin + 10 * at + 10) for at in range(12)))
            steps = boundaries(device_work, annotations(*(("train", at, 2 * at, 2 * at + 2) for at in range(6))))
            assert (len(steps.table) > 0) is is_told

    @pytest.mark.parametrize(("unlinked", "is_told"), [(0, True), (450, True), (451, False)])
    def test_steps_that_launched_no_work_hide_none_whose_step_is_known(self, unlinked, is_told):
        """Compute in two of six steps, done long after the host was, and other work of no known launch behind it."""
        rows_of = [("gpu:0", "compute", 15, 150, 12), ("gpu:0", "compute", 150, 465, 32)]
        behind = [("gpu:0", "compute", 465, 465 + unlinked)] if unlinked else []
        steps = boundaries(
            work(*rows_of, *behind), annotations(*(("train", at, 10 * at, 10 * at + 10) for at in range(6)))
        )
        assert (len(steps.table) == 6) is is_told
        if not unlinked:
            assert steps_of(steps, work(*rows_of)) == [1, 3]

    def test_where_hosts_ran_ahead_without_launches_executions_tell_the_steps(self):
        device_work = work(
            *(("gpu:0", "compute", 10 * at, 10 * at + 10) for at in range(4)),
            run_id=[1, 2, 3, 4],
            hlo_module=["jit_f"] * 4,
        )
        steps = boundaries(device_work, annotations(*(("train", at, at, at + 1) for at in range(3))))
        assert set(steps.table["marked_by"]) == {"run_id"}
        assert len(steps.table) == 4

    @pytest.mark.parametrize("more", [0, 3])
    def test_annotations_of_a_host_that_waited_tell_the_steps_without_launches(self, more):
        """With and without work after the last, and with more work in some."""
        rows_of = [("gpu:0", "compute", 10 * at + 1, 10 * at + 9) for at in range(4 + more)]
        rows_of.insert(2, ("gpu:0", "memcpy", 9, 15))
        steps = boundaries(work(*rows_of), annotations(*(("train", at, 10 * at, 10 * at + 10) for at in range(4))))
        assert [wall for (wall,) in table(steps, "wall_ps")] == [10] * 4

    def test_annotations_of_a_host_behind_which_devices_keep_pace_tell_the_steps_without_launches(self):
        device_work = work(*(("gpu:0", "compute", 10 * at + 5, 10 * at + 15) for at in range(20)))
        steps = boundaries(device_work, annotations(*(("train", at, 10 * at, 10 * at + 10) for at in range(20))))
        assert len(steps.table) == 20

    def test_the_end_of_a_profile_behind_a_host_that_ran_ahead_leaves_the_steps_that_it_shows(self):
        """Rows of the steps before the profile have no call in it; a copy of the first step ran beside them."""
        device_work = work(
            ("gpu:0", "memcpy", 1, 2, 0),
            *(("gpu:0", "compute", 10 * at, 10 * at + 10) for at in range(1, 6)),
            ("gpu:0", "compute", 60, 80, 1),
        )
        steps = boundaries(device_work, annotations(*(("train", at, 2 * at, 2 * at + 2) for at in range(3))))
        assert table(steps, *WINDOW)[0] == (0, 0, 80)

    def test_time_and_launches_between_two_annotations_are_of_the_step_that_comes(self):
        device_work = work(
            ("gpu:0", "compute", 2, 10, 1), ("gpu:0", "memcpy", 16, 18, 15), ("gpu:0", "compute", 32, 38, 31)
        )
        steps = boundaries(device_work, annotations(("train", 0, 0, 12), ("train", 1, 30, 40)))
        assert table(steps, *WINDOW) == [(0, 0, 12), (1, 12, 40)]
        assert steps_of(steps, device_work) == [0, 1, 1]

    def test_work_launched_before_the_first_step_delays_it_and_is_of_none(self):
        device_work = work(
            ("gpu:0", "compute", 2, 14, 1), ("gpu:0", "compute", 14, 18, 11), ("gpu:0", "compute", 18, 19, 17)
        )
        steps = boundaries(device_work, annotations(("train", 0, 10, 16)))
        assert table(steps, *WINDOW) == [(0, 14, 18)]
        assert steps_of(steps, device_work) == [-1, 0, -1]

    def test_work_whose_launch_is_older_than_the_profile_is_of_no_step(self):
        device_work = work(("gpu:0", "compute", 2, 14, 1), ("gpu:0", "compute", 14, 18, 11))
        missing = device_work[1].iloc[1:]
        steps = boundaries((device_work[0], missing), annotations(("train", 0, 10, 16)))
        assert table(steps, *WINDOW) == [(0, 14, 18)]
        assert steps_of(steps, (device_work[0], missing)) == [-1, 0]

    def test_work_without_a_launch_is_of_the_step_during_which_it_starts(self):
        device_work = work(
            ("gpu:0", "compute", 2, 10, 1),
            ("gpu:0", "memcpy", 9, 14),
            ("gpu:0", "compute", 11, 20, 3),
            ("gpu:0", "memcpy", 10, 14),
            ("gpu:0", "memcpy", 20, 21),
        )
        steps = boundaries(device_work, annotations(("train", 0, 0, 2), ("train", 1, 2, 4)))
        assert steps_of(steps, device_work) == [0, 0, 1, 1, -1]
        assert table(steps, "rows", "rows_by_time") == [(2, 1), (2, 1)]

    def test_without_any_launch_work_is_of_the_step_in_whose_host_time_it_starts(self):
        device_work = work(("gpu:0", "compute", 2, 14), ("gpu:0", "compute", 14, 18), ("gpu:0", "compute", 30, 31))
        steps = boundaries(device_work, annotations(("train", 0, 1, 10), ("train", 1, 12, 16)))
        assert table(steps, *WINDOW, "rows_by_time") == [(0, 1, 14, 1), (1, 14, 18, 1)]
        assert steps_of(steps, device_work) == [0, 1, -1]

    def test_without_launches_the_executions_of_a_program_that_each_step_runs_are_its_in_order(self):
        spans = annotations(("train", 0, 10, 12), ("train", 1, 12, 14))
        device_work = work(
            ("cpu:0", "compute", 1, 3),  # before the first step
            ("cpu:0", "compute", 11, 20),
            ("cpu:0", "compute", 20, 30),
            ("cpu:0", "compute", 30, 40),
            ("cpu:0", "compute", 40, 50),
            run_id=[1, 2, 3, 4, 5],
            hlo_module=["jit_train"] * 5,
        )
        steps = boundaries(device_work, spans)
        assert steps_of(steps, device_work) == [-1, 0, 0, 1, 1]
        assert table(steps, *WINDOW, "rows_by_time") == [(0, 10, 30, 0), (1, 30, 50, 0)]

    def test_executions_that_would_run_before_their_step_are_not_told_by_order(self):
        spans = annotations(("train", 0, 10, 12), ("train", 1, 25, 30))
        device_work = work(
            ("cpu:0", "compute", 11, 20),
            ("cpu:0", "compute", 20, 22),
            run_id=[2, 3],
            hlo_module=["jit_train"] * 2,
        )
        steps = boundaries(device_work, spans)
        assert steps_of(steps, device_work) == [0, 1]
        assert table(steps, "rows_by_time") == [(1,), (1,)]

    def test_a_program_of_one_kind_of_step_is_told_by_the_order_of_those(self):
        spans = annotations(("train", 0, 10, 12), ("eval", 0, 12, 14), ("train", 1, 14, 16))
        device_work = work(
            *(("cpu:0", "compute", start, start + 9) for start in (11, 20, 30)),
            run_id=[1, 2, 3],
            hlo_module=["jit_train", "jit_eval", "jit_train"],
        )
        steps = boundaries(device_work, spans)
        assert table(steps, "name", *WINDOW) == [("train", 0, 10, 20), ("eval", 0, 20, 29), ("train", 1, 29, 39)]

    def test_one_step_on_several_threads_and_hosts_is_one_step(self):
        spans = join(
            [
                annotations(("ProfilerStep#3", 3, 10, 20), ("ProfilerStep#4", 4, 20, 30), host="a"),
                annotations(("ProfilerStep#3", 3, 11, 19), host="a", thread="autograd"),
                annotations(("ProfilerStep#3", 3, 12, 22), ("ProfilerStep#4", 4, 22, 33), host="b"),
            ]
        )
        device_work = both(
            work(("a/gpu:0", "compute", 12, 18, 11), ("a/gpu:0", "compute", 24, 28, 21), host="a"),
            work(("b/gpu:0", "compute", 13, 18, 12), ("b/gpu:0", "compute", 24, 28, 21), host="b"),
        )
        steps = boundaries(device_work, spans)
        assert table(steps, *WINDOW, "hosts", "rows") == [(3, 10, 28, 2, 3), (4, 28, 33, 2, 1)]
        # At 21 host a is in step 4, and host b still in step 3, so that step 3 is done at 28.
        assert steps_of(steps, device_work) == [0, 1, 0, 0]

    @pytest.mark.parametrize("place", ["process", "thread"])
    def test_ranks_of_one_host_launch_for_the_steps_that_they_mark_themselves(self, place):
        # The second rank is ahead by more than a step: its step 1 begins before the first rank has ended step 0.
        ranks = [{place: name} for name in ("a", "b")]
        spans = join(
            [
                annotations(("train", 0, 0, 10), ("train", 1, 10, 20), ("train", 2, 20, 30), **ranks[0]),
                annotations(("train", 0, 0, 3), ("train", 1, 3, 6), ("train", 2, 6, 9), **ranks[1]),
            ]
        )
        device_work = both(
            work(*(("gpu:0", "compute", at, at + 8, at) for at in (1, 11, 21)), **ranks[0]),
            work(*(("gpu:1", "compute", 8 * at, 8 * at + 8, at) for at in (1, 4, 7)), first_id=10, **ranks[1]),
        )
        steps = boundaries(device_work, spans)
        assert steps_of(steps, device_work) == [0, 1, 2, 0, 1, 2]
        assert table(steps, *WINDOW, "hosts") == [
            (step, start, end, 2 if place == "process" else 1)
            for step, start, end in [(0, 0, 16), (1, 16, 40), (2, 40, 64)]
        ]
        assert steps.nested == 0

    def test_each_thread_ends_the_steps_that_it_marked_at_times_of_its_own(self):
        marks = [annotations(("train", 0, 0, 9), ("train", 1, 10, 18), process="p", thread="a")]
        marks += [annotations(("train", 1, 10, 20), process="p", thread="b")]
        steps = boundaries(work(("gpu:0", "compute", 2, 8, 1), process="p", thread="a"), join(marks))
        assert {name: [column.tolist() for column in columns] for name, columns in steps.ends.items()} == {
            ("h", "p", "a"): [[0, 1], [9, 18]],
            ("h", "p", "b"): [[1], [20]],
        }

    def test_a_thread_without_annotations_launches_for_the_steps_of_the_one_that_serves_its_device(self):
        spans = join(
            [
                annotations(("train", 0, 0, 10), ("train", 1, 10, 20), thread="a"),
                annotations(("train", 0, 0, 30), ("train", 1, 30, 40), thread="b"),
            ]
        )
        device_work = both(
            work(("gpu:0", "compute", 1, 2, 1), ("gpu:0", "compute", 11, 12, 11), thread="a"),
            work(("gpu:0", "compute", 13, 14, 13), first_id=10, thread="backward of a"),
            work(("gpu:1", "compute", 2, 3, 2), ("gpu:1", "compute", 31, 32, 31), first_id=20, thread="b"),
            work(("gpu:1", "compute", 13, 14, 13), first_id=30, thread="backward of b"),
        )
        steps = boundaries(device_work, spans)
        assert steps_of(steps, device_work) == [0, 1, 1, 0, 1, 0]

    def test_a_thread_beside_two_that_mark_the_steps_of_its_device_has_those_of_its_process(self):
        """By the second one's marks, all but the first row would be of the second step."""
        spans = join(
            [
                annotations(("train", 0, 0, 10), ("train", 1, 10, 20), thread="a"),
                annotations(("train", 0, 0, 4), ("train", 1, 4, 20), thread="b"),
            ]
        )
        device_work = both(
            work(("gpu:0", "compute", 1, 2, 1), thread="a"),
            work(("gpu:0", "compute", 3, 4, 3), first_id=10, thread="b"),
            work(*(("gpu:0", "compute", at, at + 1, at) for at in (5, 8, 12)), first_id=20, thread="backward"),
        )
        assert steps_of(boundaries(device_work, spans), device_work) == [0, 0, 0, 0, 1]

    def test_a_thread_without_annotations_has_the_steps_of_its_process_and_not_of_another_of_its_host(self):
        spans = join(
            [
                annotations(*(("train", at, 10 * at, 10 * at + 10) for at in range(3)), process="1"),
                annotations(*(("train", at, 4 * at, 4 * at + 4) for at in range(3)), process="2"),
            ]
        )
        device_work = both(
            *(
                work(("gpu:0", "compute", at, at + 1, at), process=process, thread="backward", first_id=number)
                for number, (process, at) in enumerate([("1", 2), ("1", 9), ("1", 12), ("2", 3), ("2", 9)])
            )
        )
        assert steps_of(boundaries(device_work, spans), device_work) == [0, 0, 1, 0, 2]

    def test_a_thread_that_marks_some_of_its_processs_steps_has_its_processs_times_of_the_others(self):
        spans = join(
            [
                annotations(("train", 0, 0, 10), ("train", 1, 10, 20), ("train", 2, 20, 30)),
                annotations(("train", 1, 12, 17), thread="autograd"),
            ]
        )
        starts = (8, 11, 16, 18, 28)
        device_work = work(*(("gpu:0", "compute", at, at + 1, at) for at in starts), thread="autograd")
        assert steps_of(boundaries(device_work, spans), device_work) == [0, 1, 1, 2, 2]

    def test_a_number_that_two_threads_mark_unequally_often_is_one_step_where_the_spans_overlap(self):
        spans = join(
            [
                annotations(("train", 0, 0, 10), ("train", 1, 10, 20), ("train", 0, 20, 30), ("train", 1, 30, 40)),
                annotations(("train", 0, 21, 29), thread="autograd"),
            ]
        )
        steps = boundaries(work(("gpu:0", "compute", 2, 8, 1)), spans)
        assert table(steps, *WINDOW) == [(0, 0, 10), (1, 10, 20), (0, 20, 30), (1, 30, 40)]

    def test_a_step_inside_one_of_another_name_is_none_whatever_its_thread(self):
        spans = join(
            [
                annotations(("train", 0, 0, 10), ("train", 1, 10, 20)),
                annotations(("load", 5, 1, 5), ("load", 6, 11, 15), thread="loader"),
            ]
        )
        steps = boundaries(work(("gpu:0", "compute", 2, 8, 1)), spans)
        assert table(steps, "name", *WINDOW) == [("train", 0, 0, 10), ("train", 1, 10, 20)]
        assert steps.nested == 2

    def test_steps_of_hosts_on_clocks_that_are_not_aligned_stand_apart(self):
        spans = join([annotations(("train", 0, 0, 10), host="a"), annotations(("train", 0, 1000, 1030), host="b")])
        device_work = both(
            work(("a/gpu:0", "compute", 2, 8, 1), host="a", clock="a"),
            work(("b/gpu:0", "compute", 1002, 1020, 1001), host="b", clock="b"),
        )
        steps = boundaries(device_work, spans)
        assert table(steps, "clock", *WINDOW) == [("a", 0, 0, 10), ("b", 0, 1000, 1030)]
        assert steps_of(steps, device_work) == [0, 1]

    @pytest.mark.parametrize(("clocks", "expected"), [(("a", "a"), [(0, 0, 10), (1, 10, 20)]), (("a", "b"), [])])
    def test_a_host_without_rows_marks_the_steps_of_the_only_clock_and_none_of_several(self, clocks, expected):
        device_work = both(
            *(
                work((f"{host}/gpu:0", "compute", 2, 8), (f"{host}/gpu:0", "compute", 12, 18), host=host, clock=clock)
                for host, clock in zip("ab", clocks, strict=True)
            )
        )
        spans = annotations(("train", 0, 0, 10), ("train", 1, 10, 20), host="controller")
        assert table(boundaries(device_work, spans), *WINDOW) == expected

    def test_a_host_without_annotations_follows_those_of_its_clock(self):
        spans = annotations(("train", 0, 0, 10), ("train", 1, 10, 20), host="a")
        device_work = both(
            work(("a/gpu:0", "compute", 2, 8, 1), host="a"), work(("b/gpu:0", "compute", 12, 18, 11), host="b")
        )
        assert steps_of(boundaries(device_work, spans), device_work) == [0, 1]

    def test_of_steps_inside_each_other_the_outermost_counts(self):
        spans = annotations(
            ("train", 0, 0, 10), ("micro", 0, 1, 5), ("micro", 1, 5, 10), ("train", 1, 10, 20), ("micro", 2, 11, 15)
        )
        steps = boundaries(work(("gpu:0", "compute", 2, 8, 1)), spans)
        assert table(steps, "name", *WINDOW) == [("train", 0, 0, 10), ("train", 1, 10, 20)]
        assert steps.nested == 3

    def test_of_steps_inside_each_other_the_outermost_counts_on_each_host(self):
        marks = [("train", 0, 0, 10), ("micro", 0, 1, 5), ("train", 1, 10, 20), ("micro", 1, 11, 15)]
        spans = join([annotations(*marks, host=host) for host in "ab"])
        device_work = both(*(work((f"{host}/gpu:0", "compute", 2, 8, 1), host=host, clock=host) for host in "ab"))
        steps = boundaries(device_work, spans)
        assert table(steps, "clock", "name", "step") == [(host, "train", step) for host in "ab" for step in (0, 1)]
        assert steps.nested == 4

    def test_a_single_step_that_holds_others_is_a_wrapper_and_none(self):
        spans = annotations(("epoch", 0, 0, 30), ("train", 0, 1, 10), ("train", 1, 10, 20))
        steps = boundaries(work(("gpu:0", "compute", 2, 8, 1)), spans)
        assert table(steps, "name", *WINDOW) == [("train", 0, 1, 10), ("train", 1, 10, 20)]
        assert steps.nested == 1

    def test_a_single_step_that_holds_one_other_is_a_step(self):
        spans = annotations(("train", 0, 0, 10), ("loss", 0, 1, 5))
        steps = boundaries(work(("gpu:0", "compute", 2, 8, 1)), spans)
        assert table(steps, "name", *WINDOW) == [("train", 0, 0, 10)]

    def test_touching_annotations_with_one_number_are_two_steps(self):
        spans = annotations(("train", 0, 0, 10), ("train", 0, 10, 20))
        steps = boundaries(work(("gpu:0", "compute", 2, 8, 1)), spans)
        assert table(steps, *WINDOW) == [(0, 0, 10), (0, 10, 20)]

    def test_a_copy_launched_before_the_first_step_does_not_delay_it(self):
        device_work = work(("gpu:0", "memcpy", 2, 14, 1), ("gpu:0", "compute", 12, 18, 11))
        assert table(boundaries(device_work, annotations(("train", 0, 10, 16))), *WINDOW) == [(0, 10, 18)]

    def test_a_number_that_comes_again_is_another_step(self):
        spans = annotations(("train", 0, 0, 10), ("train", 1, 10, 20), ("train", 0, 20, 30))
        steps = boundaries(work(("gpu:0", "compute", 2, 8, 1)), spans)
        assert table(steps, *WINDOW) == [(0, 0, 10), (1, 10, 20), (0, 20, 30)]

    def test_gaps_between_the_numbers_stay(self):
        spans = annotations(("train", 10, 0, 10), ("train", 20, 10, 20))
        assert table(boundaries(work(("gpu:0", "compute", 2, 8, 1)), spans), "step") == [(10,), (20,)]

    def test_copies_on_an_unknown_device_count_in_no_step(self):
        device_work = work(("cpu:0", "compute", 2, 8, 1), ("cpu:?", "memcpy", 3, 30, 1))
        steps = boundaries(device_work, annotations(("train", 0, 0, 10)))
        assert table(steps, *WINDOW, "rows", "device_end_ps") == [(0, 0, 10, 1, 8)]

    def test_a_step_without_device_work_is_a_step(self):
        device_work = work(("gpu:0", "compute", 2, 8, 1))
        steps = boundaries(device_work, annotations(("train", 0, 0, 10), ("train", 1, 10, 20)))
        assert table(steps, *WINDOW, "rows", "device_start_ps") == [(0, 0, 10, 1, 2), (1, 10, 20, 0, None)]

    def test_work_that_overtakes_leaves_no_negative_step(self):
        device_work = work(
            ("gpu:0", "compute", 2, 30, 1), ("gpu:1", "compute", 3, 8, 3), ("gpu:0", "compute", 30, 40, 5)
        )
        steps = boundaries(device_work, annotations(("train", 0, 0, 2), ("train", 1, 2, 4), ("train", 2, 4, 6)))
        assert table(steps, "start_ps", "end_ps", "wall_ps") == [(0, 30, 30), (30, 30, 0), (30, 40, 10)]

    def test_the_time_of_compilers_in_a_steps_host_time_is_told(self):
        names = ("backend_compile_and_load", "PjRtCpuClient::Compile", "XlaCompile:#module=jit_f#", "compile_step")
        spans = join(
            [
                annotations(("train", 0, 0, 10), ("train", 1, 10, 20), ("train", 2, 20, 30)),
                annotations((names[0], None, 2, 8), (names[1], None, 3, 9)),
                annotations((names[2], None, 8, 14), (names[3], None, 21, 29), thread="other"),
                # Between two annotations: of the step that comes.
                annotations((names[0], None, 30, 33), ("train", 3, 34, 40)),
            ]
        )
        steps = boundaries(work(("gpu:0", "compute", 2, 8, 1)), spans)
        assert table(steps, "compile_ps") == [(8,), (4,), (0,), (3,)]


class TestGroups:
    def test_rows_of_one_group_are_one_step(self):
        device_work = work(
            ("gpu:0", "compute", 5, 10),
            ("gpu:1", "compute", 6, 12),
            ("gpu:0", "memcpy", 12, 13),
            ("gpu:0", "compute", 14, 20),
            ("gpu:0", "memcpy", 13, 15),
            group_id=[3, 3, None, 7, 3],
        )
        steps = boundaries(device_work)
        assert table(steps, "marked_by", *WINDOW, "rows", "rows_by_time", "host_start_ps") == [
            ("group_id", 3, 5, 12, 3, 0, None),
            ("group_id", 7, 12, 20, 2, 1, None),
        ]
        assert steps_of(steps, device_work) == [0, 0, 1, 1, 0]

    def test_annotations_are_trusted_more(self):
        device_work = work(("gpu:0", "compute", 5, 10, 1), group_id=[3])
        steps = boundaries(device_work, annotations(("train", 0, 0, 10)))
        assert table(steps, "marked_by", "step") == [("annotation", 0)]


class TestPrograms:
    def test_each_execution_of_the_program_that_takes_most_time_is_a_step(self):
        device_work = work(
            ("tpu:0", "compute", 0, 9),
            ("tpu:0", "compute", 9, 10),
            ("tpu:0", "memcpy", 11, 12),
            ("tpu:0", "compute", 12, 20),
            ("tpu:0", "compute", 20, 21),
            ("tpu:0", "compute", 22, 30),
            ("tpu:0", "compute", 30, 31),
            run_id=[4, 5, None, 6, 7, 8, 9],
            hlo_module=["jit_train", "jit_log", None, "jit_train", "jit_log", "jit_train", "jit_log"],
        )
        steps = boundaries(device_work)
        assert table(steps, "marked_by", "name", *WINDOW, "rows", "rows_by_time") == [
            ("run_id", "jit_train", 0, 0, 9, 1, 0),
            ("run_id", "jit_train", 1, 9, 20, 3, 2),
            ("run_id", "jit_train", 2, 20, 30, 2, 1),
        ]
        assert steps_of(steps, device_work) == [0, 1, 1, 1, 2, 2, -1]

    def executions(self, ids_0, ids_1):
        many = [("tpu:0", run) for run in ids_0] + [("tpu:1", run) for run in ids_1]
        starts = [*range(0, 10 * len(ids_0), 10), *range(3, 10 * len(ids_1), 10)]
        return work(
            *((device, "compute", start, start + 9) for (device, _), start in zip(many, starts, strict=True)),
            run_id=[run for _, run in many],
            hlo_module=["jit_f"] * len(many),
        )

    def test_executions_with_one_run_id_on_all_devices_are_one_step(self):
        steps = boundaries(self.executions([1, 2, 3], [1, 2, 3]))
        assert table(steps, *WINDOW, "rows") == [(0, 0, 12, 2), (1, 12, 22, 2), (2, 22, 32, 2)]

    def test_executions_with_one_run_id_are_one_step_in_whatever_order_a_device_ran_them(self):
        steps = boundaries(self.executions([1, 2, 3], [2, 1, 3]))
        assert table(steps, *WINDOW, "rows") == [(0, 0, 22, 2), (1, 22, 22, 2), (2, 22, 32, 2)]

    def test_executions_on_clocks_that_are_not_aligned_are_steps_of_their_own(self):
        device_work = both(
            *(
                work(
                    *((f"{host}/tpu:0", "compute", at + 10 * k, at + 10 * k + 9) for k in range(3)),
                    host=host,
                    clock=host,
                    run_id=[1, 2, 3],
                    hlo_module=["jit_f"] * 3,
                )
                for host, at in (("a", 0), ("b", 1000))
            )
        )
        steps = boundaries(device_work)
        ends = {"a": (9, 19, 29), "b": (1009, 1019, 1029)}
        assert table(steps, "clock", "step", "end_ps") == [(c, k, ends[c][k]) for c in "ab" for k in range(3)]
        assert steps_of(steps, device_work) == [*range(6)]

    def test_what_has_the_number_of_a_run_but_no_program_is_no_execution(self):
        some = [("tpu:0", "compute", 10 * k, 10 * k + 2) for k in range(3)]
        others = [("tpu:0", "compute", 10 * k + 2, 10 * k + 9) for k in range(3)]
        device_work = work(*some, *others, run_id=[1, 2, 3] * 2, hlo_module=["jit_f"] * 3 + [None] * 3)
        assert table(boundaries(device_work), "name", *WINDOW) == [
            ("jit_f", 0, 0, 2),
            ("jit_f", 1, 2, 12),
            ("jit_f", 2, 12, 22),
        ]

    def test_with_ids_of_their_own_the_devices_k_th_executions_are_one_step(self):
        steps = boundaries(self.executions([1, 2, 3], [17, 15, 16]))
        assert table(steps, *WINDOW, "rows") == [(0, 0, 12, 2), (1, 12, 22, 2), (2, 22, 32, 2)]

    @pytest.mark.parametrize(("behind", "count"), [(0, 4), (20, 4), (21, 0), (500, 0)])
    def test_with_ids_of_their_own_devices_that_run_one_after_the_other_have_no_steps_together(self, behind, count):
        runs = [("cpu:0", "compute", at, at + 10) for at in (0, 10, 20, 30)]
        runs += [("cpu:1", "compute", behind + at, behind + at + 10) for at in (0, 10, 20, 30)]
        device_work = work(*runs, run_id=[*range(8)], hlo_module=["jit_f"] * 8)
        assert len(boundaries(device_work).table) == count
        # With ids that both have, they are executions of one program.
        same = work(*runs, run_id=[*range(4)] * 2, hlo_module=["jit_f"] * 8)
        assert len(boundaries(same).table) == 4

    @pytest.mark.parametrize(
        ("ids_0", "ids_1"),
        [([1, 2, 3, 4], [17, 15, 16]), ([1, 2], [1, 2])],
        ids=["differently often", "only twice"],
    )
    def test_executions_that_cannot_be_matched_or_do_not_recur_are_no_steps(self, ids_0, ids_1):
        steps = boundaries(self.executions(ids_0, ids_1))
        assert steps.table.empty
        assert "no program ran three times or more" in steps.lacking

    @pytest.mark.parametrize("thread", ["python", "compiler"])
    def test_what_a_compiler_launched_to_measure_it_is_no_step(self, thread):
        """Twelve runs of a candidate that take most of the time, and four of the program; on a thread of its own, a
        compiler launched none of them."""
        runs = [("gpu:0", "compute", at, at + 9, at) for at in range(0, 120, 10)]
        runs += [("gpu:0", "compute", at, at + 5, at) for at in range(200, 240, 10)]
        device_work = work(*runs, run_id=[*range(16)], hlo_module=["candidate"] * 12 + ["jit_f"] * 4)
        steps = boundaries(device_work, annotations(("XlaCompile:#module=jit_f#", None, 0, 150), thread=thread))
        expected = ("jit_f", 4) if thread == "python" else ("candidate", 12)
        assert (steps.table["name"].unique().tolist(), len(steps.table)) == ([expected[0]], expected[1])

    def test_the_first_execution_compiles_from_the_call_of_its_program_on(self):
        runs = work(
            *(("gpu:0", "compute", at, at + 9) for at in (20, 30, 40)), run_id=[1, 2, 3], hlo_module=["jit_f"] * 3
        )
        spans = annotations(
            ("PjitFunction(g)", None, 0, 3),
            ("backend_compile", None, 1, 2),
            ("PjitFunction(f)", None, 4, 19),
            ("backend_compile", None, 5, 12),
            ("PjitFunction(f)", None, 25, 29),
            ("backend_compile", None, 26, 28),
        )
        assert table(boundaries(runs, spans), "compile_ps") == [(7 + 2,), (0,), (0,)]

    def test_executions_around_less_than_half_of_the_work_are_no_steps(self):
        device_work = work(
            *(("tpu:0", "compute", start, start + 9) for start in (0, 10, 20)),
            ("tpu:0", "compute", 40, 70),
            run_id=[1, 2, 3, 4],
            hlo_module=["jit_f", "jit_f", "jit_f", "jit_eval"],
        )
        assert "no program ran three times or more" in boundaries(device_work).lacking


def test_without_marks_groups_or_executions_there_are_no_steps_and_it_is_said_why():
    steps = boundaries(work(("gpu:0", "compute", 2, 8, 1)), annotations(("copies", None, 0, 10)))
    assert steps.table.empty
    assert steps.step_of.tolist() == [-1]
    assert steps.lacking.startswith("No host span has a step number")


@pytest.mark.parametrize(("most", "is_told"), [(7, False), (8, True)])
def test_steps_that_are_empty_on_nearly_all_devices_are_not_told(monkeypatch, most, is_told):
    monkeypatch.setattr(step_boundaries, "_MOST_CELLS", most)
    monkeypatch.setattr(step_boundaries, "_MOST_CELLS_A_ROW", 2)
    device_work = work(*((f"gpu:{at}", "compute", 10 * at + 2, 10 * at + 8, 10 * at + 1) for at in range(4)))
    steps = boundaries(device_work, annotations(*(("train", at, 10 * at, 10 * at + 9) for at in range(4))))
    assert (len(steps.table) == 4) is is_told
    assert is_told or steps.lacking.startswith("The trace marks 4 steps, and 4 devices worked in it, in only 4 rows")


def test_without_devices_there_are_no_steps():
    steps = boundaries(work(("cpu:?", "memcpy", 2, 8)), annotations(("train", 0, 0, 10)))
    assert steps.lacking == "The trace holds no work of a device, so it has no steps to measure."


@pytest.mark.parametrize(
    ("spans", "counted"),
    [
        ([("lower", 0, 400)], []),  # shorter than half a millisecond, and nothing is compiled after it
        ([("lower", 0, 500)], [0]),
        ([("lower", 9000, 9400)], []),
        ([("lower", 0, 400), ("compile", 500, 600)], [0, 1]),
        ([("compile", 0, 100), ("lower", 500, 900)], [0]),
        ([("lower", 0, 400), ("lower", 500, 900), ("compile", 1000, 1100)], [1, 2]),
        ([("lower", 0, 400), ("compile", 500, 600, "other")], [1]),
        ([("lower", 0, 400, "other"), ("compile", 500, 600)], [1]),
        ([("lower", 0, 400), ("step", 400, 450), ("compile", 500, 600)], [0, 2]),
    ],
)
def test_a_compiler_ran_in_a_short_lowering_if_it_compiles_next_on_the_thread(spans, counted):
    names = {"lower": "lower_sharding_computation", "compile": "backend_compile"}
    marks = [
        annotations((names.get(name, name), None, start * US, end * US), thread=(*thread, "python")[0])
        for name, start, end, *thread in spans
    ]
    assert compiler_spans(join(marks)).tolist() == counted


def test_a_compiler_ran_on_the_clock_of_its_host_or_of_one_without_rows_on_the_only_one():
    spans = join([annotations(("backend_compile", None, at, at + 2), host=host) for host, at in (("a", 1), ("c", 9))])
    of_a, of_b = (work((f"{host}/gpu:0", "compute", 0, 5), host=host, clock=host)[0] for host in "ab")
    times = [compiler_times(rows(events), spans) for events in (of_a, join([of_a, of_b]), of_b)]
    assert [{clock: its.tolist() for clock, its in each.items()} for each in times] == [
        {"a": [[1, 3], [9, 11]]},
        {"a": [[1, 3]]},
        {"b": [[1, 3], [9, 11]]},
    ]


@pytest.mark.parametrize(
    ("windows", "inside"),
    [
        ([(10, 20)], [1]),
        ([(9, 30)], [1, 2]),
        ([(0, 9), (10, 31)], [1, 2]),
        ([(0, 19)], [0]),
        ([(0, 30)], [0, 1, 2]),
        ([(1, 11), (12, 29)], []),
        ([], []),
    ],
)
def test_inside_windows_are_the_steps_that_lie_whole_in_one_of_them(windows, inside):
    device_work = work(*(("gpu:0", "compute", at + 2, at + 8, at) for at in (0, 10, 20)))
    steps = boundaries(device_work, annotations(*(("train", at, 10 * at, 10 * at + 10) for at in range(3))))
    found = steps_inside(steps, steps.step_of, {"": np.array(windows, np.int64).reshape(-1, 2)})
    assert found.table["step"].tolist() == inside
    assert found.step_of.tolist() == [inside.index(step) if step in inside else -1 for step in range(3)]
    assert bool(found.lacking) is not bool(inside)
    (marked,) = found.ends.values()
    assert [column.tolist() for column in marked] == [[*range(len(inside))], [10 * step + 10 for step in inside]]
    assert steps_inside(steps, steps.step_of, {"other": np.array([[0, 99]])}).table.empty


@st.composite
def launched_steps(draw):
    """Steps (start, end) of a thread, and rows (device, kind, start, end, launched at): one or more of each step."""
    small = st.integers(0, 6)
    steps, at = [], 10
    for _ in range(draw(st.integers(1, 4))):
        start = at + draw(st.sampled_from([0, 0, 1, 3]))
        at = start + draw(st.integers(1, 8))
        steps.append((start, at))
    launched = [start for start, _ in steps] + draw(st.lists(st.integers(4, at + 3), max_size=6))
    rows = []
    for number, moment in enumerate(launched):
        kind = st.sampled_from(["compute", "collective", "memcpy", "memset"])
        start = moment + draw(small)
        device = draw(st.sampled_from(["gpu:0", "gpu:1"]))
        rows.append((device, "compute" if number < len(steps) else draw(kind), start, start + draw(small), moment))
    return steps, rows


@settings(max_examples=30)
@given(launched_steps())
def test_launched_work_is_of_the_step_that_launched_it_which_ends_when_it_is_done(drawn):
    steps, rows = drawn
    first = steps[0][0]
    # The time between two annotations is of the later one's step; what is launched behind the last is of none.
    place = [-1 if row[4] < first else sum(end <= row[4] for _, end in steps) for row in rows]
    device_work = work(*rows)
    found = boundaries(device_work, annotations(*(("train", at, *step) for at, step in enumerate(steps))))
    assert steps_of(found, device_work) == [-1 if at == len(steps) else at for at in place]
    edge = max([first, *(row[3] for row in rows if row[4] < first and row[1] in ("compute", "collective"))])
    expected = []
    for at, (_, host_end) in enumerate(steps):
        own = [row for row, of_step in zip(rows, place, strict=True) if of_step == at]
        end = max(host_end, *(row[3] for row in own if row[1] in ("compute", "collective")), edge if at else 0)
        edge = min(edge, end)
        expected.append((edge, end, min(row[2] for row in own), max(row[3] for row in own), len(own)))
        edge = end
    assert table(found, *WINDOW[1:], "device_start_ps", "device_end_ps", "rows") == expected


@pytest.mark.parametrize(("over", "is_rounded"), [(1, True), (1_000_000, True), (1_000_001, False)])
def test_what_is_launched_as_a_step_begins_is_of_that_step_where_the_one_before_is_rounded_up(over, is_rounded):
    """Times in whole microseconds let an annotation end where the next has begun; threads overlap by more."""
    ms = 10**9
    work_of_steps = work(
        ("gpu:0", "compute", ms // 2, ms, 1),
        ("gpu:0", "compute", 2 * ms, 3 * ms, ms),
        ("gpu:0", "compute", 3 * ms, 4 * ms, 2 * ms - 9),
    )
    marks = annotations(("train", 0, 0, ms + over), ("train", 1, ms, 2 * ms))
    assert steps_of(boundaries(work_of_steps, marks), work_of_steps) == [0, 1 if is_rounded else 0, 1]


def test_short_steps_that_overlap_are_not_taken_for_rounded_ones():
    """A tenth of their length is no rounding."""
    work_of_steps = work(("gpu:0", "compute", 50, 60, 1), ("gpu:0", "compute", 120, 130, 100))
    for end, step in ((110, 1), (111, 0)):
        marks = annotations(("train", 0, 0, end), ("train", 1, 100, 200))
        assert steps_of(boundaries(work_of_steps, marks), work_of_steps) == [0, step]


def test_an_empty_annotation_of_one_rank_drops_no_step():
    """It begins where the one before ends, and is not inside it."""
    work_of_steps = work(("gpu:0", "compute", 10, 20, 5), ("gpu:0", "compute", 110, 120, 105))
    marks = join(
        [
            annotations(("train", 0, 0, 100), ("train", 1, 100, 200)),
            annotations(("train", 0, 0, 100), ("train", 1, 100, 100), thread="rank 1"),
        ]
    )
    assert table(boundaries(work_of_steps, marks), "step", "start_ps", "end_ps") == [(0, 0, 100), (1, 100, 200)]


def program(process, device, count, length, start=0, first=0, **more):
    """A process that marks `count` steps, each as long as its work on a device, which it waits for."""
    begins = [start + length * k for k in range(count)]
    items = [(device, "compute", at + 1, at + length, at) for at in begins]
    marks = [("step", first + k, at, at + length) for k, at in enumerate(begins)]
    id_of = {"first_id": 1000 * int(process)}
    return work(*items, process=process, **id_of, **more), annotations(*marks, process=process)


def together(*of_programs):
    """Several of them in one trace, on one clock."""
    return both(*(work_of for work_of, _ in of_programs)), join([marks for _, marks in of_programs])


class TestProgramsBesideEachOther:
    def test_programs_that_share_nothing_have_windows_of_their_own(self):
        steps = boundaries(*together(program("1", "gpu:0", 12, 10), program("2", "gpu:1", 6, 25)))
        walls = steps.table.groupby("name")["wall_ps"].agg(["size", "min", "max"])
        assert walls.to_dict("index") == {
            "step (process 1)": {"size": 12, "min": 10, "max": 10},
            "step (process 2)": {"size": 6, "min": 25, "max": 25},
        }
        assert [sorted(each.devices) for each in steps.programs] == [["gpu:0"], ["gpu:1"]]
        assert steps.table["rows"].tolist() == [1] * 18

    @pytest.mark.parametrize("cut", [0, 1, 2, 5])
    def test_ranks_of_which_the_profile_cut_steps_are_of_one_job_while_their_steps_are_at_one_time(self, cut):
        of_programs = program("1", "gpu:0", 12, 10), program("2", "gpu:1", 12 - cut, 10, 1)
        assert table(boundaries(*together(*of_programs)), "name") == [("step",)] * 12

    def test_ranks_that_run_apart_are_of_one_job_where_they_mark_as_many_steps(self):
        steps = boundaries(*together(program("1", "gpu:0", 12, 10), program("2", "gpu:1", 11, 25)))
        assert len(steps.table) == 12

    def test_processes_that_share_a_device_are_of_one_program(self):
        assert len(boundaries(*together(program("1", "gpu:0", 12, 10), program("2", "gpu:0", 6, 25))).table) == 12

    def test_processes_that_meet_in_collectives_of_known_members_are_of_one_job(self):
        def reduces(device, process, first_id):
            return work((device, "collective", 200, 210, 190), process=process, first_id=first_id, group_size=[2])

        one, two = program("1", "gpu:0", 12, 10), program("2", "gpu:1", 6, 25)
        frames, marks = together(one, two)
        frames = both(frames, reduces("gpu:0", "1", 7000), reduces("gpu:1", "2", 8000))
        assert len(boundaries(frames, marks).table) == 12

    def test_a_process_that_goes_on_where_another_ended_is_of_one_run(self):
        steps = boundaries(*together(program("1", "gpu:0", 12, 10), program("2", "gpu:1", 6, 25, start=120, first=12)))
        assert table(steps, "name") == [("step",)] * 18
        assert steps.programs == ()

    def test_a_process_without_a_device_marks_the_steps_of_one_that_has_some(self):
        frames, marks = together(program("1", "gpu:0", 12, 10), program("2", "gpu:1", 6, 25))
        marks = join([marks, annotations(*(("step", k, 3 * k, 3 * k + 3) for k in range(3)), process="3")])
        steps = boundaries(frames, marks)
        assert steps.table["name"].value_counts().to_dict() == {
            "step (process 1 and 1 other)": 12,
            "step (process 2)": 6,
        }

    def test_a_part_of_a_trace_has_the_steps_of_each_program_that_lie_in_it(self):
        steps = boundaries(*together(program("1", "gpu:0", 12, 10), program("2", "gpu:1", 6, 25)))
        inside = steps_inside(steps, steps.step_of, {"": np.array([[0, 50]])})
        assert {name: len(its) for name, its in inside.table.groupby("name")} == {
            "step (process 1)": 5,
            "step (process 2)": 2,
        }
        assert [inside.table["name"].iloc[each.steps].nunique() for each in inside.programs] == [1, 1]
