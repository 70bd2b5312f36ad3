"""Where `tracekit view` opens a browser, and what it shows with --perfetto: one file of the trace."""

import sys

import pytest

from tests.export.perfetto_reader import read
from tests.traces import path
from tracekit.errors import ViewError
from tracekit.view.view import _export, has_screen

CASE = "mxnet_two_contexts_naive.json.gz"


def test_the_viewer_gets_a_file(tmp_path):
    _export(path(CASE), None, tmp_path / "y.pftrace.gz")
    assert len(read(tmp_path / "y.pftrace.gz").rows)


def test_clocks_that_cannot_be_compared_are_not_shown(tmp_path, monkeypatch):
    files = [tmp_path / "y-a.pftrace.gz", tmp_path / "y-b.pftrace.gz"]
    monkeypatch.setattr(sys.modules["tracekit.export.export"], "export", lambda *_, **__: files)
    with pytest.raises(ViewError, match=r"The clocks of 2 hosts .* Write a file for each"):
        _export(tmp_path / "t", None, tmp_path / "y.pftrace.gz")


@pytest.mark.parametrize(
    ("environment", "on_terminal", "platform", "opened"),
    [
        ({"DISPLAY": ":0"}, True, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, True, "linux", True),
        ({"BROWSER": "wslview"}, True, "linux", True),
        ({}, True, "darwin", True),
        ({"DISPLAY": ":0"}, False, "linux", False),
        ({"DISPLAY": ""}, True, "linux", False),
        ({}, True, "linux", False),
        ({}, False, "darwin", False),
    ],
)
def test_a_browser_is_opened_on_a_terminal_with_a_display_or_a_browser_of_ones_own(
    environment, on_terminal, platform, opened
):
    assert has_screen(environment, on_terminal, platform) is opened
