"""JAX's ways to train the MLP, one file each."""
