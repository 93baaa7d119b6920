"""What a launch leaves: records, read and checked and written, and what follows from them alone."""
