"""What reading files of very many different names takes, in a process of its own.

The bound of four times the size of a file and 500 MB is broken by files of 600,000 names or more, which take long to
read; so it is what a name takes that is measured, of fewer.
"""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.readers.nsys_jax_archives import archive, table
from tracekit.columns import constant, frame, text_dtype
from tracekit.readers import summary
from tracekit.readers.summary import HostTrace
from tracekit.trace import EVENT_COLUMNS, HOST_COLUMNS, OP_COLUMNS, Trace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak in /proc")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

# A process begins with the ru_maxrss of the one that starts it, which is pytest's.
CODE = """
import re, sys, tracekit

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])

tracekit.read(sys.argv[1])
before = peak()
tracekit.read(sys.argv[2])
print(peak() - before)
"""


def peak_bytes(small, large):
    """By how much reading a large file raises the peak of a process that has read a small one."""
    command = [sys.executable, "-c", CODE, str(small), str(large)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) << 10


def test_an_archive_of_nsys_jax_takes_at_most_850_bytes_a_name(tmp_path):
    """It took 1,050 to 1,120, and of 600,000 names (11 MB) 740 MB in all, where 500 are taken now."""
    at = np.arange(200_000)
    names = [f"TSL:Thunk:#hlo_op=o{number:x}#" for number in at]
    times = {"Projected Start": 10 * at, "Projected Duration": 5, "Orig Start": 10 * at, "Orig Duration": 5}
    ranges = pd.DataFrame({"Name": names, **times, "RangeId": at + 1, "PID": 6, "TID": 7})
    large = archive(tmp_path / "large.zip", ranges.assign(ParentId=pd.array([None] * len(at), "Int64")))
    assert peak_bytes(archive(tmp_path / "small.zip", table()), large) < 850 * len(at)


def test_a_summary_takes_at_most_800_bytes_a_name_of_work_and_its_op(tmp_path):
    """It took 1,090 to 1,190, and of a million names (1 MB) 950 MB in all, where 560 are taken now."""
    small, large = (tmp_path / f"{count}.tracekit.zip" for count in (9, 300_000))
    for path, count in ((small, 9), (large, 300_000)):
        at = np.arange(count)
        texts = pd.Index([f"o{number:x}" for number in at], dtype="str")
        names = pd.Categorical.from_codes(at, dtype=text_dtype(texts))
        columns = {"host": "h", "device": "gpu:0", "lane": "s", "kind": "compute", "known_by": "name"}
        events = {name: constant(value, count) for name, value in columns.items()}
        events |= {"name": names, "hlo_op": names, "op": at, "start_ps": 10 * at, "end_ps": 10 * at + 5}
        trace = Trace(
            events=frame(EVENT_COLUMNS, events),
            ops=frame(OP_COLUMNS, {"program": constant("p", count), "hlo_op": names}),
            hosts=frame(HOST_COLUMNS, {"host": ["h"], "source": ["a"]}),
            source="a",
            format="nsys",
        )
        summary.write(HostTrace(trace), path)
    assert peak_bytes(small, large) < 800 * count


def kernels(path, count):
    """JAX's JSON of so many kernels, each of a name and an op of its own."""
    head = (
        '{"traceEvents":[{"ph":"M","pid":2,"name":"process_name","args":{"name":"/device:GPU:0"}},'
        '{"ph":"M","pid":2,"tid":13,"name":"thread_name","args":{"name":"Stream #13(Compute)"}}'
    )
    rows = (
        f',{{"ph":"X","pid":2,"tid":13,"ts":{10 * at}.25,"dur":5.5,"name":"o{at:x}","args":'
        f'{{"correlation_id":"{at + 1}","hlo_module":"jit_f","hlo_op":"o{at:x}"}}}}'
        for at in range(count)
    )
    path.write_text(head + "".join(rows) + "]}")
    return path


def test_jaxs_json_takes_at_most_1300_bytes_a_kernel_of_a_name_of_its_own(tmp_path):
    """It took 2,370, and of 500,000 names (88 MB) 1,486 MB in all, where 670 are taken now."""
    small, large = (kernels(tmp_path / f"{count}.trace.json", count) for count in (10_000, 60_000))
    assert peak_bytes(small, large) < 1_300 * 60_000


def test_an_xspace_takes_at_most_600_bytes_a_thunk_of_a_name_of_its_own(tmp_path, monkeypatch):
    """It took 940, and of 500,000 names (50 MB) 1,138 MB in all, where 610 are taken now."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    writer = importlib.import_module("xspace_writer")
    paths = []
    for count in (25_000, 60_000):
        at, ops = np.arange(count), [f"o{number:x}" for number in range(count)]
        stats = [
            writer.Stat("hlo_op", "ref", at, ops),
            writer.Stat("hlo_module", "ref", 0 * at, ["jit_f"]),
            *(writer.Stat(name, "int64", 0 * at) for name in ("run_id", "device_ordinal")),
        ]
        line = writer.Line(5, "t/1", 1000, ops, at, 10_000 * at, 0 * at + 5_000, stats)
        paths.append(tmp_path / f"{count}.xplane.pb")
        paths[-1].write_bytes(b"".join(writer.encode([writer.Plane(0, "/host:CPU", [line])], "h")))
    assert peak_bytes(*paths) < 600 * 60_000


def test_an_xspace_takes_at_most_950_bytes_a_tpus_op_of_a_name_of_its_own(tmp_path, monkeypatch):
    """It took 1,070, and of 500,000 names (53 MB) 1,083 MB in all, where 770 are taken now."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    writer = importlib.import_module("xspace_writer")
    paths = []
    for count in (25_000, 60_000):
        at = np.arange(count)
        ops = [f"%fusion.{number} = f32[8]{{0}} fusion(f32[8] %fusion.{number + 1})" for number in range(count)]
        category = writer.Stat("hlo_category", "ref", 0 * at, ["loop fusion"])
        line = writer.Line(2, "XLA Ops", 1000, ops, at, 10_000 * at, 0 * at + 5_000, [category])
        paths.append(tmp_path / f"{count}.xplane.pb")
        paths[-1].write_bytes(b"".join(writer.encode([writer.Plane(0, "/device:TPU:0", [line])], "h")))
    assert peak_bytes(*paths) < 950 * 60_000
