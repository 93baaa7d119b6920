"""What every strategy has to compute: the task, its rows, the maths, and the oracle that knows the answer."""
