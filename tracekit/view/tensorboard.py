"""Serve a trace in TensorBoard with the profile plugin, on loopback only.

TensorBoard runs in a process of its own. XProf's converters are native code: on a broken trace they can end their
process, they cannot be interrupted, and a later import of pyarrow beside them has crashed the interpreter. What that
process serves is a temporary directory of links to the trace, because XProf writes its caches beside what it reads.
"""

import re
import sys
from pathlib import Path
from urllib.parse import urlencode

from tracekit.errors import TracekitError, ViewError
from tracekit.view import browser, serving

_SUFFIX = ".xplane.pb"
_CALLED = {"nsys": "a trace of Nsight Systems", "chrome": "a trace in Chrome JSON"}

# Standard input is the life line: it ends when the parent closes it or dies, however it dies. The plugin is imported
# here because TensorBoard would only log that it cannot load it. The fast loader is off: it is one more process, for
# event files, which a trace has not. The capture button is hidden: what it records would vanish with the mirror.
_SERVER = """
import os, shutil, sys
from tensorboard import program
from tensorboard.plugins import base_plugin
from tensorboard_plugin_profile import profile_plugin
base_plugin.TBContext.hide_capture_profile_button = True
mirror, host, port = sys.argv[1:]
server = program.TensorBoard()
flags = {"logdir": mirror, "host": host, "port": port, "load_fast": "false", "reload_interval": "0"}
server.configure(argv=["tensorboard", *(f"--{name}={value}" for name, value in flags.items())])
print(server.launch(), flush=True)
os.read(0, 1)
shutil.rmtree(mirror, ignore_errors=True)
os._exit(0)
"""


def view(trace_dir: Path, *, port: int = 6006, run: str | None = None, browse: bool = False) -> None:
    """Serve the trace until a signal stops it, and print the address that opens a run in the trace viewer.

    Takes a logdir (all its runs are served), a run directory, or one `.xplane.pb` file. `port` 0 picks a free one.
    `run` names the run that the address opens, by default the newest; `browse` opens it in a browser. Nothing is
    written beside the trace. Raises ViewError if there is no such trace or run, the port cannot be used, or TensorBoard
    ends by itself.
    """
    found = runs(trace_dir)
    if run is not None and run not in found:
        raise ViewError(f"{trace_dir} holds no run {run!r}; its runs are: {', '.join(found)}")
    serving.check_port(port)
    with serving.until_stopped(), serving.temporary() as mirror:
        _fill(mirror, found)
        # -P: a file of the user's that is called tensorboard.py must not be imported.
        command = [sys.executable, "-P", "-c", _SERVER, str(mirror), serving.HOST, str(port)]
        with serving.server("TensorBoard", command, mirror) as (process, address):
            query = urlencode({"run": run or [*found][-1], "tag": "trace_viewer@"}, safe="@")
            address = f"{address}?{query}#profile"
            print(f"Serving {trace_dir} in TensorBoard: {address}\nPress Ctrl-C to stop.", flush=True)
            with browser.opened(address, browse):
                serving.wait("TensorBoard", process, mirror)


def runs(path: Path) -> dict[str, list[Path]]:
    """The trace files of each run, by the name that TensorBoard gives to it; the newest run is the last.

    A run below a subdirectory of the logdir is called `subdirectory/run`. A run directory or a file may stand anywhere.
    """
    path = path.absolute()
    if path.is_file() and path.name.endswith(_SUFFIX):
        return {path.parent.name: [path]}
    if files := sorted(path.glob(f"*{_SUFFIX}")):
        return {path.name: files}
    found: dict[str, list[Path]] = {}
    logdir = Path(re.sub("/plugins(/profile)?$", "", str(path)))
    files = sorted(logdir.glob(f"**/plugins/profile/*/*{_SUFFIX}"), key=lambda file: file.stat().st_mtime_ns)
    for file in files:
        name = str(file.parents[3].relative_to(logdir) / file.parent.name)
        found[name] = [*found.pop(name, []), file]
    if not found:
        raise ViewError(_nothing(path))
    return found


def _nothing(path: Path) -> str:
    """Why TensorBoard has nothing to show, and what can show it."""
    if not path.exists():
        return f"{path} is not a trace (it does not exist): give a directory that `tracekit capture` wrote"
    from tracekit.readers import find

    try:
        form = find.find(path).format
    except TracekitError:
        return (
            f"{path} is not a trace (no plugins/profile/<run>/*{_SUFFIX} is below it): give a directory that "
            "`tracekit capture` wrote"
        )
    if form == "xplane":
        return f"{path} cannot be shown in TensorBoard, which wants unpacked files that end in {_SUFFIX}: rename it"
    return (
        f"{path} is {_CALLED[form]}, which TensorBoard cannot show: `tracekit view --perfetto` can, "
        "and so can the page of `tracekit report`"
    )


def _fill(mirror: Path, found: dict[str, list[Path]]) -> None:
    """Make `mirror` a logdir of links to the trace files."""
    for run, files in found.items():
        subdirectory, _, name = run.rpartition("/")
        directory = mirror / subdirectory / "plugins" / "profile" / name
        directory.mkdir(parents=True)
        for file in files:
            (directory / file.name).symlink_to(file.resolve())
