"""Files in a bucket or any other store that fsspec knows (https://filesystem-spec.readthedocs.io), by their URLs.

What is read is fetched into a cache on this machine first, and what is written is uploaded once it is complete: nothing
else of tracekit knows more of a URL than that it is one. `import tracekit` imports this module, and it imports fsspec
only where a URL was given.
"""

import hashlib
import os
import re
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from tracekit.errors import TracekitError

T = TypeVar("T")

# A protocol, or several of them as in simplecache::gs://; one letter would be a drive.
_URL = re.compile(r"(?:[a-z][\w+.-]+::)*[a-z][\w+.-]+://", re.IGNORECASE)
# What pathlib makes of a URL, which has one slash then.
_MANGLED = re.compile(r"([a-z][\w+.-]+):/(?!/)", re.IGNORECASE)
_LOCAL = ("file", "local")
# Until a store has answered for the first time, in s: gcsfs alone would look for credentials for 50 s.
WAIT_VARIABLE, _WAIT_S = "TRACEKIT_STORAGE_WAIT", 10.0
# After so many seconds in which no part of any file came or went, a transfer has failed.
_STALLED_S = 300.0
# What stays in the cache, in GB.
CACHE_VARIABLE, _CACHE_GB = "TRACEKIT_CACHE_GB", 10.0
_MOST_FILES = 100_000
_AT_ONCE = 32
_LONGEST_REASON = 200
# What stores call the version of a file, and the time of it.
_VERSIONS = ("ETag", "etag", "generation", "md5Hash", "content_hash", "version_id", "checksum")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "timeModified", "created")


def place(location: str | os.PathLike[str]) -> Path | str:
    """A path, or the URL that `location` is; that of a file on this machine (file://) is its path.

    A URL that pathlib has taken for a path, and so lost a slash, is a URL again.
    """
    text = os.fspath(location)
    if (lost := _MANGLED.match(text)) and not Path(f"{lost[1]}:").exists() and _is_protocol(lost[1]):
        text = f"{lost[1]}://{'/' if lost[1] in _LOCAL else ''}{text[lost.end() :]}"
    if not _URL.match(text):
        return Path(location)
    protocol, _, rest = text.partition("://")
    return Path(unquote(rest)) if protocol.lower() in _LOCAL else text


def child(location: Path | str, name: str) -> Path | str:
    """What is called `name` below a path or URL."""
    if isinstance(location, Path):
        return location / name
    return f"{location}{name}" if location.endswith("://") else f"{location.rstrip('/')}/{name}"


def base_name(location: Path | str) -> str:
    """What the file or directory at a path or URL is called."""
    return location.name if isinstance(location, Path) else parts(location)[-1]


def parent(location: Path | str) -> Path | str:
    """The directory in which a path or URL lies."""
    if isinstance(location, Path):
        return location.parent
    above = location.rstrip("/").rpartition("/")[0]
    return f"{above}/" if above.endswith(":/") else above


def parts(url: str) -> tuple[str, ...]:
    """The bucket, directories and file that a URL names."""
    split = urlsplit(url.rpartition("::")[2] if url.startswith("simplecache::") else url)
    path = unquote(split.path).split("/")
    return tuple(part for part in (split.netloc or split.scheme, *path) if part)


def is_shared(url: str) -> bool:
    """Whether other processes find at a URL what this one does, which is not so in its own memory."""
    return "memory" not in url.partition("://")[0].split("::")


@dataclass(frozen=True)
class Tree:
    """What lies at a path, or at a `url`, as it lies on this machine: `path` is a file or a directory.

    Of a store, every file is there with its size and time, but only with its first bytes until it is completed.
    """

    path: Path
    url: str = ""
    _complete: Callable[[Collection[Path]], None] = lambda files: None

    def complete(self, files: Iterable[Path]) -> None:
        """Fetch these files of the tree, those that are there, whole."""
        self._complete([*files])

    def url_of(self, file: Path) -> str:
        """The URL of a file of the tree, "" where that is on this machine's disk."""
        url = self.url if file == self.path else child(self.url, file.relative_to(self.path).as_posix())
        return str(url) if self.url else ""

    def named(self, text: str) -> str:
        """`text` with the URL in place of the path on this machine."""
        return text.replace(str(self.path), self.url) if self.url else text


