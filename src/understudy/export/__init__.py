"""A deformer as stock engines play it: rigid bones, few influences, blend shapes, baked clips."""
