"""One skeleton over the bones of a sequence (`skeleton_fit`)."""