@contextmanager
def listed(
    location: Path | str,
    head_bytes: Callable[[str], int],
    *,
    beside: Sequence[str] = (),
    patterns: Sequence[str] = (),
) -> Iterator[Tree]:
    """What lies at `location`, to look at and to complete; at a URL it is there as long as the context.

    `head_bytes` says of a file's name how many of its first bytes are wanted. `beside` names files of the directory of
    a single file that are laid out with it. With `patterns` only those files of a directory are, whose paths below it,
    or below a directory of it, match one. Where nothing is, the tree's path does not exist. Raises TracekitError where
    a store cannot be reached, and names the URL in every other TracekitError.
    """
    if isinstance(location, Path):
        yield Tree(location)
        return
    store = _Store(location)
    with _Cache.opened() as cache:
        root = cache.view / store.mirror
        files = {
            root / name: file
            for name, file in store.files().items()
            if not (name and patterns)
            or any(fnmatch(name, pattern) or fnmatch(name, f"*/{pattern}") for pattern in patterns)
        }
        if store.is_file:
            files |= {root.parent / name: file for name in beside if (file := store.beside(name))}

        def complete(wanted: Collection[Path]) -> None:
            cache.fetch({path: files[path] for path in wanted if path in files}, store)

        cache.sketch(files, store, head_bytes)
        tree = Tree(root, location, complete)
        with _naming(tree):
            yield tree


@contextmanager
def fetched(location: Path | str, *patterns: str) -> Iterator[Path]:
    """What lies at `location`, whole, on this machine as long as the context: all of it, or of a directory the files
    that match `patterns`, as `listed` has it.

    Raises what `listed` raises.
    """
    with listed(location, lambda name: 0, patterns=patterns) as tree:
        if tree.url:
            tree.complete([tree.path, *tree.path.rglob("*")])
        yield tree.path


@contextmanager
def written(location: Path | str, *, last: Sequence[str] = (), stale: Sequence[str] = ()) -> Iterator[Path]:
    """Where to write the file or directory `location`: for a URL a draft on this machine, which is uploaded at the end
    of a context that raised nothing.

    The files that are called as `last` says come last, and old ones of these names are removed first, so that what is
    not complete never looks as if it were. Old files that match `stale`, as paths below `location`, are removed if the
    draft has no such file. Raises TracekitError where that fails, and names the URL in every other TracekitError.
    """
    if isinstance(location, Path):
        yield location
        return
    with tempfile.TemporaryDirectory(prefix="tracekit-", ignore_cleanup_errors=True) as directory:
        tree = Tree(Path(directory) / base_name(location), location)
        with _naming(tree):
            yield tree.path
        upload(tree.path, location, last=last, stale=stale)


def upload(draft: Path, url: str, *, last: Sequence[str] = (), stale: Sequence[str] = ()) -> None:
    """Upload the file or directory `draft`, as `written` says. Raises TracekitError where that fails."""
    below = () if draft.is_file() else sorted(draft.rglob("*"))
    files = {path.relative_to(draft).as_posix(): path for path in below if path.is_file()} or {"": draft}
    store = _Store(url, "written")
    old = set(store.files()) if (last or stale) and not store.is_file else set()
    ordered = sorted(files, key=lambda name: name in last)
    first = [name for name in ordered if name not in last]
    try:
        store.remove(old & set(last))
        store.put({name: files[name] for name in first})
        store.put({name: files[name] for name in ordered[len(first) :]})
    except BaseException:
        with suppress(Exception):
            store.remove(set(files) - old, _WAIT_S)
        raise
    store.remove({name for name in old - set(files) if any(fnmatch(name, pattern) for pattern in stale)})


def exists(location: Path | str) -> bool:
    """Whether there is a file or a directory at a path or URL. Raises TracekitError where its store cannot be
    reached."""
    return location.exists() if isinstance(location, Path) else _Store(location).found is not None


