"""What goes wrong with a model or its files."""


class ModelError(ValueError):
    """A model, or a file of one, was refused; the message is one sentence that says why."""
