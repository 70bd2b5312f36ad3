"""A program that stands in for nsys 2022.4: it knows that version's options alone, and exports a file made before."""

import sys
from pathlib import Path

PROGRAM = f"""#!{sys.executable}
import os, shutil, subprocess, sys

home = os.path.dirname(os.path.abspath(__file__))
known = {{
    "profile": ["trace", "cuda-graph-trace", "sample", "cpuctxsw", "force-overwrite", "output"],
    "export": ["type", "force-overwrite", "quiet", "output"],
}}
command, words = sys.argv[1], sys.argv[2:]
with open(os.path.join(home, "calls"), "a") as calls:
    print(*sys.argv[1:], file=calls)
if command == "--version":
    sys.exit(print("NVIDIA Nsight Systems version 2022.4.2.1-df9881f"))
if words == ["--help"]:
    sys.exit(print("usage: nsys", command, *(f"\\n\\t--{{name}}=" for name in known[command])))
options = {{}}
while words and words[0].startswith("--"):
    name, _, value = words.pop(0)[2:].partition("=")
    if name not in known[command]:
        sys.exit(f"unrecognised option '--{{name}}={{value}}'")
    options[name] = value
if command == "profile":
    if os.path.exists(os.path.join(home, "refuse")):
        sys.exit("Failed to start the session: no room.")
    print("Generating '/tmp/nsys-report.qdstrm'", flush=True)
    code = subprocess.call(words)
    raw = os.path.exists(os.path.join(home, "raw"))
    with open(options["output"] + (".qdstrm" if raw else ".nsys-rep"), "w") as report:
        report.write("a report")
    sys.exit(0 if code == 130 else code)  # as nsys 2022.4.2 and 2023.4.4 end where the program was interrupted
if not open(words[0]).read().startswith("a report"):
    sys.exit("[1/1] [0%  ] x\\nExportation error: Version number is invalid: 2025@5@1@121-255136380782v0")
shutil.copy(os.path.join(home, "export.sqlite"), options["output"])
"""
IMPORTER = f"""#!{sys.executable}
import shutil, sys
options = dict(word.split("=", 1) for word in sys.argv[1:])
shutil.copy(options["--input-file"], options["--output-file"])
"""


class Nsys:
    """The stand-in, in a directory of its own (`home`), which is to be put on PATH."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir()
        self._add("nsys", PROGRAM)

    def add_importer(self) -> None:
        """Install the program that imports raw streams, where PATH finds it."""
        self._add("QdstrmImporter", IMPORTER)

    def calls(self, command: str) -> list[str]:
        """The command lines of `nsys command` so far, but those that asked for help."""
        lines = (self.home / "calls").read_text().splitlines() if (self.home / "calls").exists() else []
        return [line for line in lines if line.startswith(command) and not line.endswith("--help")]

    def _add(self, name: str, text: str) -> None:
        (self.home / name).write_text(text)
        (self.home / name).chmod(0o755)
