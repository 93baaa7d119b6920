"""Isolated environments: what each is made from, and how it is made."""
