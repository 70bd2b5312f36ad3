"""The errors a user can meet; each message says what happened, where, and what to do next."""

import sys
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path

on_damage: ContextVar[Callable[[str, str], object]] = ContextVar("on_damage", default=lambda sentence, remedy: None)
"""Is called with a sentence on each trace that is damaged when it is read, and with what to do; what it raises ends
that."""

_PACKAGE = Path(__file__).parent


class TracekitError(Exception):
    """Base of all errors that the command line prints as one sentence, without a traceback."""

    exit_code = 1


class TraceError(TracekitError):
    """A trace that is missing, broken or not of a format that tracekit reads."""


class NoStepsError(TraceError):
    """A file that does not hold the steps that were asked for; it may be whole."""


class CaptureError(TracekitError):
    """A capture that cannot start, or that left no trace."""


class ViewError(TracekitError):
    """A viewer that cannot be started."""


class NotMeasurable(TracekitError):
    """A measure that the trace cannot tell, and why."""

    exit_code = 4


def fault(error: BaseException) -> str:
    """What a mistake of the program is called by who reports it: the type of an exception, and where it was raised or
    passed in the package last."""
    place, at = "", error.__traceback__
    while at is not None:
        file = Path(at.tb_frame.f_code.co_filename)
        if file.is_relative_to(_PACKAGE):
            place = f" in {file.relative_to(_PACKAGE).as_posix()}, line {at.tb_lineno}"
        at = at.tb_next
    return f"{type(error).__name__}{place}"


def missing_package(error: BaseException) -> str | None:
    """The sentence on a package that an import did not find, None of other errors and of modules of this package."""
    name = ((isinstance(error, ModuleNotFoundError) and error.name) or "").partition(".")[0]
    if not name or name == _PACKAGE.name:
        return None
    return (
        f"{name} is not installed in this Python ({sys.executable}), and tracekit needs it: install it there, or "
        "tracekit anew with all that it needs."
    )


def reason(error: Exception) -> str:
    """What is wrong with a file that tracekit wrote, as the end of a sentence, by what reading it raised.

    Of a key that is missing Python tells the key alone.
    """
    text = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    words = " ".join(text.split()).rstrip(" .")
    if isinstance(error, KeyError) and " " not in words:
        return f"it has no {words}" if words else "it lacks something"
    if isinstance(error, AttributeError | IndexError | TypeError):  # in Python's words
        return f"it is not as tracekit writes it ({words or type(error).__name__})"
    return words or type(error).__name__
