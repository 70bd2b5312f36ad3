"""What holds for all tests, and one Chromium for all pages: `open_page(path)` opens a file in it."""

import gc
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import browser, programs
from tracekit.errors import NotMeasurable

# What starts programs, a server or a browser: directories and files below this one. `-m 'not slow'` leaves them out.
SLOW = (
    "capture",
    "docs",
    "doctor",
    "report/html",
    "test_benchmarks.py",
    "test_cli.py",
    "test_docs.py",
    "test_example_notebook.py",
    "test_executors.py",
    "test_gpu_day.py",
    "test_missing_packages.py",
    "test_no_network.py",
    "test_pytest_plugin.py",
    "view",
    "workloads",
)

chromium = pytest.fixture(scope="session", name="chromium")(browser.launch_chromium)
tabs = pytest.fixture(scope="session", name="tabs")(browser.no_tabs)
open_page = pytest.fixture(name="open_page")(browser.serve_pages)


# Else every program that a test starts would compile all of tracekit again, and each process of pytest all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes says more of the machine than of the code.
settings.register_profile("tracekit", deadline=None)
settings.load_profile("tracekit")


@pytest.fixture(scope="session")
def shared_tmp_path(tmp_path_factory) -> Path:
    """A directory that all processes of this session share, where pytest-xdist runs several."""
    own: Path = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def compiled(shared_tmp_path) -> dict[str, str]:
    """The environment of programs that share what JAX compiles, whichever process of this session starts them."""
    return programs.compile_once(shared_tmp_path / "compiled")


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that ends with NotMeasurable, which tracekit's own plugin takes for a reason to skip it."""
    try:
        return (yield)
    except NotMeasurable as reason:
        raise AssertionError(f"{item.name} asked for what its trace cannot tell") from reason


def pytest_sessionstart() -> None:
    # What runs tests side by side, or in the background, ignores Ctrl-C or the end of its terminal, and so would every
    # program that a test starts to send it such a signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    gc.disable()  # nothing that is imported or collected is garbage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {path: path.relative_to(Path(__file__).parent) for path in {item.path for item in items}}
    slow_paths = {path for path, place in places.items() if any(place.is_relative_to(slow) for slow in SLOW)}
    for item in items:
        if item.path in slow_paths:
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    # What has been imported and collected by now stays: looking through it for garbage took 8 % of all time. Looking
    # through what tests make as often as Python does took 9 % of the rest.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
