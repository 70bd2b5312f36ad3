"""Run the blocks of one page, in order, in one directory."""

import contextlib
import fcntl
import hashlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.docs.blocks import ROOT, Block
from tests.docs.checks import WrongDocsError, check
from tests.programs import environment
from tracekit.cli import app
from tracekit.errors import TracekitError

# Shorter runs than the pages show, of the same programs.
SHORT = {
    "workloads/concurrent.py": ["--size", "128", "--products", "200"],
    "workloads/copy_overlap.py": ["--size", "200", "--products", "4"],
    "workloads/independent_ops.py": ["--size", "32", "--wide", "64", "--products", "8"],
    "workloads/scheduling.py": ["--size", "64", "--products", "50"],
    "workloads/collectives.py": ["--sizes", "4096"],
    "workloads/training.py": ["--steps", "1"],
    "workloads/autoparallel.py": ["--steps", "2", "--batch", "256"],
}

Tracekit = Callable[[list[str], Path], str]  # words behind `tracekit`, working directory -> what it printed


def capture(arguments: list[str], directory: Path, compiled: Mapping[str, str]) -> str:
    """Run `tracekit capture` in a process of its own, `compiled` in its environment; stdout and stderr together."""
    for script, options in SHORT.items():
        if script in arguments:
            arguments = [*arguments[: arguments.index(script) + 1], *options]
    command = [sys.executable, "-m", "tracekit", "capture", *arguments]
    env = environment(COLUMNS="80", NO_COLOR="1", **compiled)
    process = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=300)
    if process.returncode:
        raise WrongDocsError(f"tracekit capture {shlex.join(arguments)}: {process.stderr}")
    return process.stdout + process.stderr


class Outcomes:
    """Commands of tracekit's that were run before in this session, by any of its processes and on files of the same
    content, are not run again: what they wrote is copied."""

    def __init__(self, store: Path, compiled: Mapping[str, str]) -> None:
        self.store, self.compiled = store, compiled
        store.mkdir(exist_ok=True)

    def __call__(self, words: list[str], directory: Path) -> str:
        """Run `tracekit` with these words, or copy what it did; what it prints."""
        # A capture reads no directory; that behind --out may hold captures before it.
        is_input = Path.is_file if words[0] == "capture" else Path.exists
        inputs = [(word, _content(directory / word) if is_input(directory / word) else []) for word in words]
        outcome = self.store / hashlib.sha256(repr(inputs).encode()).hexdigest()
        output_file = outcome.with_suffix(".txt")
        with outcome.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not output_file.exists():
                before = _times(directory)
                output = (
                    capture(words[1:], directory, self.compiled)
                    if words[0] == "capture"
                    else run_tracekit(words, directory)
                )
                for path, _ in _times(directory) - before:
                    (outcome / path).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(directory / path, outcome / path)
                output_file.write_text(output, "utf-8")
        if outcome.exists():
            shutil.copytree(outcome, directory, dirs_exist_ok=True)
        return output_file.read_text("utf-8")


def _files(place: Path) -> list[Path]:
    return sorted(path for path in [place, *place.rglob("*")] if path.is_file())


def _content(place: Path) -> list[tuple[str, str]]:
    """Name and digest of a file, or of each in a directory; of what is neither, nothing."""
    return [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in _files(place)]


def _times(directory: Path) -> set[tuple[Path, int]]:
    return {(path.relative_to(directory), path.stat().st_mtime_ns) for path in _files(directory)}


def run_tracekit(words: list[str], directory: Path) -> str:
    """Run a command of tracekit's in this process; what it prints to stdout, and after it to stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(directory), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = app(words, standalone_mode=False)
        except TracekitError as error:
            raise WrongDocsError(f"tracekit {shlex.join(words)}: {error}") from error
    if code:
        raise WrongDocsError(f"tracekit {shlex.join(words)} exited with {code}: {err.getvalue()}")
    return out.getvalue() + err.getvalue()


def run_line(line: str, directory: Path, tracekit: Tracekit) -> str:
    """Run one shell command. What follows a pipe or a redirection is bash's."""
    command, rest = re.fullmatch(r"(.*?)(\s[|>].*)?", line, re.DOTALL).groups()  # type: ignore[union-attr]
    words = shlex.split(command, comments=True)
    if words[:1] == ["tracekit"]:
        output = tracekit(words[1:], directory)
        if rest is None:
            return output
        line, stdin = f"cat {rest}", output
    else:
        stdin = ""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "JAX_PLATFORMS": "cpu"}
    process = subprocess.run(
        ["bash", "-ec", line], input=stdin, cwd=directory, env=env, capture_output=True, text=True, timeout=300
    )
    if process.returncode:
        raise WrongDocsError(f"{line}: {process.stderr or process.stdout}")
    return process.stdout + process.stderr


def run_shell(block: Block, directory: Path, tracekit: Tracekit) -> str:
    """Run every command of a block; what they printed."""
    unwrapped = re.sub(r"\\\n\s*", " ", block.text)
    lines = [line for line in unwrapped.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    try:
        return "".join(run_line(line, directory, tracekit) for line in lines)
    except WrongDocsError as error:
        raise WrongDocsError(f"{block.where}: {error}") from error


def run_python(block: Block, directory: Path, names: dict[str, Any]) -> str:
    """Run a Python block among the names that the page's blocks before it have made; what it printed."""
    out = io.StringIO()
    with contextlib.chdir(directory), contextlib.redirect_stdout(out):
        try:
            exec(compile(block.text, block.where, "exec"), names)
        except Exception as error:
            raise WrongDocsError(f"{block.where}: {type(error).__name__}: {error}") from error
    return out.getvalue()


def _words(line: str) -> str:
    return re.sub(r"\s+", " ", line).strip()


def compare(expected: Block, output: str) -> None:
    """Hold the output that a page shows against the real one; `[…]` stands for lines that are left out."""
    lines = [_words(line) for line in expected.text.splitlines() if line.strip() and line.strip() != "[…]"]
    real = [_words(line) for line in output.splitlines()]
    if "figures differ" in expected.comment:
        lines = [line for line in lines if not re.search(r"\d", line)]
    for line in lines:
        if line not in real:
            raise WrongDocsError(f"{expected.where}: the page shows {line!r}, but the output is\n{output}")


def run_page(blocks: list[Block], directory: Path, tracekit: Tracekit) -> None:
    """Run or check every block of a page; WrongDocsError names the block that is wrong."""
    names: dict[str, Any] = {"__name__": "page"}
    output = ""
    for block in blocks:
        kind = block.comment.partition(":")[0]
        if kind == "file":
            path = directory / block.comment.partition(": ")[2]
            path.write_text(block.text, "utf-8")
            if path.suffix == ".py":
                check(Block(block.page, block.line, "python", block.text, ""))
        elif kind.startswith("output"):
            compare(block, output)
        elif kind == "not run" or block.language not in ("bash", "python"):
            check(block)
        elif block.language == "bash":
            output = run_shell(block, directory, tracekit)
        else:
            check(block)
            output = run_python(block, directory, names)


def prepare(directory: Path, traces: dict[str, Path]) -> None:
    """Lay out what every page may count on: workloads, the tutorial's train.py and traces of it."""
    (directory / "workloads").symlink_to(ROOT / "workloads")
    for name, path in traces.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if path.is_dir() else shutil.copy)(path, directory / name)
