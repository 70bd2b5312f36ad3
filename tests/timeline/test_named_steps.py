"""Which spans are steps by what they are called: those that say so, or the one name that counts."""

import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stepped import annotations, boundaries, join, steps_of, table, timeline, work
from tracekit.columns import frame
from tracekit.timeline.named_steps import step_spans
from tracekit.timeline.rows import rows
from tracekit.trace import EVENT_COLUMNS, LAUNCH_COLUMNS, SPAN_COLUMNS

NO_ROWS = rows(frame(EVENT_COLUMNS))
WORK = work(*(("gpu:0", "compute", at, at + 5, at) for at in range(0, 60, 10)))


def named(*marks: tuple, **where) -> pd.DataFrame:
    """Rows of (name, start, end) as spans without a step of their own."""
    return annotations(*((name, None, start, end) for name, start, end in marks), **where)


def numbers(spans: pd.DataFrame, frames=WORK) -> list[int | None]:
    """The step of each span."""
    return [None if pd.isna(step) else int(step) for step in timeline(frames, spans).spans["step"]]


@pytest.mark.parametrize(
    "text",
    [
        "step {}", "iteration{}", "iter: {}", "epoch 3 step {}", "trainer:step_{:04}", "Epoch 0 [{}/100]",
        "Training [{}/100]", "Iteration {} (rank 0)", "step {}: loss=0.5", "trainer.step({})", "step{}/all",
    ],
)  # fmt: skip
def test_spans_that_say_that_they_are_steps_are_some(text):
    spans = named(*((text.format(number), 10 * number, 10 * number + 9) for number in range(2, 5)))
    assert numbers(spans) == [2, 3, 4]
    steps = boundaries(WORK, spans)
    assert table(steps, "step", "marked_by") == [(2, "annotation"), (3, "annotation"), (4, "annotation")]
    assert steps_of(steps, WORK) == [-1, -1, 0, 1, 2, -1]


def test_a_compilers_span_that_lasts_no_time_holds_no_other():
    spans = named(("backend_compile", 0, 0), *((f"step {number}", 10 * number, 10 * number + 9) for number in (2, 3)))
    assert numbers(spans) == [None, 2, 3]


def test_the_steps_of_several_epochs_stand_in_order():
    spans = named(*((f"epoch {epoch} step {step}", 20 * epoch + 10 * step, 20 * epoch + 10 * step + 9)
                    for epoch in range(3) for step in range(2)))  # fmt: skip
    assert table(boundaries(WORK, spans), "name", "step") == [("step", 0), ("step", 1)] * 3


def test_a_profilers_own_steps_are_trusted_more_than_names():
    spans = join([annotations(("ProfilerStep#1", 1, 0, 30)), named(("step 7", 1, 9), ("step 8", 10, 19))])
    assert numbers(spans) == [1, None, None]


def test_a_phase_is_no_step_whatever_it_is_called():
    spans = named(("step 1", 0, 9), ("step 2", 10, 19)).assign(tracekit=pd.Categorical(["phase", "phase"]))
    assert numbers(spans) == [None, None]


def test_the_loop_of_a_program_makes_no_steps():
    """XLA's executor for GPUs marks the turns of a `while` so, inside of the call that runs the program."""
    marks = (*((f"[iter={at}]", 10 * at, 10 * at + 9) for at in range(6)),)
    run = (
        ("[0] GpuExecutable::ExecuteThunks", 0, 60),
        ("CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice", 0, 60),
    )
    assert numbers(named(*run, *marks)) == [None] * 8
    assert numbers(join([named(*run, thread="other"), named(*marks)])) == [None, None, 0, 1, 2, 3, 4, 5]


