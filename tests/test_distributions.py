"""What checks the wheel and the sdist refuses one that lacks a file, or has one too much, and says what comes next."""

import importlib.util
import io
import re
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / ".git").exists():
    pytest.skip("not a clone", allow_module_level=True)

spec = importlib.util.spec_from_file_location("distributions", ROOT / ".ci" / "distributions.py")
distributions = importlib.util.module_from_spec(spec)
spec.loader.exec_module(distributions)

COMMITTED = [name for name in distributions.files() if name != ".gitignore" and not name.startswith(".github/")]


def sdist(path: Path, names: list[str]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in [*names, "PKG-INFO", "setup.cfg", "tracekit_jax.egg-info/SOURCES.txt"]:
            archive.addfile(tarfile.TarInfo(f"tracekit_jax-1.0/{name}"), io.BytesIO())
    return path


def wheel(path: Path, names: list[str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in [*names, "tracekit_jax-1.0.dist-info/METADATA"]:
            archive.writestr(name, "")
    return path


@pytest.mark.parametrize("make", [sdist, wheel])
@pytest.mark.parametrize(
    ("lacking", "added"),
    [
        ([], []),
        (["tracekit/py.typed"], []),
        (["tracekit/readers/__init__.py"], []),
        ([], ["tracekit/__pycache__/cli.cpython-311.pyc"]),
    ],
    ids=["whole", "no types", "no package", "a cache"],
)
def test_a_file_that_is_missing_or_too_much_is_named(tmp_path, make, lacking, added):
    names = COMMITTED if make is sdist else [name for name in COMMITTED if name.startswith("tracekit/")]
    path = make(tmp_path / "file", [name for name in names if name not in lacking] + added)
    check = distributions.check_sdist if make is sdist else distributions.check_wheel
    if not lacking + added:
        check(path)
        return
    with pytest.raises(distributions.WrongDistributionError, match=f"{lacking or added}".strip("[]'")):
        check(path)


@pytest.mark.parametrize("name", ["LICENSE", "tests/conftest.py", "docs/cli.md", "reports/README.md", "MANIFEST.in"])
def test_tests_docs_and_license_are_in_the_sdist(tmp_path, name):
    assert name in COMMITTED
    with pytest.raises(distributions.WrongDistributionError, match=name):
        distributions.check_sdist(sdist(tmp_path / "file", [other for other in COMMITTED if other != name]))


def test_no_page_and_no_trace_of_a_report_is_committed():
    assert [
        name for name in COMMITTED if name.endswith((".html", ".parquet")) and not name.startswith("tracekit/")
    ] == []
    assert [name for name in COMMITTED if name.startswith(("traces/", "dist/", "build/", "site/"))] == []


def test_what_comes_next_is_to_name_the_release_to_tag_it_and_to_upload_it(monkeypatch):
    monkeypatch.setattr(distributions, "git", lambda *words: "v9.9\nv0.0.1")
    files = [Path("dist/tracekit_jax-9.8-py3-none-any.whl"), Path("dist/tracekit_jax-9.8.tar.gz")]
    monkeypatch.setattr(distributions, "version", lambda: "9.8")
    steps = distributions.next_steps(*files)
    assert "nothing uploaded: dist/" in steps
    assert [line[:30] for line in steps.splitlines() if line[:1].isdigit()] == [
        "1. In CHANGELOG.md call the se",
        "2. git tag --annotate v9.8 --m",
        "3. Upload tracekit_jax-9.8-py3",
    ]
    monkeypatch.setattr(distributions, "version", lambda: "9.9")
    assert "1. v9.9 is tagged already" in distributions.next_steps(*files)


def test_a_release_of_files_that_are_not_committed_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(distributions, "git", lambda *words: " M README.md")
    monkeypatch.setattr("sys.argv", ["distributions.py", "--release", "dist"])
    with pytest.raises(SystemExit, match=r"commit or remove these first; .*\n M README\.md"):
        distributions.main()


def test_the_two_hosts_of_ci_call_the_same_script():
    run = (ROOT / ".ci" / "run").read_text("utf-8")
    assert ".ci/distributions.py" in run
    assert ".ci/distributions.py --release" in (ROOT / "Makefile").read_text("utf-8")
    assert "run: .ci/run" in (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    assert subprocess.run(["bash", "-n", ROOT / ".ci" / "run"]).returncode == 0


def test_the_light_install_is_what_all_need_but_capture_and_view():
    text = (ROOT / "requirements-read.txt").read_text("utf-8")
    light = [line for line in text.splitlines() if not line.startswith("#")]
    full = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    only_full = [name for name in full if name not in light]
    assert [re.split("[<>=]", name)[0] for name in only_full] == [
        "jax", "jaxlib", "tensorboard", "tensorboard-plugin-profile",
    ]  # fmt: skip
    assert len(light) + len(only_full) == len(full)
