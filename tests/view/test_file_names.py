"""A trace whose programs are called like files elsewhere: what TensorBoard is given of it, and what it writes."""

import os
import shutil
import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.readers.xspaces import metadata_plane, write
from tests.view.served import HTTP, serving
from tracekit.errors import ViewError
from tracekit.readers.protobuf_decoder import Fields
from tracekit.view import tensorboard, tensorboard_server
from tracekit.view.file_names import without_directories


def field(number: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return bytes([number << 3 | 2]) + length + content


def names(content: bytes) -> set[str]:
    """The names in the metadata of programs, and of their modules."""
    found = set()
    for plane in Fields(content, (0, len(content))).messages(1):
        for entry in Fields(content, plane).messages(4):
            for metadata in Fields(content, entry).messages(2):
                found.add(Fields(content, metadata).text(2))
                for stat in Fields(content, metadata).messages(5):
                    for proto in Fields(content, stat).messages(6):
                        for each in Fields(content, proto).messages(1):
                            found.add(Fields(content, each).text(1))
    return found


def trace(path, name, inner):
    return write(path, metadata_plane(**{name: field(1, inner.encode())}))


def test_what_separates_directories_is_replaced_in_the_names_of_programs_and_nothing_else(tmp_path):
    path = trace(tmp_path / "h.xplane.pb", "../../up_7", "..\\/x/jit_f")
    content, is_changed = without_directories(path)
    assert is_changed
    assert names(content) == {".._.._up(7)", "..__x_jit_f"}
    assert len(content) == path.stat().st_size
    path = trace(tmp_path / "i.xplane.pb", "jit_f_7", "jit_f")
    assert without_directories(path) == (path.read_bytes(), False)


def test_a_proto_that_is_damaged_is_none_and_a_damaged_file_is_refused(tmp_path):
    path = write(tmp_path / "h.xplane.pb", metadata_plane(jit_f_7=field(1, b"../x") + b"\x0b"))
    assert b"../x" not in without_directories(path)[0]
    whole = trace(tmp_path / "i.xplane.pb", "../x_7", "x").read_bytes()
    # A group, which others pass over, before all that stands behind it.
    path.write_bytes(b"\x0b\x0c" + whole)
    with pytest.raises(ViewError, match=r"h\.xplane\.pb is damaged at byte 1"):
        without_directories(path)


def test_a_name_is_found_whose_tag_has_bytes_too_many(tmp_path):
    overlong = b"\x8a\x80\x80\x80\x10"  # of which XProf takes 32 bits: field 1
    module = overlong + bytes([4]) + b"../x"
    path = write(tmp_path / "h.xplane.pb", metadata_plane(jit_f_7=field(1, module)))
    assert b"../x" not in without_directories(path)[0]


def test_tensorboard_writes_no_program_outside_of_the_mirror(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "temporary").mkdir()
    upwards = f"{'../' * 20}{str(elsewhere)[1:]}/program"
    path = trace(tmp_path / "h.xplane.pb", f"{upwards}_7", upwards)
    with serving(str(path), "--port", "0", temporary=tmp_path / "temporary") as (_, address):
        tools = f"{address.partition('/?')[0]}/data/plugin/profile/run_tools?run={tmp_path.name}"
        assert HTTP.open(tools, timeout=60).status == 200
        written = [each.name for each in (tmp_path / "temporary").glob("**/*.hlo_proto.pb")]
    assert written
    assert not list(elsewhere.iterdir())


@pytest.mark.skipif(tensorboard_server.landlock_version() < 4, reason="this kernel has no Landlock that knows sockets")
class TestConfined:
    def test_a_trace_that_becomes_another_one_while_it_is_served_writes_nothing_outside_of_the_mirror(self, tmp_path):
        (elsewhere := tmp_path / "elsewhere").mkdir()
        (temporary := tmp_path / "temporary").mkdir()
        upwards = f"{'../' * 20}{str(elsewhere)[1:]}/program"
        path = trace(tmp_path / "h.xplane.pb", "jit_f_7", "jit_f")
        hostile = trace(elsewhere / "h.xplane.pb", f"{upwards}_7", upwards).read_bytes()
        shutil.rmtree(elsewhere)
        elsewhere.mkdir()
        with serving(str(path), "--port", "0", temporary=temporary) as (_, address):
            path.write_bytes(hostile)
            tools = f"{address.partition('/?')[0]}/data/plugin/profile/run_tools?run={tmp_path.name}"
            HTTP.open(tools, timeout=60)
            (link,) = temporary.glob("*/plugins/profile/*/h.xplane.pb")
            assert link.is_symlink()
        assert not list(elsewhere.iterdir())

    def test_a_confined_thread_writes_in_its_directory_alone_and_connects_to_nobody(self, tmp_path):
        (inside := tmp_path / "inside").mkdir()
        (outside := tmp_path / "outside").mkdir()
        (outside / "old").write_text("old")
        with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor(1) as confined:
            assert confined.submit(tensorboard_server.confine, str(inside)).result()
            for allowed in (lambda: (inside / "new").write_text("new"), lambda: Path(os.devnull).write_text("new")):
                confined.submit(allowed).result()
            assert confined.submit((outside / "old").read_text).result() == "old"
            for refused in (
                lambda: (outside / "new").write_text("new"),
                lambda: (outside / "new").mkdir(),
                lambda: (outside / "old").write_text("new"),
                lambda: os.truncate(outside / "old", 0),
                (outside / "old").unlink,
                lambda: (outside / "old").rename(inside / "old"),
                lambda: (outside / "link").symlink_to("old"),
                lambda: tempfile.mkstemp(dir=outside),
                lambda: socket.create_connection(other.getsockname()),
            ):
                with pytest.raises(OSError, match=r"Permission denied|cross-device"):
                    confined.submit(refused).result()
        (outside / "new").write_text("this thread may")
        assert (outside / "old").read_text() == "old"


def test_without_landlock_all_files_are_copied(tmp_path, monkeypatch):
    path = trace(tmp_path / "h.xplane.pb", "jit_f_7", "jit_f")
    for is_link in (False, True):
        monkeypatch.setattr(tensorboard_server, "confine", lambda _, is_link=is_link: is_link)
        (mirror := tmp_path / str(is_link)).mkdir()
        tensorboard._link(mirror, {"r": [path]})
        assert (mirror / "plugins/profile/r/h.xplane.pb").is_symlink() == is_link
        assert (mirror / "plugins/profile/r/h.xplane.pb").read_bytes() == path.read_bytes()
