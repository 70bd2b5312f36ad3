"""The readers that `read_xspace.py` compares: `python benchmarks/read_peers.py PEER WARM_UP_FILE FILE` measures one.

Each runs in a process of its own: XProf and pandas crash in one process, and peak memory is the process's. Neither its
imports nor a first call, on the warm-up file, are in its time. The garbage collector is off for all: the peers that
build a million objects are faster for it. Prints one JSON object.
"""

import gc
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

# What a peer returns when its imports are done: the call to time, and how to count the events in what that returns.
Peer = tuple[Callable[[Path], Any], Callable[[Any], int]]

# What a Trace takes from the events' stats.
_TRACE_STATS = (
    "correlation_id",
    "hlo_op",
    "hlo_module",
    "program_id",
    "run_id",
    "group_id",
    "memcpy_details",
    "step_num",
)


def tracekit_columns(stats: tuple[str, ...] = _TRACE_STATS) -> Peer:
    """Start, duration, name and `stats` of all events of all planes, as arrays and categoricals."""
    import numpy as np

    from tracekit.readers.xspace import xspace_file

    def column(plane: xspace_file.ProtobufPlane, stat: str) -> Any:
        row = plane.stat_rows[stat]
        kinds = np.bincount(plane.types[row], minlength=8)
        if kinds[xspace_file.STR] or kinds[xspace_file.REF]:
            return plane.strings(stat)
        return plane.values[row].view(np.float64) if kinds[xspace_file.DOUBLE] else plane.numbers(stat)

    def read(path: Path) -> Any:
        space = xspace_file.read(path, stats)
        base_ns = min(line.timestamp_ns for plane in space.planes for line in plane.lines)
        return [
            (plane.start_ps(base_ns), plane.duration_ps, plane.names, [column(plane, stat) for stat in plane.stat_rows])
            for plane in cast(list[xspace_file.ProtobufPlane], space.planes)
        ]

    return read, lambda planes: sum(len(start_ps) for start_ps, *_ in planes)


def tracekit_every_stat() -> Peer:
    """The same with every stat that any event of the generated file has."""
    from make_xspace import SMALLEST, planes

    lines = [line for plane in planes(SMALLEST) for line in plane.lines]
    return tracekit_columns(tuple(sorted({stat.name for line in lines for stat in line.stats})))


def tracekit_trace() -> Peer:
    """The whole way to a Trace; only its device rows are counted, not its spans and launches."""
    import tracekit

    return tracekit.read, lambda trace: len(trace.events)


def profile_data(row: Callable[[Any], Any]) -> Peer:
    """`jax.profiler.ProfileData`, one `row` an event; lists of stats or a list a column took within 6 % of this."""
    from jax.profiler import ProfileData

    def read(path: Path) -> Any:
        data = ProfileData.from_file(str(path))
        return [[row(event) for event in line.events] for plane in data.planes for line in plane.lines]

    return read, lambda lines: sum(map(len, lines))


def protobuf_parse() -> Peer:
    """The protobuf class alone: the message tree, from which nothing is taken yet."""
    from xspace_proto import xspace_class

    space = xspace_class()

    def count(parsed: Any) -> int:
        return sum(len(line.events) for plane in parsed.planes for line in plane.lines)

    return lambda path: space.FromString(path.read_bytes()), count


def protobuf_iterate() -> Peer:
    """The protobuf class, iterated to start, duration, name and stats by name."""
    parse, _ = protobuf_parse()

    def stats_of(event: Any, names: dict[int, str]) -> dict[str, Any]:
        stats_by_name = {}
        for stat in event.stats:
            field = stat.WhichOneof("value")
            value = getattr(stat, field)
            stats_by_name[names[stat.metadata_id]] = names[value] if field == "ref_value" else value
        return stats_by_name

    def read(path: Path) -> Any:
        lines = []
        for plane in parse(path).planes:
            events = {key: metadata.name for key, metadata in plane.event_metadata.items()}
            stats = {key: metadata.name for key, metadata in plane.stat_metadata.items()}
            for line in plane.lines:
                base_ps = line.timestamp_ns * 1000
                lines.append(
                    [
                        (
                            base_ps + event.offset_ps,
                            event.duration_ps,
                            events[event.metadata_id],
                            stats_of(event, stats),
                        )
                        for event in line.events
                    ]
                )
        return lines

    return read, lambda lines: sum(map(len, lines))


