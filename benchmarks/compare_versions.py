"""Do two versions of tracekit say the same of every trace? `python benchmarks/compare_versions.py --old OLD_PYTHON`.

OLD_PYTHON is an interpreter that has the wheel of 54ffded; the new version is the tree that this script stands in, or
what --new and --new-path name. Each version dumps what it says of each trace in processes of its own (dump_version.py):
all frames, the figures of every analysis, the report and its files, pictures, exports. The dumps are compared item by
item (differences.py). A trace that both refuse with the same sentence is equal. What differs must stand in
compare_versions.toml with its reason, or the exit code is 1.

The traces are tests/data, shared/traces and shared/cases beside the tree, and a few made of those: two runs, two hosts,
two ranks, and a large XSpace, whose loops are compiled. Of `mutants` only reading is compared, errors by their class.
All takes some 6 minutes on two quiet cores, --quick 30 s; half of it where --cache has the dumps of the old version.
"""

import argparse
import hashlib
import json
import os
import pickle
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from differences import WORDING, Comparison, Difference, Dump, compare
from dump_version import KINDS
from version_first import DIGEST

_HERE = Path(__file__).parent
_TREE = _HERE.parent
_DUMP = _HERE / "dump_version.py"
_KNOWN = _HERE / "compare_versions.toml"
_PLACES = (_TREE / "tests" / "data", _TREE.parent / "shared" / "traces", _TREE.parent / "shared" / "cases")
# One small trace of each format and of each way to be one, for a look after each step.
_QUICK = (
    "data/two-cpu-devices-jax0.10.2.xplane.pb",
    "data/mxnet_two_contexts_naive.json.gz",
    "traces/xplane/jax-8xMI300X/*",
    "traces/xplane/corrupt/*",
    "traces/nsys/pipit*",
    "traces/kineto/dlrm-8xV100",
    "data/jax_two_cpu_devices.trace.json.gz",
    "cases/steps_kineto_3",
)
# What stands beside traces.
_NO_TRACE = re.compile(r"\.(md|py|toml)$|^(expected.*|truth)\.json$|^\.")
_EVENTS = 200_000  # of the large XSpace: some 65,000 device rows, where loops are compiled from 50,000 on
_LONGEST_S = 600


