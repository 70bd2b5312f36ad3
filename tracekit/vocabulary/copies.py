"""Copies: in which directions they go."""

# Host to device, device to host, within one device, between two devices.
DIRECTIONS = ("H2D", "D2H", "D2D", "P2P")
