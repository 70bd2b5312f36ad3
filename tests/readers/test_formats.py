"""The list of formats: what a file is by its content, which profiler wrote a JSON file, and that the docs know each."""

import gzip
from pathlib import Path

import pytest

from tests.readers.layouts import KINETO, sqlite, write_file, xspace
from tracekit.readers import chrome, formats
from tracekit.readers.formats import FILE_TYPES, FORMATS, file_type

DOCS = (Path(__file__).parents[2] / "docs" / "formats.md").read_text("utf-8")


@pytest.mark.parametrize("record", FORMATS, ids=lambda record: record.name)
def test_the_docs_describe_each_format_under_its_section_with_its_name_and_suffixes(record):
    assert f"\n## {record.section}\n" in DOCS
    table = DOCS[: DOCS.index("\n## ")]
    assert f"`{record.name}`" in table
    assert any(f"`*{suffix}`" in table for suffix in record.file_type.suffixes)


def test_names_are_found_and_other_names_are_no_format():
    assert [formats.by_name(record.name) for record in FORMATS] == [*FORMATS]
    assert formats.by_name("chrome") is None


def test_writers_are_listed_once_each():
    assert formats.writers(formats.CHROME) == "PyTorch, JAX or MXNet"
    assert (
        formats.writers(*FILE_TYPES)
        == "JAX, PyTorch, MXNet, Nsight Systems (SQLite, Parquet), nsys-jax or rocprofv3 (JSON)"
    )
    assert formats.writers(formats.NSYS) == "Nsight Systems (SQLite, Parquet)"


def form(path, **options):
    result = file_type(path, **options)
    return result.name if result else None


@pytest.mark.parametrize(
    ("content", "is_it"),
    [
        (b'{"traceEvents": [', "chrome"),
        (b'\xef\xbb\xbf \n{"displayTimeUnit": "ns", "traceEvents": []}', "chrome"),
        (b'{"schemaVersion": 1, "deviceProperties": [' + b" " * 400_000, "chrome"),
        (b'[\n{"name": "a", "ph": "X"}', "chrome"),
        (b'{\n "rocprofiler-sdk-tool": [\n  {', "rocprofv3"),
        (gzip.compress(KINETO, mtime=0), "chrome"),
        (gzip.compress(KINETO + str([*range(9999)]).encode(), mtime=0)[:-999], "chrome"),
        (b'{"summary": 1}', None),
        (b'[{"rank": 0}]', None),
        (b"\n<html>", None),
        (b"\nTraceback (most recent call last):", None),
        (b"\n\x16A line feed and text.", None),
        (b"", None),
        (b"\0" * 100, None),
        (b"\x1f\x8b broken", None),
    ],
)
def test_a_format_is_told_by_content_whatever_the_name(tmp_path, content, is_it):
    assert form(write_file(tmp_path / "any.name", content)) == is_it


def test_xspaces_and_exports_of_nsys_are_told_by_content(tmp_path):
    assert form(xspace(tmp_path / "a.bin")) == "xplane"
    assert form(write_file(tmp_path / "b.bin", gzip.compress((tmp_path / "a.bin").read_bytes()))) == "xplane"
    assert form(sqlite(tmp_path / "a.db", "CUPTI_ACTIVITY_KIND_KERNEL")) == "nsys"
    assert form(sqlite(tmp_path / "b.db", "TARGET_INFO_SESSION_START_TIME")) == "nsys"
    assert form(sqlite(tmp_path / "c.db", "cookies")) is None
    assert form(sqlite(tmp_path / "d.db", "cookies"), sure=True) == "nsys"


def process_text(process):
    return f'[{{"ph": "M", "name": "process_name", "args": {{"name": "{process}"}}}}, {{"ph": "X", "ts": 1}}]'


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [{"ph": "X"}]}', "kineto"),
        ('{"schemaVersion": 1, "traceName": "t.json", "traceEvents": [{"ph": "X"}]}', "kineto"),
        ('[{"ph": "X", "cat": "gpu_memcpy"}]', "kineto"),
        ('[{"ph": "X", "cat": "Kernel"}]', "kineto"),
        (process_text("/device:TPU:0"), "jax-json"),
        (process_text("/host:CPU"), "jax-json"),
        (process_text("gpu/0"), "mxnet"),
        (process_text("cpu pinned/"), "mxnet"),
        ('[{"ph": "b", "cat": "MXNET_C_API"}]', "mxnet"),
        (process_text("Browser"), None),
        ('[{"ph": "X"}]', None),
    ],
)
def test_keys_categories_and_processes_tell_which_profiler_wrote_a_file(tmp_path, text, name):
    dialect = formats.dialect(chrome.load(write_file(tmp_path / "t.json", text.encode())))
    assert (dialect and dialect[0]) == name
