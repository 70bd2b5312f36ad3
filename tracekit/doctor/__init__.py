"""Say whether tracekit works on this machine: facts are gathered apart from what is thought of them."""
