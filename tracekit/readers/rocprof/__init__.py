"""rocprofv3, the profiler of ROCm: what `rocprofv3 --output-format json` wrote."""

from tracekit.readers.rocprof.document import SUFFIXES, is_trace
from tracekit.readers.rocprof.rocprof_trace import gpus, read

__all__ = ["SUFFIXES", "gpus", "is_trace", "read"]
