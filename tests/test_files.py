"""Where files about a trace go, and that none is ever half-written."""

import os
import shutil
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tracekit import files
from tracekit.errors import TracekitError
from tracekit.files import refuse_inside, replaced, trace_name, write_all
from tracekit.report.figures.drawing import Drawing


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("traces/train-1", "train-1"),
        ("traces/train-1/plugins/profile/2026_01_01", "train-1"),
        ("traces/train-1/plugins/profile/2026_01_01/host.xplane.pb", "train-1"),
        ("somewhere/host.xplane.pb", "host"),
        ("rank0.pt.trace.json.gz", "rank0"),
        ("run.sqlite", "run"),
        ("a" * 250, "a" * 191 + f"-{zlib.crc32(b'a' * 250):08x}"),
        ("ä" * 120 + ".sqlite", "ä" * 95 + f"-{zlib.crc32(('ä' * 120).encode()):08x}"),
    ],
)
def test_a_trace_is_called_after_its_log_directory_or_its_file(path, name):
    assert trace_name(Path(path)) == name


def test_nothing_goes_into_a_traces_own_directory(tmp_path):
    log = tmp_path / "log"
    run = log / "plugins" / "profile" / "r"
    run.mkdir(parents=True)
    (run / "host.xplane.pb").touch()
    (tmp_path / "t.json").touch()
    for out, trace in [(log, log), (log / "a", log), (run / "x", run), (run / "x", run / "host.xplane.pb")]:
        with pytest.raises(TracekitError, match="lies inside the trace"):
            refuse_inside(out, trace)
    for out, trace in [(tmp_path / "out", log), (tmp_path / "log2", log), (tmp_path / "x", tmp_path / "t.json")]:
        refuse_inside(out, trace)


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "a"
    replaced(path, lambda draft: draft.write_text("new"))
    assert path.read_text() == "new"

    def broken(draft: Path) -> None:
        draft.write_text("half")
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        replaced(path, broken)
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_files_are_written_in_order_into_a_directory_that_is_made(tmp_path):
    place = tmp_path / "new" / "out"
    assert write_all(place, "The page", {"b": b"1\n", "a": b"\xff"}) == ("b", "a")
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {"a": b"\xff", "b": b"1\n"}


def test_what_cannot_be_written_leaves_the_file_that_was_there(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "b").mkdir()
    with pytest.raises(TracekitError, match=r"The page cannot be written to .*: .*b'. Give another --out"):
        write_all(tmp_path, "The page", {"b": b"new", "a": b"new"})
    assert (tmp_path / "a").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_the_draft_of_any_name_has_one_that_a_disk_takes(tmp_path):
    path = tmp_path / ("ä" * 120 + ".csv")
    replaced(path, lambda draft: draft.write_text("new"))
    assert path.read_text() == "new"


def test_a_pipe_takes_what_a_file_would_hold_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        replaced(pipe, lambda draft: draft.write_text("new"))
        assert reader.communicate(timeout=30)[0] == b"new"
    assert pipe.is_fifo()
    assert [*tmp_path.iterdir()] == [pipe]


@pytest.mark.parametrize("link", [True, False])
def test_what_a_process_has_open_takes_it_and_stays(tmp_path, link):
    with open(tmp_path / "log", "w+") as file:
        path = Path(f"/proc/self/fd/{file.fileno()}")
        if link:
            (tmp_path / "stdout").symlink_to(path)
            path = tmp_path / "stdout"
        replaced(path, lambda draft: draft.write_text("new"))
        assert file.read() == "new"
        assert path.is_symlink()


NAMES = ("a.txt", "frames", "last.json")


def fill(draft, text):
    (draft / "frames").mkdir()
    for name in ("a.txt", "last.json", "frames/1"):
        (draft / name).write_text(text)


def texts(out):
    return {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("*") if path.is_file()}


WHOLE_OLD, WHOLE_NEW = (dict.fromkeys(("a.txt", "last.json", "frames/1"), text) for text in ("old", "new"))


@pytest.fixture(params=["exchanged", "moved"])
def out(request, tmp_path, monkeypatch):
    if request.param == "moved":
        monkeypatch.setattr(files, "_exchange", lambda *_: False)
    out = tmp_path / "there" / "out"
    with files.whole_directory(out, NAMES, "last.json") as draft:
        fill(draft, "old")
    return out


def test_a_directory_is_new_as_a_whole_and_no_draft_is_left(out):
    with files.whole_directory(out, NAMES, "last.json") as draft:
        fill(draft, "new")
        assert texts(out) == WHOLE_OLD
        assert draft.stat().st_mode & 0o077 == 0
    assert texts(out) == WHOLE_NEW
    assert [*out.parent.iterdir()] == [out]


