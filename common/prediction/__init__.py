"""What a step would take elsewhere: a step as a graph of events, what was measured, and predictions with bands."""
