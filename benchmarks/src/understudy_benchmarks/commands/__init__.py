"""The sub-commands that this distribution adds to the command line."""