def test_what_fails_leaves_the_old_directory(out):
    def write():
        with files.whole_directory(out, NAMES, "last.json") as draft:
            fill(draft, "new")
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        write()
    assert texts(out) == WHOLE_OLD
    assert [*out.parent.iterdir()] == [out]


def test_old_entries_go_and_files_of_others_stay(out):
    (out / "notes.md").write_text("mine")
    with files.whole_directory(out, NAMES, "last.json") as draft:
        (draft / "last.json").write_text("new")
    assert texts(out) == {"notes.md": "mine", "last.json": "new"}


def test_a_mounted_directory_gets_all_of_it(tmp_path):
    program = """
import sys
from pathlib import Path
from tracekit import files
sys.path.insert(0, sys.argv[2])
from tests.test_files import NAMES, fill, texts
out = Path(sys.argv[1])
for text in ("old", "new"):
    with files.whole_directory(out, NAMES, "last.json") as draft:
        fill(draft, text)
    assert {*texts(out).values()} == {text}
assert [*out.parent.iterdir()] == [out]
"""
    (out := tmp_path / "out").mkdir()
    for mount in ("mount -t tmpfs none", f"mount --bind {out}"):
        command = f'{mount} {out} && echo mounted && "$0" -c "$1" {out} {files.__file__.rpartition("/tracekit/")[0]}'
        done = subprocess.run(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", command, sys.executable, program],
            capture_output=True,
            text=True,
            check=False,
        )
        if "mounted" not in done.stdout:
            pytest.skip(f"no directory can be mounted here: {done.stderr}")
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a directory away")
def test_a_directory_keeps_its_owner_group_and_mode(out):
    os.chown(out, 1000, 2000)
    out.chmod(0o2775)
    with files.whole_directory(out, NAMES, "last.json") as draft:
        fill(draft, "new")
    found = out.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (1000, 2000, 0o2775)
    assert {path.stat().st_gid for path in out.rglob("*")} == {2000}
    assert texts(out) == WHOLE_NEW


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a directory away")
def test_of_another_accounts_directory_only_the_entries_change(out):
    out.chmod(0o2777)
    for each in [*out.rglob("*"), out.parent]:
        os.chown(each, 1000, 1000)
    os.chown(out, 2000, 2000)
    program = (
        "import os, sys; sys.path[:0] = sys.argv[2:]; from pathlib import Path; from tracekit import files; "
        "from tests.test_files import NAMES, fill; os.setgid(1000); os.setuid(1000)\n"
        "with files.whole_directory(Path(sys.argv[1]), NAMES, 'last.json') as draft: fill(draft, 'new')"
    )
    for above in out.parents:
        if above.stat().st_uid == 0 and not above.stat().st_mode & 0o005:
            above.chmod(above.stat().st_mode | 0o005)
    root = files.__file__.rpartition("/tracekit/")[0]
    subprocess.run([sys.executable, "-c", program, out, root], check=True)
    assert texts(out) == WHOLE_NEW
    assert (out.stat().st_uid, out.stat().st_gid) == (2000, 2000)


def others_of(out):
    """Files of others, a link and a directory among them as `out` has them, by name."""
    return {name: os.lstat(out / name).st_ino for name in os.listdir(out) if name not in NAMES}


# Kills the process at the step `at` of those that change what is on the disk.
_KILLED = """
import os, signal
from pathlib import Path
steps = [0]
def dying(function):
    def step(*args, **options):
        if steps[0] == at:
            os.kill(os.getpid(), signal.SIGKILL)
        steps[0] += 1
        return function(*args, **options)
    return step
files._exchange, files.shutil.rmtree, os.link = map(dying, (files._exchange, files.shutil.rmtree, os.link))
Path.rename, Path.unlink = dying(Path.rename), dying(Path.unlink)
with files.whole_directory(Path(out), names, 'last.json') as draft:
    (draft / 'frames').mkdir()
    for name in ('a.txt', 'last.json', 'frames/1'):
        (draft / name).write_text('new')
"""


def test_a_process_that_is_killed_leaves_all_old_or_all_new_and_the_files_of_others(out, monkeypatch):
    if not files._exchange(out, out):
        pytest.skip("directories cannot be exchanged here")
    (out / "notes.md").write_text("mine")
    (out / "link").symlink_to("notes.md")
    others, seen = others_of(out), []
    for at in range(20):
        given = f"at, out, names = {at}, {str(out)!r}, {NAMES}"
        code = f"from tracekit import files\n{given}\n{_KILLED}"
        ended = subprocess.run([sys.executable, "-c", code], check=False).returncode
        assert others_of(out) == others
        seen.append({path: text for path, text in texts(out).items() if path not in others})
        if not ended:
            break
    assert seen[0] == WHOLE_OLD
    assert seen[-1] == WHOLE_NEW
    assert all(each in (WHOLE_OLD, WHOLE_NEW) for each in seen)
    with files.whole_directory(out, NAMES, "last.json") as draft:
        fill(draft, "old")
    assert [*out.parent.iterdir()] == [out]


