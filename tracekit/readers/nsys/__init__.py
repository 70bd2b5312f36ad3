"""SQLite exports of Nsight Systems."""

from tracekit.readers.nsys.nsys_trace import read
from tracekit.readers.nsys.sqlite_export import REPORT_SUFFIXES, export_hint, is_export, is_report

__all__ = ["REPORT_SUFFIXES", "export_hint", "is_export", "is_report", "read"]
