"""The top offenders: what cost most, where, and what ran meanwhile."""
