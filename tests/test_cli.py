"""The command line answers at once and without heavy imports, and a user's mistake is one sentence."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tracekit.cli import app

ROOT = Path(__file__).parents[1]
HEAVY = ("jax", "jaxlib", "numpy", "pandas", "numba", "matplotlib", "pyarrow", "xprof", "tensorboard")
COMMANDS = sorted(command.name or command.callback.__name__ for command in app.registered_commands)

# Runs the command line, then says on stderr which heavy packages it imported.
RUNNER = f"""
import json, sys
from tracekit.cli import main
sys.argv[0] = "tracekit"  # as the console script is called
try:
    main()
finally:
    print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]), file=sys.stderr)
"""


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": "200"} | environment
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=ROOT, env=environment)


def heavy_imports(result: subprocess.CompletedProcess[str]) -> list[str]:
    return json.loads(result.stderr.splitlines()[-1])


def test_every_command_is_here():
    assert {"capture", "read", "report", "export", "view"} <= set(COMMANDS)


@pytest.mark.parametrize(
    "arguments", [(), *((command,) for command in COMMANDS)], ids=lambda a: " ".join(a) or "(root)"
)
def test_help_imports_nothing_heavy(arguments):
    result = run("-c", RUNNER, *arguments, "--help")
    assert result.returncode == 0, result.stderr
    assert "Usage: " in result.stdout
    assert heavy_imports(result) == []


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


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("tracekit ", COMMANDS),
        ("tracekit view --po", ["--port"]),
        ("tracekit read '{logdir}' --run ", ["first", "second"]),
        ("tracekit view '{logdir}' --run s", ["second"]),
    ],
    ids=["commands", "options", "runs", "a run"],
)
def test_shell_completion_imports_nothing_heavy(shell, words, completions, logdir):
    asked = SHELLS[shell](words.format(logdir=logdir))
    result = run("-c", RUNNER, _TRACEKIT_COMPLETE=f"complete_{shell}", **asked)
    assert result.returncode == 0, result.stderr
    # zsh is told each word between quotes, fish before a tab; both with what it means.
    said = re.findall(r'"([^":]+)":"', result.stdout) if shell == "zsh" else result.stdout.splitlines()
    told = [line.split("\t")[0] for line in said]
    if shell == "zsh" and not told:
        told = re.findall(r'"([^"]+)"', result.stdout)
    assert sorted(told) == completions
    assert heavy_imports(result) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_completion_script_for_each_shell(shell):
    result = run("-m", "tracekit", "--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert result.returncode == 0, result.stderr
    assert f"complete_{shell}" in result.stdout


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


@pytest.mark.parametrize("command", ["read", "report", "export", "view"])
def test_a_missing_trace_is_one_sentence_and_exit_code_1(command, tmp_path):
    missing = tmp_path / "missing"
    result = run("-m", "tracekit", command, str(missing))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("tracekit: ")
    assert str(missing) in result.stderr
    assert "does not exist" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not missing.exists()
