"""The report on a terminal: its text, a small timeline in characters, and the screen of `tracekit read`."""
