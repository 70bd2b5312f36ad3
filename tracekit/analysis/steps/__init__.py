"""Steps: how long, what in them, which stand out."""
