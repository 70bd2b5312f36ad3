"""Where files about a trace go, and that none is ever half-written."""

from pathlib import Path

import pytest

from tracekit.errors import TracekitError
from tracekit.files import refuse_inside, replaced, trace_name


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