def beginnings(url: str, names: Sequence[str], count: int) -> list[bytes | None]:
    """The first `count` bytes of files below a URL, None where there is no such file. Raises TracekitError where its
    store cannot be reached."""
    store = _Store(url)
    if store.found is None or store.is_file:
        return [None] * len(names)
    found = [store.below(name) for name in names]
    keys = [file.key for file in found if file and file.size]
    heads = dict(zip(keys, store.heads(keys, [count] * len(keys)), strict=True)) if keys else {}
    return [heads.get(file.key, b"") if file else None for file in found]


def directories(url: str) -> list[str]:
    """The names of the directories right below a URL."""
    return sorted({name.partition("/")[0] for name in _Store(url).files() if "/" in name})


def refuse_unreachable(url: str) -> None:
    """Raise TracekitError unless the store of a URL answers, and knows the bucket."""
    _Store(url, "written").check_bucket()


def lies_in(url: str, home: str) -> bool:
    """Whether a URL is `home`, or lies below it."""
    return f"{url.rstrip('/')}/".startswith(f"{home.rstrip('/')}/")


@contextmanager
def _naming(tree: Tree) -> Iterator[None]:
    """Name the URL of the tree in every TracekitError that is raised meanwhile."""
    try:
        yield
    except TracekitError as error:
        error.args = tuple(tree.named(part) if isinstance(part, str) else part for part in error.args)
        raise


def _is_protocol(name: str) -> bool:
    with suppress(ImportError):
        import fsspec

        return name in fsspec.available_protocols()
    return False


@dataclass(frozen=True)
class _File:
    """A file in a store: its key there, its length in bytes, its time in s since 1970, and what names its version, ""
    if the store does not say."""

    key: str
    size: int
    modified: float
    version: str


