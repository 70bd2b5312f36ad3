"""`tracekit view`, over HTTP: the run and its trace are there, their directory is untouched, and nothing is left."""

import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tracekit.errors import ViewError
from tracekit.view import _runs, view

CAPTURE = Path(__file__).parent / "data" / "view-cpu.xplane.pb"
ROOT = Path(__file__).parents[1]
# A proxy of the environment must not stand between a test and its own machine.
HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def make_logdir(at: Path, *runs: str) -> Path:
    for run in runs:
        directory = at / "plugins" / "profile" / run
        directory.mkdir(parents=True)
        shutil.copy(CAPTURE, directory / "host.xplane.pb")
    return at


@contextmanager
def serving(path: Path, temporary: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `tracekit view` on a free port; yields its process and the address that it prints."""
    with subprocess.Popen(
        [sys.executable, "-m", "tracekit", "view", str(path), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(temporary)},
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "http://" in line, (line, process.communicate())
            assert process.stdout.readline() == "Press Ctrl-C to stop.\n"
            yield process, line[line.index("http://") :].strip()
        finally:
            process.kill()


def get(address: str, path: str, **query: str) -> bytes:
    url = f"http://{urlsplit(address).netloc}{path}?{urlencode(query)}"
    with HTTP.open(url, timeout=60) as response:
        body = response.read()
        # XProf compresses whether or not the client asked for it.
        return gzip.decompress(body) if response.headers["Content-Encoding"] == "gzip" else body


def listens(address: str, host: str = "127.0.0.1") -> bool:
    try:
        socket.create_connection((host, urlsplit(address).port), timeout=2).close()
    except OSError:
        return False
    return True


def contents(directory: Path) -> dict[str, int]:
    return {str(p.relative_to(directory)): p.lstat().st_mtime_ns for p in directory.rglob("*")}


def wait_until(condition) -> bool:
    end = time.monotonic() + 10
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(scope="module")
def logdir(tmp_path_factory) -> Path:
    at = tmp_path_factory.mktemp("trace")
    make_logdir(at / "train", "nested")
    return make_logdir(at, "first run", "second")


@pytest.fixture(scope="module")
def address(logdir, tmp_path_factory) -> Iterator[str]:
    with serving(logdir, tmp_path_factory.mktemp("temporary")) as (_, address):
        yield address


class TestServed:
    def test_address_opens_the_newest_run_in_the_trace_viewer(self, address):
        parts = urlsplit(address)
        assert (parts.scheme, parts.hostname, parts.fragment) == ("http", "127.0.0.1", "profile")
        assert parse_qs(parts.query) == {"run": ["second"], "tag": ["trace_viewer@"]}

    def test_page_is_tensorboard_with_the_profile_plugin(self, address):
        assert b"<title>TensorBoard</title>" in get(address, "/")
        plugin = json.loads(get(address, "/data/plugins_listing"))["profile"]
        assert plugin["enabled"] is True

    def test_every_run_and_its_host_is_listed(self, address):
        assert json.loads(get(address, "/data/plugin/profile/runs")) == ["train/nested", "second", "first run"]
        query = {"run": "first run", "tag": "trace_viewer@"}
        assert json.loads(get(address, "/data/plugin/profile/hosts", **query)) == [{"hostname": "host"}]

    def test_trace_viewer_gets_the_events_and_the_trace_directory_stays_as_it_was(self, address, logdir):
        before = contents(logdir)
        assert "trace_viewer@" in json.loads(get(address, "/data/plugin/profile/run_tools", run="second"))
        query = {"run": "second", "tag": "trace_viewer@", "host": "host"}
        trace = json.loads(get(address, "/data/plugin/profile/data", **query))
        assert "both" in [event.get("name") for event in trace["traceEvents"]]
        assert get(address, "/data/plugin/profile/module_list", run="second").startswith(b"jit__lambda")
        assert contents(logdir) == before

    def test_capture_button_is_hidden_since_what_it_records_would_vanish(self, address):
        assert json.loads(get(address, "/data/plugin/profile/config"))["hideCaptureProfileButton"] is True

    def test_only_loopback_is_bound(self, address):
        assert listens(address)
        # A server on all interfaces would answer here too.
        assert not listens(address, "127.0.0.2")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_ends_it_cleanly_and_leaves_nothing(tmp_path, logdir, number):
    with serving(logdir, tmp_path) as (process, address):
        get(address, "/data/plugin/profile/data", run="second", tag="trace_viewer@", host="host")
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
        assert (process.returncode, out, err) == (0, "", "")
        assert not listens(address)
        assert list(tmp_path.iterdir()) == []


def test_a_killed_view_takes_tensorboard_and_its_files_with_it(tmp_path, logdir):
    with serving(logdir, tmp_path) as (process, address):
        process.kill()
        assert wait_until(lambda: not listens(address))
        assert wait_until(lambda: list(tmp_path.iterdir()) == [])


def test_a_server_that_cannot_start_is_one_sentence(tmp_path, monkeypatch):
    broken = tmp_path / "modules" / "tensorboard"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('no wheel for this machine')")
    monkeypatch.setenv("PYTHONPATH", str(broken.parent))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ViewError, match=r"cannot start \(exit code 1; ImportError: no wheel for this machine\)"):
        view(CAPTURE, port=0)
    assert [p.name for p in tmp_path.iterdir()] == ["modules"]


def test_a_taken_port_says_what_to_type(logdir):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ViewError, match=rf"^port {port} cannot be used \(Address already in use\): .* --port"):
            view(logdir, port=port)


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("", ["train/nested", "first run", "second"]),
        ("plugins/profile", ["train/nested", "first run", "second"]),
        ("train", ["nested"]),
        ("plugins/profile/first run", ["first run"]),
        ("plugins/profile/first run/host.xplane.pb", ["first run"]),
    ],
    ids=["logdir", "its plugins/profile", "subdirectory", "run directory", "file"],
)
def test_logdir_run_directory_and_file_are_all_taken_and_the_newest_run_is_last(logdir, name, runs):
    found = _runs(logdir / name)
    assert list(found) == runs
    at = {"train/nested": logdir / "train/plugins/profile/nested", "nested": logdir / "train/plugins/profile/nested"}
    assert found == {run: [at.get(run, logdir / "plugins/profile" / run) / "host.xplane.pb"] for run in runs}


def test_a_run_directory_named_dot_has_its_real_name(logdir, monkeypatch):
    monkeypatch.chdir(logdir / "plugins" / "profile" / "second")
    assert list(_runs(Path())) == ["second"]


@pytest.mark.parametrize("name", ["empty", "missing", "note.txt"])
def test_what_is_no_trace_is_refused_in_one_sentence(tmp_path, name):
    (tmp_path / "empty" / "plugins" / "profile" / "run").mkdir(parents=True)
    (tmp_path / "note.txt").write_text("no trace")
    with pytest.raises(ViewError, match=rf"{name} is not a trace .*tracekit capture"):
        view(tmp_path / name)
