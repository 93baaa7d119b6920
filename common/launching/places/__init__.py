"""Where processes are started: this machine, or a host that is reached somehow. All do the same, and little."""