class _Store:
    """The part of a store that lies at a URL; what it is asked takes no longer than it should, and fails with one
    sentence, in which the URL cannot be `done`."""

    def __init__(self, url: str, done: str = "read") -> None:
        self.url, self._done = url, done
        self._moved = time.monotonic()
        self.fs: Any = None
        self.fs, self.root, self.found = self._ask(self._connect, _number(WAIT_VARIABLE, _WAIT_S))

    @property
    def is_file(self) -> bool:
        """Whether there is a file at the URL."""
        return self.found is not None and self.found["type"] == "file"

    @property
    def mirror(self) -> PurePosixPath:
        """The path in the store as a relative path on this machine."""
        parts = re.sub(r"^\w+://", "", self.root).partition("?")[0].split("/")
        return PurePosixPath(*([part for part in parts if part not in ("", ".", "..")] or ["files"]))

    def files(self) -> dict[str, _File]:
        """The files at the URL, by their paths below it; the file that is there is called ""."""
        if self.found is None:
            return {}
        if self.is_file:
            return {"": _file(self.root, self.found)}
        found = self._ask(lambda: self.fs.find(self.root, detail=True))
        if len(found) > _MOST_FILES:
            raise TracekitError(f"{self.url} holds {len(found):,} files. Give the log directory or the run below it.")
        start = len(self.root.rstrip("/")) + 1
        named = {key[start:]: _file(key, info) for key, info in found.items() if info["type"] == "file"}
        # A key may be any text: one that is no path, or the beginning of another, can be no file here.
        above = {str(parent) for name in named for parent in PurePosixPath(name).parents}
        return {name: file for name, file in named.items() if _is_path(name) and name not in above}

    def written_since(self, files: Iterable[_File]) -> list[str]:
        """The keys of those of the `files` that the store now has otherwise than it told of them."""

        def told() -> dict[str, dict[str, Any] | None]:
            self.fs.invalidate_cache()
            if self.is_file:
                return {file.key: self._info(file.key) for file in files}
            return dict(self.fs.find(self.root, detail=True))  # of a listing, which may tell other versions than `info`

        now = self._ask(told)
        return [file.key for file in files if (found := now.get(file.key)) and _file(file.key, found) != file]

    def beside(self, name: str) -> _File | None:
        """The file called `name` in the directory of this one, if it is there."""
        return self._file_at(f"{self.root.rpartition('/')[0]}/{name}")

    def below(self, name: str) -> _File | None:
        """The file at the path `name` below the URL, if it is there."""
        return self._file_at(self._key(name))

    def _file_at(self, key: str) -> _File | None:
        found = self._ask(lambda: self._info(key))
        return _file(key, found) if found and found["type"] == "file" else None

    def heads(self, keys: Sequence[str], counts: Sequence[int]) -> list[bytes]:
        """The first bytes of files, so many of each."""
        parts = self._ask(lambda: self.fs.cat_ranges([*keys], 0, [*counts], on_error="return", **self._at_once()))
        if broken := [part for part in parts if isinstance(part, Exception)]:
            raise self._failure(broken[0])
        return [bytes(part) for part in parts]

    def get(self, keys: Sequence[str], paths: Sequence[Path]) -> None:
        """Copy files to paths on this machine."""
        self._transfer(self.fs.get, [*keys], [*map(str, paths)])

    def put(self, files: Mapping[str, Path]) -> None:
        """Copy files on this machine to the paths below the URL that they stand for."""
        if files:
            self._transfer(self.fs.put, [*map(str, files.values())], [self._key(name) for name in files])

    def remove(self, names: Collection[str], wait_s: float = _STALLED_S) -> None:
        """Remove the files at these paths below the URL, those that are there."""

        def remove() -> None:
            for name in names:
                with suppress(FileNotFoundError):
                    self.fs.rm_file(self._key(name))
                self._moved = time.monotonic()

        if names:
            self._ask(remove, wait_s)

    def check_bucket(self) -> None:
        """Raise TracekitError where what the URL begins with is not there: no directory, but a bucket of a store."""
        bucket = self.root.partition("/")[0]
        if self.found is not None or not bucket or "://" in self.root:
            return
        try:
            found = self._ask(lambda: self._info(bucket))
        except TracekitError as error:
            if isinstance(error.__cause__, PermissionError):  # who may write in a bucket need not be allowed to look
                return
            raise
        if found is None:
            raise TracekitError(f"{self.url} cannot be written: there is no bucket {bucket}. Check the name.")

    def _connect(self) -> tuple[Any, str, dict[str, Any] | None]:
        from fsspec.core import url_to_fs

        self.fs, root = url_to_fs(self.url)
        self.fs.invalidate_cache()  # of what a listing said before
        return self.fs, root, self._info(root)

    def _info(self, key: str) -> dict[str, Any] | None:
        """What the store says of a file or directory, None where there is none."""
        try:
            found: dict[str, Any] = self.fs.info(key)
        except FileNotFoundError as error:
            # So fsspec tells of a server of the web that it does not reach, too.
            if isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, FileNotFoundError):
                raise error.__cause__ from None
            return None
        return found

    def _at_once(self) -> dict[str, int]:
        """How many files come or go at once; some stores take one after the other, and no such option."""
        return {"batch_size": _AT_ONCE} if self.fs.async_impl else {}

    def _key(self, name: str) -> str:
        return "/".join(filter(None, (self.root.rstrip("/"), name)))

    def _transfer(self, copy: Callable[..., object], sources: list[str], targets: list[str]) -> None:
        """Copy files, for as long as parts of them come or go."""
        from fsspec.callbacks import Callback

        store = self

        class Moved(Callback):  # type: ignore[misc]
            """What fsspec tells of every part that has come or gone."""

            def relative_update(self, inc: int = 1) -> None:
                store._moved = time.monotonic()

            def branched(self, *_: object, **__: object) -> "Moved":
                return self

        self._ask(lambda: copy(sources, targets, callback=Moved(), **self._at_once()))

    def _ask(self, call: Callable[[], T], wait_s: float = _STALLED_S) -> T:
        """What `call` gives, in a thread that is left behind where nothing has come for so long.

        Raises TracekitError for whatever it raises.
        """
        outcome: list[Any] = []
        over = threading.Event()

        def answer() -> None:
            try:
                outcome.append((call(), None))
            except BaseException as error:
                outcome.append((None, error))
            over.set()

        self._moved = time.monotonic()
        threading.Thread(target=answer, name="tracekit-remote", daemon=True).start()
        while not over.wait(max(self._moved + wait_s - time.monotonic(), 0)):
            if time.monotonic() - self._moved >= wait_s:
                raise TracekitError(
                    f"{self.url} cannot be {self._done}: its store did not answer within {wait_s:g} s. Check the name, "
                    f"the network and the credentials, or let it take longer ({WAIT_VARIABLE}, in seconds)."
                )
        value, error = outcome[0]
        if error is not None:
            raise self._failure(error)
        result: T = value
        return result

    def _failure(self, error: BaseException) -> TracekitError:
        """The sentence for what fsspec or a package below it has raised."""
        failure = TracekitError(f"{self.url} cannot be {self._done}: {self._reason(error)}")
        failure.__cause__ = error
        return failure

    def _reason(self, error: BaseException) -> str:
        protocol = self.url.partition("://")[0].rpartition("::")[2]
        if isinstance(error, ImportError):
            return f"{protocol}:// needs a package. {_install(error, protocol)}"
        if isinstance(error, ValueError) and "rotocol" in str(error):
            return f"fsspec knows no protocol {protocol}://. Check its spelling, or install the package that brings it."
        text = " ".join(str(error).split())[:_LONGEST_REASON].rstrip(".") or type(error).__name__
        return f"{text}. Check the name and the credentials."


