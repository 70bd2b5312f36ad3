"""Collectives: waiting, transfer, bandwidth, stragglers."""
