"""pyarrow, which is an extra and has no types: the one place that imports it."""

from importlib import import_module
from typing import Any, TypeAlias

try:
    pa: Any = import_module("pyarrow")
    pc: Any = import_module("pyarrow.compute")
    pa_csv: Any = import_module("pyarrow.csv")
    pa_json: Any = import_module("pyarrow.json")
except ImportError as error:
    raise ImportError("amforest.reading needs pyarrow: pip install amforest[cli]") from error

Array: TypeAlias = Any  # pa.Array
RecordBatch: TypeAlias = Any  # pa.RecordBatch
DataType: TypeAlias = Any  # pa.DataType
