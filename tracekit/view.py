"""Serve a trace in TensorBoard with the profile plugin, on loopback only.

TensorBoard runs in a process of its own. XProf's converters are native code: on a broken trace they can end their
process, they cannot be interrupted, and a later import of pyarrow beside them has crashed the interpreter. What that
process serves is a temporary directory of links to the trace, because XProf writes its caches beside what it reads.
"""

import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from urllib.parse import urlencode

from tracekit.errors import ViewError

_HOST = "127.0.0.1"
_SUFFIX = ".xplane.pb"

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


def view(trace_dir: str | Path, *, port: int = 6006) -> None:
    """Serve the trace until Ctrl-C or SIGTERM, and print the address that opens its newest run in the trace viewer.

    Takes a logdir (all its runs are served), a run directory, or one `.xplane.pb` file. `port` 0 picks a free one.
    Nothing is written beside the trace. Raises ViewError if there is no trace, the port cannot be used, or TensorBoard
    ends by itself.
    """
    runs = _runs(Path(trace_dir))
    _check_port(port)
    with _until_stopped(), _mirror(runs) as mirror, _server(mirror, port) as (server, address):
        query = urlencode({"run": [*runs][-1], "tag": "trace_viewer@"}, safe="@")
        print(f"Serving {trace_dir} in TensorBoard: {address}?{query}#profile\nPress Ctrl-C to stop.", flush=True)
        server.wait()
        raise ViewError(f"TensorBoard ended by itself ({_ending(server, mirror)}); start it again with `tracekit view`")


def _runs(path: Path) -> dict[str, list[Path]]:
    """Return the trace files of each run, by the name that TensorBoard gives to it; the newest run is the last.

    A run below a subdirectory of the logdir is called `subdirectory/run`. A run directory or a file may stand anywhere.
    """
    path = path.absolute()
    if path.is_file() and path.name.endswith(_SUFFIX):
        return {path.parent.name: [path]}
    if files := sorted(path.glob(f"*{_SUFFIX}")):
        return {path.name: files}
    runs: dict[str, list[Path]] = {}
    logdir = Path(re.sub("/plugins(/profile)?$", "", str(path)))
    files = sorted(logdir.glob(f"**/plugins/profile/*/*{_SUFFIX}"), key=lambda file: file.stat().st_mtime_ns)
    for file in files:
        name = str(file.parents[3].relative_to(logdir) / file.parent.name)
        runs[name] = [*runs.pop(name, []), file]
    if not runs:
        found = f"no plugins/profile/<run>/*{_SUFFIX} is below it" if path.exists() else "it does not exist"
        raise ViewError(f"{path} is not a trace ({found}): give a directory that `tracekit capture` wrote")
    return runs


def _check_port(port: int) -> None:
    """Raise ViewError if the port cannot be listened on; TensorBoard says so too, but after seconds of imports."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise ViewError(
                f"port {port} cannot be used ({error.strerror}): choose another with --port; --port 0 finds a free one"
            ) from None


@contextmanager
def _until_stopped() -> Iterator[None]:
    """End the block quietly on Ctrl-C or SIGTERM; further ones are ignored, so that its clean-up is never cut short."""

    def stop(signum: int, frame: FrameType | None) -> None:
        # Not SIG_IGN: for a signal that is already on its way, Python would print a complaint.
        for number in before:
            signal.signal(number, lambda *_: None)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _mirror(runs: dict[str, list[Path]]) -> Iterator[Path]:
    """Make a temporary logdir of links to the trace files, and remove it with all that XProf wrote there."""
    mirror = Path(tempfile.mkdtemp(prefix="tracekit-view-"))
    try:
        for run, files in runs.items():
            subdirectory, _, name = run.rpartition("/")
            directory = mirror / subdirectory / "plugins" / "profile" / name
            directory.mkdir(parents=True)
            for file in files:
                (directory / file.name).symlink_to(file.resolve())
        yield mirror
    finally:
        shutil.rmtree(mirror, ignore_errors=True)


@contextmanager
def _server(mirror: Path, port: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run TensorBoard over the mirror; yields its process and its address once it listens."""
    # -P: a file of the user's that is called tensorboard.py must not be imported. A session of its own: Ctrl-C reaches
    # only this process, which ends the other.
    command = [sys.executable, "-P", "-c", _SERVER, str(mirror), _HOST, str(port)]
    with (
        _log(mirror).open("w") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        ) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            if not address:
                server.wait()
                raise ViewError(f"TensorBoard cannot start ({_ending(server, mirror)})")
            yield server, address
        finally:
            server.stdin.close()
            try:
                server.wait(timeout=3)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _log(mirror: Path) -> Path:
    return mirror / "tensorboard.log"


def _ending(server: subprocess.Popen[str], mirror: Path) -> str:
    """Return how the server ended, with the last line of its traceback if it ended by an exception."""
    if server.returncode < 0:
        return signal.Signals(-server.returncode).name
    said = _log(mirror).read_text(errors="replace").strip().splitlines()
    return "; ".join([f"exit code {server.returncode}", *said[-1:]])
