"""The server of TensorBoard, run as a script in a process of its own: its core, and the profile plugin on one trace.

Usage: tensorboard_server.py MIRROR HOST PORT. Prints its address, and serves until standard input ends; then it removes
MIRROR. The plugin reads any directory that a request names, connects to any profiler that a request names, and asks
nobody who they are (XProf 2.24, profile_plugin.py); so this lets through only what reads the mirror, from a browser
that was given the address. It writes where names in a trace say: Linux's Landlock lets it write in MIRROR alone, and
connect to nobody by TCP (https://docs.kernel.org/userspace-api/landlock.html; Linux 5.13, for connections 6.7).
"""

import ctypes
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

Answer = Iterable[bytes]
# https://peps.python.org/pep-3333/: environ, start_response.
Application = Callable[[dict[str, Any], Callable[..., Any]], Answer]

# What connects elsewhere, and what writes where a request says.
_REFUSED = ("/capture_profile", "/generate_cache")
# TensorBoard's page asks for its fonts without the prefix that it is given.
_FONTS = "/font-roboto/"
# What a request may say beside `run`: what becomes part of the name of a file in the mirror, and what never does.
_NAMES = frozenset(("device_type", "host", "hosts", "module_name", "program_id", "tag"))
_OTHERS = (
    "duration_ms end_time_ms event_name format full_dma graph_width group_by memory_space merge_fusion names_only "
    "node_name perfetto refresh_suggestion resolution search_metadata search_prefix show_metadata start_time_ms tqx "
    "type unique_id use_saved_result view_memory_allocation_timeline"
)

# From linux/landlock.h, by the version of Landlock that has them first: what changes files and directories, of which a
# file by itself can only be written and cut short; and what connects. From linux/prctl.h: no program gains rights.
_CHANGES = {1: 0b1_1111_1111_0010, 2: 1 << 13, 3: 1 << 14}
_CHANGES_OF_FILE = 1 << 1 | 1 << 14
_CONNECTS = {4: 1 << 1}
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH, _NO_NEW_PRIVILEGES = 1, 1, 38


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64), ("handled_access_net", ctypes.c_uint64))


class _Rule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def _landlock(number: int, *args: Any) -> int:
    """The answer of a system call; -1 where there is none, or it refuses."""
    if sys.platform != "linux":
        return -1
    long_args = (ctypes.c_long(each) if isinstance(each, int) else each for each in args)
    return int(ctypes.CDLL(None).syscall(ctypes.c_long(number), *long_args))


def landlock_version() -> int:
    """The version of Landlock that this kernel has, at most 0 where it has none."""
    return _landlock(_CREATE_RULESET, None, 0, _VERSION)


def confine(directory: str) -> bool:
    """Let this thread, and those that it will start, write files in `directory` alone and connect to nobody by TCP;
    whether the kernel sees to the first."""
    version = landlock_version()
    changes, connects = (sum(bit for first, bit in of.items() if first <= version) for of in (_CHANGES, _CONNECTS))
    rights = _Ruleset(changes, connects)
    size = ctypes.sizeof(_Ruleset) if connects else ctypes.sizeof(ctypes.c_uint64)
    ruleset = _landlock(_CREATE_RULESET, ctypes.byref(rights), size, 0) if changes else -1
    if ruleset < 0:
        return False
    try:
        for place, allowed in ((directory, changes), (os.devnull, changes & _CHANGES_OF_FILE)):
            opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
            try:
                if _landlock(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(_Rule(allowed, opened)), 0) < 0:
                    return False
            finally:
                os.close(opened)
        ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return _landlock(_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def on_this_machine(application: Application, prefix: str) -> Application:
    """Answer only GET and HEAD that name this machine, and come from no page of another one (DNS rebinding, CSRF).

    The application answers below `prefix` alone; fonts are found without it.
    """

    def guarded(environ: dict[str, Any], start_response: Callable[..., Any]) -> Answer:
        names = _own_names(environ["SERVER_PORT"])
        origin = environ.get("HTTP_ORIGIN")
        if environ.get("HTTP_HOST") not in names or origin not in (None, *(f"http://{name}" for name in names)):
            return _refuse(HTTPStatus.FORBIDDEN, start_response)
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _refuse(HTTPStatus.METHOD_NOT_ALLOWED, start_response)
        if environ["PATH_INFO"].startswith(_FONTS):
            environ = {**environ, "PATH_INFO": prefix + environ["PATH_INFO"]}
        return application(environ, start_response)

    return guarded


def _own_names(port: str) -> list[str]:
    """What this machine is called in addresses of the port; browsers leave out that of HTTP (RFC 9110, 7.2)."""
    ends = [f":{port}", ""] if port == "80" else [f":{port}"]
    return [f"{host}{end}" for host in ("127.0.0.1", "localhost") for end in ends]


def in_mirror(application: Application, runs: frozenset[str]) -> Application:
    """Let a page of the plugin read the `runs` alone; parameters that nobody knows do not reach it."""

    def guarded(environ: dict[str, Any], start_response: Callable[..., Any]) -> Answer:
        known = []
        for name, value in parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True):
            if (name == "run" and value not in runs) or (name in _NAMES and ("/" in value or "\\" in value)):
                return _refuse(HTTPStatus.NOT_FOUND, start_response)
            if name == "run" or name in _NAMES or name in _OTHERS.split():
                known.append((name, value))
        return application({**environ, "QUERY_STRING": urlencode(known)}, start_response)

    return guarded


