"""Where and why devices stand idle: gaps, what the host's threads did, who waited for what, and the causes."""