def test_spans_before_between_and_after_what_executes_programs_lie_in_none_of_it():
    requests = [(f"request {place}", 20 * place, 20 * place + 14) for place in range(3)]
    for runs in ([55], [15, 55], [15, 35, 55], [15, 35]):
        executed = [("CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice", at, at + 4) for at in runs]
        assert numbers(named(*requests, *executed)) == [0, 1, 2] + [None] * len(runs)


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["request 5", "request 6", "request 7"], [5, 6, 7]),
        (["a1 of 3", "a2 of 3", "a3 of 3"], [1, 2, 3]),
        (["request 5", "request 6"], [None] * 2),  # twice is no habit
        (["request 5", "request 7", "request 8"], [None] * 3),  # counts not by one
        (["request 5", "request 5", "request 6"], [None] * 3),
        (["batch of 64", "batch of 128", "batch of 192"], [64, 128, 192]),
        (["request 5 of 80 tokens", "request 6 of 12 tokens", "request 7 of 31 tokens"], [5, 6, 7]),
        (["e0s1", "e0s2", "e1s0", "e1s1"], [1, 2, 0, 1]),  # begins again in each epoch
        (["item 1", "item 2", "item 0", "item 1"], [None] * 4),  # and here for no reason
        (["pair 1 1", "pair 2 2", "pair 3 3"], [None] * 3),  # two numbers grow
        (["layer 1", "layer 2", "layer 3"], [None] * 3),  # parts of a model
        (["forward", "forward", "forward"], [None] * 3),
        (["1 of 9 in 9 by 9", "2 of 9 in 9 by 9", "3 of 9 in 9 by 9"], [1, 2, 3]),
        (["1 of 9 in 9 by 9, 9", "2 of 9 in 9 by 9, 9", "3 of 9 in 9 by 9, 9"], [None] * 3),  # too many numbers
    ],
)
def test_a_name_counts_if_one_number_of_it_grows_by_the_same_three_times(texts, told):
    spans = named(*((text, 20 * place, 20 * place + 18) for place, text in enumerate(texts)))
    assert numbers(spans) == told


def test_spans_that_overlap_on_their_thread_count_nothing():
    assert numbers(named(("request 1", 0, 25), ("request 2", 20, 45), ("request 3", 40, 60))) == [None] * 3


def test_of_names_that_count_the_outermost_does_but_no_epoch():
    requests = [(f"request {place}", 20 * place, 20 * place + 18) for place in range(3)]
    copies = [(f"copy of {place}", 20 * place + 1, 20 * place + 6) for place in range(3)]
    epochs = [(f"epoch {place}", 20 * place - 1, 20 * place + 19) for place in range(3)]
    assert numbers(named(*requests, *copies, *epochs)) == [0, 1, 2] + [None] * 6
    assert numbers(named(*epochs)) == [0, 1, 2]


@pytest.mark.parametrize("outer", ["Epoch {}", "Epoch [{}/10]", "fold_{}"])
def test_a_name_may_count_anew_in_each_epoch(outer):
    samples = [(f"sample {number % 2}", 10 * number, 10 * number + 9) for number in range(6)]
    epochs = [(outer.format(number), 20 * number, 20 * number + 19) for number in range(3)]
    assert numbers(named(*samples, *epochs)) == [0, 1] * 3 + [None] * 3
    assert numbers(named(*samples)) == [None] * 6


def test_a_name_counts_only_if_most_work_is_launched_in_it():
    short = [(f"save {place}", 20 * place + 12, 20 * place + 16) for place in range(3)]
    assert numbers(named(*short)) == [None] * 3
    assert numbers(named(*((name, start - 3, end) for name, start, end in short))) == [0, 1, 2]


@pytest.mark.parametrize(("last", "told"), [((40, 45), [0, 1, 2]), ((40, 50), [0, 1, 2]), ((41, 49), [None] * 3)])
def test_a_name_counts_if_half_of_what_is_launched_from_one_to_the_next_is_launched_in_it(last, told):
    spans = [(f"request {place}", *times) for place, times in enumerate(((0, 5), (20, 25), last))]
    assert numbers(named(*spans)) == told


def test_the_time_in_which_a_name_counts_nothing_makes_it_none_that_counts_most():
    """A name that counts on one thread and not on another takes the time of the one alone."""
    outer = [(f"request {place}", 20 * place, 20 * place + 18) for place in range(3)]
    inner = [(f"copy of {place}", 20 * place, 20 * place + 17) for place in range(3)]
    aside = named(*((f"copy of {place % 2}", 20 * place, 20 * place + 18) for place in range(3)), thread="other")
    assert numbers(join([named(*outer, *inner), aside])) == [0, 1, 2] + [None] * 6


