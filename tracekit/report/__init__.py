"""The report: one result, assembled once, then rendered as text, figure, tables and JSON."""
