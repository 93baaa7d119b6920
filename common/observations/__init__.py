"""What launches measured, as one tidy table, and what it tells: medians, who is ahead, and how it grows."""
