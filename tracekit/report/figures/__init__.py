"""Figures for papers and pull requests: each a pure function of a view of a trace, which returns a drawing."""

from tracekit.errors import TracekitError

# Said here, where every module of figures passes.
try:
    import matplotlib  # noqa: F401
except ModuleNotFoundError:
    raise TracekitError(
        "matplotlib is not installed in this Python, and figures need it; `pip install matplotlib` brings it."
    ) from None
