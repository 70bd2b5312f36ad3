"""What exposed time costs: whose it is, where it comes from, what ran meanwhile."""
