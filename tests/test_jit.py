"""Compiled loops: numba starts without what no loop needs, and stays whole for a program's own."""

import gc
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tracekit import jit

pytest.importorskip("numba")

PROGRAM = """
import sys
import numpy as np
from tracekit import jit

numba = jit.start()
assert jit.compiled(lambda values: values.sum())(np.arange(5.0)) == 10
print("scipy.linalg" in sys.modules)
from numba.np import arraymath
print(numba.njit(lambda a, b: a @ b)(np.arange(3.0), np.arange(3.0)) if arraymath._HAVE_BLAS else 5.0)
"""


def test_no_loop_waits_for_scipy_and_a_programs_own_dot_still_has_it(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path), "NUMBA_CACHE_DIR": str(tmp_path)},
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.split() == ["False", "5.0"]


def test_numba_is_told_truly_whether_scipy_is_there() -> None:
    from tracekit import jit

    jit._settle_blas()
    from numba.np import arraymath

    assert (importlib.util.find_spec("scipy") is not None) == arraymath._HAVE_BLAS


def test_a_loop_is_compiled_once_it_is_to_run_over_many_rows_or_has() -> None:
    def double(values: np.ndarray) -> np.ndarray:
        return values * 2

    third = jit.COMPILE_FROM_ROWS // 3 + 1
    used = [jit.loop(double, rows) for rows in (third, third, third, 1)]
    assert [each is double for each in used] == [True, True, False, False]
    assert jit.loop(double, jit.COMPILE_FROM_ROWS) is used[-1]
    assert used[-1](np.arange(3)).tolist() == [0, 2, 4]


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_collected_again_after_numba_started_if_it_was_before(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        with jit.without_collection():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        gc.enable() if before else gc.disable()


WAITING = """
from tracekit import jit

def twice(value):
    return 2 * value

many = jit.COMPILE_FROM_ROWS
print(jit.loop(twice, many, is_worth_starting=False) is twice, "numba" in __import__("sys").modules)
jit.start()
print(jit.loop(twice, 1, is_worth_starting=False) is twice, jit.loop(twice, many, is_worth_starting=False) is twice)
"""


def test_a_loop_that_is_not_worth_starting_numba_for_is_compiled_once_that_runs() -> None:
    process = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, check=False)
    assert process.stdout.split() == ["True", "False", "True", "False"], process.stderr
