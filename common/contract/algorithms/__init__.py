"""Algorithms of an all-reduce, to read: who sends what to whom, and in which order."""
