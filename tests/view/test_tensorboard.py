"""`tracekit view`, over HTTP: the run and its trace are there, their directory is untouched, and nothing is left."""

import gzip
import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.view.served import CAPTURE, HTTP, contents, listens, serving
from tracekit.errors import ViewError
from tracekit.view import file_server, tensorboard, tensorboard_server


def make_logdir(at: Path, *runs: str) -> Path:
    for run in runs:
        directory = at / "plugins" / "profile" / run
        directory.mkdir(parents=True)
        shutil.copy(CAPTURE, directory / "host.xplane.pb")
    return at


def get(address: str, path: str, **query: str) -> bytes:
    url = f"{address.partition('/?')[0]}{path}?{urlencode(query)}"
    with HTTP.open(url, timeout=60) as response:
        body = response.read()
        # XProf compresses whether or not the client asked for it.
        return gzip.decompress(body) if response.headers["Content-Encoding"] == "gzip" else body


@pytest.fixture(scope="module")
def logdir(tmp_path_factory) -> Path:
    at = tmp_path_factory.mktemp("trace")
    make_logdir(at / "train", "nested")
    return make_logdir(at, "first run", "second")


@pytest.fixture(scope="module")
def address(logdir, tmp_path_factory) -> Iterator[str]:
    with serving(str(logdir), "--port", "0", temporary=tmp_path_factory.mktemp("temporary")) as (_, address):
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

    def test_fonts_are_found_where_the_page_looks_for_them(self, address):
        page = get(address, "/").decode()
        font = re.search(r"/font-roboto/\w+\.woff2", page)[0]
        assert answer(f"http://{urlsplit(address).netloc}{font}") == 200

    def test_only_loopback_is_bound(self, address):
        assert listens(address)
        # A server on all interfaces would answer here too.
        assert not listens(address, "127.0.0.2")


def answer(url: str, data: bytes | None = None, **headers: str) -> int:
    try:
        with HTTP.open(urllib.request.Request(url, data, headers), timeout=60) as response:
            return response.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory) -> Path:
    """A trace that is not served."""
    return make_logdir(tmp_path_factory.mktemp("elsewhere"), "secret")


class TestLetsNobodyIn:
    """What XProf 2.24 does of itself, asked directly: it reads and writes anywhere, and connects to anybody."""

    @pytest.mark.parametrize("page", ["runs", "run_tools", "hosts", "module_list", "data", "data_csv"])
    def test_a_request_reads_nothing_that_is_not_served_and_writes_nothing_there(self, address, elsewhere, page):
        before = contents(elsewhere)
        profile = elsewhere / "plugins" / "profile"
        start = f"{address.partition('/?')[0]}/data/plugin/profile/{page}?tag=trace_viewer@&host=host"
        for query in (
            {"run": "secret", "run_path": str(profile)},
            {"run": "secret", "session_path": str(profile / "secret")},
            {"run": f"{'../' * 20}{str(elsewhere)[1:]}/secret"},
            {"run": str(elsewhere / "secret")},
        ):
            assert answer(f"{start}&{urlencode(query)}") == 404, query
        assert contents(elsewhere) == before

    def test_the_served_runs_are_all_that_a_named_directory_brings(self, address, elsewhere):
        runs = get(address, "/data/plugin/profile/runs", run_path=str(elsewhere / "plugins" / "profile"))
        assert json.loads(runs) == ["train/nested", "second", "first run"]

    @pytest.mark.parametrize("name", ["host", "hosts", "module_name", "program_id", "tag"])
    @pytest.mark.parametrize("value", ["../x", "/etc/x", "..\\x", "a,../x"])
    def test_no_name_leads_out_of_the_run(self, name, value):
        asked, statuses = [], []
        page = tensorboard_server.in_mirror(lambda environ, _: asked.append(environ["QUERY_STRING"]), frozenset({"r"}))
        page({"QUERY_STRING": urlencode({"run": "r", name: value})}, lambda status, _: statuses.append(status))
        assert (asked, statuses) == ([], ["404 Not Found"])
        page({"QUERY_STRING": urlencode({"run": "r", name: "jit_f(1)", "event_name": "a/b", "run_path": "/"})}, None)
        assert asked == [urlencode({"run": "r", name: "jit_f(1)", "event_name": "a/b"})]

    @pytest.mark.parametrize("prefix", ["", "/experiment/defaultExperimentId"])
    def test_it_connects_to_nobody(self, address, prefix):
        with socket.create_server(("127.0.0.1", 0)) as other:
            other.settimeout(0.5)
            query = urlencode({"service_addr": f"127.0.0.1:{other.getsockname()[1]}", "duration": 10})
            start = f"{address.partition('/?')[0]}{prefix}/data/plugin/profile"
            assert answer(f"{start}/capture_profile?{query}") == 404
            with pytest.raises(TimeoutError):
                other.accept()

    def test_a_page_of_another_machine_is_not_answered(self, address):
        start = address.partition("?")[0]
        port = urlsplit(address).port
        assert answer(start, Host=f"localhost:{port}", Origin=f"http://localhost:{port}") == 200
        assert answer(start, Host=f"evil.example:{port}") == 403
        assert answer(start, Origin="http://evil.example") == 403
        assert answer(start, Origin="null") == 403
        assert answer(start, data=b"x") == 405

    def test_who_was_not_given_the_address_gets_nothing(self, address):
        assert answer(address.partition("?")[0]) == 200
        for path in ("/", "/data/plugin/profile/runs", f"/{'x' * 32}/data/plugin/profile/runs"):
            assert answer(f"http://{urlsplit(address).netloc}{path}") == 404

    def test_no_command_line_tells_the_address(self, logdir, tmp_path):
        with serving(str(logdir), "--port", "0", "--no-browser", temporary=tmp_path) as (_, address):
            token = urlsplit(address).path.strip("/")
            lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
        assert len(token) == 32
        assert not [line for line in lines if token.encode() in line]


