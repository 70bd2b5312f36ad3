"""What begins capture.json: the git commit of a real repository, and nothing where there is none."""

import os
import shutil
import subprocess

import pytest

from tests.frames import events
from tests.frames import trace as make_trace
from tracekit.capture import new_run as module
from tracekit.capture.new_run import commit
from tracekit.report.build import analyse

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed here")


def git(directory, *words):
    who = {f"GIT_{whose}_{what}": "a@b" for whose in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    nowhere = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    command = ["git", "-C", str(directory), *words]
    return subprocess.run(command, env={**os.environ, **who, **nowhere}, check=True, capture_output=True, text=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_LIMIT_S", 60.0)  # on a busy machine too
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "train.py").write_text("1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


@needs_git
def test_a_commit_is_dirty_where_a_tracked_file_is_not_as_committed(repository):
    short = git(repository, "rev-parse", "--short", "HEAD").stdout.strip()
    assert commit(repository / "below") == short
    (repository / "new.py").write_text("not tracked")
    assert commit(repository) == short
    (repository / "below" / "train.py").write_text("2\n")
    assert commit(repository) == f"{short}-dirty"


@needs_git
def test_a_hook_of_another_repository_does_not_stand_for_this_one(repository, monkeypatch, tmp_path):
    short = commit(repository)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere" / ".git"))
    assert commit(repository) == short


@needs_git
def test_asking_writes_nothing(repository):
    index = repository / ".git" / "index"
    os.utime(repository / "below" / "train.py")  # the index would be refreshed
    before = index.read_bytes(), index.stat().st_mtime_ns
    assert commit(repository)
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before


def test_without_a_repository_without_a_commit_and_without_git_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "plain").mkdir()
    assert commit(tmp_path / "plain") is None
    assert commit(tmp_path / "absent") is None
    if shutil.which("git"):
        git(tmp_path / "plain", "init", "-q")
        assert commit(tmp_path / "plain") is None
    monkeypatch.setenv("PATH", "")
    assert commit(tmp_path / "plain") is None


def test_a_git_that_hangs_does_not_hold_up_a_capture(tmp_path, monkeypatch):
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert commit(tmp_path) is None


@needs_git
def test_a_tree_that_git_looks_at_for_too_long_is_not_called_clean(repository, monkeypatch):
    asked = module._git
    monkeypatch.setattr(module, "_git", lambda *words: None if "status" in words else asked(*words))
    assert commit(repository) == f"{git(repository, 'rev-parse', '--short', 'HEAD').stdout.strip()}-unknown"


@pytest.mark.parametrize(
    ("told", "kept"), [("abc1234", "abc1234"), ("abc1234-dirty", "abc1234-dirty"), ("<b>", ""), (7, ""), (None, "")]
)
def test_a_report_holds_the_commit_of_its_capture(told, kept):
    trace = make_trace(events(("gpu:0", "compute", 0, 10)), capture={"commit": told})
    report = analyse(trace)
    assert report.trace.commit == kept
    assert report.summary()["trace"]["commit"] == (kept or None)
