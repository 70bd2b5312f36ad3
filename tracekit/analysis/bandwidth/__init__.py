"""Bandwidth and utilisation against what the hardware can do."""
