"""The laboratory: single collectives, and matrix products over workers, measured alone."""
