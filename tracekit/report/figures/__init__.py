"""Figures for papers and pull requests: each a pure function of a view of a trace, which returns a drawing."""

import logging
import os
import sys
from contextlib import suppress

from tracekit.errors import TracekitError

# Said here, where every module of figures passes. Where matplotlib may not write into the home directory, it uses a
# temporary one, or keeps nothing, which takes a second and costs nothing else: that is no warning of the user's.
_log = logging.getLogger("matplotlib")
_level = _log.level
_log.setLevel(logging.ERROR)
# matplotlib refuses to be imported where MPLBACKEND names no backend that it knows; figures here need none of them.
_backend = None if "matplotlib" in sys.modules else os.environ.pop("MPLBACKEND", None)
try:
    import matplotlib
    from matplotlib import font_manager  # noqa: F401 -- which keeps the list of all fonts
except ModuleNotFoundError:
    raise TracekitError(
        "matplotlib is not installed in this Python, and figures need it; `pip install matplotlib` brings it."
    ) from None
finally:
    if _backend is not None:
        os.environ["MPLBACKEND"] = _backend
    _log.setLevel(_level)
if _backend:
    with suppress(ValueError):  # as matplotlib itself does, for whoever uses it after this
        matplotlib.rcParams["backend"] = _backend
