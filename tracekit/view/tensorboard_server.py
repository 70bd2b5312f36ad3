"""The server of TensorBoard, run as a script in a process of its own: its core, and the profile plugin on one trace.

Usage: tensorboard_server.py MIRROR HOST PORT. Prints its address, and serves until standard input ends; then it removes
MIRROR. The plugin reads any directory that a request names, connects to any profiler that a request names, and asks
nobody who they are (XProf 2.24, profile_plugin.py); so this lets through only what reads the mirror, from a browser
that was given the address.
"""

import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable
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


def on_this_machine(application: Application, prefix: str) -> Application:
    """Answer only GET and HEAD that name this machine, and come from no page of another one (DNS rebinding, CSRF).

    The application answers below `prefix` alone; fonts are found without it.
    """

    def guarded(environ: dict[str, Any], start_response: Callable[..., Any]) -> Answer:
        names = [f"{host}:{environ['SERVER_PORT']}" for host in ("127.0.0.1", "localhost")]
        origin = environ.get("HTTP_ORIGIN")
        if environ.get("HTTP_HOST") not in names or origin not in (None, *(f"http://{name}" for name in names)):
            return _refuse(HTTPStatus.FORBIDDEN, start_response)
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _refuse(HTTPStatus.METHOD_NOT_ALLOWED, start_response)
        if environ["PATH_INFO"].startswith(_FONTS):
            environ = {**environ, "PATH_INFO": prefix + environ["PATH_INFO"]}
        return application(environ, start_response)

    return guarded


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
    print(server.launch(), flush=True)
    os.read(0, 1)
    shutil.rmtree(mirror, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
