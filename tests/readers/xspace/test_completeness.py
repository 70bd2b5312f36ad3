"""Files cut between two planes: what is left tells that something is missing, and a whole file tells nothing."""

import pytest

from tests import traces
from tests.readers.xspaces import PlaneText, write
from tracekit.errors import TraceError
from tracekit.readers import protobuf_decoder as protobuf
from tracekit.readers import read

WHOLE = sorted(traces.DATA.glob("*.xplane.pb"))


def planes(raw):
    """Where each plane of a serialised XSpace ends."""
    return [end for number, _, _, end in protobuf.fields(raw, 0, len(raw)) if number == 1]


def told(notes):
    """The notes that say that something is missing from the file."""
    return [note for note in notes if "truncated" in note]


def cut(tmp_path, raw, end):
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(raw[:end])
    return told(read(path).notes)


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_captures_cut_between_planes_are_noted_and_whole_ones_are_not(tmp_path, path):
    raw = path.read_bytes()
    assert told(read(path).notes) == []
    for end in planes(raw)[:-1]:
        assert len(cut(tmp_path, raw, end)) == 1


@pytest.mark.parametrize(
    "case",
    traces.cases(
        *(f"generated/{name}.xplane.pb" for name in ("gpu", "rocm", "tpu")),
        *(f"xplane/{name}" for name in ("tf-8xV100", "tpu-v6e-4chip", "jax-8xMI300X", "jax-MI300X-gemm")),
        "xplane/xla-2xGTX1080Ti",
    ),
)
def test_device_traces_cut_between_planes_are_noted_and_whole_ones_are_not(tmp_path, case):
    raw = traces.xspace(case).read_bytes()
    assert told(traces.trace(case).notes) == []
    # Without the last plane nothing of interest is lost: no GPU's work in the TensorFlow trace, the session in others.
    for end in planes(raw)[:-2]:
        assert cut(tmp_path, raw, end)


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_a_file_cut_inside_a_plane_is_an_error(tmp_path, path):
    raw = path.read_bytes()
    for end in planes(raw):
        with pytest.raises(TraceError, match="is corrupt or not an XSpace"):
            cut(tmp_path, raw, end - 1)


def test_launches_that_no_gpu_answers_are_noted_but_not_the_few_at_the_end_of_a_profile(tmp_path):
    host = PlaneText("/host:CPU")
    plane = PlaneText("/device:GPU:0")
    for at in range(10):
        host.event("t", "cuLaunchKernel", at, 1, correlation_id=at)
        host.event("t", "cuStreamSynchronize", at, 1, correlation_id=100 + at)
        if at < 9:
            plane.event("Stream #1(Compute)", "k", 10 + at, 1, correlation_id=at)
    path = tmp_path / "h.xplane.pb"
    assert read(write(path, host.text() + plane.text())).notes == ()
    assert read(write(path, host.text())).notes == (
        "10 of 10 kernels and copies that the host launched are missing (the file contains no GPU plane): the file is "
        "truncated, or the profiler dropped them.",
    )


def test_a_host_that_ran_programs_on_a_tpu_lacks_its_plane(tmp_path):
    host = PlaneText("/host:CPU").event("t", "tpu::System::Execute=>IssueSequencedEvent", 0, 1)
    assert "contains no TPU plane" in read(write(tmp_path / "h.xplane.pb", host.text())).notes[0]
