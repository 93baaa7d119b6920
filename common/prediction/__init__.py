"""What a step would take elsewhere: the step of each graph, what was measured, and predictions with bands."""