@pytest.mark.parametrize(("outer", "inner"), [("a", "z"), ("z", "a")])
def test_what_counts_nothing_stands_in_the_way_of_no_name_that_counts(outer, inner):
    requests = [(f"{outer} {place}", 20 * place, 20 * place + 18) for place in range(3)]
    copies = [(f"{inner} {place}", 20 * place + 1, 20 * place + 6) for place in range(3)]
    others = [(name, 20 * place + 2, 20 * place + 12) for place, name in enumerate(["load", "load", "m 1 2 3 4 5"])]
    assert numbers(named(*requests, *copies, *others)) == [0, 1, 2] + [None] * 6


def test_a_name_that_counts_beside_the_work_is_of_no_step():
    assert (
        numbers(named(*((f"request {place}", 100 + 20 * place, 110 + 20 * place) for place in range(3)))) == [None] * 3
    )


def test_a_name_counts_on_each_thread_for_itself_whatever_numbers_tell_the_threads_apart():
    parts = [
        named(*((f"job {rank}: request {place}", 20 * place, 20 * place + 18) for place in range(3)), process=str(rank))
        for rank in range(2)
    ]
    assert numbers(join(parts)) == [0, 1, 2, 0, 1, 2]


def test_groups_of_the_profiler_are_trusted_more_than_a_name_that_counts():
    frames = work(*(("gpu:0", "compute", at, at + 5) for at in (0, 10, 20)), group_id=[1, 2, 3])
    spans = named(*((f"request {place}", 10 * place, 10 * place + 9) for place in range(3)))
    assert numbers(spans, frames) == [None] * 3


@pytest.mark.parametrize("name", ["run_training_batch", "[pl][profile]run_training_batch"])
def test_what_a_library_runs_around_each_step_is_one_by_its_order(name):
    spans = named((name, 0, 9), (name, 10, 19), ("forward", 11, 14), (name, 20, 29))
    assert numbers(spans) == [0, 1, None, 2]
    assert table(boundaries(WORK, spans), "name", "step", "start_ps", "end_ps") == [
        (name, 0, 0, 9),
        (name, 1, 9, 19),
        (name, 2, 19, 29),
    ]


def test_what_a_library_runs_around_each_step_is_numbered_on_each_thread_for_itself():
    threads = [
        named(*(("train_step", 10 * at, 10 * at + 9) for at in range(count)), thread=f"t{count}") for count in (3, 2, 4)
    ]
    assert numbers(join(threads)) == [0, 1, 2, 0, 1, 0, 1, 2, 3]


def test_the_hull_of_the_parts_of_a_step_is_the_step():
    spans = named(
        *((f"step{step}/{part}", 20 * step + at, 20 * step + at + 9)
          for step in range(3) for at, part in ((0, "forward"), (10, "backward")))
    )  # fmt: skip
    assert numbers(spans) == [0, None, 1, None, 2, None]
    assert table(boundaries(WORK, spans), "name", "step", "host_start_ps", "host_end_ps") == [
        ("step", 0, 0, 19),
        ("step", 1, 20, 39),
        ("step", 2, 40, 59),
    ]


def test_steps_at_the_edges_of_the_profile_that_lack_parts_are_cut():
    parts = [(step, part) for step in range(7) for part in ("forward", "backward")][1:-1]
    spans = [(f"step{step}/{part}", 10 * at, 10 * at + 9) for at, (step, part) in enumerate(parts)]
    assert numbers(named(*spans)) == [None, 1, None, 2, None, 3, None, 4, None, 5, None, None]
    # One that lacks parts between others is a step.
    assert numbers(named(*spans[:3], *spans[4:])) == [None, 1, None, 2, 3, None, 4, None, 5, None, None]


def test_half_of_the_steps_may_lack_a_part():
    """The usual number of parts is then the smaller one, so that none of them was cut."""
    parts = [(0, "backward"), (1, "forward"), (1, "backward"), (2, "forward"), (2, "backward"), (3, "forward")]
    spans = named(*((f"step{step}/{part}", 10 * at, 10 * at + 9) for at, (step, part) in enumerate(parts)))
    assert numbers(spans) == [0, 1, None, 2, None, 3]