@dataclass(frozen=True)
class Unit:
    """A trace to compare: `name` as it is told, `path` as both versions are given it in the directory `at`."""

    name: str
    at: Path
    path: str

    @property
    def is_mutant(self) -> bool:
        """Whether it is only read, and may end in a traceback."""
        return "mutants" in Path(self.name).parts

    @property
    def files(self) -> list[Path]:
        """The files that it is made of."""
        whole = self.at / self.path
        return sorted(path for path in whole.rglob("*") if path.is_file()) if whole.is_dir() else [whole]

    @property
    def size(self) -> int:
        """How many bytes they hold."""
        return sum(path.stat().st_size for path in self.files)

    @property
    def digest(self) -> str:
        """A digest of what both versions read."""
        total = hashlib.sha256(self.path.encode())
        for path in self.files:
            total.update(f"{path.relative_to(self.at)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        return total.hexdigest()


def find_units(place: Path) -> Iterator[Unit]:
    """The traces at `place`: the file, or each file below the directory, and each directory whose files are one set."""
    place = place.absolute()
    if place.is_file():
        yield Unit(place.name, place.parent, place.name)
        return
    for directory, inside, files in os.walk(place):
        inside.sort()
        traces = sorted(name for name in files if not _NO_TRACE.search(name))
        names = [Path(directory, name) for name in traces]
        # rank0 and rank1, worker0 and worker1: names that differ in their numbers only.
        if len(traces) > 1 and len({re.sub(r"\d+", "0", name) for name in traces}) == 1:
            names.insert(0, Path(directory))
        for path in names:
            relative = path.relative_to(place.parent)
            yield Unit(str(relative), place.parent, str(relative))


def build_units(traces: Sequence[Unit], scratch: Path) -> Iterator[Unit]:
    """Traces of several files that are made of those at hand, and a large one: `built/NAME` below `scratch`."""
    by_name = {unit.name: unit.files[0] for unit in traces}
    earlier, later = (f"data/two-cpu-devices-jax{version}.xplane.pb" for version in ("0.10.2", "0.12.0"))
    ranks = [f"traces/kineto/{name}.json.gz" for name in ("hta-sampled_rank-0", "hta_sampled_rank-1")]
    run = "plugins/profile/2026_01_0{}_00_00_00/{}.xplane.pb"
    plans = {
        "two-runs": {run.format(1, "host"): "data/stepped-cpu.xplane.pb.gz", run.format(2, "host"): earlier},
        "two-hosts": {run.format(1, "a"): earlier, run.format(1, "b"): later},
        "two-ranks": {f"rank{rank}.json.gz": name for rank, name in enumerate(ranks)},
    }
    for name, plan in plans.items():
        if all(source in by_name for source in plan.values()):
            for place, (inside, source) in enumerate(plan.items()):
                path = scratch / "built" / name / inside
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(by_name[source], path)
                os.utime(path, (place, place))  # the newest run is read
            yield Unit(f"built/{name}", scratch, f"built/{name}")
    # A capture says how many cores its devices shared.
    for capture in scratch.glob("built/two-runs/plugins/profile/*2_00*"):
        (capture / "capture.json").write_text('{"usable_cores": 1}', encoding="utf-8")
    path = scratch / "built" / "large.xplane.pb"
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = [sys.executable, str(_HERE / "make_xspace.py"), "--events", str(_EVENTS), "--out", str(path)]
    subprocess.run(writer, check=True, stdout=subprocess.DEVNULL)
    yield Unit("built/large.xplane.pb", scratch, "built/large.xplane.pb")


class VersionError(Exception):
    """A version cannot be run, or is not the one that was meant."""


class Process:
    """One version at work: it answers jobs, one at a time."""

    def __init__(self, python: str, tree: Path | None) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "MPLBACKEND": "Agg"}
        if tree is not None:
            environment["PYTHONPATH"] = str(tree.absolute())
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the process
        self._process = subprocess.Popen(
            [python, _DUMP], env=environment, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, text=True,
        )  # fmt: skip
        self.facts = self._answer()

    def ask(self, unit: Unit, parts: Sequence[str], out: Path) -> dict[str, Any]:
        """Dump the `parts` of `unit` to `out`; raises VersionError where the process ends instead."""
        assert self._process.stdin
        job = {"at": str(unit.at), "trace": unit.path, "parts": parts, "out": str(out)}
        print(json.dumps(job), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        late = threading.Timer(_LONGEST_S, self._process.kill)
        late.start()
        line = self._process.stdout.readline()
        late.cancel()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        code = self._process.wait()
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
        raise VersionError(f"exit code {code}: {''.join(last)}")

    def end(self) -> None:
        """Let it end."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()


class Version:
    """A version of tracekit: the interpreter and the tree that it is run with, and processes of it."""

    def __init__(self, python: str, tree: Path | None) -> None:
        self.python, self.tree = python, tree
        self._idle: queue.SimpleQueue[Process] = queue.SimpleQueue()
        process = Process(python, tree)
        self.facts = process.facts
        package = Path(self.facts["package"])
        if tree is not None and not package.is_relative_to(tree.absolute()):
            raise VersionError(f"{python} imports {package}, not the tracekit in {tree}")
        self._idle.put(process)

    def dump(self, unit: Unit, parts: Sequence[str], out: Path) -> None:
        """Dump the `parts` of `unit` to `out`, in an idle process or a new one; where it dies, the dump says so."""
        try:
            process = self._idle.get_nowait()
        except queue.Empty:
            process = Process(self.python, self.tree)
        try:
            process.ask(unit, parts, out)
        except VersionError as error:
            died = {"trace": ("failure", {"class": "the process ended", "sentence": str(error)})}
            out.write_bytes(zlib.compress(pickle.dumps(died)))
        else:
            self._idle.put(process)

    def end(self) -> None:
        """End its processes."""
        while True:
            try:
                self._idle.get_nowait().end()
            except queue.Empty:
                return

    def __str__(self) -> str:
        commit = " (54ffded)" if self.facts["digest"] == DIGEST else ""
        return f"{self.facts['package']}, {self.facts['digest']}{commit}"


@dataclass
class Known:
    """A difference that is meant: globs on the trace, the key, the place in it and what differs; and its reason."""

    key: str
    reason: str
    trace: str = "*"
    where: str = "*"
    what: str = "*"
    met: int = field(default=0, compare=False)

    def accepts(self, trace: str, difference: Difference) -> bool:
        """Whether this is the difference that is meant."""
        globs = (self.trace, self.key, self.where, self.what)
        return all(map(fnmatch, (trace, difference.key, difference.where, difference.what), globs))


def read_known(path: Path) -> list[Known]:
    """The meant differences in a TOML file, of `[[difference]]` with the fields of Known; raises ValueError."""
    entries = tomllib.loads(path.read_text("utf-8")).get("difference", [])
    fields = {"key", "reason", "trace", "where", "what"}
    for entry in entries:
        if not {"key", "reason"} <= entry.keys() <= fields or not all(str(value).strip() for value in entry.values()):
            raise ValueError(f"{path}: a difference needs key and reason, and may have trace, where and what: {entry}")
    return [Known(**entry) for entry in entries]


@dataclass
class Outcome:
    """All traces compared: by kind how many items were compared, are equal, differ as is known, and in wording only."""

    accepted: list[Known]
    compared: Counter[str] = field(default_factory=Counter)
    equal: Counter[str] = field(default_factory=Counter)
    meant: Counter[str] = field(default_factory=Counter)
    worded: Counter[str] = field(default_factory=Counter)
    differences: dict[str, list[tuple[str, Difference]]] = field(default_factory=dict)
    orders: list[tuple[str, Difference]] = field(default_factory=list)
    refused: int = 0

    def add(self, trace: str, before: Dump, after: Dump, comparison: Comparison) -> int:
        """Count what comparing one trace gave, and return how many items differ that are not known to."""
        self.compared += comparison.compared
        self.equal += comparison.equal
        self.refused += before.get("trace", ("", None))[0] == "refusal"
        self.orders += [(trace, difference) for difference in comparison.orders]
        unknown: dict[str, set[str]] = {}
        for difference in comparison.differences:
            accepting = next((entry for entry in self.accepted if entry.accepts(trace, difference)), None)
            if accepting:
                accepting.met += 1
                continue
            unknown.setdefault(difference.key, set()).add(difference.what)
            same = f"{difference.key}|{difference.where}|{difference.what}"
            self.differences.setdefault(same, []).append((trace, difference))
        for key in {difference.key for difference in comparison.differences}:
            kind = (before.get(key) or after[key])[0]
            self.meant[kind] += key not in unknown
            self.worded[kind] += unknown.get(key) == {WORDING}
        return len(unknown)

    @property
    def different(self) -> Counter[str]:
        """By kind how many items differ in more than wording, and no reason is known."""
        return self.compared - self.equal - self.meant - self.worded


def show(outcome: Outcome, traces: int, most: int) -> None:
    """Print the table, then what differs: the same in several traces once."""
    print(f"{traces} traces, {outcome.refused} of them refused")
    print(f"{'':58}{'compared':>9}{'equal':>9}{'known':>9}{'wording':>9}{'DIFFER':>9}")
    for kind, about in KINDS.items():
        if outcome.compared[kind]:
            counts = (outcome.compared, outcome.equal, outcome.meant, outcome.worded, outcome.different)
            print(f"{kind + ', ' + about:58}" + "".join(f"{count[kind]:9,}" for count in counts))
    for entry in outcome.accepted:
        if entry.met:
            print(f"known, {entry.met} times: {entry.key}: {entry.reason}")
    if unmet := [entry.key for entry in outcome.accepted if not entry.met]:
        print(f"known, and not met here: {', '.join(unmet)}")
    if outcome.orders:
        columns = sorted({f"{difference.key} {difference.where}" for _, difference in outcome.orders})
        first = ", ".join(columns[:3])
        print(f"equal, in categories of another order: {len(outcome.orders)} columns, such as {first}")
    # Wording last: it hides no figure.
    by_weight = sorted(outcome.differences.values(), key=lambda places: places[0][1].what == WORDING)
    for places in by_weight[:most]:
        (trace, difference), rest = places[0], len(places) - 1
        more = f" and {rest} more" if rest else ""
        print(f"\n{difference.key}: {difference.what}, in {trace}{more}\n  {difference.detail}")
    if len(outcome.differences) > most:
        print(f"\n… and {len(outcome.differences) - most} more: --most prints them")


def dump_all(
    pair: tuple[Version, Version],
    traces: Sequence[Unit],
    parts: Sequence[str],
    scratch: Path,
    cache: Path | None,
    jobs: int,
) -> Iterator[tuple[Unit, Dump, Dump]]:
    """The dumps of the `parts` of every trace by the old and the new version, in the order in which both are there.

    Those of the old version are kept in `cache`, if given, by everything that they depend on.
    """
    programs = [_DUMP, _HERE / "version_first.py"]
    if pair[0].facts["digest"] != DIGEST:
        programs.append(_HERE / "version_today.py")
    base = json.dumps([pair[0].facts, *parts, *(hashlib.sha256(path.read_bytes()).hexdigest() for path in programs)])
    names = {unit: hashlib.sha256((base + unit.digest).encode()).hexdigest() for unit in traces}
    old = {unit: (cache or scratch) / f"{names[unit]}.dump" for unit in traces}
    new = {unit: scratch / f"{place}.dump" for place, unit in enumerate(traces)}
    with ThreadPoolExecutor(jobs) as pool:
        waiting: dict[Future[None], Unit] = {}
        unfinished: Counter[Unit] = Counter()
        # The longest first: at the end no core waits for another.
        for unit in sorted(traces, key=lambda unit: -unit.size):
            for version, out in ((pair[0], old[unit]), (pair[1], new[unit])):
                if not out.exists():
                    waiting[pool.submit(version.dump, unit, () if unit.is_mutant else parts, out)] = unit
                    unfinished[unit] += 1
        for future in as_completed(waiting):
            future.result()
            unit = waiting[future]
            unfinished[unit] -= 1
            if not unfinished[unit]:
                yield unit, _load(old[unit]), _load(new[unit])
                new[unit].unlink()


def _load(path: Path) -> Dump:
    loaded: Dump = pickle.loads(zlib.decompress(path.read_bytes()))
    return loaded


def main() -> int:
    """Dump, compare, print; 1 where something differs that is not known."""
    parser = argparse.ArgumentParser(description="Compare what two versions of tracekit say of every trace.")
    parser.add_argument("--old", metavar="PYTHON", required=True, help="an interpreter with the old version")
    parser.add_argument("--old-path", type=Path, metavar="DIR", help="a source tree that is the old version")
    parser.add_argument("--new", metavar="PYTHON", help="one with the new version (default: this one, with this tree)")
    parser.add_argument("--new-path", type=Path, metavar="DIR", help="a source tree that is the new version")
    parser.add_argument("--traces", type=Path, nargs="+", metavar="PATH", help="trace files, or directories of them")
    parser.add_argument("--only", nargs="+", metavar="GLOB", help="only traces of such a name, as in 'traces/nsys/*'")
    parser.add_argument("--quick", action="store_true", help="only a small trace of each format")
    parser.add_argument("--parts", nargs="+", default=["*"], metavar="GLOB", help="only such parts, as in 'report'")
    parser.add_argument("--figures-only", action="store_true", help="leave out what differs in wording only")
    parser.add_argument("--known", type=Path, default=_KNOWN, metavar="FILE", help="differences that are meant")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep the dumps of the old version here")
    parser.add_argument("--jobs", type=int, default=2, help="processes at work at once (default: 2)")
    parser.add_argument("--most", type=int, default=30, help="differences to print (default: 30)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write all differences to OUT")
    options = parser.parse_args()
    places = options.traces or [place for place in _PLACES if place.exists()]
    traces = [unit for place in places for unit in find_units(place)]
    tree = options.new_path or (None if options.new else _TREE)
    if options.cache:
        options.cache.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    outcome = Outcome(read_known(options.known))
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        globs = [*(options.only or ()), *(_QUICK if options.quick else ())] or ["*"]
        if globs == ["*"] or any(glob.startswith("built") for glob in globs):
            traces += build_units(traces, scratch)
        traces = [unit for unit in traces if any(fnmatch(unit.name, glob) for glob in globs)]
        if not traces:
            parser.error("there is no such trace: see --traces and --only")
        try:
            pair = (Version(options.old, options.old_path), Version(options.new or sys.executable, tree))
        except VersionError as error:
            parser.error(str(error))
        print(f"old: {pair[0]}\nnew: {pair[1]}", flush=True)
        if pair[0].facts["package"] == pair[1].facts["package"]:
            parser.error("old and new are the same files")
        for place in () if options.traces else _PLACES:
            if not place.exists():
                print(f"not here, so not compared: {place}")
        every = dump_all(pair, traces, options.parts, scratch, options.cache, options.jobs)
        for number, (unit, before, after) in enumerate(every, 1):
            comparison = compare(before, after, options.figures_only, errors_too=unit.is_mutant)
            unknown = outcome.add(unit.name, before, after, comparison)
            verdict = f"{unknown} differ" if unknown else "as known" if comparison.differences else "equal"
            print(f"{number} of {len(traces)}: {unit.name}: {verdict}", file=sys.stderr, flush=True)
        for version in pair:
            version.end()
    show(outcome, len(traces), options.most)
    print(f"{time.perf_counter() - began:.0f} s")
    if options.json:
        pairs = (pair for places in outcome.differences.values() for pair in places)
        records = [{"trace": trace, **difference._asdict()} for trace, difference in pairs]
        options.json.write_text(json.dumps({"compared": outcome.compared, "differences": records}, indent=1), "utf-8")
        print(f"Wrote {options.json}")
    return int(bool(outcome.differences))


if __name__ == "__main__":
    sys.exit(main())
