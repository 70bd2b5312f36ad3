"""Mutants of tracekit's own code, each held against the tests of its module alone: which does no test notice?

    pip install cosmic-ray
    python -m tests.mutation tracekit/intervals.py
    python -m tests.mutation tracekit/timeline tracekit/analysis --sample 500 --cpu-seconds 900

A mutant is one operator, number or condition changed (cosmic-ray's operators). It is killed where a test fails, or
takes five times the processor time of the tests of the whole module. Mutants that no import survives, such as of a
type, and those that compile to the same code are left out. --log keeps a line for each, and --after goes on behind the
first N of a sample.
"""

import argparse
import ast
import difflib
import gc
import importlib.util
import marshal
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib.abc import MetaPathFinder
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis

# What all tests import, once for all mutants; nothing of tracekit, of which each mutant imports its own.
for _name in ("numpy", "pandas", "pyarrow.parquet", "pytest", "matplotlib.figure"):
    importlib.import_module(_name)

sys.dont_write_bytecode = False  # else each mutant compiles all that it imports again

# Half as many examples as the tests themselves take; a failure kills, and need not be made small.
hypothesis.settings.register_profile(
    "mutation",
    deadline=None,
    max_examples=50,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
    database=None,
    report_multiple_bugs=False,
)

ROOT = Path(__file__).parents[1]
_SLOWER, _LEAST_S = 5, 2
# As in pyproject.toml, but for what is imported before pytest starts.
_WARNINGS = "filterwarnings=error\nignore::pytest.PytestAssertRewriteWarning\nignore:builtin type:DeprecationWarning"
_OPTIONS = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:unraisableexception", "--noconftest"]
_OPTIONS += ["-o", _WARNINGS, "--hypothesis-seed=1", "--hypothesis-profile=mutation"]
# Loads in this process what pytest and hypothesis load at their first test.
_FIRST_TEST = """
from hypothesis import given, strategies as st

@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 9)).map(sum), max_size=4), st.floats(0, 1))
def test_nothing(numbers, share):
    assert numbers is not None
"""
_MOST_BYTES = 8 << 30
_IMPORTED, _KILLED = 3, 1  # exit codes of the process of a mutant
_NEVER_BEFORE = (0, 0.0)


class Mutant(NamedTuple):
    """One mutation of a file: cosmic-ray's operator, and which of the places that it applies to."""

    path: Path
    operator: str
    arguments: tuple[tuple[str, Any], ...]
    occurrence: int
    line: int


def mutants(path: Path) -> list[Mutant]:
    """All mutants of a file."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.commands.init import _operators

    tree = get_ast_from_path(path)
    found = []
    for name, arguments, operator in _operators({}):
        places = (place for node in ast_nodes(tree) for place in operator.mutation_positions(node))
        for occurrence, (start, _) in enumerate(places):
            found.append(Mutant(path, name, tuple(arguments.items()), occurrence, start[0]))
    return found


def source_of(mutant: Mutant) -> str | None:
    """The text of a mutant; None where it compiles to the same code, or not at all."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    old = mutant.path.read_text("utf-8")
    new = mutate_code(old, get_operator(mutant.operator)(**dict(mutant.arguments)), mutant.occurrence)
    try:
        same = new is None or marshal.dumps(compile(new, "m", "exec")) == marshal.dumps(compile(old, "m", "exec"))
    except SyntaxError:
        return None
    return None if same else new


# What is tested by the tests of the module that it is a part of, beside its own.
_PART_OF = {
    "blocking_copies": "host_api",
    "host_records": "host_api",
    "idle_gaps": "host_api",
    "occurrences": "instances",
    "programs": "step_boundaries",
    "step_marks": "step_boundaries",
    "step_spans": "step_range",
}


def tests_of(path: Path) -> list[Path]:
    """The test files of a module: those called after it, or after what it is a part of, and the folder that is."""
    place = (ROOT / "tests" / path.resolve().relative_to(ROOT / "tracekit")).parent
    if path.parent.name == "critical_path":  # of a folder that answers one question, all parts are tested by all tests
        return sorted(place.glob("test_*.py"))
    stems = {path.stem, _PART_OF.get(path.stem, path.stem)}
    return sorted({file for s in stems for file in (*place.glob(f"test_{s}*.py"), *place.glob(f"{s}/test_*.py"))})


class _Mutated(MetaPathFinder, SourceFileLoader):
    """Imports one module from other text than its file's."""

    def __init__(self, path: Path, text: str) -> None:
        name = ".".join(path.resolve().relative_to(ROOT).with_suffix("").parts)
        SourceFileLoader.__init__(self, name, str(path))
        self.text = text

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.util.spec_from_loader(name, self) if name == self.name else None

    def get_code(self, fullname: str) -> Any:
        return compile(self.text, self.path, "exec")


