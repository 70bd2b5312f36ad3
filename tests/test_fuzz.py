"""Mutants of traces of every format are an answer or one sentence; `make fuzz` tries more of them."""

import random
import subprocess
import sys

import pytest

from tests import fuzz as fuzzing
from tests import traces
from tests.fuzz import fuzz, mutant, outcome, seeds

MUTANTS = traces.SIMULATED / "mutants"


@pytest.mark.parametrize(
    "only", [".xplane.pb", ".trace.json", "_naive.json", ".json", ".sqlite", "tracekit.zip", "jax.zip", "_pqtdir"]
)
def test_mutants_are_an_answer_or_one_sentence(only):
    counts, finds = fuzz(seed=19, mutants=100, only=only)
    assert [find.ended_in for find in finds] == []
    assert counts["answer"] > 5


def test_the_mutants_of_a_seed_are_always_the_same():
    for content, mutate in seeds().values():
        assert mutate(random.Random(5), content) == mutate(random.Random(5), content)
    assert [mutant(5, number) for number in range(20)] == [mutant(5, number) for number in range(20)]


@pytest.mark.parametrize(
    ("program", "limit", "ended"),
    [
        ("import os; os.kill(os.getpid(), 11)", None, "by itself: SIGSEGV"),
        ("raise SystemExit(3)", None, "by itself: 3"),
        ("import time; time.sleep(60)", "_ENDED_BYTES", "more than 0 GB"),
        ("import time; time.sleep(60)", "_ENDED_S", "more than 1 s"),
    ],
)
def test_a_worker_that_ends_or_takes_too_much_is_told(program, limit, ended, monkeypatch):
    if limit:
        monkeypatch.setattr(fuzzing, limit, 1)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            with pytest.raises(fuzzing.WorkerEnded, match=ended):
                fuzzing.line_of(process, fuzzing.lines_of(process))
        finally:
            process.kill()


@pytest.mark.skipif(not MUTANTS.is_dir(), reason="the folder shared/cases/mutants is not here")
@pytest.mark.parametrize("path", sorted(MUTANTS.glob("*.*[!d]")), ids=lambda path: path.name)
def test_a_mutant_that_once_ended_in_a_traceback_is_an_answer(path):
    assert outcome(path, is_reported=True) == "answer"
