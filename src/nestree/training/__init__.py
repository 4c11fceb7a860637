"""Training: from annotated text to a model in a folder."""

from nestree.training.config import PRESETS, TrainConfig, preset, read_config
from nestree.training.data import Corpus, load_part, prepare, together
from nestree.training.errors import TrainingError
from nestree.training.loop import train
from nestree.training.progress import Progress
from nestree.training.state import Result

__all__ = [
    "PRESETS",
    "Corpus",
    "Progress",
    "Result",
    "TrainConfig",
    "TrainingError",
    "load_part",
    "prepare",
    "preset",
    "read_config",
    "together",
    "train",
]
