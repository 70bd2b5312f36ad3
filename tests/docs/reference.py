"""Write docs/api.md from the code: `python -m tests.docs.reference` renews it."""

import dataclasses
import inspect
import re
import textwrap

import tracekit
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs" / "api.md"
HEAD = """# The Python interface

Generated from the docstrings by `python -m tests.docs.reference`. The frames and their columns are described in
[`Trace`](events-frame.md), the terms in [concepts](concepts.md).
"""


def _prose(text: str) -> str:
    """A docstring as paragraphs of this page: its own line ends are the code's."""
    parts = (re.sub(r"\s*\n\s*", " ", part) for part in inspect.cleandoc(text).split("\n\n"))
    return "\n\n".join(textwrap.fill(part, 120, break_long_words=False, break_on_hyphens=False) for part in parts)


def _signature(name: str, function: object) -> str:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    plain = re.sub(r"\b(?:tracekit\.\w+(?:\.\w+)*|pandas|pathlib|collections\.abc|typing)\.(?=\w)", "", str(signature))
    plain = plain.replace("'", "").replace("_local.", "").replace("core.frame.", "")
    text = f"tracekit.{name}{plain}"
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
    lines.append(_prose(value.__doc__ or ""))
    if dataclasses.is_dataclass(value):
        fields = [field for field in dataclasses.fields(value) if not field.name.startswith("_")]
        lines += ["", "Fields: " + ", ".join(f"`{field.name}`" for field in fields) + "."]
    elif hasattr(value, "__members__"):
        lines += ["", "Members: " + ", ".join(f"`{member}`" for member in value.__members__) + "."]
    if inspect.isclass(value) and not issubclass(value, Exception):
        for method, member in vars(value).items():
            if inspect.isfunction(member) and not method.startswith("_") and member.__doc__:
                lines += ["", f"**`.{method}{inspect.signature(member)}`** {_prose(member.__doc__)}"]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page, names in alphabetical order."""
    return "\n".join(
        [HEAD, *(entry(name) for name in sorted(tracekit.__all__, key=str.lower) if not name.startswith("_"))]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
