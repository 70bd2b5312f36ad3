"""A trace put in order, once: rows, unions, launches, collectives, steps, gaps."""
