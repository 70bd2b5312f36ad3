"""The generated traces are those that the script beside them writes, and small."""

import json
import sqlite3
from contextlib import closing

import pandas as pd
import pytest

from tests import traces
from tests.data import generate
from tests.readers.hlo.hlo_modules import needs_xla_parser
from tracekit.readers import read

GENERATED = traces.DATA / "generated"


@pytest.fixture(scope="module")
def anew(tmp_path_factory):
    """The directory of the generated traces, written anew."""
    directory = tmp_path_factory.mktemp("anew") / "generated"
    generate.write_all(directory)
    return directory


@needs_xla_parser
@pytest.mark.parametrize("case", [case for case in traces.FIGURES if case.startswith("generated/")])
def test_a_committed_trace_reads_as_one_written_anew(anew, case):
    committed, generated = traces.trace(case), read(anew.parent / case)
    for name in ("events", "ops", "operands", "spans", "host_work", "launches", "syncs", "hosts", "devices"):
        frames = [getattr(trace, name).drop(columns="source", errors="ignore") for trace in (committed, generated)]
        pd.testing.assert_frame_equal(*frames)
    assert committed.notes == generated.notes


def test_the_committed_figures_are_those_of_the_schedule():
    assert json.loads((GENERATED / "expected.json").read_text("utf-8")) == generate.expected()


@needs_xla_parser
def test_a_committed_export_holds_the_tables_that_are_written(anew):
    def rows(path):
        with closing(sqlite3.connect(path)) as base:
            return [*base.iterdump()]

    assert rows(GENERATED / "gpu.sqlite") == rows(anew / "gpu.sqlite")


def test_generated_traces_are_small():
    files = [path for path in GENERATED.rglob("*") if path.is_file()]
    assert len(files) == 9
    assert max(path.stat().st_size for path in files) < 30_000