@pytest.mark.parametrize("is_made", [False, True])
def test_what_others_write_while_directories_are_exchanged_stays(tmp_path, monkeypatch, is_made):
    out, exchange = tmp_path / "out", files._exchange
    out.mkdir()
    if not is_made:
        (out / "notes.md").write_text("mine")

    def after_a_change(draft, there):
        (there / "draft of notes").write_text("changed")
        (there / "draft of notes").rename(there / "notes.md")
        return exchange(draft, there)

    monkeypatch.setattr(files, "_exchange", after_a_change)
    with files.whole_directory(out, NAMES, "last.json") as draft:
        fill(draft, "new")
    assert texts(out) == WHOLE_NEW | {"notes.md": "changed"}


def test_the_directory_of_a_shell_stays_the_same_one(out, monkeypatch):
    monkeypatch.chdir(out)
    with files.whole_directory(Path(), NAMES, "last.json") as draft:
        fill(draft, "new")
    assert texts(Path()) == WHOLE_NEW


def test_a_directory_of_others_stays(out):
    (out / "plots").mkdir()
    (out / "plots" / "1").write_text("mine")
    with files.whole_directory(out, NAMES, "last.json") as draft:
        fill(draft, "new")
    assert texts(out) == WHOLE_NEW | {"plots/1": "mine"}


def test_no_link_is_followed(out, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "1").write_text("of others")
    shutil.rmtree(out / "frames")
    (out / "frames").symlink_to(tmp_path / "elsewhere")
    (out / "a.txt").unlink()
    (out / "a.txt").symlink_to(tmp_path / "elsewhere" / "1")
    with files.whole_directory(out, NAMES, "last.json") as draft:
        fill(draft, "new")
    assert texts(out) == WHOLE_NEW
    assert (tmp_path / "elsewhere" / "1").read_text() == "of others"


def process_that_writes(code: str) -> subprocess.Popen[str]:
    """A process that has begun to write, and waits."""
    code = f"import sys\nfrom pathlib import Path\nfrom tracekit import files\n{code}"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", code], text=True, **pipes)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.mark.parametrize("is_directory", [True, False])
def test_a_draft_goes_once_the_process_that_wrote_it_is_dead_and_not_before(tmp_path, is_directory):
    out = tmp_path / "out"
    wait = "print('writing', flush=True) or sys.stdin.read()"
    of_directory = f"with files.whole_directory(Path({str(out)!r}), {NAMES}, 'last.json') as draft:\n"
    of_directory += f"    (draft / 'frames').mkdir()\n    {wait}"
    of_file = f"files.replaced(Path({str(out)!r}), lambda draft: {wait})"
    living, dead = (process_that_writes(of_directory if is_directory else of_file) for _ in range(2))
    kill(dead)
    drafts = {*tmp_path.iterdir()}
    assert len(drafts) == 2

    def write():
        if is_directory:
            with files.whole_directory(out, NAMES, "last.json") as draft:
                fill(draft, "new")
        else:
            files.replaced(out, lambda draft: draft.write_text("new"))

    write()
    left = {*tmp_path.iterdir()} - {out}
    assert len(left) == 1
    assert left < drafts
    kill(living)
    write()
    assert [*tmp_path.iterdir()] == [out]


def test_what_is_only_called_as_a_draft_stays(tmp_path):
    out = tmp_path / "out"
    (tmp_path / "elsewhere" / "frames").mkdir(parents=True)
    (tmp_path / ".out.abcdefgh").symlink_to(tmp_path / "elsewhere")
    (tmp_path / ".out.abcdefg1").write_text("a file")
    (tmp_path / ".out.abcdefg2" / "mine").mkdir(parents=True)
    (tmp_path / ".out.abcdefg2x" / "frames").mkdir(parents=True)
    (tmp_path / ".outer.abcdefgh" / "frames").mkdir(parents=True)
    (tmp_path / ".out.0123456789abcdef").symlink_to(tmp_path / ".out.abcdefg1")
    os.mkfifo(tmp_path / ".out.0123456789abcde0")
    before = {*tmp_path.rglob("*")}
    with files.whole_directory(out, NAMES, "last.json") as draft:
        fill(draft, "new")
    shutil.rmtree(out)
    files.replaced(out, lambda draft: draft.write_text("new"))
    assert {*tmp_path.rglob("*")} == before | {out}