def _install(error: ImportError, protocol: str) -> str:
    """Which package to install for a protocol."""
    extra = {"s3": "tracekit-jax[s3]", "s3a": "tracekit-jax[s3]", "gs": "gcsfs", "gcs": "gcsfs"}.get(protocol)
    if extra is None and (error.name or "").partition(".")[0] == "fsspec":
        extra = "fsspec"
    return f"Install it: pip install {extra!r}." if extra else f"{str(error).rstrip('.')}."


def _file(key: str, info: Mapping[str, Any]) -> _File:
    """What a store says of a file. With neither a version nor a time it is fetched each time."""
    version = [f"{name}={info[name]}" for name in (*_VERSIONS, *_TIMES) if info.get(name)]
    when = next((info[name] for name in _TIMES if info.get(name)), None)
    return _File(key, int(info.get("size") or 0), _timestamp(when), "\0".join(version))


def _timestamp(when: object) -> float:
    """A time as a store gives it, in s since 1970; 0 where it gives none."""
    with suppress(ValueError):
        if isinstance(when, str):
            when = datetime.fromisoformat(when)
    return when.timestamp() if isinstance(when, datetime) else float(when) if isinstance(when, int | float) else 0.0


def _is_path(name: str) -> bool:
    return "\0" not in name and all(part not in ("", ".", "..") for part in name.split("/"))


def _number(variable: str, default: float) -> float:
    """The number in an environment variable. Raises TracekitError where that is none."""
    try:
        return float(os.environ.get(variable) or default)
    except ValueError:
        raise TracekitError(f"{variable}={os.environ[variable]!r} is not a number.") from None


