"""Files: the `.understudy` file, the pose store, and one module per format."""
