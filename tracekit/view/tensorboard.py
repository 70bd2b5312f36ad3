"""Serve a trace in TensorBoard with the profile plugin, on loopback only.

TensorBoard runs in a process of its own. XProf's converters are native code: on a broken trace they can end their
process, they cannot be interrupted, and a later import of pyarrow beside them has crashed the interpreter. What that
process serves is a temporary directory of links to the trace, because XProf writes its caches beside what it reads.
"""

import importlib.util
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

from tracekit.console import tell
from tracekit.errors import TracekitError, ViewError
from tracekit.files import resolved
from tracekit.units import safe, spelt
from tracekit.view import server_process, tensorboard_server
from tracekit.view.file_names import without_directories

SUFFIX = ".xplane.pb"

_SERVER = Path(__file__).with_name("tensorboard_server.py")


def serve(trace_dir: Path, *, name: str = "", port: int = 6006, run: str | None = None, browser: bool = False) -> None:
    """Serve the trace, called `name`, until a signal stops it, and print the address that opens a run in the trace
    viewer.

    Takes a logdir (all its runs are served, but those that are damaged, which a line names), a run directory, or one
    `.xplane.pb` file. `port` 0 picks a free one. `run` names the run that the address opens, by default the newest;
    `browser` opens it in one. Nothing is written beside the trace. Raises ViewError if there is no such trace or run,
    the one that is asked for or all are damaged, the port cannot be used, or TensorBoard ends by itself.
    """
    files = find_runs(trace_dir)
    run = None if run is None else spelt(run)
    if run is not None and run not in files:
        raise ViewError(f"{trace_dir} holds no run {run!r}; its runs are: {', '.join(files)}")
    _check_installed()
    server_process.check_port(port)
    with server_process.until_stopped(), server_process.temporary_directory() as mirror:
        files = _link(mirror, files, run)
        # -P: a file of the user's that is called tensorboard.py must not be imported, nor ours of that name.
        command = [sys.executable, "-P", str(_SERVER), str(mirror), server_process.HOST, str(port)]
        with server_process.server("TensorBoard", command, mirror) as (process, address):
            query = urlencode({"run": run or [*files][-1], "tag": "trace_viewer@"}, safe="@")
            address = f"{address}?{query}#profile"
            print(
                f"Serving {safe(str(name or trace_dir))} in TensorBoard: {address}\nPress Ctrl-C to stop.",
                flush=True,
            )
            with server_process.open_address(address, browser):
                server_process.wait("TensorBoard", process, mirror)


def find_runs(path: Path) -> dict[str, list[Path]]:
    """The trace files of each run, by the name that TensorBoard gives to it; the newest run is the last.

    A run below a subdirectory of the logdir is called `subdirectory/run`. A run directory or a file may stand anywhere.
    What is called like a trace file and is none, such as a link to nothing or a pipe, is passed over.
    """
    path = resolved(path) if ".." in path.parts else path.absolute()
    if path.is_file() and path.name.endswith(SUFFIX):
        return {spelt(path.parent.name): [path]}
    if files := sorted(filter(Path.is_file, path.glob(f"*{SUFFIX}"))):
        return {spelt(path.name): files}
    runs: dict[str, list[Path]] = {}
    logdir = Path(re.sub("/plugins(/profile)?$", "", str(path)))
    found = filter(Path.is_file, logdir.glob(f"**/plugins/profile/*/*{SUFFIX}"))
    for file in sorted(found, key=lambda file: file.stat().st_mtime_ns):
        name = spelt(str(file.parents[3].relative_to(logdir) / file.parent.name))
        runs[name] = [*runs.pop(name, []), file]
    if not runs:
        raise ViewError(_reason(path))
    return runs


def _reason(path: Path) -> str:
    """Why TensorBoard has nothing to show, and what can show it."""
    if not path.exists():
        return f"{path} is not a trace (it does not exist): give a directory that `tracekit capture` wrote"
    from tracekit.readers import find, formats

    try:
        file_type = find.find(path).file_type
    except TracekitError:
        return (
            f"{path} is not a trace (no plugins/profile/<run>/*{SUFFIX} is below it): give a directory that "
            "`tracekit capture` wrote"
        )
    if file_type is formats.XSPACE:
        return (
            f"{path} cannot be shown in TensorBoard, which reads uncompressed files named *{SUFFIX}: decompress or "
            "rename it"
        )
    return (
        f"{path} is a trace in {file_type.title} format, which TensorBoard cannot show: "
        "`tracekit view --perfetto` can, and so can the page of `tracekit report`"
    )


def _check_installed() -> None:
    """Raise ViewError where TensorBoard or its plugin is not installed; neither is imported."""
    try:
        if all(importlib.util.find_spec(name) for name in ("tensorboard", "tensorboard_plugin_profile")):
            return
    except ModuleNotFoundError:
        pass
    raise ViewError(
        "TensorBoard and its profile plugin are not installed in this Python; `pip install tensorboard "
        "tensorboard-plugin-profile` brings them. `tracekit view --perfetto` and the page of `tracekit report` need "
        "neither."
    )


def _link(mirror: Path, runs: dict[str, list[Path]], asked_for: str | None = None) -> dict[str, list[Path]]:
    """Make `mirror` a logdir of links to the trace files, and of copies of those that name files elsewhere; gives the
    runs that are there. One that is damaged is left out and told, unless it was `asked_for` or is the last that is
    left: then raises ViewError.

    A file may change while it is served. Where the server may write elsewhere then, all are copied.
    """
    with ThreadPoolExecutor(1) as thread:  # which it leaves confined
        is_confined = thread.submit(tensorboard_server.confine, str(mirror)).result()
    served: dict[str, list[Path]] = {}
    damaged: list[ViewError] = []
    for run, files in runs.items():
        subdirectory, _, name = run.rpartition("/")
        directory = mirror / subdirectory / "plugins" / "profile" / name
        directory.mkdir(parents=True)
        try:
            for file in files:
                content, is_changed = without_directories(file)
                if is_confined and not is_changed:
                    (directory / spelt(file.name)).symlink_to(file.resolve())
                else:
                    (directory / spelt(file.name)).write_bytes(content)
            served[run] = files
        except ViewError as error:
            shutil.rmtree(directory)
            damaged.append(error)
            if run == asked_for:
                raise
    if damaged and not served:
        raise damaged[-1]
    for reason in damaged:
        tell(f"tracekit: {reason}. Its run is not served.")
    return served
