"""Whether the statistics keep their promise on this machine, tried with launches that are known to be equal or not."""
