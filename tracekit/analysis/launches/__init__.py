"""Launches: latency, queue depth, tiny kernels."""
