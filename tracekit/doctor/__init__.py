"""Say whether tracekit works on this machine: facts are gathered first, and then judged."""
