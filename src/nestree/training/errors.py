"""What can go wrong in a run beside its data."""


class TrainingError(OSError):
    """A run cannot start or go on; says why and what to do."""
