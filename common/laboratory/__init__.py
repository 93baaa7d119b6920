"""The laboratory: single collectives, measured alone."""
