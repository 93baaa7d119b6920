"""A user's own training, refereed by the recipe of its updates."""
