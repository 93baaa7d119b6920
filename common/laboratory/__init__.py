"""The experiments, one file each: what is varied, what is launched, what a record observes, how it is shown."""
