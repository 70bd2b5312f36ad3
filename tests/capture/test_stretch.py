"""A stretch of a run: which steps or seconds are profiled, and what is said where it never comes."""

import functools
import inspect
import json
import re
import textwrap
from pathlib import Path

import pytest

import tracekit
from tests.programs import python
from tracekit import CaptureError, Stretch, unrecorded
from tracekit.capture import session
from tracekit.capture.jax_session import JaxSession
from tracekit.capture.stretch import StepCounter, counting_annotation, counting_compiler


class Profile:
    """What a counter begins and ends, and when."""

    def __init__(self, **stretch):
        self.calls = []
        self.counter = StepCounter(
            Stretch(**stretch), lambda: self.calls.append("begin"), lambda: self.calls.append("end")
        )

    def run(self, *numbers):
        for number in numbers:
            self.calls.append(number)
            if self.counter.enter(number):
                self.counter.leave()
        return self.calls


@pytest.mark.parametrize(
    ("stretch", "numbers", "calls"),
    [
        ({"start_step": 3, "steps": 2}, range(7), [0, 1, 2, 3, "begin", 4, "end", 5, 6]),
        ({"steps": 1}, range(3), [0, "begin", "end", 1, 2]),
        ({"start_step": 1}, range(3), [0, 1, "begin", 2]),
        ({"start_step": 3, "steps": 1}, [1000, 1010], [1000, "begin", "end", 1010]),
        ({"start_step": 1, "steps": 1}, [None, None, None], [None, None, "begin", "end", None]),
        ({"start_step": 9}, range(3), [0, 1, 2]),
    ],
    ids=["inside", "first", "to the end", "of a resumed run", "without numbers", "never"],
)
def test_a_profile_begins_before_its_first_step_and_ends_after_its_last(stretch, numbers, calls):
    assert Profile(**stretch).run(*numbers) == calls


def test_annotations_with_a_step_number_are_steps():
    class Annotation:
        """Stands in for jax's."""

        def __init__(self, name, **stats):
            profile.calls.append((name, stats))

        def __enter__(self):
            return self

        def __exit__(self, *raised):
            profile.calls.append("exit")
            return False

    profile = Profile(start_step=1, steps=1)
    counting = counting_annotation(Annotation, profile.counter)
    for number in range(3):
        with counting("train", step_num=number, more=1) as annotation:
            assert isinstance(annotation, Annotation)

    # It is recorded whole: the profile runs before it is made, and after it has ended.
    steps = [[("train", {"step_num": number, "more": 1}), "exit"] for number in range(3)]
    assert profile.calls == [*steps[0], "begin", *steps[1], "end", *steps[2]]
    assert counting.__qualname__ == Annotation.__qualname__


def test_calls_of_a_compiled_function_are_steps_but_not_while_another_is_traced():
    import jax

    profile = Profile(step_function="jit_step", start_step=1, steps=1)
    jit = counting_compiler(jax.jit, profile.counter)

    class Model:
        @jit
        def step(self, x):
            return x + 1

    jax.tree_util.register_static(Model)

    @jit
    def other(x):
        return Model().step(x)

    @jit(static_argnames="n")
    def step(x, n=1):
        profile.calls.append("traced")
        return x * n

    assert other(1) == 2
    assert profile.counter.seen == 0
    assert [int(step(2, n=3)), int(Model().step(1)), int(step(2, n=3))] == [6, 2, 6]
    assert profile.calls == ["traced", "begin", "end"]
    assert inspect.getattr_static(step, "trace"), "isinstance of Python 3.12 sees no other attribute"
    assert (step.__name__, isinstance(step, jax.stages.Wrapped), profile.counter.others) == ("step", True, {"other"})


def scaled(x, by):
    return x * by


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("scaled", functools.partial(scaled, by=2)),
        ("jit_scaled", functools.partial(functools.partial(scaled), by=2)),
        ("jit__lambda", lambda x: x * 2),
        ("<lambda>", lambda x: x * 2),
    ],
)
def test_a_step_function_has_the_name_that_traces_give_it(name, function):
    import jax

    profile = Profile(step_function=name, steps=1)
    assert int(counting_compiler(jax.jit, profile.counter)(function)(3)) == 6
    assert profile.calls == ["begin", "end"]


