"""Blocks to a PDF and a page."""
