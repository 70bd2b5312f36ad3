"""The server of the Perfetto UI, run as a script in a process of its own: the UI's files and one directory of traces.

Usage: file_server.py UI DIRECTORY HOST PORT. UI is a directory or a zip file, traces lie in DIRECTORY/trace. Prints its
address, whose path is a token that only those know who were given it, and serves until standard input ends; then it
removes DIRECTORY. It imports only the standard library, so that it answers at once.
"""

import mimetypes
import os
import posixpath
import secrets
import shutil
import sys
import threading
import zipfile
import zlib
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

# The UI asks Google for statistics and for a script of its own staff, even when it is served from this machine; with
# this policy the browser asks nobody but this server.
_POLICY = "; ".join(
    [
        "default-src 'self' blob: data:",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "frame-ancestors 'none'",
    ]
)
# What is raised where there is no such file, or a damaged one of a zip file.
_ABSENT = (KeyError, OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)


class Files:
    """The files of a directory, or of a zip file."""

    def __init__(self, place: Path) -> None:
        self.root = place.resolve()
        self.zip = None if self.root.is_dir() else zipfile.ZipFile(self.root)

    def open(self, name: str) -> tuple[BinaryIO, int]:
        """The file and its size; raises OSError or KeyError if it is not one of these."""
        if self.zip is not None:
            data = self.zip.read(name)
            return BytesIO(data), len(data)
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root) or not path.is_file():
            raise FileNotFoundError(name)
        file = path.open("rb")
        return file, os.fstat(file.fileno()).st_size


class Handler(BaseHTTPRequestHandler):
    """GET and HEAD of /<token>/ui/... and /<token>/trace/..."""

    def __init__(self, *args: object, token: str, places: dict[str, Files]) -> None:
        self.token = token
        self.places = places
        self.server: ThreadingHTTPServer
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Send a file, or to HEAD its headers."""
        # A page elsewhere whose name was made to mean this machine must not read the trace (DNS rebinding).
        names = _own_names(self.server.server_port)
        origin = self.headers.get("Origin")
        hosts = self.headers.get_all("Host") or [""]  # of several, programs on the way may have believed another one
        if len(hosts) > 1 or hosts[0] not in names or origin not in (None, *(f"http://{name}" for name in names)):
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        try:
            asked = urlsplit(self.path)
            if asked.netloc not in ("", hosts[0]):  # a whole address counts before the header (RFC 9112, 3.2.2)
                self.send_error(HTTPStatus.FORBIDDEN)
                return
            path = posixpath.normpath(unquote(asked.path)).lstrip("/")
            token, _, rest = path.partition("/")
            top, _, name = rest.partition("/")
            if not secrets.compare_digest(token.encode(), self.token.encode()):
                raise KeyError(token)
            file, size = self.places[top].open(name or "index.html")
        except _ABSENT:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        with file:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", _type(name or "index.html"))
            self.send_header("Content-Length", str(size))
            self.end_headers()
            if self.command == "GET":
                shutil.copyfileobj(file, self.wfile)

    do_HEAD = do_GET

    def end_headers(self) -> None:
        """Add what every answer has."""
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _own_names(port: int) -> list[str]:
    """What this machine is called in addresses of the port; browsers leave out that of HTTP (RFC 9110, 7.2)."""
    ends = [f":{port}", ""] if port == 80 else [f":{port}"]
    return [f"{host}{end}" for host in ("127.0.0.1", "localhost") for end in ends]


def _type(name: str) -> str:
    if name.endswith(".gz"):
        return "application/gzip"
    # Tables of types differ between machines; without this one WebAssembly does not stream.
    return "application/wasm" if name.endswith(".wasm") else mimetypes.guess_type(name)[0] or "application/octet-stream"


def main(ui: str, directory: str, host: str, port: str) -> None:
    """Serve until standard input ends, then remove `directory` and exit."""
    try:
        places = {"ui": Files(Path(ui)), "trace": Files(Path(directory, "trace"))}
        token = secrets.token_urlsafe(24)
        server = ThreadingHTTPServer((host, int(port)), partial(Handler, token=token, places=places))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://{host}:{server.server_port}/{token}", flush=True)
        os.read(0, 1)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
