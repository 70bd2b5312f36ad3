"""Run a script under the profiler; nothing here reads a trace."""