def test_calls_of_what_was_compiled_ahead_of_time_are_steps():
    import jax

    profile = Profile(step_function="scaled", start_step=1, steps=1)
    compiled = counting_compiler(jax.jit, profile.counter)(scaled).lower(1, 2).compile()
    profile.calls.append("compiled")
    assert [int(compiled(x, 2)) for x in range(3)] == [0, 2, 4]
    assert profile.calls == ["compiled", "begin", "end"]
    assert profile.counter.seen == 3
    assert isinstance(compiled, jax.stages.Compiled)
    assert "scaled" in compiled.as_text()


@pytest.mark.parametrize(
    ("stretch", "numbers", "missing"),
    [
        ({"start_step": 4}, range(3), "made 3 steps, the last is number 2, and none is number 4 or later"),
        ({"step_function": "f", "start_step": 4}, range(3), "made 3 calls of f, the last is number 2"),
        ({"step_function": "f"}, (), "called no function f that jax.jit or jax.pmap compiled"),
        ({"steps": 4}, (), "marked no step with jax.profiler.StepTraceAnnotation; mark its steps, name its compiled"),
    ],
)
def test_a_stretch_that_never_came_is_explained(stretch, numbers, missing):
    profile = Profile(**stretch)
    profile.run(*numbers)
    assert profile.counter.missing.startswith(missing)


def test_a_stretch_that_the_script_cut_short_says_so():
    profile = Profile(start_step=1, steps=3)
    profile.run(0, 1)
    assert profile.counter.short == "the script ended after 1 of 3 steps."
    profile.run(2, 3, 4)
    assert (profile.counter.short, profile.counter.done) == ("", 3)


@pytest.mark.parametrize(
    ("stretch", "message"),
    [
        ({}, "either by steps or by time"),
        ({"steps": 2, "for_s": 1}, "either by steps or by time"),
        ({"steps": 0}, "at least 1 step"),
        ({"start_step": -1}, "counted from 0"),
        ({"for_s": 0}, "more than 0 s"),
        ({"after_s": -1}, "at 0 s or later"),
    ],
)
def test_what_is_no_stretch_is_one_sentence(stretch, message):
    with pytest.raises(CaptureError, match=message):
        Stretch(**stretch)


@pytest.fixture
def unstarted(tmp_path, monkeypatch):
    """Make the session of a capture with a stretch, whose profile only notes when it begins."""

    def session_of(stretch):
        profile = JaxSession(session.Plan(tmp_path, "run", stretch=stretch))
        profile.begun = []
        monkeypatch.setattr(profile, "_begin_when_idle", lambda: profile.begun.append("after"))
        monkeypatch.setattr(profile, "_start", lambda: profile.begun.append("at once"))
        monkeypatch.setattr(session.stretches, "postponed", profile._postponed)
        return profile

    return session_of


def use_a_device(profile):
    profile._is_in_use = True
    profile._begin_unless_later()


def test_a_profile_begins_after_unrecorded_blocks(unstarted):
    profile = unstarted(None)
    with unrecorded():
        pass  # no device is in use: the first is still to come
    with unrecorded():
        use_a_device(profile)
        with unrecorded():
            assert profile.unreached.startswith("ended inside tracekit.unrecorded()")
        assert profile.begun == []
    assert (profile.begun, profile.unreached) == (["after"], "")


def test_a_given_stretch_goes_before_unrecorded_blocks(unstarted):
    profile = unstarted(Stretch(for_s=60))
    with unrecorded():
        use_a_device(profile)
        assert profile.begun == ["at once"]
    profile._timer.cancel()


