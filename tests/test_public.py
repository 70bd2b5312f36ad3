"""The public surface: what `tracekit` shows is what is meant for users, all of it, and documented."""

import dataclasses
import inspect
import re
import sys
import typing
from concurrent.futures import Executor

import numpy as np
import pandas as pd
import pytest

import tracekit
from tests import traces
from tests.docs.blocks import ROOT
from tracekit.timeline.timeline import Source, Timeline

PUBLIC = [getattr(tracekit, name) for name in tracekit.__all__ if name != "__version__"]
# What modules import only for type checkers.
NAMES = {
    "Source": Source,
    "Timeline": Timeline,
    "Report": tracekit.Report,
    "Check": tracekit.Check,
    "Executor": Executor,
}
# A command whose function is what others are made of, and the other way round: none.
COMMANDS = {"capture", "check", "compare", "read", "report", "figure", "export", "summarise", "view", "doctor"} | {
    "history"
}


def classes(hint: object) -> set[type]:
    """The classes of tracekit that a type names."""
    inner = [cls for argument in typing.get_args(hint) for cls in classes(argument)]
    own = isinstance(hint, type) and hint.__module__.startswith("tracekit")
    return {*inner, hint} if own else {*inner}


def signatures(value: object) -> list[object]:
    """What a public name shows: itself if it is a function, the fields, methods and properties of a class."""
    if not isinstance(value, type):
        return [value] if callable(value) else []
    functions = [value] if dataclasses.is_dataclass(value) else []
    for name, member in vars(value).items():
        if not name.startswith("_"):
            function = getattr(member, "fget", None) or getattr(member, "func", None) or member
            functions += [function] if inspect.isfunction(function) else []
    return functions


@pytest.mark.parametrize("value", PUBLIC, ids=lambda value: getattr(value, "__name__", str(value)))
def test_every_type_that_a_public_signature_shows_is_public(value):
    types = {
        cls
        for signature in signatures(value)
        for hint in typing.get_type_hints(signature, localns=NAMES).values()
        for cls in classes(hint)
    }
    assert {cls.__name__ for cls in types if getattr(tracekit, cls.__name__, None) is not cls} == set()


def test_dir_shows_the_public_names_only():
    assert dir(tracekit) == sorted(tracekit.__all__)


def test_every_command_has_a_function_of_its_name():
    from tracekit.cli import app

    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert commands == COMMANDS
    assert set(tracekit.__all__) >= COMMANDS


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_calls_the_function_of_its_name(name, monkeypatch, capsys):
    from tracekit.cli import main

    def called(*arguments, **options):
        raise tracekit.TracekitError(f"{name} was called")

    function = getattr(tracekit, name)
    monkeypatch.setattr(tracekit, name, called)
    monkeypatch.setattr(sys.modules[function.__module__], name, called)
    trace = str(ROOT / "tests" / "data" / "kineto-rank1.pt.trace.json")
    traces = {"doctor": [], "compare": [trace, trace]}.get(name, [trace])
    monkeypatch.setattr("sys.argv", ["tracekit", name, *traces])
    with pytest.raises(SystemExit, match="1"):
        main()
    assert capsys.readouterr().err == f"tracekit: {name} was called\n"


def test_every_public_name_is_documented():
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    assert [name for name in tracekit.__all__ if name != "__version__" and f"\n## {name}\n" not in page] == []


# Of two arguments with one meaning one has to go.
FORMER = {"window", "within", "names", "path", "trace_dir", "trace_path", "log_dir"}


def test_what_means_the_same_has_the_same_name_in_every_function():
    functions = [value for value in PUBLIC if inspect.isfunction(value)]
    parameters = {function.__name__: inspect.signature(function).parameters for function in functions}
    assert {name: sorted(FORMER & {*of}) for name, of in parameters.items() if FORMER & {*of}} == {}
    first = {name: next(iter(of), None) for name, of in parameters.items()}
    others = {name for name in parameters if first[name] != "source"}
    assert others == {"capture", "compare", "doctor", "history", "load", "phase", "unrecorded"}


@pytest.mark.parametrize("name", ["analyse", "export", "figure", "report", "timeline_of"])
def test_what_takes_a_path_too_takes_run_and_kinds_as_read_does(name, monkeypatch, tmp_path):
    def read(*arguments, **how):
        raise tracekit.TraceError(repr(arguments))

    monkeypatch.setattr("tracekit.timeline.timeline.read", read)
    with pytest.raises(tracekit.TraceError, match=r"\('trace', 'second', 'rules.toml'\)"):
        getattr(tracekit, name)("trace", run="second", kinds="rules.toml")


@pytest.mark.parametrize(
    "name", ["analyse", "concurrency", "device_pairs", "explain", "memory", "overlap", "partition", "phases"]
)
def test_what_asks_something_of_a_trace_takes_it_first_and_in_any_form(name):
    first, *_ = inspect.signature(getattr(tracekit, name)).parameters.values()
    assert (first.name, first.annotation) == ("source", Source)


