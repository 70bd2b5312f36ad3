"""What holds for all tests."""

import signal


def pytest_sessionstart() -> None:
    # What runs tests side by side, or in the background, ignores Ctrl-C, and so would every program that a test starts
    # to interrupt it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
