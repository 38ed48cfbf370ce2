"""Reading: from files and pipes to typed batches of rows, at constant memory.

Needs pyarrow.
"""

from amforest.reading.batches import Batch, Reject, RejectedRow, split_target
from amforest.reading.columns import KINDS, Column, parse_types
from amforest.reading.dates import expand_dates
from amforest.reading.names import StreamError
from amforest.reading.opening import open_stream
from amforest.reading.sources import FORMATS
from amforest.reading.stream import Stream

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
