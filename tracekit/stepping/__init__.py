"""The steps of a run: where they begin and end, and which rows belong to them."""
