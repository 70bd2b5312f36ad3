"""What devices are able to do, from the trace or from data sheets."""
