"""The contract's MLP in plain NumPy, alone and over mpi4py: a framework as somebody would add it."""
