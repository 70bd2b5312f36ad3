"""XSpace files, as the XLA profiler of JAX and TensorFlow writes them, and the planes that any file may hold."""

from tracekit.readers.xplane.assemble import STATS, read, trace

__all__ = ["STATS", "read", "trace"]
