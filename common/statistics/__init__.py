"""Intervals, pairs within rounds, judging a family, and fits: arrays in and out."""
