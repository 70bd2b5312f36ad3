"""Two variants of one program compared: what changed between their traces, and whether that can be told from noise."""
