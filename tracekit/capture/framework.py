"""Which framework's profiler suits a script: what it imports tells, without running it."""

import ast
from contextlib import suppress
from pathlib import Path

FRAMEWORKS = ("jax", "torch")
# Packages that come with a framework: who imports one imports that.
_OF_TORCH = frozenset({"torch", "torchvision", "torchaudio", "lightning", "pytorch_lightning", "accelerate"})
_OF_JAX = frozenset({"jax", "jaxlib", "flax", "optax", "equinox", "haiku"})
_MOST_FILES = 200  # of the script that are looked through for what it imports


def framework_of(script: str, module: bool) -> str:
    """The framework whose profiler suits a script: torch if it, or what it imports from its own directory, imports
    torch and not jax; else jax.

    Imports are read, not run: what a name that is made at run time imports is not found.
    """
    home = Path.cwd() if module else Path(script).resolve().parent
    start = home.joinpath(*script.split(".")) if module else Path(script)
    pending = [start.with_suffix(".py"), start / "__main__.py"] if module else [start]
    found, seen = set[str](), set[Path]()
    while pending and len(seen) < _MOST_FILES:
        path = pending.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        for name in _imports(path):
            first = name.partition(".")[0]
            found.add(first)
            if first not in _OF_TORCH | _OF_JAX:  # a directory of experiments may be called after a framework
                part = home.joinpath(*name.split("."))
                pending += [part.with_suffix(".py"), part / "__init__.py"]
    return "torch" if found & _OF_TORCH and not found & _OF_JAX else "jax"


def _imports(path: Path) -> set[str]:
    """The full names of the modules that a file imports anywhere; none of one that is not Python."""
    names: set[str] = set()
    with suppress(OSError, SyntaxError, ValueError):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names
