"""What artifacts that travel cost and reach: a system over two homes, the rate of each store, a run's overhead."""