def _refuse(status: HTTPStatus, start_response: Callable[..., Any]) -> Answer:
    start_response(f"{status.value} {status.phrase}", [("Content-Type", "text/plain"), ("Content-Length", "0")])
    return []


def runs_in(mirror: Path) -> frozenset[str]:
    """The names that the plugin gives to the runs: of a run below a subdirectory `subdirectory/run`."""
    found = (run for run in mirror.glob("**/plugins/profile/*") if run.is_dir())
    return frozenset(str(run.parents[2].relative_to(mirror) / run.name) for run in found)


def main(mirror: str, host: str, port: str) -> None:
    """Serve until standard input ends, then remove `mirror` and exit."""
    # The threads that answer are those of this one, which is confined; this process is not: it removes the mirror.
    with ThreadPoolExecutor(1) as server:
        print(server.submit(_launch, mirror, host, port).result(), flush=True)
        os.read(0, 1)
        shutil.rmtree(mirror, ignore_errors=True)
        os._exit(0)


def _launch(mirror: str, host: str, port: str) -> str:
    """Let TensorBoard serve the mirror, confined to it; the address."""
    if not confine(mirror) and any(path.is_symlink() for path in Path(mirror).rglob("*")):
        raise RuntimeError("the kernel does not confine this process, and the trace is not copied")
    from tensorboard import program
    from tensorboard.plugins.core import core_plugin

    # Imported here because TensorBoard would only log that it cannot load it.
    from tensorboard_plugin_profile import profile_plugin_loader

    runs = runs_in(Path(mirror))
    prefix = f"/{secrets.token_urlsafe(24)}"  # which only those know who were given the address

    class Profile(profile_plugin_loader.ProfilePluginLoader):  # type: ignore[misc]
        """The plugin without its dangerous pages; what it records would vanish with the mirror anyway."""

        def load(self, context: Any) -> Any:
            context.hide_capture_profile_button = True
            plugin = super().load(context)
            pages = plugin.get_plugin_apps()
            allowed = {route: in_mirror(page, runs) for route, page in pages.items() if route not in _REFUSED}
            plugin.get_plugin_apps = lambda: allowed
            return plugin

    class Server(program.WerkzeugServer):  # type: ignore[misc]
        def __init__(self, application: Application, flags: object) -> None:
            super().__init__(on_this_machine(application, prefix), flags)

    server = program.TensorBoard([core_plugin.CorePluginLoader(), Profile()], server_class=Server)
    # The fast loader is off: it is one more process, for event files, which a trace has not.
    flags = {"logdir": mirror, "host": host, "port": port, "path_prefix": prefix}
    flags |= {"load_fast": "false", "reload_interval": "0"}
    server.configure(argv=["tensorboard", *(f"--{name}={value}" for name, value in flags.items())])
    return str(server.launch())


if __name__ == "__main__":
    main(*sys.argv[1:])
