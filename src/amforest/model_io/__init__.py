"""The model file, checkpoints, and writes that never leave half a file."""

from amforest.model_io.checkpoint import Checkpoint, newest_checkpoint
from amforest.model_io.model_file import (
    ModelFormatError,
    NewerFormatError,
    extra_of,
    from_bytes,
    load,
    save,
    to_bytes,
)

__all__ = [
    "Checkpoint",
    "ModelFormatError",
    "NewerFormatError",
    "extra_of",
    "from_bytes",
    "load",
    "newest_checkpoint",
    "save",
    "to_bytes",
]
