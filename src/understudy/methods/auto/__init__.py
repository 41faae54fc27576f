"""The cheapest deformer that keeps a budget of error, time and bytes."""
