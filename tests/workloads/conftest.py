"""What the tests of the workloads share: programs that are compiled once."""

import subprocess
from collections.abc import Callable

import pytest

from tests import programs


@pytest.fixture(scope="session")
def python(compiled) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`programs.python`; what one program compiled, the next need not."""
    return lambda *words, **more: programs.python(*words, **(compiled | more))
