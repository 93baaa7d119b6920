"""Hosts on which processes are started, each reached in its own way. All do the same, and little."""
