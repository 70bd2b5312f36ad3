"""Chrome JSON traces: one container, and a reader for each profiler that writes it."""

from tracekit.readers.chrome.document import Dialect, Document, is_trace, load

__all__ = ["Dialect", "Document", "is_trace", "load"]
