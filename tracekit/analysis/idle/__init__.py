"""Idle time and its causes."""