@pytest.mark.parametrize("others", [{}, {"notes.md": "mine"}])
def test_threads_that_write_one_directory_leave_it_whole(out, others):
    for name, content in others.items():
        (out / name).write_text(content)

    def write(text):
        for _ in range(20):
            with files.whole_directory(out, NAMES, "last.json") as draft:
                fill(draft, text)

    with ThreadPoolExecutor(4) as pool:
        for task in [pool.submit(write, text) for text in "abcd"]:
            task.result()
    assert len({*(texts(out).items() - others.items())}) == len(NAMES)
    assert len({*texts(out).values()}) == 1 + len(others)
    assert texts(out).items() >= others.items()
    assert [*out.parent.iterdir()] == [out]


def test_threads_that_write_one_file_leave_it_whole(tmp_path):
    with ThreadPoolExecutor(4) as pool:
        for task in [
            pool.submit(files.replaced, tmp_path / "x", lambda path, text=text: path.write_text(text * 999))
            for text in "abcd" * 9
        ]:
            task.result()
    assert (tmp_path / "x").read_text() in {text * 999 for text in "abcd"}
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def report_of_others(at: Path, *entries: str) -> dict[str, str]:
    """Make files of others in a directory; gives them as they are."""
    for entry in entries:
        (at / entry).parent.mkdir(parents=True, exist_ok=True)
        (at / entry).write_text("mine")
    return texts(at)


OWN = ("report.html", "report.md", "summary.json", "frames")


@pytest.mark.parametrize("entry", ["report.html", "report.md", "summary.json", "frames/1.png", "frames/own.parquet"])
def test_what_others_called_like_a_reports_files_is_not_lost(tmp_path, entry):
    mine = report_of_others(tmp_path, "notes.txt", entry)
    with pytest.raises(TracekitError, match=rf"holds {entry.partition('/')[0]}, which is of no report that tracekit"):
        files.refuse_foreign(tmp_path, OWN)
    assert texts(tmp_path) == mine


@pytest.mark.parametrize("entry", ["frames/1.png", "frames/mine.parquet", "frames/deep/own.parquet", "report.html/1"])
def test_what_others_put_among_the_files_of_a_saved_report_is_not_lost(tmp_path, entry):
    report_of_others(tmp_path, "frames/whole.partition.parquet", "frames/.DS_Store")
    (tmp_path / "summary.json").write_text('{"schema": 2, "trace": {}, "report": {"frames": {"whole.partition": {}}}}')
    files.refuse_foreign(tmp_path, OWN)
    report_of_others(tmp_path, entry)
    with pytest.raises(TracekitError, match=f"holds {entry.rpartition('/')[0]}"):
        files.refuse_foreign(tmp_path, OWN)


def test_what_a_killed_process_left_of_a_report_is_replaced(tmp_path):
    report_of_others(tmp_path / "out", "report.html")
    (tmp_path / ".out.abcd1234").mkdir()
    files.refuse_foreign(tmp_path / "out", OWN)


def test_nothing_behind_a_link_of_a_saved_report_is_refused(tmp_path):
    report_of_others(tmp_path, "of others/1.png", "out/report.md")
    (tmp_path / "out" / "summary.json").write_text('{"schema": 2, "trace": {}}')
    (tmp_path / "out" / "frames").symlink_to(tmp_path / "of others")
    files.refuse_foreign(tmp_path / "out", OWN)
    files.refuse_foreign(tmp_path / "no such directory", OWN)


def test_a_picture_that_tracekit_drew_is_not_of_others(tmp_path):
    picture = Drawing(figsize=(1, 1)).encoded("png")
    (tmp_path / "gantt.png").write_bytes(picture)
    files.refuse_foreign(tmp_path, ("gantt.png",))
    (tmp_path / "gantt.png").write_bytes(picture.replace(files.DRAWN, b"Software\0tracedog"))
    with pytest.raises(TracekitError, match=r"holds gantt\.png"):
        files.refuse_foreign(tmp_path, ("gantt.png",))


def test_the_draft_of_a_killed_process_goes_that_held_a_draft_of_its_own(tmp_path):
    out = tmp_path / "out"
    for number, held in enumerate([".frames.0123456789abcdef", ".frames.of others", "frames"]):
        (tmp_path / f".out.abcd123{number}" / held).mkdir(parents=True)
    with files.whole_directory(out, NAMES, "last.json") as draft:
        fill(draft, "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.abcd1231", "out"]
