"""NVTX ranges, which Nsight Systems records: marked as NVTX's own headers do, for which no package is needed.

A tool names its library in NVTX_INJECTION64_PATH. It is given a function that hands out tables, and writes into the
one of the core calls where its own are (nvtxDetail/nvtxTypes.h and nvtxInit.h of https://github.com/NVIDIA/NVTX).
"""

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

VARIABLE = "NVTX_INJECTION64_PATH"
_CALLBACKS, _VERSION = 1, 3  # what the tool asks for: tables of calls, and what version of NVTX this is
# The modules whose tables a tool may ask for, and how many calls each has.
_SIZES = {1: 16, 2: 15, 3: 15, 4: 10, 5: 16, 6: 14}
_CORE, _PUSH, _POP = 1, 9, 11  # nvtxRangePushA, nvtxRangePop
_POINTER_BYTES = ctypes.sizeof(ctypes.c_void_p)

_GetTable = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint))
_SetVersion = ctypes.CFUNCTYPE(None, ctypes.c_uint32)
_GetExport = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)


class _Callbacks(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("get_table", _GetTable))


class _Version(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("version", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("set_version", _SetVersion),
    )


class Ranges:
    """The ranges of the process that the tool at `path` records. Raises OSError where that cannot be loaded,
    AttributeError where it is no such tool."""

    def __init__(self, path: str) -> None:
        # The tool keeps what it is given, and writes into the tables whenever it likes.
        self._calls = {module: (ctypes.c_void_p * size)() for module, size in _SIZES.items()}
        self._tables = {module: _table(calls) for module, calls in self._calls.items()}
        self._callbacks = _Callbacks(ctypes.sizeof(_Callbacks), _GetTable(self._get_table))
        self._version = _Version(ctypes.sizeof(_Version), 3, 0, _SetVersion(lambda version: None))
        self._get_export = _GetExport(self._export)
        initialise = ctypes.CDLL(path).InitializeInjectionNvtx2
        initialise.argtypes, initialise.restype = [_GetExport], ctypes.c_int
        self.is_recorded = bool(initialise(self._get_export))
        push, pop = (self._calls[_CORE][number] for number in (_PUSH, _POP))
        self._push = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(push) if push else None
        self._pop = ctypes.CFUNCTYPE(ctypes.c_int)(pop) if pop else None

    def push(self, name: str) -> None:
        """Open a range in those of this thread."""
        if self._push is not None:
            self._push(name.replace("\0", "").encode())

    def pop(self) -> None:
        """Close the range of this thread that was opened last."""
        if self._pop is not None:
            self._pop()

    @contextmanager
    def range(self, name: str, stats: Mapping[str, object]) -> Iterator[None]:
        """A range around the block, whose name holds `stats`."""
        self.push(encoded(name, stats))
        try:
            yield
        finally:
            self.pop()

    def _get_table(self, module: int, table: Any, size: Any) -> int:
        if module not in self._tables:
            return 0
        if table:
            table[0] = ctypes.addressof(self._tables[module])
        if size:
            size[0] = len(self._tables[module])
        return 1

    def _export(self, number: int) -> int | None:
        exports: dict[int, ctypes.Structure] = {_CALLBACKS: self._callbacks, _VERSION: self._version}
        return ctypes.addressof(exports[number]) if number in exports else None


@lru_cache
def of_this_process() -> Ranges | None:
    """The ranges of this process, None where no tool records them."""
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    try:
        ranges = Ranges(path)
    except (OSError, AttributeError):
        return None
    return ranges if ranges.is_recorded else None


def encoded(name: str, stats: Mapping[str, object]) -> str:
    """The name of a range that is called `name` and has these stats, as TraceMe encodes them (vocabulary.phase_names
    decodes a phase); none of them holds one of # , =."""
    return f"{name}#{','.join(f'{key}={value}' for key, value in stats.items())}#" if stats else name


def _table(calls: "ctypes.Array[ctypes.c_void_p]") -> "ctypes.Array[ctypes.c_void_p]":
    """Where each of the calls is written; there is none of number 0."""
    first = ctypes.addressof(calls)
    places = [first + number * _POINTER_BYTES for number in range(len(calls))]
    return (ctypes.c_void_p * len(calls))(None, *places[1:])