TRACE = "stepped-cpu.xplane.pb.gz"
# What a function of each name asks of the test beside its source.
OPTIONS = {
    "check": {"rules": [tracekit.Rule("idle", most=0.1)]},
    "export": {"to": "csv"},
    "view": {"port": 0, "browser": False},
}
ANSWERS = {
    "analyse", "annotations", "check", "concurrency", "device_pairs", "explain", "export", "figure", "memory",
    "overlap", "partition", "phases", "report", "timeline_of", "top_ops",
}  # fmt: skip
FORMS = {
    "a path as text": lambda: str(traces.path(TRACE)),
    "a path": lambda: traces.path(TRACE),
    "what capture returned": lambda: tracekit.Captured(traces.path(TRACE), traces.path(TRACE), 0),
    "a Trace": lambda: traces.trace(TRACE),
    "a Timeline": lambda: tracekit.timeline_of(traces.trace(TRACE)),
    "an events frame": lambda: traces.trace(TRACE).events,
}


@pytest.fixture
def read_once(monkeypatch):
    """Paths are read where each one must be the trace's; the tests share what was read."""

    def read(source, run, kinds, **how):
        assert str(getattr(source, "path", source)) == str(traces.path(TRACE))
        return traces.trace(TRACE)

    monkeypatch.setattr("tracekit.timeline.timeline.read", read)


def test_the_table_names_every_function_that_takes_a_source():
    takes = {
        value.__name__
        for value in PUBLIC
        if inspect.isfunction(value) and next(iter(inspect.signature(value).parameters), "") == "source"
    }
    assert takes == ANSWERS | {"read", "summarise", "view"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["partition", "timeline_of", "phases", "concurrency", "overlap", "device_pairs"])
def test_a_function_takes_a_trace_in_every_form_that_a_user_has_in_hand(name, form, read_once):
    function = getattr(tracekit, name)
    result, expected = function(FORMS[form]()), function(traces.trace(TRACE))
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(result, expected)
    else:
        assert type(result) is type(expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["analyse", "explain", "export", "figure", "report"])
def test_what_writes_or_draws_asks_for_its_source_in_one_place(name, form, monkeypatch):
    """The heavy functions hand their source on as it is, to what the test above tries."""

    def timeline_of(source, *arguments, **options):
        raise tracekit.TraceError(type(source).__name__)

    function = getattr(tracekit, name)
    for module in {"tracekit.timeline.timeline", function.__module__}:
        if hasattr(sys.modules[module], "timeline_of"):
            monkeypatch.setattr(sys.modules[module], "timeline_of", timeline_of)
    source = FORMS[form]()
    with pytest.raises(tracekit.TraceError, match=f"^{type(source).__name__}$"):
        function(source)


@pytest.mark.parametrize("name", sorted(ANSWERS | {"load", "read", "view"}))
@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (None, "is wanted here, not a value of type NoneType."),
        (3, "is wanted here, not a value of type int."),
        (["a", "b"], "is wanted here, not a value of type list. Of several files of one run give their directory."),
    ],
    ids=["None", "int", "list"],
)
def test_what_is_no_trace_is_refused_in_a_sentence(name, source, sentence):
    if name == "check" and isinstance(source, list):
        source = [3]  # a sequence is several captures
        sentence = "is wanted here, not a value of type int."
    with pytest.raises(TypeError) as caught:
        getattr(tracekit, name)(source, **OPTIONS.get(name, {}))
    assert str(caught.value).endswith(sentence)


def test_a_report_says_where_its_results_are():
    report = tracekit.analyse(traces.trace(TRACE))
    with pytest.raises(TypeError, match=r"A Report holds results: they are in its fields, such as report\.whole\."):
        tracekit.partition(report)


@pytest.mark.parametrize("windows", [[(0, 5), (7, 9)], ((0, 5), (7, 9)), np.array([[0, 5], [7, 9]])])
def test_windows_may_be_any_pairs_of_integers(windows):
    table = tracekit.partition(traces.trace(TRACE), windows)
    assert set(table["window_ps"]) == {7}


@pytest.mark.parametrize("windows", ["train", (0.5, 2.0), 7, [(0, 1, 2)]])
def test_other_windows_are_refused_in_a_sentence(windows):
    with pytest.raises(TypeError, match=r"are not pairs of integers \(start_ps, end_ps\)\."):
        tracekit.partition(traces.trace(TRACE), windows)


def test_every_public_field_of_a_result_is_documented():
    """In backticks, in the docstring of its class, from which docs/api.md is made."""
    results = [value for value in PUBLIC if isinstance(value, type) and dataclasses.is_dataclass(value)]
    undocumented = {
        f"{value.__name__}.{field.name}"
        for value in results
        for field in dataclasses.fields(value)
        if not field.name.startswith("_") and not re.search(rf"`{field.name}[`\[]", value.__doc__ or "")
    }
    assert undocumented == set()
