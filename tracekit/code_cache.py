"""Compiled code, kept on disk for the next process: whole, private, and never a reason to stop.

numba's own cache ends a program where it finds no directory to write to, a full disk or a damaged file, and runs what
lies in a directory that other accounts may write to. Its places are kept (NUMBA_CACHE_DIR, beside the package, the
user's cache directory), and the rest is done here.
"""

import hashlib
import logging
import os
import pickle
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tracekit.version import __version__

_SUFFIX = ".code"
_HOME = "XDG_CACHE_HOME"
_DIGEST_BYTES = hashlib.sha256().digest_size
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_UNKEPT, _DAMAGED = "unkept", "damaged"  # each module has a folder of its own, of which the same is true
_said: set[str] = set()
_REMEDY = "Large traces compile it again in every run; set NUMBA_CACHE_DIR to a private directory"


def keep(jitted: Any, before_compiling: Callable[[], None] = lambda: None) -> None:
    """Let a function compiled by numba keep its code on disk, if there is a private place for it; else say why not.

    `before_compiling` is called where it is not sure that nothing has to be compiled.
    """
    try:
        with _absolute_home():
            jitted.enable_caching()
    except (OSError, RuntimeError):
        _say(_UNKEPT, f"Compiled code cannot be kept: no directory for it is writable. {_REMEDY}.")
        before_compiling()
        return
    code = CodeCache(jitted._cache, before_compiling)
    if code.is_private():
        jitted._cache = code
    else:
        from numba.core.caching import NullCache

        jitted._cache = NullCache()
        before_compiling()
        _say(_UNKEPT, f"Compiled code is not kept in {code.folder}, which belongs to another account. {_REMEDY}.")


class CodeCache:
    """The code of one function, in a file per signature: a digest of all behind it, what it was compiled of, the code.

    It stands where numba has its FunctionCache, whose place and serialisation it uses.
    """

    def __init__(self, files: Any, before_compiling: Callable[[], None]) -> None:
        self._files = files
        self._before_compiling = before_compiling
        self.folder = self.cache_path = Path(files.cache_path)
        self._package = Path(files._py_func.__code__.co_filename).parent

    def is_private(self) -> bool:
        """Whether nobody writes to the folder who could not write the program itself.

        An own folder that others may write to becomes private; what was in it is not trusted.
        """
        try:
            found = self.folder.stat()
            if not self._is_trusted(found, owner_only=True):
                return False
            if not self._is_trusted(found):
                self.folder.chmod(found.st_mode & ~_WRITABLE_BY_OTHERS)
                for path in self.folder.glob(f"*{_SUFFIX}"):
                    path.unlink()
        except OSError:
            return False
        return True

    def _is_trusted(self, found: os.stat_result, *, owner_only: bool = False) -> bool:
        """Whether a file or folder belongs to this account, to root, or to who owns the program that it lies beside,
        and nobody else may write to it who may not write there."""
        owners, allowed = {0, os.geteuid()}, 0
        if self.folder.parent == self._package:
            beside = self._package.stat()
            owners.add(beside.st_uid)
            allowed = beside.st_mode
        return found.st_uid in owners and (owner_only or not found.st_mode & ~allowed & _WRITABLE_BY_OTHERS)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for a signature, None where none is kept that is whole and of this program.

        numba refreshes its context here, with all that it can compile: a tenth of a second and 10 MB, of which code
        that is there needs the runtime alone. What is compiled later refreshes it first.
        """
        from numba.core.runtime.nrt import rtsys

        rtsys.initialize(target_context)
        code = self._loaded(sig, target_context)
        if code is None:
            self._before_compiling()
        return code

    def _loaded(self, sig: Any, target_context: Any) -> Any:
        path, origin = self._place(sig, target_context.codegen())
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for
                raise ValueError(path)
            with path.open("rb") as file:
                if not self._is_trusted(os.fstat(file.fileno())):
                    return None
                digest, content = file.read(_DIGEST_BYTES), file.read()
            if digest == hashlib.sha256(content).digest():
                compiled_of, data = pickle.loads(content)
                if compiled_of != origin:  # only then may another numba be unable to load the code
                    return None
                return self._files._impl.rebuild(target_context, pickle.loads(data))
        except FileNotFoundError:
            return None
        except Exception:  # whatever a numba of another build makes of it
            pass
        _say(_DAMAGED, f"Compiled code in {self.folder} was damaged; it is compiled again.")
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for a signature; where that fails, it is only not kept."""
        if not self._files._impl.check_cachable(data):
            return
        from numba.core import serialize

        path, origin = self._place(sig, data.codegen)
        content: bytes = serialize.dumps((origin, serialize.dumps(self._files._impl.reduce(data))))
        try:
            with _replacement(path) as file:
                file.write(hashlib.sha256(content).digest() + content)
        except OSError as error:
            _say(_UNKEPT, f"Compiled code cannot be kept in {self.folder}: {error.strerror}. {_REMEDY}.")

    def flush(self) -> None:
        """Keep nothing of what was kept."""
        for path in self.folder.glob(f"{self._files._impl.filename_base}.*{_SUFFIX}"):
            path.unlink(missing_ok=True)

    def _place(self, sig: Any, codegen: Any) -> tuple[Path, tuple[str, ...]]:
        """The file of a signature, and what its code depends on: versions, the source, the machine."""
        import numba

        implementation = self._files._impl
        key = repr(self._files._index_key(sig, codegen))
        name = f"{implementation.filename_base}.{hashlib.sha256(repr(sig).encode()).hexdigest()[:16]}{_SUFFIX}"
        stamp = repr(implementation.locator.get_source_stamp())
        return self.folder / name, (numba.__version__, __version__, stamp, key)


@contextmanager
def _absolute_home() -> Iterator[None]:
    """XDG_CACHE_HOME is not set inside if it is relative, and so void (https://specifications.freedesktop.org/
    basedir-spec/): numba would keep code in the working directory."""
    given = os.environ.get(_HOME)
    if given is None or os.path.isabs(given):
        yield
        return
    del os.environ[_HOME]
    try:
        yield
    finally:
        os.environ[_HOME] = given


@contextmanager
def _replacement(path: Path) -> Iterator[Any]:
    """A file that takes the place of `path` when it is whole, and that only this account writes."""
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            yield file
            os.fchmod(file.fileno(), 0o644)  # others who run this program may read it
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def _say(what: str, sentence: str) -> None:
    """Tell the user one thing once, of the first folder: on stderr, unless the program that uses tracekit handles its
    log."""
    if what not in _said:
        _said.add(what)
        logging.getLogger("tracekit").warning("tracekit: %s", sentence)
