"""Reading: files and pipes as batches of typed rows, at constant memory.

Needs pyarrow. The modules, in the order in which they import each other:

- `sources`: which files to read, and their bytes
- `conversion`: text to numbers, bools, categories and dates; dates to features
- `schema`: columns, and the kinds that are requested or inferred
- `batches`: batches, rejects, and the conversion of a block to a batch
- `records`: the bytes of CSV and JSON, split into records with line numbers
- `csv_reader`, `ndjson_reader` (with `ndjson_parser`), `arrow_reader`: one reader per format
- `running_scale`, `scheme`: which columns become the features and labels of a model
- `stream`: `open_stream` and the stream that it returns
"""

try:
    import pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError("amforest.reading needs pyarrow: pip install 'amforest[cli]'") from error

from amforest.reading.batches import Batch, Reject, RejectedRow, split_target
from amforest.reading.conversion import expand_dates
from amforest.reading.schema import KINDS, Column, parse_types
from amforest.reading.scheme import CLASSIFICATION, REGRESSION, Scheme, drop_unique_text
from amforest.reading.sources import FORMATS, StreamError
from amforest.reading.stream import Stream, open_stream

__all__ = [
    "CLASSIFICATION",
    "FORMATS",
    "KINDS",
    "REGRESSION",
    "Batch",
    "Column",
    "Reject",
    "RejectedRow",
    "Scheme",
    "Stream",
    "StreamError",
    "drop_unique_text",
    "expand_dates",
    "open_stream",
    "parse_types",
    "split_target",
]