def test_a_part_that_holds_the_others_is_the_step():
    spans = named(
        *((f"step {step}{part}", 20 * step, 20 * step + end)
          for step in range(3) for end, part in ((18, ""), (9, "/forward")))
    )  # fmt: skip
    assert numbers(spans) == [0, None, 1, None, 2, None]


def test_parts_of_two_steps_that_take_turns_are_told_apart_by_one_kind_of_them():
    order = (("load", 0), ("load", 1), ("run", 0), ("load", 2), ("run", 1), ("load", 3), ("run", 2), ("run", 3))
    length = {"load": 2, "run": 9}
    spans = named(*((f"step {step}/{part}", 10 * at, 10 * at + length[part]) for at, (part, step) in enumerate(order)))
    assert numbers(spans) == [None, None, 0, None, 1, None, 2, 3]


def test_sections_of_a_program_are_no_steps():
    spans = named(("Step 1: load", 0, 9), ("Step 2: tokenize", 10, 19), ("Step 3: train", 20, 59))
    assert numbers(spans) == [None] * 3


@pytest.mark.parametrize("name", ["train_step", "train_batch", "Training iteration", "eval_step"])
def test_a_name_of_each_step_tells_steps_if_most_work_is_launched_in_it(name):
    assert numbers(named((name, 0, 9), (name, 10, 19), (name, 20, 29))) == [0, 1, 2]
    assert numbers(named((name, 6, 9), (name, 16, 19), (name, 26, 29))) == [None] * 3
    assert numbers(named((name, 0, 5), (name, 11, 12), (name, 30, 35))) == [0, 1, 2]  # half of it
    assert numbers(named((name, 0, 59))) == [None]  # once around all is no step


def test_of_names_of_each_step_the_outermost_tells_them_numbered_or_not():
    outer = [("train_step", 20 * place, 20 * place + 19) for place in range(3)]
    inner = [("step", 20 * place + at, 20 * place + at + 8) for place in range(3) for at in (0, 10)]
    numbered = [(f"iter {number % 2}", start, end) for number, (_, start, end) in enumerate(inner)]
    assert numbers(named(*outer, *inner)) == [0, 1, 2] + [None] * 6
    assert numbers(named(*outer, *numbered)) == [0, 1, 2] + [None] * 6
    around = [(f"step {place}", start - 1, end + 1) for place, (_, start, end) in enumerate(outer)]
    assert numbers(named(*around, *outer)) == [0, 1, 2] + [None] * 3


@pytest.mark.parametrize(
    "name", ["forward_step", "DeepSpeedEngine.forward", "[pl][profile][Strategy]DDPStrategy.training_step"]
)
def test_a_step_begins_with_its_forward_pass_and_the_last_is_cut(name):
    spans = named((name, 0, 4), (name, 20, 24), (name, 40, 44))
    assert numbers(spans) == [0, 1, None]
    steps = boundaries(WORK, spans)
    assert table(steps, "step", "host_start_ps", "host_end_ps") == [(0, 0, 20), (1, 20, 40)]
    assert steps_of(steps, WORK) == [0, 0, 1, 1, -1, -1]


@pytest.mark.parametrize(
    "name", ["Optimizer.step#AdamW.step", "DeepSpeedZeroOptimizer_Stage3.step", "Optimizer.step#SGD.step, op_id = 7"]
)
def test_a_step_ends_with_its_optimizers_and_the_first_is_cut(name):
    # The work of each step is launched before its optimizer's.
    frames = work(*(("gpu:0", "compute", at, at + 5, at) for at in (0, 8, 10, 18, 20, 28)))
    spans = named((name, 7, 9), (name, 17, 19), (name, 27, 29))
    steps = boundaries(frames, spans)
    assert table(steps, "step", "start_ps", "end_ps") == [(1, 13, 23), (2, 23, 33)]
    assert steps_of(steps, frames) == [-1, -1, 0, 0, 1, 1]


def test_two_optimizers_steps_or_such_beside_the_work_tell_no_step():
    name = "Optimizer.step#SGD.step"
    assert numbers(named((name, 7, 9), (name, 17, 19))) == [None, None]
    assert numbers(named(*((name, at, at + 2) for at in (100, 110, 120)))) == [None] * 3