def test_a_signal_ends_tensorboard_in_the_middle_of_its_work_and_a_named_run_is_the_one_that_opens(tmp_path, logdir):
    with serving(str(logdir), "--run", "first run", "--port", "0", temporary=tmp_path) as (process, address):
        assert parse_qs(urlsplit(address).query)["run"] == ["first run"]
        get(address, "/data/plugin/profile/data", run="second", tag="trace_viewer@", host="host")
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=10) == ("", "")
        assert process.returncode == 0
        assert not listens(address)
        assert list(tmp_path.iterdir()) == []


def test_a_server_that_cannot_start_is_one_sentence(tmp_path, monkeypatch):
    broken = tmp_path / "modules" / "tensorboard"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('no wheel for this machine')")
    monkeypatch.setenv("PYTHONPATH", str(broken.parent))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ViewError, match=r"cannot start \(exit code 1; ImportError: no wheel for this machine\)"):
        tensorboard.serve(CAPTURE, port=0)
    assert [p.name for p in tmp_path.iterdir()] == ["modules"]


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
    files = tensorboard.find_runs(logdir / name)
    assert list(files) == runs
    at = {"train/nested": logdir / "train/plugins/profile/nested", "nested": logdir / "train/plugins/profile/nested"}
    assert files == {run: [at.get(run, logdir / "plugins/profile" / run) / "host.xplane.pb"] for run in runs}


def test_a_run_directory_named_dot_has_its_real_name(logdir, monkeypatch):
    monkeypatch.chdir(logdir / "plugins" / "profile" / "second")
    assert list(tensorboard.find_runs(Path())) == ["second"]


@pytest.mark.parametrize("name", ["empty", "missing", "note.txt"])
def test_what_is_no_trace_is_refused_in_one_sentence(tmp_path, name):
    (tmp_path / "empty" / "plugins" / "profile" / "run").mkdir(parents=True)
    (tmp_path / "note.txt").write_text("no trace")
    with pytest.raises(ViewError, match=rf"{name} is not a trace .*tracekit capture"):
        tensorboard.serve(tmp_path / name)


def test_a_pipe_and_a_link_to_nothing_beside_a_run_are_passed_over(tmp_path):
    profile = make_logdir(tmp_path, "r") / "plugins" / "profile"
    for run in ("r", "s"):
        (profile / run).mkdir(exist_ok=True)
        os.mkfifo(profile / run / "pipe.xplane.pb")
        (profile / run / "link.xplane.pb").symlink_to("nothing")
    assert tensorboard.find_runs(tmp_path) == {"r": [profile / "r" / "host.xplane.pb"]}


