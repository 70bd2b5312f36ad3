"""Where a browser is opened, and where it is not."""

import pytest

from tracekit.view.browser import is_wanted


@pytest.mark.parametrize(
    ("environment", "on_terminal", "platform", "wanted"),
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
def test_it_is_opened_on_a_terminal_with_a_display_or_a_browser_of_ones_own(environment, on_terminal, platform, wanted):
    assert is_wanted(environment, on_terminal, platform) is wanted
