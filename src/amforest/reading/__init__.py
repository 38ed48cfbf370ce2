"""Reading: files and pipes as batches of typed rows, at constant memory.

Needs pyarrow.
"""

try:
    import pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError("amforest.reading needs pyarrow: pip install amforest[cli]") from error

from amforest.reading.batches import Batch, Reject, RejectedRow, split_target
from amforest.reading.conversion import expand_dates
from amforest.reading.schema import KINDS, Column, parse_types
from amforest.reading.sources import FORMATS, StreamError
from amforest.reading.stream import Stream, open_stream

__all__ = [
    "FORMATS",
    "KINDS",
    "Batch",
    "Column",
    "Reject",
    "RejectedRow",
    "Stream",
    "StreamError",
    "expand_dates",
    "open_stream",
    "parse_types",
    "split_target",
]