def test_a_run_given_as_the_directory_above_has_its_real_name(logdir, monkeypatch):
    (run := logdir / "plugins" / "profile" / "second" / "sub").mkdir(exist_ok=True)
    monkeypatch.chdir(run)
    assert [*tensorboard.find_runs(Path(".."))] == ["second"]
    run.rmdir()


def test_names_that_are_no_text_are_spelt(tmp_path):
    run = os.fsdecode(b"r\xff")
    logdir = make_logdir(tmp_path / "trace", run)
    with serving(str(logdir), "--port", "0", "--run", run, temporary=tmp_path) as (_, address):
        assert parse_qs(urlsplit(address).query)["run"] == [r"r\xff"]
        assert json.loads(get(address, "/data/plugin/profile/hosts", run=r"r\xff", tag="trace_viewer@"))


def test_an_unknown_run_is_refused_with_the_runs_that_there_are(logdir):
    with pytest.raises(ViewError, match=r"holds no run 'gone'; its runs are: train/nested, first run, second$"):
        tensorboard.serve(logdir, run="gone")


@pytest.fixture
def half_broken(tmp_path) -> Path:
    """A logdir whose newest run is damaged."""
    at = make_logdir(tmp_path / "log", "whole", "broken")
    broken = at / "plugins" / "profile" / "broken" / "host.xplane.pb"
    broken.write_bytes(broken.read_bytes()[:1000])
    for mirror in ("mirror", "other"):
        (tmp_path / mirror).mkdir()
    return at


def test_a_damaged_run_beside_others_is_left_out_and_named(half_broken, capsys):
    mirror = half_broken.parent / "mirror"
    assert [*tensorboard._link(mirror, tensorboard.find_runs(half_broken), None)] == ["whole"]
    assert tensorboard_server.runs_in(mirror) == {"whole"}
    said = capsys.readouterr().err
    assert "broken/host.xplane.pb is damaged at byte" in said
    assert said.endswith("Its run is not served.\n")
    assert [*tensorboard._link(half_broken.parent / "other", tensorboard.find_runs(half_broken), "whole")] == ["whole"]


def test_a_damaged_run_that_is_asked_for_or_the_only_one_is_refused(half_broken):
    runs = tensorboard.find_runs(half_broken)
    with pytest.raises(ViewError, match=r"is damaged at byte .*, and TensorBoard reads whole files only"):
        tensorboard._link(half_broken.parent / "mirror", runs, "broken")
    with pytest.raises(ViewError, match="is damaged at byte"):
        tensorboard._link(half_broken.parent / "other", {"broken": runs["broken"]}, None)


@pytest.mark.parametrize(("port", "is_named"), [("80", True), ("6006", False)])
def test_the_port_of_http_need_not_be_named(port, is_named):
    def answered(environ, start_response):
        start_response("200 OK", [])
        return []

    statuses = []
    environ = {"SERVER_PORT": port, "HTTP_HOST": "127.0.0.1", "REQUEST_METHOD": "GET", "PATH_INFO": "/"}
    tensorboard_server.on_this_machine(answered, "/")(environ, lambda status, headers: statuses.append(status[:3]))
    assert statuses == ["200" if is_named else "403"]
    assert ("localhost" in file_server._own_names(int(port))) == is_named


def test_a_trace_of_another_profiler_is_answered_with_what_can_show_it(tmp_path):
    file = tmp_path / "worker0.pt.trace.json"
    file.write_text('{"traceEvents": [{"ph": "X", "name": "k", "ts": 1, "dur": 1, "pid": 0, "tid": 0}]}')
    message = (
        "is a trace in Chrome JSON format, which TensorBoard cannot show: `tracekit view --perfetto` can, and so can "
    )
    with pytest.raises(ViewError, match=message):
        tensorboard.serve(file)


def test_an_xspace_of_another_name_is_to_be_renamed(tmp_path):
    shutil.copy(CAPTURE, tmp_path / "host.xplane")
    with pytest.raises(
        ViewError, match=r"which reads uncompressed files named \*\.xplane\.pb: decompress or rename it$"
    ):
        tensorboard.serve(tmp_path / "host.xplane")


@pytest.mark.parametrize("missing", ["tensorboard", "tensorboard_plugin_profile"])
def test_without_tensorboard_or_its_plugin_the_sentence_names_what_to_install(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(
        ViewError, match="not installed in this Python; `pip install tensorboard tensorboard-plugin-pro"
    ):
        tensorboard.serve(CAPTURE, port=0)