def test_forward_passes_tell_steps_only_where_half_of_the_work_is_launched_in_them():
    eight = work(*(("gpu:0", "compute", at, at + 5, at) for at in range(0, 80, 10)))
    for last, told in ((30, [None] * 4), (40, [0, 1, 2, None])):
        spans = named(*(("forward_step", at, at + 4) for at in (0, 10, 20, last)))
        assert numbers(spans, eight) == told


def launched_in(steps: list[tuple], launches: list[tuple[str, int]]) -> tuple[int, int]:
    """How many launches (host, time) begin in the steps (host, start, end), and from a host's first to its last."""
    inside = between = 0
    for host, at in launches:
        own = [(start, end) for of, start, end in steps if of == host and start < end]
        inside += any(start <= at < end for start, end in own)
        between += bool(own) and min(own)[0] <= at < max(end for _, end in own)
    return inside, between


def counted(texts: list[list[int]], passes: list[int]) -> list[int] | None:
    """The figure that counts among those of each span of one thread, as passes over the data began before each."""
    columns = []
    for at in range(len(texts[0])):
        own = [text[at] for text in texts]
        stride = own[1] - own[0] if len(own) > 2 else 0
        goes_on = [after - before == stride for before, after in pairwise(own)]
        others = [
            any(b > a for place, (a, b) in enumerate(zip(*two, strict=True)) if place != at) for two in pairwise(texts)
        ]
        anew = [
            after <= before and (other or begun > had)
            for (before, after), other, (had, begun) in zip(pairwise(own), others, pairwise(passes), strict=True)
        ]
        if stride > 0 and all(map(max, goes_on, anew)) and 2 * sum(goes_on) >= len(own) - 1:
            columns.append(own)
    return columns[0] if len(columns) == 1 else None


def told_by_counting(marks: list[tuple], launches: list[tuple[str, int]]) -> list[int | None]:
    """The step of each span (thread, name, start, end): the thread's first letter is its host."""
    templates: dict[str, list[tuple[int, int]]] = {}
    for template in dict.fromkeys(re.sub(r"\d", "#", name) for name in sorted({mark[1] for mark in marks})):
        steps = templates.setdefault(template, [])
        for thread in dict.fromkeys(mark[0] for mark in marks):
            own = [at for at, mark in enumerate(marks) if (mark[0], re.sub(r"\d", "#", mark[1])) == (thread, template)]
            own.sort(key=lambda at: marks[at][2])
            begins = [mark[2] for mark in marks if mark[0] == thread and mark[1].startswith("epoch")]
            if not own or any(marks[after][2] < marks[before][3] for before, after in pairwise(own)):
                continue
            figures = [[*map(int, re.findall(r"\d", marks[at][1]))] for at in own]
            numbers = counted(figures, [sum(begin <= marks[at][2] for begin in begins) for at in own])
            steps += zip(own, numbers or (), strict=bool(numbers))
    time = {name: sum(marks[at][3] - marks[at][2] for at, _ in steps) for name, steps in templates.items()}
    told: list[int | None] = [None] * len(marks)
    for name in sorted((name for name in time if time[name]), key=lambda name: ("epoch" in name, -time[name])):
        steps = templates[name]
        inside, between = launched_in([(marks[at][0][0], *marks[at][2:]) for at, _ in steps], launches)
        if 2 * between >= len(launches) > 0 and 2 * inside >= between:
            for at, number in steps:
                told[at] = number
            break
    return told


@st.composite
def counting(draw):
    """Spans of several threads whose names mostly count, and launches."""
    small = st.integers(0, 3)
    marks = []
    for thread in ("a1", "a2", "b1")[: draw(small)]:
        for template in draw(st.lists(st.sampled_from(["request {0}", "e{1}s{0}", "epoch {0}"]), unique=True)):
            start, number, stride, outer = draw(small), draw(small), draw(st.sampled_from([1, 1, 1, 2, 0])), 0
            gaps, jumps = draw(st.sampled_from([([0, 1, 4], 0), ([0, 2], 2), ([-1, 1, 1], 0)]))
            for _ in range(draw(st.integers(2, 5))):
                size = draw(st.integers(0, 6))
                marks.append((thread, template.format(number % 10, outer), start, start + size))
                start += size + draw(st.sampled_from(gaps))
                number += stride
                if draw(st.integers(1, 4)) <= jumps:
                    number, outer = draw(small), outer + draw(st.integers(0, 1))
    return draw(st.permutations(marks)), draw(
        st.lists(st.tuples(st.sampled_from("aab"), st.integers(0, 24)), max_size=6)
    )


