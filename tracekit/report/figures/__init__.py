"""Figures for papers and pull requests: each a pure function of a view of a trace, which returns a drawing."""
