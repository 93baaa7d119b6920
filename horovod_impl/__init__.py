"""Horovod's ways to train the model, and what building Horovod takes."""