SCRIPT = """
    import sys, time
    import jax
    import tracekit
    step = jax.jit(lambda x: x + 1)

    @jax.jit
    def update(x):
        return x * 2

    with tracekit.unrecorded():
        pass

    for number in range(6):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            update(step(jax.numpy.ones(4)))
    if "sleep" in sys.argv:
        time.sleep(2)
"""
OUTER = """
    import json, sys
    import tracekit
    told = {}
    for name, args, stretch in json.load(open("stretches.json")):
        try:
            stretch = stretch and tracekit.Stretch(**stretch)
            captured = tracekit.capture("s.py", args, out="t", stretch=stretch)
            told[name] = str(captured.run)
        except tracekit.CaptureError as error:
            told[name] = str(error)
    print(json.dumps(told))
"""
STRETCHES = [
    ("steps", [], {"start_step": 3, "steps": 2}),
    ("function", [], {"start_step": 2, "steps": 1, "step_function": "update"}),
    ("short", [], {"start_step": 4, "steps": 5}),
    ("never", [], {"start_step": 60}),
    ("seconds", ["sleep"], {"after_s": 1.5, "for_s": 0.1}),
    ("too late", [], {"after_s": 600}),
    ("long", [], {"for_s": 600}),
    ("all", [], None),
]


@pytest.fixture(scope="module")
def told(tmp_path_factory, compiled):
    """What each of the stretches gave, all captured in one process, and what it said on stderr."""
    at = tmp_path_factory.mktemp("stretches")
    (at / "s.py").write_text(textwrap.dedent(SCRIPT))
    (at / "outer.py").write_text(textwrap.dedent(OUTER))
    (at / "stretches.json").write_text(json.dumps(STRETCHES))
    process = python("outer.py", cwd=at, PYTHONPATH=str(Path(__file__).parents[2]), **compiled)
    assert process.returncode == 0, process.stderr
    return at, json.loads(process.stdout), process.stderr


def trace_of(told, name):
    at, answers, _ = told
    trace = tracekit.read(at / answers[name])
    return trace, sorted(trace.spans["step"].dropna().tolist()), dict(trace.events["hlo_module"].value_counts())


def test_steps_of_a_run_give_a_trace_of_these_alone(told):
    trace, steps, programs = trace_of(told, "steps")
    assert (steps, programs["jit_update"]) == ([3, 4], 2)
    assert trace.capture["stretch"] | {"captured_steps": 2, "first_step": 3} == trace.capture["stretch"]
    assert 0 < trace.capture["profiled_s"] <= trace.capture["wall_s"]


def test_calls_of_a_function_give_a_trace_of_these_alone(told):
    _, _, programs = trace_of(told, "function")
    assert programs == {"jit_update": 1}


def test_a_script_that_ends_in_its_stretch_leaves_what_there_was(told):
    trace, steps, _ = trace_of(told, "short")
    assert (steps, trace.capture["stretch"]["captured_steps"]) == ([4, 5], 2)
    assert "tracekit: the script ended after 2 of 5 steps.\n" in told[2]


def test_seconds_of_a_run_give_a_trace_of_these_alone(told):
    trace, steps, _ = trace_of(told, "seconds")
    assert (steps, trace.capture["profiled_after_s"] >= 1.5) == ([], True)
    assert 0.1 <= trace.capture["profiled_s"] < 10


def test_a_script_that_ends_before_its_seconds_are_over_says_so(told):
    _, steps, _ = trace_of(told, "long")
    assert steps == list(range(6))
    assert re.search(r"tracekit: the script ended \d[\d.]+ m?s into the 600 s of the stretch\.\n", told[2])
    assert len(re.findall(r"of the stretch\.", told[2])) == 1


def test_an_unrecorded_block_after_the_first_use_of_a_device_says_so_and_changes_nothing(told):
    _, steps, _ = trace_of(told, "all")
    assert steps == list(range(6))
    assert len(re.findall(r"unrecorded\(\) came after the first use of a device", told[2])) == 1


def test_a_stretch_that_never_came_leaves_no_directory(told):
    at, answers, _ = told
    assert answers["never"] == (
        "nothing was captured: s.py made 6 steps, the last is number 5, and none is number 60 or later."
    )
    assert answers["too late"].endswith("s, and the stretch begins after 600 s.")
    assert len(list(at.glob("t/plugins/profile/*"))) == 6
