"""Compiled code that is kept on disk: used again if it is whole and private, and else never in the way."""

import hashlib
import importlib.util
import os
import pickle

import pytest

from tracekit import code_cache

numba = pytest.importorskip("numba")

SOURCE = "def double(value):\n    return 2 * value\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The directory that numba is told to keep code in."""
    code_cache._said.clear()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "package" / "module.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    return path


def doubled(path, value=21):
    """What the function in a file gives, compiled as in a new process, and whether its code was there already."""
    spec = importlib.util.spec_from_file_location("module", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    jitted = numba.njit(loaded.double)
    code_cache.keep(jitted)
    return jitted(value), sum(jitted.stats.cache_hits.values()) > 0


def kept(place):
    (path,) = place.rglob("*.code")
    return path


def sentences(caplog):
    return [record.getMessage() for record in caplog.records]


def test_code_is_kept_for_the_next_process_and_only_its_owner_writes_it(place, module, caplog):
    assert [doubled(module), doubled(module)] == [(42, False), (42, True)]
    assert kept(place).stat().st_mode & 0o777 == 0o644
    assert sentences(caplog) == []


def test_code_of_another_source_is_not_used(place, module):
    doubled(module)
    module.write_text(SOURCE.replace("2 *", "30 *"))
    assert [doubled(module), doubled(module)] == [(630, False), (630, True)]


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "text"])
def test_damaged_code_is_compiled_again_which_is_said_once(place, module, caplog, damage):
    doubled(module)
    content = bytearray(kept(place).read_bytes())
    content[len(content) // 2] ^= 1
    damaged = {"cut": content[:100], "empty": b"", "flipped": content, "text": b"hello, world\n" * 99}
    kept(place).write_bytes(damaged[damage])
    assert [doubled(module), doubled(module)] == [(42, False), (42, True)]
    assert sentences(caplog) == [f"tracekit: Compiled code in {kept(place).parent} was damaged; it is compiled again."]


def test_a_pipe_in_the_place_of_code_is_not_waited_for(place, module, caplog):
    doubled(module)
    path = kept(place)
    path.unlink()
    os.mkfifo(path)
    assert [doubled(module), doubled(module)] == [(42, False), (42, True)]
    assert sentences(caplog) == [f"tracekit: Compiled code in {path.parent} was damaged; it is compiled again."]


def test_code_of_another_numba_which_cannot_load_here_is_no_damage(place, module, caplog):
    doubled(module)
    content = pickle.dumps((("0.1", "", "", ""), b"what this numba cannot load"))
    kept(place).write_bytes(hashlib.sha256(content).digest() + content)
    assert [doubled(module), doubled(module)] == [(42, False), (42, True)]
    assert sentences(caplog) == []


def test_what_works_without_a_place_for_its_code_says_so_once(tmp_path, place, module, caplog, monkeypatch):
    place.write_text("no directory")
    (module.parent / "__pycache__").write_text("no directory")
    (tmp_path / "home").write_text("no directory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert [doubled(module), doubled(module)] == [(42, False), (42, False)]
    assert sentences(caplog) == [
        "tracekit: Compiled code cannot be kept: no directory for it is writable. Large traces compile it again in "
        "every run; set NUMBA_CACHE_DIR to a private directory."
    ]


@pytest.mark.parametrize("given", ["", "caches"])
def test_nothing_is_kept_in_the_working_directory(tmp_path, place, module, monkeypatch, given):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (module.parent / "__pycache__").write_text("no directory, so that nothing is kept beside the package")
    doubled(module)
    assert not list(work.iterdir())
    assert kept(tmp_path / "home")
    assert os.environ["XDG_CACHE_HOME"] == given


def test_a_full_disk_costs_only_the_keeping(place, module, caplog, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(code_cache.os, "replace", full)
    assert [doubled(module), doubled(module)] == [(42, False), (42, False)]
    (folder,) = place.iterdir()
    assert list(folder.iterdir()) == []
    assert sentences(caplog) == [
        f"tracekit: Compiled code cannot be kept in {folder}: No space left on device. Large traces compile it again "
        "in every run; set NUMBA_CACHE_DIR to a private directory."
    ]


def test_a_full_disk_is_said_once_for_the_folders_of_all_modules(place, module, tmp_path, caplog, monkeypatch):
    def full(*_):
        raise OSError(122, "Disk quota exceeded")

    monkeypatch.setattr(code_cache.os, "replace", full)
    other = tmp_path / "other" / "module.py"
    other.parent.mkdir()
    other.write_text(SOURCE)
    assert [doubled(module), doubled(other)] == [(42, False), (42, False)]
    assert len([*place.iterdir()]) == 2
    (sentence,) = sentences(caplog)
    assert "Disk quota exceeded" in sentence


def test_a_directory_that_others_may_write_to_becomes_private_and_what_was_in_it_is_not_run(place, module):
    doubled(module)
    folder = kept(place).parent
    folder.chmod(0o777)
    assert [doubled(module), doubled(module)] == [(42, False), (42, True)]
    assert folder.stat().st_mode & 0o777 == 0o755


def test_a_file_that_others_may_write_to_is_not_run(place, module):
    doubled(module)
    kept(place).chmod(0o666)
    assert [doubled(module), doubled(module)] == [(42, False), (42, True)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another account")
def test_code_in_the_directory_of_another_account_is_not_run(place, module, caplog):
    doubled(module)
    folder = kept(place).parent
    os.chown(folder, 12345, 12345)
    assert [doubled(module), doubled(module)] == [(42, False), (42, False)]
    assert sentences(caplog) == [
        f"tracekit: Compiled code is not kept in {folder}, which belongs to another account. Large traces compile it "
        "again in every run; set NUMBA_CACHE_DIR to a private directory."
    ]


def test_code_beside_the_program_is_as_private_as_the_program(place, module, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    module.parent.chmod(0o775)
    (module.parent / "__pycache__").mkdir()
    (module.parent / "__pycache__").chmod(0o775)
    assert [doubled(module), doubled(module)] == [(42, False), (42, True)]
    (module.parent / "__pycache__").chmod(0o777)
    assert [doubled(module), doubled(module)] == [(42, False), (42, True)]
    assert (module.parent / "__pycache__").stat().st_mode & 0o777 == 0o775 & ~0o022
