"""The traces of many hosts or ranks as one."""

from tracekit.readers.merge.merged_trace import merge, placed

__all__ = ["merge", "placed"]
