"""Several hosts: which they are, what they are, and how a launch runs on them and ends on all."""