class _Cache:
    """The files of stores on this machine, by version, and the `view` of one reader: links to them under their names.

    The links keep what is being read where another process removes it from the cache. The time at which a file's status
    changed, as by a link, says when it was last used.
    """

    def __init__(self, root: Path, view: Path) -> None:
        self.view, self._versions, self._drafts = view, root / "versions", view / ".drafts"

    @classmethod
    @contextmanager
    def opened(cls) -> Iterator["_Cache"]:
        """The cache, with an empty view that is removed at the end."""
        with cache_directory("remote") as root:
            for directory in (root / "versions", root / "views"):
                directory.mkdir(exist_ok=True)
            # Letters only: a number would be taken for that of a process.
            name = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(12))
            view = root / "views" / name
            with _lock(view.with_suffix(".lock")):
                (view / ".drafts").mkdir(parents=True)
                try:
                    yield cls(root, view)
                finally:
                    shutil.rmtree(view, ignore_errors=True)
                    _remove_ended(root / "views")
                    trim(root / "versions")

    def sketch(self, files: Mapping[Path, _File], store: _Store, head_bytes: Callable[[str], int]) -> None:
        """Lay files out by their names, each as long and as old as it is, with only its first bytes."""
        counts = {path: min(head_bytes(path.name), file.size) for path, file in files.items()}
        asked = {path: (files[path], f"{count}") for path, count in counts.items() if count}
        new = [path for path, (file, part) in asked.items() if not self._link(path, file, part)]
        heads = store.heads([files[path].key for path in new], [counts[path] for path in new]) if new else []
        for path, text in zip(new, heads, strict=True):
            self._keep(path, *asked[path], lambda draft, text=text: draft.write_bytes(text))  # type: ignore[misc]
        for path in files.keys() - asked.keys():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            _as_in_store(path, files[path])

    def fetch(self, files: Mapping[Path, _File], store: _Store) -> None:
        """Put whole files in their places."""
        new = {path: file for path, file in files.items() if not self._link(path, file)}
        drafts = {path: self._draft() for path in new}
        try:
            if new:
                store.get([file.key for file in new.values()], [*drafts.values()])
                if written := store.written_since(new.values()):  # parts of it may be of one version and of another
                    raise TracekitError(
                        f"{store.url}: {parts(written[0])[-1]} was written while it was read. Read it again when what "
                        "writes it has finished."
                    )
            for path, file in new.items():
                if drafts[path].stat().st_size < file.size:
                    raise TracekitError(f"{store.url}: {path.name} became shorter while it was read. Read it again.")
                self._keep(path, file, "", drafts[path].replace)
        finally:
            for draft in drafts.values():
                draft.unlink(missing_ok=True)

    def _draft(self) -> Path:
        return self._drafts / secrets.token_hex(8)

    def _kept(self, file: _File, part: str) -> Path:
        name = hashlib.sha256("\0".join((file.key, str(file.size), file.version, part)).encode()).hexdigest()
        return self._versions / name

    def _keep(self, path: Path, file: _File, part: str, fill: Callable[[Path], object]) -> None:
        """Let `fill` make a version of a file, and link it to its place."""
        draft = self._draft()
        try:
            fill(draft)
            draft.chmod(0o600)
            _as_in_store(draft, file)
            _placed(draft, path)
            if file.version:
                draft.replace(self._kept(file, part))
        finally:
            draft.unlink(missing_ok=True)

    def _link(self, path: Path, file: _File, part: str = "") -> bool:
        """Put a version of a file in its place, if it is here."""
        with suppress(FileNotFoundError):
            if file.version:
                _placed(self._kept(file, part), path)
                return True
        return False


def _as_in_store(path: Path, file: _File) -> None:
    """Make a file on this machine as long and as old as it is in its store."""
    if path.stat().st_size < file.size:
        os.truncate(path, file.size)
    os.utime(path, (file.modified, file.modified))


def _placed(source: Path, path: Path) -> None:
    """Link a file to a path, in place of what is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    try:
        os.link(source, path)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links, or with too many to this file
        shutil.copy2(source, path)


@contextmanager
def cache_directory(name: str) -> Iterator[Path]:
    """The directory of the cache called `name`, which nobody else can look into; a temporary one where it cannot be
    used."""
    # https://specifications.freedesktop.org/basedir-spec/, where relative paths are void.
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        home = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
        root = (given if given.is_absolute() else home) / "tracekit" / name
        root.mkdir(parents=True, exist_ok=True)
        root.chmod(0o700)  # which only its owner may
        with tempfile.TemporaryFile(dir=root):
            pass
    except (OSError, RuntimeError):  # RuntimeError: this user has no home
        with tempfile.TemporaryDirectory(prefix="tracekit-", ignore_cleanup_errors=True) as directory:
            yield Path(directory)
        return
    yield root


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock file, which tells other processes that this one is there."""
    import fcntl

    with path.open("w") as file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _remove_ended(views: Path) -> None:
    """Remove the views of processes that were ended."""
    import fcntl

    with suppress(OSError):  # another process may do the same
        for lock in views.glob("*.lock"):
            with suppress(OSError), lock.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink(missing_ok=True)


def trim(directory: Path) -> None:
    """Remove the files of a cache that were not used for longest, until the others fit into what the user gave it."""
    most_bytes = int(_number(CACHE_VARIABLE, _CACHE_GB) * 1e9)
    with suppress(OSError):  # another process may do the same
        kept = [(entry.stat(), entry.path) for entry in os.scandir(directory)]
        excess = sum(status.st_blocks * 512 for status, _ in kept) - most_bytes
        for status, path in sorted(kept, key=lambda each: each[0].st_ctime):
            if excess <= 0:
                break
            with suppress(OSError):
                os.unlink(path)
            excess -= status.st_blocks * 512
