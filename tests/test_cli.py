"""The command line answers at once and without heavy imports, and a user's mistake is one sentence."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tracekit import units
from tracekit.cli import app, main
from tracekit.export import FORMATS

ROOT = Path(__file__).parents[1]
HEAVY = ("jax", "jaxlib", "numpy", "pandas", "numba", "matplotlib", "pyarrow", "xprof", "tensorboard")
COMMANDS = sorted(
    [command.name or command.callback.__name__ for command in app.registered_commands]
    + [str(group.name) for group in app.registered_groups]
)

# Runs one command line after the other, each with words and an environment of its own; of each it tells the exit code,
# what it printed, and which heavy packages it imported that none before it had.
RUNNER = f"""
import contextlib, io, json, os, sys
from tracekit.cli import main
asked, told, before, unset = json.load(sys.stdin), [], dict(os.environ), set()
for words, environment in asked:
    os.environ.clear()
    os.environ.update(before | environment)
    sys.argv = ["tracekit", *words]  # as the console script is called
    code, out, err = 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    heavy = {{name for name in {HEAVY!r} if name in sys.modules}} - unset
    unset |= heavy
    told.append([code, out.getvalue(), err.getvalue(), sorted(heavy)])
print(json.dumps(told))
"""
Answer = tuple[int, str, str, list[str]]


def run(*command: str, **options) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=ROOT, env=environment, **options
    )


def answers(questions: dict[str, tuple[list[str], dict[str, str]]]) -> dict[str, Answer]:
    """What the command line answers to each of the words and environments asked, all in one fresh process."""
    process = run("-c", RUNNER, input=json.dumps([*questions.values()]))
    assert process.returncode == 0, process.stderr
    return dict(zip(questions, json.loads(process.stdout), strict=True))


def test_every_command_is_here():
    assert {"capture", "read", "report", "export", "view"} <= set(COMMANDS)


@pytest.fixture(scope="module")
def help_answers():
    return answers({command: ([*command.split(), "--help"], {}) for command in ("", *COMMANDS)})


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_imports_nothing_heavy(help_answers, command):
    code, out, err, heavy = help_answers[command]
    assert code == 0, err
    assert "Usage: " in out
    assert heavy == []


@pytest.fixture(scope="module")
def logdir(tmp_path_factory):
    at = tmp_path_factory.mktemp("log dir")
    for run_name in ("first", "second"):
        (at / "plugins" / "profile" / run_name).mkdir(parents=True)
    return at


# What each shell's script, as typer writes it, asks with.
SHELLS = {
    "bash": lambda words: {"COMP_WORDS": words, "COMP_CWORD": str(len(shlex.split(words + "x")) - 1)},
    "zsh": lambda words: {"_TYPER_COMPLETE_ARGS": words},
    "fish": lambda words: {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


# What stands before the cursor, and how it may go on.
TYPED = {
    "tracekit ": COMMANDS,
    "tracekit view --po": ["--port"],
    "tracekit read '{logdir}' --run ": ["first", "second"],
    "tracekit view '{logdir}' --run s": ["second"],
    "tracekit export --to ": sorted(FORMATS),
    "tracekit export --table sp": ["spans"],
}


@pytest.fixture(scope="module")
def completions(logdir):
    questions = {}
    for shell, ask in SHELLS.items():
        for words in TYPED:
            variables = ask(words.format(logdir=logdir))
            questions[f"{shell} {words}"] = (
                [],
                {key: str(value) for key, value in variables.items()} | {"_TRACEKIT_COMPLETE": f"complete_{shell}"},
            )
        question = ["--show-completion", shell], {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
        questions[f"{shell} script"] = question
    return answers(questions)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("words", TYPED)
def test_shell_completion_imports_nothing_heavy(shell, words, completions):
    code, out, err, heavy = completions[f"{shell} {words}"]
    assert code == 0, err
    # zsh is told each word between quotes, fish before a tab; both with what it means.
    lines = re.findall(r'"([^":]+)":"', out) if shell == "zsh" else out.splitlines()
    candidates = [line.split("\t")[0] for line in lines]
    if shell == "zsh" and not candidates:
        candidates = re.findall(r'"([^"]+)"', out)
    assert sorted(candidates) == TYPED[words]
    assert heavy == []


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_completion_script_for_each_shell(shell, completions):
    code, out, err, _ = completions[f"{shell} script"]
    assert code == 0, err
    assert f"complete_{shell}" in out


def test_python_m_tracekit_is_the_same_command_line():
    result = run("-X", "importtime", "-m", "tracekit", "--help")
    assert result.returncode == 0
    assert result.stdout.strip().startswith("Usage: python -m tracekit ")
    imported = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert imported.isdisjoint(HEAVY)


def test_version_is_the_packages():
    import tracekit

    assert run("-m", "tracekit", "--version").stdout == f"tracekit {tracekit.__version__}\n"


@pytest.mark.parametrize("arguments", [("no-such-command",), ("view", "trace", "--port", "70000")], ids=" ".join)
def test_a_usage_error_exits_with_2_and_the_usage(arguments):
    result = run("-m", "tracekit", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: python -m tracekit ")
    assert "Traceback" not in result.stderr


def test_a_bug_is_one_sentence_that_says_where_and_a_traceback_only_where_that_is_asked_for(monkeypatch, capsys):
    def broken(*_, **__):
        units.quantity("no number", "event")

    monkeypatch.setattr("tracekit.read", broken)
    monkeypatch.setattr("sys.argv", ["tracekit", "read", "trace"])
    with pytest.raises(SystemExit, match="1"):
        main()
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(
        r"tracekit: a bug of tracekit ended this command: ValueError in units\.py, line \d+\. Please report that, with "
        r"the command, and the trace if it may be shared; TRACEKIT_TRACEBACK=1 shows the traceback\.\n",
        err,
    )
    monkeypatch.setenv("TRACEKIT_TRACEBACK", "1")
    with pytest.raises(ValueError, match="Cannot specify"):
        main()


@pytest.mark.parametrize("command", ["read", "report", "export", "view"])
def test_a_missing_trace_is_one_sentence_and_exit_code_1(command, tmp_path, monkeypatch, capsys):
    missing = tmp_path / "missing"
    monkeypatch.setattr("sys.argv", ["tracekit", command, str(missing)])
    with pytest.raises(SystemExit, match="1"):
        main()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tracekit: ")
    assert str(missing) in err
    assert "does not exist" in err
    assert len(err.splitlines()) == 1
    assert not missing.exists()