class _Order:
    """Runs first what failed most often, then what is quickest, as earlier runs of the tests of a module had it.

    A process of a mutant writes what it saw to a file, which the process that started it reads.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.seen: dict[str, tuple[int, float]] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: (-(of := self.seen.get(item.nodeid, _NEVER_BEFORE))[0], of[1]))

    def pytest_runtest_logreport(self, report: Any) -> None:
        with self.file.open("a") as file:
            print(report.duration, int(report.failed), report.nodeid, file=file)

    def read(self, *, baseline: bool) -> None:
        """Take over what a process saw: times from the tests as they pass, else failures."""
        for line in self.file.read_text().splitlines() if self.file.exists() else []:
            duration, failed, test = line.split(" ", 2)
            failures, took_s = self.seen.get(test, _NEVER_BEFORE)
            self.seen[test] = failures + int(failed), took_s + float(duration) * baseline
        self.file.unlink(missing_ok=True)


def copy_loops(kept: Path, folder: Path, mutant: Mutant) -> None:
    """Copy compiled loops, but for those of a mutated module, of whose code numba's index holds the instructions alone,
    and all where a constant may have changed that other modules' loops hold."""
    functions = (ast.FunctionDef, ast.ClassDef)
    tree = ast.parse(mutant.path.read_text("utf-8"))
    inside = any(isinstance(n, functions) and n.lineno <= mutant.line <= (n.end_lineno or 0) for n in tree.body)
    if inside:
        shutil.copytree(kept, folder, ignore=shutil.ignore_patterns(f"{mutant.path.stem}.*"), dirs_exist_ok=True)


def run(mutant: Mutant, text: str, cpu_s: float, order: _Order, kept: Path) -> tuple[int, float]:
    """How the tests of a module end with a text of its, and the processor time that they take.

    The text of the module itself leaves the loops that it compiles in `kept`.
    """
    path = mutant.path
    is_baseline = text == path.read_text("utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child = os.fork()
    if child == 0:
        code = _IMPORTED
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s) + 1, int(cpu_s) + 2))
            resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            with tempfile.TemporaryDirectory() as folder:
                if not is_baseline:
                    copy_loops(kept, Path(folder), mutant)
                os.environ["NUMBA_CACHE_DIR"] = str(kept) if is_baseline else folder
                finder = _Mutated(path, text)
                sys.meta_path.insert(0, finder)
                importlib.import_module(finder.name)
                import pytest

                code = _KILLED if pytest.main([*_OPTIONS, *map(str, tests_of(path))], plugins=[order]) else 0
        except BaseException:
            pass
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    order.read(baseline=is_baseline)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (os.WEXITSTATUS(status) if os.WIFEXITED(status) else _KILLED), took


def warm_up() -> None:
    """Load what every process of a mutant needs, once."""
    import pytest

    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        file = Path(folder) / "test_nothing.py"
        file.write_text(_FIRST_TEST)
        if code := pytest.main([*_OPTIONS, "--rootdir", folder, str(file)]):
            raise SystemExit(f"pytest does not run here: {code!r}")
    gc.collect()
    gc.freeze()


def files_of(paths: list[Path]) -> Iterator[Path]:
    """The modules of files and folders that have tests."""
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            if file.name != "__init__.py" and tests_of(file):
                yield file


class _Trials:
    """Tries mutants one after the other; `used_s` is the processor time that all took, `kept` an empty folder."""

    def __init__(self, kept: Path) -> None:
        self.used_s = 0.0
        self._loops, self._seen = kept / "loops", kept / "seen"
        self._loops.mkdir()
        self._baseline_s: dict[Path, float] = {}
        self._order: dict[Path, _Order] = {}

    def ended(self, mutant: Mutant, text: str | None) -> str:
        """How a mutant ended: "killed", "survived", or "left out"."""
        if text is None:
            return "left out"
        path = mutant.path
        order = self._order.setdefault(path, _Order(self._seen))
        if path not in self._baseline_s:
            code, self._baseline_s[path] = run(mutant, path.read_text("utf-8"), 600, order, self._loops)
            self.used_s += self._baseline_s[path]
            if code:
                raise SystemExit(f"the tests of {path} fail as it is")
        code, took_s = run(mutant, text, max(_SLOWER * self._baseline_s[path], _LEAST_S), order, self._loops)
        self.used_s += took_s
        return {0: "survived", _IMPORTED: "left out"}.get(code, "killed")


def main() -> int:
    """Try the mutants, print those that survive, and the score."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("paths", nargs="+", type=Path)
    options.add_argument("--sample", type=int, default=0, help="so many at random, all by default")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--after", type=int, default=0, help="skip so many of the sample, tried before")
    options.add_argument("--cpu-seconds", type=float, default=float("inf"))
    options.add_argument("--log", type=Path, default=Path(os.devnull), help="append a line for each to this file")
    given = options.parse_args()
    every = [mutant for path in files_of(given.paths) for mutant in mutants(path)]
    chance = random.Random(given.seed)
    chosen = chance.sample(every, min(given.sample or len(every), len(every)))[given.after :]
    print(f"{len(every)} mutants in all", flush=True)
    warm_up()
    counts, begun = Counter[str](), time.monotonic()
    ended_early: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended_early.append(number))  # the score so far is still told
    with tempfile.TemporaryDirectory() as folder, given.log.open("a") as log:
        trials = _Trials(Path(folder))
        for place, mutant in enumerate(chosen, given.after):
            if trials.used_s > given.cpu_seconds or ended_early:
                break
            text = source_of(mutant)
            ended = trials.ended(mutant, text)
            counts[ended] += 1
            print(place, f"{mutant.path}:{mutant.line}", mutant.operator, ended, file=log, flush=True)
            if ended == "survived" and text is not None:
                lines = difflib.ndiff(mutant.path.read_text("utf-8").splitlines(), text.splitlines())
                changed = [line for line in lines if line[0] in "+-"]
                print(f"{mutant.path}:{mutant.line} {mutant.operator}", *changed, sep="\n    ", flush=True)
    tried = counts["killed"] + counts["survived"]
    print(
        f"{counts['killed']} of {tried} killed ({counts['killed'] / max(tried, 1):.1%}), "
        f"{counts['left out']} left out, {trials.used_s:.0f} s of processor time, {time.monotonic() - begun:.0f} s"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
