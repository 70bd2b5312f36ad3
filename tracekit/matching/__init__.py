"""Collectives over their devices: which rows are one, who came late, how fast it was."""
