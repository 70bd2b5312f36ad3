"""Write docs/api.md from the code: `python -m tests.docs.reference` renews it."""

import dataclasses
import inspect
import re
import textwrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tracekit
from tests.docs.blocks import ROOT
from tracekit.timeline.timeline import Source, Windows

PAGE = ROOT / "docs" / "api.md"
HEAD = """# The Python interface

Generated from the docstrings by `python -m tests.docs.reference`. The frames and their columns are described in
[`Trace`](events-frame.md), the terms in [concepts](concepts.md).
"""
# What has no docstring of its own.
_TEXTS = {
    "Source": "What a function takes a trace from: its path, a `Trace`, its events frame or a `Timeline`.",
    "Windows": (
        "The part of a trace that counts: one pair (start_ps, end_ps), an int64 array of shape (n, 2) of them, such "
        "arrays by clock, or a frame of named windows with the columns clock, name, start_ps and end_ps; all "
        "half-open, in picoseconds."
    ),
}
# Types that signatures show by name.
_ALIASES: dict[str, Any] = {
    "Source": Source,
    "Windows": Windows,
    **{f"NDArray[{name}]": NDArray[getattr(np, name)] for name in ("int64", "int32", "float64", "bool")},
    "NDArray[integer]": NDArray[np.integer[Any]],
}


def _prose(text: str) -> str:
    """A docstring as paragraphs of this page: its own line ends are the code's."""
    parts = (re.sub(r"\s*\n\s*", " ", part) for part in inspect.cleandoc(text).split("\n\n"))
    return "\n\n".join(textwrap.fill(part, 120, break_long_words=False, break_on_hyphens=False) for part in parts)


def _parameters(function: object) -> str:
    """The parameters and the result of a function, types without their modules."""
    text = str(inspect.signature(function))  # type: ignore[arg-type]
    for name, alias in _ALIASES.items():
        shown = inspect.formatannotation(alias)
        # In a union Python 3.14 shows Any without its module.
        text = text.replace(shown, name).replace(shown.replace("typing.Any", "Any"), name)
    modules = r"\b(?:tracekit\.\w+(?:\.\w+)*|pandas|pathlib|concurrent\.futures\._base|collections\.abc|typing)\.(?=\w)"
    text = re.sub(modules, "", text)
    return text.replace("'", "").replace("_local.", "").replace("core.frame.", "")


def _signature(name: str, function: object) -> str:
    text = f"tracekit.{name}{_parameters(function)}"
    if len(text) > 100:
        inner, _, result = text.partition("(")[2].rpartition(") -> ")
        parts = re.split(r", (?![^\[]*\])", inner)
        text = "\n".join([f"tracekit.{name}(", *(f"    {part}," for part in parts), f") -> {result}"])
    return text


def entry(name: str) -> str:
    """One public name: its signature, its docstring and, of a data class or an enum, its fields."""
    value = getattr(tracekit, name)
    lines = [f"## {name}", ""]
    if inspect.isfunction(value):
        lines += ["```python", _signature(name, value), "```", ""]
    lines.append(_prose(_TEXTS.get(name) or value.__doc__ or ""))
    if dataclasses.is_dataclass(value):
        fields = [field for field in dataclasses.fields(value) if not field.name.startswith("_")]
        lines += ["", "Fields: " + ", ".join(f"`{field.name}`" for field in fields) + "."]
    elif hasattr(value, "__members__"):
        lines += ["", "Members: " + ", ".join(f"`{member}`" for member in value.__members__) + "."]
    if inspect.isclass(value) and not issubclass(value, Exception):
        for method, member in vars(value).items():
            if inspect.isfunction(member) and not method.startswith("_") and member.__doc__:
                lines += ["", f"**`.{method}{_parameters(member)}`** {_prose(member.__doc__)}"]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page, names in alphabetical order."""
    return "\n".join(
        [HEAD, *(entry(name) for name in sorted(tracekit.__all__, key=str.lower) if not name.startswith("_"))]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
