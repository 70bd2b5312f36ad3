"""The public surface: what `tracekit` shows is what is meant for users, all of it, and documented."""

import dataclasses
import inspect
import sys
import typing

import pytest

import tracekit
from tests.docs.blocks import ROOT
from tracekit.timeline.timeline import Source, Timeline

PUBLIC = [getattr(tracekit, name) for name in tracekit.__all__ if name != "__version__"]
# What modules import only for type checkers.
NAMES = {"Source": Source, "Timeline": Timeline, "Report": tracekit.Report, "Check": tracekit.Check}
# A command whose function is what others are made of, and the other way round: none.
COMMANDS = {"capture", "read", "report", "figure", "export", "view", "doctor"}


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
    trace = [] if name == "doctor" else [str(ROOT / "tests" / "data" / "kineto-rank1.pt.trace.json")]
    monkeypatch.setattr("sys.argv", ["tracekit", name, *trace])
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
    assert {name for name in parameters if first[name] != "source"} == {"capture", "doctor", "load", "phase"}


@pytest.mark.parametrize("name", ["analyse", "export", "figure", "report", "timeline_of"])
def test_what_takes_a_path_too_takes_run_and_kinds_as_read_does(name, monkeypatch, tmp_path):
    def read(*arguments):
        raise tracekit.TraceError(repr(arguments))

    monkeypatch.setattr("tracekit.timeline.timeline.read", read)
    with pytest.raises(tracekit.TraceError, match=r"\('trace', 'second', 'rules.toml'\)"):
        getattr(tracekit, name)("trace", run="second", kinds="rules.toml")


@pytest.mark.parametrize(
    "name", ["analyse", "concurrency", "device_pairs", "explain", "overlap", "partition", "phases"]
)
def test_what_asks_something_of_a_trace_takes_it_first_and_in_any_form(name):
    first, *_ = inspect.signature(getattr(tracekit, name)).parameters.values()
    assert (first.name, first.annotation) == ("source", Source)
