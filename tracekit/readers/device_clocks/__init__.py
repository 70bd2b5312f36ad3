"""The clocks of the devices of one file against its host's."""

from tracekit.readers.device_clocks.fitted_trace import fit

__all__ = ["fit"]
