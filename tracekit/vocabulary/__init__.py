"""What profilers call things, each list once."""
