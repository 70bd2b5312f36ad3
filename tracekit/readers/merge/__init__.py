"""The traces of many hosts or ranks as one."""

from tracekit.readers.merge.traces import merge

__all__ = ["merge"]
