"""The model file, checkpoints, and writing that loses nothing."""

from amforest.model_io.checkpoint import Checkpoint
from amforest.model_io.model_file import from_bytes, load, save, to_bytes

__all__ = ["Checkpoint", "from_bytes", "load", "save", "to_bytes"]
