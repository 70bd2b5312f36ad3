"""Exports of Nsight Systems: SQLite, and directories of Parquet; and reports, which nsys exports."""

from tracekit.readers.nsys import parquet_export
from tracekit.readers.nsys.nsys_trace import read, read_parquet
from tracekit.readers.nsys.sqlite_export import REPORT_SUFFIXES, export_hint, is_export, is_report

__all__ = ["REPORT_SUFFIXES", "export_hint", "is_export", "is_report", "parquet_export", "read", "read_parquet"]
