"""The one exception that building Horovod raises for what a user can put right."""


class BuildError(Exception):
    """Something that the user can put right; the message is one sentence with cause and remedy."""
