"""A skin chosen by evidence plus correctives of many small regions, predicted by few networks."""
