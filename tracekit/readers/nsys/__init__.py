"""SQLite exports of Nsight Systems."""

from tracekit.readers.nsys.nsys_trace import export_hint, read

__all__ = ["export_hint", "read"]
