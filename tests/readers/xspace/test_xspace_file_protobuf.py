"""The decoder against protobuf: everything it keeps, in every file at hand, read plain and compiled."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest

from tests import traces
from tracekit.readers.xspace import xspace_file

ROOT = Path(__file__).parents[3]
WHOLE = (
    *(f"generated/{name}.xplane.pb" for name in ("gpu", "rocm", "tpu")),
    *(f"xplane/{name}" for name in ("jax-8xMI300X", "jax-MI300X-gemm", "tf-8xV100", "tpu-v6e-4chip")),
    "xplane/xla-2xGTX1080Ti",
)

# Every field once, and what real files surprise with: lines out of order, numbers at their limits, ids beyond int32, a
# stat twice on one event, two ids with one name, no metadata, aggregated events, a zero that is there.
AWKWARD = r"""
planes {
  id: -3 name: "/device:GPU:0"
  lines {
    id: -559038734 display_id: 7 name: "Steps" display_name: "Steps of the run" timestamp_ns: 1738771704500592093
    duration_ps: 9223372036854775807
    events {
      metadata_id: 2 offset_ps: 9007199254740993 duration_ps: 1
      stats { metadata_id: 1 uint64_value: 18446744073709551615 }
    }
    events {
      metadata_id: 1 num_occurrences: 12 duration_ps: 5
      stats { metadata_id: 2 double_value: -0.1 } stats { metadata_id: 4294967299 str_value: "\303\244" }
    }
    events { metadata_id: 5000000000 offset_ps: 0 duration_ps: -1 }
    events {
      stats { metadata_id: 1 int64_value: -9223372036854775808 } stats { metadata_id: 1 int64_value: -1 }
      stats { metadata_id: 2 double_value: inf } stats { metadata_id: 4294967299 ref_value: 5 }
      stats { metadata_id: 77 } stats { metadata_id: 6 int64_value: 0 } stats { metadata_id: 7 bytes_value: "\000\377" }
    }
  }
  lines { id: 9223372036854775807 }
  event_metadata {
    key: 1
    value {
      id: 1 name: "kernel" display_name: "k" metadata: "\001\002" child_id: 2
      stats { metadata_id: 4294967299 ref_value: 5 } stats { metadata_id: 2 double_value: 2.5 }
    }
  }
  event_metadata { key: 2 value { id: 2 name: "\342\202\254" } }
  event_metadata { key: -1 value { id: -1 name: "unused" } }
  stat_metadata { key: 1 value { id: 1 name: "correlation_id" description: "joins" } }
  stat_metadata { key: 2 value { id: 2 name: "occupancy" } }
  stat_metadata { key: 4294967299 value { id: 4294967299 name: "hlo_op" } }
  stat_metadata { key: 5 value { id: 5 name: "fusion.1" } }
  stat_metadata { key: 6 value { id: 6 name: "zero" } }
  stat_metadata { key: 7 value { id: 7 name: "correlation_id" } }
  stats { metadata_id: 2 double_value: 0.5 } stats { metadata_id: 6 uint64_value: 3352320000000 }
}
planes { name: "/host:CPU" }
errors: "an error" errors: "another" warnings: "a warning" hostnames: "host"
"""


@pytest.fixture(scope="module")
def benchmarks():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module("make_xspace"), importlib.import_module("xspace_proto")


@pytest.fixture(scope="module")
def oracle(benchmarks):
    return benchmarks[1].xspace_class()


@pytest.fixture(params=["plain", "compiled"])
def loop(request, monkeypatch):
    if request.param == "compiled":
        pytest.importorskip("numba", reason="numba is not installed: large files are read by the plain function, too")
    monkeypatch.setattr(xspace_file, "COMPILE_FROM_BYTES", 0 if request.param == "compiled" else 2**62)


def _stats(message, names):
    """The stats of an event, its metadata or a plane, by name; the last of a name counts, and refs are resolved."""
    return {
        names.get(stat.metadata_id, str(stat.metadata_id)): value
        for stat in message.stats
        for value in [_value(stat, names)]
    }


def _value(stat, names):
    kind = stat.WhichOneof("value")
    value = None if kind is None else getattr(stat, kind)
    return names.get(value, "") if kind == "ref_value" else value


def _columns(plane):
    """What protobuf finds: a tuple an event, and its wanted stats as (field number, value)."""
    names = {key: metadata.name for key, metadata in plane.stat_metadata.items()}
    numbers = {"double_value": 2, "uint64_value": 3, "int64_value": 4, "str_value": 5, "bytes_value": 6, "ref_value": 7}
    events, stats = [], []
    for at, line in enumerate(plane.lines):
        for event in line.events:
            many = event.num_occurrences if event.WhichOneof("data") == "num_occurrences" else -1
            events.append((at, event.metadata_id, event.offset_ps, event.duration_ps, many))
            event_stats = {}
            for stat in event.stats:
                kind = stat.WhichOneof("value")
                if kind is not None and stat.metadata_id in names:
                    event_stats[names[stat.metadata_id]] = numbers[kind], getattr(stat, kind)
            stats.append(event_stats)
    return events, stats


def _decoded_stats(plane):
    """What the decoder kept, in the same form."""
    stats = [{} for _ in range(len(plane))]
    for stat, row in plane.stat_rows.items():
        for at in np.flatnonzero(plane.types[row]):
            kind, value = int(plane.types[row, at]), int(plane.values[row, at])
            if kind == xspace_file.DOUBLE:
                value = float(np.array([value]).view(np.float64)[0])
            elif kind in (xspace_file.STR, xspace_file.BYTES):
                value = plane.bytes_at(value)
                value = value.decode() if kind == xspace_file.STR else value
            elif kind == xspace_file.UINT64:
                value &= 2**64 - 1
            stats[at][stat] = kind, value
    return stats


def _assert_same(path, oracle):
    """The decoder and protobuf agree on everything that the decoder keeps of the file."""
    truth = oracle.FromString(path.read_bytes())
    stat_names = {metadata.name for plane in truth.planes for metadata in plane.stat_metadata.values()}
    space = xspace_file.read(path, tuple(stat_names))
    assert (space.errors, space.warnings, space.hostnames) == (truth.errors, truth.warnings, truth.hostnames)
    assert [plane.name for plane in space.planes] == [plane.name for plane in truth.planes]
    for plane, expected in zip(space.planes, truth.planes, strict=True):
        names = {key: metadata.name for key, metadata in expected.stat_metadata.items()}
        assert plane.stat_names == names
        own_stats = _stats(expected, names)
        assert plane.stats == {key: own_stats[key] for key in own_stats if key in names.values()}
        assert plane.lines == [
            xspace_file.Line(line.id, line.name, line.display_name, line.timestamp_ns, line.duration_ps)
            for line in expected.lines
        ]
        assert set(plane.event_ids) == set(expected.event_metadata)
        assert {key: plane.event_metadata(key) for key in plane.event_ids} == {
            key: xspace_file.EventMetadata(metadata.name, metadata.display_name, _stats(metadata, names))
            for key, metadata in expected.event_metadata.items()
        }
        events, stats = _columns(expected)
        columns = (plane.line, plane.metadata_id, plane.offset_ps, plane.duration_ps, plane.occurrences)
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == events
        assert _decoded_stats(plane) == stats
        assert list(plane.names) == [
            expected.event_metadata[key].name if key in expected.event_metadata else "" for _, key, *_ in events
        ]


@pytest.mark.parametrize("case", traces.cases(*WHOLE))
def test_a_whole_file_reads_as_protobuf_reads_it(case, loop, oracle):
    _assert_same(traces.xspace(case), oracle)


def test_a_generated_gpu_file_reads_as_protobuf_reads_it(loop, oracle, benchmarks, tmp_path):
    path = tmp_path / "host.xplane.pb"
    benchmarks[0].write(path, 4_000)
    _assert_same(path, oracle)


def test_an_awkward_file_reads_as_protobuf_reads_it(loop, oracle, tmp_path):
    from google.protobuf import text_format

    path = tmp_path / "host.xplane.pb"
    path.write_bytes(text_format.Parse(AWKWARD, oracle()).SerializeToString())
    _assert_same(path, oracle)


def test_the_protobuf_class_has_the_schema_that_jax_has(oracle):
    from google.protobuf import text_format, unknown_fields
    from jax.profiler import ProfileData

    message = oracle.FromString(ProfileData.text_proto_to_serialized_xspace(AWKWARD))
    assert message == text_format.Parse(AWKWARD, oracle())
    assert len(unknown_fields.UnknownFieldSet(message)) == 0
    assert math.isinf(message.planes[0].lines[0].events[3].stats[2].double_value)
