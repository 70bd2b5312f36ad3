"""Where files about a trace go, and that none is ever half-written."""

from pathlib import Path

import pytest

from tracekit.errors import TracekitError
from tracekit.files import refuse_inside, replaced, trace_name, write_all


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("traces/train-1", "train-1"),
        ("traces/train-1/plugins/profile/2026_01_01", "train-1"),
        ("traces/train-1/plugins/profile/2026_01_01/host.xplane.pb", "train-1"),
        ("somewhere/host.xplane.pb", "host"),
        ("rank0.pt.trace.json.gz", "rank0"),
        ("run.sqlite", "run"),
    ],
)
def test_a_trace_is_called_after_its_log_directory_or_its_file(path, name):
    assert trace_name(Path(path)) == name


def test_nothing_goes_into_a_traces_own_directory(tmp_path):
    log = tmp_path / "log"
    run = log / "plugins" / "profile" / "r"
    run.mkdir(parents=True)
    (run / "host.xplane.pb").touch()
    (tmp_path / "t.json").touch()
    for out, trace in [(log, log), (log / "a", log), (run / "x", run), (run / "x", run / "host.xplane.pb")]:
        with pytest.raises(TracekitError, match="lies inside the trace"):
            refuse_inside(out, trace)
    for out, trace in [(tmp_path / "out", log), (tmp_path / "log2", log), (tmp_path / "x", tmp_path / "t.json")]:
        refuse_inside(out, trace)


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "a"
    replaced(path, lambda draft: draft.write_text("new"))
    assert path.read_text() == "new"

    def broken(draft: Path) -> None:
        draft.write_text("half")
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        replaced(path, broken)
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_files_are_written_in_order_into_a_directory_that_is_made(tmp_path):
    place = tmp_path / "new" / "out"
    assert write_all(place, "The page", {"b": b"1\n", "a": b"\xff"}) == ("b", "a")
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {"a": b"\xff", "b": b"1\n"}


def test_what_cannot_be_written_leaves_the_file_that_was_there(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "b").mkdir()
    with pytest.raises(TracekitError, match=r"The page cannot be written to .*: .*b'. Give another --out"):
        write_all(tmp_path, "The page", {"b": b"new", "a": b"new"})
    assert (tmp_path / "a").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
