"""What reading files of very many different names takes, in a process of its own.

The bound of four times the size of a file and 500 MB is broken by files of 600,000 names or more, which take long to
read; so it is what a name takes that is measured, of fewer.
"""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from tests.readers.nsys_jax_archives import archive, table
from tracekit.columns import constant, frame, text_dtype
from tracekit.readers import summary
from tracekit.readers.summary import HostTrace
from tracekit.trace import EVENT_COLUMNS, HOST_COLUMNS, OP_COLUMNS, Trace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kB on Linux alone")

CODE = """
import resource, sys, tracekit
tracekit.read(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tracekit.read(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
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
