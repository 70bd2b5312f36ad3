"""How launches kept up: the work that they started, how far apart they are, queues, and kernels too short for them."""
