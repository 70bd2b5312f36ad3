"""Chrome JSON traces: one container, and a reader for each profiler that writes it."""

from tracekit.readers.chrome.document import Document, dialect, load

__all__ = ["Document", "dialect", "load"]
