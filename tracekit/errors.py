"""The errors a user can meet; each message says what happened, where, and what to do next."""


class TracekitError(Exception):
    """Base of all errors that the command line prints as one sentence, without a traceback."""

    exit_code = 1


class TraceError(TracekitError):
    """A trace that is missing, broken or not of a format that tracekit reads."""


class CaptureError(TracekitError):
    """A capture that cannot start, or that left no trace."""


class ViewError(TracekitError):
    """A viewer that cannot be started."""


class NotMeasurable(TracekitError):
    """A measure that the trace cannot tell, and why."""

    exit_code = 4
