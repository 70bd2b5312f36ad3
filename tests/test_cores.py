"""How many cores this process may use, read from files that stand in for the system's own."""

import os
from pathlib import Path

import pytest

from tracekit import cores
from tracekit.cores import affinity, quota, usable

SECOND, FIRST = "sys/fs/cgroup/{}cpu.max", "sys/fs/cgroup/cpu/{}cpu.cfs_{}_us"


def write_files(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def first(folder: str, quota_us: str) -> dict[str, str]:
    return {FIRST.format(folder, "quota"): f"{quota_us}\n", FIRST.format(folder, "period"): "100000\n"}


def second(folder: str, quota_us: str) -> dict[str, str]:
    return {SECOND.format(folder): f"{quota_us} 100000\n"}


def own(*lines: str) -> dict[str, str]:
    return {"proc/self/cgroup": "".join(f"{line}\n" for line in lines)}


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        (second("", "150000"), 1.5),
        (second("", "max"), None),
        (first("", "400000"), 4.0),
        (first("", "-1"), None),
        ({}, None),
        (own("0::/a/b") | second("a/b/", "max") | second("a/", "50000") | second("", "max"), 0.5),
        (own("0::/a/b") | second("a/b/", "200000") | second("a/", "300000"), 2.0),
        (own("0::/../elsewhere") | second("", "300000"), 3.0),
        (own("5:memory:/m", "4:cpu,cpuacct:/a", "0::/") | first("a/", "100000") | first("", "-1"), 1.0),
        (own("1:name=systemd:/x:y", "4:cpu,cpuacct:/a") | first("", "200000"), 2.0),
        (second("", "some thing else"), None),
    ],
    ids=[
        *("v2", "v2 without limit", "v1", "v1 without limit", "no cgroup", "around it", "own is less", "outside"),
        *("own of v1", "v1 in a container", "not understood"),
    ],
)
def test_the_limit_of_the_cgroup_is_found_in_both_versions(tmp_path, files, cores):
    assert quota(write_files(tmp_path, files)) == cores


def test_usable_cores_are_no_more_than_the_machine_has_and_the_cgroup_allows(tmp_path):
    assert 0 < usable() <= affinity() <= os.cpu_count()
    assert usable(write_files(tmp_path, second("", "50000"))) == 0.5
    assert usable(write_files(tmp_path, second("", "9900000"))) == affinity()
    assert isinstance(usable(tmp_path), int)


@pytest.mark.parametrize(("most", "usable_cores", "threads"), [(4, 1, 1), (4, 1.5, 2), (4, 4, 4), (4, 16, 4)])
def test_threads_that_compute_are_as_many_as_usable_cores_up_to_a_limit(monkeypatch, most, usable_cores, threads):
    monkeypatch.setattr(cores, "usable", lambda: usable_cores)
    assert cores.threads(most) == threads


def test_no_other_module_counts_cores():
    sources = Path(cores.__file__).parent
    modules = [path for path in sources.rglob("*.py") if "cpu_count" in path.read_text("utf-8")]
    # The doctor tells all cores of the machine beside those that are usable.
    assert sorted(path.relative_to(sources).as_posix() for path in modules) == ["cores.py", "doctor/facts.py"]


def counted(folder: str, text: str) -> dict[str, str]:
    return {f"sys/fs/cgroup/{folder}cpu.stat": text}


SECOND_STAT = "usage_usec 5\nnr_periods 9\nnr_throttled {}\nthrottled_usec {}\n"
FIRST_STAT = "nr_periods 9\nnr_throttled {}\nthrottled_time {}\n"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (counted("", SECOND_STAT.format(3, 1_500_000)), (3, 1.5)),
        (counted("cpu/", FIRST_STAT.format(2, 250_000_000)), (2, 0.25)),
        (
            own("0::/a/b") | counted("a/b/", SECOND_STAT.format(1, 10)) | counted("a/", SECOND_STAT.format(2, 30)),
            (3, 40e-6),
        ),
        (counted("", "usage_usec 5\nuser_usec 3\n"), None),
        ({}, None),
    ],
    ids=["v2", "v1", "own and around it", "v2 without limit", "no cgroup"],
)
def test_throttling_is_counted_in_both_versions(tmp_path, files, told):
    assert cores.throttling(write_files(tmp_path, files)) == told
