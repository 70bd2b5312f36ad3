"""Which rows of which devices are one collective."""
