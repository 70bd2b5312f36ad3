"""XSpace files, as the XLA profiler of JAX and TensorFlow writes them, and the planes that any file may hold."""

from tracekit.readers.xspace.xspace_file import SUFFIXES, is_xspace
from tracekit.readers.xspace.xspace_trace import STATS, device_name, is_decoded, once, read, trace

__all__ = ["STATS", "SUFFIXES", "device_name", "is_decoded", "is_xspace", "once", "read", "trace"]
