"""Where each step begins and ends."""
