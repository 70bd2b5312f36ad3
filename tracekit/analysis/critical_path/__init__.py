"""The critical path: a graph of dependencies, its replay and its longest path."""
