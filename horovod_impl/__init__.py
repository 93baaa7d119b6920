"""Horovod's ways to train the MLP, and what building Horovod takes."""
