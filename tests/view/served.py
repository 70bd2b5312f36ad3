"""A viewer in a process of its own, as `tracekit view` starts it, and what the tests ask of it."""

import hashlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "tests" / "data" / "view-cpu.xplane.pb"
# A proxy of the environment must not stand between a test and its own machine.
HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))

# Serves a trace in the Perfetto UI; the export is told apart from real ones by its size.
PERFETTO = """
import sys
from pathlib import Path
from tracekit.view import perfetto_ui
perfetto_ui.serve(Path(sys.argv[1]), lambda trace, run, file: file.write_bytes(b"trace"), ui=Path(sys.argv[2]), port=0,
                  browser=sys.argv[3:] == ["browser"])
"""


@contextmanager
def serving(
    *command: str, temporary: Path, run: tuple[str, ...] = ("-m", "tracekit", "view"), **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a viewer with TMPDIR `temporary`; yields its process and the address that it prints."""
    with subprocess.Popen(
        [sys.executable, *run, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(temporary)} | environment,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "http://" in line, (line, process.communicate())
            assert process.stdout.readline() == "Press Ctrl-C to stop.\n"
            yield process, line[line.index("http://") :].strip()
        finally:
            process.kill()


def listens(address: str, host: str = "127.0.0.1") -> bool:
    try:
        socket.create_connection((host, urlsplit(address).port), timeout=2).close()
    except OSError:
        return False
    return True


def wait_until(condition) -> bool:
    end = time.monotonic() + 10
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def make_ui(at: Path) -> Path:
    """A directory laid out as a build of the Perfetto UI, which shows how many bytes the trace has that it is given.

    Like the real one, it takes the trace from `#!/?url=`, loads its code from the directory of its version, and asks
    other servers for a script and for the trace processor of this machine.
    """
    version = at / "v1.2-abc"
    version.mkdir(parents=True)
    (at / "index.html").write_text(
        """<!doctype html><html><body data-perfetto_version='{"stable":"v1.2-abc"}'><script>
        const version = JSON.parse(document.body.dataset['perfetto_version']).stable;
        const script = document.createElement('script');
        script.src = version + '/frontend_bundle.js';
        document.head.append(script);
        </script></body></html>"""
    )
    (version / "frontend_bundle.js").write_text(
        """
        (async () => {
          const blocked = [];
          document.addEventListener('securitypolicyviolation', told => blocked.push(new URL(told.blockedURI).host));
          const outside = document.createElement('script');
          outside.src = 'https://storage.cloud.google.com/script.js';
          const failed = new Promise(done => { outside.onerror = done; });
          document.head.append(outside);
          await failed;
          await fetch('http://127.0.0.1:9001/status').catch(() => null);
          const url = decodeURIComponent(location.hash.split('url=')[1]);
          const trace = await (await fetch(url)).arrayBuffer();
          document.title = `${trace.byteLength} bytes; blocked: ${blocked.join(' ')}`;
        })();"""
    )
    (version / "engine.wasm").write_bytes(b"\0asm")
    return at


def contents(directory: Path) -> dict[str, tuple[int, str]]:
    """Name, time of change and bytes of everything in a directory."""
    return {
        str(p.relative_to(directory)): (
            p.lstat().st_mtime_ns,
            hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else "",
        )
        for p in directory.rglob("*")
    }
