"""Many launches: folder, order, rounds, and one file for each kind of session."""
