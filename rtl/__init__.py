"""Hardware: one package per block, and the configuration they are all built from."""
