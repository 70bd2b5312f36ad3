"""What can be said of a block without running it: its commands, options, files and names exist."""

import ast
import importlib
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import typer.main

from tests.docs.blocks import ROOT, Block
from tracekit.cli import app

# Programs of others, of which a page may show a call that is not run here.
OTHERS = {
    "TraceLens_generate_perf_report_pytorch",
    "nsys-ai",
    "torchrun",
    "apt-get",
    "dask",
    "docker",
    "jupyter",
    "nsys",
    "nsys-jax",
    "nvidia-smi",
    "rocprofv3",
    "rsync",
    "srun",
    "pip",
    "sudo",
    "ssh",
    "tensorboard",
}
SHELL = {"cat", "cd", "cp", "echo", "export", "head", "ls", "mkdir", "rm"}


class WrongDocsError(AssertionError):
    """A page shows something that does not exist or does not work."""


def commands(text: str) -> list[list[str]]:
    """The words of each command of a block: comments, line ends with a backslash and pipes are understood."""
    unwrapped = re.sub(r"\\\n\s*", " ", text)
    words_of_commands = []
    for line in unwrapped.splitlines():
        for part in re.split(r"\s(?:\||&&)\s", re.sub(r"(?:^|\s)#.*$", "", line)):
            words = shlex.split(re.sub(r"[<>]\s*\S+$", "", part))
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words = words[1:]
            if words:
                words_of_commands.append(words)
    return words_of_commands


@cache
def _tracekit() -> Any:
    return typer.main.get_command(app)


def check_tracekit(words: list[str], where: str) -> None:
    """Let the command line's own parser read the words that follow `tracekit`."""
    if words and words[0].startswith("-"):
        if words[0] not in ("--help", "--version", "--install-completion", "--show-completion"):
            raise WrongDocsError(f"{where}: tracekit has no option {words[0]}")
        return
    if not words or words[0] not in _tracekit().commands:
        raise WrongDocsError(f"{where}: tracekit has no command {' '.join(words[:1])!r}")
    try:
        _tracekit().commands[words[0]].make_context(words[0], words[1:])
    except Exception as error:  # typer's usage errors; which module they are of changes with its version
        raise WrongDocsError(f"{where}: tracekit {' '.join(words)}: {error}") from error


def check_script(words: list[str], where: str) -> None:
    """A script of this repository exists and knows the options: `python benchmarks/x.py --events 10`."""
    if words[0].startswith("-"):
        return
    script = ROOT / words[0]
    if script.parent == ROOT:
        return  # a script of the reader's
    if not script.exists():
        raise WrongDocsError(f"{where}: there is no {words[0]}")
    source = script.read_text("utf-8")
    for option in (word.partition("=")[0] for word in words[1:] if word.startswith("--")):
        if f'"{option}"' not in source:
            raise WrongDocsError(f"{where}: {words[0]} has no option {option}")


def check_shell(block: Block) -> None:
    """Every command of the block exists, with its options."""
    for path, *words in commands(block.text):
        program = Path(path).name
        if program == "tracekit":
            check_tracekit(words, block.where)
        elif program in ("python", "python3"):
            check_script(words, block.where)
        elif program == "make":
            targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
            if unknown := {word for word in words if "=" not in word} - set(targets):
                raise WrongDocsError(f"{block.where}: the Makefile has no {', '.join(sorted(unknown))}")
        elif program not in OTHERS | SHELL:
            raise WrongDocsError(f"{block.where}: nobody knows the program {program}")


def _dotted_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (above := _dotted_name(node.value)):
        return f"{above}.{node.attr}"
    return None


def _exists(name: str) -> bool:
    """Whether `tracekit.a.b` can be imported or reached; what follows a call or a class is not looked at."""
    module, *attributes = name.split(".")
    value = importlib.import_module(module)
    for at, attribute in enumerate(attributes):
        try:
            value = getattr(value, attribute)
        except AttributeError:
            try:
                value = importlib.import_module(".".join([module, *attributes[: at + 1]]))
            except ImportError:
                return False
    return True


def check_python(block: Block) -> None:
    """The block compiles, and every name of tracekit's in it exists."""
    tree = ast.parse(block.text, block.where)
    names = {name for node in ast.walk(tree) if (name := _dotted_name(node)) and name.startswith("tracekit.")}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tracekit":
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name.startswith("tracekit.")}
    for name in sorted(names):
        if not _exists(name):
            raise WrongDocsError(f"{block.where}: there is no {name}")


def check(block: Block) -> None:
    """Check a block that is not run."""
    if block.language == "bash":
        check_shell(block)
    elif block.language == "python":
        check_python(block)