def xprof_tool(tool: str, options: dict[str, str], mark: str) -> Peer:
    """XProf's converter; `mark` stands in its answer once for each event, and it adds derived lines of its own."""
    from xprof.convert import raw_to_tool_data

    params = {"use_saved_result": False, "trace_viewer_options": options}

    def read(path: Path) -> Any:
        answer, _ = raw_to_tool_data.xspace_to_tool_data([str(path)], tool, params)
        if not answer:
            raise RuntimeError(f"XProf's {tool} gave nothing for {path}")
        return answer

    def count(answer: Any) -> int:
        if not mark:
            return -1
        return int(answer.count(mark if isinstance(answer, str) else mark.encode()))

    return read, count


def xprof_parquet() -> Peer:
    """XProf's export of all events to a Parquet file, which is then still to be read."""
    from xprof.convert.events_db.python import pywrap_events_db_c_api

    def read(path: Path) -> Path:
        out = path.with_suffix(".parquet")
        pywrap_events_db_c_api.xspace_to_parquet(input_path=path, output_path=out)
        return out

    def count(out: Path) -> int:
        # pyarrow crashes in the process that ran the export.
        code = f"import pyarrow.parquet; print(pyarrow.parquet.read_metadata({str(out)!r}).num_rows)"
        return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

    return read, count


PEERS: dict[str, Callable[[], Peer]] = {
    "tracekit, columns": tracekit_columns,
    "tracekit, columns with every stat": tracekit_every_stat,
    "tracekit, times and names": partial(tracekit_columns, ()),
    "tracekit, Trace": tracekit_trace,
    "ProfileData, every stat": partial(profile_data, lambda at: (at.start_ns, at.duration_ns, at.name, dict(at.stats))),
    "ProfileData, times and names": partial(profile_data, lambda at: (at.start_ns, at.duration_ns, at.name)),
    "protobuf, every stat": protobuf_iterate,
    "protobuf, parse only": protobuf_parse,
    "XProf, trace viewer JSON": partial(xprof_tool, "trace_viewer", {}, '"ph": "X"'),
    "XProf, trace viewer protobuf": partial(xprof_tool, "trace_viewer", {"format": "pb"}, ""),
    "XProf, streaming trace viewer": partial(xprof_tool, "trace_viewer@", {}, '"ph":"X"'),
    "XProf, Parquet export": xprof_parquet,
}


def peak_bytes() -> int:
    """The most memory this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def measure(make: Callable[[], Peer], warm_up: Path, path: Path, *, collect: bool = False) -> dict[str, Any]:
    """Seconds of a first call, of a second one on the same file, and of the call that counts on another; the events
    that this gave, and peak memory before and after it.

    Garbage is collected meanwhile only with `collect`, as in any program: a peer then pays for the objects it makes.
    """
    try:
        read, count = make()
    except ImportError as error:
        return {"skipped": f"{error.name or error} is not installed here"}
    if not collect:
        gc.disable()
    start = time.perf_counter()
    read(warm_up)
    first = time.perf_counter() - start
    start = time.perf_counter()
    read(warm_up)
    again = time.perf_counter() - start
    if collect:
        gc.collect()
    before = peak_bytes()
    start = time.perf_counter()
    result = read(path)
    seconds = time.perf_counter() - start
    after = peak_bytes()
    return {
        "seconds": seconds,
        "first_seconds": first,
        "again_seconds": again,
        "events": count(result),
        "before_bytes": before,
        "peak_bytes": after,
    }


def main() -> None:
    """Measure the peer named on the command line, on copies: XProf writes caches beside what it reads."""
    peer, *files = sys.argv[1:]
    with tempfile.TemporaryDirectory(dir=Path(files[1]).parent) as scratch:
        copies = [Path(scratch, str(at), "host.xplane.pb") for at, _ in enumerate(files)]
        for file, copy in zip(files, copies, strict=True):
            copy.parent.mkdir()
            shutil.copyfile(file, copy)
        print(json.dumps(measure(PEERS[peer], *copies)))


if __name__ == "__main__":
    main()
