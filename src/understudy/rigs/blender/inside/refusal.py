"""The error for what cannot be done; its text is for the user."""


class Refused(Exception):
    """What is asked cannot be done."""
