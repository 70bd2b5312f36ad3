"""The writers that `export.py` compares: `python benchmarks/export_peers.py PEER FILE OUT` measures one.

Each runs in a process of its own: it reads the XSpace FILE (which is timed apart), writes OUT, and prints one JSON
object. Memory is what writing needs beside what was read.
"""

import gzip
import importlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from analyse_peers import reset_peak, status
from read_peers import xprof_tool

import tracekit

_COLUMNS = ("device", "lane", "kind", "name", "hlo_op", "hlo_module", "category", "direction")
_NUMBERS = ("bytes", "correlation_id", "run_id")


@dataclass(frozen=True)
class Peer:
    """Its package, how it reads the file, and how it writes what it has read to a path."""

    package: str
    read: Callable[[Path], Any]
    write: Callable[[Any, Path], object]


def perfetto(trace: Any, out: Path) -> None:
    """tracekit's file for Perfetto: rows, host calls, flows, steps, collectives, counters; compressed."""
    from tracekit.export.export import export

    (path,) = export(trace, out.with_suffix(".pftrace.gz"))
    Path(path).replace(out)


def protobuf(trace: Any, out: Path) -> None:
    """Perfetto's own protos filled in Python: a packet a row with the same data; no host calls, counters or flows."""
    protos = importlib.import_module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    events = trace.events
    columns = [
        [None if null else value for value, null in zip(events[column].tolist(), events[column].isna(), strict=True)]
        for column in (*_COLUMNS, *_NUMBERS)
    ]
    ids: dict[str, int] = {}
    with gzip.GzipFile(out, "wb", compresslevel=2, mtime=0) as file:
        batch = protos.Trace()
        for place, (start, end, *values) in enumerate(
            zip(events["start_ps"].tolist(), events["end_ps"].tolist(), *columns, strict=True)
        ):
            packet = batch.packet.add(timestamp=start // 1000, trusted_packet_sequence_id=1, sequence_flags=2)
            event = packet.gpu_render_stage_event
            event.event_id, event.duration = place + 1, end // 1000 - start // 1000
            event.hw_queue_iid = ids.setdefault(f"{values[0]} {values[1]}", len(ids) + 1)
            event.stage_iid = ids.setdefault(f"{values[2]}: {values[3]}", len(ids) + 1)
            for key, value in zip((*_COLUMNS, *_NUMBERS)[2:], values[2:], strict=True):
                if value is not None and key != "name":
                    event.extra_data.add(name=key, value=str(value))
            if len(batch.packet) == 10_000:
                file.write(batch.SerializeToString())
                batch = protos.Trace()
        for name, iid in ids.items():
            packet = batch.packet.add(trusted_packet_sequence_id=1, sequence_flags=1 if iid == 1 else 2)
            packet.interned_data.gpu_specifications.add(iid=iid, name=name)
        file.write(batch.SerializeToString())


def table(to: str) -> Callable[[Any, Path], None]:
    """tracekit's table of all device rows."""

    def write(trace: Any, out: Path) -> None:
        from tracekit.export import tables

        tables.write(trace, "events", out, to)

    return write


def pandas(method: str, **options: Any) -> Callable[[Any, Path], None]:
    """The same frame, written by pandas itself."""

    def write(trace: Any, out: Path) -> None:
        getattr(trace.events, method)(out, **options)

    return write


def xprof(path: Path) -> Callable[[], str | bytes]:
    """XProf's JSON for its trace viewer, which it makes while it reads: all of that counts as writing."""
    read, _ = xprof_tool("trace_viewer", {}, '"ph": "X"')
    return lambda: read(path)


def _xprof_write(make: Callable[[], str | bytes], out: Path) -> None:
    """XProf's JSON, uncompressed, which it makes while it reads the file."""
    answer = make()
    out.write_bytes(answer.encode() if isinstance(answer, str) else answer)


PEERS = {
    "tracekit, Perfetto": Peer("tracekit-jax", tracekit.read, perfetto),
    "protobuf in Python, device rows only": Peer("protobuf", tracekit.read, protobuf),
    "XProf, trace viewer JSON": Peer("xprof", xprof, _xprof_write),
    "tracekit, Parquet": Peer("tracekit-jax", tracekit.read, table("parquet")),
    "pandas.to_parquet": Peer("pandas", tracekit.read, pandas("to_parquet", index=False)),
    "tracekit, Arrow": Peer("tracekit-jax", tracekit.read, table("arrow")),
    "pandas.to_feather": Peer("pandas", tracekit.read, pandas("to_feather")),
    "tracekit, CSV": Peer("tracekit-jax", tracekit.read, table("csv")),
    "pandas.to_csv": Peer("pandas", tracekit.read, pandas("to_csv", index=False)),
    "tracekit, JSON lines": Peer("tracekit-jax", tracekit.read, table("json")),
    "pandas.to_json": Peer("pandas", tracekit.read, pandas("to_json", orient="records", lines=True)),
}


def main() -> None:
    """Measure one peer, and print its figures as JSON."""
    peer, path, out = PEERS[sys.argv[1]], Path(sys.argv[2]), Path(sys.argv[3])
    try:
        print(json.dumps(measure(peer, path, out)))
    except ImportError as error:
        print(json.dumps({"skipped": f"{error.name or error} is not installed here"}))


def measure(peer: Peer, path: Path, out: Path) -> dict[str, Any]:
    """Seconds of reading, of writing and of the processor while writing, memory in bytes, and the size of the file."""
    begun = time.perf_counter()
    trace = peer.read(path)
    read_s = time.perf_counter() - begun
    loaded = reset_peak()
    begun, cpu = time.perf_counter(), time.process_time()
    peer.write(trace, out)
    return {
        "version": metadata.version(peer.package),
        "read_s": read_s,
        "write_s": time.perf_counter() - begun,
        "cpu_s": time.process_time() - cpu,
        "growth": (status("VmHWM") or 0) - loaded if loaded else None,
        "bytes": out.stat().st_size,
    }


if __name__ == "__main__":
    main()
