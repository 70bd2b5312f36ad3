"""The names of kernels and ops, as profilers write them, to read: without types and parameters, and as words."""

import re
from functools import lru_cache

_MANGLED = re.compile(r"_Z(?:N[KV]*|L)?(?=\d)")
_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])|[^A-Za-z0-9]+")


def function(name: str) -> str:
    """The function that a kernel's name tells, with its namespaces: no return type, template arguments or parameters.

    Of a name that C++ mangled (`_ZN5aiter26cross_device_reduce_2stageI…`), the identifiers. What is no C++ stays.
    """
    if mangled := _MANGLED.match(name):
        parts, at = [], mangled.end()
        while length := re.match(r"\d+", name[at:]):
            at += length.end() + int(length[0])
            parts.append(name[at - int(length[0]) : at])
        return "::".join(parts)
    bare = name.replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    return re.split(r"[<(]", bare, maxsplit=1)[0].removeprefix("void ")


@lru_cache(4096)  # a name is asked for its kind, then for its collective
def words(name: str) -> str:
    """The last part of a function's name as words: `x::RaggedAllToAllKernel<8>` is "ragged all to all kernel"."""
    return _BOUNDARY.sub(" ", function(name).rpartition("::")[2]).lower().strip()
