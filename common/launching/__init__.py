"""Start one program in one place, and always end it."""