@settings(max_examples=150)
@given(counting())
def test_what_counts_is_what_a_look_at_each_thread_finds(drawn):
    marks, launches = drawn
    texts = {
        "host": [mark[0][0] for mark in marks],
        "thread": [mark[0] for mark in marks],
        "name": [mark[1] for mark in marks],
    }
    times = {"start_ps": [mark[2] for mark in marks], "end_ps": [mark[3] for mark in marks]}
    spans = frame(SPAN_COLUMNS, texts | times)
    moments = [at for _, at in launches]
    calls = {
        "host": [host for host, _ in launches],
        "thread": ["t"] * len(launches),
        "name": ["launch"] * len(launches),
    }
    calls = frame(LAUNCH_COLUMNS, calls | {"start_ps": moments, "end_ps": moments})
    told = step_spans(NO_ROWS, spans, calls)["step"].tolist()
    assert [None if pd.isna(step) else step for step in told] == told_by_counting(marks, launches)


def hulls(parts: list[tuple]) -> list[tuple[int, int, int, int]] | None:
    """The place, number, begin and end of each step of the parts (thread, number, start, end, place); None if none."""
    steps = []
    for thread in sorted({part[0] for part in parts}):
        own = sorted((part for part in parts if part[0] == thread), key=lambda part: part[2])
        runs = [own[:1]]
        for before, after in pairwise(own):
            if after[1] < before[1] and after[1] != min(part[1] for part in own):
                return None
            runs.append([after]) if after[1] != before[1] else runs[-1].append(after)
        usual = sorted(map(len, runs))[(len(runs) - 1) // 2]
        whole = [at for at, run in enumerate(runs) if len(run) >= usual]
        steps += [(*run[0][4:], *run[0][1:3], max(part[3] for part in run)) for run in runs[whole[0] : whole[-1] + 1]]
    return steps


@st.composite
def parts_of_steps(draw):
    """Parts (thread, part, number, start, end) of steps of one or two threads, most of them in order."""
    parts = []
    for thread in "ab"[: draw(st.integers(1, 2))]:
        start = draw(st.integers(0, 3))
        for number in draw(st.sampled_from([range(4), range(2, 5), [0, 1, 2, 0, 1], [0, 1, 0, 1, 2], [1, 2, 0, 1]])):
            for part in draw(
                st.sampled_from([["load", "run"], ["load", "run"], ["run"], ["load"], ["run", "run", "load"]])
            ):
                size = draw(st.integers(0, 9))
                parts.append((thread, part, number, start, start + size))
                start += draw(st.integers(1, 6))
    return parts


@settings(max_examples=60)
@given(parts_of_steps())
def test_the_hulls_of_parts_are_those_of_a_look_at_each_thread(parts):
    recurring = [
        (thread, number, start, end, place)
        for place, (thread, part, number, start, end) in enumerate(parts)
        if len({other[2] for other in parts if other[1] == part}) >= 3
    ]
    steps = hulls(recurring) if recurring else []
    if steps is None:
        time = {
            name: sum(part[4] - part[3] for part in parts if part[1] == name)
            for name in sorted({parts[place][1] for *_, place in recurring})
        }
        longest = max(time, key=lambda name: time[name])
        steps = hulls([part for part in recurring if parts[part[4]][1] == longest])
    names = {
        "host": ["h"] * len(parts),
        "thread": [part[0] for part in parts],
        "name": [f"step {part[2]}/{part[1]}" for part in parts],
    }
    spans = frame(
        SPAN_COLUMNS, names | {"start_ps": [part[3] for part in parts], "end_ps": [part[4] for part in parts]}
    )
    told = step_spans(NO_ROWS, spans, frame(LAUNCH_COLUMNS))
    places = np.flatnonzero(told["step"].notna())
    found = told.iloc[places][["step", "start_ps", "end_ps"]].itertuples(index=False)
    assert [(place, *map(int, step)) for place, step in zip(places, found, strict=True)] == sorted(steps or [])
