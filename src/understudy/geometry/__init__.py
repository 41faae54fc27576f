"""Functions on plain arrays, one idea per file. They use none of the package's classes."""
