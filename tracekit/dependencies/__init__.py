"""What had to wait for what, as far as a trace proves it: the graph behind the critical path."""
