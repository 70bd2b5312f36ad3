"""Docs that cannot go stale: the options of every command, the links. `python tests/test_docs.py` renews cli.md."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from typer.testing import CliRunner

import tracekit
from tracekit.cli import app

DOCS = Path(__file__).parent.parent / "docs"
COMMANDS = (
    "capture",
    "read",
    "report",
    "compare",
    "check",
    "baseline",
    "history",
    "figure",
    "export",
    "summarise",
    "view",
    "doctor",
)


ENVIRONMENT = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}


@cache
def help_of(*words: str) -> str:
    """What `--help` prints behind these words."""
    # A terminal of 80 columns is filled up to 78; the runner would fill all.
    result = CliRunner(env=ENVIRONMENT).invoke(app, [*words, "--help"], prog_name="tracekit", terminal_width=78)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def page() -> str:
    completion = "`tracekit --install-completion` completes commands, options, paths and runs in bash, zsh and fish."
    parts = [f"# The commands\n\n{completion}\n\nGenerated from `--help` by `python tests/test_docs.py`.\n"]
    for words in ((), *((name,) for name in COMMANDS), *(("baseline", name) for name in ("save", "list"))):
        text = "\n".join(f"    {line}".rstrip() for line in help_of(*words).splitlines())
        parts.append(f"## tracekit {' '.join(words)}".rstrip() + f"\n\n{text}\n")
    return "\n".join(parts)


def options(text: str) -> dict[str, set[str]]:
    """The options under each heading of a page; how typer lays them out changes with its version, they do not."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:]
    return {
        name: set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", body))
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def test_every_command_and_option_is_in_the_docs():
    assert options((DOCS / "cli.md").read_text("utf-8")) == options(page())
    commands = re.findall(r"^  (\w+)  ", help_of().partition("Commands:")[2], re.MULTILINE)
    assert sorted(commands) == sorted(COMMANDS)


def test_the_command_in_a_process_of_its_own_prints_the_same_help():
    command = [sys.executable, "-m", "tracekit", "report", "--help"]
    process = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | ENVIRONMENT)
    assert process.stdout.replace("python -m tracekit", "tracekit").strip() == help_of("report")


def test_links_between_the_pages_lead_somewhere():
    for path in (*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_readme_names_every_file_of_a_report(tmp_path):
    trace = Path(__file__).parent / "data" / "two-cpu-devices-jax0.10.2.xplane.pb"
    tracekit.report(trace, tmp_path)
    text = (DOCS.parent / "README.md").read_text("utf-8")
    names = {f"{path.name}/" if path.is_dir() else path.name for path in tmp_path.iterdir()}
    assert {name for name in names if f"`{name}`" not in text} == set()


if __name__ == "__main__":
    (DOCS / "cli.md").write_text(page(), "utf-8")
