"""A file that stands in a run twice, under whatever name and packed or not, is read once, and a note names both."""

import gzip
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import tracekit
from tests.programs import ROOT
from tests.readers.nsys.exports import as_parquet
from tests.test_executors import Called
from tracekit import executors
from tracekit.errors import TracekitError
from tracekit.readers import copies, read
from tracekit.readers.find import find

DATA = ROOT / "tests" / "data"
XSPACE = (DATA / "generated" / "gpu.xplane.pb").read_bytes()
CHROME = gzip.decompress((DATA / "generated" / "gpu.trace.json.gz").read_bytes())
SQLITE = (DATA / "generated" / "gpu.sqlite").read_bytes()
KINETO = [gzip.decompress((DATA / f"generated/kineto/rank{rank}.pt.trace.json.gz").read_bytes()) for rank in range(2)]
MXNET = gzip.decompress((DATA / "mxnet_two_contexts_threaded.json.gz").read_bytes())


def write(folder: Path, **files: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def packed(content: bytes, level: int = 9) -> bytes:
    return gzip.compress(content, level, mtime=0)


@pytest.mark.parametrize(
    ("content", "name", "copy"),
    [
        (XSPACE, "vm.xplane.pb", "vm (1).xplane.pb"),
        (XSPACE, "vm.xplane.pb", "vm.bak.xplane.pb"),
        (XSPACE, "vm.xplane.pb", "vm copy.xplane.pb.gz"),
        (CHROME, "vm.trace.json.gz", "vm (1).trace.json.gz"),
        (MXNET, "prof.json", "another.json"),
        (SQLITE, "r.sqlite", "r (1).sqlite"),
    ],
)
def test_a_copy_is_skipped_and_told_and_is_no_loss(tmp_path, content, name, copy):
    contents = {each: packed(content) if each.endswith(".gz") else content for each in (name, copy)}
    alone = read(write(tmp_path / "alone", **{name: contents[name]}))
    both = read(write(tmp_path / "both", **contents), strict=True)
    assert both.notes == (f"Skipped {copy}, which is a copy of {name}: it is not counted twice.", *alone.notes)
    assert both.events.equals(alone.events)
    assert len(both.losses) == 0


def test_a_link_to_a_file_is_a_copy_and_the_name_of_a_rank_is_preferred(tmp_path):
    folder = write(tmp_path / "run", **{f"rank{rank}.json": kineto for rank, kineto in enumerate(KINETO)})
    (folder / "last.json").symlink_to("rank1.json")
    origin = copies.read_once(find(folder))
    assert [file.name for file in origin.files] == ["rank0.json", "rank1.json"]
    assert origin.notes == ("Skipped last.json, which is a copy of rank1.json: it is not counted twice.",)


def test_of_many_copies_one_is_named(tmp_path):
    files = {f"vm{at}.xplane.pb": XSPACE for at in range(5)}
    assert copies.read_once(find(write(tmp_path / "run", **files))).notes == (
        "Skipped 4 copies of other files, such as vm1.xplane.pb of vm0.xplane.pb: none is counted twice.",
    )


@pytest.mark.parametrize(
    ("first", "second", "is_copy"),
    [
        (b"x" * 99_999 + b"y", b"x" * 99_999 + b"z", False),
        (b"x" * 99_999, b"x" * 99_999, True),
        (packed(b"x" * 99_999, 1), packed(b"x" * 99_999), True),
        (packed(b"x" * 99_999 + b"y"), packed(b"x" * 99_999 + b"z"), False),
        (packed(b"x" * 99_999 + b"y"), b"x" * 99_999 + b"z", False),
        (b"x" * 1000 + b"y" + b"x" * 98_999, b"x" * 100_000, False),
        # Agrees in all samples, and in all that the end of a packed file tells.
        (b"x" * 60_000 + b"y" + b"x" * 39_999, b"x" * 100_000, False),
        # What is cut or damaged is like no other file.
        (packed(b"x" * 99)[:-9], packed(b"x" * 99)[:-9], False),
        (b"\x1f\x8b", b"\x1f\x8b", False),
    ],
)
def test_only_what_is_the_same_byte_for_byte_is_a_copy(tmp_path, first, second, is_copy):
    folder = write(tmp_path / "run", a=first, b=second, **{"vm.xplane.pb": XSPACE})
    origin = find(folder)
    origin = type(origin)(folder, (folder / "a", folder / "b"), origin.file_type, origin.runs)
    assert (len(copies.read_once(origin).files) == 1) is is_copy


def test_files_of_one_size_are_not_read_whole_where_samples_differ(tmp_path, monkeypatch):
    monkeypatch.setattr(copies, "_digest", lambda file: pytest.fail(f"{file} is read whole"))
    files = {f"vm{at}.xplane.pb": XSPACE[:-4] + b"\x01%03d" % at for at in range(9)}
    assert len(copies.read_once(find(write(tmp_path / "plain", **files))).files) == 9
    files = {f"{name}.gz": packed(content) for name, content in files.items()}
    assert len(copies.read_once(find(write(tmp_path / "packed", **files))).files) == 9


def test_directories_that_stand_for_files_are_copies_where_all_their_tables_are(tmp_path):
    run = write(tmp_path / "run")
    folders = [as_parquet(DATA / "generated" / "gpu.sqlite", run / f"rank{rank}_pqtdir") for rank in range(3)]
    (other,) = folders[2].glob("CUPTI_ACTIVITY_KIND_KERNEL.parquet")
    other.write_bytes((folders[2] / "StringIds.parquet").read_bytes())
    origin = copies.read_once(find(run))
    assert [file.parent.name for file in origin.files] == ["rank0_pqtdir", "rank2_pqtdir"]


@pytest.mark.parametrize("cut", [XSPACE[: len(XSPACE) // 2], XSPACE[:-2]])
def test_of_one_name_packed_and_not_the_whole_file_is_read(tmp_path, cut):
    alone = read(write(tmp_path / "alone", **{"vm.xplane.pb": XSPACE}))
    for files in (
        {"vm.xplane.pb": XSPACE, "vm.xplane.pb.gz": packed(cut)},
        {"vm.xplane.pb": cut, "vm.xplane.pb.gz": packed(XSPACE)},
        {"vm.xplane.pb": XSPACE, "vm.xplane.pb.gz": packed(XSPACE)[: -len(XSPACE) // 40]},
    ):
        trace = read(write(tmp_path / "run", **files), strict=True)
        whole = "vm.xplane.pb" if files["vm.xplane.pb"] == XSPACE else "vm.xplane.pb.gz"
        assert trace.events.equals(alone.events)
        start = f"Of vm.xplane.pb and vm.xplane.pb.gz, which have one name, {whole} was read: the other is "
        assert trace.notes[0] in (f"{start}cut off.", f"{start}damaged.")
        assert trace.notes[1:] == alone.notes


def test_two_whole_files_of_one_name_are_both_read(tmp_path):
    trace = read(write(tmp_path / "run", **{"a.pt.trace.json": KINETO[0], "a.pt.trace.json.gz": packed(KINETO[1])}))
    assert not any("which have one name" in note for note in trace.notes)
    assert len(trace.hosts) == 2


@pytest.mark.parametrize("made", [lambda: Called(), lambda: executors.Processes(2)])
def test_copies_are_read_once_by_executors_and_from_a_store(tmp_path, made):
    files = {"vm.xplane.pb": XSPACE, "vm (1).xplane.pb": XSPACE, "b.xplane.pb": XSPACE[:-2]}
    folder = write(tmp_path / "run", **files)
    note = "Skipped vm (1).xplane.pb, which is a copy of vm.xplane.pb: it is not counted twice."
    with made() as executor:
        assert note in read(folder, executor=executor).notes
    MemoryFileSystem.store.clear()
    store = fsspec.filesystem("memory")
    for name, content in files.items():
        store.pipe(f"/copies/{name}", content)
    with made() as executor:
        for each in (executor, None):
            trace = tracekit.read("memory://copies", executor=each)
            assert note in trace.notes
            assert set(trace.hosts["host"]) == {"vm", "b"}
    MemoryFileSystem.store.clear()


def test_the_summary_of_a_directory_with_a_copy_is_that_of_its_one_host(tmp_path):
    folder = write(tmp_path / "run", **{"vm.xplane.pb": XSPACE, "vm (1).xplane.pb": XSPACE})
    summary = tracekit.summarise(folder, tmp_path / "out" / "vm.tracekit.zip")
    assert read(summary).events.equals(read(folder).events)
    write(folder, **{"b.xplane.pb": XSPACE[:-2]})
    with pytest.raises(TracekitError, match="holds the files of 2 hosts or ranks"):
        tracekit.summarise(folder, tmp_path / "out" / "vm.tracekit.zip")
